//! `token_bucket` and `leaky_bucket`: a debt that drains continuously.
//!
//! The debt is kept in token · nanosecond: a token taken adds one period, and
//! every nanosecond takes off `amount`. So no rate is ever rounded: not 7 per
//! hour, not 700,000,000 per second. A cost is admitted while the debt stays
//! within capacity · period. Kept so, the debt is the generic cell rate algorithm
//! (ITU-T I.371): the TAT is `at` + debt / amount, the emission interval
//! period / amount.
//!
//! Worst case of both: burst + T · amount / period in any span of T, so
//! burst + amount in a period. The burst defaults to the amount; 1 enforces even
//! spacing. The leaky bucket admits the same checks, and tells each how long to
//! wait for its slot: those who wait act at an even pace.
//!
//! What is charged without asking may take the debt past the capacity, to twice the
//! capacity at most. So a charge keeps a caller out for as long as two bursts take to
//! drain, however large it was: no longer than it would in a window that is weighed
//! when it is over.

use super::exact::{div_ceil, drain, mul_div_ceil, product};
use super::{Outcome, Verdict};
use crate::units::{Algorithm, Cost, Nanos, Quota, Timestamp};

/// A bucket owes at most so many times its capacity.
pub const MOST_OWED: u64 = 2;

/// What a bucket owes, and when it owed that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketState {
    /// The halves of the debt, the high one first: a `u128` would align the state
    /// to 16 bytes and a cell to half as much again.
    debt: [u64; 2],
    at: Timestamp,
}

impl BucketState {
    /// The state of a bucket that owed `debt`, in token · nanosecond, at `at`.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // The halves are what is wanted.
    pub const fn new(debt: u128, at: Timestamp) -> BucketState {
        BucketState {
            debt: [(debt >> 64) as u64, debt as u64],
            at,
        }
    }

    /// The debt at [`BucketState::at`], in token · nanosecond.
    pub const fn debt(&self) -> u128 {
        (self.debt[0] as u128) << 64 | self.debt[1] as u128
    }

    /// The moment the debt is of.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Takes off what was repaid until `now`.
    ///
    /// A debt of a moment at most one drain time ahead of `now` stays: its time
    /// stands still. One further ahead was written by a wrong clock: it is taken
    /// to be of `now`, and clamped to the capacity.
    pub fn age(&mut self, quota: &Quota, now: Timestamp) {
        if now >= self.at {
            let repaid = product(now.since(self.at).get(), quota.amount());
            self.owe(self.debt().saturating_sub(repaid));
        } else if self.debt() != 0 {
            if self.at.since(now) <= quota.drain_time() {
                return;
            }
            self.owe(self.debt().min(capacity(quota)));
        }
        self.at = now;
    }

    /// How long the debt takes to drain from [`BucketState::at`] on, rounded up.
    pub fn debt_time(&self, quota: &Quota) -> Nanos {
        drain(self.debt(), quota.amount())
    }

    /// How long `cost` takes to drain, rounded up.
    pub fn cost_as_time(quota: &Quota, cost: Cost) -> Nanos {
        drain(in_debt(quota, cost.get()), quota.amount())
    }

    /// The debt becomes at least what others know of: `debt` (as the time it takes
    /// to drain) at `at`, aged to `now`, and `unsent`, the cost that is not in it
    /// yet.
    pub fn raise(
        &mut self,
        quota: &Quota,
        debt: Nanos,
        at: Timestamp,
        unsent: Cost,
        now: Timestamp,
    ) {
        self.age(quota, now);
        let known = self.known(quota, debt, at, unsent);
        self.owe(self.debt().max(known.min(most_owed(quota))));
    }

    /// The debt becomes what others know of, as [`BucketState::raise`] reads it, less
    /// `lent`, the cost in it that was granted to this node and not yet spent.
    pub fn set(
        &mut self,
        quota: &Quota,
        debt: Nanos,
        at: Timestamp,
        unsent: Cost,
        lent: Cost,
        now: Timestamp,
    ) {
        self.age(quota, now);
        let known = self.known(quota, debt, at, unsent);
        let owed = known.saturating_sub(in_debt(quota, lent.get()));
        self.owe(owed.min(most_owed(quota)));
    }

    fn known(&self, quota: &Quota, debt: Nanos, at: Timestamp, unsent: Cost) -> u128 {
        let left = debt.minus(self.at.since(at));
        product(left.get(), quota.amount()).saturating_add(in_debt(quota, unsent.get()))
    }

    /// See [`State::take`](super::State::take), for a quota that is no ban.
    pub fn take(&mut self, quota: &Quota, cost: Cost, now: Timestamp) -> Outcome {
        let mut next = self.aged(quota, now);
        if next.at < self.at {
            // Back from a wrong clock. Left ahead, the debt would be taken to be of
            // every later `now` again, and waiting would not help.
            *self = next;
        }
        let lag = next.at.since(now);
        let before = next.debt();
        let asked = cost.get().max(1);
        let verdict = match quota.capacity().checked_sub(asked) {
            None => Verdict::Impossible,
            Some(room) => {
                let room = in_debt(quota, room);
                if before <= room {
                    next.owe(before + in_debt(quota, cost.get()));
                    if !cost.is_peek() {
                        *self = next;
                    }
                    let delay = if quota.algorithm() == Algorithm::LeakyBucket {
                        wait(before, quota, lag)
                    } else {
                        Nanos::ZERO
                    };
                    Verdict::Admitted { delay }
                } else {
                    Verdict::Refused {
                        retry_after: wait(before - room, quota, lag),
                    }
                }
            }
        };
        let owed = div_ceil(next.debt(), quota.period().get());
        Outcome {
            verdict,
            remaining: quota.capacity().saturating_sub(owed),
            reset_after: wait(next.debt(), quota, lag),
        }
    }

    /// See [`State::charge`](super::State::charge).
    pub fn charge(&mut self, quota: &Quota, cost: Cost, now: Timestamp) {
        self.age(quota, now);
        let debt = self.debt().saturating_add(in_debt(quota, cost.get()));
        self.owe(debt.min(most_owed(quota).max(self.debt())));
    }

    /// The most of `cost` that a charge can add.
    pub fn chargeable(quota: &Quota, cost: Cost) -> Cost {
        cost.min(Cost::new(quota.capacity().saturating_mul(MOST_OWED)))
    }

    /// Takes `cost` off the debt, as far as there is so much, and answers how much that
    /// was, in whole tokens.
    pub fn refund(&mut self, quota: &Quota, cost: Cost, now: Timestamp) -> Cost {
        self.age(quota, now);
        let refunded = cost.min(Cost::new(div_ceil(self.debt(), quota.period().get())));
        self.owe(self.debt().saturating_sub(in_debt(quota, refunded.get())));
        refunded
    }

    /// A take of more than a drain time ago has been repaid.
    pub fn give_back(&mut self, quota: &Quota, cost: Cost, taken_at: Timestamp, now: Timestamp) {
        if now.since(taken_at) <= quota.drain_time() {
            // Whether the debt is aged before or after makes no difference.
            self.owe(self.debt().saturating_sub(in_debt(quota, cost.get())));
        }
    }

    /// See [`State::moment`](super::State::moment).
    pub fn moment(&self, quota: &Quota, now: Timestamp) -> Timestamp {
        self.aged(quota, now).at
    }

    /// See [`State::is_fresh`](super::State::is_fresh).
    pub fn is_fresh(&self, quota: &Quota, now: Timestamp) -> bool {
        self.aged(quota, now).debt() == 0
    }

    /// Keeps what is left, at most the new capacity. The periods are the same.
    pub fn requote(&mut self, old: &Quota, new: &Quota, now: Timestamp) {
        self.age(old, now);
        if new.is_ban() {
            return;
        }
        if old.is_ban() {
            self.owe(self.debt().min(capacity(new)));
            return;
        }
        let left = capacity(old).saturating_sub(self.debt());
        self.owe(capacity(new).saturating_sub(left));
    }

    /// Keeps the time it takes to drain.
    pub fn reprice(&mut self, old: &Quota, new: &Quota, now: Timestamp) {
        self.age(old, now);
        if !old.is_ban() && !new.is_ban() {
            self.owe(mul_div_ceil(self.debt(), new.amount(), old.amount()));
        }
    }

    fn aged(mut self, quota: &Quota, now: Timestamp) -> BucketState {
        self.age(quota, now);
        self
    }

    fn owe(&mut self, debt: u128) {
        *self = BucketState::new(debt, self.at);
    }
}

/// What `tokens` add to a debt.
fn in_debt(quota: &Quota, tokens: u64) -> u128 {
    product(tokens, quota.period().get())
}

/// The debt of a bucket with nothing left.
fn capacity(quota: &Quota) -> u128 {
    in_debt(quota, quota.capacity())
}

/// The largest debt.
fn most_owed(quota: &Quota) -> u128 {
    capacity(quota).saturating_mul(u128::from(MOST_OWED))
}

/// How long until `debt` is repaid, for a state whose time stands still for `lag`.
fn wait(debt: u128, quota: &Quota, lag: Nanos) -> Nanos {
    if debt == 0 {
        Nanos::ZERO
    } else {
        drain(debt, quota.amount()).plus(lag)
    }
}
