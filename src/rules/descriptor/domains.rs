#[cfg(test)]
use std::borrow::Cow;
use std::collections::HashMap;

use super::Descriptor;
use super::entry::{Entry, Values};
use crate::rules::path;

type Map<V> = HashMap<Box<str>, V, foldhash::fast::RandomState>;

/// Finds the rule for a descriptor, at a cost that depends on its entries and not on how
/// many rules there are: one tree for each domain, an entry a step.
///
/// The nodes lie in one vector, so that a deep descriptor cannot exhaust the stack.
#[derive(Debug, Default)]
pub(in crate::rules) struct Domains {
    /// The root of each.
    roots: Map<usize>,
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    /// The rule whose entries end here.
    rule: Option<usize>,
    // Keys and values are the operator's, so they cannot be made to collide from outside.
    keys: Map<Branch>,
}

/// The ways on from a node by the values of one key.
#[derive(Debug, Default)]
struct Branch {
    one: Map<Way>,
    /// `None` where there is no wildcard.
    starts: Option<Box<Starts>>,
    any: Option<Way>,
    /// Whether any of them compares values as paths.
    with_paths: bool,
}

/// Ways by the beginning of a value.
#[derive(Debug, Default)]
struct Starts {
    /// Each with its place in the order of the files.
    by_text: Map<(usize, Way)>,
    /// The lengths of all beginnings, each once, ascending.
    lengths: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    to: usize,
    as_path: bool,
}

impl Domains {
    /// Adds `domain`, and the place of `entries` in it: descriptors with just these entries
    /// are for `rule`, or for none although others would match them less exactly. Of two
    /// wildcards that match, the one that was added first is taken.
    pub(in crate::rules) fn add(&mut self, domain: &str, entries: &[Entry], rule: Option<usize>) {
        let new = self.nodes.len();
        let mut at = *self.roots.entry(domain.into()).or_insert(new);
        self.grow(at);
        for entry in entries {
            let new = self.nodes.len();
            let branch = self.nodes[at].keys.entry(entry.key.clone()).or_default();
            at = branch.way(entry, new);
            self.grow(at);
        }
        if let Some(node) = self.nodes.get_mut(at)
            && rule.is_some()
        {
            node.rule = rule;
        }
    }

    /// Makes the node `at`, if it is the next.
    fn grow(&mut self, at: usize) {
        if at == self.nodes.len() {
            self.nodes.push(Node::default());
        }
    }

    pub(super) fn has(&self, domain: &str) -> bool {
        self.roots.contains_key(domain)
    }

    /// The rule for `descriptor`.
    pub(super) fn find(&self, descriptor: &Descriptor<'_>) -> Option<usize> {
        let mut at = *self.roots.get(descriptor.domain)?;
        for (key, value) in descriptor.entries {
            at = self.nodes[at].keys.get(*key)?.find(value)?;
        }
        self.nodes[at].rule
    }
}

impl Branch {
    /// Where the way of `entry` leads: to `new` if there is none yet.
    fn way(&mut self, entry: &Entry, new: usize) -> usize {
        let as_path = entry.as_path;
        self.with_paths |= as_path;
        let way = Way { to: new, as_path };
        match &entry.values {
            Values::Any => self.any.get_or_insert(way).to,
            Values::One(value) => self.one.entry(value.clone()).or_insert(way).to,
            Values::Start { start, .. } => {
                let starts = self.starts.get_or_insert_default();
                if let Err(place) = starts.lengths.binary_search(&start.len()) {
                    starts.lengths.insert(place, start.len());
                }
                let order = starts.by_text.len();
                let known = starts.by_text.entry(start.clone()).or_insert((order, way));
                // Gateways send the text of a wildcard, too: that is no less exact than another.
                self.one
                    .entry(format!("{start}*").into())
                    .or_insert(known.1);
                known.1.to
            }
        }
    }

    #[inline]
    fn find(&self, value: &str) -> Option<usize> {
        if let Some(way) = self.one.get(value) {
            return Some(way.to);
        }
        if self.with_paths || self.starts.is_some() {
            return self.find_by_more(value);
        }
        self.any.map(|way| way.to)
    }

    fn find_by_more(&self, value: &str) -> Option<usize> {
        let path = self.with_paths.then(|| path::normalise(value));
        let path = path.as_deref();
        let as_path = path.and_then(|path| self.one.get(path));
        if let Some(way) = as_path.filter(|way| way.as_path) {
            return Some(way.to);
        }
        let starts = self.starts.as_ref();
        let start = starts.and_then(|starts| starts.find(value, path));
        start.or(self.any).map(|way| way.to)
    }
}

impl Starts {
    /// The first that `value` begins with, or `path`, which is the value as a path.
    fn find(&self, value: &str, path: Option<&str>) -> Option<Way> {
        let plain = self.all(value).filter(|(_, way)| !way.as_path);
        let paths = path.into_iter().flat_map(|path| self.all(path));
        let paths = paths.filter(|(_, way)| way.as_path);
        let first = plain.chain(paths).min_by_key(|(order, _)| *order);
        first.map(|(_, way)| way)
    }

    fn all(&self, value: &str) -> impl Iterator<Item = (usize, Way)> {
        let lengths = self.lengths.iter();
        let lengths = lengths.take_while(|length| **length <= value.len());
        lengths.filter_map(move |length| Some(*self.by_text.get(value.get(..*length)?)?))
    }
}

/// Whether `value` is one for `entry`, by the plain meaning of the words.
#[cfg(test)]
pub(super) fn is_for(entry: &Entry, value: &str) -> bool {
    let value: Cow<'_, str> = if entry.as_path {
        path::normalise(value)
    } else {
        value.into()
    };
    match &entry.values {
        Values::Any => true,
        Values::One(one) => *value == **one,
        Values::Start { start, .. } => value.starts_with(&**start),
    }
}
