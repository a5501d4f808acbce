//! The total cost of a check that was admitted before, when it is known.

use std::sync::Arc;

use smallvec::SmallVec;

use super::receipts::{CheckId, Found, Holder, Part, Receipt};
use super::{Counted, Engine, Purpose, Question, Ruling, Unanswered};
use crate::counters::Booked;
use crate::units::{Cost, Key, Limit, Timestamp};

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
    /// No limit of the check counts any of the attributes: nothing was changed, and it may
    /// still be settled.
    Unconcerned,
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
            Settled::Unconcerned => "unconcerned",
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

/// What a check came to in all.
#[derive(Clone, Copy, Debug)]
pub enum Total<'a> {
    /// So much, in the cost of the check: each limit makes of it what it made of that.
    Cost(Cost),
    /// The cost of the check, times so much where a rule counts it by an attribute: names
    /// and amounts. Other limits are not concerned.
    Measured(&'a [(&'a str, u64)]),
}

impl Total<'_> {
    /// Whether it says anything of a limit of `receipt`.
    fn concerns(self, receipt: &Receipt) -> bool {
        let Total::Measured(measured) = self else {
            return true;
        };
        let is_said = |name: &str| measured.iter().any(|(said, _)| *said == name);
        let mut parts = receipt.parts.iter();
        parts.any(|part| part.measure.as_deref().is_some_and(is_said))
    }

    /// What the limit that `part` is of is charged in all, where the up-front cost was `cost`.
    fn at(self, part: &Part, cost: Cost) -> Cost {
        match self {
            Total::Cost(total) => total.times(part.weight),
            Total::Measured(measured) => {
                let is_of = |name: &str| part.measure.as_deref() == Some(name);
                let said = measured.iter().find(|(name, _)| is_of(name));
                cost.times(said.map_or(part.weight, |(_, amount)| *amount))
            }
        }
    }
}

/// The answer to a settlement.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// What became of it.
    pub outcome: Settled,
    /// What became of the difference at each limit that it concerns, in the limit's units.
    pub parts: Parts,
}

type Parts = SmallVec<[(Arc<Limit>, Effect, Cost); 2]>;

impl Settlement {
    fn without_effect(outcome: Settled) -> Settlement {
        Settlement {
            outcome,
            parts: Parts::new(),
        }
    }

    fn of(parts: Parts) -> Settlement {
        let nowhere = !parts.is_empty() && parts.iter().all(|part| part.1 == Effect::Late);
        Settlement {
            outcome: if nowhere { Settled::Late } else { Settled::Now },
            parts,
        }
    }

    /// The most that any limit was charged or given back, in its units.
    pub fn most(&self, effect: Effect) -> Cost {
        let parts = self.parts.iter().filter(|part| part.1 == effect);
        parts.map(|part| part.2).max().unwrap_or_default()
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
    /// One of what is charged, and one of what is given back, as far as there is any.
    questions: SmallVec<[Question; 2]>,
    /// The moment that the store admitted them at.
    moment: Timestamp,
    parts: Parts,
}

const fn effect(effect: Effect, booked: Booked) -> Effect {
    match booked {
        Booked::Dropped | Booked::ByStore => Effect::Late,
        Booked::Counted => effect,
    }
}

impl Engine {
    /// Settles the check with this `id`: it came to `total` in all. The difference to its
    /// up-front cost is charged past the limits, or given back, in the windows that it was
    /// admitted in, or nowhere. Never waits.
    pub fn settle(&self, id: CheckId<'_>, total: Total<'_>, now: Timestamp) -> Settling {
        let outcome = match self
            .receipts
            .settle(id, now, |receipt| total.concerns(receipt))
        {
            Found::Open(receipt) => return self.settle_by(&receipt, total, now),
            Found::Unconcerned => Settled::Unconcerned,
            Found::Settled => Settled::Before,
            Found::Forgotten => Settled::Forgotten,
            Found::Unknown => Settled::Unknown,
        };
        Settling::Done(Settlement::without_effect(outcome))
    }

    fn settle_by(&self, receipt: &Receipt, total: Total<'_>, now: Timestamp) -> Settling {
        let mut parts = Parts::new();
        let (mut charged, mut refunded) = (Vec::new(), Vec::new());
        let mut moment = now;
        for part in &receipt.parts {
            let before = receipt.cost.times(part.weight).get();
            let total = total.at(part, receipt.cost).get();
            let more = Cost::new(total.saturating_sub(before));
            let less = Cost::new(before.saturating_sub(total)).min(part.taken);
            let (wanted, cost) = if more.is_peek() {
                (Effect::Refunded, less)
            } else {
                (Effect::Charged, more)
            };
            if cost.is_peek() || part.limit.quota.is_ban() {
                continue;
            }
            if part.holder == Holder::Store {
                let limit = self.in_force(&part.limit);
                if self.asks(&limit) {
                    moment = part.at;
                    let told = Counted {
                        limit,
                        key: part.key,
                        weight: cost.get(),
                    };
                    match wanted {
                        Effect::Charged => charged.push(told),
                        _ => refunded.push(told),
                    }
                    continue;
                }
            }
            let booked = match (wanted, part.holder) {
                (Effect::Charged, _) => self.charge_here(&part.limit, part.key, cost, part.at, now),
                (_, Holder::Cell) => {
                    self.counters
                        .refund_late(&part.limit, part.key, cost, part.at, now)
                }
                // No cell here has it, and the store cannot be told.
                (_, Holder::Store) => Booked::Dropped,
            };
            parts.push((Arc::clone(&part.limit), effect(wanted, booked), cost));
        }
        let questions = [
            (charged, Purpose::Charge(Some(moment))),
            (refunded, Purpose::Refund(Some(moment))),
        ];
        let questions = questions
            .into_iter()
            .filter(|(limits, _)| !limits.is_empty());
        let questions: SmallVec<[Question; 2]> = questions
            .map(|(limits, purpose)| Question {
                limits,
                cost: Cost::ONE,
                purpose,
            })
            .collect();
        if questions.is_empty() {
            return Settling::Done(Settlement::of(parts));
        }
        Settling::Pending(Box::new(PendingSettlement {
            questions,
            moment,
            parts,
        }))
    }

    /// Charges what was admitted at `moment` in the cells of this node, one way or the other.
    fn charge_here(
        &self,
        limit: &Arc<Limit>,
        key: Key,
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
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// The settlement, now that the store has answered each question, in their order. Without
    /// an answer, a charge counts on this node until it can be told; a refund that the store
    /// may have heard of is not made twice.
    pub fn settle(
        self,
        engine: &Engine,
        answers: impl IntoIterator<Item = Result<Ruling, Unanswered>>,
        now: Timestamp,
    ) -> Settlement {
        let PendingSettlement {
            questions,
            moment,
            mut parts,
        } = self;
        for (question, answer) in questions.iter().zip(answers) {
            let wanted = match question.purpose {
                Purpose::Refund(_) => Effect::Refunded,
                Purpose::Check | Purpose::Charge(_) => Effect::Charged,
            };
            for (place, one) in question.limits.iter().enumerate() {
                let cost = one.cost(question.cost);
                let booked = match &answer {
                    Ok(ruling) if ruling.dropped.contains(&place) => Booked::Dropped,
                    Ok(_) => Booked::Counted,
                    Err(Unanswered) if wanted == Effect::Charged => {
                        engine.charge_here(&one.limit, one.key, cost, moment, now)
                    }
                    Err(Unanswered) => Booked::Dropped,
                };
                parts.push((Arc::clone(&one.limit), effect(wanted, booked), cost));
            }
        }
        Settlement::of(parts)
    }
}
