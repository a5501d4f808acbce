//! What a node admits while it hears nothing of the others: its share of what is left.

use super::body::Body;
use super::cell::Cell;
use super::{Fleet, StoreHealth};
use crate::algorithms::{Outcome, Verdict, WindowState};
use crate::units::{Cost, Quota, StoreLoss, Timestamp};

/// Which costs of its own a node takes the others to have admitted as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mirrored {
    /// Those that the store has not been told of.
    Unsent,
    /// All of the window: the store has told of this node's, and not yet of the others'.
    All,
}

impl Cell<'_> {
    /// Whether the cell keeps to its share although the store answers, because others may
    /// not have told it yet what they have admitted meanwhile.
    pub(super) fn is_held_back(&self, fleet: &Fleet) -> bool {
        fleet.is_scattered() && self.limit.on_store_loss == StoreLoss::Share
    }

    /// Takes `cost` under `quota`, by the share rule if it is a share.
    #[inline(always)]
    pub(super) fn take_under(
        &mut self,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        fleet: &Fleet,
    ) -> Outcome {
        let Some(outcome) = self.probe_share(quota, cost, now, fleet) else {
            return self.body.take(quota, cost, now);
        };
        if let Verdict::Admitted { .. } = outcome.verdict {
            // Where the share admits it, the limit does.
            let limit = self.limit.quota;
            self.body.take(&limit, cost, now);
        }
        outcome
    }

    /// Says what [`Cell::take_under`] would be told, and takes nothing.
    pub(super) fn probe_under(
        &mut self,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        fleet: &Fleet,
    ) -> Outcome {
        let share = self.probe_share(quota, cost, now, fleet);
        share.unwrap_or_else(|| self.body.probe(quota, cost, now))
    }

    /// What the share says to `cost`, if `quota` is this node's share of a limit that
    /// counts by windows.
    ///
    /// Every node is taken to have admitted what this one has admitted and nobody else
    /// knows of. So what this node may admit so is what the limit leaves of all that is
    /// known, divided by the number of nodes and rounded up.
    #[inline(always)]
    fn probe_share(
        &self,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        fleet: &Fleet,
    ) -> Option<Outcome> {
        let is_share = quota.amount() < self.limit.quota.amount();
        is_share.then(|| self.share_says(cost, now, fleet))?
    }

    #[cold]
    fn share_says(&self, cost: Cost, now: Timestamp, fleet: &Fleet) -> Option<Outcome> {
        let limit = &self.limit.quota;
        let nodes = u64::from(fleet.nodes());
        let mirrored = match fleet.health() {
            StoreHealth::Up => Mirrored::All,
            StoreHealth::Lost | StoreHealth::Absent => Mirrored::Unsent,
        };
        let mut state = self.mirrored(mirrored, nodes)?;
        // The last unit of every other node is let go: no share is nothing.
        let others = nodes - 1;
        let whole = cost.get().saturating_mul(nodes).saturating_sub(others);
        let outcome = state.take(limit, Cost::new(whole), now);
        let charged = matches!(outcome.verdict, Verdict::Admitted { .. }) && !cost.is_peek();
        let left = outcome.remaining;
        let left = if charged {
            left.saturating_sub(others)
        } else {
            left
        };
        Some(Outcome {
            remaining: left.div_ceil(nodes),
            ..outcome
        })
    }

    /// The counts as they are if each of `nodes` nodes has done as this one has.
    fn mirrored(&self, mirrored: Mirrored, nodes: u64) -> Option<WindowState> {
        let Body::Window { state, ledger } = &self.body else {
            return None;
        };
        let hold = self.edge.as_ref().map_or(0, |edge| edge.hold);
        let (current, previous) = (state.id(), state.id().previous());
        let windows = [
            (
                current,
                state.current().saturating_add(hold),
                ledger.current,
                hold,
            ),
            (previous, state.previous(), ledger.previous, 0),
        ];
        let mut all = *state;
        for (window, used, account, hold) in windows {
            let count = match mirrored {
                Mirrored::Unsent => {
                    let unsent = u64::try_from(account.pending()).unwrap_or(0);
                    used.saturating_add(unsent.saturating_mul(nodes - 1))
                }
                Mirrored::All => used.max(account.own().saturating_sub(hold).saturating_mul(nodes)),
            };
            all.set(window, count);
        }
        Some(all)
    }
}
