//! Rule files, compiled into one immutable [`RuleSet`].
//!
//! Files are YAML, TOML or JSON by one schema. Each is read into a tree of values
//! that know their place, so that every fault of every file can be told at once,
//! with line and column.

mod api_keys;
mod applied;
mod caller;
mod clients;
mod described;
mod descriptor;
mod duration;
mod explain;
mod expression;
mod fault;
mod group;
mod identity;
mod matcher;
mod networks;
mod path;
mod pattern;
mod preflight;
mod reader;
mod rule;
mod schema;
mod source;
mod succession;
mod target;
mod tiers;
mod tokens;
mod top_level;
mod tree;
mod weight;
mod when;

#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::units::{Answers, Key, KeyHasher, Limit, LimitId, Series, Timestamp};
use caller::{Caller, Callers};
use descriptor::Domains;
use group::Standing;
use identity::Uncounted;
use path::Path;
use preflight::Preflight;
use reader::{Report, Spot};
use rule::{Overrides, Percent, Rule, Special, Tiers};
use schema::{RuleSpec, Schema, Tier};
use target::Targets;
use tiers::DEFAULT_TIER;

pub use applied::{Applied, AppliedLimits, NotFound};
pub use caller::CallerKnown;
pub use clients::Noticed;
pub use described::{Described, Pairs};
pub use descriptor::{Descriptor, Entries, Matched, StatedLimit, Unit};
pub use duration::{DurationError, parse_duration};
pub use explain::{Counted, CountedAs, RuleExplained, Why};
pub use expression::ExpressionError;
pub use fault::{At, CallerProblem, DescriptorProblem, Fault, Faults, Problem};
pub use pattern::PatternError;
pub use schema::fields;
pub use source::{Defaults, Format, Source};
pub use tokens::KeyError;

pub(crate) use schema::FILE as FILE_FIELDS;
pub(crate) use top_level::top_level;
pub(crate) use tree::{Node, Value};

/// The compiled, validated rules: immutable, shared by all requests until the
/// next reload.
#[derive(Debug, Default)]
pub struct RuleSet {
    limits: Vec<Arc<Limit>>,
    rules: Vec<Rule>,
    by_name: HashMap<String, usize, foldhash::fast::RandomState>,
    targets: Targets,
    callers: Callers,
    domains: Domains,
    strict_domains: bool,
    /// Whether any rule for descriptors replaces others.
    replaces: bool,
}

/// A rule set, and what is doubtful about its files.
#[derive(Debug, Default)]
pub struct Compiled {
    /// The rules.
    pub rules: RuleSet,
    /// What the operator may not have meant.
    pub warnings: Vec<Fault>,
}

impl RuleSet {
    /// Compiles the files of one set, in their order. No files are an empty set.
    ///
    /// # Errors
    /// [`Faults`]: all that is wrong in all files.
    pub fn compile(sources: &[Source], defaults: &Defaults) -> Result<Compiled, Faults> {
        RuleSet::compile_with(None, sources, defaults, &mut Vec::new())
    }

    /// Compiles the rules of a file of settings, if there is one, and then `sources`
    /// as [`RuleSet::compile`] does. The settings beside the rules are not judged.
    /// Adds to `read` the files that the rules name, of keys and secrets.
    ///
    /// # Errors
    /// [`Faults`]: all that is wrong in all files. `read` holds the files all the same.
    pub fn compile_with(
        settings: Option<&Source>,
        sources: &[Source],
        defaults: &Defaults,
        read: &mut Vec<PathBuf>,
    ) -> Result<Compiled, Faults> {
        let mut report = Report::default();
        let mut schema = Schema::new(defaults, sources.is_empty());
        let mut files = Vec::new();
        for source in settings.into_iter().chain(sources) {
            let beside = settings.is_some_and(|settings| std::ptr::eq(settings, source));
            let file: Arc<str> = source.name.as_str().into();
            match tree::parse(&source.text, source.format) {
                Ok(mut root) => {
                    if beside {
                        schema::drop_settings(&mut root);
                    }
                    // Rules of any file may use it.
                    schema.callers(&file, &root, &mut report);
                    files.push((file, Some(root)));
                }
                Err(faults) => {
                    for (at, problem) in faults {
                        report.fault(&Spot::file(&file).moved(at), problem);
                    }
                    files.push((file, None));
                }
            }
        }
        read.append(&mut schema.files);
        schema.tiers(&mut report);
        let mut specs = Vec::new();
        for (file, root) in &files {
            if let Some(root) = root {
                specs.extend(schema.file(file, root, &mut report));
            }
        }
        schema.check(&specs, &mut report);
        let place = |file: &Arc<str>| files.iter().position(|(known, _)| known == file);
        report.sort(|file| place(file).unwrap_or(usize::MAX));
        if let Some(first) = sources.first()
            && !schema.said_rules
            && report.faults.is_empty()
        {
            let file: Arc<str> = first.name.as_str().into();
            report.fault(&Spot::file(&file), Problem::NothingAtAll);
        }
        if !report.faults.is_empty() {
            return Err(Faults(report.faults));
        }
        let mut rules = RuleSet {
            callers: schema.callers,
            strict_domains: schema.strict_domains,
            ..RuleSet::default()
        };
        let standings = group::standings(&specs, &mut report.warnings);
        for (spec, standing) in specs.into_iter().zip(standings) {
            rules.add(spec, standing, defaults);
        }
        for (domain, entries) in &schema.exempt {
            rules.domains.add(domain, entries, None);
        }
        Ok(Compiled {
            rules,
            warnings: report.warnings,
        })
    }

    fn add(&mut self, spec: RuleSpec, standing: Option<Standing>, defaults: &Defaults) {
        let index = self.rules.len();
        let name = spec.name;
        let answers = &spec.answers;
        let tiers = self.add_tiers((&name, None), spec.tiers, answers, defaults);
        let mut overrides = Overrides::default();
        for one in spec.overrides {
            let within = (&*name, Some(&*one.name));
            let tiers = self.add_tiers(within, one.tiers, answers, defaults);
            overrides.add(one.target, tiers);
        }
        match &spec.by_descriptor {
            None if spec.is_enabled => self.targets.add(index, &spec.target),
            None => {}
            Some(by) => {
                let entries = if spec.is_enabled { &*by.entries } else { &[] };
                let rule = spec.is_enabled.then_some(index);
                self.domains.add(&by.domain, entries, rule);
                self.replaces |= !by.replaces.is_empty();
            }
        }
        let percent = usize::try_from(spec.percent).ok();
        let special = Special {
            remainder: spec.target.remainder(),
            percent: percent.filter(|percent| *percent < 100).map(|percent| {
                let space = format!("percent of {name}");
                let hasher = defaults.secret.hasher(space.as_bytes());
                Percent { percent, hasher }
            }),
            standing,
            overrides: (!overrides.is_empty()).then_some(overrides),
        };
        self.rules.push(Rule {
            name: name.as_str().into(),
            target: Box::new(spec.target),
            identity: spec.identity,
            tiers,
            weight: spec.weight,
            preflight: spec.preflight,
            special: special.or_none(),
            is_enabled: spec.is_enabled,
            by_descriptor: spec.by_descriptor,
        });
        self.by_name.insert(name, index);
    }

    /// Adds the limits of all `tiers` of a rule, or of an override within it.
    fn add_tiers(
        &mut self,
        (rule, within): (&str, Option<&str>),
        tiers: Vec<Tier>,
        answers: &Arc<Answers>,
        defaults: &Defaults,
    ) -> Tiers {
        let mut named: Vec<(Box<str>, Range<usize>)> = Vec::with_capacity(tiers.len());
        for tier in tiers {
            let start = self.limits.len();
            for limit in tier.limits {
                let series = u32::try_from(self.limits.len() + 1).unwrap_or(u32::MAX);
                let id = match within {
                    None => LimitId::new(rule, &tier.name, &limit.quota),
                    Some(within) => LimitId::within(rule, within, &tier.name, &limit.quota),
                };
                let made = Limit::new(id, rule, &limit.name, limit.quota, &defaults.secret);
                self.limits.push(Arc::new(Limit {
                    consistency: limit.consistency,
                    on_store_loss: limit.on_store_loss,
                    pace: limit.pace,
                    strict_timeout: limit.strict_timeout,
                    count_denied: limit.count_denied,
                    answers: Arc::clone(answers),
                    mode: limit.mode,
                    series: Series(series),
                    ..made
                }));
            }
            named.push((tier.name.into(), start..self.limits.len()));
        }
        let called = |name: &&str| named.iter().any(|(tier, _)| **tier == **name);
        let stated = self.callers.tiers.default.as_deref().filter(called);
        Tiers::new(
            named,
            stated.map(str::to_owned).as_deref().unwrap_or(DEFAULT_TIER),
        )
    }

    /// The names of all rules, in the order of the files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| &*rule.name)
    }

    /// Every limit, in the order of the files. Each has a [`Series`] of its own, from 1 on
    /// (0 belongs to the limits that no rule names).
    pub fn limits(&self) -> &[Arc<Limit>] {
        &self.limits
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Adds to `applied` the limits of all rules that match `request` at `now`, in the
    /// order of the rules.
    ///
    /// A rule matches by its endpoint and its `when`, for its part of the callers; of the
    /// rules of one group only the first that does so applies.
    ///
    /// The limits are those of the caller's tier, as the set says where tiers come from
    /// (the attribute `tier`, unless stated); a missing, contradictory or unknown one stands
    /// for the default tier, or failing that for the first tier of the rule. The client's
    /// address is `ip`, or failing that `peer`, or what believed proxies say there. A CORS
    /// preflight is not matched by rules that skip them, as rules do by default.
    ///
    /// # Errors
    /// [`NotFound::Caller`] if a rule insists on knowing the caller, and does not; what is
    /// in `applied` then means nothing.
    pub fn matching<'r>(
        &'r self,
        request: &Described<'_>,
        now: Timestamp,
        applied: &mut AppliedLimits<'r>,
    ) -> Result<(), NotFound> {
        let path = Path::new(request.path);
        let caller = Caller::new(&self.callers, request, path.normal(), now);
        let tier = OnceCell::new();
        let mut found = self.targets.find(request, &path);
        if preflight::is_one(request) {
            found.retain(|index| self.rules[*index].preflight == Preflight::Count);
        }
        if found
            .iter()
            .any(|index| self.rules[*index].special.is_some())
        {
            found.retain(|index| {
                let rule = &self.rules[*index];
                let key_of =
                    |hasher: &KeyHasher| Some(hasher.key(&rule.identity.of(&caller).ok()?));
                // Of a group it takes no place if it is not for this caller.
                let skips = || rule.standing().is_some() && rule.identity.skips(&caller);
                rule.holds(request, &path) && rule.is_for(key_of) && !skips()
            });
            group::keep_first(&self.rules, &mut found);
        }
        for index in found {
            let rule = &self.rules[index];
            let identity = rule.identity.of(&caller);
            if matches!(identity, Err(Uncounted::Skipped)) {
                continue;
            }
            // With one tier there is nothing to choose.
            let tier = if rule.has_tiers() {
                // An override may name the default tier where its rule has none.
                let default = || self.callers.tiers.default.as_deref();
                *tier.get_or_init(|| caller.tier().or_else(default))
            } else {
                None
            };
            let limits = rule.limits(tier, Some((request, &path)));
            let Ok(identity) = identity else {
                self.insist(rule, limits)?;
                continue;
            };
            let key_of = |limit: &Limit| limit.hasher.key(&identity);
            let weight = (rule.weight.of(request), rule.weight.measure());
            self.apply(limits, weight, key_of, applied);
        }
        Ok(())
    }

    /// Adds to `applied` the limits of the rule called `rule` for the caller `key`
    /// in `tier`.
    ///
    /// The key stands for the caller whatever the rule counts by (but `global`, which
    /// counts all together); where that is one source, the key and that source's value are
    /// the same caller. Where it is the API key, the table says the tier, unless `tier` does.
    /// Who asks so has chosen the rule: its endpoint, `when`, group and overrides are not
    /// looked at.
    ///
    /// # Errors
    /// [`NotFound`] if there is no such rule, or if it insists on knowing the caller and the
    /// key is blank or no known API key; `applied` is as before.
    pub fn named<'r>(
        &'r self,
        rule: &str,
        key: &[u8],
        tier: Option<&str>,
        applied: &mut AppliedLimits<'r>,
    ) -> Result<(), NotFound> {
        let index = self.by_name.get(rule).ok_or(NotFound::Rule)?;
        let rule = &self.rules[*index];
        if !rule.is_enabled {
            return Ok(());
        }
        let stated = rule.identity.stated(key, &self.callers);
        let tier = match tier.map(str::trim).filter(|tier| !tier.is_empty()) {
            None if rule.has_tiers() && rule.identity.is_api_key() => self.tier_of_key(key),
            tier => tier,
        };
        let limits = rule.limits(tier, None);
        let stated = match stated {
            Ok(stated) => stated,
            Err(Uncounted::Skipped) => return Ok(()),
            Err(Uncounted::Denied) => return self.insist(rule, limits),
        };
        if !rule.is_for(|hasher| Some(stated.key(hasher))) {
            return Ok(());
        }
        let key_of = |limit: &Limit| stated.key(&limit.hasher);
        self.apply(limits, (rule.weight.of_named(), None), key_of, applied);
        Ok(())
    }

    /// `rule`, with these `limits` for the request, insists on knowing the caller, unless
    /// they never refuse. Where nothing is limited, the rule's own limits say whether it does.
    fn insist(&self, rule: &Rule, limits: Range<usize>) -> Result<(), NotFound> {
        let limits = if limits.is_empty() {
            rule.own_limits()
        } else {
            limits
        };
        let limits = &self.limits[limits];
        if !limits.is_empty() && limits.iter().all(|limit| !limit.mode.enforces()) {
            return Ok(());
        }
        Err(NotFound::Caller)
    }

    /// The tier that the table of API keys gives `key`.
    fn tier_of_key(&self, key: &[u8]) -> Option<&str> {
        let key = std::str::from_utf8(key.trim_ascii()).ok()?;
        self.callers.keys.holder(key)?.tier.as_deref()
    }

    #[inline]
    fn apply<'r>(
        &'r self,
        limits: Range<usize>,
        (weight, measure): (u64, Option<&'r Arc<str>>),
        key_of: impl Fn(&Limit) -> Key,
        applied: &mut AppliedLimits<'r>,
    ) {
        for limit in &self.limits[limits] {
            applied.push(Applied {
                limit,
                key: key_of(limit),
                weight,
                measure,
            });
        }
    }

    /// Who `request` comes from at `now`, as far as it is known, for people.
    pub fn caller(&self, request: &Described<'_>, now: Timestamp) -> CallerKnown {
        let path = path::normalise(request.path);
        CallerKnown::of(&Caller::new(&self.callers, request, &path, now))
    }

    /// What was noticed about clients' addresses since this was last asked.
    pub fn noticed(&self) -> Noticed {
        self.callers.clients.noticed()
    }
}
