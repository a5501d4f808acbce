//! Reading typed values out of a [`Node`], with every fault reported and none
//! ending the reading.

use std::collections::HashMap;
use std::sync::Arc;

use super::duration::parse_duration;
use super::fault::{At, Fault, Problem, quote};
use super::tree::{Name, Node, Value, is_plain_number, whole_number};
use crate::units::Nanos;

/// What was found while reading; reading goes on.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Fault>,
}

impl Report {
    pub(super) fn fault(&mut self, spot: &Spot<'_>, problem: impl Into<Problem>) {
        self.faults.push(spot.fault(problem));
    }

    pub(super) fn warn(&mut self, spot: &Spot<'_>, problem: impl Into<Problem>) {
        self.warnings.push(spot.fault(problem));
    }

    /// Puts all into the order of the files, whose `place` is known, and of their text. What
    /// is said several times about one place, through rules that share it, is said once.
    pub(super) fn sort(&mut self, place: impl Fn(&Arc<str>) -> usize) {
        for found in [&mut self.faults, &mut self.warnings] {
            found.sort_by_key(|fault| (place(&fault.file), fault.at));
            found.dedup_by(|b, a| a.file == b.file && a.at == b.at && a.problem == b.problem);
        }
    }
}

/// Where the reading is: file, rule, field and place in the text.
#[derive(Clone, Copy)]
pub(super) struct Spot<'a> {
    file: &'a Arc<str>,
    rule: Option<&'a str>,
    up: Option<&'a Spot<'a>>,
    step: Step<'a>,
    pub(super) at: At,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Top,
    Field(&'a str),
    Item(usize),
}

impl<'a> Spot<'a> {
    /// The top of `file`.
    pub(super) fn file(file: &'a Arc<str>) -> Spot<'a> {
        Spot {
            file,
            rule: None,
            up: None,
            step: Step::Top,
            at: At::START,
        }
    }

    /// The top of a rule, which faults call `rule`.
    pub(super) fn rule(file: &'a Arc<str>, rule: &'a str, at: At) -> Spot<'a> {
        Spot {
            rule: Some(rule),
            at,
            ..Spot::file(file)
        }
    }

    pub(super) fn field(&'a self, name: &'a str, at: At) -> Spot<'a> {
        Spot {
            up: Some(self),
            step: Step::Field(name),
            at,
            ..*self
        }
    }

    pub(super) fn item(&'a self, index: usize, at: At) -> Spot<'a> {
        Spot {
            up: Some(self),
            step: Step::Item(index),
            at,
            ..*self
        }
    }

    /// The same field, said in `file`.
    pub(super) fn within(self, file: &'a Arc<str>, at: At) -> Spot<'a> {
        Spot { file, at, ..self }
    }

    /// The same field, at another place in the text.
    pub(super) fn moved(self, at: At) -> Spot<'a> {
        Spot { at, ..self }
    }

    pub(super) fn fault(&self, problem: impl Into<Problem>) -> Fault {
        let mut field = String::new();
        self.write_path(&mut field);
        Fault {
            file: self.file.clone(),
            at: self.at,
            rule: self.rule.map(str::to_owned),
            field,
            problem: problem.into(),
        }
    }

    fn write_path(&self, path: &mut String) {
        if let Some(up) = self.up {
            up.write_path(path);
        }
        match self.step {
            Step::Top => {}
            Step::Field(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                let simple = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
                if !name.is_empty() && name.len() <= 60 && name.bytes().all(simple) {
                    path.push_str(name);
                } else {
                    path.push_str(&quote(name));
                }
            }
            Step::Item(index) => path.push_str(&format!("[{index}]")),
        }
    }
}

/// The entries of a map whose names are its own, such as tiers. Reports names that
/// are not text, and those that come again.
pub(super) fn entries<'n>(
    entries: &'n [(Name, Node)],
    spot: &Spot<'_>,
    report: &mut Report,
) -> Vec<(&'n str, &'n Name, &'n Node)> {
    let mut seen: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
    let mut sound = Vec::with_capacity(entries.len());
    for (name, node) in entries {
        let text = match &name.text {
            Ok(text) => text.as_str(),
            Err(found) => {
                report.fault(&spot.moved(name.at), Problem::NotAName(found.clone()));
                continue;
            }
        };
        if let Some(&line) = seen.get(text) {
            let key = quote(text);
            let spot = spot.field(text, name.at);
            report.fault(&spot, Problem::DuplicateKey { key, line });
            continue;
        }
        seen.insert(text, name.at.line);
        sound.push((text, name, node));
    }
    sound
}

/// The fields of a map with a fixed set of names.
pub(super) struct Fields<'n> {
    entries: Vec<(&'n str, &'n Name, &'n Node)>,
}

impl<'n> Fields<'n> {
    /// Reads `node` as a map with fields out of `known`. `None`, with a fault, if it
    /// is no map; everything else that is wrong is reported and left out.
    pub(super) fn read(
        node: &'n Node,
        spot: &Spot<'_>,
        known: &[&str],
        want: &'static str,
        report: &mut Report,
    ) -> Option<Fields<'n>> {
        let Value::Map(map) = &node.value else {
            return wrong_kind(node, spot, want, report);
        };
        let mut fields = entries(map, spot, report);
        fields.retain(|(text, name, _)| {
            let is_known = known.contains(text);
            if !is_known {
                let hint = match near(text, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("known are {}", known.join(", ")),
                };
                let key = quote(text);
                let spot = spot.field(text, name.at);
                report.fault(&spot, Problem::UnknownKey { key, hint });
            }
            is_known
        });
        Some(Fields { entries: fields })
    }

    pub(super) fn get(&self, field: &str) -> Option<&'n Node> {
        let mut all = self.entries.iter();
        all.find(|(text, ..)| *text == field).map(|entry| entry.2)
    }

    /// Reads `field` by `read`, where it is there.
    pub(super) fn with<T>(
        &self,
        field: &'static str,
        spot: &Spot<'_>,
        report: &mut Report,
        read: impl FnOnce(&'n Node, &Spot<'_>, &mut Report) -> Option<T>,
    ) -> Option<T> {
        let node = self.get(field)?;
        read(node, &spot.field(field, node.at), report)
    }
}

/// The name among `known` that `text` was probably meant to be.
pub(super) fn near<'k>(text: &str, known: &[&'k str]) -> Option<&'k str> {
    // No name is longer, and long ones take long to compare.
    let text: String = text.chars().take(64).collect();
    let text = text.to_ascii_lowercase();
    let likeness = |known: &str| strsim::jaro_winkler(&text, known);
    known
        .iter()
        .map(|known| (likeness(known), *known))
        .filter(|(likeness, _)| *likeness > 0.78)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// Reports that `node` is not `want`.
pub(super) fn wrong_kind<T>(
    node: &Node,
    spot: &Spot<'_>,
    want: &'static str,
    report: &mut Report,
) -> Option<T> {
    let found = node.describe();
    report.fault(spot, Problem::Kind { found, want });
    None
}

/// Text, or a plain whole number as its digits; `want` says what is meant.
pub(super) fn text<'n>(
    node: &'n Node,
    spot: &Spot<'_>,
    want: &'static str,
    report: &mut Report,
) -> Option<&'n str> {
    match &node.value {
        Value::Text(text) => Some(text),
        Value::Bare(text) if is_plain_number(text) => Some(text),
        Value::Bare(_) => {
            report.fault(spot, Problem::Unquoted(node.describe()));
            None
        }
        _ => wrong_kind(node, spot, want, report),
    }
}

/// A whole number.
pub(super) fn number(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<u64> {
    const WANT: &str = "a whole number; write plain digits, such as 100, without quotes";
    match &node.value {
        Value::Bare(text) if is_plain_number(text) => {
            let number = whole_number(text);
            if number.is_none() {
                report.fault(spot, Problem::TooLarge(node.describe()));
            }
            number
        }
        _ => wrong_kind(node, spot, WANT, report),
    }
}

/// `true` or `false`.
pub(super) fn flag(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<bool> {
    match &node.value {
        Value::Bare(text) if text == "true" => Some(true),
        Value::Bare(text) if text == "false" => Some(false),
        _ => wrong_kind(node, spot, "true or false, without quotes", report),
    }
}

/// A duration.
pub(super) fn duration(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Nanos> {
    // A bare number is told the same as any other text without a unit.
    let (Value::Text(text) | Value::Bare(text)) = &node.value else {
        return wrong_kind(
            node,
            spot,
            "a duration; write 250ms, 1s, 1m, 1h, 1d or 1m30s",
            report,
        );
    };
    match parse_duration(text) {
        Ok(span) => Some(span),
        Err(error) => {
            let found = quote(text);
            report.fault(spot, Problem::Duration { found, error });
            None
        }
    }
}

/// One of `words`.
pub(super) fn word<T: Copy>(
    node: &Node,
    spot: &Spot<'_>,
    words: &[(&'static str, T)],
    report: &mut Report,
) -> Option<T> {
    let found = text(node, spot, "a word; write one such as `local`", report)?;
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == found) {
        return Some(*value);
    }
    let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let hint = near(found, &all).map_or_else(String::new, |w| format!("; did you mean `{w}`?"));
    report.fault(
        spot,
        Problem::UnknownWord {
            found: quote(found),
            all: all.join(", "),
            hint,
        },
    );
    None
}
