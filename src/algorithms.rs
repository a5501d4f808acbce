//! The algorithms, pure: `(state, quota, cost, now) → outcome`.

use crate::units::{Cost, Nanos, Quota, Timestamp};

/// What a limit says to one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The cost was taken. `delay` is how long a leaky bucket asks the caller to
    /// wait before acting; zero for every other algorithm.
    Admitted {
        /// How long to wait before acting.
        delay: Nanos,
    },
    /// Not now. With no other traffic, the same check succeeds after exactly
    /// `retry_after`, and not one nanosecond sooner.
    Refused {
        /// How long to wait.
        retry_after: Nanos,
    },
    /// The cost is above the capacity: waiting never helps.
    Impossible,
    /// The limit is zero: nothing is ever admitted.
    Banned,
}

/// A verdict and what is to be said with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What the limit says.
    pub verdict: Verdict,
    /// What could still be admitted now, after this check.
    pub remaining: u64,
    /// How long until everything is available again, with no other traffic.
    pub reset_after: Nanos,
}

/// The state of one limit for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State;

impl State {
    /// The state of a key never seen.
    pub fn fresh(_quota: &Quota) -> State {
        State
    }

    /// Takes `cost`.
    pub fn take(&mut self, _quota: &Quota, _cost: Cost, _now: Timestamp) -> Outcome {
        Outcome {
            verdict: Verdict::Banned,
            remaining: 0,
            reset_after: Nanos::ZERO,
        }
    }
}
