//! `sliding_window`: the count of the previous window, weighted by the part of it
//! that a trailing window would still hold and rounded up, plus the count of this
//! window, is at most `amount` (the sliding window counter).
//!
//! The weight assumes that the previous window's hits were spread evenly over it.
//! If they were, no trailing window holds more than `amount`. If they all came at
//! its end, a trailing window may hold up to amount + elapsed / period · amount,
//! which stays below 2 · amount; if they came at its start, the algorithm refuses
//! what a log would admit.

use super::exact::{div_ceil, div_floor, product};
use super::{Outcome, Verdict, WindowState};
use crate::units::{Cost, Nanos, Quota, Timestamp};

#[inline(never)]
pub(super) fn take(state: &mut WindowState, quota: &Quota, cost: Cost, now: Timestamp) -> Outcome {
    let mut next = state.enter(quota, now);
    let weighted = weigh_previous(&next, quota, now);
    let room = |state: &WindowState| {
        quota
            .amount()
            .saturating_sub(state.current())
            .saturating_sub(weighted)
    };
    let asked = cost.get().max(1);
    let verdict = if asked > quota.amount() {
        Verdict::Impossible
    } else if asked <= room(&next) {
        next.add(cost);
        if !cost.is_peek() {
            *state = next;
        }
        Verdict::NOW
    } else {
        Verdict::Refused {
            retry_after: room_at(&next, quota, asked).since(now),
        }
    };
    Outcome {
        verdict,
        remaining: room(&next),
        reset_after: empty_at(&next, quota).since(now),
    }
}

/// What of the previous window's count still counts at `now`, rounded up.
fn weigh_previous(state: &WindowState, quota: &Quota, now: Timestamp) -> u64 {
    if state.previous() == 0 {
        return 0;
    }
    let period = quota.period();
    // A state ahead of `now` stands still at its window's start.
    let left = period.minus(now.since(state.id().start(period)));
    div_ceil(product(state.previous(), left.get()), period.get())
}

/// The first moment that a refused check of `asked`, at most the amount, succeeds
/// at: in this window, in the next, where today's count is the previous one, or
/// when that has run out too.
fn room_at(state: &WindowState, quota: &Quota, asked: u64) -> Timestamp {
    let period = quota.period();
    let beside_previous = quota.amount().saturating_sub(asked);
    if let Some(room) = beside_previous.checked_sub(state.current()) {
        let elapsed = elapsed_until(state.previous(), room, period);
        if elapsed < period {
            return state.id().start(period).after(elapsed);
        }
    }
    let elapsed = elapsed_until(state.current(), beside_previous, period);
    state.id().end(period).after(elapsed)
}

/// How far into a window the previous window's `count` weighs at most `room`:
/// count · (period − elapsed) ≤ room · period, solved for the smallest elapsed.
fn elapsed_until(count: u64, room: u64, period: Nanos) -> Nanos {
    if count <= room {
        return Nanos::ZERO;
    }
    period.minus(Nanos::new(div_floor(product(room, period.get()), count)))
}

/// The moment that nothing counts any more.
fn empty_at(state: &WindowState, quota: &Quota) -> Timestamp {
    let period = quota.period();
    if state.current() > 0 {
        state.id().next().end(period)
    } else if state.previous() > 0 {
        state.id().end(period)
    } else {
        Timestamp::EPOCH
    }
}
