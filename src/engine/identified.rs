//! Checks with an id, whose total cost comes later.

use super::judged::{Judged, Tally};
use super::receipts::{CheckId, Claim, Part, Receipt};
use super::{Begun, Decision, Outcome, Request, Snapshot};
use crate::rules::{Applied, AppliedLimits};
use crate::units::{Consistency, Cost, Nanos, Timestamp};

impl Snapshot<'_> {
    /// The same as [`begin`](Snapshot::begin), for a check that will be
    /// [settled](super::Engine::settle) by its `id`.
    ///
    /// The same check again, before it is settled, is a client's that has not heard the
    /// answer: it is admitted as before, and charged no more. Another check with the id, or
    /// any after it is settled, is [`Outcome::IdInUse`].
    pub fn begin_as(&self, request: &Request<'_>, id: CheckId<'_>, now: Timestamp) -> Begun<'_> {
        let mut applied = AppliedLimits::new();
        if let Some(decision) = self.find(request, now, &mut applied) {
            return Begun::Decided(decision);
        }
        let is_same = |receipt: &Receipt| receipt.is_of(&applied, request.cost);
        match self.engine.receipts.claim(id, now, is_same) {
            Claim::New(reservation) => self.admit(&applied, request.cost, Some(reservation), now),
            Claim::Again(delay) => Begun::Decided(self.again(&applied, delay, now)),
            Claim::InUse => Begun::Decided(Decision::without_limit(Outcome::IdInUse, now)),
        }
    }

    /// The decision for what was admitted before, with the figures of now. Those of limits
    /// that only the store knows are left out.
    fn again<'r>(&self, applied: &[Applied<'r>], delay: Nanos, now: Timestamp) -> Decision<'r> {
        let engine = self.engine;
        let mut tally = self.tally(applied);
        for (index, one) in applied.iter().enumerate() {
            let exact = one.limit.consistency == Consistency::Strict && engine.asks(one.limit);
            if one.limit.mode.enforces() && !exact {
                let judged = Judged {
                    outcome: Outcome::Allowed { delay },
                    ..engine.probe(one, Cost::ZERO, now)
                };
                tally.note(index, one.key, Cost::ZERO, judged);
            }
        }
        tally.decision(|index| applied.get(index).map(|one| &**one.limit), now)
    }
}

impl Tally {
    /// What was taken for the check of `cost` that this is the tally of, and that is admitted.
    /// The limits at the places `asked` were taken from by the store, at the time `ruled`.
    pub(super) fn receipt<'a>(
        &self,
        limits: impl Iterator<Item = Applied<'a>>,
        cost: Cost,
        (asked, ruled): (&[usize], Option<Timestamp>),
        now: Timestamp,
    ) -> Receipt {
        let part = |(index, one): (usize, Applied<'a>)| {
            let charge = one.cost(cost);
            let taken_here = if one.limit.mode.enforces() {
                if let Some(at) = ruled.filter(|_| asked.contains(&index)) {
                    return Some(Part::new(&one, charge, at, true));
                }
                let mut taken = self.taken.iter();
                taken.find(|(key, ..)| *key == one.key).map(|taken| taken.2)
            } else {
                let said = self.advice.iter().find(|said| said.0 == index)?.1;
                if !said.outcome.is_allowed() {
                    return None;
                }
                said.taken_at
            };
            Some(match taken_here {
                Some(at) => Part::new(&one, charge, at, false),
                None => Part::new(&one, Cost::ZERO, now, false),
            })
        };
        Receipt {
            at: now,
            delay: self.delay(),
            cost,
            parts: limits.enumerate().filter_map(part).collect(),
        }
    }
}
