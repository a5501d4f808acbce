use std::sync::Arc;

use super::body::{Body, time_as_cost};
use super::marks::{Marks, Told};
use super::slot::{Slot, Space};
use super::{Answer, Delta};
use crate::algorithms::{Outcome, Verdict};
use crate::policy::Situation;
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
    /// Costs that were given up, because nobody reads their window any more.
    pub(super) expired: u64,
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
        fleet: bool,
    ) -> Touch {
        let expired = self.turn(limit, now);
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
        if !fleet || limit.consistency == Consistency::Local {
            return Touch {
                outcome,
                stale: None,
                signal: Signal::Quiet,
                expired,
            };
        }
        if charged {
            self.body.record(quota, cost, now);
        }
        // A peek asks the store too, if the store has not told of late.
        let signal = self.signal(outcome.remaining, now);
        Touch {
            outcome,
            stale: self.marks.stale(now),
            signal,
            expired,
        }
    }

    /// Says what a take of `cost` would be told, and takes nothing.
    pub(super) fn probe(
        &mut self,
        limit: &Arc<Limit>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Touch {
        let expired = self.turn(limit, now);
        let outcome = match &mut self.body {
            _ if quota.is_ban() => Outcome::BANNED,
            Body::Window { state, .. } => { *state }.take(quota, cost, now),
            Body::Bucket { state, .. } => { *state }.take(quota, cost, now),
            Body::Log(log) => {
                // Too large to copy for a question.
                let outcome = log.state.take(quota, cost, now);
                if matches!(outcome.verdict, Verdict::Admitted { .. }) {
                    let taken_at = log.state.moment(quota, now);
                    log.state.give_back(cost, taken_at);
                }
                outcome
            }
        };
        Touch {
            outcome,
            stale: self.marks.stale(now),
            signal: Signal::Quiet,
            expired,
        }
    }

    /// Undoes a take of `cost` that happened at `taken_at`.
    pub(super) fn give_back(&mut self, cost: Cost, taken_at: Timestamp, now: Timestamp) -> Signal {
        self.body.give_back(&self.limit.quota, cost, taken_at, now);
        self.signal(u64::MAX, now)
    }

    /// Whether the cell could be forgotten without anybody noticing: it equals a
    /// cell never seen, and nothing in it waits to be sent.
    pub(super) fn is_forgettable(&mut self, now: Timestamp) -> bool {
        let limit = Arc::clone(&self.limit);
        self.turn(&limit, now);
        !self.is_queued() && self.pending() == 0 && self.body.is_fresh(&self.limit.quota, now)
    }

    /// How soon the cell wants to be sent; forgets the signals that led here if it
    /// wants nothing.
    pub(super) fn examine(&mut self, now: Timestamp) -> Option<Nanos> {
        let limit = Arc::clone(&self.limit);
        self.turn(&limit, now);
        let remaining = self.body.remaining(&limit.quota, now);
        let situation = self.situation(remaining, now);
        if self.pending() == 0 && (situation.heard || !self.is_queued()) {
            self.marks.set_told(Told::Nothing);
            return None;
        }
        Some(situation.patience(limit.pace))
    }

    /// The slots that the cell has something to send to, or to ask of.
    pub(super) fn slots(&mut self, now: Timestamp) -> Vec<Slot> {
        let limit = Arc::clone(&self.limit);
        self.turn(&limit, now);
        let space = Space::of(&limit.quota);
        let unheard = !self.situation(0, now).heard;
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
        self.marks
            .set_told(if rest { Told::Queued } else { Told::Nothing });
        delta
    }

    /// Whether the sync has been told of the cell and is not done with it.
    pub(super) fn is_queued(&self) -> bool {
        self.marks.told() != Told::Nothing
    }

    /// Learns what the fleet has used, as the store answered to a delta for `slot`.
    pub(super) fn absorb(&mut self, slot: Slot, answer: Answer, now: Timestamp) {
        let limit = Arc::clone(&self.limit);
        if Space::of(&limit.quota) != slot.space {
            return;
        }
        self.turn(&limit, now);
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
            self.marks.set_heard(self.marks.heard().max(answer.at));
        }
    }

    /// Makes pending again what this node has contributed to `slot`, whose hash was
    /// lost. Answers whether there is anything to send.
    pub(super) fn rewind(&mut self, slot: Slot, now: Timestamp) -> bool {
        let limit = Arc::clone(&self.limit);
        if Space::of(&limit.quota) != slot.space {
            return false;
        }
        self.turn(&limit, now);
        match &mut self.body {
            Body::Bucket { ledger, .. } => {
                if slot.window != slot.space.window(now) {
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
            self.marks.set_told(self.marks.told().max(Told::Queued));
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
    /// Answers the costs that were given up.
    fn turn(&mut self, limit: &Arc<Limit>, now: Timestamp) -> u64 {
        if !Arc::ptr_eq(&self.limit, limit) {
            self.adopt(limit, now);
        }
        match &mut self.body {
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
        }
    }

    #[cold]
    fn adopt(&mut self, limit: &Arc<Limit>, now: Timestamp) {
        let (old, new) = (self.limit.quota, limit.quota);
        let same_kind = old.algorithm() == new.algorithm() && old.period() == new.period();
        if old != new {
            match &mut self.body {
                // Without a rule the quota comes with each call, and the time to
                // drain stays; with one, what was used stays.
                Body::Bucket { state, .. } if limit.is_per_call() => state.reprice(&old, &new, now),
                Body::Bucket { state, .. } if same_kind => state.requote(&old, &new, now),
                Body::Window { .. } | Body::Log(_) if same_kind => {}
                body => {
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

    fn situation(&self, remaining: u64, now: Timestamp) -> Situation {
        let since = match &self.body {
            Body::Window { state, .. } => state.id().start(self.limit.quota.period()),
            // A bucket has no window: only the age of the answer counts.
            Body::Bucket { .. } | Body::Log(_) => Timestamp::from_nanos(1),
        };
        let last = self.marks.heard();
        let heard = last >= since && now.since(last) <= self.limit.pace.max_interval;
        Situation {
            heard,
            unsent: Cost::new(self.pending()),
            remaining,
        }
    }

    fn signal(&mut self, remaining: u64, now: Timestamp) -> Signal {
        let told = self.marks.told();
        if told == Told::Urgent {
            return Signal::Quiet;
        }
        let situation = self.situation(remaining, now);
        if situation.unsent.is_peek() && situation.heard {
            return Signal::Quiet;
        }
        let news = if situation.is_urgent() {
            Told::Urgent
        } else {
            Told::Queued
        };
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
