//! The limits that apply to a request.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::units::{Cost, Key, Limit};

/// The limits that apply to one request; rarely more than four.
pub type AppliedLimits<'r> = SmallVec<[Applied<'r>; 4]>;

/// Who or what was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// The rule.
    #[error("no rule has that name")]
    Rule,
    /// The caller, whom a rule insists on knowing.
    #[error("the caller does not say who it is")]
    Caller,
}

/// One limit that applies to a request, with the key that it counts by.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'r> {
    /// The limit.
    pub limit: &'r Arc<Limit>,
    /// Who is counted.
    pub key: Key,
    /// How many times the request's cost counts.
    pub weight: u64,
    /// The attribute of the request that says so, where one does.
    pub measure: Option<&'r Arc<str>>,
}

impl Applied<'_> {
    /// What the limit is charged for a request of this `cost`.
    pub fn cost(&self, cost: Cost) -> Cost {
        cost.times(self.weight)
    }
}
