use std::collections::HashMap;

use granit_parser::{Event, Options, Parser, ScalarStyle};

use super::super::fault::{At, Problem, quote};
use super::{MAX_DEPTH, Name, Node, Value, is_plain_number};

/// How much the aliases of one file may repeat, as [`measure`] counts it: enough
/// for ten thousand rules that share their limits.
const MAX_REPEATED: usize = 250_000;

/// Reads YAML.
pub(super) fn parse(text: &str) -> Result<Node, (At, Problem)> {
    build(text, Options::default())
}

/// Reads JSON: strictly, by a parser of JSON, and then for its places once more as
/// the YAML that all JSON is.
pub(super) fn parse_json(text: &str) -> Result<Node, (At, Problem)> {
    // Its own value type is what gives its best messages; the value is not needed.
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        let at = At {
            line: error.line().max(1),
            column: error.column().max(1),
        };
        // The place is said already, in our own way.
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message);
        return Err((at, Problem::Syntax(format!("not JSON: {message}"))));
    }
    let mut options = Options::default();
    options.simple_key_max_lookahead = text.len();
    build(text, options)
}

/// A list or map that is not yet complete.
struct Open {
    at: At,
    anchor: usize,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    Map(Vec<(Name, Node)>, Option<Name>),
}

/// A finished value that aliases may repeat.
struct Anchored {
    node: Node,
    size: usize,
    depth: usize,
}

fn build(text: &str, mut options: Options) -> Result<Node, (At, Problem)> {
    options.set_emit_comments(false);
    let mut open: Vec<Open> = Vec::new();
    let mut anchors: HashMap<usize, Anchored> = HashMap::new();
    let mut repeated = 0_usize;
    let mut root = None;
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| {
            let mark = error.marker();
            let at = place(mark.line(), mark.col());
            (at, Problem::Syntax(format!("not YAML: {}", error.info())))
        })?;
        let at = place(span.start.line(), span.start.col());
        if let Some(tag) = event.tag() {
            return Err((at, Problem::Tag(quote(&tag.to_string()))));
        }
        let (node, anchor) = match event {
            Event::DocumentStart(..) if root.is_some() => {
                return Err((at, Problem::SecondDocument));
            }
            Event::Scalar(text, style, anchor, _) => {
                let value = scalar(&text, style);
                (Node { at, value }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let items = Items::List(Vec::new());
                start(&mut open, Open { at, anchor, items })?;
                continue;
            }
            Event::MappingStart(_, anchor, _) => {
                let items = Items::Map(Vec::new(), None);
                start(&mut open, Open { at, anchor, items })?;
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(closed) = open.pop() else { continue };
                let value = match closed.items {
                    Items::List(items) => Value::List(items),
                    Items::Map(entries, _) => Value::Map(entries),
                };
                let at = closed.at;
                (Node { at, value }, closed.anchor)
            }
            Event::Alias(anchor) => {
                // An alias within its own anchor finds nothing yet.
                let Some(target) = anchors.get(&anchor) else {
                    let text = "an alias cannot repeat what it is a part of".to_owned();
                    return Err((at, Problem::Syntax(text)));
                };
                repeated = repeated.saturating_add(target.size);
                if repeated > MAX_REPEATED {
                    return Err((at, Problem::TooManyAliases));
                }
                if open.len() + target.depth > MAX_DEPTH {
                    return Err((at, Problem::TooDeep(MAX_DEPTH)));
                }
                (target.node.clone(), 0)
            }
            _ => continue,
        };
        if anchor != 0 {
            let (size, depth) = measure(&node);
            // What is anchored is kept twice, so it counts like a repetition.
            repeated = repeated.saturating_add(size);
            if repeated > MAX_REPEATED {
                return Err((at, Problem::TooManyAliases));
            }
            let node = node.clone();
            let anchored = Anchored { node, size, depth };
            anchors.insert(anchor, anchored);
        }
        match open.last_mut().map(|open| &mut open.items) {
            None => root = Some(node),
            Some(Items::List(items)) => items.push(node),
            Some(Items::Map(entries, name)) => match name.take() {
                None => *name = Some(name_of(node)),
                Some(name) => entries.push((name, node)),
            },
        }
    }
    Ok(root.unwrap_or(Node {
        at: At::START,
        value: Value::Null,
    }))
}

fn start(open: &mut Vec<Open>, opened: Open) -> Result<(), (At, Problem)> {
    if open.len() >= MAX_DEPTH {
        return Err((opened.at, Problem::TooDeep(MAX_DEPTH)));
    }
    open.push(opened);
    Ok(())
}

/// The parser counts lines from 1 and columns from 0.
fn place(line: usize, column: usize) -> At {
    At {
        line: line.max(1),
        column: column.saturating_add(1),
    }
}

/// How large `node` is (its values, and a further one for each 32 bytes of text),
/// and how deep it nests.
fn measure(node: &Node) -> (usize, usize) {
    let text = |text: &str| 1 + text.len() / 32;
    let inside = |all: (usize, usize), one: (usize, usize)| (all.0 + one.0, all.1.max(one.1 + 1));
    match &node.value {
        Value::Null => (1, 0),
        Value::Text(value) | Value::Bare(value) => (text(value), 0),
        Value::List(items) => items.iter().map(measure).fold((1, 1), inside),
        Value::Map(entries) => entries
            .iter()
            .map(|(name, node)| {
                let (Ok(name) | Err(name)) = &name.text;
                let (size, depth) = measure(node);
                (size + text(name), depth)
            })
            .fold((1, 1), inside),
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        Value::Text(text.to_owned())
    } else if matches!(text, "" | "~" | "null" | "Null" | "NULL") {
        Value::Null
    } else if is_ambiguous(text) {
        Value::Bare(text.to_owned())
    } else {
        Value::Text(text.to_owned())
    }
}

/// Whether some reader of YAML (1.1 or 1.2) takes the unquoted `text` for a number,
/// a boolean or a date. Errs on the side of asking for quotes.
fn is_ambiguous(text: &str) -> bool {
    const WORDS: [&str; 10] = [
        "true", "false", "yes", "no", "on", "off", "y", "n", ".nan", ".inf",
    ];
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if WORDS.iter().any(|word| unsigned.eq_ignore_ascii_case(word)) {
        return true;
    }
    let lower = unsigned.to_ascii_lowercase();
    if let Some(digits) = ["0x", "0o", "0b"]
        .iter()
        .find_map(|p| lower.strip_prefix(p))
    {
        return digits.bytes().all(|b| b.is_ascii_hexdigit() || b == b'_');
    }
    let first = unsigned.trim_start_matches('.').bytes().next();
    first.is_some_and(|b| b.is_ascii_digit())
        && lower
            .bytes()
            .all(|b| b.is_ascii_digit() || b"_.:e+-".contains(&b))
}

fn name_of(node: Node) -> Name {
    let text = match node.value {
        Value::Text(text) => Ok(text),
        Value::Bare(text) if is_plain_number(&text) => Ok(text),
        _ => Err(node.describe()),
    };
    Name { at: node.at, text }
}
