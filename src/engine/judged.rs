use std::cmp::Reverse;

use smallvec::SmallVec;

use super::{Advised, Besides, Decision, DescribedLimit, Outcome};
use crate::algorithms::{self, Verdict};
use crate::counters::{By, Taken};
use crate::units::{Answers, Cost, Key, Limit, Nanos, Timestamp};

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

    #[inline]
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

    #[inline]
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

    /// The limit of a rule that said it, as callers are told of it.
    #[inline]
    fn of_limit<'s>(&self, limit: &'s Limit, now: Timestamp) -> DescribedLimit<'s> {
        DescribedLimit {
            period: limit.quota.period_at(now),
            ..self.described((&limit.rule, &limit.name), &limit.answers, limit)
        }
    }

    /// The limit that said it, as callers are told of it.
    #[inline]
    pub(super) fn described<'s>(
        &self,
        names: (&'s str, &'s str),
        answers: &'s Answers,
        limit: &Limit,
    ) -> DescribedLimit<'s> {
        DescribedLimit {
            rule: names.0,
            name: names.1,
            series: limit.series,
            limit: limit.quota.capacity(),
            remaining: self.remaining,
            reset_after: self.reset_after,
            amount: limit.quota.amount(),
            period: limit.quota.period(),
            answers,
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
    /// What each limit said, with its place, where all are to be told.
    told: Option<Vec<(usize, Judged)>>,
    /// Whether there are limits that never refuse, to be asked when all others have
    /// admitted.
    pub(super) advisers: bool,
    /// What those said: each with its place among the limits.
    pub(super) advice: Vec<(usize, Judged)>,
}

impl Tally {
    /// A tally of the limits of one request, of which all will be told if `all`.
    pub(super) fn new(all: bool) -> Tally {
        Tally {
            told: all.then(Vec::new),
            ..Tally::default()
        }
    }

    /// After a refusal, looks again at the limits that admitted what they are given back:
    /// `look` answers what the limit at a place says now, to a cost of nothing.
    #[inline]
    pub(super) fn look_again(&mut self, look: impl Fn(usize) -> Option<Judged>) {
        if !self.refused {
            return;
        }
        for (index, judged) in self.told.iter_mut().flatten() {
            if judged.outcome.is_allowed()
                && let Some(now) = look(*index)
            {
                *judged = now;
            }
        }
    }

    /// How long an admitted check is to wait before it acts.
    pub(super) const fn delay(&self) -> Nanos {
        self.delay
    }

    /// Takes note of what the limit at `index` said, whose cell is that of `key`, when it
    /// was asked for `cost`. Once `refused`, all that was taken must be given back.
    #[inline(always)]
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
            Some((_, best)) if self.refused => judged.outcome.weight() > best.outcome.weight(),
            Some((_, best)) => judged.is_tighter_than(best),
        };
        if better {
            self.chosen = Some((index, judged));
        }
        if let Some(told) = &mut self.told {
            told.push((index, judged));
        }
    }

    /// What is said besides the limit that decided.
    #[cold]
    fn besides<'r>(
        &mut self,
        limit_at: impl Fn(usize) -> Option<&'r Limit>,
        now: Timestamp,
    ) -> Box<Besides<'r>> {
        let advised = |(index, judged): (usize, Judged)| {
            let limit = limit_at(index)?;
            Some(Advised {
                limit: judged.of_limit(limit, now),
                mode: limit.mode,
                outcome: judged.outcome,
            })
        };
        let told = |(index, judged): (usize, Judged)| {
            let limit = limit_at(index).filter(|_| judged.outcome.has_figures())?;
            Some(judged.of_limit(limit, now))
        };
        let mut all = self.told.take().unwrap_or_default();
        all.sort_unstable_by_key(|(index, _)| *index);
        Box::new(Besides {
            all: all.into_iter().filter_map(told).collect(),
            advised: self.advice.drain(..).filter_map(advised).collect(),
        })
    }

    /// The decision at `now`; `limit_at` answers the limit at a place.
    #[inline]
    pub(super) fn decision<'r>(
        &mut self,
        limit_at: impl Fn(usize) -> Option<&'r Limit>,
        now: Timestamp,
    ) -> Decision<'r> {
        let says_more = self.told.is_some() || !self.advice.is_empty();
        let besides = says_more.then(|| self.besides(&limit_at, now));
        let said = self
            .chosen
            .as_ref()
            .and_then(|(index, judged)| Some((limit_at(*index)?, judged)));
        let Some((limit, judged)) = said else {
            return Decision {
                outcome: Outcome::Unlimited,
                limit: None,
                stale: None,
                now,
                besides,
            };
        };
        let outcome = match judged.outcome {
            Outcome::Allowed { .. } => Outcome::Allowed { delay: self.delay },
            other => other,
        };
        Decision {
            outcome,
            limit: Some(judged.of_limit(limit, now)),
            stale: judged.stale,
            now,
            besides,
        }
    }
}
