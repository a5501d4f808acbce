//! A config file as a flat list of what is written in it, each with its place.

use std::sync::Arc;

use super::fault::{Fault, Place};
use super::value::Scalar;
use crate::rules::{self, At, Node, Source, Value};

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

/// Reads the top level of a file.
///
/// # Errors
/// What breaks the grammar, and keys that come twice.
pub(super) fn entries(source: &Source) -> Result<Vec<Entry>, Vec<Fault>> {
    let file: Arc<str> = source.name.as_str().into();
    let place = |at: At| Place::File {
        file: Arc::clone(&file),
        at,
    };
    let fields = rules::top_level(source)
        .map_err(|faults| faults.0.into_iter().map(Fault::from).collect::<Vec<_>>())?;
    let entry = |(key, at, node): (String, At, Node)| Entry {
        key,
        place: place(at),
        written: match node.value {
            Value::Null => Written::Null,
            Value::Map(_) => Written::Map,
            Value::Text(text) => Written::One(Scalar::text(text, place(node.at))),
            Value::Bare(text) => Written::One(Scalar::bare(text, place(node.at))),
            Value::List(items) => Written::List(
                items
                    .into_iter()
                    .map(|item| match item.value {
                        Value::Text(text) => Element::Scalar(Scalar::text(text, place(item.at))),
                        Value::Bare(text) => Element::Scalar(Scalar::bare(text, place(item.at))),
                        _ => Element::Nested(place(item.at)),
                    })
                    .collect(),
            ),
        },
    };
    Ok(fields.into_iter().map(entry).collect())
}
