//! Request → decision: the waist of the hourglass. Every door asks here, and
//! the same request gets the same decision by any door.
//!
//! Deciding never waits. Only strict limits must ask the store: [`Snapshot::begin`]
//! then answers a [`Pending`] check, the door puts its question to the [`Authority`],
//! and [`Pending::settle`] makes the decision of the answer.

mod authority;
mod decision;
mod explained;
mod identified;
mod judged;
mod pending;
mod per_call;
mod receipts;
mod report;
mod request;
mod settlement;
mod taking;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use smallvec::SmallVec;

use crate::counters::{By, Counters};
use crate::rules::{Applied, AppliedLimits, RuleSet};
use crate::units::{Consistency, Cost, KeySecret, Pace, Timestamp};
use judged::Tally;
use per_call::PerCall;
use receipts::{Receipts, Reservation};

pub use authority::{Answering, Authority, Counted, Purpose, Question, Ruling, Unanswered};
pub use decision::{Advised, Besides, Decision, Described as DescribedLimit, Outcome};
pub use explained::{Explained, Said};
pub use pending::{Begun, Pending};
pub use receipts::{CheckId, ReceiptBounds};
pub use report::Entry;
pub use request::{Request, Subject};
pub use settlement::{Effect, PendingSettlement, Settled, Settlement, Settling, Total};

/// Decides requests: the rules, and the cells that they count in.
#[derive(Debug)]
pub struct Engine {
    rules: ArcSwap<RuleSet>,
    counters: Arc<Counters>,
    per_call: PerCall,
    stated: PerCall,
    receipts: Arc<Receipts>,
    unasked: AtomicU64,
}

impl Engine {
    /// An engine that judges by `rules` and counts in `counters`. `secret` is the one
    /// that the rules were compiled with.
    pub fn new(rules: RuleSet, counters: Arc<Counters>, secret: &KeySecret) -> Engine {
        Engine {
            rules: ArcSwap::from_pointee(rules),
            counters,
            per_call: PerCall::new(PerCall::THROTTLE, secret),
            stated: PerCall::new(PerCall::STATED, secret),
            receipts: Arc::new(Receipts::new(secret, ReceiptBounds::default())),
            unasked: AtomicU64::new(0),
        }
    }

    /// The same engine, with the pace of the limits whose quota comes with each call.
    pub fn paced(mut self, pace: Pace) -> Engine {
        self.per_call = self.per_call.paced(pace);
        self.stated = self.stated.paced(pace);
        self
    }

    /// The same engine, with other bounds of its receipts; it has none yet.
    pub fn keeping(mut self, bounds: ReceiptBounds, secret: &KeySecret) -> Engine {
        self.receipts = Arc::new(Receipts::new(secret, bounds));
        self
    }

    /// Forgets receipts that have been kept too long.
    pub fn sweep_receipts(&self, now: Timestamp) {
        self.receipts.sweep(now);
    }

    /// How many receipts are kept, settled ones among them, and how many were forgotten before
    /// they were settled.
    pub fn receipts(&self) -> (usize, u64) {
        (self.receipts.kept(), self.receipts.forgotten())
    }

    /// The cells that this engine counts in.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// How many checks were not put to the store, although a strict limit applied to them,
    /// because it was known to be lost.
    pub fn unasked(&self) -> u64 {
        self.unasked.load(Ordering::Relaxed)
    }

    /// Judges by `rules` from now on; what is under way ends by those of before. They must
    /// have been made to [follow](RuleSet::follow) those, and by the same secret.
    pub fn replace(&self, rules: RuleSet) {
        self.rules.store(Arc::new(rules));
    }

    /// The rules as they are now. Take one snapshot for each request, or for a
    /// batch of requests that arrived together; do not keep it across a wait.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            engine: self,
            rules: self.rules.load(),
            tells_all: false,
        }
    }
}

/// One immutable rule set, and the engine to decide with.
pub struct Snapshot<'e> {
    engine: &'e Engine,
    rules: Guard<Arc<RuleSet>>,
    tells_all: bool,
}

impl Snapshot<'_> {
    /// The same, whose decisions describe all limits that apply, where there are several,
    /// and not only the one that decided.
    pub fn telling_all(self) -> Self {
        Snapshot {
            tells_all: true,
            ..self
        }
    }

    /// The rules of this snapshot.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Decides `request` at `now`, or all of it that can be decided here. Never waits.
    pub fn begin(&self, request: &Request<'_>, now: Timestamp) -> Begun<'_> {
        let mut applied = AppliedLimits::new();
        if let Some(decision) = self.find(request, now, &mut applied) {
            return Begun::Decided(decision);
        }
        self.admit(&applied, request.cost, None, now)
    }

    /// Decides a check of `cost` to which the limits `applied` apply. What is taken for it is
    /// remembered where it has a `reservation`.
    #[inline]
    fn admit<'r>(
        &self,
        applied: &[Applied<'r>],
        cost: Cost,
        reservation: Option<Reservation>,
        now: Timestamp,
    ) -> Begun<'r> {
        let mut tally = self.tally(applied);
        let asked = self.judge(applied, cost, now, &mut tally);
        // What is refused here need not be asked there.
        if !asked.is_empty() && !tally.refused {
            let why = (cost, Purpose::Check);
            let pending = Pending::new(applied, asked, why, tally, reservation);
            return Begun::Pending(Box::new(pending));
        }
        self.weigh(&mut tally, applied, cost, now);
        if let Some(reservation) = reservation
            && !tally.refused
        {
            let limits = applied.iter().copied();
            let receipt = tally.receipt(limits, cost, (&[], None), now);
            reservation.keep(receipt, now);
        }
        Begun::Decided(tally.decision(|index| applied.get(index).map(|one| &**one.limit), now))
    }

    /// Decides `request` at `now` for somebody who cannot wait: strict limits go by their
    /// policy for a lost store, where there is one.
    pub fn decide(&self, request: &Request<'_>, now: Timestamp) -> Decision<'_> {
        let mut applied = AppliedLimits::new();
        if let Some(decision) = self.find(request, now, &mut applied) {
            return decision;
        }
        let applied = applied.as_slice();
        let mut tally = self.tally(applied);
        let asked = self.judge(applied, request.cost, now, &mut tally);
        if !asked.is_empty() {
            self.take_all_without_store(&asked, applied, request.cost, now, &mut tally);
        }
        self.weigh(&mut tally, applied, request.cost, now);
        tally.decision(|index| applied.get(index).map(|one| &**one.limit), now)
    }

    /// Lets the limits at the places `asked`, whose store cannot be waited for, go by their
    /// policies for a lost one.
    #[cold]
    fn take_all_without_store(
        &self,
        asked: &[usize],
        applied: &[Applied<'_>],
        cost: Cost,
        now: Timestamp,
        tally: &mut Tally,
    ) {
        for &index in asked {
            let one = &applied[index];
            self.engine.take_without_store(tally, index, one, cost, now);
        }
    }

    #[inline]
    fn tally(&self, applied: &[Applied<'_>]) -> Tally {
        Tally::new(self.tells_all && applied.len() > 1)
    }

    /// Has the limits say what is said when all is taken or given back.
    #[inline]
    fn weigh(&self, tally: &mut Tally, applied: &[Applied<'_>], cost: Cost, now: Timestamp) {
        let peek = |index| Some(self.engine.probe(applied.get(index)?, Cost::ZERO, now));
        tally.look_again(peek);
        if tally.advisers {
            let limits = applied.iter().copied();
            self.engine.advise(tally, limits, cost, now);
        }
    }

    /// Finds the limits that apply to `request`, or decides it where no rule does.
    #[inline]
    fn find<'r>(
        &'r self,
        request: &Request<'_>,
        now: Timestamp,
        applied: &mut AppliedLimits<'r>,
    ) -> Option<Decision<'r>> {
        let found = match request.subject {
            Subject::Throttle { key, quota } => {
                return Some(self.throttle(key, quota, request.cost, now));
            }
            Subject::Rule { rule, key, tier } => self.rules.named(rule, key, tier, applied),
            Subject::Described(described) => self.rules.matching(&described, now, applied),
            Subject::Descriptor(descriptor) => {
                return self.described_by(&descriptor, request.cost, now, applied);
            }
        };
        let missing = found.err()?;
        Some(Decision::not_found(missing, now))
    }

    /// All or nothing: takes from every cell, and gives back at the first refusal. Answers
    /// the places of the limits that were left out, because the store is to be asked.
    #[inline]
    fn judge(
        &self,
        applied: &[Applied<'_>],
        cost: Cost,
        now: Timestamp,
        tally: &mut Tally,
    ) -> Places {
        let engine = self.engine;
        let mut asked = Places::new();
        let mut unasked = false;
        for (index, one) in applied.iter().enumerate() {
            if !one.limit.mode.enforces() {
                tally.advisers = true;
                continue;
            }
            if one.limit.consistency == Consistency::Strict {
                if engine.asks(one.limit) {
                    asked.push(index);
                    continue;
                }
                unasked |= !one.limit.quota.is_ban() && engine.is_lost(one.limit);
            }
            // After a refusal the rest is only asked, to find the longest wait, unless
            // it counts refusals too.
            let charge = one.cost(cost);
            let judged = if tally.refused && !one.limit.count_denied {
                engine.probe(one, charge, now)
            } else {
                engine.take(one, charge, now)
            };
            if judged.by == By::Store && engine.asks(one.limit) {
                asked.push(index);
                continue;
            }
            tally.note(index, one.key, charge, judged);
            if tally.refused {
                engine.give_back(tally, now);
            }
        }
        if unasked {
            engine.unasked.fetch_add(1, Ordering::Relaxed);
        }
        asked
    }
}

/// Places of limits among those that apply.
type Places = SmallVec<[usize; 2]>;

#[cfg(test)]
mod tests;
