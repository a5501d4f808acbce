//! What really happened, seen by somebody who sees the whole fleet at once.

use crate::algorithms::State;
use crate::units::{Algorithm, Cost, MAX_LOG_AMOUNT, Nanos, Quota, QuotaError, Timestamp};

/// The same algorithm as the fleet's, for every key, fed with what the fleet has
/// really admitted and when. Its clock is the store's.
#[derive(Debug)]
pub(super) struct Truth {
    /// The limit's, but admitting everything: so what is left tells how much is used,
    /// also beyond the limit.
    meter: Quota,
    quota: Quota,
    start: Timestamp,
    keys: Vec<KeyTruth>,
    closed: Closed,
}

#[derive(Clone, Debug)]
struct KeyTruth {
    state: State,
    /// The present window, counted from the start, and what came in it.
    window: u64,
    demanded: u64,
    admitted: u64,
    /// The most that was used beyond the limit at any moment of it, and when.
    excess: u64,
    worst_at: Timestamp,
}

/// What the windows were like in which a key wanted more than its limit.
#[derive(Clone, Debug, Default)]
pub(super) struct Closed {
    /// By how much the limit was exceeded, as a part of it: in the first window, in
    /// which the fleet knew nothing, and in all others.
    pub(super) cold: Vec<f64>,
    pub(super) over: Vec<f64>,
    /// What was used of the limit in those others: parts of it, added up.
    pub(super) used: f64,
    /// The worst moment of all those others.
    pub(super) worst: Option<Worst>,
}

/// When a limit was exceeded most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// By how much, as a part of it.
    pub over: f64,
    /// The number of the caller.
    pub caller: u32,
    /// How long after the first check.
    pub after: Nanos,
}

impl Worst {
    /// The worse one; of equals, the first.
    pub(super) fn of(one: Option<Worst>, other: Option<Worst>) -> Option<Worst> {
        match (one, other) {
            (Some(one), Some(other)) if other.over > one.over => Some(other),
            (one, other) => one.or(other),
        }
    }
}

/// What the truth has to say about one refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Right,
    /// There was room.
    Wrong,
}

impl Truth {
    /// # Errors
    /// A quota without its limit cannot be computed with; it always can.
    pub(super) fn new(quota: Quota, keys: usize, start: Timestamp) -> Result<Truth, QuotaError> {
        let endless = u64::MAX >> 1;
        let (amount, burst) = match quota.algorithm() {
            Algorithm::FixedWindow | Algorithm::SlidingWindow => (endless, None),
            Algorithm::SlidingLog => (MAX_LOG_AMOUNT, None),
            _ if quota.is_ban() => (0, None),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => (quota.amount(), Some(endless)),
        };
        let meter = Quota::new(quota.algorithm(), amount, quota.period(), burst)?;
        let fresh = KeyTruth {
            state: State::fresh(&meter),
            window: 0,
            demanded: 0,
            admitted: 0,
            excess: 0,
            worst_at: start,
        };
        Ok(Truth {
            meter,
            quota,
            start,
            keys: vec![fresh; keys],
            closed: Closed::default(),
        })
    }

    /// `cost` was admitted for `key` at `now`.
    pub(super) fn admitted(&mut self, key: u32, cost: Cost, now: Timestamp) {
        let (meter, capacity) = (self.meter, self.quota.capacity());
        let Some(of) = self.open(key, now) else {
            return;
        };
        of.demanded = of.demanded.saturating_add(cost.get());
        of.admitted = of.admitted.saturating_add(cost.get());
        let used = of.take(&meter, cost, now);
        let excess = used.saturating_sub(capacity);
        if excess > of.excess {
            (of.excess, of.worst_at) = (excess, now);
        }
    }

    /// `cost` was refused for `key` at `now`.
    pub(super) fn refused(&mut self, key: u32, cost: Cost, now: Timestamp) -> Refusal {
        let (meter, capacity) = (self.meter, self.quota.capacity());
        let Some(of) = self.open(key, now) else {
            return Refusal::Right;
        };
        of.demanded = of.demanded.saturating_add(cost.get());
        let used = of.take(&meter, Cost::ZERO, now);
        if used.saturating_add(cost.get()) <= capacity {
            Refusal::Wrong
        } else {
            Refusal::Right
        }
    }

    /// What is used of the limit of `key` at `now`.
    pub(super) fn used(&mut self, key: u32, now: Timestamp) -> u64 {
        let of = self.keys.get_mut(key as usize);
        of.map_or(0, |of| of.take(&self.meter, Cost::ZERO, now))
    }

    /// The same, for looking at it.
    pub(super) fn peek(&self, key: u32, now: Timestamp) -> u64 {
        let of = self.keys.get(key as usize).cloned();
        of.map_or(0, |mut of| of.take(&self.meter, Cost::ZERO, now))
    }

    /// Ends all windows, and answers what they were like.
    pub(super) fn close(mut self) -> Closed {
        for (key, of) in (0..).zip(&mut self.keys) {
            of.close(key, self.start, &self.quota, &mut self.closed);
        }
        self.closed
    }

    /// The key's truth, in the window of `now`.
    fn open(&mut self, key: u32, now: Timestamp) -> Option<&mut KeyTruth> {
        let of = self.keys.get_mut(key as usize)?;
        let window = now.since(self.start).get() / self.quota.period().get().max(1);
        if window != of.window {
            of.close(key, self.start, &self.quota, &mut self.closed);
            of.window = window;
        }
        Some(of)
    }
}

impl KeyTruth {
    /// Takes `cost`, and answers what is used then.
    fn take(&mut self, meter: &Quota, cost: Cost, now: Timestamp) -> u64 {
        let left = self.state.take(meter, cost, now).remaining;
        meter.capacity().saturating_sub(left)
    }

    fn close(&mut self, key: u32, start: Timestamp, quota: &Quota, closed: &mut Closed) {
        if self.demanded > quota.amount() {
            let over = part(self.excess, quota.capacity());
            if self.window == 0 {
                closed.cold.push(over);
            } else {
                closed.over.push(over);
                let worst = Worst {
                    over,
                    caller: key,
                    after: self.worst_at.since(start),
                };
                closed.worst = Worst::of(closed.worst, Some(worst).filter(|w| w.over > 0.0));
                closed.used += part(self.admitted.min(quota.amount()), quota.amount());
            }
        }
        (self.demanded, self.admitted, self.excess) = (0, 0, 0);
    }
}

#[allow(clippy::cast_precision_loss)] // A figure for people.
pub(super) fn part(of: u64, whole: u64) -> f64 {
    of as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_nanos(1_000_000_000_000);

    fn truth(algorithm: Algorithm) -> Truth {
        let second = Nanos::from_secs(1);
        let quota = Quota::new(algorithm, 10, second, None).unwrap();
        Truth::new(quota, 2, START).unwrap()
    }

    fn at(millis: u64) -> Timestamp {
        START.after(Nanos::from_millis(millis))
    }

    #[test]
    fn what_is_admitted_beyond_the_limit_is_told_as_a_part_of_it() {
        for algorithm in Algorithm::ALL {
            let mut truth = truth(algorithm);
            for window in 0..2 {
                // All at once, so that nothing leaves or drains meanwhile.
                truth.admitted(0, Cost::new(10 + 2 * window), at(window * 2_000 + 500));
                truth.refused(0, Cost::ONE, at(window * 2_000 + 500));
            }
            truth.admitted(1, Cost::new(9), at(500));
            let closed = truth.close();
            assert_eq!(
                closed.cold,
                [0.0],
                "{}: the other key wanted less",
                algorithm.name()
            );
            assert_eq!(closed.over, [0.2], "{}", algorithm.name());
            assert_eq!(closed.used, 1.0, "{}", algorithm.name());
        }
    }

    #[test]
    fn a_refusal_is_wrong_while_there_is_room() {
        for algorithm in Algorithm::ALL {
            let mut truth = truth(algorithm);
            truth.admitted(0, Cost::new(9), at(900));
            assert_eq!(truth.refused(0, Cost::ONE, at(900)), Refusal::Wrong);
            assert_eq!(truth.refused(0, Cost::new(2), at(900)), Refusal::Right);
            truth.admitted(0, Cost::ONE, at(900));
            assert_eq!(truth.used(0, at(900)), 10);
            assert_eq!(truth.refused(0, Cost::ONE, at(900)), Refusal::Right);
            // A window later there is room by any of them, and none was left before.
            assert_eq!(truth.refused(0, Cost::ONE, at(2_000)), Refusal::Wrong);
        }
    }

    #[test]
    fn what_was_overdrawn_before_counts_in_the_window_it_is_still_owed_in() {
        let mut truth = truth(Algorithm::TokenBucket);
        truth.admitted(0, Cost::new(30), at(900));
        // 20 are owed beyond the capacity, and 2 drain in 200 ms.
        truth.admitted(0, Cost::new(1), at(1_100));
        truth.admitted(0, Cost::new(10), at(1_100));
        let closed = truth.close();
        assert_eq!((closed.cold, closed.over), (vec![2.0], vec![2.9]));
        let worst = closed.worst.unwrap();
        assert_eq!((worst.over, worst.caller), (2.9, 0));
        assert_eq!(worst.after, Nanos::from_millis(1_100));
    }

    #[test]
    fn a_ban_is_never_exceeded() {
        let ban = Quota::new(Algorithm::TokenBucket, 0, Nanos::from_secs(1), None).unwrap();
        let mut truth = Truth::new(ban, 1, START).unwrap();
        assert_eq!(truth.refused(0, Cost::ONE, at(1)), Refusal::Right);
        assert_eq!(truth.close().cold, [0.0]);
    }
}
