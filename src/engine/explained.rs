use super::judged::Tally;
use super::{Decision, Outcome, Snapshot};
use crate::counters::By;
use crate::rules::{CallerKnown, Described, Descriptor, NotFound, RuleExplained, Why};
use crate::units::{Consistency, Cost, Nanos, Timestamp};

/// What would become of a described request, and why.
#[derive(Clone, Debug)]
pub struct Explained<'s> {
    /// Who it comes from.
    pub caller: CallerKnown,
    /// What each rule makes of it, in their order.
    pub rules: Vec<RuleExplained<'s>>,
    /// What the limits say, in the order of the rules and of the limits of each.
    pub said: Vec<Said>,
    /// What they decide together, with the figures that a check would be told.
    pub decision: Decision<'s>,
}

/// What one limit would say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// What it would decide.
    pub outcome: Outcome,
    /// What it would be charged.
    pub cost: Cost,
    /// What is left now, as long as nothing is charged.
    pub remaining: u64,
    /// How long until everything is available again, if nothing is charged.
    pub reset_after: Nanos,
    /// Whether a check would be put to the store: then these are this node's own figures,
    /// and the store may decide otherwise.
    pub by_store: bool,
}

impl Snapshot<'_> {
    /// Explains what a check of `request` at this `cost` would be told at `now`. It takes
    /// nothing, never waits, and looks at every rule.
    pub fn explain(&self, request: &Described<'_>, cost: Cost, now: Timestamp) -> Explained<'_> {
        let rules = self.rules.explain(request, now);
        self.explained(rules, self.rules.caller(request, now), cost, now)
    }

    /// The same of a descriptor, by the rules and not by a limit that it states itself.
    pub fn explain_descriptor(
        &self,
        descriptor: &Descriptor<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Explained<'_> {
        let rules = self.rules.explain_descriptor(descriptor);
        self.explained(rules, CallerKnown::default(), cost, now)
    }

    fn explained<'s>(
        &'s self,
        rules: Vec<RuleExplained<'s>>,
        caller: CallerKnown,
        cost: Cost,
        now: Timestamp,
    ) -> Explained<'s> {
        let engine = self.engine;
        let applied: Vec<_> = rules.iter().flat_map(|rule| rule.limits.iter()).collect();
        let mut tally = Tally::new(applied.len() > 1);
        let mut said = Vec::with_capacity(applied.len());
        for (index, one) in applied.iter().enumerate() {
            let charge = one.cost(cost);
            let judged = engine.probe(one, charge, now);
            let left = engine.probe(one, Cost::ZERO, now);
            let enforces = one.limit.mode.enforces();
            let is_strict = one.limit.consistency == Consistency::Strict;
            said.push(Said {
                outcome: judged.outcome,
                cost: charge,
                remaining: left.remaining,
                reset_after: left.reset_after,
                by_store: enforces
                    && (is_strict || judged.by == By::Store)
                    && engine.asks(one.limit),
            });
            if enforces {
                tally.note(index, one.key, charge, judged);
            } else {
                tally.advice.push((index, judged));
            }
        }
        tally.look_again(|index| Some(engine.probe(applied.get(index)?, Cost::ZERO, now)));
        if tally.refused {
            // Nobody is told of what is not charged.
            tally.advice.clear();
        }
        let denied = Some(Why::CallerDenied);
        let decision = if rules.iter().any(|rule| rule.why_not == denied) {
            Decision::not_found(NotFound::Caller, now)
        } else {
            tally.decision(|index| applied.get(index).map(|one| &**one.limit), now)
        };
        Explained {
            caller,
            rules,
            said,
            decision,
        }
    }
}
