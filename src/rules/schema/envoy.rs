//! The files of Envoy's ratelimit service, read as they are.

use std::sync::Arc;

use super::super::descriptor::{ByDescriptor, Entry, Unit};
use super::super::fault::{DescriptorProblem, Problem};
use super::super::identity::Identity;
use super::super::preflight::Preflight;
use super::super::reader::{Fields, Report, Spot, near, number, wrong_kind};
use super::super::target::Target;
use super::super::tiers::DEFAULT_TIER;
use super::super::tree::{Node, Value};
use super::super::weight::Weight;
use super::descriptors::{anything, entry, not_itself, optional_flag, something};
use super::limit::{LimitSpec, Tier};
use super::{FILE, RuleSpec, Schema};
use crate::rules::fault::quote;
use crate::units::{Algorithm, Answers, Mode, Quota};

/// At the top of a file. Envoy Gateway writes a `name` there.
pub(super) const TOP: [&str; 3] = ["domain", "descriptors", "name"];
pub(super) const DESCRIPTOR: [&str; 11] = [
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
    "normalize",
];
pub(super) const RATE_LIMIT: [&str; 5] =
    ["unit", "requests_per_unit", "unlimited", "name", "replaces"];
pub(super) const REPLACED: [&str; 1] = ["name"];

/// Whether the file `root` is one of Envoy's service: it has its domain at the top, and no
/// field of ours.
pub(super) fn is_one(root: &Node) -> bool {
    let Value::Map(map) = &root.value else {
        return false;
    };
    let has = |names: &[&str]| {
        let mut fields = map.iter().filter_map(|(name, _)| name.text.as_deref().ok());
        fields.any(|field| names.contains(&field))
    };
    has(&TOP[..2]) && !has(&FILE)
}

/// A limit as its file states it.
struct RateLimit {
    /// `None` if nothing is limited.
    quota: Option<Quota>,
    name: Option<Box<str>>,
    replaces: Vec<Box<str>>,
}

/// Where the reading of a file is.
struct Place<'p> {
    file: &'p Arc<str>,
    domain: &'p str,
    specs: Vec<RuleSpec>,
    /// The entries down to here.
    entries: Vec<Entry>,
}

impl Schema<'_> {
    /// The sound rules of the file `root`; what is wrong with it is in `report`.
    pub(super) fn envoy(
        &mut self,
        file: &Arc<str>,
        root: &Node,
        report: &mut Report,
    ) -> Vec<RuleSpec> {
        self.said_rules = true;
        let top = Spot::file(file);
        let want = "a file of descriptors; write `domain:` and `descriptors:`";
        let Some(fields) = Fields::read(root, &top, &TOP, want, report) else {
            return Vec::new();
        };
        if fields.get("domain").is_none() {
            report.fault(&top, Problem::Missing("domain", "domain: shop"));
        }
        let domain = fields.with("domain", &top, report, something);
        let mut place = Place {
            file,
            // Without a domain all else is read for its faults.
            domain: domain.unwrap_or_default(),
            specs: Vec::new(),
            entries: Vec::new(),
        };
        self.exempt.push((place.domain.into(), Vec::new()));
        if let Some(node) = fields.get("descriptors") {
            self.descriptors(&mut place, node, &top, report);
        }
        if place.specs.is_empty() {
            report.warn(&top, Problem::EmptyFile);
        }
        place.specs
    }

    /// Reads a list of descriptors. It nests no deeper than files may.
    fn descriptors(
        &mut self,
        place: &mut Place<'_>,
        node: &Node,
        up: &Spot<'_>,
        report: &mut Report,
    ) {
        let spot = up.field("descriptors", node.at);
        let items = match &node.value {
            Value::List(items) => items.as_slice(),
            Value::Null => &[],
            _ => {
                let want = "a list of descriptors; write `- key: path` and its limit for each";
                return wrong_kind(node, &spot, want, report).unwrap_or_default();
            }
        };
        for (index, item) in items.iter().enumerate() {
            self.one(place, item, &spot.item(index, item.at), report);
        }
    }

    fn one(&mut self, place: &mut Place<'_>, node: &Node, spot: &Spot<'_>, report: &mut Report) {
        let want =
            "a descriptor; write {key: path, rate_limit: {unit: minute, requests_per_unit: 5}}";
        let Some(fields) = Fields::read(node, spot, &DESCRIPTOR, want, report) else {
            return;
        };
        let read = entry(&fields, spot, report);
        let shadow = fields.with("shadow_mode", spot, report, optional_flag);
        let quota = fields.with("quota_mode", spot, report, optional_flag);
        for ignored in ["detailed_metric", "value_to_metric"] {
            fields.with(ignored, spot, report, optional_flag);
        }
        let limit = fields.with("rate_limit", spot, report, |node, spot, report| {
            rate_limit(node, spot, report)
        });
        let is_sound = read.is_some();
        place.entries.extend(read);
        if is_sound {
            let domain = place.domain;
            let known = &mut self.known;
            known.add(place.file, domain, &place.entries, true, spot, report);
            match limit {
                Some(limit) => {
                    let mode = if shadow == Some(true) {
                        Mode::Shadow
                    } else {
                        Mode::Enforce
                    };
                    let is_quota = quota == Some(true);
                    let spec = self.spec(place, limit, mode, is_quota, node);
                    place.specs.push(spec);
                }
                None => self.exempt.push((domain.into(), place.entries.clone())),
            }
        }
        if let Some(node) = fields.get("descriptors") {
            self.descriptors(place, node, spot, report);
        }
        if is_sound {
            place.entries.pop();
        }
    }

    /// The rule with this `limit` for the entries down to `place`, stated at `node`.
    fn spec(
        &mut self,
        place: &Place<'_>,
        limit: RateLimit,
        mode: Mode,
        is_quota: bool,
        node: &Node,
    ) -> RuleSpec {
        let (file, at) = (place.file, node.at);
        let mut by = ByDescriptor::new(place.domain, place.entries.clone());
        let name = self.name_by_entries(&by);
        self.names.insert(name.clone(), (Arc::clone(file), at.line));
        by.called = limit.name;
        by.replaces = limit.replaces;
        by.is_quota = is_quota;
        let called = by.called.as_deref().filter(|name| super::is_name(name));
        let limits = limit.quota.map(|quota| Tier {
            name: DEFAULT_TIER.to_owned(),
            limits: vec![LimitSpec::of_gateway(
                called,
                quota,
                self.defaults.pace,
                mode,
                at.line,
            )],
        });
        RuleSpec {
            name,
            target: Target::every(),
            identity: Identity::of_nobody(),
            weight: Weight::default(),
            tiers: limits.into_iter().collect(),
            preflight: Preflight::default(),
            answers: Arc::new(Answers::default()),
            overrides: Vec::new(),
            group: None,
            priority: 0,
            is_enabled: true,
            percent: 100,
            by_descriptor: Some(Box::new(by)),
            file: Arc::clone(file),
            at,
        }
    }
}

/// Reads a limit. `None` if there is none, or if it is wrong.
fn rate_limit(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<RateLimit> {
    if node.is_null() {
        return None;
    }
    let want = "a limit; write {unit: minute, requests_per_unit: 5}";
    let fields = Fields::read(node, spot, &RATE_LIMIT, want, report)?;
    let name = fields.with("name", spot, report, anything);
    let name: Option<Box<str>> = name.filter(|name| !name.is_empty()).map(Into::into);
    let replaces = fields.with("replaces", spot, report, replaces);
    let replaces = replaces.unwrap_or_default();
    if let (Some(name), Some(node)) = (&name, fields.get("replaces")) {
        not_itself(name, &replaces, spot, node.at, report);
    }
    let unlimited = fields.with("unlimited", spot, report, optional_flag);
    let requests = fields.with("requests_per_unit", spot, report, requests);
    let unit = unit(&fields, unlimited == Some(true), spot, report);
    if unlimited == Some(true) {
        return Some(RateLimit {
            quota: None,
            name,
            replaces,
        });
    }
    let requests = match (requests, fields.get("requests_per_unit")) {
        (Some(requests), _) => requests,
        (None, Some(_)) => return None,
        (None, None) => {
            report.warn(spot, DescriptorProblem::BanBySilence);
            0
        }
    };
    let quota = Quota::new(Algorithm::FixedWindow, requests, unit?.period(), None);
    Some(RateLimit {
        quota: quota.ok(),
        name,
        replaces,
    })
}

fn requests(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<u64> {
    let requests = number(node, spot, report)?;
    if requests > u64::from(u32::MAX) {
        report.fault(spot, DescriptorProblem::TooMany(requests));
        return None;
    }
    Some(requests)
}

/// The unit, in any case. Where nothing is limited there is none, which gateways may spell.
fn unit(
    fields: &Fields<'_>,
    is_unlimited: bool,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<Unit> {
    if fields.get("unit").is_none() && !is_unlimited {
        report.fault(spot, Problem::Missing("unit", "unit: minute"));
    }
    let stated = fields.with("unit", spot, report, anything)?;
    let at = fields.get("unit").map_or(spot.at, |node| node.at);
    let spot_of_unit = spot.field("unit", at);
    let found = stated.to_ascii_lowercase();
    let unit = Unit::WORDS.iter().find(|(word, _)| *word == found);
    match unit {
        Some(_) if is_unlimited => {
            report.fault(&spot_of_unit, DescriptorProblem::UnitOfNothing);
            None
        }
        Some((_, unit)) => Some(*unit),
        None if is_unlimited && ["", "unknown"].contains(&&*found) => None,
        None => {
            let all = Unit::WORDS.map(|(word, _)| word);
            let hint = near(&found, &all);
            let hint = hint.map_or_else(String::new, |word| format!("; did you mean `{word}`?"));
            report.fault(
                &spot_of_unit,
                Problem::UnknownWord {
                    found: quote(stated),
                    all: all.join(", "),
                    hint,
                },
            );
            None
        }
    }
}

/// The names of the limits that are replaced.
fn replaces(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Vec<Box<str>>> {
    let mut names = Vec::new();
    super::each(node, spot, |node, spot| {
        let want = "the name of another limit; write {name: other}";
        if let Some(fields) = Fields::read(node, spot, &REPLACED, want, report) {
            if fields.get("name").is_none() {
                report.fault(spot, Problem::Missing("name", "name: other"));
            }
            names.extend(fields.with("name", spot, report, something).map(Into::into));
        }
    });
    Some(names)
}
