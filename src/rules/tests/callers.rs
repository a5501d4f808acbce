use super::*;

/// The one fault of a set with `top` beside its rules.
#[track_caller]
fn one(top: &str) -> String {
    let text = format!(
        "{top}\nrules: [{{name: r, limits: {{free: {{requests: 1, window: 1m}}, pro: {{requests: 2, window: 1m}}}}}}]"
    );
    let mut faults = faults(&text);
    assert_eq!(faults.len(), 1, "{faults:#?}");
    faults.remove(0)
}

#[track_caller]
fn has(fault: &str, part: &str) {
    assert!(fault.contains(part), "{fault}\nlacks: {part}");
}

#[test]
fn what_cannot_be_said_of_clients_is_told() {
    for bits in [0, 31, 129, 256] {
        has(
            &one(&format!("clients: {{ipv6_prefix: {bits}}}")),
            &format!(
                "r.yaml:1:24: clients.ipv6_prefix: {bits} is no prefix to group IPv6 clients by; write 32 to 128"
            ),
        );
    }
    for bits in [32, 56, 64, 128] {
        rules(&format!("clients: {{ipv6_prefix: {bits}}}\nrules: []"));
    }
    has(
        &one("clients: {trusted_proxies: [10.0.0.0/33]}"),
        "clients.trusted_proxies[0]: \"10.0.0.0/33\" is no address or network; write 10.0.0.0/8",
    );
    has(
        &one("clients: {trusted_proxies: [10.0.0.0/8], trusted_hops: 1}"),
        "clients.trusted_hops: `trusted_hops` says the same as `trusted_proxies`",
    );
    has(
        &one("clients: {trusted_hops: 33}"),
        "33 proxies are too many",
    );
    has(
        &one("clients: {trusted_proxy: [10.0.0.1]}"),
        "did you mean `trusted_proxies`?",
    );
    has(
        &one("clients: {header: x-forwarded}"),
        "did you mean `x-forwarded-for`?",
    );
    let all = "clients: {trusted_proxies: [0.0.0.0/0]}\nrules: []";
    has(
        &warnings(all)[0],
        "clients.trusted_proxies[0]: 0.0.0.0/0 is everybody",
    );
}

#[test]
fn what_is_said_for_all_files_is_said_once() {
    let clients = "clients: {trusted_hops: 1}";
    let told = compile(&[
        ("a.yaml", &format!("{clients}\nrules: []")),
        ("b.yaml", clients),
    ]);
    assert_eq!(
        told.unwrap_err(),
        ["b.yaml:1:10: clients: a.yaml line 1 says it already, for all files; keep one of them"]
    );
}

#[test]
fn faults_in_the_table_of_keys_show_none() {
    for (keys, part) in [
        (
            "[{key: sk_x}, {key: sk_x}]",
            "api_keys[1]: this key is in r.yaml line 1 too; keep one",
        ),
        (
            "[sk_x]",
            "api_keys[0]: this text is not a key; write {key: …, name: acme, tier: pro}",
        ),
        ("sk_x", "api_keys: this text is not a list of keys"),
        ("[{key: 'sk_x y'}]", "api_keys[0].key: a key has no blanks"),
        (
            "[{key: 1e3}]",
            "api_keys[0].key: this text is not a key; write text, in quotes",
        ),
        (
            "[{sha256: sk_x}]",
            "api_keys[0].sha256: this is no SHA-256; write 64 hexadecimal digits",
        ),
        (
            "[{key: sk_x, sha256: sk_x}]",
            "`sha256` says the same as `key`",
        ),
        (
            "[{name: acme}]",
            "api_keys[0]: `key` is missing; write the key, or its `sha256`",
        ),
        ("[{key: sk_x, teir: pro}]", "did you mean `tier`?"),
        (
            "[{key: sk_x, tier: prow}]",
            "api_keys[0].tier: no rule has limits for the tier \"prow\"; did you mean `pro`?",
        ),
        (
            "{keys: [], headers: ['X Key']}",
            "api_keys.headers[0]: \"X Key\" is no name of a header",
        ),
        (
            "{sk_x: {name: acme}}",
            "r.yaml:1:12: api_keys: this name is not a list of keys; write",
        ),
        (
            "[{sk_x: acme}]",
            "r.yaml:1:13: api_keys[0]: this name is not a key; write",
        ),
        (
            "{file: gone.yaml}",
            "api_keys.file: \"gone.yaml\": No such file",
        ),
    ] {
        let told = one(&format!("api_keys: {keys}"));
        has(&told, part);
        assert!(!told.contains("sk_x") && !told.contains("1e3"), "{told}");
    }
}

#[test]
fn faults_in_a_file_of_keys_are_told_with_their_place_there() {
    let place = tempfile::tempdir().unwrap();
    let rules = place.path().join("r.yaml");
    let keys = place.path().join("keys.yaml");
    let text = "api_keys: {file: keys.yaml}\nrules: [{name: r, limits: {free: {requests: 1, window: 1m}}}]";
    for (content, line, part) in [
        (
            "- key: sk_x\n- key: sk_y\n  tier: fre\n",
            3,
            "[1].tier: no rule has limits for the tier \"fre\"; did you mean `free`?",
        ),
        ("- key: sk_x\n- key: sk_x\n", 2, "[1]: this key is in"),
        (
            "keys: {sk_x: [",
            1,
            "has no list of keys in YAML, TOML or JSON",
        ),
    ] {
        std::fs::write(&keys, content).unwrap();
        let faults = compile(&[(rules.to_str().unwrap(), text)]).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:#?}");
        has(&faults[0], &format!("{}:{line}:", keys.display()));
        has(&faults[0], part);
        assert!(!faults[0].contains("sk_x"), "{}", faults[0]);
    }
}

#[test]
fn what_is_wrong_with_an_issuer_is_told() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
    write("short", "secret");
    write("long", "a shared secret of more than 32 bytes");
    write("jwks.json", "{}");
    let rules = place.path().join("r.yaml");
    let one = |issuer: &str| {
        let text = format!("jwt: [{{{issuer}}}]\nrules: []");
        let mut faults = compile(&[(rules.to_str().unwrap(), &text)]).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:#?}");
        faults.remove(0)
    };
    let base = "issuer: https://id.example, audience: api";
    for (fields, part) in [
        (
            "algorithms: [HS256], secret_file: gone",
            "jwt[0].secret_file: ",
        ),
        (
            "algorithms: [HS256], secret_file: gone",
            "No such file or directory",
        ),
        (
            "algorithms: [RS256], jwks_file: none.json",
            "jwt[0].jwks_file: ",
        ),
        (
            "algorithms: [HS256], secret_file: short",
            "has a secret of 6 bytes; at least 32 are needed",
        ),
        (
            "algorithms: [RS256], jwks_file: jwks.json",
            "is no JSON Web Key Set",
        ),
        (
            "algorithms: [none], secret_file: long",
            "jwt[0].algorithms[0]: \"none\" is not allowed; write one of RS256",
        ),
        (
            "algorithms: [RS265], jwks_file: jwks.json",
            "\"RS265\" is not allowed; did you mean `RS256`?",
        ),
        (
            "algorithms: [RS256, HS256], jwks_file: jwks.json",
            "jwt[0].jwks_file: these algorithms need another kind of key",
        ),
        (
            "algorithms: [RS256], secret_file: long",
            "jwt[0].secret_file: these algorithms need another kind of key",
        ),
        (
            "algorithms: [HS256]",
            "jwt[0]: `jwks_file` is missing; write `jwks_file`, `key_file` or `secret_file`",
        ),
        (
            "algorithms: [HS256], secret_file: long, key_file: x",
            "`secret_file` says the same as `key_file`",
        ),
        (
            "algorithms: [], secret_file: long",
            "`algorithms` is missing",
        ),
        (
            "secret_file: long",
            "jwt[0]: `algorithms` is missing; write algorithms: [RS256]",
        ),
        (
            "algorithms: [HS256], secret_file: long, aud: x",
            "did you mean `audience`?",
        ),
    ] {
        has(&one(&format!("{base}, {fields}")), part);
    }
    has(
        &one("issuer: https://id.example, algorithms: [HS256], secret_file: long"),
        "jwt[0]: `audience` is missing; write audience: api",
    );
    has(
        &one("issuer: 'a b', audience: api, algorithms: [HS256], secret_file: long"),
        "jwt[0].issuer: \"a b\" is no name of an issuer or audience",
    );
}

#[test]
fn what_is_no_source_of_tiers_is_told() {
    for (from, part) in [
        (
            "client",
            "tiers.from[0]: \"client\" is no source of tiers; write api_key",
        ),
        (
            "'header:X-Tier'",
            "tiers.from[0]: anybody can write a header; say whose counts",
        ),
        (
            "{header: X-Tier}",
            "tiers.from[0]: anybody can write a header; say whose counts",
        ),
        (
            "{header: X-Tier, from: [x]}",
            "tiers.from[0].from[0]: \"x\" is no address or network",
        ),
        (
            "'claim:tier'",
            "tiers.from[0]: no token is believed; write `jwt:`",
        ),
        (
            "{addresses: {pro: [10.0.0.0/8], free: [10.1.1.1/8]}}",
            "is in tier pro too; keep one of them",
        ),
        (
            "{addresses: {prow: [10.0.0.0/8]}}",
            "no rule has limits for the tier \"prow\"; did you mean `pro`?",
        ),
        (
            "{adresses: {pro: [10.0.0.0/8]}}",
            "did you mean `addresses`?",
        ),
    ] {
        let told = faults(&format!(
            "tiers: {{from: [{from}]}}\nrules: [{{name: r, limits: {{free: {{requests: 1, window: 1m}}, \
             pro: {{requests: 2, window: 1m}}}}}}]"
        ));
        has(&told[0], part);
    }
    has(
        &one("tiers: {default: fre}"),
        "r.yaml:1:18: tiers.default: no rule has limits for the tier \"fre\"; did you mean `free`?",
    );
}

#[test]
fn a_tier_of_a_rule_that_has_a_fault_is_not_missed() {
    let told = faults(
        "api_keys: [{key: abc, tier: pro}]\nrules:\n- {name: a, limits: {pro: {requests: x, window: 1m}}}\n\
         - {name: b, limits: {free: {requests: 1, window: 1m}}}",
    );
    assert_eq!(told.len(), 1, "{told:#?}");
    has(&told[0], "limits.pro.requests");
}

#[test]
fn what_identifies_nobody_is_told_with_the_rule() {
    let of = |fields: &str| {
        let mut faults = faults(&format!(
            "rules:\n- name: r\n  endpoint: /a/{{id}}\n  {fields}\n  limits: {{requests: 1, window: 1m}}"
        ));
        assert_eq!(faults.len(), 1, "{faults:#?}");
        faults.remove(0)
    };
    for (fields, part) in [
        (
            "key: 'path:ids'",
            "r.yaml:4:8: rule \"r\": key: \"path:ids\" is no parameter of the endpoint \"/a/{id}\"; did you mean `path:id`?",
        ),
        ("key: 'path:user'", "write {user} for one of its segments"),
        (
            "key: subject",
            "rule \"r\": key: no token is believed; write `jwt:`",
        ),
        (
            "key: [global, client]",
            "key: `global` counts all callers together; write it alone",
        ),
        (
            "on_missing: denied",
            "on_missing: \"denied\" is none of skip, ip, deny, shared; did you mean `deny`?",
        ),
        (
            "normalize: [lower, upper]",
            "normalize[1]: \"upper\" is none of none, lower, nfc, path",
        ),
        (
            "cost: 0",
            "cost: a cost of 0 would limit nothing; write 1 or more",
        ),
        (
            "cost: -1",
            "cost: -1 is no cost; write a whole number or attribute:NAME",
        ),
        ("cost: 'header:x'", "cost: \"header:x\" is no cost"),
    ] {
        has(&of(fields), part);
    }
}

#[test]
fn a_cost_that_no_check_can_pay_is_warned_of() {
    let of = |cost| {
        warnings(&format!(
            "rules: [{{name: r, cost: {cost}, limits: [{{requests: 5, window: 1m}}, {{requests: 0, \
             window: 1h}}]}}]"
        ))
    };
    assert_eq!(of(5), [""; 0]);
    assert_eq!(
        of(6),
        [
            "r.yaml:1:25: rule \"r\": cost: a cost of 6 is above the limit default/1m, which therefore \
          admits nothing"
        ]
    );
}
