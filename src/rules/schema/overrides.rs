use std::collections::HashMap;

use super::super::fault::{Problem, quote};
use super::super::reader::{Fields, Report, Spot, wrong_kind};
use super::super::target::{Spelling, Target};
use super::super::tree::{Node, Value};
use super::grant::grant;
use super::limit::{Scope, Tier};
use super::target::target;
use super::{is_name, name, stated_endpoint};

pub(super) const OVERRIDE: [&str; 9] = [
    "name",
    "endpoint",
    "method",
    "when",
    "case",
    "trailing_slash",
    "limits",
    "unlimited",
    "ban",
];

/// Limits that replace those of their rule for some requests.
#[derive(Debug)]
pub(in crate::rules) struct OverrideSpec {
    /// Its name within the rule.
    pub(in crate::rules) name: String,
    pub(in crate::rules) target: Target,
    /// In the order of the file; none if nothing is limited.
    pub(in crate::rules) tiers: Vec<Tier>,
}

/// Reads the overrides of a rule whose paths are spelt by `spelling`. `None` if there is
/// any fault in them.
pub(super) fn overrides(
    node: &Node,
    scope: &Scope<'_>,
    spelling: Spelling,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<Vec<OverrideSpec>> {
    let before = report.faults.len();
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        Value::Null => &[],
        _ => {
            return wrong_kind(
                node,
                spot,
                "a list of overrides; write - endpoint: /a",
                report,
            );
        }
    };
    let mut all: Vec<OverrideSpec> = Vec::new();
    let mut names: HashMap<String, usize> = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        let spot = spot.item(index, item.at);
        let Some(read) = one(item, scope, spelling, &spot, report) else {
            continue;
        };
        if let Some(&line) = names.get(&read.name) {
            let name = quote(&read.name);
            report.fault(&spot, Problem::DuplicateOverride { name, line });
            continue;
        }
        names.insert(read.name.clone(), spot.at.line);
        // In long lists it would take long to find those that are never reached.
        if index < LONG
            && let Some(other) = all.iter().find(|it| it.target.covers(&read.target))
        {
            let problem = Problem::Unreachable(other.name.clone());
            report.warn(&spot, problem);
        }
        all.push(read);
    }
    (report.faults.len() == before).then_some(all)
}

/// See above.
const LONG: usize = 1_000;

fn one(
    node: &Node,
    scope: &Scope<'_>,
    spelling: Spelling,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<OverrideSpec> {
    let want = "an override; write {endpoint: /path, limits: {requests: 10, window: 1m}}";
    let fields = Fields::read(node, spot, &OVERRIDE, want, report)?;
    if fields
        .get("endpoint")
        .or(fields.get("method"))
        .or(fields.get("when"))
        .is_none()
    {
        report.fault(spot, Problem::Missing("endpoint", "endpoint: /path"));
    }
    let target = target(&fields, spelling, spot, report);
    let stated = match fields.get("name") {
        Some(node) => name(node, &spot.field("name", node.at), report),
        None => target.as_ref().and_then(|target| {
            let name = stated_endpoint(target);
            if !is_name(&name) {
                report.fault(spot, Problem::NeedsName);
            }
            is_name(&name).then_some(name)
        }),
    };
    let scope = scope.within(stated.as_deref().unwrap_or_default());
    let tiers = grant(&fields, &scope, spot, report);
    Some(OverrideSpec {
        name: stated?,
        target: target?,
        tiers: tiers?,
    })
}
