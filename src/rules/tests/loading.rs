use super::*;
use crate::units::{Algorithm, Consistency, Limit, Nanos, Series, StoreLoss};

const SHAPE: &str = r#"{"rules":[{"endpoint":"/api/v1/orders","method":"POST","limits":{"free":{"requests":10,"window":"1m"},"pro":{"requests":100,"window":"1m"},"enterprise":{"requests":1000,"window":"1m"}}},{"endpoint":"/api/v1/auth/login","limits":{"default":{"requests":5,"window":"1m"}}}]}"#;

const SHAPE_YAML: &str = r#"
rules:
  - endpoint: /api/v1/orders
    method: POST
    limits:
      free: {requests: 10, window: 1m}
      pro: {requests: 100, window: 1m}
      enterprise:
        requests: 1000
        window: 1m
  - endpoint: /api/v1/auth/login
    limits:
      default:
        requests: 5
        window: "1m"
"#;

const SHAPE_TOML: &str = r#"
[[rules]]
endpoint = "/api/v1/orders"
method = "POST"
limits.free = { requests = 10, window = "1m" }
limits.pro = { requests = 100, window = "1m" }
[rules.limits.enterprise]
requests = 1000
window = "1m"

[[rules]]
endpoint = "/api/v1/auth/login"
[rules.limits]
default = { requests = 5, window = "1m" }
"#;

fn line(limit: &Limit) -> String {
    let Limit {
        rule,
        name,
        quota,
        series,
        ..
    } = limit;
    let (algorithm, amount) = (quota.algorithm().name(), quota.amount());
    format!("{} {rule} {name} {algorithm} {amount}", series.0)
}

#[test]
fn the_shape_that_people_have_loads_unchanged_in_every_format() {
    for (name, text) in [
        ("a.json", SHAPE),
        ("a.yaml", SHAPE_YAML),
        ("a.toml", SHAPE_TOML),
    ] {
        let rules = compile(&[(name, text)]).unwrap().rules;
        let lines: Vec<String> = rules.limits().iter().map(|limit| line(limit)).collect();
        assert_eq!(
            lines,
            [
                "1 POST /api/v1/orders free/1m sliding_window 10",
                "2 POST /api/v1/orders pro/1m sliding_window 100",
                "3 POST /api/v1/orders enterprise/1m sliding_window 1000",
                "4 /api/v1/auth/login default/1m sliding_window 5",
            ],
            "{name}"
        );
        assert!(rules.limits().iter().all(|limit| {
            limit.quota.period() == Nanos::from_secs(60)
                && limit.consistency == Consistency::Approximate
                && limit.on_store_loss == StoreLoss::Share
                && limit.pace == Pace::default()
                && limit.strict_timeout.is_none()
                && !limit.count_denied
        }));
        let post = Described {
            attributes: &[("tier", "pro")],
            ..described("POST", "/api/v1/orders?x=1")
        };
        assert_eq!(
            names(&matching(&rules, &post)),
            ["POST /api/v1/orders pro/1m"]
        );
        assert!(matching(&rules, &described("GET", "/api/v1/orders")).is_empty());
        assert_eq!(
            matching_names(&rules, "PUT", "/api/v1/auth/login"),
            ["/api/v1/auth/login default/1m"]
        );
    }
}

#[test]
fn everything_that_can_be_said_is_heard() {
    let rules = rules(
        r"
rules:
  - name: search
    endpoint: /search/{index}
    method: [get, POST]
    key: [header:X-API-Key, user, client]
    algorithm: token_bucket
    on_store_loss: closed
    consistency: strict
    strict_timeout: 20ms
    sync_interval: 200ms
    limits:
      default:
        - {requests: 100, window: 1m, burst: 20}
        - amount: 1000
          window: 1h
          name: hourly
          algorithm: fixed_window
          count_denied: true
          consistency: local
          on_store_loss: open
          sync_interval: 50ms
          sync_min_interval: 10ms
          sync_max_interval: 2s
",
    );
    let [first, second] = rules.limits() else {
        panic!("two limits")
    };
    assert_eq!(first.quota.algorithm(), Algorithm::TokenBucket);
    assert_eq!((first.quota.amount(), first.quota.capacity()), (100, 20));
    assert_eq!(first.on_store_loss, StoreLoss::Closed);
    assert_eq!(first.consistency, Consistency::Strict);
    assert_eq!(first.strict_timeout, Some(Nanos::from_millis(20)));
    assert_eq!(first.pace.interval, Nanos::from_millis(200));
    assert_eq!(first.pace.min_interval, Pace::default().min_interval);
    assert_eq!(&*second.name, "hourly");
    assert_eq!(second.quota.algorithm(), Algorithm::FixedWindow);
    assert_eq!(second.consistency, Consistency::Local);
    assert_eq!(second.on_store_loss, StoreLoss::Open);
    assert!(second.count_denied);
    assert_eq!(
        second.pace,
        Pace {
            interval: Nanos::from_millis(50),
            min_interval: Nanos::from_millis(10),
            max_interval: Nanos::from_secs(2),
        }
    );
    assert_eq!(second.series, Series(2));
}

#[test]
fn a_stated_interval_moves_the_defaults_around_it() {
    let limits = "limits: {requests: 1, window: 1m}";
    let pace = |stated: &str| rules(&format!("rules:\n- {stated}\n  {limits}")).limits()[0].pace;
    assert_eq!(pace("sync_interval: 5s").max_interval, Nanos::from_secs(5));
    assert_eq!(
        pace("sync_interval: 2ms").min_interval,
        Nanos::from_millis(2)
    );
}

#[test]
fn the_defaults_of_a_file_hold_for_its_rules_only() {
    let compiled = compile(&[
        (
            "a.yaml",
            "defaults: {algorithm: fixed_window, consistency: local, on_store_loss: open, key: user}\n\
             rules:\n- {name: a, limits: {requests: 1, window: 1m}}\n\
             - {name: b, algorithm: token_bucket, key: client, limits: {requests: 1, window: 1m}}",
        ),
        ("b.yaml", "rules:\n- {name: c, limits: {requests: 1, window: 1m}}"),
    ])
    .unwrap();
    let [a, b, c] = compiled.rules.limits() else {
        panic!("three limits")
    };
    assert_eq!(a.quota.algorithm(), Algorithm::FixedWindow);
    assert_eq!(
        (a.consistency, a.on_store_loss),
        (Consistency::Local, StoreLoss::Open)
    );
    assert_eq!(b.quota.algorithm(), Algorithm::TokenBucket);
    assert_eq!(b.consistency, Consistency::Local);
    assert_eq!(c.quota.algorithm(), Algorithm::SlidingWindow);
    assert_eq!(
        (c.consistency, c.on_store_loss),
        (Consistency::Approximate, StoreLoss::Share)
    );
    let alice = Described {
        attributes: &[("user", "alice")],
        ..described("GET", "/")
    };
    let applied = matching(&compiled.rules, &alice);
    assert_eq!(
        applied[0].key,
        named(&compiled.rules, "a", "alice", None)[0].key
    );
    assert_eq!(
        applied[1].key,
        named(&compiled.rules, "b", "203.0.113.9", None)[0].key
    );
}

#[test]
fn a_limit_alone_or_a_list_of_limits_is_the_default_tier() {
    for limits in [
        "{requests: 5, window: 1m}",
        "[{requests: 5, window: 1m}]",
        "{default: {requests: 5, window: 1m}}",
        "{default: [{requests: 5, window: 1m}]}",
    ] {
        let rules = rules(&format!("rules: [{{endpoint: /a, limits: {limits}}}]"));
        assert_eq!(
            matching_names(&rules, "GET", "/a"),
            ["/a default/1m"],
            "{limits}"
        );
        assert_eq!(
            rules.limits()[0].id.as_str(),
            "2:/a/7:default/sliding_window/1m"
        );
    }
}

#[test]
fn a_null_list_is_an_empty_one() {
    let rules = rules("rules:\n- method:\n  key: null\n  limits: {requests: 5, window: 1m}");
    assert_eq!(matching_names(&rules, "PUT", "/x"), ["/** default/1m"]);
    assert_eq!(
        warnings("rules:\n"),
        ["r.yaml:1:6: rules: there are no rules in this file"]
    );
    assert_eq!(compile(&[]).unwrap().rules.limits().len(), 0);
    assert!(warnings("rules: []").is_empty());
}

#[test]
fn limits_that_differ_only_by_the_window_are_independent() {
    let rules = rules(
        "rules:\n- endpoint: /a\n  limits:\n  - {requests: 100000, window: 5s}\n  \
         - {requests: 100000, window: 4s}\n  - {requests: 100000, window: 3s}",
    );
    let applied = matching(&rules, &described("GET", "/a"));
    assert_eq!(
        names(&applied),
        ["/a default/5s", "/a default/4s", "/a default/3s"]
    );
    assert!(applied[0].key != applied[1].key && applied[1].key != applied[2].key);
}

#[test]
fn numbers_are_names_where_their_text_is_plain() {
    let rules =
        rules("rules:\n- {name: 8080, endpoint: /a, limits: {1: {requests: 5, window: 1m}}}");
    assert_eq!(matching_names(&rules, "GET", "/a"), ["8080 1/1m"]);
}

#[test]
fn aliases_repeat_what_was_written() {
    let rules = rules(
        "rules:\n- {endpoint: /a, limits: &l {default: {requests: 5, window: 1m}}}\n\
         - {endpoint: /b, limits: *l}",
    );
    assert_eq!(matching_names(&rules, "GET", "/b"), ["/b default/1m"]);
}

#[test]
fn json_may_be_indented_with_tabs_and_escape_its_texts() {
    let text = "\u{feff}{\r\n\t\"rules\" : [\n\t\t{\"name\": \"\\u0061\\/\\ud83d\\ude00\",\"limits\"\n:\t{\"requests\":1,\"window\":\"1m\"}}]\n}\n";
    let faults = compile(&[("a.json", text)]).unwrap_err();
    assert_eq!(faults.len(), 1);
    assert!(
        faults[0].contains("\"a/😀\" cannot be a name"),
        "{}",
        faults[0]
    );
    let text = text.replace("\\ud83d\\ude00", "b");
    assert_eq!(
        &*compile(&[("a.json", &text)]).unwrap().rules.limits()[0].rule,
        "a/b"
    );
}

#[test]
fn doubtful_rules_are_warned_of() {
    assert_eq!(
        warnings("rules:\n- endpoint: /a\n  limits: {free: {requests: 5, window: 1m}}"),
        [
            "r.yaml:3:11: rule \"/a\": limits: there is no tier `default`; callers without a known \
          tier get `free`, the first one"
        ]
    );
    let bucket = |window: &str| {
        warnings(&format!(
            "rules:\n- algorithm: token_bucket\n  limits: {{requests: 3, window: {window}, burst: 5}}"
        ))
    };
    assert_eq!(
        bucket("1h"),
        [
            "r.yaml:3:44: rule 1: limits.burst: a burst of 5 admits more at once than the 3 of a \
          whole 1h window"
        ]
    );
    assert!(bucket("59m").is_empty());
    let compiled = compile(&[
        ("a.json", SHAPE),
        ("b.yaml", "# nothing\n"),
        ("c.toml", " "),
    ])
    .unwrap();
    let warned: Vec<String> = compiled.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warned.len(), 3);
    assert_eq!(warned[1], "b.yaml:1:1: there are no rules in this file");
    assert_eq!(warned[2], "c.toml:1:1: there are no rules in this file");
    assert_eq!(compiled.rules.limits().len(), 4);
}

#[test]
fn unusual_methods_are_warned_of() {
    let limits = "limits: {requests: 5, window: 1m}";
    let of = |methods: &str| warnings(&format!("rules:\n- name: r\n  {methods}\n  {limits}"));
    assert_eq!(
        of("method: GTE"),
        ["r.yaml:3:11: rule \"r\": method: \"GTE\" is an unusual method; did you mean `GET`?"]
    );
    assert_eq!(
        of("endpoint: delte /a"),
        [
            "r.yaml:3:13: rule \"r\": endpoint: \"delte\" is an unusual method; did you mean `DELETE`?"
        ]
    );
    assert_eq!(
        of("method: [get, PURGE]"),
        ["r.yaml:3:17: rule \"r\": method[1]: \"PURGE\" is an unusual method; check its spelling"]
    );
    let usual = "[GET, head, POST, PUT, PATCH, DELETE, OPTIONS, CONNECT, TRACE]";
    assert!(of(&format!("method: {usual}")).is_empty());
    assert!(of("method: '*'").is_empty());
}

#[test]
fn formats_are_known_by_extension() {
    let of = |name: &str| Format::of(name.as_ref());
    assert_eq!(of("a.yaml"), Some(Format::Yaml));
    assert_eq!(of("dir.toml/a.YML"), Some(Format::Yaml));
    assert_eq!(of("a.toml"), Some(Format::Toml));
    assert_eq!(of("a.b.json"), Some(Format::Json));
    assert_eq!(of("json"), None);
    assert_eq!(of("a.txt"), None);
}

#[test]
fn a_setting_without_effect_is_warned_of_where_it_stands() {
    let of = |text: &str| warnings(&format!("rules:\n- name: r\n  {text}"));
    let limit = |fields: &str| of(&format!("limits: {{requests: 500, window: 1m, {fields}}}"));
    assert_eq!(
        limit("strict_timeout: 1s"),
        [
            "r.yaml:3:55: rule \"r\": limits.strict_timeout: no check of approximate limits waits \
          for the store, so this has no effect; write consistency: strict, or leave it out"
        ]
    );
    assert_eq!(
        limit("consistency: bounded, on_store_loss: share"),
        [
            "r.yaml:3:76: rule \"r\": limits.on_store_loss: a bounded limit admits only what the \
          store has lent, so without the store it answers 503 and this has no effect; write \
          on_store_loss: closed, or open"
        ]
    );
    assert_eq!(
        limit("consistency: local, sync_interval: 1s, on_store_loss: open").len(),
        2
    );
    for effective in [
        "consistency: strict, strict_timeout: 1s, on_store_loss: share",
        "consistency: bounded, strict_timeout: 1s, on_store_loss: open",
        "consistency: bounded",
        "consistency: local",
        "sync_interval: 1s, on_store_loss: local",
    ] {
        assert_eq!(limit(effective), <[&str; 0]>::default(), "{effective}");
    }
}

#[test]
fn a_rules_setting_has_an_effect_if_it_has_one_on_any_of_its_limits() {
    let warned = |other: &str| {
        let limits = format!(
            "limits: {{default: {{requests: 5, window: 1m}}, pro: {{requests: 9, window: 1m, \
             consistency: {other}}}}}"
        );
        let head = "rules:\n- name: r\n  strict_timeout: 1s\n  ";
        warnings(&format!("{head}{limits}"))
    };
    assert!(warned("strict").is_empty());
    let said = warned("local");
    assert_eq!(said.len(), 1);
    assert!(
        said[0].starts_with("r.yaml:3:19: rule \"r\": strict_timeout: no check of approximate"),
        "{said:?}"
    );
}
