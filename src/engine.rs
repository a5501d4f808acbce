//! Request → decision: the waist of the hourglass. Every door asks here, and
//! the same request gets the same decision by any door.

mod decision;
mod per_call;
mod request;

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use smallvec::SmallVec;

use crate::algorithms::Verdict;
use crate::counters::{Counters, StoreHealth, Taken};
use crate::rules::{Applied, AppliedLimits, RuleSet};
use crate::units::{
    Consistency, Cost, Key, KeySecret, Limit, Nanos, Pace, Quota, StoreLoss, Timestamp,
};
use per_call::PerCall;

pub use decision::{Decision, Described as DescribedLimit, Outcome};
pub use request::{Request, Subject};

/// Decides requests: the rules, and the cells that they count in.
#[derive(Debug)]
pub struct Engine {
    rules: ArcSwap<RuleSet>,
    counters: Arc<Counters>,
    per_call: PerCall,
}

impl Engine {
    /// An engine that judges by `rules` and counts in `counters`. `secret` is the one
    /// that the rules were compiled with.
    pub fn new(rules: RuleSet, counters: Arc<Counters>, secret: &KeySecret) -> Engine {
        Engine {
            rules: ArcSwap::from_pointee(rules),
            counters,
            per_call: PerCall::new(secret),
        }
    }

    /// The same engine, with the pace of the limits whose quota comes with each call.
    pub fn paced(mut self, pace: Pace) -> Engine {
        self.per_call = self.per_call.paced(pace);
        self
    }

    /// The cells that this engine counts in.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// The rules as they are now. Take one snapshot for each request, or for a
    /// batch of requests that arrived together; do not keep it across a wait.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            engine: self,
            rules: self.rules.load(),
        }
    }
}

/// One immutable rule set, and the engine to decide with.
pub struct Snapshot<'e> {
    engine: &'e Engine,
    rules: Guard<Arc<RuleSet>>,
}

impl Snapshot<'_> {
    /// The rules of this snapshot.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Decides `request` at `now`. Never waits.
    pub fn decide(&self, request: &Request<'_>, now: Timestamp) -> Decision<'_> {
        let mut applied = AppliedLimits::new();
        match request.subject {
            Subject::Throttle { key, quota } => {
                let limit = self.engine.per_call.limit(quota);
                let key = PerCall::key(&limit, key);
                let judged = self.take(&Applied { limit: &limit, key }, request.cost, now);
                return Decision {
                    outcome: judged.outcome,
                    limit: Some(describe(PerCall::NAMES, &limit, &judged)),
                    stale: judged.stale,
                    now,
                };
            }
            Subject::Rule { rule, key, tier } => {
                if self.rules.named(rule, key, tier, &mut applied).is_err() {
                    return Decision {
                        outcome: Outcome::UnknownRule,
                        limit: None,
                        stale: None,
                        now,
                    };
                }
            }
            Subject::Described(described) => self.rules.matching(&described, &mut applied),
        }
        self.judge(&applied, request.cost, now)
    }

    /// All or nothing: takes from every cell, and gives back at the first refusal.
    fn judge<'r>(&self, applied: &AppliedLimits<'r>, cost: Cost, now: Timestamp) -> Decision<'r> {
        let mut chosen: Option<(usize, Judged)> = None;
        let mut delay = Nanos::ZERO;
        let mut refused = false;
        let mut taken: SmallVec<[(Key, Timestamp); 4]> = SmallVec::new();
        for (index, one) in applied.iter().enumerate() {
            // After a refusal the rest is only asked, to find the longest wait, unless
            // it counts refusals too.
            let judged = if refused && !one.limit.count_denied {
                self.probe(one, cost, now)
            } else {
                self.take(one, cost, now)
            };
            if let Some(at) = judged.taken_at {
                taken.push((one.key, at));
            }
            if !judged.outcome.is_allowed() && !refused {
                refused = true;
                chosen = None;
            }
            if refused {
                for (key, at) in taken.drain(..) {
                    self.engine.counters.give_back(key, cost, at, now);
                }
            }
            if let Outcome::Allowed { delay: this } = judged.outcome {
                delay = delay.max(this);
            }
            let better = match &chosen {
                None => !refused || !judged.outcome.is_allowed(),
                Some((_, best)) if refused => judged.weight() > best.weight(),
                Some((_, best)) => judged.is_tighter_than(best),
            };
            if better {
                chosen = Some((index, judged));
            }
        }
        let Some((index, judged)) = chosen else {
            return Decision {
                outcome: Outcome::Unlimited,
                limit: None,
                stale: None,
                now,
            };
        };
        let limit = applied[index].limit;
        let outcome = match judged.outcome {
            Outcome::Allowed { .. } => Outcome::Allowed { delay },
            other => other,
        };
        let names = (&*limit.rule, &*limit.name);
        let described = Some(describe(names, limit, &judged));
        Decision {
            outcome,
            limit: described,
            stale: judged.stale,
            now,
        }
    }

    fn take(&self, applied: &Applied<'_>, cost: Cost, now: Timestamp) -> Judged {
        let mut taken_at = None;
        let judged = self.ask(applied, cost, |counters, quota| {
            let taken = counters.take(applied.limit, quota, applied.key, cost, now);
            let admitted = matches!(taken.outcome.verdict, Verdict::Admitted { .. });
            taken_at = (admitted && !cost.is_peek()).then_some(taken.at);
            taken
        });
        Judged { taken_at, ..judged }
    }

    fn probe(&self, applied: &Applied<'_>, cost: Cost, now: Timestamp) -> Judged {
        self.ask(applied, cost, |counters, quota| {
            counters.probe(applied.limit, quota, applied.key, cost, now)
        })
    }

    /// Asks the cell under the quota that the store's health leaves it.
    fn ask(
        &self,
        applied: &Applied<'_>,
        cost: Cost,
        ask: impl FnOnce(&Counters, &Quota) -> Taken,
    ) -> Judged {
        let counters = &self.engine.counters;
        let limit = applied.limit;
        let quota = &limit.quota;
        let lost = limit.consistency != Consistency::Local
            && counters.fleet().health() == StoreHealth::Lost;
        if !lost {
            return Judged::new(ask(counters, quota));
        }
        match limit.on_store_loss {
            StoreLoss::Local => Judged::new(ask(counters, quota)),
            StoreLoss::Share => {
                let share = quota.share(counters.fleet().nodes());
                let judged = Judged::new(ask(counters, &share));
                // What no share can hold, the whole limit may, when the store is back.
                let too_large = judged.outcome == Outcome::Impossible;
                if too_large && cost.get() <= quota.capacity() {
                    Judged::UNAVAILABLE
                } else {
                    judged
                }
            }
            StoreLoss::Open => {
                // What the limit would admit is counted; what goes beyond is not.
                let judged = Judged::new(ask(counters, quota));
                Judged {
                    outcome: Outcome::Bypassed,
                    ..judged
                }
            }
            StoreLoss::Closed => Judged::UNAVAILABLE,
        }
    }
}

/// What one limit said.
#[derive(Clone, Copy, Debug)]
struct Judged {
    outcome: Outcome,
    remaining: u64,
    reset_after: Nanos,
    stale: Option<Nanos>,
    /// The moment that the cost was taken for, if it was.
    taken_at: Option<Timestamp>,
}

impl Judged {
    const UNAVAILABLE: Judged = Judged {
        outcome: Outcome::Unavailable,
        remaining: 0,
        reset_after: Nanos::ZERO,
        stale: None,
        taken_at: None,
    };

    fn new(taken: Taken) -> Judged {
        let outcome = match taken.outcome.verdict {
            Verdict::Admitted { delay } => Outcome::Allowed { delay },
            Verdict::Refused { retry_after } => Outcome::Refused { retry_after },
            Verdict::Impossible => Outcome::Impossible,
            Verdict::Banned => Outcome::Banned,
        };
        let (remaining, reset_after) = (taken.outcome.remaining, taken.outcome.reset_after);
        Judged {
            outcome,
            remaining,
            reset_after,
            stale: taken.stale,
            taken_at: None,
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
                (self.remaining, std::cmp::Reverse(self.reset_after))
                    < (other.remaining, std::cmp::Reverse(other.reset_after))
            }
        }
    }
}

fn describe<'s>(names: (&'s str, &'s str), limit: &Limit, judged: &Judged) -> DescribedLimit<'s> {
    DescribedLimit {
        rule: names.0,
        name: names.1,
        series: limit.series,
        limit: limit.quota.capacity(),
        remaining: judged.remaining,
        reset_after: judged.reset_after,
        period: limit.quota.period(),
    }
}

#[cfg(test)]
mod tests;
