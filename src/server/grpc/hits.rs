//! Hits that are no question: they come back, or were used already.

use crate::engine::Decision;
use crate::protocol::grpc::{Check, Hits};
use crate::server::Services;
use crate::units::{Cost, Timestamp};

/// Gives `cost` back to the limits of `check`.
///
/// TO BE WIRED to the engine's refund.
pub(super) fn refund(check: &Check<'_>, cost: Cost, services: &Services, now: Timestamp) {
    check.ask(cost, |request| {
        let _ = (request, services, now);
    });
}

/// Counts what was used although `decision` refused it.
///
/// TO BE WIRED to the engine's charge past the limit.
pub(super) fn beyond(
    check: &Check<'_>,
    decision: &Decision<'_>,
    services: &Services,
    now: Timestamp,
) {
    let Hits::Used(cost) = check.hits() else {
        return;
    };
    if !decision.outcome.is_allowed() {
        check.ask(cost, |request| {
            let _ = (request, services, now);
        });
    }
}
