use crate::rules::{Described, Descriptor};
use crate::units::{Cost, Quota};

/// One check: may this caller do this, at this cost, now?
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who and what.
    pub subject: Subject<'a>,
    /// What it consumes if admitted; zero is a peek.
    pub cost: Cost,
}

/// The ways of saying who and what.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// One rule, by name, and the caller's identity in one piece.
    Rule {
        /// The rule's name.
        rule: &'a str,
        /// The caller's identity.
        key: &'a [u8],
        /// The caller's tier; `None` for the rule's default.
        tier: Option<&'a str>,
    },
    /// A request for all matching rules to judge.
    Described(Described<'a>),
    /// A key and a quota of the asker's own, without any rule: `CL.THROTTLE`.
    /// The state belongs to the key; the quota may change from call to call.
    Throttle {
        /// The caller's identity.
        key: &'a [u8],
        /// The quota of this call: a token bucket.
        quota: Quota,
    },
    /// A descriptor of a gateway, for the rule that matches it best.
    Descriptor(Descriptor<'a>),
}
