use std::collections::HashSet;

use super::super::expression::Expression;
use super::super::fault::{Problem, quote};
use super::super::reader::{Fields, Report, Spot, entries, text, wrong_kind};
use super::super::tree::{Node, Value};
use super::super::when::{Field, Line, Test, When};
use super::each;

pub(super) const WHEN: [&str; 3] = ["headers", "attributes", "not"];
pub(super) const NOT: [&str; 2] = ["headers", "attributes"];
const WANT: &str = "a condition; write {headers: {X-Beta: \"1\"}} or {attributes: {plan: [a, b]}}";

/// Reads `when`. `None` if there is any fault in it.
pub(super) fn when(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<When> {
    let before = report.faults.len();
    let mut lines = Vec::new();
    let fields = Fields::read(node, spot, &WHEN, WANT, report)?;
    both(&fields, false, spot, &mut lines, report);
    if let Some(node) = fields.get("not") {
        let spot = spot.field("not", node.at);
        if let Some(fields) = Fields::read(node, &spot, &NOT, WANT, report) {
            both(&fields, true, &spot, &mut lines, report);
        }
    }
    if report.faults.len() > before {
        return None;
    }
    if lines.is_empty() {
        report.fault(spot, Problem::NoCondition);
        return None;
    }
    Some(When::new(lines))
}

fn both(
    fields: &Fields<'_>,
    not: bool,
    spot: &Spot<'_>,
    lines: &mut Vec<Line>,
    report: &mut Report,
) {
    let headers = Field::Header as fn(Box<str>) -> Field;
    for (name, field) in [("headers", headers), ("attributes", Field::Attribute)] {
        let Some(node) = fields.get(name).filter(|node| !node.is_null()) else {
            continue;
        };
        let spot = spot.field(name, node.at);
        let Value::Map(map) = &node.value else {
            let _none: Option<()> = wrong_kind(node, &spot, "a map of names and values", report);
            continue;
        };
        let mut seen: HashSet<String> = HashSet::new();
        for (name, key, node) in entries(map, &spot, report) {
            let spot = spot.field(name, node.at);
            let lower = name.to_ascii_lowercase();
            let proper = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
            if lower.is_empty() || lower.len() > 128 || !lower.bytes().all(proper) {
                report.fault(&spot.moved(key.at), Problem::FieldName(quote(name)));
            } else if seen.contains(&lower) {
                let problem = Problem::SameButForCase(quote(name));
                report.fault(&spot.moved(key.at), problem);
            } else if let Some(tests) = tests(node, &spot, report) {
                let field = field(lower.as_str().into());
                lines.push(Line { field, tests, not });
                seen.insert(lower);
            }
        }
    }
}

/// One test or several; at least one.
fn tests(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Vec<Test>> {
    let before = report.faults.len();
    let mut tests = Vec::new();
    each(node, spot, |node, spot| {
        tests.extend(test(node, spot, report))
    });
    if tests.is_empty() && report.faults.len() == before {
        report.fault(spot, Problem::NoValue);
    }
    (report.faults.len() == before).then_some(tests)
}

fn test(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Test> {
    let whole = text(
        node,
        spot,
        "a value; write text, present, absent or a list",
        report,
    )?;
    let found = || quote(whole);
    let test = match whole {
        "present" => Test::Present,
        "absent" => Test::Absent,
        _ => match whole.split_once(':') {
            Some(("prefix", start)) => Test::Prefix(start.into()),
            Some(("exact", value)) => Test::Exact(value.trim().into()),
            Some(("regex", expression)) => match Expression::parse(expression, false) {
                Ok(expression) => Test::Regex(expression),
                Err(error) => {
                    report.fault(
                        spot,
                        Problem::Expression {
                            found: found(),
                            error,
                        },
                    );
                    return None;
                }
            },
            _ => Test::Exact(whole.trim().into()),
        },
    };
    let empty = matches!(&test, Test::Exact(text) | Test::Prefix(text) if text.is_empty());
    if empty {
        report.fault(spot, Problem::EmptyValue(found()));
        return None;
    }
    Some(test)
}
