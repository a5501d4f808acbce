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

/// A step down a tree: the node it leads to, and how exactly the value was meant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) to: usize,
    pub(super) fit: Fit,
}

/// How exactly a value is meant by an entry, the most exactly first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    One,
    Start,
    Any,
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
        let mut at = self.root(descriptor.domain)?;
        for (key, value) in descriptor.entries {
            at = self.step(at, key, value)?.to;
        }
        self.rule(at)
    }

    /// The root of the tree of `domain`.
    #[inline]
    pub(super) fn root(&self, domain: &str) -> Option<usize> {
        self.roots.get(domain).copied()
    }

    /// Where an entry leads from the node `at`.
    #[inline]
    pub(super) fn step(&self, at: usize, key: &str, value: &str) -> Option<Step> {
        self.nodes[at].keys.get(key)?.find(value)
    }

    /// Whether a descriptor may end at the node `at`: there is a rule for it, or the files
    /// name it without a limit, and nothing below it.
    pub(super) fn is_end(&self, at: usize) -> bool {
        let node = &self.nodes[at];
        node.rule.is_some() || node.keys.is_empty()
    }

    /// The rule whose entries end at the node `at`.
    #[inline]
    pub(super) fn rule(&self, at: usize) -> Option<usize> {
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
    fn find(&self, value: &str) -> Option<Step> {
        if let Some(way) = self.one.get(value) {
            return Some(way.step(Fit::One));
        }
        if self.with_paths || self.starts.is_some() {
            return self.find_by_more(value);
        }
        self.any.map(|way| way.step(Fit::Any))
    }

    fn find_by_more(&self, value: &str) -> Option<Step> {
        let path = self.with_paths.then(|| path::normalise(value));
        let path = path.as_deref();
        let as_path = path.and_then(|path| self.one.get(path));
        if let Some(way) = as_path.filter(|way| way.as_path) {
            return Some(way.step(Fit::One));
        }
        let starts = self.starts.as_ref();
        let start = starts.and_then(|starts| starts.find(value, path));
        let start = start.map(|way| way.step(Fit::Start));
        start.or(self.any.map(|way| way.step(Fit::Any)))
    }
}

impl Way {
    #[inline]
    const fn step(self, fit: Fit) -> Step {
        Step { to: self.to, fit }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The plain meaning: at each place the rules that are left are narrowed to those of the
    /// best entry there.
    fn plainly(rules: &[Vec<Entry>], asked: &[(String, String)]) -> Option<usize> {
        let mut left: Vec<usize> = (0..rules.len()).collect();
        for (place, (key, value)) in asked.iter().enumerate() {
            let path = path::normalise(value);
            let here = |index: &usize| rules[*index].get(place);
            let all = || {
                left.iter()
                    .filter_map(here)
                    .filter(|entry| *entry.key == **key)
            };
            let is_text = |entry: &&Entry| entry.values.text().as_deref() == Some(value);
            let is_path = |entry: &&Entry| match &entry.values {
                Values::One(one) => entry.as_path && **one == *path,
                _ => false,
            };
            let begins = |entry: &&Entry| match &entry.values {
                Values::Start { start, .. } if entry.as_path => path.starts_with(&**start),
                Values::Start { start, .. } => value.starts_with(&**start),
                _ => false,
            };
            let is_any = |entry: &&Entry| entry.values == Values::Any;
            let best = all().find(is_text).or_else(|| all().find(is_path));
            let best = best
                .or_else(|| all().find(begins))
                .or_else(|| all().find(is_any));
            let best = best?.clone();
            left.retain(|index| rules[*index].get(place) == Some(&best));
        }
        left.into_iter()
            .find(|index| rules[*index].len() == asked.len())
    }

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let values = prop::sample::select(vec!["", "/x", "/x/y", "/x?q", "/y", "/x*", "/*", "*"]);
        let entry = (prop::sample::select(vec!["a", "b"]), values).prop_map(|(key, value)| {
            let as_path = key == "b";
            let values = match value.strip_suffix('*') {
                _ if value.is_empty() => Values::Any,
                Some(start) => Values::Start {
                    start: start.into(),
                    shared: false,
                },
                None if as_path => Values::One(path::normalise(value).into()),
                None => Values::One(value.into()),
            };
            Entry {
                key: key.into(),
                values,
                as_path,
            }
        });
        prop::collection::vec(entry, 1..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn the_tree_finds_what_trying_each_rule_finds(
            all in prop::collection::vec(entries(), 0..12),
            asked in prop::collection::vec(("[ab]", "(/x|/y|/x/y|/x\\?q|//x|/x/|/x\\*|\\*|z)?"), 0..4),
        ) {
            let mut rules: Vec<Vec<Entry>> = Vec::new();
            for entries in all {
                if !rules.contains(&entries) {
                    rules.push(entries);
                }
            }
            let mut domains = Domains::default();
            for (index, entries) in rules.iter().enumerate() {
                domains.add("d", entries, Some(index));
            }
            let pairs: Vec<(&str, &str)> = asked.iter().map(|(k, v)| (&**k, &**v)).collect();
            let descriptor = Descriptor { domain: "d", entries: &pairs, stated: None };
            let expected = if asked.is_empty() { None } else { plainly(&rules, &asked) };
            prop_assert_eq!(domains.find(&descriptor), expected);
            let elsewhere = Descriptor { domain: "e", ..descriptor };
            prop_assert_eq!(domains.find(&elsewhere), None);
        }
    }
}
