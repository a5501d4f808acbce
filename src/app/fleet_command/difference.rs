//! What differs between two sets of rule files, rule by rule.

use std::collections::HashMap;

use crate::rules::{self, Node, Source, Value};

/// A rule, or what else stands at the top of a file: its name, and its fields with their
/// values.
type Part = (String, Vec<(String, String)>);

/// The lines that tell how `new` differs from `old`; none if they mean the same.
pub(super) fn between(old: &[Source], new: &[Source]) -> Vec<String> {
    let (old, new) = (parts(old), parts(new));
    let by_name = |parts: &[Part]| -> HashMap<String, usize> {
        let names = parts.iter().map(|(name, _)| name.clone());
        names.zip(0..).collect()
    };
    let (in_old, in_new) = (by_name(&old), by_name(&new));
    let mut lines = Vec::new();
    for (name, fields) in &old {
        if !in_new.contains_key(name) {
            lines.push(format!("- {name}"));
            lines.extend(
                fields
                    .iter()
                    .map(|(field, value)| format!("  - {field}: {value}")),
            );
        }
    }
    for (name, fields) in &new {
        let Some(index) = in_old.get(name) else {
            lines.push(format!("+ {name}"));
            lines.extend(
                fields
                    .iter()
                    .map(|(field, value)| format!("  + {field}: {value}")),
            );
            continue;
        };
        let before = &old[*index].1;
        if before == fields {
            continue;
        }
        lines.push(format!("~ {name}"));
        let gone = before.iter().filter(|field| !fields.contains(field));
        lines.extend(gone.map(|(field, value)| format!("  - {field}: {value}")));
        let come = fields.iter().filter(|field| !before.contains(field));
        lines.extend(come.map(|(field, value)| format!("  + {field}: {value}")));
    }
    let common = |parts: &[Part], other: &HashMap<String, usize>| -> Vec<String> {
        let names = parts.iter().map(|(name, _)| name);
        names
            .filter(|name| other.contains_key(*name))
            .cloned()
            .collect()
    };
    if common(&old, &in_new) != common(&new, &in_old) {
        lines.push("~ the order of the rules".to_owned());
    }
    lines
}

fn parts(sources: &[Source]) -> Vec<Part> {
    let mut parts = Vec::new();
    for source in sources {
        // They were compiled before, or were when they were pushed.
        for (field, _, node) in rules::top_level(source).unwrap_or_default() {
            match node.value {
                Value::List(rules) if field == "rules" => {
                    for rule in rules {
                        let mut fields = Vec::new();
                        flatten("", &rule, &mut fields);
                        let name = format!("rule {}", name(&fields, parts.len()));
                        parts.push((name, fields));
                    }
                }
                Value::Null => {}
                _ => {
                    let mut fields = Vec::new();
                    flatten("", &node, &mut fields);
                    parts.push((field, fields));
                }
            }
        }
    }
    parts
}

/// What a rule is called: its name, else its methods and endpoint, else its place.
fn name(fields: &[(String, String)], place: usize) -> String {
    let field = |wanted: &str| {
        let found = fields.iter().find(|(field, _)| field == wanted);
        found.map(|(_, value)| value.clone())
    };
    if let Some(name) = field("name") {
        return name;
    }
    let methods = fields
        .iter()
        .filter(|(field, _)| field.starts_with("method"));
    let methods: Vec<_> = methods.map(|(_, value)| value.as_str()).collect();
    match field("endpoint") {
        Some(endpoint) if methods.is_empty() => endpoint,
        Some(endpoint) => format!("{} {endpoint}", methods.join(",")),
        None => format!("number {}", place + 1),
    }
}

/// Each scalar of `node`, with the way to it.
fn flatten(way: &str, node: &Node, into: &mut Vec<(String, String)>) {
    match &node.value {
        Value::Text(text) | Value::Bare(text) => into.push((way.to_owned(), text.clone())),
        Value::Null => into.push((way.to_owned(), "null".to_owned())),
        Value::List(items) if items.is_empty() => into.push((way.to_owned(), "[]".to_owned())),
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{way}[{index}]"), item, into);
            }
        }
        Value::Map(map) => {
            for (name, value) in map {
                let name = name.text.as_deref().unwrap_or("?");
                let way = if way.is_empty() {
                    name.to_owned()
                } else {
                    format!("{way}.{name}")
                };
                flatten(&way, value, into);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Format;

    fn yaml(text: &str) -> [Source; 1] {
        [Source {
            name: "t.yaml".to_owned(),
            text: text.to_owned(),
            format: Format::Yaml,
        }]
    }

    #[test]
    fn rules_that_come_go_and_change_are_told_by_name() {
        let old = "defaults: {algorithm: token_bucket}
rules:
- {name: a, limits: {free: {requests: 10, window: 1m}}}
- {endpoint: /b, method: [GET, PUT], limits: {requests: 1, window: 1m}}
- {name: c, limits: {requests: 1, window: 1m}}
";
        let new = "rules:
- {name: c, limits: {requests: 1, window: 1m}}
- {name: a, limits: {free: {requests: 20, window: 1m}}}
- {name: d, limits: {requests: 2, window: 1m}}
";
        let lines = between(&yaml(old), &yaml(new));
        let want = "- defaults
  - algorithm: token_bucket
- rule GET,PUT /b
  - endpoint: /b
  - method[0]: GET
  - method[1]: PUT
  - limits.requests: 1
  - limits.window: 1m
~ rule a
  - limits.free.requests: 10
  + limits.free.requests: 20
+ rule d
  + name: d
  + limits.requests: 2
  + limits.window: 1m
~ the order of the rules";
        assert_eq!(lines, want.lines().collect::<Vec<_>>());
    }

    #[test]
    fn another_spelling_or_format_of_the_same_rules_is_no_difference() {
        let toml = Source {
            name: "t.toml".to_owned(),
            text: "[[rules]]\nname = 'a'\nlimits = {requests = 1, window = '1m'}\n".to_owned(),
            format: Format::Toml,
        };
        let old = yaml("# a note\nrules: [{name: \"a\", limits: {requests: 1, window: 1m}}]\n");
        assert_eq!(between(&old, &[toml]), Vec::<String>::new());
    }
}
