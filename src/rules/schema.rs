//! The schema of rule files: a tree of values → rules, checked as far as one rule
//! and the names of all can be.

mod api_keys;
mod callers;
mod identity;
mod jwt;
mod limit;
mod policies;
mod settings;
mod tiers;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::caller::Callers;
use super::fault::{At, Problem, quote};
use super::identity::Identity;
use super::pattern::{Pattern, split_method};
use super::reader::{Fields, Report, Spot, text, wrong_kind};
use super::source::Defaults;
use super::tree::{Node, Value};
use super::weight::Weight;
use identity::IdentitySpec;
use limit::Scope;
use policies::Policies;
use settings::Settings;

pub(super) use limit::Tier;

/// The names at the top of a file.
pub(crate) const FILE: [&str; 7] = [
    "rules", "defaults", "policies", "clients", "api_keys", "jwt", "tiers",
];
const DEFAULTS: [&str; 6] = [
    "algorithm",
    "consistency",
    "on_store_loss",
    "key",
    "on_missing",
    "normalize",
];
const RULE: [&str; 15] = [
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
    "on_missing",
    "normalize",
    "cost",
];
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE",
];
const WANT_METHOD: &str = "a method; write GET, POST or a list of methods";

/// A rule as its file states it, with every default filled in.
#[derive(Debug)]
pub(super) struct RuleSpec {
    pub(super) name: String,
    pub(super) pattern: Pattern,
    /// In upper case, each once; none for all methods.
    pub(super) methods: Vec<Box<str>>,
    pub(super) identity: Identity,
    pub(super) weight: Weight,
    /// In the order of the file, at least one.
    pub(super) tiers: Vec<Tier>,
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
    files: Vec<PathBuf>,
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
        let want = "a rule file; write `rules:` and a list of rules";
        let Some(fields) = Fields::read(root, &top, &FILE, want, report) else {
            return Vec::new();
        };
        let (settings, identity) = fields
            .with("defaults", &top, report, defaults)
            .unwrap_or_default();
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
        let endpoint = match fields.get("endpoint") {
            None => Some((None, Pattern::every())),
            Some(node) => endpoint(node, &spot.field("endpoint", node.at), report),
        };
        let stated = match fields.get("method") {
            None => Some(Vec::new()),
            Some(node) => methods(node, &spot.field("method", node.at), report),
        };
        let matcher = endpoint
            .zip(stated)
            .map(|((of_endpoint, pattern), stated)| {
                if of_endpoint.is_some()
                    && let Some(node) = fields.get("method")
                {
                    let problem = Problem::SaidTwice("method", "endpoint");
                    report.fault(&spot.field("method", node.at), problem);
                }
                (of_endpoint.unwrap_or(stated), pattern)
            });
        let name = self.name(file, &fields, matcher.as_ref(), spot, report);
        let who = IdentitySpec::read(&fields, spot, report);
        let at = fields.get("key").map_or(spot.at, |node| node.at);
        let tokens = &mut self.callers.tokens;
        let identity = matcher
            .as_ref()
            .and_then(|(_, pattern)| who.identity(identity, pattern, tokens, spot, at, report));
        let own = Settings::read(&fields, spot, report);
        let pace = own.pace(&fields, None, self.defaults.pace, spot, report);
        let scope = Scope {
            settings: own.over(settings),
            pace: pace.unwrap_or(self.defaults.pace),
            defaults: self.defaults.pace,
            policies: &self.policies,
            default_tier: self.callers.tiers.default.as_deref(),
        };
        let Some(limits) = fields.get("limits") else {
            let example = "limits: {default: {requests: 10, window: 1m}}";
            report.fault(spot, Problem::Missing("limits", example));
            return None;
        };
        let tiers = scope.tiers(limits, &spot.field("limits", limits.at), report)?;
        let weight = who.weight(&tiers, &fields, spot, report);
        let (methods, pattern) = matcher?;
        Some(RuleSpec {
            name: name?,
            pattern,
            methods,
            identity: identity?,
            weight,
            tiers,
        })
    }

    /// The rule's name, stated or made of method and endpoint, if no rule has it yet.
    fn name(
        &mut self,
        file: &Arc<str>,
        fields: &Fields<'_>,
        matcher: Option<&(Vec<Box<str>>, Pattern)>,
        spot: &Spot<'_>,
        report: &mut Report,
    ) -> Option<String> {
        let stated = fields.get("name");
        let at = stated.map_or(spot.at, |node| node.at);
        let here = spot.field("name", at);
        let name = match (stated, matcher) {
            (Some(node), _) => name(node, &here, report)?,
            (None, None) => return None,
            (None, Some((methods, pattern))) => {
                let name = match methods.as_slice() {
                    [] => pattern.text.clone(),
                    _ => format!("{} {}", methods.join(","), pattern.text),
                };
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

/// What faults call the rule before it has been read.
fn label(node: &Node, index: usize) -> String {
    let text = |field: &str| match &node.value {
        Value::Map(entries) => entries.iter().find_map(|(name, node)| match &node.value {
            Value::Text(text) if name.text.as_deref() == Ok(field) => Some(text),
            _ => None,
        }),
        _ => None,
    };
    match (text("name"), text("method"), text("endpoint")) {
        (Some(name), ..) => quote(name),
        (_, Some(method), Some(endpoint)) => quote(&format!("{method} {endpoint}")),
        (_, None, Some(endpoint)) => quote(endpoint),
        _ => (index + 1).to_string(),
    }
}

fn is_name(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| (b' '..=b'~').contains(&b))
        && text.trim() == text
}

/// A name that people and metrics will see.
fn name(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<String> {
    let name = text(node, spot, "a name; write text", report)?;
    if !is_name(name) {
        report.fault(spot, Problem::BadName(quote(name)));
        return None;
    }
    Some(name.to_owned())
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

/// The pattern, and the methods that stand before it.
fn endpoint(
    node: &Node,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<(Option<Vec<Box<str>>>, Pattern)> {
    let whole = text(node, spot, "an endpoint; write /api/v1/orders", report)?;
    let (method, path) = split_method(whole);
    let methods = match method {
        None => None,
        Some("*") => Some(Vec::new()),
        Some(method) => Some(vec![one_method(method, spot, report)?]),
    };
    match Pattern::parse(path) {
        Ok(pattern) => Some((methods, pattern)),
        Err(error) => {
            let found = quote(whole);
            report.fault(spot, Problem::Endpoint { found, error });
            None
        }
    }
}

/// One method or several; none, and `*`, for all.
fn methods(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Vec<Box<str>>> {
    let mut methods: Vec<Box<str>> = Vec::new();
    let (mut every, mut sound) = (false, true);
    each(node, spot, |node, spot| {
        let Some(found) = text(node, spot, WANT_METHOD, report) else {
            sound = false;
            return;
        };
        if found == "*" {
            every = true;
            return;
        }
        match one_method(found, spot, report) {
            Some(method) if !methods.contains(&method) => methods.push(method),
            Some(_) => {}
            None => sound = false,
        }
    });
    if every {
        methods.clear();
    }
    sound.then_some(methods)
}

/// A method in upper case.
fn one_method(text: &str, spot: &Spot<'_>, report: &mut Report) -> Option<Box<str>> {
    let proper = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !(1..=32).contains(&text.len()) || !text.bytes().all(proper) {
        report.fault(spot, Problem::Method(quote(text)));
        return None;
    }
    let method = text.to_ascii_uppercase();
    if !METHODS.contains(&method.as_str()) {
        // One letter too many, too few or wrong, or two exchanged.
        let meant = METHODS
            .iter()
            .find(|m| strsim::osa_distance(&method, m) <= 1);
        let hint = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "check its spelling".to_owned(),
        };
        let found = quote(text);
        report.warn(spot, Problem::UnusualMethod { found, hint });
    }
    Some(method.into())
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
