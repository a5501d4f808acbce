//! Checks that wait for the store.

use futures_util::future::join_all;
use tokio::task::coop::unconstrained;

use super::Services;
use crate::engine::{Pending, Ruling, Unanswered};

/// What came of the questions of `checks`, in their order. They are put in that order and
/// wait together, none longer than its limits allow.
pub(super) async fn ask_all<'p>(
    services: &Services,
    checks: impl IntoIterator<Item = &'p Pending>,
) -> Vec<Result<Ruling, Unanswered>> {
    let checks = checks.into_iter();
    let asking = join_all(checks.map(|check| ask(services, check)));
    // Making room for others in between would let later questions overtake.
    unconstrained(asking).await
}

/// What came of the question of one check.
pub(super) async fn ask(services: &Services, check: &Pending) -> Result<Ruling, Unanswered> {
    match &services.authority {
        Some(authority) => authority.ask(check.question()).await,
        None => Err(Unanswered),
    }
}
