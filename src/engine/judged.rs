use std::cmp::Reverse;

use smallvec::SmallVec;

use super::{Advised, Decision, DescribedLimit, Outcome};
use crate::algorithms::{self, Verdict};
use crate::counters::{By, Taken};
use crate::units::{Key, Limit, Nanos, Timestamp};

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
    /// What was taken, from which cell and for which moment.
    pub(super) taken: SmallVec<[(Key, Timestamp); 4]>,
    /// Whether there are limits that never refuse, to be asked when all others have
    /// admitted.
    pub(super) advisers: bool,
    /// What those said: each with its place among the limits.
    pub(super) advice: Vec<(usize, Judged)>,
}

impl Tally {
    /// Takes note of what the limit at `index` said, whose cell is that of `key`. Once
    /// `refused`, all that was taken must be given back.
    pub(super) fn note(&mut self, index: usize, key: Key, judged: Judged) {
        if let Some(at) = judged.taken_at {
            self.taken.push((key, at));
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
            Some((_, best)) if self.refused => judged.outcome.weight() > best.outcome.weight(),
            Some((_, best)) => judged.is_tighter_than(best),
        };
        if better {
            self.chosen = Some((index, judged));
        }
    }

    /// The decision at `now`; `limit` answers the limit at a place.
    pub(super) fn decision<'r>(
        self,
        limit: impl Fn(usize) -> Option<&'r Limit>,
        now: Timestamp,
    ) -> Decision<'r> {
        let advised = |(index, judged): (usize, Judged)| {
            let limit = limit(index)?;
            Some(Advised {
                limit: judged.described((&limit.rule, &limit.name), limit),
                mode: limit.mode,
                outcome: judged.outcome,
            })
        };
        let advised = self.advice.into_iter().filter_map(advised).collect();
        let said = self
            .chosen
            .and_then(|(index, judged)| Some((limit(index)?, judged)));
        let Some((limit, judged)) = said else {
            return Decision {
                outcome: Outcome::Unlimited,
                limit: None,
                stale: None,
                now,
                advised,
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
            advised,
        }
    }
}
