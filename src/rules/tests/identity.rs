use std::path::PathBuf;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

use super::*;
use crate::rules::Pairs;
use crate::units::Nanos;

const SECRET: &str = "a shared secret of more than 32 bytes";

/// The keys that a rule counts a request by, or who was not found.
fn keys(rules: &RuleSet, request: &Described<'_>) -> Result<Vec<Key>, NotFound> {
    let mut applied = AppliedLimits::new();
    rules.matching(request, at(500), &mut applied)?;
    Ok(applied.iter().map(|one| one.key).collect())
}

fn at(secs: u64) -> Timestamp {
    Timestamp::EPOCH.after(Nanos::from_secs(secs))
}

fn key(rules: &RuleSet, headers: Pairs<'_>) -> Key {
    let request = Described {
        headers,
        ..described("GET", "/a/7/b")
    };
    keys(rules, &request).unwrap()[0]
}

/// A set with one rule that has `fields`, and `top` beside it.
fn rule(top: &str, fields: &str) -> RuleSet {
    rules(&format!(
        "{top}\nrules:\n- name: r\n  endpoint: /a/{{id}}/:what\n  {fields}\n  \
         limits: {{requests: 3, window: 1m}}"
    ))
}

/// A set as [`rule`], whose tokens two issuers sign with [`SECRET`].
fn with_tokens(fields: &str) -> RuleSet {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("secret"), SECRET).unwrap();
    let issuer = |name| {
        format!("{{issuer: {name}, audience: api, algorithms: [HS256], secret_file: secret}}")
    };
    let text = format!(
        "jwt: [{}, {}]\nrules:\n- name: r\n  {fields}\n  limits: {{requests: 5, window: 1m}}",
        issuer("https://one.example"),
        issuer("https://two.example")
    );
    let name = place.path().join("rules.yaml");
    let (compiled, read) = reading(name.to_str().unwrap(), &text);
    assert_eq!(
        read,
        [place.path().join("secret"), place.path().join("secret")]
    );
    compiled.unwrap().rules
}

/// What a file compiles to, and the files that it names.
fn reading(name: &str, text: &str) -> (Result<Compiled, String>, Vec<PathBuf>) {
    let mut read = Vec::new();
    let compiled = RuleSet::compile_with(None, &[source(name, text)], &defaults(), &mut read);
    (compiled.map_err(|faults| faults.to_string()), read)
}

#[test]
fn a_pipe_is_no_file_of_keys_and_files_are_told_though_they_cannot_be_used() {
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join("keys.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let name = place.path().join("rules.yaml");
    let (compiled, read) = reading(
        name.to_str().unwrap(),
        "api_keys: {file: keys.yaml}\nrules: []",
    );
    let faults = compiled.unwrap_err();
    assert!(faults.contains("it is no file"), "{faults}");
    assert_eq!(read, [pipe]);
}

#[test]
fn an_empty_file_of_keys_is_taken_for_one_that_is_just_being_written() {
    let place = tempfile::tempdir().unwrap();
    let name = place.path().join("rules.yaml");
    let read = |keys: &str| {
        std::fs::write(place.path().join("keys.yaml"), keys).unwrap();
        let text = "api_keys: {file: keys.yaml}\nrules: []";
        reading(name.to_str().unwrap(), text).0
    };
    for empty in ["", "\n", "# keys\n"] {
        let faults = read(empty).unwrap_err();
        assert!(faults.contains("is empty; write []"), "{faults}");
    }
    assert!(read("[]").is_ok());
}

fn token(issuer: &str, changes: serde_json::Value) -> String {
    let mut claims = json!({"iss": issuer, "aud": "api", "exp": 1_000});
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    let key = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
    format!(
        "Bearer {}",
        encode(&Header::new(Algorithm::HS256), &claims, &key).unwrap()
    )
}

const ABC: Pairs<'_> = &[("x-api-key", "abc")];
const ONE: &str = "https://one.example";

#[test]
fn one_api_key_in_all_spellings_is_one_caller() {
    let rules = rule("", "key: api_key");
    let abc = key(&rules, ABC);
    for headers in [
        &[("authorization", "Bearer abc")][..],
        &[("authorization", "bearer   abc")],
        &[("authorization", "ApiKey abc")],
        &[("x-api-key", "  abc ")],
    ] {
        assert_eq!(key(&rules, headers), abc, "{headers:?}");
    }
    assert_eq!(named(&rules, "r", " abc ", None)[0].key, abc);
    assert_ne!(key(&rules, &[("x-api-key", "ABC")]), abc);
    // Two that differ are none.
    let nobody = key(&rules, &[]);
    assert_eq!(
        key(&rules, &[("x-api-key", "abc"), ("x-api-key", "zzz")]),
        nobody
    );
    assert_eq!(
        key(&rules, &[("x-api-key", "zzz"), ("x-api-key", "abc")]),
        nobody
    );
    assert_eq!(
        key(
            &rules,
            &[("x-api-key", "abc"), ("authorization", "Bearer zzz")]
        ),
        nobody
    );
}

#[test]
fn no_spelling_is_changed_of_a_key() {
    let rules = rule("", "key: api_key\n  normalize: lower");
    assert_ne!(key(&rules, &[("x-api-key", "ABC")]), key(&rules, ABC));
    assert_ne!(
        named(&rules, "r", "ABC", None)[0].key,
        named(&rules, "r", "abc", None)[0].key
    );
}

#[test]
fn invented_keys_are_counted_by_the_callers_address_and_make_no_cells() {
    let rules = rule("api_keys: [{key: abc, name: acme}]", "key: api_key");
    let nobody = key(&rules, &[]);
    assert_ne!(key(&rules, ABC), nobody);
    for n in 0..1_000 {
        let invented = format!("sk_live_{n}");
        assert_eq!(key(&rules, &[("x-api-key", &invented)]), nobody);
        assert_eq!(
            named(&rules, "r", &invented, None)[0].key,
            named(&rules, "r", "", None)[0].key
        );
    }
    let elsewhere = Described {
        ip: Some(IpAddr::from([192, 0, 2, 1])),
        headers: &[("x-api-key", "sk_live_0")],
        ..described("GET", "/a/7/b")
    };
    assert_ne!(keys(&rules, &elsewhere).unwrap()[0], nobody);
}

#[test]
fn keys_come_in_the_headers_that_the_table_names_and_from_its_file_hashed_or_clear() {
    let place = tempfile::tempdir().unwrap();
    // The SHA-256 of `abc`.
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    std::fs::write(
        place.path().join("keys.toml"),
        format!("[[keys]]\nsha256 = \"{hash}\"\ntenant = \"acme\"\n[[keys]]\nkey = \"xyz\"\ntenant = \"acme\"\n"),
    )
    .unwrap();
    let name = place.path().join("rules.yaml");
    let text = "api_keys: {file: keys.toml, headers: [X-Token]}\n\
                rules: [{name: r, key: tenant, limits: {requests: 1, window: 1m}}]";
    let (compiled, read) = reading(name.to_str().unwrap(), text);
    assert_eq!(read, [place.path().join("keys.toml")]);
    let rules = compiled.unwrap().rules;
    let nobody = key(&rules, &[]);
    assert_eq!(key(&rules, ABC), nobody);
    let acme = key(&rules, &[("x-token", "abc")]);
    assert_ne!(acme, nobody);
    assert_eq!(key(&rules, &[("x-token", "xyz")]), acme);
    // Of a caller without a key, the asker says the tenant.
    let stated = Described {
        attributes: &[("tenant", "acme")],
        ..described("GET", "/")
    };
    assert_eq!(keys(&rules, &stated).unwrap()[0], acme);
    assert!(!format!("{rules:?}").contains("xyz"));
}

#[test]
fn what_is_missing_is_skipped_denied_shared_or_stood_in_for_by_the_address() {
    let from = |rules: &RuleSet, ip, headers| {
        let request = Described {
            ip: Some(IpAddr::from([203, 0, 113, ip])),
            headers,
            ..described("GET", "/a/7/b")
        };
        keys(rules, &request)
    };
    for blank in [&[][..], &[("x-user", "")], &[("x-user", " \t")]] {
        let skip = rule("", "key: 'header:X-User'\n  on_missing: skip");
        assert_eq!(from(&skip, 1, blank), Ok(vec![]));
        assert!(named(&skip, "r", " ", None).is_empty());
        let deny = rule("", "key: 'header:X-User'\n  on_missing: deny");
        assert_eq!(from(&deny, 1, blank), Err(NotFound::Caller));
        let mut applied = AppliedLimits::new();
        assert_eq!(
            deny.named("r", b" ", None, &mut applied),
            Err(NotFound::Caller)
        );
        let shared = rule("", "key: 'header:X-User'\n  on_missing: shared");
        assert_eq!(from(&shared, 1, blank), from(&shared, 2, blank));
        assert_eq!(
            named(&shared, "r", "", None)[0].key,
            from(&shared, 1, blank).unwrap()[0]
        );
        let ip = rule("", "key: 'header:X-User'");
        assert_eq!(from(&ip, 1, blank), from(&ip, 1, &[]));
        assert_ne!(from(&ip, 1, blank), from(&ip, 2, blank));
    }
    let some: Pairs<'_> = &[("x-user", "alice")];
    for missing in ["skip", "deny", "shared", "ip"] {
        let rules = rule(
            "",
            &format!("key: 'header:X-User'\n  on_missing: {missing}"),
        );
        assert_eq!(from(&rules, 1, some), from(&rules, 2, some));
        assert_ne!(from(&rules, 1, some), from(&rules, 1, &[]));
    }
}

#[test]
fn defaults_say_what_becomes_of_missing_ones_unless_the_rule_does() {
    let text = |of_rule| {
        format!(
            "defaults: {{on_missing: deny, key: user, normalize: lower}}\nrules: [{{name: r, {of_rule} \
             limits: {{requests: 1, window: 1m}}}}]"
        )
    };
    let request = described("GET", "/");
    assert_eq!(keys(&rules(&text("")), &request), Err(NotFound::Caller));
    assert_eq!(
        keys(&rules(&text("on_missing: skip,")), &request),
        Ok(vec![])
    );
    let rules = rules(&text(""));
    assert_eq!(
        named(&rules, "r", "ALICE", None)[0].key,
        named(&rules, "r", "alice", None)[0].key
    );
}

#[test]
fn a_callers_spelling_counts_unless_the_rule_says_otherwise() {
    let spellings = [
        "bob@x.example",
        "BOB@x.example",
        " bob@x.example ",
        "bob@x.example\t",
    ];
    let of = |rules: &RuleSet| spellings.map(|login| key(rules, &[("x-login", login)]));
    let [first, upper, blanks, tab] = of(&rule("", "key: 'header:X-Login'"));
    assert_eq!((first, first), (blanks, tab));
    assert_ne!(first, upper);
    let folded = of(&rule("", "key: 'header:X-Login'\n  normalize: lower"));
    assert!(folded.iter().all(|key| *key == folded[0]));
    let rules = rule("", "key: 'header:X-Login'\n  normalize: [nfc, lower]");
    let of = |login| key(&rules, &[("x-login", login)]);
    assert_eq!(of("BJO\u{308}RN"), of("bj\u{f6}rn"));
    assert_eq!(
        named(&rules, "r", "BJO\u{308}RN", None)[0].key,
        of("bj\u{f6}rn")
    );
}

#[test]
fn a_target_counts_as_its_path_where_that_is_asked() {
    let of = |normalize: &str, path| {
        let rules = rule("", &format!("key: target\n  normalize: {normalize}"));
        let request = Described {
            attributes: &[("target", path)],
            ..described("GET", "/a/7/b")
        };
        keys(&rules, &request).unwrap()[0]
    };
    assert_ne!(of("none", "/x?n=1"), of("none", "/x?n=2"));
    assert_eq!(of("path", "/x?n=1"), of("path", "/x/?n=50"));
}

#[test]
fn a_subject_is_one_caller_whatever_its_token() {
    let rules = with_tokens("key: subject");
    let of = |authorization: &str| key(&rules, &[("authorization", authorization)]);
    let first = of(&token(ONE, json!({"sub": "1", "jti": "a", "iat": 1})));
    assert_eq!(
        of(&token(
            ONE,
            json!({"sub": "1", "jti": "b", "iat": 2, "exp": 2_000})
        )),
        first
    );
    assert_ne!(
        of(&token("https://two.example", json!({"sub": "1"}))),
        first
    );
    assert_ne!(of(&token(ONE, json!({"sub": "2"}))), first);
    assert_eq!(
        named(&rules, "r", "https://one.example 1", None)[0].key,
        first
    );
    // Whoever is not verified is nobody.
    let nobody = key(&rules, &[]);
    for changes in [
        json!({"sub": "1", "exp": 500}),
        json!({"sub": "1", "aud": "x"}),
        json!({}),
    ] {
        assert_eq!(of(&token(ONE, changes)), nobody);
    }
    assert_eq!(of("Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0."), nobody);
}

#[test]
fn claims_identify_verified_callers_alone() {
    let rules = with_tokens("key: ['claim:org', client]\n  on_missing: deny");
    let of = |authorization: &str| {
        let headers: Pairs<'_> = &[("authorization", authorization)];
        keys(
            &rules,
            &Described {
                headers,
                ..described("GET", "/")
            },
        )
    };
    let acme = of(&token(ONE, json!({"org": "acme"})));
    assert_eq!(of(&token(ONE, json!({"org": "acme", "sub": "x"}))), acme);
    assert_ne!(of(&token(ONE, json!({"org": "other"}))), acme);
    for changes in [
        json!({}),
        json!({"org": ""}),
        json!({"org": "acme", "exp": 1}),
    ] {
        assert_eq!(of(&token(ONE, changes)), Err(NotFound::Caller));
    }
}

#[test]
fn parameters_of_query_and_path_identify() {
    let of = |rules: &RuleSet, path| keys(rules, &described("GET", path)).unwrap()[0];
    let query = rule("", "key: 'query:user'");
    assert_eq!(
        of(&query, "/a/1/b?user=a%20b"),
        of(&query, "/a/2/c?x=1&user=a+b")
    );
    assert_ne!(of(&query, "/a/1/b?user=a"), of(&query, "/a/1/b?user=b"));
    assert_eq!(of(&query, "/a/1/b?user=a&user=b"), of(&query, "/a/1/b"));
    let id = rule("", "key: 'path:id'");
    assert_eq!(of(&id, "/a/7/b"), of(&id, "//a/./7/c?x"));
    assert_ne!(of(&id, "/a/7/b"), of(&id, "/a/8/b"));
    assert_eq!(of(&id, "/a/%37/b"), named(&id, "r", "7", None)[0].key);
    let what = rule("", "key: 'path:what'");
    assert_eq!(of(&what, "/a/7/b"), of(&what, "/a/8/b"));
}

#[test]
fn parameters_of_a_prefix_are_the_segments_that_they_stand_for() {
    for endpoint in ["prefix:/a/{id}/", "prefix:/a/{id}/b", "prefix://a/./{id}"] {
        let rules = rules(&format!(
            "rules: [{{name: r, endpoint: '{endpoint}', case: insensitive, key: 'path:id', \
             limits: {{requests: 3, window: 1m}}}}]"
        ));
        let of = |path| keys(&rules, &described("GET", path)).unwrap()[0];
        assert_eq!(of("/A/7/b/8"), of("/a/7/b/9?x"), "{endpoint}");
        assert_ne!(of("/a/7/b/8"), of("/a/8/b/8"), "{endpoint}");
    }
    let faults = faults(
        "rules: [{name: r, endpoint: 'regex:/a/:id', key: 'path:id', \
         limits: {requests: 3, window: 1m}}]",
    );
    assert!(faults[0].contains("is no parameter"), "{faults:?}");
}

#[test]
fn where_case_does_not_count_in_paths_it_does_not_in_their_parameters() {
    for (case, meet) in [("sensitive", false), ("insensitive", true)] {
        let rules = rule("", &format!("case: {case}\n  key: 'path:id'"));
        let of = |path| keys(&rules, &described("GET", path)).unwrap()[0];
        let alice = of("/a/alice/b");
        assert_eq!(of("/a/ALICE/b") == alice, meet, "{case}");
        assert_eq!(named(&rules, "r", "Alice", None)[0].key == alice, meet);
        assert_eq!(named(&rules, "r", "alice", None)[0].key, alice);
    }
}

#[test]
fn global_counts_everybody_together() {
    let rules = rule("", "key: global\n  on_missing: deny");
    let all = key(&rules, &[]);
    assert_eq!(key(&rules, ABC), all);
    for stated in ["", "alice", "bob"] {
        assert_eq!(named(&rules, "r", stated, None)[0].key, all);
    }
}

#[test]
fn a_stranger_cannot_spend_what_a_verified_caller_has() {
    let rules = with_tokens("key: [subject, 'header:X-Login', client]");
    let victim = token(ONE, json!({"sub": "victim"}));
    let from = |ip: [u8; 4], authorization: &str| {
        let headers: Pairs<'_> = &[("authorization", authorization), ("x-login", "victim@x")];
        let ip = Some(IpAddr::from(ip));
        keys(
            &rules,
            &Described {
                ip,
                headers,
                ..described("POST", "/login")
            },
        )
        .unwrap()[0]
    };
    let stranger = from([198, 51, 100, 7], "");
    assert_ne!(from([203, 0, 113, 9], &victim), stranger);
    assert_ne!(from([203, 0, 113, 9], ""), stranger);
    // From the stranger's own address, too.
    assert_ne!(from([198, 51, 100, 7], &victim), stranger);
}

#[test]
fn addresses_that_believed_proxies_state_are_counted() {
    let rules = rule(
        "clients: {trusted_proxies: [10.0.0.0/8], ipv6_prefix: 56}",
        "key: client",
    );
    let from = |ip: [u8; 4], headers| {
        let ip = Some(IpAddr::from(ip));
        keys(
            &rules,
            &Described {
                ip,
                headers,
                ..described("GET", "/a/7/b")
            },
        )
        .unwrap()[0]
    };
    let chain: Pairs<'_> = &[("x-forwarded-for", "198.51.100.1, 203.0.113.9")];
    assert_eq!(
        from([10, 0, 0, 5], chain),
        named(&rules, "r", "203.0.113.9", None)[0].key
    );
    assert_eq!(
        from([192, 0, 2, 5], chain),
        named(&rules, "r", "192.0.2.5", None)[0].key
    );
    let ipv6: Pairs<'_> = &[("x-forwarded-for", "2001:db8:1:2::1")];
    assert_eq!(
        from([10, 0, 0, 5], ipv6),
        named(&rules, "r", "2001:db8:1::/56", None)[0].key
    );
    assert_eq!((rules.noticed().ignored, rules.noticed().ignored), (1, 0));
}

#[test]
fn without_trusted_proxies_all_behind_one_are_one_and_it_is_noticed() {
    let rules = rule("", "key: client");
    let balancer = IpAddr::from([10, 0, 0, 5]);
    let mut seen = Vec::new();
    for n in 0..50 {
        let text = format!("203.0.113.{n}");
        let headers: Pairs<'_> = &[("x-forwarded-for", &text)];
        seen.extend(
            keys(
                &rules,
                &Described {
                    ip: Some(balancer),
                    headers,
                    ..described("GET", "/a/7/b")
                },
            )
            .unwrap(),
        );
    }
    assert!(seen.iter().all(|key| *key == seen[0]));
    let noticed = rules.noticed();
    assert_eq!(
        (noticed.ignored, noticed.ignored_from),
        (50, Some(balancer))
    );
}

#[test]
fn a_rule_that_denies_charges_nothing_of_the_others() {
    let rules = rules(
        "rules:\n- {name: all, limits: {requests: 1, window: 1m}}\n\
         - {name: known, key: api_key, on_missing: deny, limits: {requests: 1, window: 1m}}",
    );
    assert_eq!(keys(&rules, &described("GET", "/")), Err(NotFound::Caller));
    let known = Described {
        headers: ABC,
        ..described("GET", "/")
    };
    assert_eq!(keys(&rules, &known).unwrap().len(), 2);
}

#[test]
fn a_rules_cost_multiplies_the_requests() {
    let rules = rules(
        "rules:\n- {name: five, cost: 5, limits: {requests: 10, window: 1m}}\n\
         - {name: tokens, cost: 'attribute:tokens', limits: {requests: 10, window: 1m}}",
    );
    let of = |attributes| {
        let request = Described {
            attributes,
            ..described("GET", "/")
        };
        let costs = matching(&rules, &request);
        let costs = costs
            .iter()
            .map(|one| one.cost(crate::units::Cost::new(2)).get());
        costs.collect::<Vec<_>>()
    };
    assert_eq!(of(&[]), [10, 2]);
    assert_eq!(of(&[("tokens", "700")]), [10, 1_400]);
    assert_eq!(of(&[("tokens", "18446744073709551615")]), [10, u64::MAX]);
    assert_eq!(named(&rules, "five", "k", None)[0].weight, 5);
}

#[test]
fn no_token_is_verified_for_rules_that_do_not_ask() {
    let bearing = token(ONE, json!({"sub": "1"}));
    let headers: Pairs<'_> = &[("authorization", &bearing)];
    for (key_of, remembered) in [("client", 0), ("api_key", 0), ("subject", 1)] {
        let rules = with_tokens(&format!("key: {key_of}"));
        key(&rules, headers);
        assert_eq!(rules.callers.tokens.remembered(), remembered, "{key_of}");
    }
}

#[test]
fn a_token_without_an_issuer_to_believe_it_is_no_key() {
    let rules = rule("", "key: api_key");
    let of = |sub: &str| {
        let bearing = token(ONE, json!({"sub": sub}));
        key(&rules, &[("authorization", &bearing)])
    };
    assert_eq!(of("1"), key(&rules, &[]));
    assert_eq!(of("2"), key(&rules, &[]));
}

#[test]
fn what_is_known_of_a_caller_is_shown_without_the_key() {
    let rules = rule(
        "clients: {trusted_proxies: [10.0.0.0/8]}\n\
         api_keys: [{key: abc, name: Acme Inc, tier: default, tenant: acme}]\n\
         tiers: {from: api_key}",
        "key: api_key",
    );
    let request = Described {
        ip: Some(IpAddr::from([10, 0, 0, 5])),
        headers: &[("x-api-key", "abc"), ("x-forwarded-for", "2001:db8:1:2::1")],
        ..described("GET", "/a/7/b")
    };
    let known = rules.caller(&request, at(500));
    let text = |text: &str| Some(text.to_owned());
    let expected = crate::rules::CallerKnown {
        address: text("2001:db8:1:2::/64"),
        api_key: text("Acme Inc"),
        tenant: text("acme"),
        subject: None,
        tier: text("default"),
    };
    assert_eq!(known, expected);
    assert_eq!(
        rules.caller(&Described::default(), at(500)),
        Default::default()
    );
}
