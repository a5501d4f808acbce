//! Decisions that are counted together.

use std::sync::Arc;

use arc_swap::Guard;

use super::{Door, Observed, Observer, Table, index};
use crate::engine::{Decision, Outcome};

impl Observer {
    /// The counters as they are now. Have them after the rules' snapshot that decides, so
    /// that they are of no earlier rules; do not keep them across a wait.
    pub(in crate::server) fn counters(&self) -> Counters {
        Counters(self.table.load())
    }
}

/// The counters of the rules in force.
pub(in crate::server) struct Counters(Guard<Arc<Table>>);

impl Counters {
    /// Counts decisions at `door`: each once, until the answer is dropped at the latest.
    pub(in crate::server) fn counting(&self, door: Door) -> Counting<'_> {
        Counting {
            table: &self.0,
            door,
            alike: None,
        }
    }
}

/// Counts decisions, and adds those in a row that are alike at once: a counter that all
/// threads share costs more than most of a check.
pub(in crate::server) struct Counting<'t> {
    table: &'t Table,
    door: Door,
    /// The counter of the last ones, and how many they are.
    alike: Option<(&'t Observed, Outcome, u64)>,
}

impl Counting<'_> {
    /// Counts one decision.
    #[inline]
    pub(in crate::server) fn decided(&mut self, decision: &Decision<'_>) {
        let limit = decision.limit.as_ref();
        let observed = limit.and_then(|limit| self.table.of_limit(limit));
        let observed = observed.map_or(&*self.table.none, |observed| observed);
        match &mut self.alike {
            Some((last, outcome, count))
                if std::ptr::eq(*last, observed) && index(*outcome) == index(decision.outcome) =>
            {
                *count += 1;
            }
            _ => {
                self.add();
                self.alike = Some((observed, decision.outcome, 1));
            }
        }
        for said in decision.advised() {
            let observed = self.table.of_series(said.limit.series);
            if let Some(advice) = observed.and_then(|observed| observed.advice.as_ref()) {
                advice.said(said);
            }
        }
    }

    /// Adds what is not added yet.
    fn add(&mut self) {
        if let Some((observed, outcome, count)) = self.alike.take() {
            observed.count(self.door, outcome, count);
        }
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.add();
    }
}
