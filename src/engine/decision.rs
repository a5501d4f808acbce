use crate::rules::NotFound;
use crate::units::{Answers, Mode, Nanos, Series, Timestamp};

/// The answer to one [`Request`](super::Request).
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// What few requests need: apart, so that all others do not carry it along.
    pub besides: Option<Box<Besides<'s>>>,
}

/// What is said of a request besides the limit that decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Besides<'s> {
    /// All limits that have figures, in the order of their rules, the one that decided
    /// among them: where they were [asked for](super::Snapshot::telling_all) and there
    /// are several.
    pub all: Vec<Described<'s>>,
    /// What the limits that apply and never refuse have said. Empty where the request
    /// was not admitted: then they are not asked.
    pub advised: Vec<Advised<'s>>,
}

/// What a limit that never refuses said of a request that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advised<'s> {
    /// The limit.
    pub limit: Described<'s>,
    /// Why it does not refuse: never [`Mode::Enforce`].
    pub mode: Mode,
    /// What it would have decided.
    pub outcome: Outcome,
}

impl Advised<'_> {
    /// Whether the caller is to be warned: the limit is soft, and the request over it.
    pub const fn is_warning(&self) -> bool {
        let over = matches!(
            self.outcome,
            Outcome::Refused { .. } | Outcome::Impossible | Outcome::Banned
        );
        matches!(self.mode, Mode::Soft) && over
    }
}

impl<'s> Decision<'s> {
    /// The decision where there is no limit to ask.
    pub(super) fn not_found(missing: NotFound, now: Timestamp) -> Decision<'s> {
        let outcome = match missing {
            NotFound::Rule => Outcome::UnknownRule,
            NotFound::Caller => Outcome::Unidentified,
        };
        Decision::without_limit(outcome, now)
    }

    /// A decision that no limit has made.
    pub(super) fn without_limit(outcome: Outcome, now: Timestamp) -> Decision<'s> {
        Decision {
            outcome,
            limit: None,
            stale: None,
            now,
            besides: None,
        }
    }

    /// [All limits](Besides::all) that have figures, where they are told.
    pub fn all(&self) -> &[Described<'s>] {
        self.besides.as_ref().map_or(&[], |besides| &besides.all)
    }

    /// What the limits that never refuse [have said](Besides::advised).
    pub fn advised(&self) -> &[Advised<'s>] {
        self.besides
            .as_ref()
            .map_or(&[], |besides| &besides.advised)
    }

    /// The limit whose figures may be told: without its store a limit that refuses or
    /// admits everything has none to rely on.
    pub fn figures(&self) -> Option<&Described<'s>> {
        self.limit.as_ref().filter(|_| self.outcome.has_figures())
    }

    /// The soft limit that the request is over; of several the one with the longest wait.
    pub fn warning(&self) -> Option<&Advised<'s>> {
        let over = self.advised().iter().filter(|said| said.is_warning());
        over.max_by_key(|said| said.outcome.weight())
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
    /// The check's id is that of another check, which was admitted and is remembered, or of
    /// one that is not decided yet.
    IdInUse,
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

    /// Whether a limit that says this has figures to rely on.
    pub(super) const fn has_figures(self) -> bool {
        !matches!(self, Outcome::Bypassed | Outcome::Unavailable)
    }

    /// How long a refusal makes the caller wait: never is longer than any time, and
    /// a lost store says nothing about the caller, so it comes before all.
    pub(super) fn weight(self) -> (u8, Nanos) {
        match self {
            Outcome::Unavailable => (3, Nanos::MAX),
            Outcome::Banned | Outcome::Impossible => (2, Nanos::MAX),
            Outcome::Refused { retry_after } => (1, retry_after),
            _ => (0, Nanos::ZERO),
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
            Outcome::IdInUse => "id_in_use",
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
    /// How much is admitted or refilled in each `period`: of a bucket not its capacity.
    pub amount: u64,
    /// The limit's window or refill time.
    pub period: Nanos,
    /// What callers are told of it.
    pub answers: &'s Answers,
}

impl Described<'_> {
    /// How long everything takes to come back: the window, or the time in which a bucket
    /// refills from empty, rounded up.
    pub fn refill_time(&self) -> Nanos {
        if self.amount == 0 {
            return self.period;
        }
        let whole = u128::from(self.limit) * u128::from(self.period.get());
        let time = whole.div_ceil(u128::from(self.amount));
        Nanos::new(u64::try_from(time).unwrap_or(u64::MAX))
    }
}
