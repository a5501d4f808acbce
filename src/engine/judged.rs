use std::cmp::Reverse;

use smallvec::SmallVec;

use super::{Decision, DescribedLimit, Outcome};
use crate::algorithms::{self, Verdict};
use crate::counters::{By, Taken};
use crate::units::{Cost, Key, Limit, Nanos, Timestamp};

/// What one limit said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged {
    pub(super) outcome: Outcome,
    pub(super) remaining: u64,
    pub(super) reset_after: Nanos,
    pub(super) stale: Option<Nanos>,
    /// The moment that the cost was taken for, if it was.
    pub(super) taken_at: Option<Timestamp>,
    /// Who decides it.
    pub(super) by: By,
}

impl Judged {
    pub(super) const UNAVAILABLE: Judged = Judged {
        outcome: Outcome::Unavailable,
        remaining: 0,
        reset_after: Nanos::ZERO,
        stale: None,
        taken_at: None,
        by: By::Cell,
    };

    pub(super) fn new(taken: Taken) -> Judged {
        Judged {
            by: taken.by,
            ..Judged::of(taken.outcome, taken.stale)
        }
    }

    /// What the store said just now. What it has taken is not this node's to give back.
    pub(super) fn ruled(outcome: algorithms::Outcome) -> Judged {
        Judged::of(outcome, Some(Nanos::ZERO))
    }

    fn of(said: algorithms::Outcome, stale: Option<Nanos>) -> Judged {
        let outcome = match said.verdict {
            Verdict::Admitted { delay } => Outcome::Allowed { delay },
            Verdict::Refused { retry_after } => Outcome::Refused { retry_after },
            Verdict::Impossible => Outcome::Impossible,
            Verdict::Banned => Outcome::Banned,
        };
        Judged {
            outcome,
            remaining: said.remaining,
            reset_after: said.reset_after,
            stale,
            taken_at: None,
            by: By::Cell,
        }
    }

    /// How long a refusal makes the caller wait: never is longer than any time, and
    /// a lost store says nothing about the caller, so it comes before all.
    fn weight(&self) -> (u8, Nanos) {
        match self.outcome {
            Outcome::Unavailable => (3, Nanos::MAX),
            Outcome::Banned | Outcome::Impossible => (2, Nanos::MAX),
            Outcome::Refused { retry_after } => (1, retry_after),
            _ => (0, Nanos::ZERO),
        }
    }

    /// Whether this admission leaves less than `other`; a bypassed limit leaves
    /// everything.
    fn is_tighter_than(&self, other: &Judged) -> bool {
        match (self.outcome, other.outcome) {
            (Outcome::Bypassed, _) => false,
            (_, Outcome::Bypassed) => true,
            _ => {
                (self.remaining, Reverse(self.reset_after))
                    < (other.remaining, Reverse(other.reset_after))
            }
        }
    }

    /// The limit that said it, as callers are told of it.
    pub(super) fn described<'s>(
        &self,
        names: (&'s str, &'s str),
        limit: &Limit,
    ) -> DescribedLimit<'s> {
        DescribedLimit {
            rule: names.0,
            name: names.1,
            series: limit.series,
            limit: limit.quota.capacity(),
            remaining: self.remaining,
            reset_after: self.reset_after,
            period: limit.quota.period(),
        }
    }
}

/// What the limits of one request have said so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The one to be described: its place among the limits.
    chosen: Option<(usize, Judged)>,
    /// The longest of all delays.
    delay: Nanos,
    pub(super) refused: bool,
    /// What was taken: from which cell, how much, and for which moment.
    pub(super) taken: SmallVec<[(Key, Cost, Timestamp); 4]>,
}

impl Tally {
    /// Takes note of what the limit at `index` said, whose cell is that of `key`, when it
    /// was asked for `cost`. Once `refused`, all that was taken must be given back.
    pub(super) fn note(&mut self, index: usize, key: Key, cost: Cost, judged: Judged) {
        if let Some(at) = judged.taken_at {
            self.taken.push((key, cost, at));
        }
        if !judged.outcome.is_allowed() && !self.refused {
            self.refused = true;
            self.chosen = None;
        }
        if let Outcome::Allowed { delay } = judged.outcome {
            self.delay = self.delay.max(delay);
        }
        let better = match &self.chosen {
            None => !self.refused || !judged.outcome.is_allowed(),
            Some((_, best)) if self.refused => judged.weight() > best.weight(),
            Some((_, best)) => judged.is_tighter_than(best),
        };
        if better {
            self.chosen = Some((index, judged));
        }
    }

    /// The decision at `now`; `limit` answers the limit at a place.
    pub(super) fn decision<'r>(
        self,
        limit: impl FnOnce(usize) -> Option<&'r Limit>,
        now: Timestamp,
    ) -> Decision<'r> {
        let said = self
            .chosen
            .and_then(|(index, judged)| Some((limit(index)?, judged)));
        let Some((limit, judged)) = said else {
            return Decision {
                outcome: Outcome::Unlimited,
                limit: None,
                stale: None,
                now,
            };
        };
        let outcome = match judged.outcome {
            Outcome::Allowed { .. } => Outcome::Allowed { delay: self.delay },
            other => other,
        };
        let names = (&*limit.rule, &*limit.name);
        Decision {
            outcome,
            limit: Some(judged.described(names, limit)),
            stale: judged.stale,
            now,
        }
    }
}
