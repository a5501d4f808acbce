use std::sync::Arc;

use super::{Answers, KeyHasher, KeySecret, Nanos, Quota};

/// The name of one counter space, the same on every node and after every reload:
/// rule, tier, algorithm and windows, but not the amount. Changing 100 to 50 keeps
/// what was used; another window, time zone or algorithm counts afresh.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LimitId(Arc<str>);

impl LimitId {
    /// The id of the limit of `quota`'s shape in `tier` of `rule`.
    pub fn new(rule: &str, tier: &str, quota: &Quota) -> LimitId {
        let (algorithm, windows) = (quota.algorithm().name(), quota.windows());
        // Lengths first, so that no choice of names makes two limits one.
        LimitId(
            format!(
                "{}:{rule}/{}:{tier}/{algorithm}/{windows}",
                rule.len(),
                tier.len()
            )
            .into(),
        )
    }

    /// The id of the limit of `quota`'s shape in `tier` of the override `within` of `rule`.
    pub fn within(rule: &str, within: &str, tier: &str, quota: &Quota) -> LimitId {
        // The length of the tier stands where the algorithm's name would.
        LimitId(
            format!(
                "{}:{rule}/{}",
                rule.len(),
                LimitId::new(within, tier, quota).0
            )
            .into(),
        )
    }

    /// The id of a counter space that no rule names, such as the keys of one command.
    pub fn of_space(space: &str) -> LimitId {
        LimitId(space.into())
    }

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How far a limit's answers may be from the fleet's truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Consistency {
    /// This node alone; nothing is sent to the store.
    Local,
    /// Always answered from memory; over-admission within the published bound.
    #[default]
    Approximate,
    /// Never over the limit, and mostly answered from memory: what a node admits, the store
    /// has lent it before. A check for which it holds no lease is decided by the store.
    Bounded,
    /// Exact: each check is decided by the store, in one exchange. Without a store the
    /// limit counts on this node alone, exactly.
    Strict,
}

impl Consistency {
    /// The word for it in rules.
    pub const fn name(self) -> &'static str {
        match self {
            Consistency::Local => "local",
            Consistency::Approximate => "approximate",
            Consistency::Bounded => "bounded",
            Consistency::Strict => "strict",
        }
    }

    /// Whether a check may be put to the store.
    pub const fn may_ask(self) -> bool {
        matches!(self, Consistency::Bounded | Consistency::Strict)
    }
}

/// What a limit does while the store is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum StoreLoss {
    /// The full limit, on this node's own view.
    Local,
    /// This node's share of the limit: amount / live nodes.
    #[default]
    Share,
    /// Everything is admitted and counted as bypassed.
    Open,
    /// Everything is refused, as unavailable rather than as over the limit.
    Closed,
}

/// What a limit's refusal means to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// It is refused.
    #[default]
    Enforce,
    /// Nothing: the refusal is counted for the operator alone.
    Shadow,
    /// Nothing, but the caller and the operator are warned.
    Soft,
}

impl Mode {
    /// The word for it in rules and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Shadow => "shadow",
            Mode::Soft => "soft",
        }
    }

    /// Whether the limit may refuse.
    pub const fn enforces(self) -> bool {
        matches!(self, Mode::Enforce)
    }
}

/// The shortest and the longest time that a strict check may wait for the store. The
/// longest is shorter than any patience that the doors have with their clients.
pub const STRICT_TIMEOUTS: (Nanos, Nanos) = (Nanos::from_millis(1), Nanos::from_secs(10));

/// When a cell's costs are sent to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pace {
    /// No admitted cost of a cell that matters stays unsent longer.
    pub interval: Nanos,
    /// Urgent costs are gathered this long, so that many cells share an exchange.
    pub min_interval: Nanos,
    /// A cell far from its limit may wait this long.
    pub max_interval: Nanos,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            interval: Nanos::from_millis(100),
            min_interval: Nanos::from_millis(5),
            max_interval: Nanos::from_secs(5),
        }
    }
}

/// Where a limit's figures are kept in the metrics: the number of the limit in
/// its rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Series(pub u32);

impl Series {
    /// The series of the limits whose quota comes with each call, from no rule.
    pub const PER_CALL: Series = Series(0);
}

/// One limit of one tier of one rule, compiled: a counter space with a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The counter space.
    pub id: LimitId,
    /// The rule's name, for people.
    pub rule: Arc<str>,
    /// The limit's name within its rule, for people: tier and window, such as `free/1m`.
    pub name: Arc<str>,
    /// How much, in how long, counted how.
    pub quota: Quota,
    /// How far from the fleet's truth it may answer.
    pub consistency: Consistency,
    /// What it does while the store is lost.
    pub on_store_loss: StoreLoss,
    /// When its costs are sent.
    pub pace: Pace,
    /// How long a strict check waits for the store; `None` for as long as the daemon says.
    pub strict_timeout: Option<Nanos>,
    /// Whether refused checks are charged too.
    pub count_denied: bool,
    /// What its callers are told.
    pub answers: Arc<Answers>,
    /// What its refusals mean.
    pub mode: Mode,
    /// Where its figures are kept.
    pub series: Series,
    /// Makes the keys of this counter space.
    pub hasher: KeyHasher,
}

impl Limit {
    /// A limit on `quota` in the counter space `id`, with everything else at its default.
    pub fn new(id: LimitId, rule: &str, name: &str, quota: Quota, secret: &KeySecret) -> Limit {
        let hasher = secret.hasher(id.as_str().as_bytes());
        Limit {
            id,
            rule: rule.into(),
            name: name.into(),
            quota,
            consistency: Consistency::default(),
            on_store_loss: StoreLoss::default(),
            pace: Pace::default(),
            strict_timeout: None,
            count_denied: false,
            answers: Arc::default(),
            mode: Mode::default(),
            series: Series::PER_CALL,
            hasher,
        }
    }

    /// Whether the quota comes with each call, so that the state belongs to the key
    /// and not to the quota.
    pub fn is_per_call(&self) -> bool {
        self.series == Series::PER_CALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Algorithm;

    fn quota(amount: u64, secs: u64) -> Quota {
        Quota::new(Algorithm::FixedWindow, amount, Nanos::from_secs(secs), None).unwrap()
    }

    #[test]
    fn the_amount_is_not_part_of_the_counter_space_but_the_window_is() {
        let id = |amount, secs| LimitId::new("orders", "free", &quota(amount, secs));
        assert_eq!(id(100, 60), id(50, 60));
        assert_ne!(id(100, 60), id(100, 3_600));
    }

    #[test]
    fn no_choice_of_names_makes_two_limits_one() {
        let a = LimitId::new("a/1:b", "c", &quota(1, 1));
        let b = LimitId::new("a", "b/1:c", &quota(1, 1));
        assert_ne!(a, b);
        let within = LimitId::within("a", "b", "c", &quota(1, 1));
        assert_eq!(within.as_str(), "1:a/1:b/1:c/fixed_window/1s");
        assert_ne!(within, LimitId::new("a", "b", &quota(1, 1)));
        assert_ne!(within, LimitId::new("a", "b/1:c", &quota(1, 1)));
    }
}
