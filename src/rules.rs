//! Rule files, compiled into one immutable [`RuleSet`].

use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::units::{Key, Limit};

/// Name and value pairs that a caller stated, in its order; names in lower case.
pub type Pairs<'a> = &'a [(&'a str, &'a str)];

/// The request that an application or gateway describes, to be matched by rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Described<'a> {
    /// The request's method, as stated.
    pub method: &'a str,
    /// The request's path, as stated: with its query, not yet normalised.
    pub path: &'a str,
    /// The client's address, as stated by the asker.
    pub ip: Option<IpAddr>,
    /// The address of the asker itself, on TCP.
    pub peer: Option<IpAddr>,
    /// The request's headers, as far as the asker passed them on.
    pub headers: Pairs<'a>,
    /// What the asker says about the caller: `user`, `tier` and the like.
    pub attributes: Pairs<'a>,
}

/// The compiled, validated rules: immutable, shared by all requests until the
/// next reload.
#[derive(Debug, Default)]
pub struct RuleSet {
    limits: Vec<Arc<Limit>>,
}

impl RuleSet {
    /// Every limit, in the order of its [`Series`], which starts at 1 (0 belongs
    /// to the limits that no rule names).
    pub fn limits(&self) -> &[Arc<Limit>] {
        &self.limits
    }

    /// Adds to `applied` the limits of all rules that match `request`, in the
    /// order of the rules.
    pub fn matching<'r>(&'r self, _request: &Described<'_>, _applied: &mut AppliedLimits<'r>) {}

    /// Adds to `applied` the limits of the rule called `rule` for the caller `key`
    /// in `tier`.
    ///
    /// # Errors
    /// [`UnknownRule`] if there is none; `applied` is as before.
    pub fn named<'r>(
        &'r self,
        _rule: &str,
        _key: &[u8],
        _tier: Option<&str>,
        _applied: &mut AppliedLimits<'r>,
    ) -> Result<(), UnknownRule> {
        Err(UnknownRule)
    }
}

/// The limits that apply to one request; rarely more than four.
pub type AppliedLimits<'r> = SmallVec<[Applied<'r>; 4]>;

/// No rule has that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no rule has that name")]
pub struct UnknownRule;

/// One limit that applies to a request, with the key that it counts by.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'r> {
    /// The limit.
    pub limit: &'r Arc<Limit>,
    /// Who is counted.
    pub key: Key,
}
