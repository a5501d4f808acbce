//! Costs that nobody is asked about: what became known after the work was done, and what is
//! given back of it.
//!
//! A charge counts whether or not the limit has room for it. It is told to the fleet like
//! any admitted cost, from the lease as far as that reaches; what it takes past the limit,
//! every node sees. A charge or a refund of an earlier moment belongs to the window of that
//! moment. Once that no longer counts, it goes nowhere.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::body::{Body, Log};
use super::cell::{Cell, Signal};
use super::slot::Space;
use super::{Counters, Fleet};
use crate::algorithms::{BucketState, MOST_OWED};
use crate::units::{Algorithm, Consistency, Cost, Key, Limit, Quota, Timestamp};

/// What became of a cost that was charged or refunded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Booked {
    /// It counts.
    Counted,
    /// It went nowhere: the window of its moment no longer counts, or, of a refund, nothing
    /// was there.
    Dropped,
    /// It went nowhere yet: no cell can hold it, and the store should be told.
    ByStore,
}

impl Counters {
    /// Charges the cell of `key`, which counts `limit`, with `cost`, whether or not there is
    /// room for it.
    pub fn charge(&self, limit: &Arc<Limit>, key: Key, cost: Cost, now: Timestamp) -> Booked {
        self.book(key, |cell| {
            cell.turn(limit, now, &self.fleet);
            cell.charge(cost, None, now, &self.fleet)
        })
        .unwrap_or_else(|| self.charge_unknown(limit, key, cost, None, now))
    }

    /// The same for a cost that belongs to what was admitted at `moment` ([`Taken::at`],
    /// or the store's time). `limit` may be one that a reload has changed since.
    ///
    /// [`Taken::at`]: super::Taken::at
    pub fn charge_late(
        &self,
        limit: &Arc<Limit>,
        key: Key,
        cost: Cost,
        moment: Timestamp,
        now: Timestamp,
    ) -> Booked {
        let moment = Some(moment);
        self.book(key, |cell| cell.charge(cost, moment, now, &self.fleet))
            .unwrap_or_else(|| self.charge_unknown(limit, key, cost, moment, now))
    }

    /// Charges a key that has no cell. Its shared cell is charged where no other can be had.
    fn charge_unknown(
        &self,
        limit: &Arc<Limit>,
        key: Key,
        cost: Cost,
        moment: Option<Timestamp>,
        now: Timestamp,
    ) -> Booked {
        if self.cells.load(Ordering::Relaxed) >= self.max_cells {
            return if limit.consistency == Consistency::Bounded && self.fleet.has_store() {
                Booked::ByStore
            } else {
                self.charge_shared(limit, cost, moment, now)
            };
        }
        let (booked, signal) = self.touch_or_new(key, limit, |cell| {
            if let Some(announced) = self.unknown.recall(key, now) {
                let _quiet = cell.announce(announced, now, &self.fleet);
            }
            cell.charge(cost, moment, now, &self.fleet)
        });
        self.tell(key, signal);
        booked
    }

    /// Charges the cell that newcomers to a full table share: the last resort.
    pub fn charge_shared(
        &self,
        limit: &Arc<Limit>,
        cost: Cost,
        moment: Option<Timestamp>,
        now: Timestamp,
    ) -> Booked {
        self.overflowed.fetch_add(1, Ordering::Relaxed);
        let (key, shared) = self.overflow_of(limit, &limit.quota);
        let (booked, _quiet) = self.touch_or_new(key, &shared, |cell| {
            cell.turn(&shared, now, &self.fleet);
            cell.charge(cost, moment, now, &self.fleet)
        });
        booked
    }

    /// Takes `cost` off what the cell of `key` counts now, never below zero. The fleet is
    /// told of all of it: another node may have admitted what is refunded here.
    pub fn refund(&self, limit: &Arc<Limit>, key: Key, cost: Cost, now: Timestamp) -> Booked {
        let known = self.book(key, |cell| {
            cell.turn(limit, now, &self.fleet);
            cell.refund(cost, now, &self.fleet)
        });
        if let Some(booked) = known {
            return booked;
        }
        let shared = self.fleet.has_store() && limit.consistency != Consistency::Local;
        if self.cells.load(Ordering::Relaxed) >= self.max_cells {
            return self.refund_shared(limit, |cell| cell.refund(cost, now, &self.fleet));
        }
        if !shared {
            return Booked::Dropped;
        }
        let (booked, signal) =
            self.touch_or_new(key, limit, |cell| cell.refund(cost, now, &self.fleet));
        self.tell(key, signal);
        booked
    }

    /// Takes `cost` off what was admitted at `moment`.
    pub fn refund_late(
        &self,
        limit: &Arc<Limit>,
        key: Key,
        cost: Cost,
        moment: Timestamp,
        now: Timestamp,
    ) -> Booked {
        let undo = |cell: &mut Cell<'_>| cell.refund_late(cost, moment, now, &self.fleet);
        self.book(key, undo)
            .unwrap_or_else(|| self.refund_shared(limit, undo))
    }

    fn refund_shared(
        &self,
        limit: &Arc<Limit>,
        refund: impl FnOnce(&mut Cell<'_>) -> (Booked, Signal),
    ) -> Booked {
        let known = self
            .overflow
            .get(&limit.id)
            .map(|shared| Arc::clone(&shared));
        let booked = known.and_then(|shared| self.book(shared_key(&shared), refund));
        booked.unwrap_or(Booked::Dropped)
    }

    /// Does something to the cell of `key`, if there is one.
    fn book(
        &self,
        key: Key,
        does: impl FnOnce(&mut Cell<'_>) -> (Booked, Signal),
    ) -> Option<Booked> {
        let (booked, signal) = self.touch(key, does)?;
        self.tell(key, signal);
        Some(booked)
    }
}

impl Cell<'_> {
    /// Charges `cost` past the limit, for `moment` or for now.
    fn charge(
        &mut self,
        cost: Cost,
        moment: Option<Timestamp>,
        now: Timestamp,
        fleet: &Fleet,
    ) -> (Booked, Signal) {
        let limit = Arc::clone(self.limit);
        self.turn(&limit, now, fleet);
        let quota = limit.quota;
        let at = moment.unwrap_or_else(|| self.body.moment(&quota, now));
        if !self.body.charge_at(&quota, cost, at, now) {
            return (Booked::Dropped, Signal::Quiet);
        }
        if !self.is_shared(fleet) {
            return (Booked::Counted, Signal::Quiet);
        }
        if self.edge.is_none() && limit.consistency == Consistency::Bounded {
            self.make_edge(cost, now, fleet);
        }
        let mut unlent = cost;
        if let Some(mut edge) = self.edge.take() {
            let terms = self.terms(fleet);
            edge.arrive(cost, &terms, now);
            let of_the_lease = matches!(self.body, Body::Bucket { .. })
                || Space::of(&quota).window(at) == edge.lent_in;
            if of_the_lease && self.is_safe(&terms, now) {
                let spent = edge.hold.min(cost.get());
                edge.hold -= spent;
                self.body.spend(&quota, Cost::new(spent));
                unlent = Cost::new(cost.get() - spent);
            }
            if !unlent.is_peek() {
                edge.admitted(now);
            }
            *self.edge = Some(edge);
        }
        self.body.record_charge(&quota, unlent, at);
        let remaining = self.body.remaining(&quota, now);
        if self.edge.is_none() && self.is_near_the_edge(remaining, now, fleet) {
            self.make_edge(cost, now, fleet);
        }
        self.note_whether_full(remaining);
        (Booked::Counted, self.signal(remaining, now, fleet))
    }

    fn refund(&mut self, cost: Cost, now: Timestamp, fleet: &Fleet) -> (Booked, Signal) {
        let limit = Arc::clone(self.limit);
        self.turn(&limit, now, fleet);
        let shared = self.is_shared(fleet);
        let refunded = self.body.refund(&limit.quota, cost, shared, now);
        let booked = if shared || refunded {
            Booked::Counted
        } else {
            Booked::Dropped
        };
        (booked, self.signal_of_a_refund(now, fleet))
    }

    fn refund_late(
        &mut self,
        cost: Cost,
        moment: Timestamp,
        now: Timestamp,
        fleet: &Fleet,
    ) -> (Booked, Signal) {
        let limit = Arc::clone(self.limit);
        self.turn(&limit, now, fleet);
        if !self.body.counts(&limit.quota, moment, now) {
            return (Booked::Dropped, Signal::Quiet);
        }
        self.body.give_back(&limit.quota, cost, moment, now);
        if self.is_shared(fleet) {
            self.body.record_give_back(&limit.quota, cost, moment);
        }
        (Booked::Counted, self.signal_of_a_refund(now, fleet))
    }

    fn signal_of_a_refund(&mut self, now: Timestamp, fleet: &Fleet) -> Signal {
        if !self.is_shared(fleet) {
            return Signal::Quiet;
        }
        let remaining = self.body.remaining(&self.limit.quota, now);
        self.signal(remaining, now, fleet)
    }
}

impl Body {
    /// Whether what was admitted at `moment` still counts.
    fn counts(&self, quota: &Quota, moment: Timestamp, now: Timestamp) -> bool {
        match self {
            Body::Window { state, .. } => {
                let window = quota.windows().at(moment);
                let weighed = quota.algorithm() == Algorithm::SlidingWindow;
                window == state.id() || (weighed && window == state.id().previous())
            }
            Body::Bucket { .. } => still_counts(quota, moment, now),
            Body::Log(log) => still_counts(quota, moment, log.state.moment(quota, now)),
        }
    }

    /// Counts `cost` for the moment `at`, if that still counts. A bucket owes it now.
    fn charge_at(&mut self, quota: &Quota, cost: Cost, at: Timestamp, now: Timestamp) -> bool {
        match self {
            Body::Window { state, .. } => state.charge_at(quota, cost, at),
            Body::Bucket { state, .. } => {
                state.charge(quota, cost, now);
                true
            }
            Body::Log(log) => {
                let counts = still_counts(quota, at, log.state.moment(quota, now));
                if counts {
                    log.state.add(quota, at, cost);
                }
                counts
            }
        }
    }

    /// Notes in the ledger what was charged and counts for the moment `at`.
    pub(super) fn record_charge(&mut self, quota: &Quota, cost: Cost, at: Timestamp) {
        if let Body::Bucket { ledger, .. } = self {
            let cost = BucketState::chargeable(quota, cost);
            ledger.account.admit(cost);
            let owed = ledger.own_debt.plus(BucketState::cost_as_time(quota, cost));
            ledger.own_debt = owed.min(quota.drain_time().times(MOST_OWED));
        } else if let Some(account) = self.account(Space::of(quota).window(at)) {
            account.admit(cost);
        }
    }

    /// Takes `cost` off what counts now, and notes it in the ledger: all of it if it is
    /// `shared`, else nobody reads that. Answers whether anything was there.
    fn refund(&mut self, quota: &Quota, cost: Cost, shared: bool, now: Timestamp) -> bool {
        match self {
            Body::Window { state, ledger } => {
                let refunded = state.refund(quota, cost, now);
                if shared {
                    ledger.current.give_back(cost);
                }
                !refunded.is_peek()
            }
            Body::Bucket { state, ledger } => {
                let refunded = state.refund(quota, cost, now);
                if shared {
                    let cost = BucketState::chargeable(quota, cost);
                    ledger.account.give_back(cost);
                    let repaid = BucketState::cost_as_time(quota, cost);
                    ledger.own_debt = ledger.own_debt.minus(repaid);
                }
                !refunded.is_peek()
            }
            Body::Log(log) => log.refund(quota, cost, shared, now),
        }
    }
}

impl Log {
    fn refund(&mut self, quota: &Quota, cost: Cost, shared: bool, now: Timestamp) -> bool {
        let space = Space::of(quota);
        let parts = self.state.refund(quota, cost, now);
        if shared {
            let mut unknown = cost.get();
            for (at, part) in &parts {
                unknown -= part.get();
                self.account(space.window(*at)).account.give_back(*part);
            }
            // What this node does not know of, it takes to be the newest.
            let account = &mut self.account(space.window(now)).account;
            account.give_back(Cost::new(unknown));
        }
        !parts.is_empty()
    }
}

/// Whether what a limit on `quota` has admitted at `moment` still counts at `now`: of a
/// bucket, whether it may not be repaid yet.
fn still_counts(quota: &Quota, moment: Timestamp, now: Timestamp) -> bool {
    let window = |moment| quota.windows().at(moment);
    match quota.algorithm() {
        Algorithm::FixedWindow => window(moment) >= window(now),
        Algorithm::SlidingWindow => window(moment).next() >= window(now),
        Algorithm::SlidingLog => now.since(moment) < quota.period(),
        Algorithm::TokenBucket | Algorithm::LeakyBucket => now.since(moment) <= quota.drain_time(),
    }
}

/// The key of the cell that newcomers to a full table share.
pub(super) fn shared_key(shared: &Limit) -> Key {
    let identity = crate::units::EncodedIdentity::of("shared overflow", None);
    shared.hasher.key(&identity)
}
