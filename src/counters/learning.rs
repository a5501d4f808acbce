//! What a cell learns from the store.

use std::sync::Arc;

use super::body::Body;
use super::cell::{Cell, Signal};
use super::marks::Told as Queued;
use super::slot::{Slot, Space};
use super::{Announcement, Answer, Fleet};
use crate::algorithms::BucketState;
use crate::policy::Pressure;
use crate::units::{Cost, Nanos, Timestamp};

impl Cell<'_> {
    /// Learns what the fleet has used, as the store answered to a delta for `slot`.
    /// Answers when the sync should look at the cell again, asked or not.
    pub(super) fn absorb(
        &mut self,
        slot: Slot,
        answer: Answer,
        now: Timestamp,
        fleet: &Fleet,
    ) -> Option<Nanos> {
        self.learn(slot, answer, now, fleet);
        let terms = self.terms(fleet);
        if self.body.owes() && !self.is_queued() {
            // A lease came too late, or for nobody: others wait for it.
            self.marks.set_told(Queued::Queued(Pressure::Near));
            return Some(terms.interval());
        }
        if fleet.is_leaving() && self.has_leases() {
            return Some(terms.interval());
        }
        let edge = self.edge.as_mut()?;
        edge.look_again(&terms, now)
    }

    fn learn(&mut self, slot: Slot, answer: Answer, now: Timestamp, fleet: &Fleet) {
        let limit = Arc::clone(self.limit);
        if Space::of(&limit.quota) != slot.space {
            return;
        }
        self.turn(&limit, now, fleet);
        let granted = answer.told.map_or(0, |told| told.grant);
        let granted = Cost::new(granted / self.body.unit(&limit.quota));
        if self.body.is_next(slot) {
            if let Some(edge) = &mut self.edge {
                edge.next = edge.next.saturating_add(granted.get());
            }
            return;
        }
        let present = self.body.is_present(slot, now);
        self.lend(slot, granted, present && !fleet.is_leaving());
        let hold = self.edge.as_ref().map_or(0, |edge| edge.hold);
        let at_the_edge = self.edge.is_some();
        match &mut self.body {
            Body::Window { state, ledger } => {
                let (account, lent) = match slot.window == state.id() {
                    true => (ledger.current, hold),
                    false => (ledger.previous, 0),
                };
                let upto = answer.upto.saturating_add_unsigned(granted.get());
                let used = account.view(answer.total, upto).saturating_sub(lent);
                if at_the_edge {
                    // Leases that others gave back are free again.
                    state.set(slot.window, used);
                } else {
                    state.raise(slot.window, used);
                }
            }
            Body::Bucket { state, ledger } => {
                let upto = answer.upto.saturating_add_unsigned(granted.get());
                let unsent = Cost::new(ledger.account.view(0, upto));
                let debt = Nanos::new(answer.total);
                if at_the_edge {
                    let lent = Cost::new(hold);
                    state.set(&limit.quota, debt, answer.at, unsent, lent, now);
                } else {
                    state.raise(&limit.quota, debt, answer.at, unsent, now);
                }
            }
            Body::Log(log) => {
                let upto = answer.upto.saturating_add_unsigned(granted.get());
                log.learn(
                    &limit.quota,
                    slot,
                    answer.total.saturating_add_signed(upto.saturating_neg()),
                    now,
                );
            }
        }
        if let (Body::Window { state, .. }, Some(edge)) = (&self.body, &mut self.edge)
            && slot.window.next() == state.id()
            && answer.at >= slot.end()
        {
            edge.settle(state.id());
        }
        if present {
            self.marks.set_heard(answer.at);
            self.hear(slot, answer, now, fleet);
        }
    }

    /// Notes what the store has lent for `slot`, for which there is `use_here` or none.
    fn lend(&mut self, slot: Slot, granted: Cost, use_here: bool) {
        let hold = &mut self.edge.as_mut().map(|edge| &mut edge.hold);
        match &mut self.body {
            Body::Bucket { ledger, .. } => ledger.account.lend(granted),
            body => {
                if let Some(account) = body.account(slot.window) {
                    account.lend(granted);
                }
            }
        }
        match hold {
            Some(hold) if use_here => **hold = hold.saturating_add(granted.get()),
            // Nobody is left to spend it.
            _ => self.body.give_up(granted, slot.window),
        }
    }

    /// Takes in what the store says of the fleet's demand.
    fn hear(&mut self, slot: Slot, answer: Answer, now: Timestamp, fleet: &Fleet) {
        let terms = self.terms(fleet);
        let remaining = self.body.remaining(&self.limit.quota, now);
        let elapsed = now.since(slot.start());
        let (Some(edge), Some(told)) = (&mut self.edge, answer.told) else {
            if self.edge.is_none() && self.is_near_the_edge(remaining, now, fleet) {
                self.make_edge(Cost::ONE, now, fleet);
            }
            return;
        };
        edge.answered(told, (slot.window, elapsed), &terms, now);
    }

    /// The fleet has used half of the limit, or all of it.
    pub(super) fn announce(
        &mut self,
        announced: Announcement,
        now: Timestamp,
        fleet: &Fleet,
    ) -> Signal {
        let limit = Arc::clone(self.limit);
        self.turn(&limit, now, fleet);
        let slot = announced.slot;
        if Space::of(&limit.quota) != slot.space || !self.body.is_present(slot, now) {
            return Signal::Quiet;
        }
        if self.edge.is_none() {
            self.make_edge(Cost::ONE, now, fleet);
        }
        let terms = self.terms(fleet);
        let elapsed = now.since(slot.start());
        if let Some(edge) = &mut self.edge {
            edge.heard_of_demand(announced.demand, (slot.window, elapsed), &terms, now);
            let hold = edge.hold;
            let unsent = self.body.pending();
            match &mut self.body {
                Body::Window { state, .. } => {
                    let used = announced.total.saturating_sub(hold);
                    state.raise(slot.window, used);
                }
                Body::Bucket { state, .. } => {
                    let debt = Nanos::new(announced.total)
                        .minus(BucketState::cost_as_time(&limit.quota, Cost::new(hold)));
                    let none = Cost::ZERO;
                    state.raise(&limit.quota, debt, announced.at, none, now);
                }
                Body::Log(log) => {
                    let account = log.account(slot.window);
                    let others = account.account.balance().saturating_neg();
                    let others = announced.total.saturating_add_signed(others);
                    if others > account.others {
                        log.learn(&limit.quota, slot, others, now);
                    }
                }
            }
            if unsent == 0 {
                return Signal::Quiet;
            }
        }
        let remaining = self.body.remaining(&limit.quota, now);
        self.signal(remaining, now, fleet)
    }
}
