use std::borrow::Cow;
use std::sync::OnceLock;

use super::many::Many;
use crate::rules::path;

/// One entry of a rule for descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::rules) struct Entry {
    pub(in crate::rules) key: Box<str>,
    pub(in crate::rules) values: Values,
    /// Whether values are compared and counted as paths are, without their query.
    pub(in crate::rules) as_path: bool,
}

/// The values that an entry of a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::rules) enum Values {
    /// Any, each counted on its own.
    Any,
    /// This one.
    One(Box<str>),
    /// All that begin so.
    Start {
        start: Box<str>,
        /// Whether all are counted as one.
        shared: bool,
    },
}

/// What only rules for descriptors have.
#[derive(Debug)]
pub(in crate::rules) struct ByDescriptor {
    pub(in crate::rules) domain: Box<str>,
    pub(in crate::rules) entries: Vec<Entry>,
    /// The name by which other rules replace it.
    pub(in crate::rules) called: Option<Box<str>>,
    /// The names of those that it replaces.
    pub(in crate::rules) replaces: Vec<Box<str>>,
    pub(in crate::rules) is_quota: bool,
    /// Made when the first path with a query comes.
    pub(in crate::rules) many: OnceLock<Box<Many>>,
}

impl Entry {
    /// The value that is counted where `value` was asked about.
    pub(super) fn counted<'v>(&'v self, value: &'v str) -> Cow<'v, str> {
        match &self.values {
            Values::Start {
                start,
                shared: true,
            } => format!("{start}*").into(),
            _ if self.as_path => path::normalise(value),
            _ => value.into(),
        }
    }

    /// Whether it is for `value`, where no other entry is.
    pub(super) fn holds(&self, value: &str) -> bool {
        let spelled = match self.as_path {
            true => path::normalise(value),
            false => value.into(),
        };
        match &self.values {
            Values::Any => true,
            Values::One(one) => **one == *spelled,
            Values::Start { start, .. } => spelled.starts_with(&**start),
        }
    }

    /// Whether each value that may come has a counter of its own.
    pub(super) fn is_open(&self) -> bool {
        match self.values {
            Values::Any => true,
            Values::One(_) => false,
            Values::Start { shared, .. } => !shared,
        }
    }
}

impl Values {
    /// As files state them; `None` where they state nothing.
    pub(in crate::rules) fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Values::Any => None,
            Values::One(value) => Some((&**value).into()),
            Values::Start { start, .. } => Some(format!("{start}*").into()),
        }
    }

    /// One of them.
    pub(super) fn example(&self) -> Cow<'_, str> {
        match self {
            Values::Any => "alice".into(),
            Values::One(value) => (&**value).into(),
            Values::Start { start, .. } => format!("{start}1").into(),
        }
    }
}

impl ByDescriptor {
    /// The rule for descriptors with these `entries` in `domain`.
    pub(in crate::rules) fn new(domain: &str, entries: Vec<Entry>) -> ByDescriptor {
        ByDescriptor {
            domain: domain.into(),
            entries,
            called: None,
            replaces: Vec::new(),
            is_quota: false,
            many: OnceLock::new(),
        }
    }

    /// Takes note of values that look like paths with a query, each of which is counted on
    /// its own.
    pub(super) fn note(&self, entries: &[(&str, &str)]) {
        for (entry, (_, value)) in self.entries.iter().zip(entries) {
            if value.starts_with('/') && !entry.as_path && entry.is_open() && value.contains('?') {
                self.many.get_or_init(Box::default).note(value);
            }
        }
    }
}
