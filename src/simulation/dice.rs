//! Random numbers that a seed replays.

/// A generator of random numbers (splitmix64: Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The generator of this seed.
    pub const fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A generator for another purpose, independent of what this one does later.
    pub fn fork(&mut self) -> Dice {
        Dice(self.number())
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `sides`; zero if `sides` is.
    #[allow(clippy::cast_possible_truncation)] // The high half is below `sides`.
    pub fn below(&mut self, sides: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(sides)) >> 64) as u64
    }

    /// A number from 0 up to but not 1.
    #[allow(clippy::cast_precision_loss)] // 53 bits fit.
    pub fn fraction(&mut self) -> f64 {
        (self.number() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Whether something happens that happens with this probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.fraction() < probability
    }

    /// A number above 0 up to 1: how likely nothing happens until the next of independent
    /// events does.
    pub fn rest(&mut self) -> f64 {
        1.0 - self.fraction()
    }

    /// The time to the next of independent events, in units of their mean distance.
    pub fn exponential(&mut self) -> f64 {
        -self.rest().ln()
    }
}

/// The weight of the `number`th of things in falling order, from zero: it has the rank
/// r = `number` + 1 and the weight r^-`exponent`; zero for all alike, 1 for Zipf's law.
pub(super) fn weight(number: u32, exponent: f64) -> f64 {
    (f64::from(number) + 1.0).powf(-exponent)
}

/// Draws numbers by their weights, each in constant time (the alias method: Walker,
/// 1977; the tables by Vose, 1991).
#[derive(Clone, Debug)]
pub(super) struct Weighted {
    /// For each number, how likely it is to stand for itself, in 2^-32, and the
    /// number that it stands for otherwise.
    table: Vec<(u32, u32)>,
}

impl Weighted {
    /// Numbers below `count`, each with its [`weight`].
    #[cfg(test)]
    pub(super) fn zipf(count: u32, exponent: f64) -> Weighted {
        Weighted::new((0..count).map(|number| weight(number, exponent)).collect())
    }

    #[allow(clippy::cast_precision_loss)] // There are fewer than 2^32.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Casts saturate.
    pub(super) fn new(mut weights: Vec<f64>) -> Weighted {
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        weights.iter_mut().for_each(|weight| *weight /= mean);
        let mut table: Vec<(u32, u32)> = (0..).take(weights.len()).map(|n| (u32::MAX, n)).collect();
        let numbers = (0..).take(weights.len());
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            numbers.partition(|n| weights[*n as usize] < 1.0);
        while let (Some(less), Some(more)) = (small.pop(), large.last().copied()) {
            let part = weights[less as usize];
            table[less as usize] = ((part * 2_f64.powi(32)) as u32, more);
            weights[more as usize] -= 1.0 - part;
            if weights[more as usize] < 1.0 {
                large.pop();
                small.push(more);
            }
        }
        Weighted { table }
    }

    /// A number.
    #[allow(clippy::cast_possible_truncation)] // The halves are what is wanted.
    pub(super) fn draw(&self, dice: &mut Dice) -> u32 {
        let roll = dice.number();
        let count = self.table.len() as u64;
        let number = ((roll >> 32) * count) >> 32;
        let (own, other) = self.table[number as usize];
        if roll as u32 <= own {
            number as u32
        } else {
            other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_its_numbers() {
        let numbers = |seed| -> Vec<u64> {
            let mut dice = Dice::new(seed);
            (0..8).map(|_| dice.below(1_000)).collect()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn fractions_and_waits_have_their_means() {
        let mut dice = Dice::new(1);
        let mean = |draw: &mut dyn FnMut() -> f64| (0..20_000).map(|_| draw()).sum::<f64>() / 2e4;
        let fraction = mean(&mut || dice.fraction());
        let wait = mean(&mut || dice.exponential());
        assert!((0.49..0.51).contains(&fraction), "{fraction}");
        assert!((0.97..1.03).contains(&wait), "{wait}");
    }

    #[test]
    fn zipfs_law_gives_the_first_its_harmonic_share() {
        let keys = Weighted::zipf(100, 1.0);
        let mut dice = Dice::new(1);
        let mut drawn = [0_u32; 100];
        for _ in 0..100_000 {
            drawn[keys.draw(&mut dice) as usize] += 1;
        }
        // 1 / H(100) = 0.1928, and each rank r has the r-th part of it.
        assert!((18_500..20_000).contains(&drawn[0]), "{drawn:?}");
        assert!((9_100..10_200).contains(&drawn[1]), "{drawn:?}");
        assert!((1_700..2_200).contains(&drawn[9]), "{drawn:?}");
        assert!(drawn.iter().all(|drawn| *drawn > 100), "{drawn:?}");
    }

    #[test]
    fn an_exponent_of_zero_makes_all_alike() {
        let keys = Weighted::zipf(4, 0.0);
        let mut dice = Dice::new(1);
        let mut drawn = [0_u32; 4];
        for _ in 0..40_000 {
            drawn[keys.draw(&mut dice) as usize] += 1;
        }
        assert!(
            drawn.iter().all(|n| (9_500..10_500).contains(n)),
            "{drawn:?}"
        );
    }
}
