//! A config file as a flat list of what is written in it, each with its place.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::fault::{Fault, Place};
use super::value::{Kind, Scalar};

/// One top-level key of a file.
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) written: Written,
}

/// What stands at a key.
pub(super) enum Written {
    /// Nothing: the same as leaving the key out.
    Null,
    One(Scalar),
    List(Vec<Element>),
    Map,
}

/// One element of a list.
pub(super) enum Element {
    Scalar(Scalar),
    /// A null, list or map.
    Nested(Place),
}

/// The formats of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// YAML 1.2.
    Yaml,
    /// TOML 1.0.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// The format that the end of a file's name says; `None` for any other.
    pub fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "yaml" | "yml" => Some(Format::Yaml),
            "toml" => Some(Format::Toml),
            "json" => Some(Format::Json),
            _ => None,
        }
    }
}

/// Reads the top level of a file.
///
/// # Errors
/// [`Fault::Syntax`] if it breaks the grammar or repeats a key.
pub(super) fn entries(file: &Arc<Path>, text: &str, format: Format) -> Result<Vec<Entry>, Fault> {
    match format {
        // JSON is YAML, and the YAML reader knows its lines.
        Format::Yaml | Format::Json => yaml(file, text),
        Format::Toml => toml(file, text),
    }
}

fn place(file: &Arc<Path>, line: u64, column: u64) -> Place {
    Place::File {
        file: Arc::clone(file),
        line,
        column,
    }
}

/// A value before it knows its place.
enum Raw {
    Null,
    Scalar(String, Kind),
    List(Vec<Spanned<Raw>>),
    Map,
}

fn yaml(file: &Arc<Path>, text: &str) -> Result<Vec<Entry>, Fault> {
    let at = |location: serde_saphyr::Location| place(file, location.line(), location.column());
    let options = serde_saphyr::options! { with_snippet: false };
    let map: Option<IndexMap<Spanned<String>, Spanned<Raw>>> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| Fault::Syntax {
            place: error.location().map_or_else(|| place(file, 0, 0), at),
            message: without_place(&error.to_string()),
        })?;
    let entry = |(key, value): (Spanned<String>, Spanned<Raw>)| Entry {
        place: at(key.referenced),
        key: key.value,
        written: match value.value {
            Raw::Null => Written::Null,
            Raw::Map => Written::Map,
            Raw::Scalar(text, kind) => Written::One(Scalar {
                text,
                kind,
                place: at(value.referenced),
            }),
            Raw::List(items) => Written::List(
                items
                    .into_iter()
                    .map(|item| match item.value {
                        Raw::Scalar(text, kind) => Element::Scalar(Scalar {
                            text,
                            kind,
                            place: at(item.referenced),
                        }),
                        _ => Element::Nested(at(item.referenced)),
                    })
                    .collect(),
            ),
        },
    };
    Ok(map.unwrap_or_default().into_iter().map(entry).collect())
}

/// The message without the place, which is told in the project's own form.
fn without_place(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    first.split(" at line ").next().unwrap_or(first).to_owned()
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_unit<E>(self) -> Result<Raw, E> {
                Ok(Raw::Null)
            }
            fn visit_none<E>(self) -> Result<Raw, E> {
                Ok(Raw::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
                Ok(Raw::Scalar(value.to_string(), Kind::Ambiguous))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
                Ok(Raw::Scalar(value.to_string(), Kind::Integer))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
                Ok(Raw::Scalar(value.to_string(), Kind::Integer))
            }
            fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
                Ok(Raw::Scalar(value.to_string(), Kind::Integer))
            }
            fn visit_u128<E>(self, value: u128) -> Result<Raw, E> {
                Ok(Raw::Scalar(value.to_string(), Kind::Integer))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
                Ok(Raw::Scalar(format!("{value:?}"), Kind::Ambiguous))
            }
            fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
                Ok(Raw::Scalar(value.to_owned(), Kind::Text))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Raw::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Raw::Map)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

fn toml(file: &Arc<Path>, text: &str) -> Result<Vec<Entry>, Fault> {
    let at = |span: Range<usize>| {
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        place(file, line as u64, column as u64)
    };
    let map: IndexMap<toml::Spanned<String>, toml::Spanned<toml::Value>> = toml::from_str(text)
        .map_err(|error: toml::de::Error| Fault::Syntax {
            place: error.span().map_or_else(|| place(file, 0, 0), at),
            message: error.message().to_owned(),
        })?;
    let entry = |(key, value): (toml::Spanned<String>, toml::Spanned<toml::Value>)| {
        let here = at(value.span());
        Entry {
            place: at(key.span()),
            key: key.into_inner(),
            written: match value.into_inner() {
                toml::Value::Table(_) => Written::Map,
                toml::Value::Array(items) => Written::List(
                    items
                        .into_iter()
                        .map(|item| match item {
                            toml::Value::Table(_) | toml::Value::Array(_) => {
                                Element::Nested(here.clone())
                            }
                            value => Element::Scalar(toml_scalar(value, here.clone())),
                        })
                        .collect(),
                ),
                value => Written::One(toml_scalar(value, here)),
            },
        }
    };
    Ok(map.into_iter().map(entry).collect())
}

fn toml_scalar(value: toml::Value, place: Place) -> Scalar {
    let (text, kind) = match value {
        toml::Value::String(text) => (text, Kind::Text),
        toml::Value::Integer(number) => (number.to_string(), Kind::Integer),
        other => (other.to_string(), Kind::Ambiguous),
    };
    Scalar { text, kind, place }
}
