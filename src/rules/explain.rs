//! Why rules apply to a request, or do not, for people.

use std::ops::Range;

use super::caller::Caller;
use super::group;
use super::identity::Uncounted;
use super::matcher::Matches;
use super::path::Path;
use super::preflight::{self, Preflight};
use super::rule::Rule;
use super::target::Miss;
use super::{Applied, AppliedLimits, Described, RuleSet};
use crate::units::{EncodedIdentity, KeyHasher, Timestamp};

/// What one rule makes of a request.
#[derive(Clone, Debug)]
pub struct RuleExplained<'r> {
    /// The rule's name.
    pub rule: &'r str,
    /// Why it does not apply; `None` if it does.
    pub why_not: Option<Why<'r>>,
    /// Who is counted: the components in the order of the rule. Empty where it does not apply.
    pub counted: Vec<Counted>,
    /// The tier whose limits are chosen.
    pub tier: Option<&'r str>,
    /// The limits that apply; none also where the rule limits nothing.
    pub limits: AppliedLimits<'r>,
}

/// The first reason for which a rule does not apply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why<'r> {
    /// It is not enabled.
    NotEnabled,
    /// Its endpoint is another path.
    Path,
    /// It is for other methods, or `HEAD` counts here for a rule that names it.
    Method,
    /// Its `when` does not hold.
    When,
    /// The request is a CORS preflight, which the rule skips.
    Preflight,
    /// The caller is not in the rule's part of the callers.
    Percent,
    /// This rule comes before it in its group.
    Group(&'r str),
    /// Something is missing that identifies the caller, whom the rule then skips.
    CallerSkipped,
    /// Something is missing that identifies the caller, whom the rule then refuses.
    CallerDenied,
    /// The rule would refuse the caller for that, but none of its limits may refuse.
    CallerTolerated,
    /// It is for descriptors, and for others.
    Descriptor,
    /// It is for descriptors of another domain.
    Domain,
    /// It is for such descriptors, but another rule, or an exemption, is for fewer of them.
    Fewer,
    /// It is for described requests, and no descriptor.
    Described,
}

impl Why<'_> {
    /// The word for it in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Why::NotEnabled => "not_enabled",
            Why::Path => "endpoint",
            Why::Method => "method",
            Why::When => "when",
            Why::Preflight => "preflight",
            Why::Percent => "percent",
            Why::Group(_) => "group",
            Why::CallerSkipped => "caller_skipped",
            Why::CallerDenied => "caller_denied",
            Why::CallerTolerated => "caller_tolerated",
            Why::Descriptor => "descriptor",
            Why::Domain => "domain",
            Why::Fewer => "fewer",
            Why::Described => "described",
        }
    }
}

/// One component of an identity, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// What rule files call it: `header:x-user`; `client` where the address stands in.
    pub name: String,
    /// What is counted under that name.
    pub value: CountedAs,
}

/// The value of a component, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountedAs {
    /// This text; of an API key the name of its holder.
    Value(String),
    /// Something that may be a secret.
    Hidden,
    /// What all share of whom it is missing.
    Nobody,
    /// All together.
    Everybody,
}

impl CountedAs {
    pub(super) fn text(bytes: &[u8]) -> CountedAs {
        CountedAs::Value(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Whether values of fields that are called `name` had better not be shown.
pub(super) fn may_be_secret(name: &str) -> bool {
    const WORDS: [&str; 8] = [
        "auth",
        "cookie",
        "credential",
        "key",
        "pass",
        "secret",
        "session",
        "token",
    ];
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

impl RuleSet {
    /// What each rule, in the order of the files, makes of `request` at `now`. The limits
    /// are those that [`RuleSet::matching`] finds; a rule that denies the caller makes that
    /// an error.
    ///
    /// It looks at all rules, one by one, which takes its time where there are many.
    pub fn explain(&self, request: &Described<'_>, now: Timestamp) -> Vec<RuleExplained<'_>> {
        let path = Path::new(request.path);
        let caller = Caller::new(&self.callers, request, path.normal(), now);
        let found = self.targets.find(request, &path);
        let mut missed: Vec<Option<Why<'_>>> = Vec::with_capacity(self.rules.len());
        for (index, rule) in self.rules.iter().enumerate() {
            let is_found = found.contains(&index);
            // Of a group it takes no place if it is not for this caller.
            let skips = || rule.standing().is_some() && rule.identity.skips(&caller);
            let skipped = || skips().then_some(Why::CallerSkipped);
            let misses = rule.misses(request, &path, is_found, &caller);
            missed.push(misses.or_else(skipped));
        }
        let left = missed.iter().enumerate().filter(|(_, why)| why.is_none());
        let left: Matches = left.map(|(index, _)| index).collect();
        let rules = self.rules.iter().zip(missed).enumerate();
        let explained = rules.map(|(index, (rule, missed))| {
            let ahead = || group::ahead(&self.rules, index, &left);
            let group = || ahead().map(|first| Why::Group(&self.rules[first].name));
            match missed.or_else(group) {
                Some(why) => RuleExplained::not(rule, why),
                None => self.explain_one(rule, request, &path, &caller),
            }
        });
        explained.collect()
    }

    /// What `rule` makes of a request that it is for.
    fn explain_one<'r>(
        &'r self,
        rule: &'r Rule,
        request: &Described<'_>,
        path: &Path<'_>,
        caller: &Caller<'_>,
    ) -> RuleExplained<'r> {
        let default = || self.callers.tiers.default.as_deref();
        let tier = caller.tier().or_else(default);
        let chosen = rule.chosen(tier, Some((request, path)));
        let limits = chosen.map_or(0..0, |(_, limits)| limits.clone());
        let told = rule.identity.told(caller);
        let identity = rule.identity.of(caller);
        let (counted, identity) = match told.and_then(|told| Ok((told, identity?))) {
            Ok(known) => known,
            Err(Uncounted::Skipped) => return RuleExplained::not(rule, Why::CallerSkipped),
            Err(Uncounted::Denied) => {
                let why = match self.insist(rule, limits) {
                    Err(_) => Why::CallerDenied,
                    Ok(()) => Why::CallerTolerated,
                };
                return RuleExplained::not(rule, why);
            }
        };
        RuleExplained {
            rule: &rule.name,
            why_not: None,
            counted,
            tier: chosen.map(|(name, _)| &**name),
            limits: self.explained_limits(rule, limits, &identity, request),
        }
    }

    /// The `limits` of `rule`, as `request` by `identity` counts against them.
    pub(super) fn explained_limits<'r>(
        &'r self,
        rule: &'r Rule,
        limits: Range<usize>,
        identity: &EncodedIdentity,
        request: &Described<'_>,
    ) -> AppliedLimits<'r> {
        let weight = rule.weight.of(request);
        let applied = self.limits[limits].iter().map(|limit| Applied {
            limit,
            key: limit.hasher.key(identity),
            weight,
            measure: rule.weight.measure(),
        });
        applied.collect()
    }
}

impl<'r> RuleExplained<'r> {
    pub(super) fn not(rule: &'r Rule, why: Why<'r>) -> RuleExplained<'r> {
        RuleExplained {
            rule: &rule.name,
            why_not: Some(why),
            counted: Vec::new(),
            tier: None,
            limits: AppliedLimits::new(),
        }
    }
}

impl Rule {
    /// Why the rule is not for `request`, whatever other rules are; `is_found` tells whether
    /// its pattern and method were found for it.
    fn misses<'r>(
        &self,
        request: &Described<'_>,
        path: &Path<'_>,
        is_found: bool,
        caller: &Caller<'_>,
    ) -> Option<Why<'r>> {
        if !self.is_enabled {
            return Some(Why::NotEnabled);
        }
        if self.by_descriptor.is_some() {
            return Some(Why::Descriptor);
        }
        if !is_found || !self.holds(request, path) {
            return Some(match self.target.miss(request, path) {
                Some(Miss::Path) => Why::Path,
                Some(Miss::When) => Why::When,
                // Alone it would match: another rule there names HEAD.
                Some(Miss::Method) | None => Why::Method,
            });
        }
        if self.preflight == Preflight::Skip && preflight::is_one(request) {
            return Some(Why::Preflight);
        }
        let key_of = |hasher: &KeyHasher| Some(hasher.key(&self.identity.of(caller).ok()?));
        (!self.is_for(key_of)).then_some(Why::Percent)
    }
}
