//! What a plain limiter would do: every node adds what it has admitted to the store's
//! count at a fixed interval, and in between believes its own count and the store's
//! last word.

use crate::simulation::{Scenario, Shape};
use crate::units::{Algorithm, Nanos};

/// What a plain limiter of one fleet does.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    /// Checks a second of each caller, in falling order.
    keys: Vec<f64>,
    /// The parts of the demand that nodes get, and how many nodes get each.
    shares: [(f64, f64); 2],
    algorithm: Algorithm,
    /// What is admitted in a second in the long run, and at most at once.
    rate: f64,
    capacity: f64,
    window: f64,
}

impl Plain {
    #[allow(clippy::cast_precision_loss)] // Figures for people.
    pub(super) fn of(scenario: &Scenario) -> Plain {
        let weight = |rank: u32| f64::from(rank).powf(-scenario.zipf);
        let mut keys: Vec<f64> = (1..=scenario.keys).map(weight).collect();
        let whole = scenario.rate / keys.iter().sum::<f64>();
        keys.iter_mut().for_each(|key| *key *= whole);
        let nodes = f64::from(scenario.nodes);
        let shares = match scenario.shape {
            Shape::Skewed(share) | Shape::Shifting { share, .. } if scenario.nodes > 1 => {
                [(share, 1.0), ((1.0 - share) / (nodes - 1.0), nodes - 1.0)]
            }
            _ => [(1.0 / nodes, nodes), (0.0, 0.0)],
        };
        let window = scenario.window.as_secs_f64();
        Plain {
            keys,
            shares,
            algorithm: scenario.algorithm,
            rate: scenario.limit as f64 / window,
            capacity: scenario.burst.unwrap_or(scenario.limit) as f64,
            window,
        }
    }

    /// By how much it exceeds the limit, as a part of it: the mean of the callers that
    /// want more than it. `None` if there is no such caller.
    ///
    /// While a fixed window fills, what the other nodes admit within an interval is
    /// not seen: `(1 − Σs²) · D/L · T/W` of the limit, where s are the nodes' shares of
    /// the demand D. All other algorithms are full in the long run and give back a
    /// little all the time, which each node hands out to its own callers until it hears
    /// of the others: `Σ min(s·D, L) − L`, in parts of L, times `T/W`. Neither is ever
    /// more than is asked, or than the whole limit on every node.
    pub(super) fn over(&self, every: Nanos) -> Option<f64> {
        let every = every.as_secs_f64();
        let mut sum = 0.0;
        let mut count = 0.0;
        for demand in self.keys.iter().take_while(|demand| **demand > self.rate) {
            let unseen = match self.algorithm {
                Algorithm::FixedWindow => {
                    let squares = self.sum(|share| share * share);
                    (1.0 - squares) * demand * every
                }
                _ => (self.sum(|share| (share * demand).min(self.rate)) - self.rate) * every,
            };
            let asked = demand * self.window - self.rate * self.window;
            let elsewhere = self.capacity * (self.sum(|_| 1.0) - 1.0);
            sum += unseen.clamp(0.0, asked.min(elsewhere).max(0.0)) / self.capacity;
            count += 1.0;
        }
        (count > 0.0).then(|| sum / count)
    }

    /// Commands a second: one for each node and caller that had something to send when
    /// the interval was over, if the checks come independently.
    pub(super) fn commands(&self, every: Nanos) -> f64 {
        let every = every.as_secs_f64();
        let dirty = |demand: &f64| self.sum(|share| -(-share * demand * every).exp_m1());
        self.keys.iter().map(dirty).sum::<f64>() / every
    }

    /// The interval at which it exceeds the limit by no more than `over`. `None` if
    /// there is no caller who wants more than the limit.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Casts saturate.
    pub(super) fn interval_for(&self, over: f64) -> Option<Nanos> {
        // It grows with the interval, evenly while the interval is short.
        let short = Nanos::new(1_000);
        let per_second = self.over(short)? / short.as_secs_f64();
        Some(Nanos::new((over / per_second * 1e9) as u64))
    }

    fn sum(&self, of: impl Fn(f64) -> f64) -> f64 {
        let shares = self.shares.iter();
        shares.map(|(share, nodes)| nodes * of(*share)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(nodes: u32, times: f64) -> Scenario {
        Scenario {
            nodes,
            rate: 1_000.0 * times,
            ..Scenario::default()
        }
    }

    #[track_caller]
    fn assert_near(found: f64, wanted: f64) {
        assert!(
            (found - wanted).abs() <= wanted * 1e-3,
            "{found}, not {wanted}"
        );
    }

    #[test]
    fn a_fixed_window_is_exceeded_by_what_the_others_admit_within_an_interval() {
        // 1 - 10 (1/10)² = 0.9 of the demand of a tenth of a window.
        let tenth = Nanos::from_millis(100);
        let over = |scenario: &Scenario| Plain::of(scenario).over(tenth).unwrap();
        assert_near(over(&fleet(10, 2.0)), 0.18);
        assert_near(over(&fleet(10, 10.0)), 0.9);
        let skewed = Scenario {
            shape: Shape::Skewed(0.91),
            ..fleet(10, 2.0)
        };
        assert_near(
            over(&skewed),
            (1.0 - 0.91_f64.powi(2) - 9.0 * 0.01_f64.powi(2)) * 0.2,
        );
    }

    #[test]
    fn no_more_is_exceeded_than_is_asked_or_than_every_node_admits() {
        let second = Nanos::from_secs(1);
        assert_near(Plain::of(&fleet(4, 2.0)).over(second).unwrap(), 1.0);
        assert_near(Plain::of(&fleet(4, 90.0)).over(second).unwrap(), 3.0);
        assert_eq!(Plain::of(&fleet(1, 2.0)).over(second), Some(0.0));
        assert_eq!(Plain::of(&fleet(4, 0.9)).over(second), None);
    }

    #[test]
    fn each_node_hands_out_what_a_bucket_refills() {
        let bucket = |times, burst| Scenario {
            algorithm: Algorithm::TokenBucket,
            burst,
            ..fleet(4, times)
        };
        let over = |scenario: &Scenario| Plain::of(scenario).over(Nanos::from_millis(100));
        // Four nodes each take half of the 100 tokens of a tenth of a second.
        assert_near(over(&bucket(2.0, None)).unwrap(), 0.1);
        // Each takes all of them.
        assert_near(over(&bucket(10.0, None)).unwrap(), 0.3);
        assert_near(over(&bucket(10.0, Some(100))).unwrap(), 3.0);
    }

    #[test]
    fn a_busy_node_sends_each_caller_every_interval_and_an_idle_one_does_not() {
        let commands =
            |scenario: &Scenario, millis| Plain::of(scenario).commands(Nanos::from_millis(millis));
        assert_near(commands(&fleet(4, 2.0), 100), 40.0);
        // One caller in a thousand of a check a second each, on four nodes.
        let many = Scenario {
            keys: 1_000,
            ..fleet(4, 1.0)
        };
        assert_near(commands(&many, 4_000), 1_000.0 * (1.0 - (-1.0_f64).exp()));
        assert_near(commands(&many, 1), 1_000.0);
    }

    #[test]
    fn a_wanted_error_has_its_interval() {
        let plain = Plain::of(&fleet(10, 2.0));
        let every = plain.interval_for(0.018).unwrap();
        assert_near(every.as_secs_f64(), 0.01);
        assert_eq!(Plain::of(&fleet(10, 0.5)).interval_for(0.01), None);
    }
}
