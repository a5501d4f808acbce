use std::sync::Arc;

use super::body::{Body, time_as_cost};
use super::marks::{Marks, Told};
use super::slot::{Slot, Space};
use super::{Answer, Delta, Fleet};
use crate::algorithms::{Outcome, Verdict};
use crate::policy::{Pressure, Situation, trusted_for};
use crate::units::{Algorithm, Consistency, Cost, Limit, Nanos, Quota, Timestamp};

/// The state of one (limit, key), and what this node has contributed to it.
///
/// Plain fields: the map gives exclusive access, so nothing here is atomic. Boxed
/// in the map, which is why the sum of the fields matters.
#[derive(Debug)]
pub(super) struct Cell {
    limit: Arc<Limit>,
    body: Body,
    marks: Marks,
}

/// Whether the sync must be told of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Quiet,
    Dirty,
}

/// What a touch of a cell answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub(super) outcome: Outcome,
    pub(super) stale: Option<Nanos>,
    pub(super) signal: Signal,
    /// The moment that the cost counts for.
    pub(super) at: Timestamp,
}

impl Cell {
    pub(super) fn new(limit: &Arc<Limit>) -> Cell {
        Cell {
            limit: Arc::clone(limit),
            body: Body::fresh(&limit.quota),
            marks: Marks::default(),
        }
    }

    /// Takes `cost` under `quota`, which is the limit's own or a share of it.
    pub(super) fn take(
        &mut self,
        limit: &Arc<Limit>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        fleet: &Fleet,
    ) -> Touch {
        self.turn(limit, now, fleet);
        let outcome = self.body.take(quota, cost, now);
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
        if charged && self.is_shared(fleet) {
            self.body.record(quota, cost, at);
        }
        // A peek asks the store too, if the store has not told of late.
        let signal = self.signal(outcome.remaining, now, fleet);
        Touch {
            outcome,
            stale: self.marks.stale(now),
            signal,
            at,
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
    ) -> Touch {
        self.turn(limit, now, fleet);
        let outcome = self.body.probe(quota, cost, now);
        Touch {
            outcome,
            stale: self.marks.stale(now),
            signal: Signal::Quiet,
            at: now,
        }
    }

    /// Undoes a take of `cost` that happened at `taken_at`.
    pub(super) fn give_back(
        &mut self,
        cost: Cost,
        taken_at: Timestamp,
        now: Timestamp,
        fleet: &Fleet,
    ) -> Signal {
        self.body.give_back(&self.limit.quota, cost, taken_at, now);
        self.signal(self.limit.quota.capacity(), now, fleet)
    }

    /// Whether the cell could be forgotten without anybody noticing: it equals a
    /// cell never seen, and nothing in it waits to be sent.
    pub(super) fn is_forgettable(&mut self, now: Timestamp, fleet: &Fleet) -> bool {
        let limit = Arc::clone(&self.limit);
        self.turn(&limit, now, fleet);
        !self.is_queued() && self.pending() == 0 && self.body.is_fresh(&self.limit.quota, now)
    }

    /// How soon the cell wants to be sent; forgets the signals that led here if it
    /// wants nothing.
    pub(super) fn examine(&mut self, now: Timestamp, fleet: &Fleet) -> Option<Nanos> {
        let limit = Arc::clone(&self.limit);
        self.turn(&limit, now, fleet);
        let remaining = self.body.remaining(&limit.quota, now);
        let situation = self.situation(remaining, now, fleet);
        if self.pending() == 0 && (situation.heard || !self.is_queued()) {
            self.marks.set_told(Told::Nothing);
            return None;
        }
        let pressure = situation.pressure();
        // It may become more pressing while it is held back, and must be able to say so.
        self.marks.set_told(Told::Queued(pressure));
        let patience = pressure.patience(limit.pace);
        // Costs are sent no later than at the end of their window, so that it is
        // complete when the next one weighs it.
        Some(match &self.body {
            Body::Window { state, .. } => {
                patience.min(state.id().end(limit.quota.period()).since(now))
            }
            Body::Bucket { .. } | Body::Log(_) => patience,
        })
    }

    /// The slots that the cell has something to send to, or to ask of.
    pub(super) fn slots(&mut self, now: Timestamp, fleet: &Fleet) -> Vec<Slot> {
        let limit = Arc::clone(&self.limit);
        self.turn(&limit, now, fleet);
        let space = Space::of(&limit.quota);
        let unheard = !self.is_heard(now);
        let mut slots = Vec::with_capacity(2);
        match &self.body {
            Body::Window { state, ledger } => {
                let current = Slot {
                    space,
                    window: state.id(),
                };
                if ledger.current.pending() != 0 || unheard {
                    slots.push(current);
                }
                // A sliding window reads the window before, which the other nodes
                // complete a little after its end.
                let unsettled = limit.quota.algorithm() == Algorithm::SlidingWindow
                    && self.marks.heard() <= settled_at(current, &limit);
                if ledger.previous.pending() != 0 || unsettled {
                    slots.push(current.previous());
                }
            }
            Body::Bucket { ledger, .. } => {
                if ledger.account.pending() != 0 || unheard {
                    slots.push(Slot {
                        space,
                        window: space.window(now),
                    });
                }
            }
            Body::Log(log) => {
                let current = space.window(now);
                if unheard && !log.accounts.iter().any(|a| a.window == current) {
                    slots.push(Slot {
                        space,
                        window: current,
                    });
                }
                for account in &log.accounts {
                    if account.account.pending() != 0 || (unheard && account.window == current) {
                        slots.push(Slot {
                            space,
                            window: account.window,
                        });
                    }
                }
            }
        }
        if slots.is_empty() {
            self.marks.set_told(Told::Nothing);
        }
        slots
    }

    /// Puts what is pending for `slot` into a delta; `None` if the cell has left
    /// the slot behind.
    pub(super) fn freeze(&mut self, slot: Slot) -> Option<Delta> {
        let quota = self.limit.quota;
        let delta = if Space::of(&quota) == slot.space {
            self.body.freeze(&quota, slot)
        } else {
            None
        };
        let rest = self.pending() != 0;
        self.marks.set_told(if rest {
            Told::Queued(Pressure::Near)
        } else {
            Told::Nothing
        });
        delta
    }

    /// Whether the sync has been told of the cell and is not done with it.
    pub(super) fn is_queued(&self) -> bool {
        self.marks.told() != Told::Nothing
    }

    /// Learns what the fleet has used, as the store answered to a delta for `slot`.
    pub(super) fn absorb(&mut self, slot: Slot, answer: Answer, now: Timestamp, fleet: &Fleet) {
        let limit = Arc::clone(&self.limit);
        if Space::of(&limit.quota) != slot.space {
            return;
        }
        self.turn(&limit, now, fleet);
        let current = match &mut self.body {
            Body::Window { state, ledger } => {
                let current = slot.window == state.id();
                let account = if current {
                    ledger.current
                } else {
                    ledger.previous
                };
                state.raise(slot.window, account.view(answer.total, answer.upto));
                current
            }
            Body::Bucket { state, ledger } => {
                let unsent = ledger.account.view(0, answer.upto);
                let debt = Nanos::new(answer.total);
                state.raise(&limit.quota, debt, answer.at, Cost::new(unsent), now);
                true
            }
            Body::Log(log) => {
                let others = answer.total.saturating_sub(answer.upto);
                let account = log.account(slot.window);
                let news = others.saturating_sub(account.others);
                account.others = account.others.max(others);
                if news > 0 {
                    let end = slot.window.end(slot.space.length());
                    let at = if end < now { end } else { now };
                    log.state.add(&limit.quota, at, Cost::new(news));
                }
                slot.window == slot.space.window(now)
            }
        };
        if current {
            self.marks.set_heard(answer.at);
        }
    }

    /// Makes pending again what this node has contributed to `slot`, whose hash was
    /// lost. Answers whether there is anything to send.
    pub(super) fn rewind(&mut self, slot: Slot, now: Timestamp, fleet: &Fleet) -> bool {
        let limit = Arc::clone(&self.limit);
        if Space::of(&limit.quota) != slot.space {
            return false;
        }
        self.turn(&limit, now, fleet);
        match &mut self.body {
            Body::Bucket { ledger, .. } => {
                // A loss just before the slice turned is noticed just after.
                let current = slot.space.window(now);
                if slot.window != current && slot.window.next() != current {
                    return false;
                }
                let tokens = time_as_cost(&limit.quota, ledger.own_debt);
                let pending = u64::try_from(ledger.account.pending()).unwrap_or(0);
                ledger.account.rewind(tokens.max(pending));
            }
            body => {
                let Some(account) = body.account(slot.window) else {
                    return false;
                };
                account.rewind(account.own());
            }
        }
        let pending = self.pending() != 0;
        if pending {
            self.marks
                .set_told(self.marks.told().max(Told::Queued(Pressure::Near)));
        }
        pending
    }

    /// Takes note that `delta` for `slot`, pending again after a rewind, did arrive.
    pub(super) fn credit(&mut self, slot: Slot, delta: Delta) {
        match &mut self.body {
            Body::Bucket { .. } => {}
            body => {
                if let Some(account) = body.account(slot.window) {
                    account.credit(delta.cost);
                }
            }
        }
    }

    /// Brings the cell to `limit` (a reload may have changed it) and to `now`.
    /// Costs that nobody can read any more are given up, and counted.
    fn turn(&mut self, limit: &Arc<Limit>, now: Timestamp, fleet: &Fleet) {
        if !Arc::ptr_eq(&self.limit, limit) {
            self.adopt(limit, now, fleet);
        }
        let expired = match &mut self.body {
            Body::Window { state, ledger } => {
                let before = state.id();
                state.roll(&self.limit.quota, now);
                ledger.turn(before, state.id())
            }
            Body::Bucket { state, ledger } => {
                ledger.age(state.at(), now);
                state.age(&self.limit.quota, now);
                0
            }
            Body::Log(log) => log.turn(Space::of(&self.limit.quota), now),
        };
        fleet.add_expired(expired);
    }

    #[cold]
    fn adopt(&mut self, limit: &Arc<Limit>, now: Timestamp, fleet: &Fleet) {
        let (old, new) = (self.limit.quota, limit.quota);
        let same_kind = old.algorithm() == new.algorithm() && old.period() == new.period();
        if old != new {
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
                body => {
                    fleet.add_expired(body.pending());
                    *body = Body::fresh(&new);
                    self.marks.set_heard(Timestamp::EPOCH);
                }
            }
        }
        self.limit = Arc::clone(limit);
    }

    fn pending(&self) -> u64 {
        self.body.pending()
    }

    /// Whether the cell counts for the fleet.
    fn is_shared(&self, fleet: &Fleet) -> bool {
        fleet.has_store() && self.limit.consistency != Consistency::Local
    }

    /// Whether the store has told of the present window, and of late.
    fn is_heard(&self, now: Timestamp) -> bool {
        let since = match &self.body {
            Body::Window { state, .. } => state.id().start(self.limit.quota.period()),
            // A bucket has no window: only the age of the answer counts.
            Body::Bucket { .. } | Body::Log(_) => Timestamp::from_nanos(1),
        };
        let last = self.marks.heard();
        last >= since && now.since(last) <= trusted_for(self.limit.pace)
    }

    fn situation(&self, remaining: u64, now: Timestamp, fleet: &Fleet) -> Situation {
        Situation {
            heard: self.is_heard(now),
            unsent: Cost::new(self.pending()),
            remaining,
            capacity: self.limit.quota.capacity(),
            nodes: fleet.nodes(),
        }
    }

    /// Whether the sync must be told of the cell, which can still admit `remaining`.
    fn signal(&mut self, remaining: u64, now: Timestamp, fleet: &Fleet) -> Signal {
        let told = self.marks.told();
        if told == Told::Queued(Pressure::Urgent) || !self.is_shared(fleet) {
            return Signal::Quiet;
        }
        let situation = self.situation(remaining, now, fleet);
        if situation.unsent.is_peek() && situation.heard {
            return Signal::Quiet;
        }
        let news = Told::Queued(situation.pressure());
        if news <= told {
            return Signal::Quiet;
        }
        self.marks.set_told(news);
        Signal::Dirty
    }
}

/// When the other nodes' last costs of the window before `current` have arrived.
fn settled_at(current: Slot, limit: &Limit) -> Timestamp {
    let wait = limit.pace.interval.times(2).plus(limit.pace.min_interval);
    current.window.start(current.space.length()).after(wait)
}
