//! Rules that are for descriptors.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::descriptor::{ByDescriptor, Entry, Values};
use super::super::fault::{At, DescriptorProblem, Problem, quote};
use super::super::path;
use super::super::reader::{Fields, Report, Spot, flag, text, word, wrong_kind};
use super::super::tree::{Node, Value};
use super::{RuleSpec, Schema, each, is_name};
use crate::units::{EncodedIdentity, KeySecret};

pub(super) const ENTRY: [&str; 4] = ["key", "value", "normalize", "share_threshold"];
/// The fields of rules that are for described requests alone.
const OF_REQUESTS: [&str; 12] = [
    "endpoint",
    "method",
    "when",
    "case",
    "trailing_slash",
    "preflight",
    "key",
    "on_missing",
    "normalize",
    "group",
    "priority",
    "overrides",
];
const OF_DESCRIPTORS: [&str; 2] = ["descriptors", "replaces"];

/// All entries that any file has, by all that stands before them.
#[derive(Default)]
pub(super) struct KnownEntries(HashMap<Vec<u8>, KnownEntry>);

struct KnownEntry {
    entry: Entry,
    file: Arc<str>,
    line: usize,
    /// Where a rule, or an exemption, with just these entries was stated.
    stated: Option<(Arc<str>, usize)>,
}

impl KnownEntries {
    /// Takes note of `entries` in `domain`; they are those of a rule if `stated`. A fault, if
    /// they are another's already, or another understands the last of them differently.
    pub(super) fn add(
        &mut self,
        file: &Arc<str>,
        domain: &str,
        entries: &[Entry],
        stated: bool,
        spot: &Spot<'_>,
        report: &mut Report,
    ) -> Option<()> {
        let last = entries.last()?;
        let line = spot.at.line;
        let new = || KnownEntry {
            entry: last.clone(),
            file: Arc::clone(file),
            line,
            stated: None,
        };
        let known = self.0.entry(place(domain, entries)).or_insert_with(new);
        if known.entry != *last {
            let field = if known.entry.as_path == last.as_path {
                "share_threshold"
            } else {
                "normalize"
            };
            let (file, line) = (Arc::clone(&known.file), known.line);
            let problem = DescriptorProblem::Differs { field, file, line };
            report.fault(spot, problem);
            return None;
        }
        if !stated {
            return Some(());
        }
        if let Some((file, line)) = known.stated.clone() {
            report.fault(spot, DescriptorProblem::Duplicate { file, line });
            return None;
        }
        known.stated = Some((Arc::clone(file), line));
        Some(())
    }
}

/// What tells `entries` in `domain` from all others, whatever is in them.
fn place(domain: &str, entries: &[Entry]) -> Vec<u8> {
    let mut place = Vec::new();
    let mut add = |kind: u8, text: &str| {
        place.push(kind);
        place.extend_from_slice(&text.len().to_le_bytes());
        place.extend_from_slice(text.as_bytes());
    };
    add(0, domain);
    for entry in entries {
        add(1, &entry.key);
        match &entry.values {
            Values::Any => add(2, ""),
            Values::One(value) => add(3, value),
            Values::Start { start, .. } => add(4, start),
        }
    }
    place
}

/// A name for a rule that states none: domain and entries, as Envoy's service calls them.
/// What people could not read, or is long, ends in a fingerprint of it all.
fn name_of(domain: &str, entries: &[Entry], is_taken: impl Fn(&str) -> bool) -> String {
    let mut name = domain.to_owned();
    for entry in entries {
        name.push('.');
        name.push_str(&entry.key);
        if let Some(value) = entry.values.text() {
            name.push('_');
            name.push_str(&value);
        }
    }
    if is_name(&name) && !is_taken(&name) {
        return name;
    }
    let fingerprint = KeySecret::public().hasher(&place(domain, entries));
    let fingerprint = fingerprint.key(&EncodedIdentity::default()).to_bytes();
    let readable = |c: char| if c.is_ascii_graphic() { c } else { '?' };
    let tail: Vec<char> = name.chars().rev().take(100).map(readable).collect();
    let mut short: String = tail.into_iter().rev().collect();
    short.push('~');
    for byte in fingerprint.iter().take(8) {
        short.push_str(&format!("{byte:02x}"));
    }
    short
}

/// Reads an entry's value, where it states one. A value as a path is stated as one, too.
pub(super) fn values(value: &str, as_path: bool, shared: bool) -> Values {
    match value.strip_suffix('*') {
        _ if value.is_empty() => Values::Any,
        Some(start) => Values::Start {
            start: start.into(),
            shared,
        },
        None if as_path => Values::One(path::normalise(value).into()),
        None => Values::One(value.into()),
    }
}

/// Any text, which numbers and the like are here, too; nothing is the empty one.
pub(super) fn anything<'n>(
    node: &'n Node,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<&'n str> {
    match &node.value {
        Value::Text(text) | Value::Bare(text) => Some(text),
        Value::Null => Some(""),
        _ => wrong_kind(node, spot, "a text; write one such as /login", report),
    }
}

/// The same, but not nothing.
pub(super) fn something<'n>(
    node: &'n Node,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<&'n str> {
    let found = anything(node, spot, report)?;
    if found.is_empty() {
        report.fault(spot, DescriptorProblem::Empty);
        return None;
    }
    Some(found)
}

/// Reads the key, the value and what becomes of it.
pub(super) fn entry(fields: &Fields<'_>, spot: &Spot<'_>, report: &mut Report) -> Option<Entry> {
    let before = report.faults.len();
    if fields.get("key").is_none() {
        report.fault(spot, Problem::Missing("key", "key: path"));
    }
    let key = fields.with("key", spot, report, something);
    let value = fields.with("value", spot, report, anything);
    let words = [("none", false), ("path", true)];
    let as_path = fields.with("normalize", spot, report, |node, spot, report| {
        word(node, spot, &words, report)
    });
    let as_path = as_path.unwrap_or(false);
    let shared = fields.with("share_threshold", spot, report, optional_flag);
    let shared = shared.unwrap_or(false);
    let values = values(value.unwrap_or_default(), as_path, shared);
    if let Some(node) = fields.get("share_threshold")
        && shared
        && !matches!(values, Values::Start { .. })
    {
        let spot = spot.field("share_threshold", node.at);
        report.fault(&spot, DescriptorProblem::NotShared);
    }
    let key = key?.into();
    (report.faults.len() == before).then_some(Entry {
        key,
        values,
        as_path,
    })
}

/// `true`, `false` or nothing.
pub(super) fn optional_flag(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<bool> {
    if node.is_null() {
        return None;
    }
    flag(node, spot, report)
}

impl Schema<'_> {
    /// Reads what a rule has only if it is for descriptors; `None` if it is not, or wrong.
    pub(super) fn by_descriptor(
        &mut self,
        file: &Arc<str>,
        fields: &Fields<'_>,
        spot: &Spot<'_>,
        report: &mut Report,
    ) -> Option<ByDescriptor> {
        let Some(domain) = fields.get("domain") else {
            for field in OF_DESCRIPTORS {
                if let Some(node) = fields.get(field) {
                    let problem = DescriptorProblem::OnlyWithDomain(field);
                    report.fault(&spot.field(field, node.at), problem);
                }
            }
            return None;
        };
        for field in OF_REQUESTS {
            if let Some(node) = fields.get(field) {
                let problem = DescriptorProblem::NotWithDomain(field);
                report.fault(&spot.field(field, node.at), problem);
            }
        }
        let domain = something(domain, &spot.field("domain", domain.at), report);
        let Some(node) = fields.get("descriptors") else {
            let example = "descriptors: [{key: path, value: /login}]";
            report.fault(spot, Problem::Missing("descriptors", example));
            return None;
        };
        let spot_of_entries = spot.field("descriptors", node.at);
        let entries = self.entries(file, domain, node, &spot_of_entries, report);
        let replaces = fields.with("replaces", spot, report, replaces);
        let mut by = ByDescriptor::new(domain?, entries?);
        by.replaces = replaces.unwrap_or_default();
        Some(by)
    }

    /// A name for the rule `by` that no rule has yet.
    pub(super) fn name_by_entries(&self, by: &ByDescriptor) -> String {
        let is_taken = |name: &str| self.names.contains_key(name);
        name_of(&by.domain, &by.entries, is_taken)
    }

    /// Reads the entries of a rule.
    fn entries(
        &mut self,
        file: &Arc<str>,
        domain: Option<&str>,
        node: &Node,
        spot: &Spot<'_>,
        report: &mut Report,
    ) -> Option<Vec<Entry>> {
        let Value::List(items) = &node.value else {
            let want = "a list of entries; write [{key: path, value: /login}]";
            return wrong_kind(node, spot, want, report);
        };
        if items.is_empty() {
            report.fault(spot, DescriptorProblem::NoEntry);
            return None;
        }
        let mut entries = Some(Vec::with_capacity(items.len()));
        for (index, item) in items.iter().enumerate() {
            let spot = spot.item(index, item.at);
            let want = "an entry; write {key: path, value: /login}";
            let fields = Fields::read(item, &spot, &ENTRY, want, report);
            let read = fields.and_then(|fields| entry(&fields, &spot, report));
            entries = entries.zip(read).map(|(mut entries, read)| {
                entries.push(read);
                entries
            });
            if let (Some(domain), Some(entries)) = (domain, &entries) {
                let stated = index + 1 == items.len();
                self.known
                    .add(file, domain, entries, stated, &spot, report)?;
            }
        }
        entries
    }
}

/// The names of other rules.
fn replaces(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Vec<Box<str>>> {
    let mut names = Vec::new();
    each(node, spot, |node, spot| {
        let want = "the name of another rule; write text";
        names.extend(text(node, spot, want, report).map(Into::into));
    });
    Some(names)
}

/// The same rule, called `name`, by which others may replace it.
pub(super) fn by_called(
    mut by: ByDescriptor,
    name: &str,
    fields: &Fields<'_>,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Box<ByDescriptor> {
    let at = fields.get("replaces").map_or(spot.at, |node| node.at);
    not_itself(name, &by.replaces, spot, at, report);
    by.called = Some(name.into());
    Box::new(by)
}

/// Tells of a rule, or limit, called `name` that is among those that it `replaces` itself.
pub(super) fn not_itself(
    name: &str,
    replaces: &[Box<str>],
    spot: &Spot<'_>,
    at: At,
    report: &mut Report,
) {
    if replaces.iter().any(|replaced| **replaced == *name) {
        let problem = DescriptorProblem::ReplacesItself(quote(name));
        report.fault(&spot.field("replaces", at), problem);
    }
}

/// Warns of rules that replace what no rule of any file is called.
pub(super) fn warn_of_unnamed(specs: &[RuleSpec], report: &mut Report) {
    let by = specs.iter().flat_map(|spec| &spec.by_descriptor);
    let known: HashSet<&str> = by.filter_map(|by| by.called.as_deref()).collect();
    for spec in specs {
        let replaces = spec.by_descriptor.iter().flat_map(|by| &by.replaces);
        for name in replaces.filter(|name| !known.contains(&***name)) {
            let problem = DescriptorProblem::ReplacesNothing(quote(name));
            report
                .warnings
                .push(spec.warning("replaces", problem.into()));
        }
    }
}
