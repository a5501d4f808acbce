//! Checks, reports and settlements that wait for the store.

use futures_util::future::join_all;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, timeout_at};

use super::Services;
use crate::engine::{Question, Ruling, Unanswered};

/// What came of `questions`, in their order. They are put in that order and wait together,
/// none longer than its limits allow.
pub(super) async fn ask_all<'p>(
    services: &Services,
    questions: impl IntoIterator<Item = &'p Question>,
) -> Vec<Result<Ruling, Unanswered>> {
    let questions = questions.into_iter();
    let asking = join_all(questions.map(|question| ask(services, question)));
    // Making room for others in between would let later questions overtake.
    unconstrained(asking).await
}

/// The same for somebody who does not wait beyond `deadline`.
pub(super) async fn ask_all_until<'p>(
    services: &Services,
    questions: impl IntoIterator<Item = &'p Question>,
    deadline: Option<Instant>,
) -> Vec<Result<Ruling, Unanswered>> {
    let Some(deadline) = deadline else {
        return ask_all(services, questions).await;
    };
    let asking = questions.into_iter().map(|question| async move {
        let asking = timeout_at(deadline, ask(services, question));
        asking.await.unwrap_or(Err(Unanswered))
    });
    unconstrained(join_all(asking)).await
}

/// The same for what is recorded and not asked about: it is told even if the client hangs up
/// meanwhile.
pub(super) async fn tell_all(
    services: &Services,
    questions: Vec<Question>,
) -> Vec<Result<Ruling, Unanswered>> {
    let (services, count) = (services.clone(), questions.len());
    let telling = async move { ask_all(&services, &questions).await };
    let told = tokio::spawn(telling).await;
    told.unwrap_or_else(|_| vec![Err(Unanswered); count])
}

/// What came of one question.
pub(super) async fn ask(services: &Services, question: &Question) -> Result<Ruling, Unanswered> {
    match &services.authority {
        Some(authority) => authority.ask(question).await,
        None => Err(Unanswered),
    }
}
