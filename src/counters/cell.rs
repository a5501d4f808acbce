use std::sync::Arc;

use super::body::Body;
use super::edge::Edge;
use super::marks::{Marks, Told};
use super::{By, Fleet, Space, Taken};
use crate::algorithms::{Outcome, Verdict};
use crate::policy::{Pressure, trusted_for};
use crate::units::{Algorithm, Consistency, Cost, Limit, Nanos, Quota, Timestamp};

/// The state of one (limit, key), and what this node has contributed to it, while it is
/// touched ([`Kept`](super::kept::Kept) says how it is kept).
///
/// Plain fields: the map gives exclusive access, so nothing here is atomic.
pub(super) struct Cell<'k> {
    pub(super) limit: &'k mut Arc<Limit>,
    pub(super) body: &'k mut Body,
    pub(super) marks: &'k mut Marks,
    /// While the cell is near its limit, and counts for a fleet.
    pub(super) edge: &'k mut Option<Box<Edge>>,
}

/// What becomes of a cell that the sweep looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It equals a cell never seen, and nothing in it waits to be sent: nobody notices
    /// that it is gone.
    Forgotten,
    /// It has something to send, or to ask, that nobody was in a hurry to be told.
    Sent,
    Kept,
}

/// Limits of this period and longer have all their costs sent, however few.
const LONG: Nanos = Nanos::from_secs(60);

/// Whether the sync must be told of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Quiet,
    Dirty,
}

impl Cell<'_> {
    /// Takes `cost` under `quota`, which is the limit's own or a share of it.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        limit: &Arc<Limit>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        fleet: &Fleet,
    ) -> (Taken, Signal) {
        self.turn(limit, now, fleet);
        if self.edge.is_none() && limit.consistency == Consistency::Bounded && fleet.has_store() {
            self.make_edge(cost, now, fleet);
        }
        if let Some(edge) = self.edge.take() {
            return self.take_with(edge, quota, cost, now, fleet);
        }
        let outcome = self.take_under(quota, cost, now, fleet);
        let charged = match outcome.verdict {
            _ if cost.is_peek() => false,
            Verdict::Admitted { .. } => true,
            Verdict::Refused { .. } if limit.count_denied => {
                self.body.charge(quota, cost, now);
                true
            }
            _ => false,
        };
        let at = self.body.moment(quota, now);
        let mut signal = Signal::Quiet;
        if self.is_shared(fleet) {
            if charged && matches!(outcome.verdict, Verdict::Admitted { .. }) {
                self.body.record(quota, cost, at);
            } else if charged {
                self.body.record_charge(quota, cost, at);
            }
            let remaining = self.remaining(quota, outcome.remaining, now);
            if self.is_near_the_edge(remaining, now, fleet) {
                self.make_edge(cost, now, fleet);
                self.note_whether_full(remaining);
            }
            signal = self.signal(remaining, now, fleet);
        }
        let taken = Taken {
            outcome,
            stale: self.marks.stale(now),
            at,
            by: By::Cell,
        };
        (taken, signal)
    }

    /// The same, for a cell near its limit, whose `edge` is back in it afterwards.
    #[inline(never)]
    fn take_with(
        &mut self,
        mut edge: Box<Edge>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        fleet: &Fleet,
    ) -> (Taken, Signal) {
        let taken = self.take_at_the_edge(&mut edge, quota, cost, now, fleet);
        *self.edge = Some(edge);
        let remaining = self.remaining(quota, taken.outcome.remaining, now);
        self.note_whether_full(remaining);
        let signal = self.signal(remaining, now, fleet);
        let outcome = self.told(taken.outcome, cost, now, fleet);
        (Taken { outcome, ..taken }, signal)
    }

    /// Takes near the limit: what the view admits is admitted from the lease, or without one
    /// where the policy has it so.
    fn take_at_the_edge(
        &mut self,
        edge: &mut Edge,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        fleet: &Fleet,
    ) -> Taken {
        let terms = self.terms(fleet);
        if !cost.is_peek() {
            edge.arrive(cost, &terms, now);
        }
        let lent = !cost.is_peek() && edge.hold >= cost.get() && self.is_safe(&terms, now);
        let mut by = By::Cell;
        // What was lent was admitted before, by the whole limit.
        let own = self.limit.quota;
        let quota = if lent { &own } else { quota };
        let mut outcome = self.probe_under(quota, cost, now, fleet);
        if let Verdict::Admitted { .. } = outcome.verdict
            && !cost.is_peek()
        {
            let alone = fleet.health() != super::StoreHealth::Up || self.is_held_back(fleet);
            let alone = alone && !terms.is_bounded();
            // The probe has told what would be left after it.
            let left = outcome.remaining.saturating_add(cost.get());
            let free = lent || alone || self.standing(edge, left, &terms, now).admits(cost, &terms);
            if free {
                outcome = self.take_under(quota, cost, now, fleet);
                if lent {
                    edge.hold -= cost.get();
                    self.body.spend(quota, cost);
                } else {
                    let at = self.body.moment(quota, now);
                    self.body.record(quota, cost, at);
                    edge.admitted(now);
                }
            } else {
                // The next answer may bring a lease.
                let refusal = edge.refusal(cost, now);
                if terms.is_bounded() && refusal.is_none() {
                    by = By::Store;
                }
                outcome.remaining = left;
                outcome.verdict = Verdict::Refused {
                    retry_after: refusal.unwrap_or(terms.interval()),
                };
            }
        } else if let Verdict::Admitted { .. } = outcome.verdict {
            // A look must not promise what no lease is here for.
            if terms.is_bounded() && edge.hold == 0 {
                by = By::Store;
            }
        } else if let Verdict::Refused { .. } = outcome.verdict
            && self.limit.count_denied
            && !cost.is_peek()
        {
            self.body.charge(quota, cost, now);
            let at = self.body.moment(quota, now);
            self.body.record_charge(quota, cost, at);
        }
        Taken {
            outcome,
            stale: self.stale(Some(edge), now),
            at: self.body.moment(quota, now),
            by,
        }
    }

    /// What the caller is told: where `outcome` refuses what the limit has left, for want of
    /// a lease, what is left of the lease.
    fn told(&self, outcome: Outcome, cost: Cost, now: Timestamp, fleet: &Fleet) -> Outcome {
        let refused = matches!(outcome.verdict, Verdict::Refused { .. }) && !cost.is_peek();
        if !refused || outcome.remaining < cost.get() {
            return outcome;
        }
        let hold = self.edge.as_ref().map_or(0, |edge| edge.hold);
        let safe = self.is_safe(&self.terms(fleet), now);
        Outcome {
            remaining: if safe { hold.min(cost.get() - 1) } else { 0 },
            ..outcome
        }
    }

    /// Says what a take of `cost` would be told, and takes nothing.
    pub(super) fn probe(
        &mut self,
        limit: &Arc<Limit>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        fleet: &Fleet,
    ) -> Taken {
        self.turn(limit, now, fleet);
        let outcome = self.probe_under(quota, cost, now, fleet);
        Taken {
            outcome,
            stale: self.stale(self.edge.as_deref(), now),
            at: now,
            by: By::Cell,
        }
    }

    /// How long ago the store last told of the cell, one way or the other.
    fn stale(&self, edge: Option<&Edge>, now: Timestamp) -> Option<Nanos> {
        let (answered, told) = (self.marks.stale(now), edge.and_then(|edge| edge.told(now)));
        answered.into_iter().chain(told).min()
    }

    /// Undoes a take of `cost` that happened at `taken_at`.
    pub(super) fn give_back(
        &mut self,
        cost: Cost,
        taken_at: Timestamp,
        now: Timestamp,
        fleet: &Fleet,
    ) -> Signal {
        let quota = self.limit.quota;
        self.body.give_back(&quota, cost, taken_at, now);
        if self.is_shared(fleet) {
            self.body.record_give_back(&quota, cost, taken_at);
            self.signal(self.limit.quota.capacity(), now, fleet)
        } else {
            Signal::Quiet
        }
    }

    /// What becomes of a cell that the sweep looks at.
    pub(super) fn fate(&mut self, now: Timestamp, fleet: &Fleet) -> Fate {
        let limit = Arc::clone(self.limit);
        self.turn(&limit, now, fleet);
        let idle = !self.is_queued() && self.edge.as_ref().is_none_or(|edge| edge.hold == 0);
        if !self.is_queued() && self.rests_on_a_lease(now, fleet) {
            self.marks.set_told(Told::Queued(Pressure::Near));
            return Fate::Sent;
        }
        if idle && self.is_closing() {
            if !self.closes(&self.terms(fleet), now, fleet) {
                return Fate::Kept;
            }
            self.marks.set_told(Told::Queued(Pressure::Near));
            return Fate::Sent;
        }
        if idle && self.pending() == 0 && self.body.is_fresh(&self.limit.quota, now) {
            return Fate::Forgotten;
        }
        // In a short window nobody misses it; over a long one it should not be lost with
        // this node.
        let period = self.limit.quota.period();
        if idle && self.pending() != 0 && period >= LONG {
            self.marks.set_told(Told::Queued(Pressure::Far));
            return Fate::Sent;
        }
        Fate::Kept
    }

    /// The same for a cell whose limit is in force no more. Nobody asks for it again, so it
    /// keeps no lease, and need not be kept when the store knows all that it has counted.
    pub(super) fn last_fate(&mut self, now: Timestamp, fleet: &Fleet) -> Fate {
        let limit = Arc::clone(self.limit);
        self.turn(&limit, now, fleet);
        self.return_lease();
        if self.is_queued() || self.has_leases() {
            return Fate::Kept;
        }
        if self.pending() != 0 && self.is_shared(fleet) {
            self.marks.set_told(Told::Queued(Pressure::Near));
            return Fate::Sent;
        }
        Fate::Forgotten
    }

    /// Whether the sync has been told of the cell and is not done with it.
    pub(super) fn is_queued(&self) -> bool {
        self.marks.told() != Told::Nothing
    }

    /// Brings the cell to `limit` (a reload may have changed it) and to `now`.
    /// Costs that nobody can read any more are given up, and counted.
    #[inline(always)]
    pub(super) fn turn(&mut self, limit: &Arc<Limit>, now: Timestamp, fleet: &Fleet) {
        if !Arc::ptr_eq(self.limit, limit) {
            self.adopt(limit, now, fleet);
        }
        if let Some(edge) = &mut self.edge {
            edge.keep_time(now);
        }
        match &mut self.body {
            Body::Window { state, .. } => {
                if !limit.quota.windows().holds(state.id(), now) {
                    self.turn_window(now, fleet);
                }
            }
            Body::Bucket { .. } => self.turn_bucket(now),
            Body::Log(_) => self.turn_log(now, fleet),
        }
    }

    /// Goes on to the window of `now`.
    #[inline(never)]
    fn turn_window(&mut self, now: Timestamp, fleet: &Fleet) {
        let Body::Window { state, ledger } = &mut self.body else {
            return;
        };
        let limit = &self.limit;
        let before = state.id();
        state.roll(&limit.quota, now);
        fleet.add_expired(ledger.turn(before, state.id()));
        let Some(edge) = self.edge.as_mut().filter(|_| before != state.id()) else {
            return;
        };
        let follows = before.next() == state.id();
        let lent = Cost::new(if follows { edge.next } else { 0 });
        let left = Cost::new(edge.turn(follows, state.id()));
        let weighed = limit.quota.algorithm() == Algorithm::SlidingWindow;
        if follows && (weighed || edge.closing.is_some()) {
            // It would be weighed, or read, as if it had been used.
            ledger.previous.give_back(left);
        }
        ledger.current.lend(lent);
        if std::mem::take(&mut edge.next_is_void) {
            edge.hold = 0;
            ledger.current.give_back(lent);
        }
        // Calm for a whole window: it is no longer near its limit.
        // What is small because the store kept silent says nothing.
        let told = self.marks.heard() >= limit.quota.windows().start(before);
        let small = state.previous() < limit.quota.capacity() / 4;
        let calm = !follows || (small && told);
        if calm && limit.consistency != Consistency::Bounded {
            ledger.current.give_back(Cost::new(edge.hold));
            *self.edge = None;
        }
    }

    /// Drains the bucket up to `now`.
    fn turn_bucket(&mut self, now: Timestamp) {
        if let Body::Bucket { state, ledger } = &mut self.body {
            ledger.age(state.at(), now);
            state.age(&self.limit.quota, now);
        }
    }

    /// Goes on to the part of the log that `now` is in.
    #[inline(never)]
    fn turn_log(&mut self, now: Timestamp, fleet: &Fleet) {
        let Body::Log(log) = &mut self.body else {
            return;
        };
        let space = Space::of(&self.limit.quota);
        let part = space.window(now);
        if let Some(edge) = &mut self.edge
            && edge.lent_in != part
        {
            let before = edge.lent_in;
            let left = Cost::new(edge.turn(false, part));
            log.account(before).account.give_back(left);
        }
        fleet.add_expired(log.turn(space, now));
    }

    #[cold]
    fn adopt(&mut self, limit: &Arc<Limit>, now: Timestamp, fleet: &Fleet) {
        let (old, new) = (self.limit.quota, limit.quota);
        let same_kind = old.algorithm() == new.algorithm() && old.windows() == new.windows();
        if old != new {
            self.return_lease();
            if let Some(edge) = &mut self.edge {
                edge.requoted();
            }
            match &mut self.body {
                // Without a rule the quota comes with each call, and the time to
                // drain stays; with one, what was used stays.
                Body::Bucket { state, ledger } if limit.is_per_call() || same_kind => {
                    if limit.is_per_call() {
                        state.reprice(&old, &new, now);
                    } else {
                        state.requote(&old, &new, now);
                    }
                    ledger.reprice(&old, &new);
                }
                Body::Window { .. } | Body::Log(_) if same_kind => {}
                _ => {
                    fleet.add_expired(self.body.pending());
                    *self.body = Body::fresh(&new);
                    *self.edge = None;
                    self.marks.set_heard(Timestamp::EPOCH);
                }
            }
        }
        *self.limit = Arc::clone(limit);
    }

    /// Makes what is left of the lease pending, to be taken off again in the store.
    pub(super) fn return_lease(&mut self) {
        let Some(edge) = &mut self.edge else { return };
        let left = Cost::new(std::mem::take(&mut edge.hold));
        self.body.give_up(left, edge.lent_in);
    }

    /// Whether anything is lent here, for the present slot or the next.
    pub(super) fn has_leases(&self) -> bool {
        let lent = |edge: &Edge| edge.hold > 0 || edge.next > 0;
        self.edge.as_deref().is_some_and(lent)
    }

    pub(super) fn pending(&self) -> u64 {
        self.body.pending()
    }

    /// Whether the cell counts for the fleet.
    #[inline]
    pub(super) fn is_shared(&self, fleet: &Fleet) -> bool {
        fleet.has_store() && self.limit.consistency != Consistency::Local
    }

    /// Whether the store has told of the present window, and of late.
    pub(super) fn is_heard(&self, now: Timestamp) -> bool {
        let last = self.marks.heard();
        last >= self.begins().max(Timestamp::from_nanos(1))
            && now.since(last) <= trusted_for(self.limit.pace)
    }

    /// The beginning of the present window; a bucket has none: only the age of an answer
    /// counts.
    pub(super) fn begins(&self) -> Timestamp {
        match &self.body {
            Body::Window { state, .. } => self.limit.quota.windows().start(state.id()),
            Body::Bucket { .. } | Body::Log(_) => Timestamp::EPOCH,
        }
    }
}
