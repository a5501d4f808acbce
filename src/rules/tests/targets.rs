//! Which rules a request meets, beyond path and method.

use super::*;
use crate::rules::path::Path;

/// A file of rules, each with its `fields` and a limit, called as it stands in the list.
fn file(fields: &[(&str, &str)]) -> String {
    let rule = |(name, fields): &(&str, &str)| {
        format!("- {{name: {name}, {fields}, limits: {{requests: 5, window: 1m}}}}\n")
    };
    format!("rules:\n{}", fields.iter().map(rule).collect::<String>())
}

/// The names of the rules of `fields` that `request` meets.
fn met_by(rules: &RuleSet, request: &Described<'_>) -> Vec<String> {
    let applied = matching(rules, request);
    applied
        .iter()
        .map(|one| one.limit.rule.to_string())
        .collect()
}

fn met_at(rules: &RuleSet, method: &str, path: &str) -> Vec<String> {
    met_by(rules, &described(method, path))
}

#[test]
fn prefixes_and_expressions_match_normal_paths_as_a_whole() {
    let rules = rules(&file(&[
        ("below", "endpoint: 'prefix:/api/'"),
        ("within", "endpoint: 'GET prefix:/api/v'"),
        ("regex", "endpoint: 'regex:^/api/v[0-9]+/.*$'"),
        ("unanchored", "endpoint: 'POST regex:/api/v[0-9]'"),
        ("any", "endpoint: 'regex:.*[.]php'"),
        ("literal", "endpoint: /v1.0/*"),
    ]));
    for (method, path, expected) in [
        ("GET", "/api", &["below"] as &[&str]),
        ("GET", "/api/x", &["below"]),
        ("GET", "/apis", &[]),
        ("GET", "/api/v1", &["below", "within"]),
        ("GET", "/api/version/2", &["below", "within"]),
        ("GET", "//api/./v12/x?y", &["below", "within", "regex"]),
        ("POST", "/api/v1", &["below", "unanchored"]),
        ("POST", "/api/v1/x", &["below", "regex"]),
        ("GET", "/x/api/v1/x", &[]),
        ("GET", "/a/b.php", &["any"]),
        ("GET", "/a/b.php5", &[]),
        ("GET", "/v1.0/a", &["literal"]),
        ("GET", "/v1x0/a", &[]),
    ] {
        assert_eq!(met_at(&rules, method, path), expected, "{method} {path}");
    }
}

#[test]
fn a_path_that_explodes_elsewhere_is_answered() {
    let rules = rules(&file(&[("evil", "endpoint: 'regex:^/(a+)+$'")]));
    let path = format!("/{}", "a".repeat(8_000));
    assert_eq!(met_at(&rules, "GET", &path), ["evil"]);
    assert!(met_at(&rules, "GET", &format!("{path}!")).is_empty());
}

#[test]
fn a_request_is_checked_against_few_rules_however_many_there_are() {
    let other = |number: usize| match number % 4 {
        0 => format!("endpoint: /api/thing{number}"),
        1 => format!("endpoint: 'regex:/r{number}/[a-z]+/.*'"),
        2 => format!("when: {{attributes: {{tenant: [t{number}, u{number}]}}}}"),
        _ => format!("endpoint: 'prefix:/api/t{number}', method: PUT"),
    };
    let others: String = (0..400)
        .map(|number| format!("- {{name: r{number}, {}, ban: true}}\n", other(number)))
        .collect();
    let met = file(&[
        ("path", "endpoint: '/api/{id}'"),
        ("value", "when: {attributes: {tenant: acme}}"),
        ("regex", "endpoint: 'regex:/api/[a-z]+'"),
    ]);
    let rules = rules(&format!("{met}{others}"));
    let request = Described {
        attributes: &[("tenant", "acme")],
        ..described("GET", "/api/thing")
    };
    assert_eq!(met_by(&rules, &request), ["path", "value", "regex"]);
    let candidates = rules.targets.find(&request, &Path::new("/api/thing"));
    assert_eq!(candidates.into_vec(), [0, 1, 2]);
}

#[test]
fn every_line_of_when_must_hold_and_none_under_not() {
    let rules = rules(&file(&[
        ("exact", "when: {headers: {X-Beta: '1'}}"),
        ("number", "when: {headers: {x-beta: 1}}"),
        ("list", "when: {attributes: {plan: [a, b]}}"),
        (
            "both",
            "when: {headers: {X-Beta: present}, attributes: {plan: a}}",
        ),
        ("absent", "when: {headers: {X-Beta: absent}}"),
        ("prefix", "when: {headers: {User-Agent: 'prefix:curl/'}}"),
        ("regex", "when: {headers: {User-Agent: 'regex:.*bot.*'}}"),
        (
            "human",
            "when: {not: {headers: {User-Agent: 'regex:.*bot.*', X-Beta: '1'}}}",
        ),
        ("word", "when: {attributes: {plan: 'exact:present'}}"),
        ("mixed", "when: {attributes: {plan: [absent, 'prefix:c']}}"),
    ]));
    type Pairs<'a> = &'a [(&'a str, &'a str)];
    for (headers, attributes, expected) in [
        (
            &[] as Pairs<'_>,
            &[] as Pairs<'_>,
            &["absent", "human", "mixed"] as &[&str],
        ),
        (&[("x-beta", " 1 ")], &[], &["exact", "number", "mixed"]),
        (&[("x-beta", "")], &[], &["absent", "human", "mixed"]),
        (
            &[("x-beta", "2")],
            &[("plan", "a")],
            &["list", "both", "human"],
        ),
        (
            &[("x-beta", "2"), ("x-beta", "1")],
            &[],
            &["exact", "number", "mixed"],
        ),
        (
            &[("user-agent", "curl/8")],
            &[],
            &["absent", "prefix", "human", "mixed"],
        ),
        (
            &[("user-agent", "a bot x")],
            &[("plan", "b")],
            &["list", "absent", "regex"],
        ),
        (&[], &[("plan", "present")], &["absent", "human", "word"]),
        (&[], &[("plan", "cc")], &["absent", "human", "mixed"]),
        (&[], &[("plan", "A")], &["absent", "human"]),
    ] {
        let request = Described {
            headers,
            attributes,
            ..described("GET", "/")
        };
        assert_eq!(
            met_by(&rules, &request),
            expected,
            "{headers:?} {attributes:?}"
        );
    }
}

#[test]
fn global_tenant_and_endpoint_rules_all_apply_each_by_its_own_key() {
    let rules = rules(&file(&[
        ("global", "key: region"),
        ("tenant", "key: tenant"),
        ("endpoint", "endpoint: POST /orders, key: [tenant, user]"),
    ]));
    let request = |user, path| Described {
        attributes: [
            &[("region", "eu"), ("tenant", "acme"), ("user", "alice")] as &[(&str, &str)],
            &[("region", "eu"), ("tenant", "acme"), ("user", "bob")],
        ][user],
        ..described("POST", path)
    };
    assert_eq!(
        met_by(&rules, &request(0, "/orders")),
        ["global", "tenant", "endpoint"]
    );
    assert_eq!(met_by(&rules, &request(0, "/x")), ["global", "tenant"]);
    let keys = |user| -> Vec<Key> {
        let applied = matching(&rules, &request(user, "/orders"));
        applied.iter().map(|one| one.key).collect()
    };
    let (alice, bob) = (keys(0), keys(1));
    assert_eq!(alice[..2], bob[..2]);
    assert_ne!(alice[2], bob[2]);
}

#[test]
fn of_a_group_only_the_first_that_matches_applies() {
    let rules = rules(&file(&[
        ("wide", "endpoint: /api/**, group: g"),
        (
            "beta",
            "endpoint: /api/**, group: g, priority: 5, when: {headers: {X-Beta: present}}",
        ),
        ("health", "endpoint: /api/health, group: g, priority: 9"),
        ("later", "endpoint: '/api/{id}', group: g, priority: 5"),
        ("other", "endpoint: /api/**, group: h"),
        ("alone", "endpoint: /api/**"),
    ]));
    assert_eq!(
        met_at(&rules, "GET", "/api/health"),
        ["health", "other", "alone"]
    );
    assert_eq!(met_at(&rules, "GET", "/api/x"), ["later", "other", "alone"]);
    assert_eq!(
        met_at(&rules, "GET", "/api/x/y"),
        ["wide", "other", "alone"]
    );
    let beta = Described {
        headers: &[("x-beta", "1")],
        ..described("GET", "/api/x")
    };
    assert_eq!(met_by(&rules, &beta), ["beta", "other", "alone"]);
}

#[test]
fn a_rule_that_is_not_enabled_limits_nobody_and_takes_nobodys_place() {
    let rules = rules(&file(&[
        ("idle", "enabled: false, group: g, priority: 9"),
        ("busy", "enabled: true, group: g"),
    ]));
    assert_eq!(met_at(&rules, "GET", "/"), ["busy"]);
    assert!(named(&rules, "idle", "alice", None).is_empty());
    assert_eq!(named(&rules, "busy", "alice", None).len(), 1);
}

#[test]
fn a_rule_that_skips_a_caller_takes_nobodys_place() {
    let yaml = file(&[
        (
            "known",
            "key: api_key, on_missing: skip, group: g, priority: 9",
        ),
        ("others", "group: g"),
    ]);
    let known = Described {
        headers: &[("x-api-key", "abc")],
        ..described("GET", "/")
    };
    let all = rules(&yaml);
    assert_eq!(met_by(&all, &known), ["known"]);
    assert_eq!(met_at(&all, "GET", "/"), ["others"]);
    assert_eq!(warnings(&yaml), [""; 0]);
}

#[test]
fn a_rule_that_is_not_enabled_insists_on_nothing() {
    let rules = rules(&file(&[("r", "enabled: false, on_missing: deny")]));
    assert!(named(&rules, "r", " ", None).is_empty());
}

#[test]
fn an_unlimited_rule_exempts_from_the_rest_of_its_group() {
    let rules = rules(
        "rules:\n- {name: health, endpoint: /health, group: g, priority: 1, unlimited: true}\n\
         - {name: all, group: g, limits: {requests: 5, window: 1m}}\n\
         - {name: other, limits: {requests: 5, window: 1m}}",
    );
    assert_eq!(met_at(&rules, "GET", "/health"), ["other"]);
    assert_eq!(met_at(&rules, "GET", "/x"), ["all", "other"]);
    assert!(named(&rules, "health", "k", None).is_empty());
}

#[test]
fn tiers_may_be_unlimited_or_banned() {
    let rules = rules(
        "rules:\n- name: r\n  limits: {free: {requests: 5, window: 1m}, enterprise: unlimited, \
         abuser: ban, default: [{requests: 1, window: 1m}]}\n- {name: banned, ban: true}",
    );
    let of = |tier| named(&rules, "r", "k", Some(tier));
    assert_eq!(names(&of("free")), ["r free/1m"]);
    assert!(of("enterprise").is_empty());
    assert_eq!(names(&of("abuser")), ["r abuser/ban"]);
    assert!(of("abuser")[0].limit.quota.is_ban());
    assert_eq!(names(&of("other")), ["r default/1m"]);
    assert!(named(&rules, "banned", "k", None)[0].limit.quota.is_ban());
    for tier in [
        "pro",
        "basic",
        "standard",
        "premium",
        "gold",
        "trial",
        "business",
        "internal",
        "partner",
        "anonymous",
        "admin",
        "vip",
        "paid",
        "guest",
        "starter",
        "team",
    ] {
        let yaml = format!("rules:\n- {{name: r, limits: {{{tier}: unlimited, default: ban}}}}");
        let rules = super::rules(&yaml);
        assert!(named(&rules, "r", "k", Some(tier)).is_empty(), "{tier}");
    }
}

#[test]
fn a_percentage_is_of_callers_and_always_the_same_ones() {
    let of = |percent: u32| {
        let rules = rules(&file(&[("r", &format!("key: user, percent: {percent}"))]));
        let callers = (0..2_000).map(|number| {
            let user = format!("user{number}");
            let attributes = [("user", user.as_str())];
            let request = Described {
                attributes: &attributes,
                ..described("GET", "/")
            };
            let chosen = !matching(&rules, &request).is_empty();
            assert_eq!(chosen, !matching(&rules, &request).is_empty());
            // By any door.
            assert_eq!(chosen, !named(&rules, "r", &user, None).is_empty());
            chosen
        });
        callers.collect::<Vec<bool>>()
    };
    let (ten, thirty) = (of(10), of(30));
    let count = |chosen: &[bool]| chosen.iter().filter(|chosen| **chosen).count();
    assert!((140..260).contains(&count(&ten)), "{}", count(&ten));
    assert!((520..680).contains(&count(&thirty)), "{}", count(&thirty));
    assert!(ten.iter().zip(&thirty).all(|(ten, thirty)| !ten || *thirty));
    assert_eq!(count(&of(100)), 2_000);
}

#[test]
fn rules_choose_their_part_of_the_callers_independently() {
    let rules = rules(&file(&[
        ("a", "key: user, percent: 50"),
        ("b", "key: user, percent: 50"),
    ]));
    let mut seen = [0; 4];
    for number in 0..400 {
        let user = format!("user{number}");
        let in_rule = |rule| usize::from(!named(&rules, rule, &user, None).is_empty());
        seen[2 * in_rule("a") + in_rule("b")] += 1;
    }
    assert!(
        seen.iter().all(|count| (60..140).contains(count)),
        "{seen:?}"
    );
}

#[test]
fn whoever_is_not_in_the_part_meets_the_next_of_the_group() {
    let rules = rules(&file(&[
        ("canary", "key: user, percent: 50, group: g, priority: 1"),
        ("stable", "key: user, group: g"),
    ]));
    let mut seen = [0, 0];
    for number in 0..200 {
        let user = format!("user{number}");
        let attributes = [("user", user.as_str())];
        let request = Described {
            attributes: &attributes,
            ..described("GET", "/")
        };
        let names = met_by(&rules, &request);
        assert_eq!(names.len(), 1);
        seen[usize::from(names[0] == "canary")] += 1;
    }
    assert!(seen.iter().all(|count| *count > 60), "{seen:?}");
}

#[test]
fn the_first_override_that_matches_replaces_the_limits_with_counters_of_its_own() {
    let rules = rules(
        "rules:\n- name: api\n  endpoint: /api/**\n  \
         limits: {free: {requests: 100, window: 1m}, pro: {requests: 1000, window: 1m}}\n  \
         overrides:\n  \
         - {endpoint: POST /api/search, limits: {requests: 50, window: 1m}}\n  \
         - {endpoint: '/api/{id}', when: {headers: {X-Bulk: present}}, name: bulk, limits: {pro: {requests: 9, window: 1m}}}\n  \
         - {endpoint: GET /api/status, unlimited: true}\n  \
         - {endpoint: 'prefix:/api/internal', ban: true}",
    );
    let at = |method, path, tier, bulk: bool| {
        let request = Described {
            attributes: &[("tier", tier)],
            headers: if bulk { &[("x-bulk", "1")] } else { &[] },
            ..described(method, path)
        };
        let applied = matching(&rules, &request);
        (
            names(&applied),
            applied.iter().map(|one| one.key).collect::<Vec<_>>(),
        )
    };
    let named = |said: (Vec<String>, Vec<Key>)| said.0;
    assert_eq!(named(at("GET", "/api/x", "free", false)), ["api free/1m"]);
    // One for all tiers, with one counter.
    let search = "api POST /api/search default/1m";
    let free = at("POST", "/api/search", "free", false);
    assert_eq!(free, at("POST", "/api/search", "pro", false));
    assert_eq!(named(free.clone()), [search]);
    assert_ne!(free.1, at("GET", "/api/search", "free", false).1);
    // The first wins, though the second matches too.
    assert_eq!(named(at("POST", "/api/search", "pro", true)), [search]);
    // For one tier alone: the others keep what the rule says.
    assert_eq!(named(at("GET", "/api/x", "pro", true)), ["api bulk pro/1m"]);
    assert_eq!(named(at("GET", "/api/x", "free", true)), ["api free/1m"]);
    assert_eq!(named(at("GET", "/api/x", "", true)), ["api free/1m"]);
    assert!(named(at("GET", "/api/status", "pro", false)).is_empty());
    assert_eq!(
        named(at("GET", "/api/internals/a", "pro", false)),
        ["api prefix:/api/internal default/ban"]
    );
}

#[test]
fn an_override_for_the_tier_that_unknown_callers_get_is_theirs_too() {
    let rules = rules(
        "rules:\n- name: api\n  limits: {free: {requests: 100, window: 1m}}\n  \
         overrides:\n  - {endpoint: /a, limits: {free: {requests: 1, window: 1m}}}",
    );
    assert_eq!(matching_names(&rules, "GET", "/a"), ["api /a free/1m"]);
    assert_eq!(matching_names(&rules, "GET", "/b"), ["api free/1m"]);
}

#[test]
fn an_override_for_the_stated_default_tier_is_for_callers_without_one() {
    let rules = rules(
        "tiers: {default: free}\nrules:\n- name: api\n  limits: {requests: 100, window: 1m}\n  \
         overrides:\n  - {endpoint: /a, limits: {free: {requests: 1, window: 1m}}}",
    );
    assert_eq!(matching_names(&rules, "GET", "/a"), ["api /a free/1m"]);
    let pro = Described {
        attributes: &[("tier", "pro")],
        ..described("GET", "/a")
    };
    assert!(!names(&matching(&rules, &pro))[0].contains("/a "));
}

#[test]
fn the_amount_of_an_override_is_not_part_of_its_counters_but_its_name_is() {
    let key = |name: &str, amount: u32| {
        let rules = rules(&format!(
            "rules:\n- name: api\n  unlimited: true\n  \
             overrides: [{{name: {name}, endpoint: /a, limits: {{requests: {amount}, window: 1m}}}}]"
        ));
        key_of(&rules, &described("GET", "/a"))
    };
    assert_eq!(key("x", 5), key("x", 9));
    assert_ne!(key("x", 5), key("z", 5));
}

#[test]
fn case_and_trailing_slash_count_as_the_rule_says() {
    let rules = rules(&file(&[
        ("plain", "endpoint: '/Api/{id}'"),
        ("folded", "endpoint: '/Api/{id}', case: insensitive"),
        ("start", "endpoint: 'prefix:/API/X', case: insensitive"),
        ("regex", "endpoint: 'regex:/api/[xy]', case: insensitive"),
        ("without", "endpoint: /api/x, trailing_slash: distinct"),
        ("with", "endpoint: /api/x/, trailing_slash: distinct"),
    ]));
    assert_eq!(
        met_at(&rules, "GET", "/Api/x"),
        ["plain", "folded", "start", "regex"]
    );
    assert_eq!(met_at(&rules, "GET", "/aPI/z"), ["folded"]);
    assert_eq!(
        met_at(&rules, "GET", "/api/x"),
        ["folded", "start", "regex", "without"]
    );
    assert_eq!(
        met_at(&rules, "GET", "/api/x/?q"),
        ["folded", "start", "regex", "with"]
    );
}

#[test]
fn modes_are_set_for_a_file_and_for_a_rule() {
    use crate::units::{Consistency, Mode};
    let rules = rules(
        "defaults: {mode: shadow}\nrules:\n- {name: a, limits: {requests: 5, window: 1m}}\n\
         - {name: b, mode: enforce, consistency: strict, limits: {requests: 5, window: 1m}}\n\
         - {name: c, mode: soft, consistency: strict, limits: {requests: 5, window: 1m}}\n\
         - {name: d, ban: true}",
    );
    let modes: Vec<_> = rules
        .limits()
        .iter()
        .map(|limit| (limit.mode, limit.consistency))
        .collect();
    assert_eq!(
        modes,
        [
            (Mode::Shadow, Consistency::Approximate),
            (Mode::Enforce, Consistency::Strict),
            (Mode::Soft, Consistency::Approximate),
            (Mode::Shadow, Consistency::Local),
        ]
    );
}

#[test]
fn a_rule_that_never_refuses_insists_on_nobody_where_nothing_is_limited() {
    let file = |mode: &str| {
        rules(&format!(
            "rules:\n- name: r\n  key: api_key\n  on_missing: deny\n  mode: {mode}\n  \
             limits: {{free: {{requests: 5, window: 1m}}, enterprise: unlimited}}\n  \
             overrides: [{{endpoint: /health, unlimited: true}}]"
        ))
    };
    let of = |rules: &RuleSet, path, tier| {
        let request = Described {
            attributes: &[("tier", tier)],
            ..described("GET", path)
        };
        rules.matching(&request, Timestamp::EPOCH, &mut AppliedLimits::new())
    };
    let (shadow, enforce) = (file("shadow"), file("enforce"));
    for (path, tier) in [("/", "free"), ("/", "enterprise"), ("/health", "free")] {
        assert_eq!(of(&shadow, path, tier), Ok(()), "{path} {tier}");
        let denied = of(&enforce, path, tier);
        assert_eq!(denied, Err(NotFound::Caller), "{path} {tier}");
    }
}
