use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml_parser::lexer::TokenKind;

use super::super::fault::{At, Problem};
use super::{MAX_DEPTH, Name, Node, Value};

/// How many parts a dotted key may have: its tables nest without any bracket, so
/// that the parser's own bound does not see them.
const MAX_DOTS: usize = 16;

/// Reads TOML. The parser goes on after a fault, so there may be several.
pub(super) fn parse(text: &str) -> Result<Node, Vec<(At, Problem)>> {
    let lines = Lines::new(text);
    if let Some(offset) = overlong_key(text) {
        return Err(vec![(lines.at(offset), Problem::TooDeep(MAX_DOTS))]);
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        let reader = Reader { text, lines };
        return reader
            .table(At::START, table.get_ref(), 0)
            .map_err(|fault| vec![fault]);
    }
    Err(errors
        .iter()
        .map(|error| {
            let at = lines.at(error.span().map_or(0, |span| span.start));
            (
                at,
                Problem::Syntax(format!("not TOML: {}", error.message())),
            )
        })
        .collect())
}

/// Where a key begins to have too many parts.
fn overlong_key(text: &str) -> Option<usize> {
    let mut dots = 0;
    for token in toml_parser::Source::new(text).lex() {
        match token.kind() {
            TokenKind::Dot => dots += 1,
            TokenKind::Newline | TokenKind::Equals | TokenKind::Comma => dots = 0,
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => dots = 0,
            _ => {}
        }
        if dots > MAX_DOTS {
            return Some(token.span().start());
        }
    }
    None
}

struct Reader<'t> {
    text: &'t str,
    lines: Lines<'t>,
}

impl Reader<'_> {
    fn table(&self, at: At, table: &DeTable<'_>, depth: usize) -> Result<Node, (At, Problem)> {
        let mut entries = Vec::with_capacity(table.len());
        for (key, value) in table {
            let name = Name {
                at: self.lines.at(key.span().start),
                text: Ok(key.get_ref().clone().into_owned()),
            };
            entries.push((name, self.node(value, depth + 1)?));
        }
        let value = Value::Map(entries);
        Ok(Node { at, value })
    }

    fn node(&self, value: &Spanned<DeValue<'_>>, depth: usize) -> Result<Node, (At, Problem)> {
        let span = value.span();
        let at = self.lines.at(span.start);
        if depth > MAX_DEPTH {
            return Err((at, Problem::TooDeep(MAX_DEPTH)));
        }
        let value = match value.get_ref() {
            DeValue::Table(table) => return self.table(at, table, depth),
            DeValue::Array(items) => {
                let items = items.iter().map(|item| self.node(item, depth + 1));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            DeValue::String(text) => Value::Text(text.clone().into_owned()),
            // As written: 0x10 and 1_000 must not pass for plain numbers.
            _ => Value::Bare(self.text.get(span).unwrap_or_default().to_owned()),
        };
        Ok(Node { at, value })
    }
}

/// Finds lines and columns by offset, in time that no length of a line changes.
struct Lines<'t> {
    text: &'t [u8],
    starts: Vec<usize>,
    /// The number of characters before each block of the text.
    chars: Vec<usize>,
}

const BLOCK: usize = 1024;

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Lines<'t> {
        let text = text.as_bytes();
        let breaks = memchr::memchr_iter(b'\n', text).map(|at| at + 1);
        let starts = std::iter::once(0).chain(breaks).collect();
        let mut chars = vec![0];
        let mut before = 0;
        for block in text.chunks(BLOCK) {
            before += count_chars(block);
            chars.push(before);
        }
        Lines {
            text,
            starts,
            chars,
        }
    }

    fn at(&self, offset: usize) -> At {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let before = self.chars_before(offset) - self.chars_before(self.starts[line - 1]);
        At {
            line,
            column: before + 1,
        }
    }

    fn chars_before(&self, offset: usize) -> usize {
        let block = offset / BLOCK;
        self.chars[block] + count_chars(&self.text[block * BLOCK..offset])
    }
}

/// The number of characters that begin in `text`, which is UTF-8.
fn count_chars(text: &[u8]) -> usize {
    text.iter().filter(|b| (**b & 0xc0) != 0x80).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_are_what_counting_finds(text in "[a\né€]{0,3000}", at in any::<prop::sample::Index>()) {
            let offsets: Vec<usize> = (0..=text.len()).filter(|i| text.is_char_boundary(*i)).collect();
            let offset = offsets[at.index(offsets.len())];
            let last = text[..offset].rsplit('\n').next().unwrap_or_default();
            let line = text[..offset].matches('\n').count() + 1;
            let column = last.chars().count() + 1;
            prop_assert_eq!(Lines::new(&text).at(offset), At { line, column });
        }
    }
}
