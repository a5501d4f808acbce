use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::algorithms::Outcome;
use crate::units::{Cost, Key, Limit, Timestamp};

/// Whoever decides checks of strict limits for the whole fleet: the store.
pub trait Authority: fmt::Debug + Send + Sync {
    /// Puts `question`, and answers within the shortest time that its limits wait.
    ///
    /// Questions are put in the order in which the futures are first polled. One that is
    /// dropped before it is done may have been answered and charged: nobody is told.
    ///
    /// # Errors
    /// [`Unanswered`]: whether the cost was charged is not known.
    fn ask<'a>(&'a self, question: &'a Question) -> Answering<'a>;
}

/// The answer to a [`Question`], when it comes.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Ruling, Unanswered>> + Send + 'a>>;

/// May these limits be charged with this cost? All of them, or none.
#[derive(Clone, Debug)]
pub struct Question {
    /// The limits, each once, none of them a ban.
    pub limits: Vec<Counted>,
    /// What each is to be charged, times its weight; zero is a peek.
    pub cost: Cost,
    /// Whether they may refuse it.
    pub purpose: Purpose,
}

/// What is to become of a [`Question`]'s cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It is charged if all limits admit it.
    Check,
    /// It is charged whatever they say, as part of what was admitted at a moment of the
    /// store's time; `None` for now.
    Charge(Option<Timestamp>),
    /// It is taken off what was admitted at that moment; `None` for what counts now. Never
    /// below zero.
    Refund(Option<Timestamp>),
}

/// One limit, and who is counted by it.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The limit.
    pub limit: Arc<Limit>,
    /// Who is counted.
    pub key: Key,
    /// How many times the question's cost counts.
    pub weight: u64,
}

impl Counted {
    /// What the limit is charged for a question of this `cost`.
    pub fn cost(&self, cost: Cost) -> Cost {
        cost.times(self.weight)
    }
}

/// The answer to a [`Question`]. Of a check: charged if, and only if, every limit admits it
/// (and, as ever, where a limit that refuses charges refusals). Of a charge or a refund:
/// what a check of 1 would be told after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// The store's time, by which it was decided.
    pub at: Timestamp,
    /// What each limit says, in the order of the question.
    pub outcomes: Vec<Outcome>,
    /// The places of the limits at which a charge or a refund went nowhere: the window of its
    /// moment is over, or, of a refund, nothing was there.
    pub dropped: Vec<usize>,
}

/// The store was not asked, or did not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store did not answer")]
pub struct Unanswered;
