//! What rules are called.

use super::super::fault::{Problem, quote};
use super::super::reader::{Report, Spot, text};
use super::super::target::Target;
use super::super::tree::{Node, Value};

/// Methods and endpoint as one text, which serves as a name.
pub(super) fn stated_endpoint(target: &Target) -> String {
    match target.methods.as_slice() {
        [] => target.pattern.text.clone(),
        methods => format!("{} {}", methods.join(","), target.pattern.text),
    }
}

/// What faults call the rule before it has been read.
pub(super) fn label(node: &Node, index: usize) -> String {
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

pub(super) fn is_name(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| (b' '..=b'~').contains(&b))
        && text.trim() == text
}

/// A name that people and metrics will see.
pub(super) fn name(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<String> {
    let name = text(node, spot, "a name; write text", report)?;
    if !is_name(name) {
        report.fault(spot, Problem::BadName(quote(name)));
        return None;
    }
    Some(name.to_owned())
}
