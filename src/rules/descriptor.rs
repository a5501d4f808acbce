//! What gateways ask about: a domain, and entries of key and value.

mod domains;

use super::{AppliedLimits, RuleSet};
use crate::units::Nanos;

pub(super) use domains::Domains;

/// What a gateway asks about: a domain, and entries in their order.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// The domain, which keeps the rules of one gateway or team apart from others.
    pub domain: &'a str,
    /// Key and value of each entry.
    pub entries: &'a [(&'a str, &'a str)],
    /// The limit that the gateway states itself, in place of the rule's.
    pub stated: Option<StatedLimit>,
}

/// A limit that comes with the descriptor: so many requests in each window of `unit`, aligned
/// to the epoch. No request at all is a ban.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StatedLimit {
    /// How many requests.
    pub requests: u32,
    /// In how long.
    pub unit: Unit,
}

/// The windows that gateways know. All are of a fixed length: no month of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// One second.
    Second,
    /// 60 seconds.
    Minute,
    /// 3,600 seconds.
    Hour,
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl Unit {
    /// The words for it in rule files, from the shortest on.
    pub(super) const WORDS: [(&'static str, Unit); 7] = [
        ("second", Unit::Second),
        ("minute", Unit::Minute),
        ("hour", Unit::Hour),
        ("day", Unit::Day),
        ("week", Unit::Week),
        ("month", Unit::Month),
        ("year", Unit::Year),
    ];

    /// How long it is.
    pub const fn period(self) -> Nanos {
        const DAY: u64 = 86_400;
        Nanos::from_secs(match self {
            Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => 3_600,
            Unit::Day => DAY,
            Unit::Week => 7 * DAY,
            Unit::Month => 30 * DAY,
            Unit::Year => 365 * DAY,
        })
    }

    /// The unit that is `period` long.
    pub fn of(period: Nanos) -> Option<Unit> {
        let mut all = Unit::WORDS.iter().map(|(_, unit)| *unit);
        all.find(|unit| unit.period() == period)
    }
}

impl RuleSet {
    /// Whether any rule is for descriptors of `domain`.
    pub fn has_domain(&self, domain: &str) -> bool {
        self.domains.has(domain)
    }

    /// Whether descriptors of a domain without any rule are to be refused as mistaken.
    pub fn strict_domains(&self) -> bool {
        self.strict_domains
    }

    /// Adds to `applied` the limits of the rule for `descriptor`, if there is one: of each
    /// entry the rule with just that value comes before one with a wildcard, and that before
    /// one for all values, from the first entry on and without going back. The limit that the
    /// descriptor itself states is not looked at.
    pub fn described_by<'r>(
        &'r self,
        descriptor: &Descriptor<'_>,
        applied: &mut AppliedLimits<'r>,
    ) {
        let _ = (descriptor, applied);
    }
}
