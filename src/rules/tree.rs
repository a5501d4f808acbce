//! What a rule file says, whatever its format: a tree of values that know their
//! place in the text.

mod toml;
mod yaml;

use super::fault::{At, Problem, quote};
use super::source::Format;

/// How deep a file may nest. Rules need eight.
const MAX_DEPTH: usize = 64;

/// One value and where it begins.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: At,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Certainly text.
    Text(String),
    /// A number, a boolean, or a word without quotes that some YAML readers take
    /// for one, as it is written.
    Bare(String),
    Null,
    List(Vec<Node>),
    /// In the order of the file; names may repeat.
    Map(Vec<(Name, Node)>),
}

/// The name of a value in a map.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(super) at: At,
    /// `Err` describes what stands there instead of text.
    pub(crate) text: Result<String, String>,
}

impl Node {
    /// The value in words, for faults.
    pub(super) fn describe(&self) -> String {
        match &self.value {
            Value::Text(text) => quote(text),
            // Without the quotes that were not there.
            Value::Bare(text) => quote(text).trim_matches('"').to_owned(),
            Value::Null => "nothing (null)".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }
}

/// Reads `text` into a tree; an empty file is [`Value::Null`].
///
/// # Errors
/// What is wrong, and where: at least one fault.
pub(super) fn parse(text: &str, format: Format) -> Result<Node, Vec<(At, Problem)>> {
    // An editor's byte order mark is no part of the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(Node {
            at: At::START,
            value: Value::Null,
        });
    }
    match format {
        Format::Yaml => yaml::parse(text).map_err(|fault| vec![fault]),
        Format::Json => yaml::parse_json(text).map_err(|fault| vec![fault]),
        Format::Toml => toml::parse(text),
    }
}

/// The whole number that `text` is the one plain spelling of: digits without sign,
/// fraction, exponent, separators or leading zeros. `None` if it is none, or does
/// not fit.
pub(super) fn whole_number(text: &str) -> Option<u64> {
    if is_plain_number(text) {
        text.parse().ok()
    } else {
        None
    }
}

/// Whether `text` is a plain whole number, of any size.
pub(super) fn is_plain_number(text: &str) -> bool {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits && (text == "0" || !text.starts_with('0'))
}
