//! Buckets: entries without an order, for the rules that have one.

use proptest::prelude::*;

use super::descriptors::{Entries, key, rule};
use super::*;

const SHOP: &str = "
rules:
  - {name: login, domain: shop, descriptors: [{key: path, value: /login}, {key: user}], limits: {requests: 5, window: 1m}}
  - {name: user, domain: shop, descriptors: [{key: user}], limits: {requests: 6, window: 1m}}
  - {name: root, domain: shop, descriptors: [{key: user, value: root}, {key: path}], limits: {requests: 7, window: 1m}}
  - {name: deep, domain: shop, descriptors: [{key: b}, {key: a}, {key: c}], limits: {requests: 8, window: 1m}}
  - {name: files, domain: shop, descriptors: [{key: path, value: '/files/*'}, {key: user}], limits: {requests: 9, window: 1m}}
  - {name: dead, domain: shop, descriptors: [{key: a, value: x}, {key: d}], limits: {requests: 9, window: 1m}}
";

/// The rule for the bucket; empty if there is none.
fn found<'r>(rules: &'r RuleSet, domain: &str, entries: Entries<'_>) -> &'r str {
    let ordered = rules.in_order(domain, entries.iter().copied());
    ordered.map_or("", |entries| rule(rules, domain, &entries))
}

#[test]
fn a_bucket_is_for_the_rule_that_has_its_entries_in_any_order() {
    let rules = rules(SHOP);
    for (entries, expected) in [
        (&[("user", "al"), ("path", "/login")][..], "login"),
        (&[("path", "/login"), ("user", "al")], "login"),
        (&[("path", "/files/a"), ("user", "al")], "files"),
        (&[("user", "al")], "user"),
        (&[("a", "1"), ("b", "2"), ("c", "3")], "deep"),
        (&[("c", "3"), ("b", "2"), ("a", "1")], "deep"),
        (&[("a", "1"), ("b", "2")], ""),
        (&[("path", "/x"), ("user", "al")], ""),
        (&[("path", "/login")], ""),
        (&[("other", "")], ""),
        (&[], ""),
    ] {
        assert_eq!(found(&rules, "shop", entries), expected, "{entries:?}");
        assert_eq!(found(&rules, "other", entries), "");
    }
}

#[test]
fn what_is_meant_more_exactly_comes_first_and_what_leads_nowhere_is_left() {
    let rules = rules(SHOP);
    let both_exact = [("path", "/login"), ("user", "root")];
    assert_eq!(found(&rules, "shop", &both_exact), "login");
    let exact_and_wildcard = [("path", "/files/a"), ("user", "root")];
    assert_eq!(found(&rules, "shop", &exact_and_wildcard), "root");
    // `a` is meant exactly by a rule that has no `b` and `c`.
    let through = [("a", "x"), ("b", "1"), ("c", "2")];
    assert_eq!(found(&rules, "shop", &through), "deep");
}

#[test]
fn a_bucket_counts_where_its_entries_in_the_order_of_the_rule_count() {
    let rules = rules(SHOP);
    let bucket = [("a", "1"), ("b", "2"), ("c", "3")];
    let ordered = rules.in_order("shop", bucket).unwrap();
    let of_rule = [("b", "2"), ("a", "1"), ("c", "3")];
    assert_eq!(ordered[..], of_rule);
    assert_eq!(key(&rules, "shop", &ordered), key(&rules, "shop", &of_rule));
}

#[test]
fn a_search_without_an_end_is_given_up() {
    use std::fmt::Write as _;
    // Ways through all orders of 7 keys, of which none ends in a rule for just these.
    let keys = ["a", "b", "c", "d", "e", "f", "g"];
    let mut text = "rules:\n".to_owned();
    let mut number = 0;
    for order in orders(&keys) {
        number += 1;
        let entries: String = order
            .iter()
            .map(|key| format!("{{key: {key}}}, "))
            .collect();
        writeln!(
            text,
            "  - {{name: r{number}, domain: d, descriptors: [{entries}{{key: z}}], \
             limits: {{requests: 1, window: 1m}}}}"
        )
        .unwrap();
    }
    let rules = rules(&text);
    let bucket: Vec<(&str, &str)> = keys.iter().map(|key| (*key, "")).collect();
    assert_eq!(rules.in_order("d", bucket.iter().copied()), None);
    let with_end: Vec<(&str, &str)> = bucket.into_iter().chain([("z", "")]).collect();
    assert_eq!(found(&rules, "d", &with_end), "r1");
}

fn orders<T: Clone>(all: &[T]) -> Vec<Vec<T>> {
    if all.is_empty() {
        return vec![Vec::new()];
    }
    let mut found = Vec::new();
    for index in 0..all.len() {
        let mut rest = all.to_vec();
        let first = rest.remove(index);
        for mut order in orders(&rest) {
            order.insert(0, first.clone());
            found.push(order);
        }
    }
    found
}

fn any_rules() -> impl Strategy<Value = Vec<Vec<(&'static str, &'static str)>>> {
    let entry = (
        prop::sample::select(vec!["a", "b", "c"]),
        prop::sample::select(vec!["", "x", "y*"]),
    );
    prop::collection::vec(prop::collection::vec(entry, 1..4), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn a_rule_is_found_where_any_order_of_the_entries_has_one(
        all in any_rules(),
        asked in prop::collection::btree_map("[abc]", "(x|y1|z)", 1..4),
    ) {
        let mut text = "rules:\n".to_owned();
        let mut known = Vec::new();
        for entries in all {
            if known.contains(&entries) {
                continue;
            }
            let entry = |(key, value): &(&str, &str)| match *value {
                "" => format!("{{key: {key}}}"),
                value => format!("{{key: {key}, value: '{value}'}}"),
            };
            let entries_text: Vec<String> = entries.iter().map(entry).collect();
            text += &format!(
                "  - {{name: r{}, domain: d, descriptors: [{}], limits: {{requests: 1, window: 1m}}}}\n",
                known.len(),
                entries_text.join(", "),
            );
            known.push(entries);
        }
        let rules = rules(&text);
        let asked: Vec<(&str, &str)> = asked.iter().map(|(k, v)| (&**k, &**v)).collect();
        let of_orders: Vec<&str> = orders(&asked)
            .iter()
            .map(|order| rule(&rules, "d", order))
            .filter(|rule| !rule.is_empty())
            .collect();
        let found = found(&rules, "d", &asked);
        if of_orders.is_empty() {
            prop_assert_eq!(found, "");
        } else {
            prop_assert!(of_orders.contains(&found), "{} of {:?}", found, of_orders);
        }
    }
}
