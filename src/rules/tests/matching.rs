use super::*;

#[test]
fn a_tier_is_chosen_by_the_caller_and_falls_back_to_the_default() {
    let rules = rules(
        "rules:\n- endpoint: /a\n  limits: {free: {requests: 1, window: 1m}, \
         default: {requests: 2, window: 1m}, pro: {requests: 3, window: 1m}}",
    );
    for (tier, limit) in [
        ("free", "/a free/1m"),
        (" pro\t", "/a pro/1m"),
        ("PRO", "/a default/1m"),
        ("other", "/a default/1m"),
        (" ", "/a default/1m"),
    ] {
        let request = Described {
            attributes: &[("tier", tier)],
            ..described("GET", "/a")
        };
        assert_eq!(names(&matching(&rules, &request)), [limit], "{tier}");
        assert_eq!(
            names(&named(&rules, "/a", "k", Some(tier))),
            [limit],
            "{tier}"
        );
    }
    assert_eq!(matching_names(&rules, "GET", "/a"), ["/a default/1m"]);
    assert_eq!(names(&named(&rules, "/a", "k", None)), ["/a default/1m"]);
}

#[test]
fn without_a_default_tier_the_first_of_the_file_holds() {
    let rules = rules(
        "rules:\n- endpoint: /a\n  limits: {pro: {requests: 3, window: 1m}, \
         free: {requests: 1, window: 1m}}",
    );
    assert_eq!(matching_names(&rules, "GET", "/a"), ["/a pro/1m"]);
}

#[test]
fn all_rules_that_match_apply_in_the_order_of_the_files() {
    let compiled = compile(&[
        (
            "a.yaml",
            "rules:\n- {endpoint: /a/**, name: z, limits: {requests: 1, window: 1m}}\n\
             - {name: every, limits: {requests: 1, window: 1m}}",
        ),
        (
            "b.yaml",
            "rules:\n- {endpoint: 'GET /a/{id}', limits: [{requests: 1, window: 1m}, \
             {requests: 9, window: 1h}]}",
        ),
    ])
    .unwrap();
    assert_eq!(
        matching_names(&compiled.rules, "get", "//a/./b/?x"),
        [
            "z default/1m",
            "every default/1m",
            "GET /a/{id} default/1m",
            "GET /a/{id} default/1h"
        ]
    );
    assert_eq!(
        matching_names(&compiled.rules, "GET", "/b"),
        ["every default/1m"]
    );
}

#[test]
fn method_and_path_are_read_as_people_write_them() {
    let requests = [
        ("POST", "/a"),
        ("post", "/a/b"),
        ("PUT", "/a/b"),
        ("PUT", "/a/b/c"),
    ];
    for (endpoint, expected) in [
        ("post:/a/b", [false, true, false, false]),
        ("POST /a/{id}", [false, true, false, false]),
        ("POST /a/:id", [false, true, false, false]),
        ("* /a/*", [false, true, true, false]),
        ("/a/**", [true, true, true, true]),
        ("put:/a/**", [false, false, true, true]),
    ] {
        let rules = rules(&format!(
            "rules:\n- endpoint: '{endpoint}'\n  limits: {{requests: 1, window: 1m}}"
        ));
        let matched =
            requests.map(|(method, path)| !matching(&rules, &described(method, path)).is_empty());
        assert_eq!(matched, expected, "{endpoint}");
    }
}

#[test]
fn two_keyed_rules_on_one_endpoint_both_apply() {
    let rules = rules(
        "rules:\n- {name: by-ip, endpoint: /a, key: ip, limits: {requests: 1, window: 1m}}\n\
         - {name: by-key, endpoint: /a, key: 'header:X-Key', limits: {requests: 3, window: 1h, \
         burst: 5, algorithm: token_bucket}}",
    );
    assert_eq!(
        matching_names(&rules, "GET", "/a"),
        ["by-ip default/1m", "by-key default/1h"]
    );
}

#[test]
fn escaped_slashes_are_another_endpoint() {
    let rules = rules(
        "rules:\n- {name: one, endpoint: /a/b, limits: {requests: 1, window: 1m}}\n\
         - {name: two, endpoint: /a%2fb, limits: {requests: 1, window: 1m}}\n\
         - {name: three, endpoint: /a%252Fb, limits: {requests: 1, window: 1m}}",
    );
    assert_eq!(matching_names(&rules, "GET", "/a/b"), ["one default/1m"]);
    assert_eq!(matching_names(&rules, "GET", "/a%2Fb"), ["two default/1m"]);
    assert_eq!(
        matching_names(&rules, "GET", "/a%252Fb"),
        ["three default/1m"]
    );
    for path in ["/a%zz", "/a%", "/a%00b", "/%e2%82", "/a%25252Fb"] {
        assert!(
            matching(&rules, &described("GET", path)).is_empty(),
            "{path}"
        );
    }
}

#[test]
fn an_explicit_key_meets_the_same_value_from_a_single_source() {
    let rules = rules(
        "rules:\n- {name: orders, endpoint: /orders, key: user, limits: {requests: 1, window: 1m}}\n\
         - {name: login, endpoint: /login, limits: {requests: 1, window: 1m}}\n\
         - {name: both, endpoint: /both, key: [user, client], limits: {requests: 1, window: 1m}}",
    );
    let alice = |path| Described {
        attributes: &[("user", " alice ")],
        ..described("GET", path)
    };
    let explicit = |rule, key| named(&rules, rule, key, None)[0].key;
    assert_eq!(
        key_of(&rules, &alice("/orders")),
        explicit("orders", "alice")
    );
    assert_eq!(
        key_of(&rules, &alice("/login")),
        explicit("login", "203.0.113.9")
    );
    assert_ne!(key_of(&rules, &alice("/both")), explicit("both", "alice"));
    assert_ne!(explicit("orders", "alice"), explicit("login", "alice"));
}

#[test]
fn a_missing_value_falls_back_to_the_address_which_no_caller_can_state() {
    let rules = rules(
        "rules:\n- {endpoint: /a, key: 'header:X-API-Key', limits: {requests: 1, window: 1m}}",
    );
    let with = |headers| {
        key_of(
            &rules,
            &Described {
                headers,
                ..described("GET", "/a")
            },
        )
    };
    let missing = with(&[]);
    assert_eq!(with(&[("x-api-key", "")]), missing);
    assert_eq!(with(&[("x-api-key", " \t")]), missing);
    assert_eq!(with(&[("x-api-key", "abc"), ("x-api-key", "zzz")]), missing);
    assert_ne!(with(&[("x-api-key", "203.0.113.9")]), missing);
    assert_eq!(
        with(&[("x-api-key", "abc")]),
        with(&[("x-api-key", "  abc ")])
    );
    assert_ne!(with(&[("x-api-key", "abc")]), with(&[("x-api-key", "ABC")]));
    assert_eq!(
        with(&[("x-api-key", "abc"), ("x-api-key", "abc")]),
        with(&[("x-api-key", "abc")])
    );
    assert_ne!(with(&[("x-api-key", "abc"), ("other", "x")]), missing);

    let nobody = Described {
        path: "/a",
        ..Described::default()
    };
    assert_ne!(key_of(&rules, &nobody), missing);
    let peer = Described {
        peer: described("", "").ip,
        ..nobody
    };
    assert_eq!(key_of(&rules, &peer), missing);
    let both = Described {
        ip: Some(IpAddr::from([192, 0, 2, 1])),
        ..peer
    };
    assert_ne!(key_of(&rules, &both), missing);
}

#[test]
fn clients_of_one_ipv6_network_are_one_client() {
    let rules = rules("rules:\n- {name: r, limits: {requests: 5, window: 1m}}");
    let key = |ip: &str| {
        let ip = Some(ip.parse().unwrap());
        key_of(
            &rules,
            &Described {
                ip,
                ..described("GET", "/")
            },
        )
    };
    let first = key("2001:db8:1:2::1");
    for n in 2..=6 {
        assert_eq!(key(&format!("2001:db8:1:2::{n}")), first);
    }
    assert_ne!(key("2001:db8:1:3::1"), first);
    assert_eq!(first, named(&rules, "r", "2001:db8:1:2::/64", None)[0].key);
    assert_eq!(key("::ffff:203.0.113.9"), key("203.0.113.9"));
}

#[test]
fn several_sources_are_one_identity_without_ambiguity() {
    let rules =
        rules("rules:\n- {endpoint: /a, key: [tenant, user], limits: {requests: 1, window: 1m}}");
    let key = |attributes| {
        key_of(
            &rules,
            &Described {
                attributes,
                ..described("GET", "/a")
            },
        )
    };
    let ab = key(&[("tenant", "a"), ("user", "b")]);
    assert_eq!(key(&[("user", "b"), ("tenant", "a")]), ab);
    assert_ne!(key(&[("tenant", "b"), ("user", "a")]), ab);
    assert_ne!(key(&[("tenant", "ab")]), ab);
    assert_ne!(key(&[("tenant", "a")]), key(&[("user", "a")]));
}

#[test]
fn two_rules_never_share_a_counter() {
    let rules = rules(
        "rules:\n- {name: A, algorithm: fixed_window, limits: {requests: 5, window: 1m}}\n\
         - {name: B, algorithm: fixed_window, limits: {requests: 100, window: 1h}}",
    );
    let applied = matching(&rules, &described("GET", "/"));
    assert_ne!(applied[0].key, applied[1].key);
    assert_eq!(
        applied[0].limit.id.as_str(),
        "1:A/7:default/fixed_window/1m"
    );
    assert_eq!(
        applied[1].limit.id.as_str(),
        "1:B/7:default/fixed_window/1h"
    );
}

#[test]
fn a_changed_amount_keeps_the_counter_and_a_changed_window_does_not() {
    let key = |limit: &str| {
        let rules = rules(&format!("rules:\n- {{name: A, limits: {limit}}}"));
        named(&rules, "A", "k", None)[0].key
    };
    assert_eq!(
        key("{requests: 5, window: 1m}"),
        key("{requests: 50, window: 60s}")
    );
    assert_ne!(
        key("{requests: 5, window: 1m}"),
        key("{requests: 5, window: 2m}")
    );
}

#[test]
fn an_unknown_rule_is_an_error_that_adds_nothing() {
    let rules = rules("rules:\n- {name: A, limits: {requests: 5, window: 1m}}");
    let empty = RuleSet::default();
    let mut applied = AppliedLimits::new();
    for (set, rule) in [(&rules, "a"), (&rules, ""), (&empty, "A")] {
        assert_eq!(
            set.named(rule, b"k", None, &mut applied),
            Err(NotFound::Rule)
        );
        assert!(applied.is_empty());
    }
    assert!(matching(&empty, &described("GET", "/")).is_empty());
}

#[test]
fn ten_thousand_rules_match_as_one_does() {
    let mut text =
        String::from("rules:\n- {endpoint: /target/:id, limits: {requests: 1, window: 1m}}\n");
    let alone = rules(&text);
    for i in 0..10_000 {
        text.push_str(&format!(
            "- {{endpoint: /service{}/item{i}, limits: {{requests: 1, window: 1m}}}}\n",
            i % 100
        ));
    }
    let many = rules(&text);
    assert_eq!(many.limits().len(), 10_001);
    for path in ["/target/1", "/target", "/target/1/2", "/other"] {
        let (one, all) = (
            matching(&alone, &described("GET", path)).into_vec(),
            matching(&many, &described("GET", path)).into_vec(),
        );
        assert_eq!(names(&one), names(&all), "{path}");
        assert!(one.iter().zip(&all).all(|(a, b)| a.key == b.key));
    }
    assert_eq!(
        matching_names(&many, "GET", "/service42/item4242"),
        ["/service42/item4242 default/1m"]
    );
}
