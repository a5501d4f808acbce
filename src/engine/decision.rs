use crate::rules::NotFound;
use crate::units::{Nanos, Series, Timestamp};

/// The answer to one [`Request`](super::Request).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'s> {
    /// May it go on, and if not, why.
    pub outcome: Outcome,
    /// The limit that decided: on refusal the refusing one with the longest wait,
    /// on success the one with least remaining (tie: longest reset). `None` where
    /// no limit applied.
    pub limit: Option<Described<'s>>,
    /// How long ago the store last told about the deciding cell; `None` where it
    /// never has (a limit counted on this node alone, or a cell it has not yet
    /// heard of).
    pub stale: Option<Nanos>,
    /// When this was decided.
    pub now: Timestamp,
}

impl<'s> Decision<'s> {
    /// The decision where there is no limit to ask.
    pub(super) fn not_found(missing: NotFound, now: Timestamp) -> Decision<'s> {
        Decision {
            outcome: match missing {
                NotFound::Rule => Outcome::UnknownRule,
                NotFound::Caller => Outcome::Unidentified,
            },
            limit: None,
            stale: None,
            now,
        }
    }

    /// The limit whose figures may be told: without its store a limit that refuses or
    /// admits everything has none to rely on.
    pub fn figures(&self) -> Option<&Described<'s>> {
        let told = !matches!(self.outcome, Outcome::Bypassed | Outcome::Unavailable);
        self.limit.as_ref().filter(|_| told)
    }
}

/// May it go on, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Go on, after `delay` (zero but for leaky buckets).
    Allowed {
        /// How long to wait before acting.
        delay: Nanos,
    },
    /// No limit applies: go on.
    Unlimited,
    /// The store is lost and the limit's policy is to admit: go on.
    Bypassed,
    /// Over the limit; the same check may succeed after `retry_after`.
    Refused {
        /// How long to wait.
        retry_after: Nanos,
    },
    /// The cost is above the limit's capacity: waiting never helps.
    Impossible,
    /// The limit is zero: waiting never helps.
    Banned,
    /// The store is lost and the limit's policy is to refuse: not the caller's
    /// fault, so never told as "over the limit".
    Unavailable,
    /// The request names a rule that does not exist.
    UnknownRule,
    /// A rule insists on knowing the caller, and the request does not say who it is.
    Unidentified,
}

impl Outcome {
    /// Whether the caller may go on.
    pub const fn is_allowed(self) -> bool {
        matches!(
            self,
            Outcome::Allowed { .. } | Outcome::Unlimited | Outcome::Bypassed
        )
    }

    /// How long to wait before the same check may succeed; `None` where it was
    /// allowed, or where waiting never helps.
    pub const fn retry_after(self) -> Option<Nanos> {
        match self {
            Outcome::Refused { retry_after } => Some(retry_after),
            _ => None,
        }
    }

    /// The value of the `outcome` label.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Allowed { .. } => "allowed",
            Outcome::Unlimited => "unlimited",
            Outcome::Bypassed => "bypassed",
            Outcome::Refused { .. } => "refused",
            Outcome::Impossible => "impossible",
            Outcome::Banned => "banned",
            Outcome::Unavailable => "unavailable",
            Outcome::UnknownRule => "unknown_rule",
            Outcome::Unidentified => "unidentified",
        }
    }
}

/// The limit that decided, as callers are told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described<'s> {
    /// The rule's name.
    pub rule: &'s str,
    /// The limit's name within the rule.
    pub name: &'s str,
    /// Where its figures are kept.
    pub series: Series,
    /// The most that can be admitted at once (a bucket's capacity, else the amount).
    pub limit: u64,
    /// What is left now.
    pub remaining: u64,
    /// How long until everything is available again, with no other traffic.
    pub reset_after: Nanos,
    /// The limit's window or refill time.
    pub period: Nanos,
}
