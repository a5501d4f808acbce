//! Files that mean harm, or nothing.

use proptest::prelude::*;

use super::*;

const FORMATS: [&str; 3] = ["r.yaml", "r.toml", "r.json"];

fn first_fault(name: &str, text: &str) -> String {
    compile(&[(name, text)]).unwrap_err().remove(0)
}

#[test]
fn deep_nesting_is_a_fault() {
    for n in [65, 300, 100_000] {
        let flow = format!("rules: {}{}", "[".repeat(n), "]".repeat(n));
        assert!(
            first_fault("r.yaml", &flow).contains("deep") || n > 255,
            "{n}"
        );
        let json = format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(first_fault("r.json", &json).starts_with("r.json:1:"), "{n}");
        let maps = format!("{}1{}", "{\"a\":".repeat(n), "}".repeat(n));
        assert!(first_fault("r.json", &maps).starts_with("r.json:1:"), "{n}");
        let toml = format!("rules = {}{}", "[".repeat(n), "]".repeat(n));
        assert!(first_fault("r.toml", &toml).starts_with("r.toml:1:"), "{n}");
        let toml = format!("rules = {}1{}", "{a=".repeat(n), "}".repeat(n));
        assert!(first_fault("r.toml", &toml).starts_with("r.toml:1:"), "{n}");
        for dotted in [
            format!("a{} = 1", ".a".repeat(n)),
            format!("[a{}]", ".a".repeat(n)),
        ] {
            assert!(first_fault("r.toml", &dotted).contains("deep"), "{n}");
        }
        let pattern = "/a".repeat(n);
        rules(&format!(
            "rules:\n- {{name: r, endpoint: {pattern}, limits: {{requests: 1, window: 1m}}}}"
        ));
    }
    let unclosed = "[".repeat(100_000);
    for name in FORMATS {
        assert!(!first_fault(name, &unclosed).is_empty());
    }
    assert!(first_fault("r.yaml", &"- ".repeat(100_000)).starts_with("r.yaml:1:"));
    assert!(first_fault("r.yaml", &"? ".repeat(100_000)).starts_with("r.yaml:1:"));
    assert!(
        first_fault("r.yaml", &format!("rules: []\n{}", "a:\n ".repeat(1_000)))
            .starts_with("r.yaml:")
    );
}

#[test]
fn aliases_cannot_multiply_without_bound() {
    let mut bomb = String::from("a: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..30 {
        bomb.push_str(&format!(
            "b{i}: &a{i} [{}]\n",
            vec![format!("*a{}", i - 1); 10].join(", ")
        ));
    }
    assert!(first_fault("r.yaml", &bomb).contains("aliases repeat too much"));
    let long = format!("- &a {}\n{}", "x".repeat(100_000), "- *a\n".repeat(100_000));
    assert!(first_fault("r.yaml", &long).contains("aliases repeat too much"));
    let mut chain = String::from("a: &a0 [x]\n");
    for i in 1..200 {
        chain.push_str(&format!("b{i}: &a{i} [*a{}]\n", i - 1));
    }
    assert!(first_fault("r.yaml", &chain).contains("nested more than 64 deep"));
    let nested = format!("{}x{}", "&a [".repeat(60), "]".repeat(60));
    assert!(!first_fault("r.yaml", &nested).is_empty());
}

#[test]
fn large_files_are_read_in_time_that_grows_as_they_do() {
    // What takes the square of its size would not end here.
    let json = |n: usize| {
        let rule = |i| {
            format!(
                "{{\"endpoint\":\"/a{i}\",\"limits\":{{\"default\":{{\"requests\":1,\"window\":\"1m\"}}}}}}"
            )
        };
        let rules: Vec<String> = (0..n).map(rule).collect();
        format!("{{\"rules\":[{}]}}", rules.join(","))
    };
    let compiled = compile(&[("r.json", &json(20_000))]).unwrap();
    assert_eq!(compiled.rules.limits().len(), 20_000);
    let items = format!("x = [{}]", "1, ".repeat(200_000));
    assert_eq!(compile(&[("r.toml", &items)]).unwrap_err().len(), 1);
    let keys: String = (0..20_000).map(|i| format!("k{i} = 1\n")).collect();
    assert_eq!(compile(&[("r.toml", &keys)]).unwrap_err().len(), 20_000);
}

const FIELDS: [&str; 42] = [
    "rules",
    "defaults",
    "name",
    "endpoint",
    "method",
    "key",
    "limits",
    "default",
    "free",
    "requests",
    "amount",
    "window",
    "burst",
    "algorithm",
    "consistency",
    "on_store_loss",
    "sync_interval",
    "sync_max_interval",
    "strict_timeout",
    "count_denied",
    "when",
    "headers",
    "attributes",
    "not",
    "group",
    "priority",
    "enabled",
    "percent",
    "mode",
    "unlimited",
    "ban",
    "overrides",
    "case",
    "trailing_slash",
    "x-a",
    "tenant",
    "plan",
    "<<",
    "no",
    "1",
    "größe",
    "",
];

fn any_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        (0_u64..100).prop_map(Into::into),
        "[0-9]{1,3}(ms|s|m|h|d|x)".prop_map(Into::into),
        "(GET |post:|)(prefix:|regex:|)/[a-c{}:*/%(\\[+?)]{0,8}".prop_map(Into::into),
        prop::sample::select(vec![
            "client",
            "header:x",
            "token_bucket",
            "local",
            "strict",
            "month",
            "present",
            "unlimited",
            "ban",
            "soft"
        ])
        .prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        let field = prop::sample::select(FIELDS.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::vec((field, inner), 0..6).prop_map(|entries| entries
                .into_iter()
                .collect::<serde_json::Map<_, _>>()
                .into()),
        ]
    })
}

fn valid(format: &str) -> &'static str {
    match format {
        "r.yaml" => {
            "# c\ndefaults: {key: user}\nrules:\n  - &r\n    name: 'orders'\n    endpoint: \"POST /a/{id}\"\n    key: [client, header:x]\n    limits:\n      free:\n        - requests: 10\n          window: 1m30s\n      pro: &l {requests: 1, window: 1h, algorithm: token_bucket, burst: 5}\n      x: *l\n"
        }
        "r.toml" => {
            "[defaults]\nkey = 'user'\n[[rules]]\nname = \"orders\"\nmethod = [\"GET\", \"PUT\"]\n[rules.limits.free]\nrequests = 10\nwindow = \"1m\"\n[rules.limits]\npro = { requests = 0x1, window = \"\"\"1h\"\"\" }\n"
        }
        _ => {
            "{\"rules\":[{\"endpoint\":\"/a\",\"method\":\"POST\",\"limits\":{\"free\":{\"requests\":10,\"window\":\"1m\"},\"pro\":[{\"requests\":1e2,\"window\":null}]}}]}"
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        for name in FORMATS {
            let _ = compile(&[(name, &text)]);
        }
    }

    #[test]
    fn no_text_of_the_formats_characters_panics(text in "[\\-\\[\\]{}:,.#&*!|>'\"%@` \n\t\r?=0-9a-c~é\u{feff}\u{85}]{0,120}") {
        for name in FORMATS {
            let _ = compile(&[(name, &text)]);
        }
    }

    #[test]
    fn no_mutation_of_a_sound_file_panics(
        format in prop::sample::select(FORMATS.to_vec()),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..12, "[\\-\\[\\]{}:,.#&*!|>'\" \n\t=0-9a-zé]{0,6}"), 1..5),
    ) {
        let mut text: Vec<char> = valid(format).chars().collect();
        for (at, remove, insert) in edits {
            let at = at.index(text.len() + 1);
            let end = (at + remove).min(text.len());
            text.splice(at..end, insert.chars());
        }
        let text: String = text.into_iter().collect();
        let _ = compile(&[(format, &text)]);
    }

    /// Any tree at all: never a panic, and every fault is on one line with its place.
    #[test]
    fn every_fault_of_every_tree_has_a_place(value in any_value()) {
        let text = serde_json::to_string_pretty(&value).unwrap();
        for name in ["r.json", "r.yaml"] {
            if let Err(super::super::Faults(faults)) =
                RuleSet::compile(&[source(name, &text)], &defaults())
            {
                prop_assert!(!faults.is_empty());
                for fault in faults {
                    prop_assert!(fault.at.line >= 1 && fault.at.line <= text.lines().count());
                    prop_assert!(!fault.to_string().contains(char::is_control), "{}", fault);
                    prop_assert!(!fault.to_string().contains("not JSON"), "{}", fault);
                }
            }
        }
    }

    #[test]
    fn no_request_panics(method in any::<String>(), path in any::<String>(), value in any::<String>()) {
        let rules = rules(
            "rules:\n- {endpoint: '/{a}/**', method: GET, key: [user, 'header:x'], limits: {requests: 1, window: 1m}}\n\
             - {name: x, limits: {free: {requests: 1, window: 1m}}}\n\
             - {name: spelt, endpoint: 'regex:/(a|[^/]+)+b', case: insensitive, when: {headers: {x: 'regex:(a*)*b'}, not: {attributes: {user: 'prefix:a'}}}, ban: true}\n\
             - {name: z, endpoint: 'prefix:/a', group: g, percent: 50, unlimited: true, overrides: [{endpoint: /a/*/, trailing_slash: distinct, ban: true}]}",
        );
        let request = Described {
            headers: &[("x", &value)],
            attributes: &[("user", &value), ("tier", &value)],
            ..described(&method, &path)
        };
        prop_assert!(!matching(&rules, &request).is_empty());
    }
}
