//! What a cell answers to a check.

use crate::algorithms::Outcome;
use crate::units::{Nanos, Timestamp};

/// Who decides a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The cell, from what it knows.
    Cell,
    /// The store alone, if it can be asked: the cell would admit the check, and has no lease
    /// for it. Else it is refused as the outcome says.
    Store,
}

/// What [`Counters::take`](super::Counters::take) answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// What the limit says.
    pub outcome: Outcome,
    /// How long ago the store last told about the cell; `None` if it never has.
    pub stale: Option<Nanos>,
    /// The moment that the cost counts for: what [`Counters::give_back`](super::Counters::give_back) wants to know.
    pub at: Timestamp,
    /// Who decides it.
    pub by: By,
}
