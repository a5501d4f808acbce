//! What gateways ask about: a domain, and entries of key and value.

mod domains;
mod entry;
mod many;
mod unordered;

use std::borrow::Cow;

use smallvec::SmallVec;

use super::caller::Caller;
use super::explain::{Counted, CountedAs, RuleExplained, Why, may_be_secret};
use super::rule::Rule;
use super::{AppliedLimits, Described, RuleSet};
use crate::units::{EncodedIdentity, Limit, Nanos, Timestamp};

pub(super) use domains::Domains;
pub(super) use entry::{ByDescriptor, Entry, Values};

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

/// What rules say of a descriptor besides limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched<'r> {
    /// The rule's name.
    pub rule: &'r str,
    /// The name by which other rules replace it: in files of Envoy's service, the one that
    /// its `rate_limit` states.
    pub name: Option<&'r str>,
    /// Whether its refusal, for Envoy, refuses the whole request only together with those of
    /// all other quotas.
    pub is_quota: bool,
}

/// Entries by key and value.
pub type Entries<'r> = Vec<(&'r str, Cow<'r, str>)>;

impl RuleSet {
    /// Whether any file has rules for descriptors of `domain`.
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
        let Some((rule, by)) = self.rule_by(descriptor) else {
            return;
        };
        by.note(descriptor.entries);
        let identity = by.identity(descriptor.entries);
        if !rule.is_for(|hasher| Some(hasher.key(&identity))) {
            return;
        }
        let described = as_described(descriptor);
        let limits = if rule.has_tiers() {
            // Nothing of it depends on the time: there is no token.
            let caller = Caller::new(&self.callers, &described, "", Timestamp::EPOCH);
            let default = || self.callers.tiers.default.as_deref();
            rule.limits(caller.tier().or_else(default), None)
        } else {
            rule.limits(None, None)
        };
        let key_of = |limit: &Limit| limit.hasher.key(&identity);
        let weight = (rule.weight.of(&described), rule.weight.measure());
        self.apply(limits, weight, key_of, applied);
    }

    /// What the rule for `descriptor` is; `None` if there is none, or the descriptor states
    /// its limit itself.
    pub fn matched(&self, descriptor: &Descriptor<'_>) -> Option<Matched<'_>> {
        let found = match descriptor.stated {
            None => self.rule_by(descriptor),
            Some(_) => None,
        };
        found.map(|(rule, by)| Matched {
            rule: &rule.name,
            name: by.called.as_deref(),
            is_quota: by.is_quota,
        })
    }

    /// The places, ascending, of those of one request's `descriptors` that are not to be
    /// decided, because the rule for another of them replaces theirs: they go on as if there
    /// were no rule for them. Empty, at once, where no rule replaces any.
    pub fn replaced(&self, descriptors: &[Descriptor<'_>]) -> SmallVec<[usize; 4]> {
        let mut replaced = SmallVec::new();
        if !self.replaces || descriptors.len() < 2 {
            return replaced;
        }
        let found = descriptors.iter().map(|descriptor| {
            let stated = descriptor.stated.is_some();
            self.rule_by(descriptor).filter(|_| !stated)
        });
        let found: SmallVec<[_; 8]> = found.collect();
        let rules = found.iter().flatten();
        let names: SmallVec<[&str; 8]> = rules
            .flat_map(|(_, by)| by.replaces.iter().map(|name| &**name))
            .collect();
        for (place, found) in found.iter().enumerate() {
            if let Some((rule, by)) = found
                && let Some(called) = by.called.as_deref()
                && names.contains(&called)
                && !rule.own_limits().is_empty()
            {
                replaced.push(place);
            }
        }
        replaced
    }

    /// What the first rule can be asked about, if it is for descriptors: its domain, and
    /// entries by key and value.
    pub fn first_descriptor(&self) -> Option<(&str, Entries<'_>)> {
        let by = self.rules.first()?.by_descriptor.as_deref()?;
        let entries = by.entries.iter();
        let pairs = entries.map(|entry| (&*entry.key, entry.values.example()));
        Some((&by.domain, pairs.collect()))
    }

    /// The names of the rules that have seen about 1,000 or more distinct paths with queries,
    /// each of which they count on its own.
    pub fn with_many_paths(&self) -> impl Iterator<Item = &str> {
        let many = |rule: &&Rule| {
            let by = rule.by_descriptor.as_ref();
            let many = by.and_then(|by| by.many.get());
            many.is_some_and(|many| many.is_reached())
        };
        self.rules.iter().filter(many).map(|rule| &*rule.name)
    }

    /// What each rule, in the order of the files, makes of `descriptor`, whatever limit it
    /// states itself.
    ///
    /// It looks at all rules, one by one, which takes its time where there are many.
    pub fn explain_descriptor(&self, descriptor: &Descriptor<'_>) -> Vec<RuleExplained<'_>> {
        let found = self.domains.find(descriptor);
        let rules = self.rules.iter().enumerate();
        let explained = rules.map(|(index, rule)| {
            let Some(by) = &rule.by_descriptor else {
                return RuleExplained::not(rule, Why::Described);
            };
            if !rule.is_enabled {
                return RuleExplained::not(rule, Why::NotEnabled);
            }
            if found != Some(index) {
                return RuleExplained::not(rule, by.why_not(descriptor));
            }
            let identity = by.identity(descriptor.entries);
            if !rule.is_for(|hasher| Some(hasher.key(&identity))) {
                return RuleExplained::not(rule, Why::Percent);
            }
            let described = as_described(descriptor);
            let caller = Caller::new(&self.callers, &described, "", Timestamp::EPOCH);
            let default = || self.callers.tiers.default.as_deref();
            let chosen = rule.chosen(caller.tier().or_else(default), None);
            let limits = chosen.map_or(0..0, |(_, limits)| limits.clone());
            RuleExplained {
                rule: &rule.name,
                why_not: None,
                counted: by.told(descriptor.entries),
                tier: chosen.map(|(name, _)| &**name),
                limits: self.explained_limits(rule, limits, &identity, &described),
            }
        });
        explained.collect()
    }

    #[inline]
    fn rule_by(&self, descriptor: &Descriptor<'_>) -> Option<(&Rule, &ByDescriptor)> {
        let rule = &self.rules[self.domains.find(descriptor)?];
        Some((rule, rule.by_descriptor.as_deref()?))
    }
}

impl ByDescriptor {
    /// Why the rule is not for `descriptor`.
    fn why_not(&self, descriptor: &Descriptor<'_>) -> Why<'static> {
        if *self.domain != *descriptor.domain {
            return Why::Domain;
        }
        let mut pairs = self.entries.iter().zip(descriptor.entries);
        let same = self.entries.len() == descriptor.entries.len()
            && pairs.all(|(entry, (key, value))| *entry.key == **key && entry.holds(value));
        if same { Why::Fewer } else { Why::Descriptor }
    }

    /// Who is counted where `entries`, which match, are asked about.
    fn identity(&self, entries: &[(&str, &str)]) -> EncodedIdentity {
        let mut identity = EncodedIdentity::default();
        for (entry, (key, value)) in self.entries.iter().zip(entries) {
            identity.component(key, Some(entry.counted(value).as_bytes()));
        }
        identity
    }

    /// The same, for people.
    fn told(&self, entries: &[(&str, &str)]) -> Vec<Counted> {
        let told = self
            .entries
            .iter()
            .zip(entries)
            .map(|(entry, (key, value))| {
                let value = if may_be_secret(key) && entry.is_open() {
                    CountedAs::Hidden
                } else {
                    CountedAs::text(entry.counted(value).as_bytes())
                };
                Counted {
                    name: (*key).to_owned(),
                    value,
                }
            });
        told.collect()
    }
}

/// A request whose attributes are the entries, for those parts of a rule that look at them.
const fn as_described<'a>(descriptor: &Descriptor<'a>) -> Described<'a> {
    Described {
        method: "",
        path: "",
        ip: None,
        peer: None,
        headers: &[],
        attributes: descriptor.entries,
    }
}
