//! Costs that were spent already: recorded whatever the limits say.

use super::judged::Tally;
use super::pending::Pending;
use super::per_call::PerCall;
use super::{Begun, Engine, Places, Purpose, Request, Snapshot, Subject};
use crate::counters::Booked;
use crate::rules::{Applied, AppliedLimits};
use crate::units::{Consistency, Cost, Limit, Nanos, Timestamp};

/// Which way a cost goes that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It was spent, and counts.
    Charge,
    /// It was not spent after all: it is taken off what counts now, never below zero.
    Refund,
    /// It was taken in advance, and never used in the shortest of the windows that it was
    /// taken from: it is taken off what limits of a longer period have admitted at a moment.
    Lapsed {
        /// The moment.
        at: Timestamp,
        /// The period of the shortest.
        within: Nanos,
    },
}

impl Entry {
    const fn purpose(self) -> Purpose {
        match self {
            Entry::Charge => Purpose::Charge(None),
            Entry::Refund => Purpose::Refund(None),
            Entry::Lapsed { at, .. } => Purpose::Refund(Some(at)),
        }
    }

    /// Whether `limit` has anything to do with it.
    fn is_of(self, limit: &Limit, now: Timestamp) -> bool {
        match self {
            Entry::Charge | Entry::Refund => true,
            Entry::Lapsed { within, .. } => limit.quota.period_at(now) > within,
        }
    }
}

impl Snapshot<'_> {
    /// Records the cost of `request` in all limits that apply, those that never refuse among
    /// them, and decides what a check of 1 would be told after it. Never waits; strict limits
    /// that the store is to be told of are pending.
    pub fn report(&self, request: &Request<'_>, entry: Entry, now: Timestamp) -> Begun<'_> {
        let engine = self.engine;
        let own = match &request.subject {
            Subject::Throttle { key, quota } => {
                let limit = engine.per_call.limit(*quota);
                let key = PerCall::key(&limit, key);
                Some((limit, key))
            }
            Subject::Descriptor(descriptor) => self.stated(descriptor),
            Subject::Rule { .. } | Subject::Described(_) => None,
        };
        if let Some((limit, key)) = own {
            let one = Applied {
                key,
                limit: &limit,
                weight: 1,
                measure: None,
            };
            engine.book_here(&one, entry, request.cost, now);
            let peek = Request {
                cost: Cost::ZERO,
                ..*request
            };
            return self.begin(&peek, now);
        }
        let mut applied = AppliedLimits::new();
        if let Some(decision) = self.find(request, now, &mut applied) {
            return Begun::Decided(decision);
        }
        let mut tally = self.tally(&applied);
        let mut asked = Places::new();
        for (index, one) in applied.iter().enumerate() {
            if !entry.is_of(one.limit, now) {
                engine.tell(&mut tally, index, one, now);
                continue;
            }
            let enforces = one.limit.mode.enforces();
            let exact = enforces && one.limit.consistency == Consistency::Strict;
            if exact && engine.asks(one.limit) && !request.cost.is_peek() {
                asked.push(index);
                continue;
            }
            if engine.book(one, entry, request.cost, now) == Booked::ByStore {
                if enforces && engine.asks(one.limit) {
                    asked.push(index);
                    continue;
                }
                engine.book_here(one, entry, request.cost, now);
            }
            engine.tell(&mut tally, index, one, now);
        }
        if !asked.is_empty() {
            let purpose = entry.purpose();
            let pending = Pending::new(&applied, asked, (request.cost, purpose), tally, None);
            return Begun::Pending(Box::new(pending));
        }
        let limit_at = |index| applied.get(index).map(|one: &Applied<'_>| &**one.limit);
        Begun::Decided(tally.decision(limit_at, now))
    }
}

impl Engine {
    fn book(&self, one: &Applied<'_>, entry: Entry, cost: Cost, now: Timestamp) -> Booked {
        let cost = one.cost(cost);
        if cost.is_peek() || one.limit.quota.is_ban() {
            return Booked::Dropped;
        }
        match entry {
            Entry::Charge => self.counters.charge(one.limit, one.key, cost, now),
            Entry::Refund => self.counters.refund(one.limit, one.key, cost, now),
            Entry::Lapsed { at, .. } => {
                let counters = &self.counters;
                counters.refund_late(one.limit, one.key, cost, at, now)
            }
        }
    }

    /// The same, on this node in any case.
    fn book_here(&self, one: &Applied<'_>, entry: Entry, cost: Cost, now: Timestamp) {
        let booked = self.book(one, entry, cost, now);
        if booked == Booked::ByStore && entry == Entry::Charge {
            let cost = one.cost(cost);
            self.counters.charge_shared(one.limit, cost, None, now);
        }
    }

    /// Books at the limit `one` what the store was asked to and did not answer to. It may
    /// have: a refund is not made twice.
    pub(super) fn book_unanswered(
        &self,
        one: &Applied<'_>,
        purpose: Purpose,
        cost: Cost,
        now: Timestamp,
    ) {
        if let Purpose::Charge(_) = purpose {
            self.book_here(one, Entry::Charge, cost, now);
        }
    }

    /// Notes what the limit at `index` says now, to a check of 1.
    pub(super) fn tell(&self, tally: &mut Tally, index: usize, one: &Applied<'_>, now: Timestamp) {
        let judged = self.probe(one, Cost::ZERO, now);
        if one.limit.mode.enforces() {
            tally.note(index, one.key, Cost::ZERO, judged);
        } else {
            tally.advice.push((index, judged));
        }
    }
}
