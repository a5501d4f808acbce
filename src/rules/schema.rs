//! The schema of rule files: a tree of values → rules, checked as far as one rule
//! and the names of all can be.

mod answers;
mod api_keys;
mod callers;
mod descriptors;
mod envoy;
mod fields;
mod grant;
mod identity;
mod idle;
mod jwt;
mod limit;
mod naming;
mod overrides;
mod policies;
mod settings;
mod target;
mod tiers;
mod when;
mod window;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::caller::Callers;
use super::descriptor::{ByDescriptor, Entry};
use super::fault::{At, Fault, Problem, quote};
use super::identity::Identity;
use super::preflight::Preflight;
use super::reader::{Fields, Report, Spot, flag, number, wrong_kind};
use super::source::Defaults;
use super::target::{Spelling, Target};
use super::tree::{Node, Value};
use super::weight::Weight;
use crate::units::Answers;
use answers::AnswersSpec;
use descriptors::{KnownEntries, by_called};
use grant::grant;
use identity::IdentitySpec;
use limit::Scope;
use naming::{is_name, label, name, stated_endpoint};
use overrides::overrides;
use policies::Policies;
use settings::Settings;
use target::target;

pub use fields::fields;
pub(super) use limit::Tier;
pub(super) use overrides::OverrideSpec;

/// The names at the top of a file.
pub(crate) const FILE: [&str; 9] = [
    "rules",
    "defaults",
    "answers",
    "policies",
    "clients",
    "api_keys",
    "jwt",
    "tiers",
    "strict_domains",
];
const DEFAULTS: [&str; 9] = [
    "algorithm",
    "consistency",
    "on_store_loss",
    "key",
    "preflight",
    "mode",
    "on_missing",
    "normalize",
    "time_zone",
];
const RULE: [&str; 32] = [
    "name",
    "endpoint",
    "method",
    "key",
    "limits",
    "algorithm",
    "consistency",
    "on_store_loss",
    "sync_interval",
    "sync_min_interval",
    "sync_max_interval",
    "strict_timeout",
    "preflight",
    "answers",
    "when",
    "group",
    "priority",
    "enabled",
    "percent",
    "mode",
    "unlimited",
    "ban",
    "overrides",
    "case",
    "trailing_slash",
    "on_missing",
    "normalize",
    "cost",
    "time_zone",
    "domain",
    "descriptors",
    "replaces",
];

/// A rule as its file states it, with every default filled in.
#[derive(Debug)]
pub(super) struct RuleSpec {
    pub(super) name: String,
    pub(super) target: Target,
    pub(super) identity: Identity,
    pub(super) weight: Weight,
    /// In the order of the file; none if nothing is limited.
    pub(super) tiers: Vec<Tier>,
    pub(super) preflight: Preflight,
    pub(super) answers: Arc<Answers>,
    pub(super) overrides: Vec<OverrideSpec>,
    pub(super) group: Option<String>,
    pub(super) priority: u64,
    pub(super) is_enabled: bool,
    /// At most 100.
    pub(super) percent: u64,
    /// `None` for a rule that is for described requests.
    pub(super) by_descriptor: Option<Box<ByDescriptor>>,
    file: Arc<str>,
    at: At,
}

impl RuleSpec {
    /// A warning about the rule's `field`.
    pub(super) fn warning(&self, field: &str, problem: Problem) -> Fault {
        Fault {
            file: Arc::clone(&self.file),
            at: self.at,
            rule: Some(quote(&self.name)),
            field: field.to_owned(),
            problem,
        }
    }
}

/// Takes all but the rules out of the file `root`.
pub(super) fn drop_settings(root: &mut Node) {
    if let Value::Map(entries) = &mut root.value {
        let ours = |text: &str| FILE.contains(&text);
        entries.retain(|(name, _)| name.text.as_deref().is_ok_and(ours));
    }
}

/// Reads the files of one set, one after the other.
pub(super) struct Schema<'d> {
    pub(super) defaults: &'d Defaults,
    /// Where each name was first given.
    pub(super) names: HashMap<String, (Arc<str>, usize)>,
    /// Whether any file has said `rules`.
    pub(super) said_rules: bool,
    pub(super) callers: Callers,
    policies: Policies,
    /// Where what is said once for all files was said.
    stated: HashMap<&'static str, (Arc<str>, At)>,
    /// What a file says of tiers, to be read when all else about callers is known.
    tiers: Option<(Arc<str>, Node)>,
    /// All tiers that callers are given.
    named: Vec<tiers::Named>,
    /// The files that were read beside the rules.
    pub(super) files: Vec<PathBuf>,
    /// Domains, and entries in them, for which no rule is.
    pub(super) exempt: Vec<(Box<str>, Vec<Entry>)>,
    known: KnownEntries,
    pub(super) strict_domains: bool,
}

impl<'d> Schema<'d> {
    pub(super) fn new(defaults: &'d Defaults, said_rules: bool) -> Schema<'d> {
        Schema {
            defaults,
            names: HashMap::new(),
            said_rules,
            callers: Callers::default(),
            policies: Policies::new(),
            stated: HashMap::new(),
            tiers: None,
            named: Vec::new(),
            files: Vec::new(),
            exempt: Vec::new(),
            known: KnownEntries::default(),
            strict_domains: false,
        }
    }

    /// The sound rules of the file `root`; what is wrong with the others, and with
    /// the file, is in `report`.
    pub(super) fn file(
        &mut self,
        file: &Arc<str>,
        root: &Node,
        report: &mut Report,
    ) -> Vec<RuleSpec> {
        let top = Spot::file(file);
        if root.is_null() {
            report.warn(&top, Problem::EmptyFile);
            return Vec::new();
        }
        if envoy::is_one(root) {
            return self.envoy(file, root, report);
        }
        let want = "a rule file; write `rules:` and a list of rules";
        let Some(fields) = Fields::read(root, &top, &FILE, want, report) else {
            return Vec::new();
        };
        let (mut settings, identity) = fields
            .with("defaults", &top, report, defaults)
            .unwrap_or_default();
        settings.answers = fields
            .with("answers", &top, report, AnswersSpec::read)
            .unwrap_or_default();
        let strict = fields.with("strict_domains", &top, report, flag);
        self.strict_domains |= strict.unwrap_or(false);
        let Some(rules) = fields.get("rules") else {
            if !FILE[2..].iter().any(|field| fields.get(field).is_some()) {
                report.warn(&top, Problem::EmptyFile);
            }
            return Vec::new();
        };
        self.said_rules = true;
        let spot = top.field("rules", rules.at);
        let rules = match &rules.value {
            Value::List(rules) => rules.as_slice(),
            Value::Null => {
                report.warn(&spot, Problem::EmptyFile);
                &[]
            }
            _ => {
                let want = "a list of rules; write `- endpoint: /path` and its limits for each";
                return wrong_kind(rules, &spot, want, report).unwrap_or_default();
            }
        };
        let mut specs = Vec::with_capacity(rules.len());
        for (index, node) in rules.iter().enumerate() {
            let label = label(node, index);
            let spot = Spot::rule(file, &label, node.at);
            specs.extend(self.rule(file, node, &spot, &settings, &identity, report));
        }
        specs
    }

    fn rule(
        &mut self,
        file: &Arc<str>,
        node: &Node,
        spot: &Spot<'_>,
        settings: &Settings,
        identity: &IdentitySpec,
        report: &mut Report,
    ) -> Option<RuleSpec> {
        let want = "a rule; write {endpoint: /path, limits: {default: {requests: 10, window: 1m}}}";
        let fields = Fields::read(node, spot, &RULE, want, report)?;
        let target = target(&fields, Spelling::default(), spot, report);
        let by_descriptor = self.by_descriptor(file, &fields, spot, report);
        let is_by_descriptor = fields.get("domain").is_some();
        let implied = match &by_descriptor {
            Some(by) => Some(self.name_by_entries(by)),
            None if is_by_descriptor => None,
            None => target.as_ref().map(stated_endpoint),
        };
        let name = self.name(file, &fields, implied, spot, report);
        let who = IdentitySpec::read(&fields, spot, report);
        let at = fields.get("key").map_or(spot.at, |node| node.at);
        let tokens = &mut self.callers.tokens;
        let identity = match &target {
            // Its entries are who is counted.
            _ if is_by_descriptor => Some(Identity::of_nobody()),
            Some(target) => who.identity(identity, target, tokens, spot, at, report),
            None => None,
        };
        let own = Settings::read(&fields, spot, report);
        let pace = own.pace(&fields, None, self.defaults.pace, spot, report);
        let scope = Scope {
            settings: own.over(settings),
            pace: pace.unwrap_or(self.defaults.pace),
            defaults: self.defaults.pace,
            policies: &self.policies,
            default_tier: self.callers.tiers.default.as_deref(),
            within: None,
        };
        let spelling = target
            .as_ref()
            .map_or(Spelling::default(), |it| it.spelling);
        let overrides = match fields.get("overrides") {
            None => Some(Vec::new()),
            Some(node) => overrides(
                node,
                &scope,
                spelling,
                &spot.field("overrides", node.at),
                report,
            ),
        };
        let is_enabled = fields.with("enabled", spot, report, flag);
        let percent = fields.with("percent", spot, report, percent);
        let group = fields.with("group", spot, report, self::name);
        let priority = fields.with("priority", spot, report, number);
        if let (Some(node), None) = (fields.get("priority"), fields.get("group")) {
            report.fault(&spot.field("priority", node.at), Problem::NoGroup);
        }
        let tiers = grant(&fields, &scope, spot, report)?;
        let limits = tiers.iter().flat_map(|tier| &tier.limits);
        let consistency = limits.map(|limit| limit.consistency);
        idle::warn(&fields, &own, consistency, spot, report);
        let grants_all = tiers.iter().all(|tier| tier.limits.is_empty());
        let exempts = ["group", "overrides", "domain"];
        if grants_all && exempts.iter().all(|field| fields.get(field).is_none()) {
            let at = fields.get("unlimited").map_or(spot.at, |node| node.at);
            report.warn(&spot.field("unlimited", at), Problem::ExemptsNobody);
        }
        let weight = who.weight(&tiers, &fields, spot, report);
        let name = name?;
        let by_descriptor = by_descriptor.map(|by| by_called(by, &name, &fields, spot, report));
        if is_by_descriptor && by_descriptor.is_none() {
            return None;
        }
        Some(RuleSpec {
            name,
            target: target?,
            identity: identity?,
            weight,
            tiers,
            preflight: scope.settings.preflight.unwrap_or_default(),
            answers: Arc::new(scope.settings.answers.answers()),
            overrides: overrides?,
            group,
            priority: priority.unwrap_or(0),
            is_enabled: is_enabled.unwrap_or(true),
            percent: percent.unwrap_or(100),
            by_descriptor,
            file: Arc::clone(file),
            at: node.at,
        })
    }

    /// The rule's name, stated or `implied` by what it is for, if no rule has it yet.
    fn name(
        &mut self,
        file: &Arc<str>,
        fields: &Fields<'_>,
        implied: Option<String>,
        spot: &Spot<'_>,
        report: &mut Report,
    ) -> Option<String> {
        let stated = fields.get("name");
        let at = stated.map_or(spot.at, |node| node.at);
        let here = spot.field("name", at);
        let name = match (stated, implied) {
            (Some(node), _) => name(node, &here, report)?,
            (None, None) => return None,
            (None, Some(name)) => {
                if !is_name(&name) {
                    report.fault(&here, Problem::NeedsName);
                    return None;
                }
                name
            }
        };
        if let Some((file, line)) = self.names.get(&name) {
            let (file, line) = (file.clone(), *line);
            report.fault(&here, Problem::DuplicateRule { file, line });
            return None;
        }
        self.names.insert(name.clone(), (file.clone(), at.line));
        Some(name)
    }
}

/// A part of the callers.
fn percent(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<u64> {
    let percent = number(node, spot, report)?;
    if percent > 100 {
        report.fault(spot, Problem::Percent(percent));
        return None;
    }
    if percent == 0 {
        report.warn(spot, Problem::NobodyAtAll);
    }
    Some(percent)
}

fn defaults(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<(Settings, IdentitySpec)> {
    if node.is_null() {
        return None;
    }
    let want = "a map of defaults; write {algorithm: token_bucket} or leave it out";
    let fields = Fields::read(node, spot, &DEFAULTS, want, report)?;
    let identity = IdentitySpec::read(&fields, spot, report);
    Some((Settings::read(&fields, spot, report), identity))
}

/// Calls `read` for the items of a list, or for the one item that is there without
/// a list; null is an empty list.
fn each<'n>(node: &'n Node, spot: &Spot<'_>, mut read: impl FnMut(&'n Node, &Spot<'_>)) {
    match &node.value {
        Value::Null => {}
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                read(item, &spot.item(index, item.at));
            }
        }
        _ => read(node, spot),
    }
}
