use std::sync::Arc;

use smallvec::SmallVec;

use super::judged::{Judged, Tally};
use super::receipts::Reservation;
use super::{Counted, Decision, Engine, Places, Purpose, Question, Ruling, Unanswered};
use crate::rules::Applied;
use crate::units::{Consistency, Cost, Timestamp};

/// A check that was begun.
#[derive(Debug)]
pub enum Begun<'s> {
    /// It is decided already.
    Decided(Decision<'s>),
    /// Its strict limits must be asked first.
    Pending(Box<Pending>),
}

/// A check whose other limits have admitted it, and are charged, and whose strict limits
/// must be asked; or a report that these must be told of. It holds no rules, so it may wait.
///
/// Dropped instead of settled (a client hung up), what was taken stays taken.
#[derive(Debug)]
pub struct Pending {
    /// All limits that apply.
    limits: SmallVec<[Counted; 2]>,
    /// Which of them the question is about.
    asked: Places,
    question: Question,
    tally: Tally,
    /// Of a check that will be settled, with what measures it at each of all limits.
    reservation: Option<Reservation>,
    measures: Vec<Option<Arc<str>>>,
}

impl Pending {
    #[cold]
    pub(super) fn new(
        applied: &[Applied<'_>],
        asked: Places,
        (cost, purpose): (Cost, Purpose),
        tally: Tally,
        reservation: Option<Reservation>,
    ) -> Pending {
        let counted = |one: &Applied<'_>| Counted {
            limit: Arc::clone(one.limit),
            key: one.key,
            weight: one.weight,
        };
        let measured = applied.iter().filter(|_| reservation.is_some());
        Pending {
            measures: measured.map(|one| one.measure.cloned()).collect(),
            limits: applied.iter().map(counted).collect(),
            question: Question {
                limits: asked
                    .iter()
                    .map(|index| counted(&applied[*index]))
                    .collect(),
                cost,
                purpose,
            },
            asked,
            tally,
            reservation,
        }
    }

    /// What the [`Authority`](super::Authority) is to be asked.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// The decision, now that the question has its `answer`. Where the strict limits
    /// refuse, the others are given back what was taken; where they are not answered,
    /// each goes by its policy for a lost store, at `now`.
    pub fn settle(
        &mut self,
        engine: &Engine,
        answer: Result<Ruling, Unanswered>,
        now: Timestamp,
    ) -> Decision<'_> {
        let mut tally = std::mem::take(&mut self.tally);
        let cost = self.question.cost;
        let ruling = answer
            .ok()
            .filter(|ruling| ruling.outcomes.len() == self.asked.len());
        let decided_at = ruling.as_ref().map_or(now, |ruling| ruling.at);
        for (number, index) in self.asked.iter().enumerate() {
            let Counted { limit, key, weight } = &self.limits[*index];
            if self.question.purpose != Purpose::Check {
                let one = applied(&self.limits[*index]);
                if let Some(ruling) = &ruling {
                    let judged = Judged::ruled(ruling.outcomes[number]);
                    tally.note(*index, *key, Cost::ZERO, judged);
                } else {
                    engine.book_unanswered(&one, self.question.purpose, cost, now);
                    engine.tell(&mut tally, *index, &one, now);
                }
                continue;
            }
            let Some(ruling) = &ruling else {
                let one = applied(&self.limits[*index]);
                engine.take_without_store(&mut tally, *index, &one, cost, now);
                continue;
            };
            let judged = Judged::ruled(ruling.outcomes[number]);
            let charge = cost.times(*weight);
            if let Some(wait) = judged.outcome.retry_after()
                && limit.consistency == Consistency::Bounded
            {
                // A limit that gives back bit by bit would be asked about for every bit, and
                // what is lent to others may come back long before its window ends.
                let pace = limit.pace;
                let wait = wait.min(pace.interval.times(10)).max(pace.min_interval);
                let until = ruling.at.after(wait);
                engine.counters().refused(*key, charge, until);
            }
            tally.note(*index, *key, charge, judged);
            if tally.refused {
                engine.give_back(&mut tally, now);
            }
        }
        tally.look_again(|index| {
            // What the store said is not known better here.
            if ruling.is_some() && self.asked.contains(&index) {
                return None;
            }
            let one = applied(self.limits.get(index)?);
            Some(engine.probe(&one, Cost::ZERO, now))
        });
        if tally.advisers {
            let limits = self.limits.iter().map(applied);
            engine.advise(&mut tally, limits, cost, now);
        }
        if let Some(reservation) = self.reservation.take()
            && !tally.refused
        {
            let limits = self.limits.iter().zip(&self.measures);
            let limits = limits.map(|(one, measure)| Applied {
                measure: measure.as_ref(),
                ..applied(one)
            });
            let ruled = ruling.as_ref().map(|ruling| ruling.at);
            let receipt = tally.receipt(limits, cost, (&self.asked, ruled), now);
            reservation.keep(receipt, now);
        }
        tally.decision(
            |index| self.limits.get(index).map(|one| &*one.limit),
            decided_at,
        )
    }

    /// The keys of all limits.
    #[cfg(test)]
    pub(super) fn limits_here(&self) -> Vec<crate::units::Key> {
        self.limits.iter().map(|one| one.key).collect()
    }
}

fn applied(one: &Counted) -> Applied<'_> {
    Applied {
        limit: &one.limit,
        key: one.key,
        weight: one.weight,
        measure: None,
    }
}
