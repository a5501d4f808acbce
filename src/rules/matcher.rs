use std::collections::HashMap;

use memchr::memchr;
use smallvec::SmallVec;

use super::pattern::{Pattern, Segment};

/// Finds the rules for a method and path, at a cost that depends on the path and
/// on how many rules match, not on how many there are: a trie of path segments.
///
/// The nodes lie in one vector, so that a deep pattern cannot exhaust the stack.
#[derive(Debug, Default)]
pub(super) struct Matcher {
    /// The first is the root; empty without any rule.
    nodes: Vec<Node>,
    /// All methods that rules name, in upper case: a [`MethodId`] is an index.
    methods: Vec<Box<str>>,
}

type MethodId = usize;

#[derive(Debug, Default)]
struct Node {
    // The segments are the operator's, so they cannot be made to collide from outside.
    exact: HashMap<Box<str>, usize, foldhash::fast::RandomState>,
    any: Option<usize>,
    /// The rules whose pattern ends here.
    here: Rules,
    /// The rules for this path and all below it.
    tail: Rules,
}

/// Rules by method.
#[derive(Debug, Default)]
struct Rules {
    every: Vec<usize>,
    by_method: Vec<(MethodId, Vec<usize>)>,
}

/// The indices of matching rules, in ascending order.
pub(super) type Matches = SmallVec<[usize; 8]>;

impl Matcher {
    /// Adds the rule numbered `rule`. Without `methods` it is for all of them;
    /// methods are in upper case.
    pub(super) fn add(&mut self, rule: usize, pattern: &Pattern, methods: &[Box<str>]) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        for segment in &pattern.segments {
            let new = self.nodes.len();
            let node = &mut self.nodes[at];
            at = match segment {
                Segment::Exact(text) => *node.exact.entry(text.clone()).or_insert(new),
                Segment::Any => *node.any.get_or_insert(new),
            };
            if at == new {
                self.nodes.push(Node::default());
            }
        }
        let ids: Vec<MethodId> = methods.iter().map(|method| self.intern(method)).collect();
        let node = &mut self.nodes[at];
        let rules = if pattern.tail {
            &mut node.tail
        } else {
            &mut node.here
        };
        rules.add(rule, &ids);
    }

    fn intern(&mut self, method: &str) -> MethodId {
        self.method(method).unwrap_or_else(|| {
            self.methods.push(method.into());
            self.methods.len() - 1
        })
    }

    fn method(&self, method: &str) -> Option<MethodId> {
        let mut all = self.methods.iter();
        all.position(|known| known.eq_ignore_ascii_case(method))
    }

    /// The rules for `method` (in any case) on `path`, which must be normal.
    pub(super) fn find(&self, method: &str, path: &str) -> Matches {
        let mut found = Matches::new();
        if self.nodes.is_empty() {
            return found;
        }
        let mut methods = [self.method(method), None];
        if method.eq_ignore_ascii_case("HEAD") {
            methods[1] = self.method("GET");
        }
        let rest = path.strip_prefix('/').unwrap_or(path);
        // Nodes yet to visit, each with what is left of the path there.
        let mut open: SmallVec<[(usize, &str); 8]> = SmallVec::new();
        open.push((0, rest));
        while let Some((at, rest)) = open.pop() {
            let node = &self.nodes[at];
            node.tail.find(methods, &mut found);
            if rest.is_empty() {
                node.here.find(methods, &mut found);
                continue;
            }
            let (segment, rest) = match memchr(b'/', rest.as_bytes()) {
                Some(slash) => (&rest[..slash], &rest[slash + 1..]),
                None => (rest, ""),
            };
            open.extend(node.exact.get(segment).map(|at| (*at, rest)));
            open.extend(node.any.map(|at| (at, rest)));
        }
        found.sort_unstable();
        found
    }
}

impl Rules {
    fn add(&mut self, rule: usize, methods: &[MethodId]) {
        if methods.is_empty() {
            self.every.push(rule);
        }
        for &id in methods {
            match self.by_method.iter_mut().find(|(known, _)| *known == id) {
                Some((_, rules)) => rules.push(rule),
                None => self.by_method.push((id, vec![rule])),
            }
        }
    }

    /// Adds the rules for every method, and those for the first of `methods` that
    /// any rule here names: HEAD counts as GET where none names HEAD.
    fn find(&self, methods: [Option<MethodId>; 2], found: &mut Matches) {
        found.extend_from_slice(&self.every);
        let of = |id| self.by_method.iter().find(|(known, _)| *known == id);
        if let Some((_, rules)) = methods.into_iter().flatten().find_map(of) {
            found.extend_from_slice(rules);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rules::path::normalise;

    fn matcher(rules: &[(&str, &[&str])]) -> Matcher {
        let mut matcher = Matcher::default();
        for (i, (pattern, methods)) in rules.iter().enumerate() {
            let methods: Vec<Box<str>> = methods.iter().map(|m| (*m).into()).collect();
            matcher.add(i, &Pattern::parse(pattern).unwrap(), &methods);
        }
        matcher
    }

    fn find(matcher: &Matcher, method: &str, path: &str) -> Vec<usize> {
        matcher.find(method, path).into_vec()
    }

    #[test]
    fn all_patterns_that_match_do_so_in_the_order_of_the_rules() {
        let m = matcher(&[
            ("/a/**", &[]),
            ("/a/{id}", &[]),
            ("/a/b", &[]),
            ("/**", &[]),
            ("/a/{id}/c", &[]),
            ("/a/b/{x}", &[]),
            ("/", &[]),
        ]);
        assert_eq!(find(&m, "GET", "/a/b"), [0, 1, 2, 3]);
        assert_eq!(find(&m, "GET", "/a/z"), [0, 1, 3]);
        assert_eq!(find(&m, "GET", "/a"), [0, 3]);
        assert_eq!(find(&m, "GET", "/a/b/c"), [0, 3, 4, 5]);
        assert_eq!(find(&m, "GET", "/a/b/c/d"), [0, 3]);
        assert_eq!(find(&m, "GET", "/A/b"), [3]);
        assert_eq!(find(&m, "GET", "/"), [3, 6]);
    }

    #[test]
    fn characters_of_regular_expressions_are_literal() {
        let m = matcher(&[("/v1.0/*", &[]), ("/a+b", &[])]);
        assert_eq!(find(&m, "GET", "/v1.0/a"), [0]);
        assert_eq!(find(&m, "GET", "/v1x0/a"), [0_usize; 0]);
        assert_eq!(find(&m, "GET", "/aab"), [0_usize; 0]);
        assert_eq!(find(&m, "GET", "/a+b"), [1]);
    }

    #[test]
    fn methods_select_in_any_case() {
        let m = matcher(&[("/a", &["POST"]), ("/a", &["GET", "PUT"]), ("/a", &[])]);
        assert_eq!(find(&m, "post", "/a"), [0, 2]);
        assert_eq!(find(&m, "PUT", "/a"), [1, 2]);
        assert_eq!(find(&m, "DELETE", "/a"), [2]);
        assert_eq!(find(&m, "", "/a"), [2]);
    }

    #[test]
    fn head_counts_as_get_unless_a_rule_names_it() {
        let m = matcher(&[("/a", &["GET"]), ("/b", &["GET"]), ("/b", &["HEAD"])]);
        assert_eq!(find(&m, "HEAD", "/a"), [0]);
        assert_eq!(find(&m, "head", "/b"), [2]);
        assert_eq!(find(&m, "GET", "/b"), [1]);
    }

    #[test]
    fn no_rule_matches_in_an_empty_matcher() {
        assert!(Matcher::default().find("GET", "/a").is_empty());
    }

    /// The plain meaning of patterns, one at a time.
    fn matches(pattern: &Pattern, path: &str) -> bool {
        let path: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
        let long_enough = if pattern.tail {
            path.len() >= pattern.segments.len()
        } else {
            path.len() == pattern.segments.len()
        };
        long_enough
            && pattern
                .segments
                .iter()
                .zip(&path)
                .all(|(segment, at)| match segment {
                    Segment::Exact(text) => **text == **at,
                    Segment::Any => true,
                })
    }

    proptest! {
        #[test]
        fn the_trie_finds_what_trying_each_pattern_finds(
            patterns in prop::collection::vec("(/(a|b|\\*|:x)){0,4}(/\\*\\*)?", 0..12),
            path in "(/(a|b|c)){0,5}/?",
        ) {
            let patterns: Vec<Pattern> = patterns
                .iter()
                .map(|text| Pattern::parse(if text.is_empty() { "/" } else { text }).unwrap())
                .collect();
            let mut trie = Matcher::default();
            for (i, pattern) in patterns.iter().enumerate() {
                trie.add(i, pattern, &[]);
            }
            let path = normalise(&path);
            let expected: Vec<usize> =
                (0..patterns.len()).filter(|i| matches(&patterns[*i], &path)).collect();
            prop_assert_eq!(trie.find("GET", &path).into_vec(), expected);
        }
    }
}
