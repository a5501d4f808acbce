//! Request → decision: the waist of the hourglass. Every door asks here, and
//! the same request gets the same decision by any door.

mod decision;
mod request;

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use crate::rules::RuleSet;
use crate::units::Timestamp;

pub use decision::{Decision, Described as DescribedLimit, Outcome};
pub use request::{Request, Subject};

/// Decides requests: the rules, and the cells that they count in.
#[derive(Debug, Default)]
pub struct Engine {
    rules: ArcSwap<RuleSet>,
}

impl Engine {
    /// The rules as they are now. Take one snapshot for each request, or for a
    /// batch of requests that arrived together; do not keep it across a wait.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            _engine: self,
            rules: self.rules.load(),
        }
    }
}

/// One immutable rule set, and the engine to decide with.
pub struct Snapshot<'e> {
    _engine: &'e Engine,
    rules: Guard<Arc<RuleSet>>,
}

impl Snapshot<'_> {
    /// The rules of this snapshot.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Decides `request` at `now`. Never waits.
    pub fn decide(&self, _request: &Request<'_>, now: Timestamp) -> Decision<'_> {
        Decision {
            outcome: Outcome::Unlimited,
            limit: None,
            stale: None,
            now,
        }
    }
}
