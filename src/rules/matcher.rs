use std::collections::HashMap;

use memchr::memchr;
use smallvec::SmallVec;

use super::Described;
use super::pattern::{End, Pattern, Segment};
use super::when::{Field, Guard};

/// Finds the rules for a request, at a cost that depends on its path and on how many
/// rules match, not on how many there are: a trie of path segments, and at each place
/// the rules by method and by the value of a header or attribute that they ask for.
///
/// What it finds are candidates: it knows of a rule no more than where it lies and one
/// value that a request must have.
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

/// The methods that a request may count as; the first that any rule names is it.
type Methods = [Option<MethodId>; 2];

#[derive(Debug, Default)]
struct Node {
    // The segments are the operator's, so they cannot be made to collide from outside.
    exact: HashMap<Box<str>, usize, foldhash::fast::RandomState>,
    any: Option<usize>,
    /// The rules whose pattern ends here. Of these three most nodes have one at most.
    here: Option<Box<Rules>>,
    /// The rules for this path and all below it.
    tail: Option<Box<Rules>>,
    /// The rules for all paths whose next segment begins in some way.
    starts: Option<Box<Starts>>,
}

/// Rules by the beginning of a segment.
#[derive(Debug, Default)]
struct Starts {
    by_text: HashMap<Box<str>, Rules, foldhash::fast::RandomState>,
    /// The lengths of all beginnings, each once.
    lengths: Vec<usize>,
}

/// Rules by method.
#[derive(Debug, Default)]
struct Rules {
    every: Bucket,
    by_method: Vec<(MethodId, Bucket)>,
}

/// Rules by a value that requests must have, if they ask for one.
#[derive(Debug, Default)]
struct Bucket {
    plain: Vec<usize>,
    guarded: Vec<Guarded>,
}

/// Rules by the values of one header or attribute.
#[derive(Debug)]
struct Guarded {
    field: Field,
    by_value: HashMap<Box<str>, Vec<usize>, foldhash::fast::RandomState>,
}

/// The indices of matching rules, in ascending order.
pub(super) type Matches = SmallVec<[usize; 8]>;

impl Matcher {
    /// Adds the rule numbered `rule`. Without `methods` it is for all of them;
    /// methods are in upper case. It is no candidate for a request without `guard`.
    pub(super) fn add(
        &mut self,
        rule: usize,
        pattern: &Pattern,
        methods: &[Box<str>],
        guard: Option<Guard<'_>>,
    ) {
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
        let rules = match &pattern.end {
            End::Here => node.here.get_or_insert_default(),
            End::Tail => node.tail.get_or_insert_default(),
            End::Start(text) => node.starts.get_or_insert_default().at(text),
        };
        rules.add(rule, &ids, guard.as_ref());
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

    /// Adds to `found` the rules for `request`, with its method in any case, on `path`,
    /// which must be normal, and leaves `found` in order.
    pub(super) fn find(&self, request: &Described<'_>, path: &str, found: &mut Matches) {
        if self.nodes.is_empty() {
            return;
        }
        let method = request.method;
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
            if let Some(tail) = &node.tail {
                tail.find(methods, request, found);
            }
            if rest.is_empty() {
                if let Some(here) = &node.here {
                    here.find(methods, request, found);
                }
                continue;
            }
            let (segment, rest) = match memchr(b'/', rest.as_bytes()) {
                Some(slash) => (&rest[..slash], &rest[slash + 1..]),
                None => (rest, ""),
            };
            if let Some(starts) = &node.starts {
                starts.find(segment, methods, request, found);
            }
            open.extend(node.exact.get(segment).map(|at| (*at, rest)));
            open.extend(node.any.map(|at| (at, rest)));
        }
        // A header that is there twice may lead to a rule twice.
        found.sort_unstable();
        found.dedup();
    }
}

impl Starts {
    /// The rules for segments that begin with `text`.
    fn at(&mut self, text: &str) -> &mut Rules {
        if !self.lengths.contains(&text.len()) {
            self.lengths.push(text.len());
        }
        self.by_text.entry(text.into()).or_default()
    }

    #[cold]
    fn find(&self, segment: &str, methods: Methods, request: &Described<'_>, found: &mut Matches) {
        let starts = self
            .lengths
            .iter()
            .filter_map(|length| segment.get(..*length));
        for rules in starts.filter_map(|start| self.by_text.get(start)) {
            rules.find(methods, request, found);
        }
    }
}

impl Rules {
    fn add(&mut self, rule: usize, methods: &[MethodId], guard: Option<&Guard<'_>>) {
        if methods.is_empty() {
            self.every.add(rule, guard);
        }
        for &id in methods {
            let known = self.by_method.iter().position(|(known, _)| *known == id);
            let at = known.unwrap_or_else(|| {
                self.by_method.push((id, Bucket::default()));
                self.by_method.len() - 1
            });
            self.by_method[at].1.add(rule, guard);
        }
    }

    /// Adds the rules for every method, and those for the first of `methods` that
    /// any rule here names: HEAD counts as GET where none names HEAD.
    fn find(&self, methods: Methods, request: &Described<'_>, found: &mut Matches) {
        self.every.find(request, found);
        let of = |id| self.by_method.iter().find(|(known, _)| *known == id);
        if let Some((_, rules)) = methods.into_iter().flatten().find_map(of) {
            rules.find(request, found);
        }
    }
}

impl Bucket {
    fn add(&mut self, rule: usize, guard: Option<&Guard<'_>>) {
        let Some((field, values)) = guard else {
            self.plain.push(rule);
            return;
        };
        let known = self.guarded.iter().position(|known| known.field == **field);
        let at = known.unwrap_or_else(|| {
            self.guarded.push(Guarded {
                field: (*field).clone(),
                by_value: HashMap::default(),
            });
            self.guarded.len() - 1
        });
        for value in values {
            let rules = self.guarded[at].by_value.entry((*value).into());
            rules.or_default().push(rule);
        }
    }

    fn find(&self, request: &Described<'_>, found: &mut Matches) {
        found.extend_from_slice(&self.plain);
        for guarded in &self.guarded {
            for value in guarded.field.values(request) {
                found.extend_from_slice(guarded.by_value.get(value).map_or(&[], Vec::as_slice));
            }
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
            matcher.add(i, &Pattern::parse(pattern).unwrap(), &methods, None);
        }
        matcher
    }

    fn find(matcher: &Matcher, method: &str, path: &str) -> Vec<usize> {
        let request = Described {
            method,
            ..Described::default()
        };
        let mut found = Matches::new();
        matcher.find(&request, path, &mut found);
        found.into_vec()
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
        assert!(find(&Matcher::default(), "GET", "/a").is_empty());
    }

    #[test]
    fn a_guarded_rule_is_found_by_each_of_its_values_once() {
        let mut m = Matcher::default();
        let field = Field::Attribute("plan".into());
        let every = Pattern::every();
        m.add(0, &every, &[], Some((&field, vec!["a", "b"])));
        m.add(1, &every, &["GET".into()], Some((&field, vec!["b"])));
        m.add(2, &every, &[], None);
        let find = |attributes: &[(&str, &str)]| {
            let request = Described {
                method: "GET",
                attributes,
                ..Described::default()
            };
            let mut found = Matches::new();
            m.find(&request, "/x", &mut found);
            found.into_vec()
        };
        assert_eq!(find(&[]), [2]);
        assert_eq!(find(&[("plan", "a")]), [0, 2]);
        assert_eq!(find(&[("plan", " b ")]), [0, 1, 2]);
        assert_eq!(find(&[("plan", "b"), ("plan", "a")]), [0, 1, 2]);
        assert_eq!(find(&[("other", "a"), ("plan", "c")]), [2]);
    }

    /// The plain meaning of patterns, one at a time.
    fn matches(pattern: &Pattern, path: &str) -> bool {
        let path: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
        let count = pattern.segments.len();
        let long_enough = match &pattern.end {
            End::Here => path.len() == count,
            End::Tail => path.len() >= count,
            End::Start(start) => path
                .get(count)
                .is_some_and(|next| next.starts_with(&**start)),
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
            patterns in prop::collection::vec("(/(a|b|\\*|:x)){0,4}(/\\*\\*)?|prefix:(/(a|ab|\\*)){1,3}/?", 0..12),
            path in "(/(a|b|ab|abc)){0,5}/?",
        ) {
            let patterns: Vec<Pattern> = patterns
                .iter()
                .map(|text| match text.strip_prefix("prefix:") {
                    Some(prefix) => Pattern::parse_prefix(prefix).unwrap(),
                    None => Pattern::parse(if text.is_empty() { "/" } else { text }).unwrap(),
                })
                .collect();
            let mut trie = Matcher::default();
            for (i, pattern) in patterns.iter().enumerate() {
                trie.add(i, pattern, &[], None);
            }
            let path = normalise(&path);
            let expected: Vec<usize> =
                (0..patterns.len()).filter(|i| matches(&patterns[*i], &path)).collect();
            prop_assert_eq!(find(&trie, "GET", &path), expected);
        }
    }
}
