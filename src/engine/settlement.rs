//! The total cost of a check that was admitted before, when it is known.

use std::sync::Arc;

use smallvec::SmallVec;

use super::receipts::{CheckId, Found, Holder, Part, Receipt};
use super::{Counted, Engine, Purpose, Question, Ruling, Unanswered};
use crate::counters::Booked;
use crate::units::{Cost, Limit, Timestamp};

/// What became of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The difference to the up-front cost counts, or there was none.
    Now,
    /// There was a difference, and it counts nowhere: the windows of the admission are over.
    Late,
    /// It was settled before; nothing was changed.
    Before,
    /// No check with this id was admitted here, or it was too long ago.
    Unknown,
    /// The check was forgotten before it was settled: its up-front cost stays.
    Forgotten,
}

impl Settled {
    /// The value of the `outcome` label, and the word for it at the doors.
    pub const fn name(self) -> &'static str {
        match self {
            Settled::Now => "settled",
            Settled::Late => "late",
            Settled::Before => "already_settled",
            Settled::Unknown => "unknown",
            Settled::Forgotten => "forgotten",
        }
    }
}

/// What became of the difference at one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It was charged, past the limit if need be.
    Charged,
    /// It was given back.
    Refunded,
    /// It went nowhere: the window of the admission is over.
    Late,
}

impl Effect {
    /// The value of the `effect` label.
    pub const fn name(self) -> &'static str {
        match self {
            Effect::Charged => "charged",
            Effect::Refunded => "refunded",
            Effect::Late => "late",
        }
    }
}

/// The answer to a settlement.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// What became of it.
    pub outcome: Settled,
    /// The difference that was charged; in the cost of the check, not of its limits.
    pub charged: Cost,
    /// The difference that was given back.
    pub refunded: Cost,
    /// What became of it at each limit that it concerns, in the limit's units.
    pub parts: SmallVec<[(Arc<Limit>, Effect, Cost); 2]>,
}

impl Settlement {
    fn without_effect(outcome: Settled) -> Settlement {
        Settlement {
            outcome,
            charged: Cost::ZERO,
            refunded: Cost::ZERO,
            parts: SmallVec::new(),
        }
    }

    /// At how many limits the difference went nowhere.
    pub fn late(&self) -> usize {
        let late = self.parts.iter().filter(|part| part.1 == Effect::Late);
        late.count()
    }
}

/// A settlement that was begun.
#[derive(Debug)]
pub enum Settling {
    /// It is done.
    Done(Settlement),
    /// The store must be told first.
    Pending(Box<PendingSettlement>),
}

/// A settlement whose strict limits the store must be told of.
#[derive(Debug)]
pub struct PendingSettlement {
    question: Question,
    /// The moment that the store admitted them at.
    moment: Timestamp,
    difference: Difference,
    parts: SmallVec<[(Arc<Limit>, Effect, Cost); 2]>,
}

#[derive(Clone, Copy, Debug)]
enum Difference {
    Charge(Cost),
    Refund(Cost),
}

impl Difference {
    /// What it comes to at the limit that `part` is of.
    fn at(self, part: &Part) -> Cost {
        match self {
            Difference::Charge(cost) => cost.times(part.weight),
            Difference::Refund(cost) => cost.times(part.weight).min(part.taken),
        }
    }

    fn effect(self, booked: Booked) -> Effect {
        match (self, booked) {
            (_, Booked::Dropped | Booked::ByStore) => Effect::Late,
            (Difference::Charge(_), Booked::Counted) => Effect::Charged,
            (Difference::Refund(_), Booked::Counted) => Effect::Refunded,
        }
    }

    fn settlement(self, parts: SmallVec<[(Arc<Limit>, Effect, Cost); 2]>) -> Settlement {
        let (charged, refunded) = match self {
            Difference::Charge(cost) => (cost, Cost::ZERO),
            Difference::Refund(cost) => (Cost::ZERO, cost),
        };
        let nowhere = !parts.is_empty() && parts.iter().all(|part| part.1 == Effect::Late);
        if nowhere {
            return Settlement {
                parts,
                ..Settlement::without_effect(Settled::Late)
            };
        }
        Settlement {
            outcome: Settled::Now,
            charged,
            refunded,
            parts,
        }
    }
}

impl Engine {
    /// Settles the check with this `id`: its cost was `total` in all. The difference to its
    /// up-front cost is charged past the limits, or given back, in the windows that it was
    /// admitted in, or nowhere. Never waits.
    pub fn settle(&self, id: CheckId<'_>, total: Cost, now: Timestamp) -> Settling {
        let receipt = match self.receipts.settle(id, now) {
            Found::Open(receipt) => receipt,
            Found::Settled => return Settling::Done(Settlement::without_effect(Settled::Before)),
            Found::Forgotten => {
                return Settling::Done(Settlement::without_effect(Settled::Forgotten));
            }
            Found::Unknown => {
                return Settling::Done(Settlement::without_effect(Settled::Unknown));
            }
        };
        let (total, cost) = (total.get(), receipt.cost.get());
        let difference = if total >= cost {
            Difference::Charge(Cost::new(total - cost))
        } else {
            Difference::Refund(Cost::new(cost - total))
        };
        self.settle_by(&receipt, difference, now)
    }

    fn settle_by(&self, receipt: &Receipt, difference: Difference, now: Timestamp) -> Settling {
        let mut parts = SmallVec::new();
        let mut asked = Vec::new();
        let mut moment = now;
        for part in &receipt.parts {
            let cost = difference.at(part);
            if cost.is_peek() || part.limit.quota.is_ban() {
                continue;
            }
            if part.holder == Holder::Store {
                let limit = self.in_force(&part.limit);
                if self.asks(&limit) {
                    moment = part.at;
                    asked.push(Counted {
                        limit,
                        key: part.key,
                        weight: part.weight,
                    });
                    continue;
                }
            }
            let booked = match (difference, part.holder) {
                (Difference::Charge(_), _) => {
                    self.charge_here(&part.limit, part.key, cost, part.at, now)
                }
                (Difference::Refund(_), Holder::Cell) => {
                    self.counters
                        .refund_late(&part.limit, part.key, cost, part.at, now)
                }
                // No cell here has it, and the store cannot be told.
                (Difference::Refund(_), Holder::Store) => Booked::Dropped,
            };
            let effect = difference.effect(booked);
            parts.push((Arc::clone(&part.limit), effect, cost));
        }
        if asked.is_empty() {
            return Settling::Done(difference.settlement(parts));
        }
        let (cost, purpose) = match difference {
            Difference::Charge(cost) => (cost, Purpose::Charge(Some(moment))),
            Difference::Refund(cost) => (cost, Purpose::Refund(Some(moment))),
        };
        Settling::Pending(Box::new(PendingSettlement {
            question: Question {
                limits: asked,
                cost,
                purpose,
            },
            moment,
            difference,
            parts,
        }))
    }

    /// Charges what was admitted at `moment` in the cells of this node, one way or the other.
    fn charge_here(
        &self,
        limit: &Arc<Limit>,
        key: crate::units::Key,
        cost: Cost,
        moment: Timestamp,
        now: Timestamp,
    ) -> Booked {
        let counters = &self.counters;
        match counters.charge_late(limit, key, cost, moment, now) {
            Booked::ByStore => counters.charge_shared(limit, cost, Some(moment), now),
            booked => booked,
        }
    }

    /// The limit as the rules have it now: a reload may have changed its quota.
    fn in_force(&self, limit: &Arc<Limit>) -> Arc<Limit> {
        let rules = self.rules.load();
        let mut limits = rules.limits().iter();
        let now = limits.find(|now| now.id == limit.id);
        Arc::clone(now.unwrap_or(limit))
    }
}

impl PendingSettlement {
    /// What the [`Authority`](super::Authority) is to be told.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// The settlement, now that the store has answered. Without an answer, a charge counts on
    /// this node until it can be told; a refund that the store may have heard of is not made
    /// twice.
    pub fn settle(
        self,
        engine: &Engine,
        answer: Result<Ruling, Unanswered>,
        now: Timestamp,
    ) -> Settlement {
        let PendingSettlement {
            question,
            moment,
            difference,
            mut parts,
        } = self;
        for (place, one) in question.limits.iter().enumerate() {
            let cost = one.cost(question.cost);
            let booked = match (&answer, difference) {
                (Ok(ruling), _) if ruling.dropped.contains(&place) => Booked::Dropped,
                (Ok(_), _) => Booked::Counted,
                (Err(Unanswered), Difference::Charge(_)) => {
                    engine.charge_here(&one.limit, one.key, cost, moment, now)
                }
                (Err(Unanswered), Difference::Refund(_)) => Booked::Dropped,
            };
            parts.push((Arc::clone(&one.limit), difference.effect(booked), cost));
        }
        difference.settlement(parts)
    }
}
