//! `fixed_window`: up to `amount` in each window: aligned to the epoch, or of a calendar.
//!
//! Worst case: 2 · amount within one window's length, half of it just before a window's
//! edge and half just after. Two hits a nanosecond apart may lie in different
//! windows; no window ever admits more than `amount`.

use super::{Outcome, Verdict, WindowState};
use crate::units::{Cost, Nanos, Quota, Timestamp};

#[inline(always)]
pub(super) fn take(state: &mut WindowState, quota: &Quota, cost: Cost, now: Timestamp) -> Outcome {
    let mut next = state.enter(quota, now);
    let until_end = quota.windows().end(next.id()).since(now);
    let asked = cost.get().max(1);
    let verdict = if asked > quota.amount() {
        Verdict::Impossible
    } else if asked <= quota.amount().saturating_sub(next.current()) {
        next.add(cost);
        if !cost.is_peek() {
            *state = next;
        }
        Verdict::NOW
    } else {
        Verdict::Refused {
            retry_after: until_end,
        }
    };
    Outcome {
        verdict,
        remaining: quota.amount().saturating_sub(next.current()),
        reset_after: if next.current() == 0 {
            Nanos::ZERO
        } else {
            until_end
        },
    }
}
