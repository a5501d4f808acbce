//! What a window came to that was full: the total of the fleet against the limit.
//!
//! A cell that has reached its limit in a window reads the window's total once more when
//! it is over and all nodes have sent what they had. It does so with the next exchange
//! that the cell, or the sweep, gives occasion to, and only while the window is the one
//! before the present one.

use std::sync::Arc;

use super::body::Body;
use super::cell::Cell;
use super::slot::Slot;
use super::{Answer, Counters, Fleet};
use crate::policy::Terms;
use crate::units::{Limit, Nanos, Timestamp};

/// A window that was full here, of one caller, when the store has told its last total.
#[derive(Clone, Debug)]
pub struct SettledWindow {
    /// The limit; of a sliding window, the window is one of those that it weighs.
    pub limit: Arc<Limit>,
    /// What the fleet has admitted in it.
    pub total: u64,
}

impl SettledWindow {
    /// The cost that was admitted beyond the limit.
    pub fn over(&self) -> u64 {
        self.total.saturating_sub(self.limit.quota.capacity())
    }
}

/// So many are kept until somebody looks at them; of more, the last are dropped.
pub(super) const KEPT: usize = 4_096;

impl Counters {
    /// A window that was full and whose total is known now.
    pub fn next_settled(&self) -> Option<SettledWindow> {
        self.settled.pop()
    }
}

impl Cell<'_> {
    /// Takes note that the limit has nothing left in the present window, if it has not.
    pub(super) fn note_whether_full(&mut self, remaining: u64) {
        if remaining == 0
            && let (Some(edge), Body::Window { state, .. }) = (&mut self.edge, &self.body)
        {
            edge.full = state.id();
        }
    }

    /// Whether the total of the window before, which was full, is still to be read.
    pub(super) fn is_closing(&self) -> bool {
        match (&self.edge, &self.body) {
            (Some(edge), Body::Window { state, .. }) => edge.closing == Some(state.id().previous()),
            _ => false,
        }
    }

    /// Whether that should be done now, or completed what is to be read.
    pub(super) fn closes(&self, terms: &Terms, now: Timestamp, fleet: &Fleet) -> bool {
        if !self.is_closing() || fleet.is_scattered() {
            return false;
        }
        match (&self.edge, &self.body) {
            (_, Body::Window { ledger, .. }) if ledger.previous.pending() != 0 => true,
            (Some(edge), _) => now >= self.is_complete_at(terms) && edge.may_read(terms, now),
            (None, _) => false,
        }
    }

    /// When all nodes have sent what they have admitted in the window before, and what
    /// was left of their leases.
    fn is_complete_at(&self, terms: &Terms) -> Timestamp {
        let wait = terms.interval().times(3).plus(terms.reaction().times(2));
        let wait = wait.plus(Nanos::from_millis(10));
        self.begins().after(wait.min(terms.period.divided_by(2)))
    }

    /// The window before, if the store's `answer` for `slot`, which has been taken in, was
    /// the last word about it.
    pub(super) fn settled(
        &mut self,
        slot: Slot,
        answer: Answer,
        fleet: &Fleet,
    ) -> Option<SettledWindow> {
        let complete = answer.at >= self.is_complete_at(&self.terms(fleet));
        if !self.is_closing() || !complete || fleet.is_scattered() {
            return None;
        }
        let edge = self.edge.as_mut()?;
        if edge.closing != Some(slot.window) {
            return None;
        }
        edge.closing = None;
        let Body::Window { state, .. } = &self.body else {
            return None;
        };
        Some(SettledWindow {
            limit: Arc::clone(self.limit),
            total: state.previous(),
        })
    }
}
