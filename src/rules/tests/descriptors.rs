//! Rules for descriptors, in our own schema.

use super::*;
use crate::rules::{CountedAs, Descriptor, StatedLimit, Unit, Why};
use crate::units::{Algorithm, Mode};

pub(super) type Entries<'a> = &'a [(&'a str, &'a str)];

pub(super) fn asked<'a>(domain: &'a str, entries: Entries<'a>) -> Descriptor<'a> {
    Descriptor {
        domain,
        entries,
        stated: None,
    }
}

pub(super) fn applied<'r>(
    rules: &'r RuleSet,
    domain: &str,
    entries: Entries<'_>,
) -> AppliedLimits<'r> {
    let mut applied = AppliedLimits::new();
    rules.described_by(&asked(domain, entries), &mut applied);
    applied
}

/// The name of the rule for a descriptor; empty if there is none.
pub(super) fn rule<'r>(rules: &'r RuleSet, domain: &str, entries: Entries<'_>) -> &'r str {
    rules
        .matched(&asked(domain, entries))
        .map_or("", |matched| matched.rule)
}

pub(super) fn key(rules: &RuleSet, domain: &str, entries: Entries<'_>) -> Key {
    let applied = applied(rules, domain, entries);
    assert_eq!(applied.len(), 1, "{entries:?}");
    applied[0].key
}

const SHOP: &str = "
rules:
  - {name: login, domain: shop, descriptors: [{key: path, value: /login}], limits: {requests: 5, window: 1m}}
  - {name: files, domain: shop, descriptors: [{key: path, value: '/files/*'}], limits: {requests: 6, window: 1m}}
  - {name: all, domain: shop, descriptors: [{key: path, value: '/f*'}], limits: {requests: 7, window: 1m}}
  - {name: path, domain: shop, descriptors: [{key: path}], limits: {requests: 8, window: 1m}}
  - {name: user, domain: shop, descriptors: [{key: path, value: /login}, {key: user}], limits: {requests: 9, window: 1m}}
  - {name: other, domain: other, descriptors: [{key: path}], limits: {requests: 1, window: 1m}}
";

#[test]
fn the_value_itself_comes_before_a_wildcard_and_that_before_any_value() {
    let rules = rules(SHOP);
    assert_eq!(rule(&rules, "shop", &[("path", "/login")]), "login");
    assert_eq!(rule(&rules, "shop", &[("path", "/files/a")]), "files");
    assert_eq!(rule(&rules, "shop", &[("path", "/files")]), "all");
    assert_eq!(rule(&rules, "shop", &[("path", "/x")]), "path");
    assert_eq!(rule(&rules, "shop", &[("path", "")]), "path");
    assert_eq!(rule(&rules, "other", &[("path", "/login")]), "other");
    let with_user = [("path", "/login"), ("user", "al")];
    assert_eq!(rule(&rules, "shop", &with_user), "user");
}

#[test]
fn all_entries_must_be_there_in_their_order_and_no_other() {
    let rules = rules(SHOP);
    let none: [Entries<'_>; 6] = [
        &[],
        &[("user", "al")],
        &[("user", "al"), ("path", "/login")],
        &[("path", "/x"), ("user", "al")],
        &[("path", "/login"), ("user", "al"), ("more", "x")],
        &[("PATH", "/login")],
    ];
    for entries in none {
        assert_eq!(rule(&rules, "shop", entries), "", "{entries:?}");
        assert!(applied(&rules, "shop", entries).is_empty());
    }
    assert!(applied(&rules, "unknown", &[("path", "/login")]).is_empty());
}

#[test]
fn of_two_wildcards_the_one_that_stands_first_is_taken() {
    let of = |first: &str, second: &str| {
        let one = |value: &str| {
            format!(
                "- {{name: '{value}', domain: d, descriptors: [{{key: k, value: '{value}'}}], ban: true}}\n"
            )
        };
        rules(&format!("rules:\n{}{}", one(first), one(second)))
    };
    assert_eq!(rule(&of("a*", "ab*"), "d", &[("k", "abc")]), "a*");
    assert_eq!(rule(&of("ab*", "a*"), "d", &[("k", "abc")]), "ab*");
    // The text of a wildcard is itself.
    assert_eq!(rule(&of("a*", "ab*"), "d", &[("k", "ab*")]), "ab*");
}

#[test]
fn a_better_first_entry_is_kept_to_even_if_the_next_has_no_rule_there() {
    let rules = rules(
        "rules:
  - {name: a, domain: d, descriptors: [{key: k}, {key: user}], ban: true}
  - {name: b, domain: d, descriptors: [{key: k, value: x}], ban: true}",
    );
    assert_eq!(rule(&rules, "d", &[("k", "y"), ("user", "u")]), "a");
    assert_eq!(rule(&rules, "d", &[("k", "x"), ("user", "u")]), "");
}

#[test]
fn each_value_has_a_counter_of_its_own_unless_it_shares_one() {
    let rules = rules(
        "rules:
  - {domain: d, descriptors: [{key: k}], limits: {requests: 1, window: 1m}}
  - {domain: d, descriptors: [{key: own, value: 'a*'}], limits: {requests: 1, window: 1m}}
  - {domain: d, descriptors: [{key: one, value: 'a*', share_threshold: true}, {key: u}], limits: {requests: 1, window: 1m}}",
    );
    let names: Vec<&str> = rules.names().collect();
    assert_eq!(names, ["d.k", "d.own_a*", "d.one_a*.u"]);
    assert_ne!(
        key(&rules, "d", &[("k", "x")]),
        key(&rules, "d", &[("k", "y")])
    );
    assert_eq!(
        key(&rules, "d", &[("k", "x")]),
        key(&rules, "d", &[("k", "x")])
    );
    assert_ne!(
        key(&rules, "d", &[("own", "ab")]),
        key(&rules, "d", &[("own", "ac")])
    );
    let shared = |value, user| key(&rules, "d", &[("one", value), ("u", user)]);
    assert_eq!(shared("ab", "x"), shared("ac", "x"));
    assert_eq!(shared("ab", "x"), shared("a*", "x"));
    assert_ne!(shared("ab", "x"), shared("ab", "y"));
}

#[test]
fn no_choice_of_keys_and_values_makes_two_descriptors_one() {
    let rules = rules(
        "rules: [{domain: d, descriptors: [{key: a}, {key: b}], limits: {requests: 1, window: 1m}}]",
    );
    let all = [
        ("x", "y"),
        ("xy", ""),
        ("", "xy"),
        ("x|b:y", ""),
        ("x\0", "y"),
    ];
    let keys = all.map(|(a, b)| key(&rules, "d", &[("a", a), ("b", b)]));
    for (place, one) in keys.iter().enumerate() {
        assert!(!keys[place + 1..].contains(one), "{place}");
    }
}

#[test]
fn a_value_is_compared_and_counted_as_a_path_where_that_is_asked_for() {
    let with = |normalize: &str| {
        rules(&format!(
            "rules:
  - {{name: login, domain: d, descriptors: [{{key: p, value: /login/{normalize}}}], limits: {{requests: 1, window: 1m}}}}
  - {{name: api, domain: d, descriptors: [{{key: p, value: '/api/*'{normalize}}}], limits: {{requests: 1, window: 1m}}}}
  - {{name: any, domain: d, descriptors: [{{key: p{normalize}}}], limits: {{requests: 1, window: 1m}}}}"
        ))
    };
    let (as_text, as_path) = (with(""), with(", normalize: path"));
    let by = |rules, value| rule(rules, "d", &[("p", value)]);
    for value in ["/login", "/login/?a=1", "//login", "/x/../login"] {
        assert_eq!(by(&as_path, value), "login", "{value}");
        assert_eq!(by(&as_text, value), "any", "{value}");
    }
    assert_eq!(by(&as_text, "/login/"), "login");
    assert_eq!(
        (by(&as_path, "/x/../api/a"), by(&as_text, "/x/../api/a")),
        ("api", "any")
    );
    // Fifty queries are one counter, or fifty.
    let count = |rules| {
        let of = |n| key(rules, "d", &[("p", &format!("/x?n={n}"))]);
        let keys: std::collections::HashSet<Key> = (1..=50).map(of).collect();
        keys.len()
    };
    assert_eq!((count(&as_path), count(&as_text)), (1, 50));
}

#[test]
fn many_paths_with_queries_are_noticed_and_told_by_rule() {
    let rules = rules(
        "rules:
  - {name: a, domain: d, descriptors: [{key: p}], limits: {requests: 1, window: 1m}}
  - {name: b, domain: d, descriptors: [{key: q, normalize: path}], limits: {requests: 1, window: 1m}}
  - {name: c, domain: d, descriptors: [{key: r, value: '/*', share_threshold: true}], limits: {requests: 1, window: 1m}}
  - {name: e, domain: d, descriptors: [{key: s}], limits: {requests: 1, window: 1m}}",
    );
    for n in 0..1_500 {
        let (path, user) = (format!("/x?n={n}"), format!("user{n}"));
        for (k, value) in [("p", &path), ("q", &path), ("r", &path), ("s", &user)] {
            applied(&rules, "d", &[(k, value)]);
        }
    }
    assert_eq!(rules.with_many_paths().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn limits_are_those_of_any_rule() {
    let rules = rules(
        "
policies: {slow: [{requests: 2, window: 1h}]}
rules:
  - name: r
    domain: d
    descriptors: [{key: user}, {key: tier}]
    mode: soft
    cost: 3
    limits:
      default: slow
      pro: [{requests: 10, window: 1s, algorithm: token_bucket, count_denied: true}, {requests: 50, window: 1m}]",
    );
    let free = applied(&rules, "d", &[("user", "u"), ("tier", "free")]);
    assert_eq!(names(&free), ["r default/1h"]);
    assert_eq!((free[0].limit.mode, free[0].weight), (Mode::Soft, 3));
    let pro = applied(&rules, "d", &[("user", "u"), ("tier", "pro")]);
    assert_eq!(names(&pro), ["r pro/1s", "r pro/1m"]);
    assert_eq!(pro[0].limit.quota.algorithm(), Algorithm::TokenBucket);
    assert!(pro[0].limit.count_denied);
}

#[test]
fn an_unlimited_rule_is_a_match_and_exempts_from_the_wider_ones() {
    let yaml = "
rules:
  - {name: any, domain: d, descriptors: [{key: ip}], limits: {requests: 1, window: 1m}}
  - {name: us, domain: d, descriptors: [{key: ip, value: 10.0.0.1}], unlimited: true}
  - {name: idle, domain: d, descriptors: [{key: ip, value: 10.0.0.2}], enabled: false, ban: true}";
    assert_eq!(warnings(yaml), [""; 0]);
    let rules = rules(yaml);
    assert!(applied(&rules, "d", &[("ip", "10.0.0.1")]).is_empty());
    let us = rules.matched(&asked("d", &[("ip", "10.0.0.1")])).unwrap();
    assert_eq!((us.rule, us.is_quota), ("us", false));
    // What is not enabled is as if it were not there.
    assert_eq!(rule(&rules, "d", &[("ip", "10.0.0.2")]), "any");
}

#[test]
fn described_requests_and_descriptors_have_rules_apart() {
    let rules = rules(
        "rules:
  - {name: by_path, endpoint: /login, ban: true}
  - {name: by_entry, domain: d, descriptors: [{key: path, value: /login}], ban: true}",
    );
    assert_eq!(
        matching_names(&rules, "GET", "/login"),
        ["by_path default/ban"]
    );
    assert_eq!(rule(&rules, "d", &[("path", "/login")]), "by_entry");
    let why = |explained: &[crate::rules::RuleExplained<'_>]| -> Vec<Option<&'static str>> {
        explained
            .iter()
            .map(|one| one.why_not.map(Why::name))
            .collect()
    };
    let explained = rules.explain(&described("GET", "/login"), Timestamp::EPOCH);
    assert_eq!(why(&explained), [None, Some("descriptor")]);
    let explained = rules.explain_descriptor(&asked("d", &[("path", "/login")]));
    assert_eq!(why(&explained), [Some("described"), None]);
    assert_eq!(explained[1].counted[0].name, "path");
    assert_eq!(
        explained[1].counted[0].value,
        CountedAs::Value("/login".to_owned())
    );
    assert_eq!(explained[1].limits.len(), 1);
    let explained = rules.explain_descriptor(&asked("d", &[("path", "/x")]));
    assert_eq!(why(&explained), [Some("described"), Some("descriptor")]);
}

#[test]
fn what_may_be_a_secret_is_not_shown() {
    let rules = rules("rules: [{domain: d, descriptors: [{key: api_key}], ban: true}]");
    let explained = rules.explain_descriptor(&asked("d", &[("api_key", "s3cret")]));
    assert_eq!(explained[0].counted[0].value, CountedAs::Hidden);
}

#[test]
fn a_domain_is_known_that_any_rule_has() {
    let rules = rules(SHOP);
    assert!(rules.has_domain("shop") && rules.has_domain("other"));
    assert!(!rules.has_domain("sho") && !rules.has_domain(""));
    assert!(!rules.strict_domains());
    assert!(super::rules("strict_domains: true\nrules: []").strict_domains());
    let off =
        super::rules("rules: [{domain: d, descriptors: [{key: k}], enabled: false, ban: true}]");
    assert!(off.has_domain("d"));
}

#[test]
fn a_rule_replaces_those_that_it_names_among_the_same_request() {
    let rules = rules(
        "rules:
  - {name: read, domain: d, descriptors: [{key: kind, value: read}], limits: {requests: 1, window: 1m}}
  - {name: write, domain: d, descriptors: [{key: kind, value: write}], limits: {requests: 1, window: 1m}}
  - {name: special, domain: d, descriptors: [{key: path, value: /a}], replaces: [read, free], limits: {requests: 9, window: 1m}}
  - {name: free, domain: d, descriptors: [{key: free}], unlimited: true}",
    );
    let read: Entries<'_> = &[("kind", "read")];
    let write: Entries<'_> = &[("kind", "write")];
    let path: Entries<'_> = &[("path", "/a")];
    let replaced = |all: &[Entries<'_>]| {
        let all: Vec<Descriptor<'_>> = all.iter().map(|entries| asked("d", entries)).collect();
        rules.replaced(&all).into_vec()
    };
    assert_eq!(replaced(&[read, path, write, read]), [0, 3]);
    assert_eq!(replaced(&[read, write]), [0_usize; 0]);
    assert_eq!(replaced(&[path]), [0_usize; 0]);
    // What limits nothing stays what it is.
    assert_eq!(replaced(&[&[("free", "x")], path]), [0_usize; 0]);
    let stated = |place: usize| {
        let mut all = [asked("d", read), asked("d", path)];
        all[place].stated = Some(StatedLimit {
            requests: 1,
            unit: Unit::Day,
        });
        rules.replaced(&all).into_vec()
    };
    // A limit that comes with the descriptor is not the rule's.
    assert_eq!((stated(0), stated(1)), (vec![], vec![]));
    assert!(
        rules
            .matched(&Descriptor {
                stated: Some(StatedLimit {
                    requests: 1,
                    unit: Unit::Day
                }),
                ..asked("d", read)
            })
            .is_none()
    );
}

#[test]
fn the_windows_of_gateways_are_fixed_lengths() {
    let secs = Unit::WORDS.map(|(_, unit)| unit.period().get() / 1_000_000_000);
    assert_eq!(secs, [1, 60, 3_600, 86_400, 604_800, 2_592_000, 31_536_000]);
    for (_, unit) in Unit::WORDS {
        assert_eq!(Unit::of(unit.period()), Some(unit));
    }
    assert_eq!(Unit::of(crate::units::Nanos::from_secs(2)), None);
}

#[test]
fn a_part_of_the_callers_is_a_part_of_the_descriptors() {
    let rules = rules(
        "rules: [{domain: d, descriptors: [{key: k}], percent: 40, limits: {requests: 1, window: 1m}}]",
    );
    let count = (0..1_000).filter(|n| !applied(&rules, "d", &[("k", &n.to_string())]).is_empty());
    let count = count.count();
    assert!((330..470).contains(&count), "{count}");
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (rule, told) in [
        (
            "{domain: d, ban: true}",
            "`descriptors` is missing; write descriptors: [{key: path, value: /login}]",
        ),
        (
            "{domain: d, descriptors: [], ban: true}",
            "descriptors: there is no entry here",
        ),
        (
            "{domain: d, descriptors: {key: a}, ban: true}",
            "descriptors: a map is not a list of entries",
        ),
        (
            "{domain: d, descriptors: [{value: a}], ban: true}",
            "descriptors[0]: `key` is missing",
        ),
        (
            "{domain: d, descriptors: [{key: ''}], ban: true}",
            "descriptors[0].key: is empty; write some text",
        ),
        (
            "{domain: d, descriptors: [{key: a, valeu: b}], ban: true}",
            "descriptors[0].valeu: \"valeu\" is not known here; did you mean `value`?",
        ),
        (
            "{domain: '', descriptors: [{key: a}], ban: true}",
            "domain: is empty",
        ),
        (
            "{domain: d, descriptors: [{key: a, normalize: lower}], ban: true}",
            "\"lower\" is none of none, path",
        ),
        (
            "{domain: d, descriptors: [{key: a, value: b, share_threshold: true}], ban: true}",
            "share_threshold is for a `value` that ends in `*`",
        ),
        (
            "{domain: d, descriptors: [{key: a}], endpoint: /a, ban: true}",
            "endpoint: `endpoint` is for rules with an endpoint",
        ),
        (
            "{domain: d, descriptors: [{key: a}], key: client, ban: true}",
            "key: `key` is for rules with an endpoint",
        ),
        (
            "{name: r, domain: d, descriptors: [{key: a}], replaces: r, ban: true}",
            "replaces: \"r\" is this limit's own name",
        ),
        (
            "{descriptors: [{key: a}], ban: true}",
            "descriptors: `descriptors` is for rules with a `domain`",
        ),
        (
            "{endpoint: /a, replaces: [x], ban: true}",
            "replaces: `replaces` is for rules with a `domain`",
        ),
        (
            "{domain: d, descriptors: [{key: a}]}",
            "`limits` is missing",
        ),
    ] {
        let said = faults(&format!("rules:\n- {rule}"));
        assert!(
            said.len() == 1 && said[0].starts_with("r.yaml:2:") && said[0].contains(told),
            "{rule}: {said:?}"
        );
    }
}

#[test]
fn the_same_entries_twice_are_told_with_the_place_of_the_first() {
    let said = faults(
        "rules:
- {domain: d, descriptors: [{key: a}, {key: b, value: x}], ban: true}
- {domain: e, descriptors: [{key: a}, {key: b, value: x}], ban: true}
- {domain: d, descriptors: [{key: a}, {key: b}], ban: true}
- {name: again, domain: d, descriptors: [{key: a}, {key: b, value: x}], ban: true}",
    );
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("r.yaml:5:"), "{said:?}");
    assert!(said[0].contains("rule \"again\": descriptors[1]: the same entries in this domain are in r.yaml line 2 too"), "{said:?}");
    let said = faults(
        "rules:
- {domain: d, descriptors: [{key: a}, {key: b}], ban: true}
- {domain: d, descriptors: [{key: a, normalize: path}], ban: true}
- {domain: d, descriptors: [{key: c, value: 'x*'}], ban: true}
- {domain: d, descriptors: [{key: c, value: 'x*', share_threshold: true}, {key: d}], ban: true}",
    );
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].contains("the same entry in r.yaml line 2 has another `normalize`"),
        "{said:?}"
    );
    assert!(
        said[1].contains("the same entry in r.yaml line 4 has another `share_threshold`"),
        "{said:?}"
    );
}

#[test]
fn names_are_made_of_domain_and_entries_and_stay_apart() {
    let rules = rules(
        "rules:
- {domain: d, descriptors: [{key: a, value: b_c}], ban: true}
- {domain: d, descriptors: [{key: a_b, value: c}], ban: true}
- {domain: größe, descriptors: [{key: a}], ban: true}",
    );
    let names: Vec<&str> = rules.names().collect();
    assert_eq!(names[0], "d.a_b_c");
    assert!(
        names[1].starts_with("d.a_b_c~") && names[1].len() == 24,
        "{names:?}"
    );
    assert!(
        names[2].starts_with("gr??e.a~") && names[2].len() == 24,
        "{names:?}"
    );
}

#[test]
fn who_replaces_what_there_is_not_is_warned() {
    let ours = "rules: [{domain: d, descriptors: [{key: a}], replaces: [d.b, d.c], ban: true},
      {domain: d, descriptors: [{key: b}], ban: true}]";
    let said = warnings(ours);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("rule \"d.a\": replaces: nothing is called \"d.c\""),
        "{said:?}"
    );
    let envoy = "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: x}]}}]";
    assert!(warnings(envoy)[0].contains("nothing is called \"x\""));
    let other = "domain: e\ndescriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 1, name: x}}]";
    let both = compile(&[("1.yaml", envoy), ("2.yaml", other)]).unwrap();
    assert!(both.warnings.is_empty());
}

#[test]
fn an_explanation_tells_another_domain_and_what_comes_first_from_other_descriptors() {
    let rules = rules(
        "rules:
  - {name: any, domain: d, descriptors: [{key: path}], ban: true}
  - {name: start, domain: d, descriptors: [{key: path, value: /l*}], ban: true}
  - {name: one, domain: d, descriptors: [{key: path, value: /login, normalize: path}], ban: true}
  - {name: two, domain: d, descriptors: [{key: path}, {key: user}], ban: true}
  - {name: apart, domain: e, descriptors: [{key: path}], ban: true}",
    );
    let why = |value: &str| -> Vec<Option<&'static str>> {
        let explained = rules.explain_descriptor(&asked("d", &[("path", value)]));
        let why = explained.iter().map(|one| one.why_not.map(Why::name));
        why.collect()
    };
    let (fewer, other, apart) = (Some("fewer"), Some("descriptor"), Some("domain"));
    assert_eq!(why("/login"), [fewer, fewer, None, other, apart]);
    assert_eq!(why("/logout"), [fewer, None, other, other, apart]);
    assert_eq!(why("/x"), [None, other, other, other, apart]);
}
