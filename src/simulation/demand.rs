//! What is asked of the fleet: how much, of which node, for which key, and when.

use super::dice::{Dice, Weighted};
use crate::units::{Nanos, Timestamp};

/// How the demand is spread over nodes and time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// All nodes get the same.
    Even,
    /// The first node gets this part of all.
    Skewed(f64),
    /// One node gets the part `share` of all, and after each `every` the next one.
    Shifting {
        /// Its part.
        share: f64,
        /// How long a node stays the busy one.
        every: Nanos,
    },
    /// A tenth of the demand until `after` has passed since the start, then all.
    Stepping {
        /// How long the demand is low.
        after: Nanos,
    },
    /// All nodes get the same, but so many checks at a time.
    Bursting(u32),
}

/// One check: when, on which node, for which key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrival {
    pub(super) at: Timestamp,
    pub(super) node: u32,
    pub(super) key: u32,
}

/// Demand as a Poisson process: each check comes independently of all others, but for
/// those of one burst.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    /// Checks a second of the whole fleet.
    rate: f64,
    shape: Shape,
    nodes: u32,
    keys: Weighted,
    start: Timestamp,
    dice: Dice,
}

/// So few checks a second are thin.
const THIN: f64 = 100.0;
/// They are drawn for no longer at a time.
const LONGEST: Nanos = Nanos::from_secs(3_600);
/// More than what rounding adds.
const SURELY: f64 = 1.0 - 1e-9;

impl Demand {
    pub(super) fn new(
        rate: f64,
        shape: Shape,
        nodes: u32,
        keys: Weighted,
        start: Timestamp,
        dice: Dice,
    ) -> Demand {
        Demand {
            rate,
            shape,
            nodes,
            keys,
            start,
            dice,
        }
    }

    /// Until when it may be drawn at a time from `now` on: a millisecond, or as long as a
    /// check takes to come if it is thin; at most until it changes its shape.
    pub(super) fn draw_until(&self, now: Timestamp) -> Timestamp {
        let span = match self.rate < THIN {
            true => seconds(1.0 / self.rate.max(f64::MIN_POSITIVE)).min(LONGEST),
            false => Nanos::from_millis(1),
        };
        let passed = now.since(self.start);
        let change = match self.shape {
            Shape::Shifting { every, .. } => every.times(passed.get() / every.get().max(1) + 1),
            Shape::Stepping { after } if passed < after => after,
            _ => Nanos::MAX,
        };
        now.after(span.min(change.minus(passed).max(Nanos::new(1))))
    }

    /// Adds to `arrivals` the checks that come from `from` until `until`, ordered by
    /// their time. The demand does not change its shape in between.
    pub(super) fn draw(&mut self, from: Timestamp, until: Timestamp, arrivals: &mut Vec<Arrival>) {
        let clump = match self.shape {
            Shape::Bursting(clump) => clump.max(1),
            _ => 1,
        };
        let span = until.since(from).as_secs_f64();
        // The rate that was met last, and how likely it brings nothing in all that time.
        let (mut last, mut nothing) = (0.0, 1.0);
        for node in 0..self.nodes {
            let rate = self.rate_of(node, from) / f64::from(clump);
            if rate <= 0.0 {
                continue;
            }
            if rate != last {
                (last, nothing) = (rate, (-rate * span).exp() * SURELY);
            }
            let mut rest = self.dice.rest();
            if rest < nothing {
                continue; // As the logarithm would say, which takes longer.
            }
            let mut at = from.after(seconds(-rest.ln() / rate));
            while at < until {
                for _ in 0..clump {
                    let key = self.keys.draw(&mut self.dice);
                    arrivals.push(Arrival { at, node, key });
                }
                rest = self.dice.rest();
                at = at.after(seconds(-rest.ln() / rate));
            }
        }
        // Each node's are ordered already, which a stable sort makes use of.
        arrivals.sort_by_key(|arrival| arrival.at);
    }

    /// Checks a second that `node` gets at `now`.
    fn rate_of(&self, node: u32, now: Timestamp) -> f64 {
        let nodes = f64::from(self.nodes);
        let uneven = |busy: u32, share: f64| match self.nodes {
            1 => self.rate,
            _ if node == busy => self.rate * share,
            _ => self.rate * (1.0 - share) / (nodes - 1.0),
        };
        let passed = now.since(self.start);
        match self.shape {
            Shape::Even | Shape::Bursting(_) => self.rate / nodes,
            Shape::Skewed(share) => uneven(0, share),
            Shape::Shifting { share, every } => {
                let turn = passed.get() / every.get().max(1) % u64::from(self.nodes.max(1));
                uneven(u32::try_from(turn).unwrap_or(0), share)
            }
            Shape::Stepping { after } if passed < after => self.rate / nodes / 10.0,
            Shape::Stepping { .. } => self.rate / nodes,
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Casts saturate.
fn seconds(seconds: f64) -> Nanos {
    Nanos::new((seconds * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_nanos(5_000_000_000);

    /// How many checks each of four nodes gets in the second that begins `after` the
    /// start, of 10,000 a second.
    fn shares(shape: Shape, after: Nanos) -> Vec<usize> {
        let keys = Weighted::zipf(10, 1.0);
        let mut demand = Demand::new(10_000.0, shape, 4, keys, START, Dice::new(1));
        let mut arrivals = Vec::new();
        let from = START.after(after);
        demand.draw(from, from.after(Nanos::from_secs(1)), &mut arrivals);
        assert!(arrivals.is_sorted_by_key(|arrival| arrival.at));
        let of = |node| arrivals.iter().filter(|a| a.node == node).count();
        (0..4).map(of).collect()
    }

    #[track_caller]
    fn assert_near(found: &[usize], wanted: [usize; 4]) {
        let near = |(found, wanted): (&usize, usize)| found.abs_diff(wanted) <= wanted / 10 + 50;
        assert!(
            found.iter().zip(wanted).all(near),
            "{found:?}, not {wanted:?}"
        );
    }

    #[test]
    fn each_shape_gives_each_node_its_part() {
        let second = Nanos::from_secs(1);
        assert_near(&shares(Shape::Even, second), [2_500; 4]);
        assert_near(&shares(Shape::Skewed(0.91), second), [9_100, 300, 300, 300]);
        let shifting = Shape::Shifting {
            share: 0.91,
            every: second,
        };
        assert_near(&shares(shifting, second), [300, 9_100, 300, 300]);
        assert_near(&shares(shifting, second.times(4)), [9_100, 300, 300, 300]);
        let stepping = Shape::Stepping { after: second };
        assert_near(&shares(stepping, Nanos::ZERO), [250; 4]);
        assert_near(&shares(stepping, second), [2_500; 4]);
        assert_near(&shares(Shape::Bursting(5), second), [2_500; 4]);
    }

    #[test]
    fn a_burst_comes_all_at_once() {
        let keys = Weighted::zipf(1, 0.0);
        let mut demand = Demand::new(100.0, Shape::Bursting(20), 1, keys, START, Dice::new(3));
        let mut arrivals = Vec::new();
        demand.draw(START, START.after(Nanos::from_secs(10)), &mut arrivals);
        assert!(!arrivals.is_empty());
        let at_once = |burst: &[Arrival]| burst.len() == 20;
        assert!(arrivals.chunk_by(|a, b| a.at == b.at).all(at_once));
    }
}
