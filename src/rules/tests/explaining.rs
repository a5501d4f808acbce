use super::*;
use crate::rules::{Counted, CountedAs, RuleExplained, Why};

const API: &str = "api_keys: [{key: sk_live_1, name: acme, tier: pro}, {key: sk_live_2}]
rules:
  - {name: gone, enabled: false, limits: {requests: 1, window: 1m}}
  - {name: path, endpoint: /other, limits: {requests: 1, window: 1m}}
  - {name: expression, endpoint: 'regex:/api/[0-9]+', limits: {requests: 1, window: 1m}}
  - {name: method, endpoint: POST /api/x, limits: {requests: 1, window: 1m}}
  - {name: exact, when: {headers: {X-Beta: '1'}}, limits: {requests: 1, window: 1m}}
  - {name: not, when: {not: {headers: {X-Dull: present}}}, limits: {requests: 1, window: 1m}}
  - {name: nobody, percent: 0, limits: {requests: 1, window: 1m}}
  - {name: second, group: g, limits: {requests: 1, window: 1m}}
  - {name: first, group: g, priority: 9, endpoint: /api/*, limits: {requests: 1, window: 1m}}
  - {name: third, group: g, limits: {requests: 1, window: 1m}}
  - {name: skips, key: header:X-User, on_missing: skip, limits: {requests: 1, window: 1m}}
  - {name: shared, key: [header:X-User, client], on_missing: shared, limits: {requests: 1, window: 1m}}
  - {name: all, key: global, preflight: count, limits: {requests: 1, window: 1m}}
  - {name: free, endpoint: /api/**, unlimited: true}
  - {name: keyed, key: api_key, cost: 3, limits: {default: {requests: 9, window: 1m}, pro: {requests: 8, window: 1h}}}
";

fn explained<'r>(rules: &'r RuleSet, request: &Described<'_>) -> Vec<RuleExplained<'r>> {
    rules.explain(request, Timestamp::EPOCH)
}

fn why<'r>(all: &[RuleExplained<'r>], name: &str) -> Option<Why<'r>> {
    let one = all.iter().find(|one| one.rule == name);
    one.unwrap().why_not
}

fn counted(all: &[RuleExplained<'_>], name: &str) -> Vec<(String, CountedAs)> {
    let one = all.iter().find(|one| one.rule == name).unwrap();
    let pair = |Counted { name, value }: &Counted| (name.clone(), value.clone());
    one.counted.iter().map(pair).collect()
}

fn value(text: &str) -> CountedAs {
    CountedAs::Value(text.to_owned())
}

#[test]
fn the_first_reason_is_told_why_a_rule_does_not_apply() {
    let rules = rules(API);
    let request = Described {
        headers: &[("x-dull", "yes")],
        ..described("GET", "/api/x")
    };
    let all = explained(&rules, &request);
    for (rule, want) in [
        ("gone", Some(Why::NotEnabled)),
        ("path", Some(Why::Path)),
        ("expression", Some(Why::Path)),
        ("method", Some(Why::Method)),
        ("exact", Some(Why::When)),
        ("not", Some(Why::When)),
        ("nobody", Some(Why::Percent)),
        ("first", None),
        ("second", Some(Why::Group("first"))),
        ("third", Some(Why::Group("first"))),
        ("skips", Some(Why::CallerSkipped)),
        ("all", None),
        ("free", None),
    ] {
        assert_eq!(why(&all, rule), want, "{rule}");
    }
    let elsewhere = explained(&rules, &described("GET", "/else"));
    assert_eq!(why(&elsewhere, "first"), Some(Why::Path));
    assert_eq!(why(&elsewhere, "third"), Some(Why::Group("second")));
}

#[test]
fn a_preflight_is_told_as_one_and_head_counts_where_it_is_named() {
    let rules = rules(API);
    let preflight = Described {
        headers: &[("origin", "a"), ("access-control-request-method", "GET")],
        ..described("OPTIONS", "/api/x")
    };
    let all = explained(&rules, &preflight);
    assert_eq!(why(&all, "first"), Some(Why::Preflight));
    assert_eq!(why(&all, "all"), None);

    let limits = "limits: {requests: 1, window: 1m}";
    let rules = super::rules(&format!(
        "rules: [{{name: g, endpoint: GET /a, {limits}}}, {{name: h, endpoint: HEAD /a, {limits}}}]"
    ));
    let all = explained(&rules, &described("HEAD", "/a"));
    assert_eq!((why(&all, "g"), why(&all, "h")), (Some(Why::Method), None));
}

#[test]
fn who_is_counted_is_told_without_secrets() {
    let rules = rules(API);
    let with = |headers| Described {
        headers,
        ..described("GET", "/api/x")
    };
    let known = with(&[("x-api-key", "sk_live_1"), ("x-user", "al")]);
    let all = explained(&rules, &known);
    assert_eq!(
        counted(&all, "keyed"),
        [("api_key".to_owned(), value("acme"))]
    );
    assert_eq!(
        counted(&all, "skips"),
        [("header:x-user".to_owned(), value("al"))]
    );
    assert!(!format!("{all:?}").contains("sk_live"), "{all:?}");
    let keyed = all.iter().find(|one| one.rule == "keyed").unwrap();
    assert_eq!(keyed.tier, Some("default"), "tiers are from the attribute");
    assert_eq!(keyed.limits[0].weight, 3);

    let nameless = with(&[("x-api-key", "sk_live_2")]);
    let all = explained(&rules, &nameless);
    assert_eq!(
        counted(&all, "keyed"),
        [("api_key".to_owned(), CountedAs::Hidden)]
    );

    let unknown = described("GET", "/api/x");
    let all = explained(&rules, &unknown);
    assert_eq!(
        counted(&all, "keyed"),
        [("client".to_owned(), value("203.0.113.9"))]
    );
    assert_eq!(
        counted(&all, "all"),
        [("global".to_owned(), CountedAs::Everybody)]
    );
    let shared = [
        ("header:x-user".to_owned(), CountedAs::Nobody),
        ("client".to_owned(), value("203.0.113.9")),
    ];
    assert_eq!(counted(&all, "shared"), shared);
}

#[test]
fn fields_that_may_hold_secrets_are_not_shown() {
    for (key, hidden) in [
        ("header:Authorization", true),
        ("header:Cookie", true),
        ("query:access_token", true),
        ("attribute:apiKey", true),
        ("header:X-User", false),
    ] {
        let rules = rules(&format!(
            "rules: [{{name: r, key: '{key}', limits: {{requests: 1, window: 1m}}}}]"
        ));
        let request = Described {
            headers: &[("authorization", "v"), ("cookie", "v"), ("x-user", "v")],
            attributes: &[("apikey", "v")],
            ..described("GET", "/?access_token=v")
        };
        let all = explained(&rules, &request);
        let want = if hidden {
            CountedAs::Hidden
        } else {
            value("v")
        };
        assert_eq!(counted(&all, "r")[0].1, want, "{key}");
    }
}

#[test]
fn whom_a_rule_denies_is_refused_unless_its_limits_never_refuse() {
    for (mode, want) in [
        ("enforce", Why::CallerDenied),
        ("shadow", Why::CallerTolerated),
    ] {
        let rules = rules(&format!(
            "rules: [{{name: r, key: header:X-User, on_missing: deny, mode: {mode}, \
             limits: {{requests: 1, window: 1m}}}}]"
        ));
        let request = described("GET", "/");
        let all = explained(&rules, &request);
        assert_eq!(why(&all, "r"), Some(want));
        let mut applied = AppliedLimits::new();
        let matched = rules.matching(&request, Timestamp::EPOCH, &mut applied);
        assert_eq!(matched.is_err(), want == Why::CallerDenied);
    }
}

#[test]
fn what_is_explained_is_what_is_matched() {
    let rules = rules(API);
    for method in ["GET", "HEAD", "POST", "OPTIONS"] {
        for path in ["/", "/api/x", "/api/7", "/other", "/api/x/"] {
            for headers in [
                &[][..],
                &[("x-beta", "1"), ("x-user", "al")],
                &[("x-dull", "1"), ("x-api-key", "sk_live_1")],
                &[("origin", "a"), ("access-control-request-method", "GET")],
            ] {
                let request = Described {
                    headers,
                    attributes: &[("tier", "pro")],
                    ..described(method, path)
                };
                let pair = |one: &Applied<'_>| (one.limit.id.clone(), one.key, one.weight);
                let matched: Vec<_> = matching(&rules, &request).iter().map(pair).collect();
                let all = explained(&rules, &request);
                let told = all.iter().flat_map(|one| &one.limits).map(pair);
                assert_eq!(told.collect::<Vec<_>>(), matched, "{method} {path}");
            }
        }
    }
}
