use crate::units::{Cost, Nanos, Timestamp};

/// Estimates how much is asked for on this node, refused checks included, in cost per
/// second.
///
/// Two exponentially weighted averages, corrected for their youth: a slow one, and a fast
/// one that takes over where it differs by more than chance explains.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    slow: f32,
    fast: f32,
    /// The slow average of the squares of what came at once, and what came at once last:
    /// how large a clump is.
    squares: f32,
    clump: f32,
    since: Timestamp,
    last: Timestamp,
}

/// What the fast average remembers, in seconds.
const FAST: f64 = 0.03;
/// The youngest that an estimate counts as, in seconds: one arrival is no rate.
const YOUNGEST: f64 = 0.01;
/// What comes within so many nanoseconds comes at once.
const AT_ONCE: u64 = 1_000_000;
/// The fast average takes over where one of them is so many times the other,
const MUCH_MORE: f64 = 2.0;
/// and so many arrivals more than it would expect.
const MANY: f64 = 4.0;
/// What is more than so many standard deviations is no chance.
const DEVIATIONS: f64 = 4.0;

impl Demand {
    /// An estimate that begins at `now` with what is already known: `cost` was asked for
    /// `since` some moment, in checks of the cost `each`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    pub fn of(cost: u64, each: Cost, since: Timestamp, now: Timestamp, memory: Nanos) -> Demand {
        let age = now.since(since).as_secs_f64();
        let rate = cost as f64 / age.max(YOUNGEST);
        let slow = rate * maturity(age, memory.as_secs_f64());
        Demand {
            slow: slow as f32,
            squares: (slow * each.get().max(1) as f64) as f32,
            clump: 0.0,
            fast: (rate * maturity(age, FAST)) as f32,
            since,
            last: now,
        }
    }

    /// `cost` was asked for at `now`. `memory` is how long the slow average remembers.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    pub fn arrive(&mut self, cost: Cost, memory: Nanos, now: Timestamp) {
        if self.last == Timestamp::EPOCH || self.is_from_ahead(memory, now) {
            *self = Demand {
                since: now,
                last: now,
                ..Demand::default()
            };
        }
        let (idle, memory) = (now.since(self.last).as_secs_f64(), memory.as_secs_f64());
        let cost = cost.get() as f64;
        self.slow = (f64::from(self.slow) * (-idle / memory).exp() + cost / memory) as f32;
        self.fast = (f64::from(self.fast) * (-idle / FAST).exp() + cost / FAST) as f32;
        let before = if now.as_nanos() / AT_ONCE == self.last.as_nanos() / AT_ONCE {
            f64::from(self.clump)
        } else {
            0.0
        };
        self.clump = (before + cost) as f32;
        let square = cost * (2.0 * before + cost) / memory;
        self.squares = (f64::from(self.squares) * (-idle / memory).exp() + square) as f32;
        self.last = self.last.max(now);
    }

    /// How large a clump is: the variance of what comes at once, by its mean. One, if single
    /// checks come independently of each other.
    fn size(&self) -> f64 {
        let mean = f64::from(self.slow) * AT_ONCE as f64 / 1e9;
        (f64::from(self.squares) / f64::from(self.slow) - mean).max(1.0)
    }

    /// Whether it was made by a clock that was far ahead: it says nothing of now.
    fn is_from_ahead(&self, memory: Nanos, now: Timestamp) -> bool {
        self.last.since(now) > memory
    }

    /// When something was last asked for.
    pub const fn last(&self) -> Timestamp {
        self.last
    }

    /// The demand at `now` that is beyond doubt, per second: what a burst of a few checks
    /// may feign is left out, by three standard deviations.
    pub fn certain(&self, memory: Nanos, now: Timestamp) -> f64 {
        if self.is_from_ahead(memory, now) {
            return 0.0;
        }
        let (idle, memory) = (now.since(self.last).as_secs_f64(), memory.as_secs_f64());
        let age = now.since(self.since).as_secs_f64().max(YOUNGEST);
        let least = |average: f32, memory: f64| {
            let count = f64::from(average) * memory * (-idle / memory).exp();
            (count - 3.0 * (count * self.size()).sqrt()).max(0.0) / (memory * maturity(age, memory))
        };
        least(self.slow, memory).max(least(self.fast, FAST))
    }

    /// The demand at `now`, per second, if it is read because something was asked for: what
    /// came last is no sign of demand, unless hardly anything came before.
    pub fn rate_before(&self, memory: Nanos, now: Timestamp) -> f64 {
        let rate = self.rate(memory, now);
        let (idle, memory) = (now.since(self.last).as_secs_f64(), memory.as_secs_f64());
        let last = f64::from(self.clump) * (-idle / memory).exp() / memory;
        let youth = 1.0 - maturity(now.since(self.since).as_secs_f64(), memory);
        (rate - last).max(rate * youth)
    }

    /// By how much an estimate of such a `rate` may be too high by chance, if checks come in
    /// clumps as they do here.
    pub fn doubt(&self, rate: f64, memory: Nanos) -> f64 {
        DEVIATIONS * (self.size() * rate / (2.0 * memory.as_secs_f64())).sqrt()
    }

    /// The demand at `now`, per second.
    pub fn rate(&self, memory: Nanos, now: Timestamp) -> f64 {
        if self.is_from_ahead(memory, now) {
            return 0.0;
        }
        let (idle, memory) = (now.since(self.last).as_secs_f64(), memory.as_secs_f64());
        let age = now.since(self.since).as_secs_f64().max(YOUNGEST);
        let slow = f64::from(self.slow) * (-idle / memory).exp() / maturity(age, memory);
        let fast = f64::from(self.fast) * (-idle / FAST).exp() / maturity(age, FAST);
        let chance = MANY * self.size() / FAST;
        if fast > MUCH_MORE * slow + chance || slow > MUCH_MORE * fast + chance {
            fast
        } else {
            slow
        }
    }
}

/// The part of its final value that an average with this `memory` has reached at `age`.
fn maturity(age: f64, memory: f64) -> f64 {
    -(-age.max(1e-6) / memory).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Nanos = Nanos::from_millis(250);

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000_000 + micros * 1_000)
    }

    /// Arrivals of 1 from `from` to `to`, `every` microseconds.
    fn steady(demand: &mut Demand, from: u64, to: u64, every: usize) {
        for micros in (from..to).step_by(every) {
            demand.arrive(Cost::ONE, MEMORY, at(micros));
        }
    }

    #[test]
    fn a_steady_demand_is_known_after_a_few_arrivals() {
        let mut demand = Demand::default();
        steady(&mut demand, 0, 20_000, 1_000);
        let rate = demand.rate(MEMORY, at(20_000));
        assert!((900.0..=1_150.0).contains(&rate), "{rate}");
        steady(&mut demand, 20_000, 1_000_000, 1_000);
        let rate = demand.rate(MEMORY, at(1_000_000));
        assert!((980.0..=1_020.0).contains(&rate), "{rate}");
    }

    #[test]
    fn a_step_is_noticed_long_before_the_slow_average_has_learnt_it() {
        let mut demand = Demand::default();
        steady(&mut demand, 0, 1_000_000, 10_000);
        steady(&mut demand, 1_000_000, 1_030_000, 1_000);
        let rate = demand.rate(MEMORY, at(1_030_000));
        assert!((600.0..=1_100.0).contains(&rate), "{rate}");
    }

    #[test]
    fn one_large_check_is_no_sign_of_demand() {
        let mut demand = Demand::default();
        demand.arrive(Cost::new(400), MEMORY, at(0));
        assert!(demand.certain(MEMORY, at(0)).abs() < f64::EPSILON);
        let many = (1..60).map(|number| at(1_000 * number));
        for now in many {
            demand.arrive(Cost::new(400), MEMORY, now);
        }
        let certain = demand.certain(MEMORY, at(60_000));
        assert!((100_000.0..=400_000.0).contains(&certain), "{certain}");
    }

    #[test]
    fn demand_that_ends_fades() {
        let mut demand = Demand::default();
        steady(&mut demand, 0, 1_000_000, 1_000);
        assert!(demand.rate(MEMORY, at(3_000_000)) < 1.0);
    }

    #[test]
    fn what_is_known_already_is_where_the_estimate_begins() {
        let now = at(2_000_000);
        let demand = Demand::of(500, Cost::ONE, at(1_000_000), now, MEMORY);
        let rate = demand.rate(MEMORY, now);
        assert!((495.0..=505.0).contains(&rate), "{rate}");
    }

    #[test]
    fn what_a_clock_far_ahead_has_estimated_is_forgotten() {
        let mut demand = Demand::default();
        steady(&mut demand, 5_000_000, 5_500_000, 1_000);
        assert!(demand.rate(MEMORY, at(1_000_000)) < 1.0);
        assert!(demand.certain(MEMORY, at(1_000_000)) < 1.0);
        steady(&mut demand, 1_000_000, 2_000_000, 10_000);
        let rate = demand.rate(MEMORY, at(2_000_000));
        assert!((90.0..=110.0).contains(&rate), "{rate}");
    }

    #[test]
    fn nothing_asked_is_no_demand() {
        assert!(Demand::default().rate(MEMORY, at(0)).abs() < f64::EPSILON);
    }
}
