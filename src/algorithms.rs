//! The algorithms, pure: `(state, quota, cost, now) → outcome`.
//!
//! All arithmetic is in integers and exact: nothing is rounded before the last
//! step, and that one never in the caller's favour. Amounts go up to
//! [`u64::MAX`], and an idle century costs no more than an idle second.
//!
//! | algorithm | admits | at worst, in any span as long as the period |
//! |---|---|---|
//! | fixed window | `amount` in each window, aligned to the epoch or of a calendar | 2 · amount, in a span across an edge |
//! | sliding window | while what is left of the previous window's count, rounded up, plus this window's count is at most `amount` | `amount` if the previous window's hits were spread evenly; below 2 · amount if they all came at its end |
//! | sliding log | `amount` in every trailing window | `amount` |
//! | token bucket | `burst` at once and `amount` per period | burst + amount; in a span of T, burst + T · amount / period |
//! | leaky bucket | the same, each with a delay until its slot | as the token bucket by arrival; callers that wait for their slots act at an even pace of amount per period |
//!
//! The burst of a bucket defaults to its amount: "6 per minute" admits six at
//! once and then one every ten seconds, so up to twelve in the first minute.
//!
//! # A clock that goes back
//!
//! Threads and nodes hand in moments that are a little out of order, so a state
//! may lie ahead of `now`. Up to one period (for buckets: one drain time) its time
//! stands still until the clock has caught up: nothing is repaid or counted twice.
//! A state further ahead was written by a clock that was wrong: what it counted is
//! taken to have happened now, so that the error grants one capacity at most and
//! is forgotten within a period.

mod bucket;
#[cfg(test)]
mod cases;
mod exact;
mod fixed_window;
mod log;
#[cfg(test)]
mod oracle;
mod sliding_window;
mod window;

use crate::units::{Algorithm, Cost, Nanos, Quota, Timestamp};

pub use bucket::{BucketState, MOST_OWED};
pub use log::LogState;
pub use window::WindowState;

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
    /// `retry_after`, and not one nanosecond sooner. (A wait beyond the end of
    /// time is [`Nanos::MAX`].)
    Refused {
        /// How long to wait.
        retry_after: Nanos,
    },
    /// The cost is above the capacity: waiting never helps.
    Impossible,
    /// The limit is zero: nothing is ever admitted.
    Banned,
}

impl Verdict {
    /// Admitted, to act at once.
    const NOW: Verdict = Verdict::Admitted { delay: Nanos::ZERO };
}

/// A verdict and what is to be said with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What the limit says.
    pub verdict: Verdict,
    /// What could still be admitted now, after this check: at most the capacity.
    pub remaining: u64,
    /// How long until everything is available again, with no other traffic; zero
    /// when nothing is used.
    pub reset_after: Nanos,
}

impl Outcome {
    /// What every check of a limit of zero is told.
    pub const BANNED: Outcome = Outcome {
        verdict: Verdict::Banned,
        remaining: 0,
        reset_after: Nanos::ZERO,
    };
}

/// The state of one limit for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Of a fixed or a sliding window.
    Window(WindowState),
    /// Of a token or a leaky bucket.
    Bucket(BucketState),
    /// Of a sliding log.
    Log(Box<LogState>),
}

impl State {
    /// The state of a key never seen.
    pub fn fresh(quota: &Quota) -> State {
        match quota.algorithm() {
            Algorithm::FixedWindow | Algorithm::SlidingWindow => {
                State::Window(WindowState::default())
            }
            Algorithm::SlidingLog => State::Log(Box::default()),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                State::Bucket(BucketState::default())
            }
        }
    }

    /// Whether this is a state of the kind that `quota` counts with. One that is
    /// not counts as fresh.
    pub fn suits(&self, quota: &Quota) -> bool {
        use Algorithm::*;
        matches!(
            (self, quota.algorithm()),
            (State::Window(_), FixedWindow | SlidingWindow)
                | (State::Bucket(_), TokenBucket | LeakyBucket)
                | (State::Log(_), SlidingLog)
        )
    }

    /// Takes `cost` if there is room for it, and changes nothing if there is not.
    ///
    /// A cost of zero is a peek: it is told what a check of cost 1 would be told
    /// (with what remains now), and changes nothing.
    ///
    /// "Nothing" has one exception: a state that a wrong clock left far ahead comes
    /// back to `now`, whatever the verdict.
    pub fn take(&mut self, quota: &Quota, cost: Cost, now: Timestamp) -> Outcome {
        if quota.is_ban() {
            return Outcome::BANNED;
        }
        match (&mut *self, quota.algorithm()) {
            (State::Window(state), Algorithm::FixedWindow | Algorithm::SlidingWindow) => {
                state.take(quota, cost, now)
            }
            (State::Bucket(state), Algorithm::TokenBucket | Algorithm::LeakyBucket) => {
                state.take(quota, cost, now)
            }
            (State::Log(state), Algorithm::SlidingLog) => state.take(quota, cost, now),
            _ => {
                *self = State::fresh(quota);
                self.take(quota, cost, now)
            }
        }
    }

    /// Records `cost` whether or not there is room for it (a refusal that is
    /// charged, use that turned out larger than what was taken). Counts saturate, and a
    /// bucket owes at most [`MOST_OWED`] times its capacity; above the limit, nothing
    /// remains. A ban keeps no count.
    pub fn charge(&mut self, quota: &Quota, cost: Cost, now: Timestamp) {
        if quota.is_ban() || cost.is_peek() {
            return;
        }
        if !self.suits(quota) {
            *self = State::fresh(quota);
        }
        match self {
            State::Window(state) => state.charge(quota, cost, now),
            State::Bucket(state) => state.charge(quota, cost, now),
            State::Log(state) => state.charge(quota, cost, now),
        }
    }

    /// Brings the state to `now`: forgets what no longer counts, and brings back
    /// what a wrong clock put far ahead. A check does that by itself; a sweep needs
    /// it so that [`State::is_fresh`] comes true for keys that are never seen again.
    pub fn age(&mut self, quota: &Quota, now: Timestamp) {
        match self {
            State::Window(state) => state.roll(quota, now),
            State::Bucket(state) => state.age(quota, now),
            State::Log(state) => state.age(quota, now),
        }
    }

    /// The moment that what is taken at `now` counts for: `now` itself, or the
    /// state's own time if that is a little ahead. Read it after a take, and hand
    /// it to [`State::give_back`].
    pub fn moment(&self, quota: &Quota, now: Timestamp) -> Timestamp {
        match self {
            State::Window(state) => state.moment(quota, now),
            State::Bucket(state) => state.moment(quota, now),
            State::Log(state) => state.moment(quota, now),
        }
    }

    /// Undoes a take of `cost` that counted for the moment `taken_at` (see
    /// [`State::moment`]): in the window, or from the hit, that it was admitted
    /// in, and nowhere if that no longer counts. Never below zero.
    ///
    /// A bucket does not remember its takes: what it is given back it owes less,
    /// unless the take is more than a drain time old. Where it ran empty since the
    /// take and was used again, that is up to `cost` too much.
    pub fn give_back(&mut self, quota: &Quota, cost: Cost, taken_at: Timestamp, now: Timestamp) {
        match self {
            State::Window(state) => state.give_back(quota, cost, taken_at),
            State::Bucket(state) => state.give_back(quota, cost, taken_at, now),
            State::Log(state) => state.give_back(cost, taken_at),
        }
    }

    /// Whether every check would be told the same as by the state of a key never
    /// seen, so that this one may be forgotten.
    pub fn is_fresh(&self, quota: &Quota, now: Timestamp) -> bool {
        if quota.is_ban() || !self.suits(quota) {
            return true;
        }
        match self {
            State::Window(state) => state.is_fresh(quota, now),
            State::Bucket(state) => state.is_fresh(quota, now),
            State::Log(state) => state.is_fresh(quota, now),
        }
    }

    /// Goes over to another quota of the same limit, after a reload.
    ///
    /// With the same algorithm and period, what was used stays. Windows and logs
    /// keep their counts, also above the new amount: 60 used of 100 leave 0 of 10,
    /// and 40 when the amount is 100 again. Buckets keep what is left in them, at
    /// most the new capacity: 40 left of 100 are 10 left of 10, and still 10 when
    /// it is 100 again; they never jump to full (a bucket that was forgotten in
    /// between, being full, starts full). A ban in between keeps the debt.
    /// With another algorithm or period, the state starts afresh.
    pub fn requote(&mut self, old: &Quota, new: &Quota, now: Timestamp) {
        if old.algorithm() != new.algorithm() || old.windows() != new.windows() || !self.suits(new)
        {
            *self = State::fresh(new);
        } else if let State::Bucket(state) = self {
            state.requote(old, new, now);
        }
    }

    /// Goes over to another quota that came with a call: for buckets whose state
    /// belongs to the key and whose quota to the call (`CL.THROTTLE`). The time
    /// until the bucket is empty stays, as it does where a TAT is stored; a ban
    /// has no such time and keeps the debt. States of other kinds start afresh.
    pub fn reprice(&mut self, old: &Quota, new: &Quota, now: Timestamp) {
        match self {
            State::Bucket(state) if new.algorithm().is_bucket() => state.reprice(old, new, now),
            _ => *self = State::fresh(new),
        }
    }
}
