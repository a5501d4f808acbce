//! Settings that have no effect where they stand.

use super::super::fault::Problem;
use super::super::reader::{Fields, Report, Spot};
use super::settings::{INTERVAL, MAX_INTERVAL, MIN_INTERVAL, STRICT_TIMEOUT, Settings};
use crate::units::{Consistency, StoreLoss};

const ON_STORE_LOSS: &str = "on_store_loss";

/// Warns of what `fields`, read as `settings`, state without any effect on limits that
/// promise this `consistency`: on any of them.
pub(super) fn warn(
    fields: &Fields<'_>,
    settings: &Settings,
    consistency: impl Iterator<Item = Consistency> + Clone,
    spot: &Spot<'_>,
    report: &mut Report,
) {
    let stated = [
        STRICT_TIMEOUT,
        ON_STORE_LOSS,
        INTERVAL,
        MIN_INTERVAL,
        MAX_INTERVAL,
    ];
    for field in stated {
        let Some(node) = fields.get(field) else {
            continue;
        };
        let mut why = consistency
            .clone()
            .map(|consistency| idle(field, settings, consistency));
        if let Some(Some(problem)) = why.next()
            && why.all(|problem| problem.is_some())
        {
            report.warn(&spot.field(field, node.at), problem);
        }
    }
}

/// Why `field` of `settings` does nothing for a limit that promises `consistency`; `None` if
/// it does something.
fn idle(field: &str, settings: &Settings, consistency: Consistency) -> Option<Problem> {
    let shares = || {
        let loss = settings.on_store_loss;
        matches!(loss, Some(StoreLoss::Share | StoreLoss::Local))
    };
    match (field, consistency) {
        (STRICT_TIMEOUT, one) if !one.may_ask() => Some(Problem::NeverWaits(one)),
        (STRICT_TIMEOUT, _) => None,
        (_, Consistency::Local) => Some(Problem::NoStoreNeeded),
        (ON_STORE_LOSS, Consistency::Bounded) if shares() => Some(Problem::NothingToShare),
        _ => None,
    }
}
