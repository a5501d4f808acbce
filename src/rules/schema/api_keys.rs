use std::collections::HashMap;
use std::sync::Arc;

use super::super::api_keys::{ApiKeys, Hash, Holder, hash};
use super::super::fault::{CallerProblem, Problem, quote};
use super::super::identity::field;
use super::super::reader::{Fields, Report, Spot, near, text, wrong_kind};
use super::super::source::Format;
use super::super::tree::{self, Node, Value};
use super::callers::Beside;
use super::tiers::Named;
use super::{each, name};

pub(super) const TABLE: [&str; 3] = ["keys", "file", "headers"];
pub(super) const ENTRY: [&str; 5] = ["key", "sha256", "name", "tier", "tenant"];
const WANT_ENTRY: &str = "a key; write {key: …, name: acme, tier: pro}";
const WANT_TABLE: &str =
    "a list of keys; write [{key: …, name: acme, tier: pro}] or {file: keys.yaml}";

/// The table, with the line of each key.
#[derive(Default)]
struct Table {
    keys: HashMap<Hash, Holder>,
    lines: HashMap<Hash, (Arc<str>, usize)>,
    named: Vec<Named>,
}

/// Reads the table of API keys, with the file that it names. No fault shows a key.
pub(super) fn read(
    node: &Node,
    spot: &Spot<'_>,
    beside: &mut Beside<'_>,
    named: &mut Vec<Named>,
    report: &mut Report,
) -> Option<ApiKeys> {
    let mut keys = ApiKeys::default();
    let mut table = Table::default();
    match &node.value {
        Value::List(_) => table.read(beside.file(), node, spot, report),
        Value::Map(_) => {
            let fields = fields(node, spot, &TABLE, WANT_TABLE, report)?;
            if let Some(node) = fields.get("keys") {
                table.read(beside.file(), node, &spot.field("keys", node.at), report);
            }
            if let Some(node) = fields.get("file") {
                let spot = spot.field("file", node.at);
                let named = text(node, &spot, "the name of a file; write keys.yaml", report)?;
                let (path, bytes) = beside.read(named, &spot, report)?;
                table.read_file(&path.display().to_string(), bytes, &spot, report);
            }
            if let Some(node) = fields.get("headers") {
                keys.headers = headers(node, &spot.field("headers", node.at), report)?;
            }
            if fields.get("keys").is_none() && fields.get("file").is_none() {
                return Some(keys);
            }
        }
        _ => return hidden(node, spot, WANT_TABLE, report),
    }
    named.append(&mut table.named);
    keys.table = Some(table.keys);
    Some(keys)
}

fn headers(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Vec<Box<str>>> {
    let mut headers = Vec::new();
    each(node, spot, |node, spot| {
        let Some(found) = text(node, spot, "the name of a header; write X-API-Key", report) else {
            return;
        };
        match field(found) {
            Some(name) => headers.push(name),
            None => report.fault(spot, CallerProblem::HeaderName(quote(found))),
        }
    });
    (!headers.is_empty()).then_some(headers)
}

impl Table {
    /// Reads the list in the file `path`, which may stand below `api_keys` or `keys`.
    fn read_file(&mut self, path: &str, bytes: Vec<u8>, spot: &Spot<'_>, report: &mut Report) {
        let format = Format::of(path.as_ref());
        let (Some(format), Ok(text)) = (format, String::from_utf8(bytes)) else {
            let file = quote(path);
            return report.fault(spot, CallerProblem::NoTable(file));
        };
        let file: Arc<str> = path.into();
        let top = Spot::file(&file);
        let root = match tree::parse(&text, format) {
            Ok(root) => root,
            Err(faults) => {
                for (at, _) in faults {
                    // What the reader says may show a key.
                    report.fault(&top.moved(at), CallerProblem::NoTable(quote(path)));
                }
                return;
            }
        };
        if root.is_null() {
            return report.fault(spot, CallerProblem::EmptyTable(quote(path)));
        }
        let Value::Map(_) = &root.value else {
            return self.read(&file, &root, &top, report);
        };
        let known = ["api_keys", "keys"];
        let Some(fields) = fields(&root, &top, &known, WANT_TABLE, report) else {
            return;
        };
        for name in known {
            if let Some(node) = fields.get(name) {
                self.read(&file, node, &top.field(name, node.at), report);
            }
        }
    }

    fn read(&mut self, file: &Arc<str>, node: &Node, spot: &Spot<'_>, report: &mut Report) {
        match &node.value {
            Value::Null => {}
            Value::List(entries) => {
                for (index, node) in entries.iter().enumerate() {
                    self.entry(file, node, &spot.item(index, node.at), report);
                }
            }
            _ => hidden(node, spot, WANT_TABLE, report).unwrap_or_default(),
        }
    }

    fn entry(&mut self, file: &Arc<str>, node: &Node, spot: &Spot<'_>, report: &mut Report) {
        let Some(fields) = fields(node, spot, &ENTRY, WANT_ENTRY, report) else {
            return;
        };
        let holder = Holder {
            name: label(&fields, "name", spot, report),
            tier: label(&fields, "tier", spot, report),
            tenant: label(&fields, "tenant", spot, report),
        };
        if let (Some(tier), Some(node)) = (&holder.tier, fields.get("tier")) {
            self.named
                .push(Named::new(tier, &spot.field("tier", node.at)));
        }
        let hashed = match (fields.get("key"), fields.get("sha256")) {
            (Some(_), Some(node)) => {
                let problem = Problem::SaidTwice("sha256", "key");
                return report.fault(&spot.field("sha256", node.at), problem);
            }
            (Some(node), None) => clear(node, &spot.field("key", node.at), report),
            (None, Some(node)) => digest(node, &spot.field("sha256", node.at), report),
            (None, None) => {
                return report.fault(spot, Problem::Missing("key", "the key, or its `sha256`"));
            }
        };
        let Some(hashed) = hashed else {
            return;
        };
        if let Some((file, line)) = self.lines.get(&hashed) {
            let (file, line) = (Arc::clone(file), *line);
            return report.fault(spot, CallerProblem::DuplicateApiKey { file, line });
        }
        self.lines.insert(hashed, (Arc::clone(file), spot.at.line));
        self.keys.insert(hashed, holder);
    }
}

fn label(
    fields: &Fields<'_>,
    field: &'static str,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<Box<str>> {
    fields.with(field, spot, report, name).map(Into::into)
}

/// The hash of a key that is written in clear.
fn clear(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Hash> {
    let key = match &node.value {
        Value::Text(text) => text.as_str(),
        Value::Bare(digits) if tree::is_plain_number(digits) => digits,
        _ => {
            let want = "a key; write text, in quotes";
            return hidden(node, spot, want, report);
        }
    };
    if key.is_empty() || key.contains(char::is_whitespace) {
        report.fault(spot, CallerProblem::BlankInKey);
        return None;
    }
    Some(hash(key))
}

/// The SHA-256 of a key, in hexadecimal.
fn digest(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Hash> {
    let read = |text: &str| {
        let mut hash = Hash::default();
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
        }
        Some(hash)
    };
    let hash = match &node.value {
        Value::Text(text) | Value::Bare(text) => read(text),
        _ => None,
    };
    if hash.is_none() {
        report.fault(spot, CallerProblem::NoDigest);
    }
    hash
}

/// The fields of a map out of `known`. A name that is no slip of the pen for one of them may
/// be a key, and is not shown.
fn fields<'n>(
    node: &'n Node,
    spot: &Spot<'_>,
    known: &[&str],
    want: &'static str,
    report: &mut Report,
) -> Option<Fields<'n>> {
    let Value::Map(map) = &node.value else {
        return hidden(node, spot, want, report);
    };
    let is_known = |name: &str| known.contains(&name) || near(name, known).is_some();
    for (name, _) in map {
        if !name.text.as_deref().is_ok_and(is_known) {
            let found = "this name".to_owned();
            report.fault(&spot.moved(name.at), Problem::Kind { found, want });
            return None;
        }
    }
    Fields::read(node, spot, known, want, report)
}

/// Reports that `node` is not `want`, without showing what it is.
fn hidden<T>(node: &Node, spot: &Spot<'_>, want: &'static str, report: &mut Report) -> Option<T> {
    match &node.value {
        Value::Text(_) | Value::Bare(_) => {
            let found = "this text".to_owned();
            report.fault(spot, Problem::Kind { found, want });
            None
        }
        _ => wrong_kind(node, spot, want, report),
    }
}
