//! Files of Envoy's ratelimit service, as they are.

use super::descriptors::{Entries, applied, asked, key, rule};
use super::*;
use crate::units::{Algorithm, Consistency, Mode};

/// Amount and window of the one limit for a descriptor.
fn limit(rules: &RuleSet, domain: &str, entries: Entries<'_>) -> (u64, String) {
    let applied = applied(rules, domain, entries);
    assert_eq!(applied.len(), 1, "{entries:?}");
    let quota = &applied[0].limit.quota;
    assert_eq!(quota.algorithm(), Algorithm::FixedWindow);
    (quota.amount(), quota.period().to_string())
}

const MESSAGING: &str = "
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit:
          unit: day
          requests_per_unit: 5
  - key: to_number
    rate_limit:
      unit: DAY
      requests_per_unit: 100
  - key: to_number
    value: 2061234567
    rate_limit: {unit: second, requests_per_unit: 0}
  - key: to_number
    value: '911'
";

#[test]
fn nested_descriptors_are_rules_by_their_entries() {
    let rules = rules(MESSAGING);
    let names: Vec<&str> = rules.names().collect();
    assert_eq!(
        names,
        [
            "messaging.message_type_marketing.to_number",
            "messaging.to_number",
            "messaging.to_number_2061234567",
        ]
    );
    let marketing = [("message_type", "marketing"), ("to_number", "1")];
    assert_eq!(limit(&rules, "messaging", &marketing), (5, "1d".to_owned()));
    assert_eq!(
        limit(&rules, "messaging", &[("to_number", "1")]),
        (100, "1d".to_owned())
    );
    // A placeholder has no limit of its own.
    assert_eq!(
        rule(&rules, "messaging", &[("message_type", "marketing")]),
        ""
    );
    assert_eq!(
        rule(
            &rules,
            "messaging",
            &[("message_type", "other"), ("to_number", "1")]
        ),
        ""
    );
}

#[test]
fn no_request_at_all_is_a_ban_and_a_value_without_limit_is_exempt() {
    let rules = rules(MESSAGING);
    let banned = applied(&rules, "messaging", &[("to_number", "2061234567")]);
    assert!(banned[0].limit.quota.is_ban());
    assert_eq!(banned[0].limit.consistency, Consistency::Local);
    assert!(applied(&rules, "messaging", &[("to_number", "911")]).is_empty());
    assert_eq!(
        applied(&rules, "messaging", &[("to_number", "912")]).len(),
        1
    );
}

#[test]
fn every_unit_is_of_a_fixed_length_and_written_in_any_case() {
    for (unit, window) in [
        ("second", "1s"),
        ("Minute", "1m"),
        ("HOUR", "1h"),
        ("day", "1d"),
        ("week", "7d"),
        ("MONTH", "30d"),
        ("year", "365d"),
    ] {
        let yaml = format!(
            "domain: d\ndescriptors: [{{key: k, rate_limit: {{unit: {unit}, requests_per_unit: 3}}}}]"
        );
        assert_eq!(
            limit(&rules(&yaml), "d", &[("k", "v")]),
            (3, window.to_owned())
        );
    }
}

#[test]
fn shadow_quota_unlimited_and_names_are_understood() {
    let rules = rules(
        "
domain: d
descriptors:
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 5, name: soft launch}}
  - {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: free2, rate_limit: {unlimited: true, unit: UNKNOWN, requests_per_unit: 0}}
  - {key: noted, detailed_metric: true, value_to_metric: true, metadata: {a: [1, {b: c}]}, rate_limit: {unit: minute, requests_per_unit: 5}}",
    );
    let shadow = applied(&rules, "d", &[("shadow", "x")]);
    assert_eq!(
        (shadow[0].limit.mode, &*shadow[0].limit.name),
        (Mode::Shadow, "soft launch")
    );
    let quota = rules.matched(&asked("d", &[("quota", "x")])).unwrap();
    assert!(quota.is_quota && quota.name.is_none());
    assert_eq!(
        applied(&rules, "d", &[("quota", "x")])[0].limit.mode,
        Mode::Enforce
    );
    for free in ["free", "free2"] {
        assert!(rules.matched(&asked("d", &[(free, "x")])).is_some());
        assert!(applied(&rules, "d", &[(free, "x")]).is_empty());
    }
    assert_eq!(limit(&rules, "d", &[("noted", "x")]), (5, "1m".to_owned()));
}

#[test]
fn a_limit_replaces_those_of_the_names_that_it_states() {
    let rules = rules(
        "
domain: example7
descriptors:
  - key: key_1
    value: value_1
    descriptors:
      - key: user
        value: bkthomps
        rate_limit: {name: specific_limit, requests_per_unit: 5, unit: second}
  - key: key_2
    value: value_2
    descriptors:
      - key: user
        value: bkthomps
        rate_limit: {replaces: [{name: specific_limit}], requests_per_unit: 10, unit: second}",
    );
    let one = [("key_1", "value_1"), ("user", "bkthomps")];
    let two = [("key_2", "value_2"), ("user", "bkthomps")];
    let (one, two) = (asked("example7", &one), asked("example7", &two));
    assert_eq!(rules.replaced(&[one, two]).into_vec(), [0]);
    assert_eq!(rules.replaced(&[two, one]).into_vec(), [1]);
    assert_eq!(rules.replaced(&[one, one]).into_vec(), [0_usize; 0]);
    assert_eq!(rules.matched(&one).unwrap().name, Some("specific_limit"));
}

#[test]
fn the_values_of_a_wildcard_share_a_counter_where_it_says_so() {
    let rules = rules(
        "
domain: d
descriptors:
  - {key: files, value: 'files/*', share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: own, value: 'own/*', rate_limit: {unit: hour, requests_per_unit: 10}}",
    );
    let of = |k, v| key(&rules, "d", &[(k, v)]);
    assert_eq!(of("files", "files/a.pdf"), of("files", "files/b.csv"));
    assert_ne!(of("own", "own/a"), of("own", "own/b"));
}

/// What Envoy Gateway writes, with all that it writes without need.
const GATEWAY: &str = r#"
name: default/eg/http
domain: default/eg/http
descriptors:
  - key: httproute/default/x/rule/0/match/0/*
    value: httproute/default/x/rule/0/match/0/*
    rate_limit: null
    descriptors:
      - key: rule-0-match-0
        value: rule-0-match-0
        rate_limit:
          requests_per_unit: 3
          unit: HOUR
          unlimited: false
          name: ""
          replaces: []
        descriptors: []
        shadow_mode: false
        quota_mode: false
        detailed_metric: false
        value_to_metric: false
        share_threshold: false
      - key: rule-1-match-0
        value: ""
        rate_limit:
          requests_per_unit: 5
          unit: SECOND
          unlimited: false
          name: ""
          replaces: []
        descriptors: []
    shadow_mode: false
    detailed_metric: false
"#;

#[test]
fn a_file_of_envoy_gateway_is_read_as_it_is() {
    assert_eq!(warnings(GATEWAY), [""; 0]);
    let rules = rules(GATEWAY);
    let route = "httproute/default/x/rule/0/match/0/*";
    let ask = |second| limit(&rules, "default/eg/http", &[(route, route), second]);
    assert_eq!(
        ask(("rule-0-match-0", "rule-0-match-0")),
        (3, "1h".to_owned())
    );
    assert_eq!(ask(("rule-1-match-0", "alice")), (5, "1s".to_owned()));
    // Long names are shortened, and stay names.
    for name in rules.names() {
        assert!(
            name.len() <= 128 && name.ends_with(|c: char| c.is_ascii_hexdigit()),
            "{name}"
        );
    }
}

/// As the ConfigMaps of Istio's samples have it.
const ISTIO: &str = "
domain: ratelimit
descriptors:
  - key: PATH
    value: \"/productpage\"
    rate_limit:
      unit: minute
      requests_per_unit: 1
  - key: PATH
    rate_limit:
      unit: minute
      requests_per_unit: 100
";

#[test]
fn a_file_of_istio_is_read_as_it_is() {
    let rules = rules(ISTIO);
    assert_eq!(
        limit(&rules, "ratelimit", &[("PATH", "/productpage")]),
        (1, "1m".to_owned())
    );
    assert_eq!(
        limit(&rules, "ratelimit", &[("PATH", "/productpage?u=1")]),
        (100, "1m".to_owned())
    );
}

#[test]
fn several_files_are_several_domains_or_parts_of_one() {
    let one = "domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]";
    let two = "domain: b\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 2}}]";
    let three = "domain: a\ndescriptors: [{key: l, rate_limit: {unit: day, requests_per_unit: 3}}]";
    let ours = "rules: [{domain: a, descriptors: [{key: m}], limits: {requests: 4, window: 1d}}]";
    let all = [
        ("1.yaml", one),
        ("2.yaml", two),
        ("3.yaml", three),
        ("4.yaml", ours),
    ];
    let rules = compile(&all).unwrap().rules;
    let amount = |domain, k| applied(&rules, domain, &[(k, "v")])[0].limit.quota.amount();
    assert_eq!(
        [
            amount("a", "k"),
            amount("b", "k"),
            amount("a", "l"),
            amount("a", "m")
        ],
        [1, 2, 3, 4]
    );
    let said = compile(&[("1.yaml", one), ("2.yaml", two), ("3.yaml", one)]).unwrap_err();
    assert_eq!(said.len(), 1);
    assert!(
        said[0].starts_with(
            "3.yaml:2:15: descriptors[0]: the same entries in this domain are in 1.yaml line 2 too"
        ),
        "{said:?}"
    );
}

#[test]
fn a_domain_without_any_limit_is_known() {
    for yaml in [
        "domain: d",
        "domain: d\ndescriptors: []",
        "domain: d\ndescriptors: [{key: a}]",
    ] {
        let compiled = compile(&[("r.yaml", yaml)]).unwrap();
        assert!(compiled.rules.has_domain("d"), "{yaml}");
        assert_eq!(compiled.warnings.len(), 1, "{yaml}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (text, told) in [
        (
            "descriptors: []",
            "1:1: `domain` is missing; write domain: shop",
        ),
        ("domain: ''", "1:9: domain: is empty"),
        (
            "domain: d\ndescriptors: {}",
            "2:14: descriptors: a map is not a list of descriptors",
        ),
        (
            "domain: d\ndescriptor: []",
            "2:1: descriptor: \"descriptor\" is not known here; did you mean `descriptors`?",
        ),
        (
            "domain: d\ndescriptors: [{value: x}]",
            "descriptors[0]: `key` is missing",
        ),
        (
            "domain: d\ndescriptors: [{key: k, ratelimit: {}}]",
            "descriptors[0].ratelimit: \"ratelimit\" is not known here; did you mean `rate_limit`?",
        ),
        (
            "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 1}}]",
            "descriptors[0].rate_limit: `unit` is missing",
        ),
        (
            "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 1, unit: minutes}}]",
            "descriptors[0].rate_limit.unit: \"minutes\" is none of second, minute, hour, day, week, month, year; did you mean `minute`?",
        ),
        (
            "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 1, unit: unknown}}]",
            "\"unknown\" is none of second",
        ),
        (
            "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, unlimited: true}}]",
            "rate_limit.unit: `unit` says nothing where `unlimited` is true",
        ),
        (
            "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 4294967296}}]",
            "4294967296 is too large; the largest number is 4294967295",
        ),
        (
            "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: '5'}}]",
            "requests_per_unit: \"5\" is not a whole number",
        ),
        (
            "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 5, name: a, replaces: [{name: a}]}}]",
            "rate_limit.replaces: \"a\" is this limit's own name",
        ),
        (
            "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 5, replaces: [{}]}}]",
            "rate_limit.replaces[0]: `name` is missing",
        ),
        (
            "domain: d\ndescriptors: [{key: k, value: x, share_threshold: true}]",
            "share_threshold is for a `value` that ends in `*`",
        ),
        (
            "domain: d\ndescriptors: [{key: k, shadow_mode: 1}]",
            "shadow_mode: 1 is not true or false",
        ),
        (
            "domain: d\ndescriptors: [{key: k, value: x}, {key: k, value: x}]",
            "2:35: descriptors[1]: the same entries in this domain are in r.yaml line 2 too",
        ),
        ("domain: d\nrules: []", "\"domain\" is not known here"),
    ] {
        let said = faults(text);
        assert!(
            said.len() == 1 && said[0].contains(told),
            "{text}: {said:?}"
        );
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let said = faults(
        "domain: ''
descriptors:
  - key: a
    rate_limit: {unit: x, requests_per_unit: -1}
    descriptors: [{key: b, descriptors: [{key: c, rate_limit: {unit: y, requests_per_unit: 1}}]}]",
    );
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(
        said[3].starts_with(
            "r.yaml:5:70: descriptors[0].descriptors[0].descriptors[0].rate_limit.unit:"
        ),
        "{said:?}"
    );
}

#[test]
fn a_limit_without_a_number_is_a_ban_and_doubtful() {
    let said = warnings("domain: d\ndescriptors: [{key: k, rate_limit: {unit: day}}]");
    assert_eq!(said.len(), 1);
    assert!(
        said[0].contains("without requests_per_unit nothing is admitted"),
        "{said:?}"
    );
}

#[test]
fn deep_files_are_told_to_be_too_deep_and_no_more() {
    let depth = 40;
    let mut yaml = "domain: d\ndescriptors: ".to_owned();
    for _ in 0..depth {
        yaml.push_str("[{key: k, descriptors: ");
    }
    yaml.push_str("[]");
    yaml.push_str(&"}]".repeat(depth));
    let said = faults(&yaml);
    assert!(
        said.len() == 1 && said[0].contains("nested more than 64 deep"),
        "{said:?}"
    );
}
