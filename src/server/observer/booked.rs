//! What is observed of costs that nobody is asked about.

use metrics::counter;

use super::{Door, Observer};
use crate::engine::{Decision, Outcome, Settlement};
use crate::names;

impl Observer {
    /// Counts one report, after which the limits say `decision`. Every door calls this once
    /// for each.
    pub fn reported(&self, door: Door, decision: &Decision<'_>) {
        let outcome = match decision.outcome {
            Outcome::UnknownRule | Outcome::Unidentified => decision.outcome.name(),
            _ => "recorded",
        };
        let limit = decision.limit.as_ref();
        counter!(
            names::REPORTS,
            "rule" => limit.map_or("", |limit| limit.rule).to_owned(),
            "limit" => limit.map_or("", |limit| limit.name).to_owned(),
            "outcome" => outcome,
            "door" => door.name(),
        )
        .increment(1);
    }

    /// Counts one settlement, and what became of its cost. Every door calls this once for
    /// each.
    pub fn settled(&self, door: Door, settlement: &Settlement) {
        let outcome = settlement.outcome.name();
        counter!(names::SETTLEMENTS, "outcome" => outcome, "door" => door.name()).increment(1);
        for (limit, effect, cost) in &settlement.parts {
            counter!(
                names::SETTLED_COST,
                "rule" => limit.rule.to_string(),
                "limit" => limit.name.to_string(),
                "effect" => effect.name(),
            )
            .increment(cost.get());
        }
    }
}
