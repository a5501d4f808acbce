use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use super::super::fault::{CallerProblem, Problem};
use super::super::reader::{Report, Spot, entries, near, wrong_kind};
use super::super::tree::{Node, Value};
use super::{is_name, quote};

/// Limits that have a name, to be used wherever limits stand.
pub(super) type Policies = HashMap<String, Policy>;

pub(super) struct Policy {
    /// The file that it stands in.
    pub(super) file: Arc<str>,
    pub(super) node: Node,
    used: Cell<bool>,
}

/// Takes the policies of one file. Their limits are read where they are used: what is not
/// stated there comes from the rule.
pub(super) fn read(
    policies: &mut Policies,
    file: &Arc<str>,
    node: &Node,
    spot: &Spot<'_>,
    report: &mut Report,
) {
    let map = match &node.value {
        Value::Null => return,
        Value::Map(map) => map,
        _ => {
            let want = "a map of policies; write {free: [{requests: 10, window: 1m}]}";
            return wrong_kind::<()>(node, spot, want, report).unwrap_or_default();
        }
    };
    for (name, place, node) in entries(map, spot, report) {
        let spot = spot.field(name, place.at);
        if !is_name(name) {
            report.fault(&spot, Problem::BadName(quote(name)));
        }
        if let Some(first) = policies.get(name) {
            let (file, line) = (Arc::clone(&first.file), first.node.at.line);
            report.fault(&spot, CallerProblem::DuplicatePolicy { file, line });
            continue;
        }
        let policy = Policy {
            file: Arc::clone(file),
            node: node.clone(),
            used: Cell::new(false),
        };
        policies.insert(name.to_owned(), policy);
    }
}

/// The policy called `name`; a fault, if there is none.
pub(super) fn find<'p>(
    policies: &'p Policies,
    name: &str,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<&'p Policy> {
    let policy = policies.get(name);
    if policy.is_none() {
        let mut names: Vec<&str> = policies.keys().map(String::as_str).collect();
        names.sort_unstable();
        let hint = match near(name, &names) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => "write the limits here, or `policies:`".to_owned(),
            None => format!("known are {}", names.join(", ")),
        };
        let name = quote(name);
        report.fault(spot, CallerProblem::UnknownPolicy { name, hint });
    }
    policy.inspect(|policy| policy.used.set(true))
}

/// Warns of the policies that no rule uses.
pub(super) fn warn_of_unused(policies: &Policies, report: &mut Report) {
    let mut unused: Vec<_> = policies
        .iter()
        .filter(|(_, policy)| !policy.used.get())
        .collect();
    unused.sort_by_key(|(_, policy)| (Arc::clone(&policy.file), policy.node.at));
    for (name, policy) in unused {
        let top = Spot::file(&policy.file);
        let all = top.field("policies", policy.node.at);
        report.warn(
            &all.field(name, policy.node.at),
            CallerProblem::UnusedPolicy,
        );
    }
}
