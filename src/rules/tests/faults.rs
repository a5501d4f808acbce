use super::*;

/// The one fault of a rule called `r` that has `fields` beside its limits.
fn of_rule(fields: &str) -> String {
    one(&format!(
        "rules:\n- name: r\n  limits: {{requests: 1, window: 1m}}\n  {fields}"
    ))
}

/// The one fault of the rule's limits.
fn of_limits(limits: &str) -> String {
    one(&format!("rules:\n- name: r\n  limits: {limits}"))
}

fn one(yaml: &str) -> String {
    let mut faults = faults(yaml);
    assert_eq!(faults.len(), 1, "{yaml}\n{faults:#?}");
    faults.remove(0)
}

#[track_caller]
fn has(fault: &str, part: &str) {
    assert!(fault.contains(part), "{fault}\nlacks: {part}");
}

#[test]
fn durations_are_never_read_kindly() {
    for window in [
        "horu", "5x", "abch", "1 m", " 1m", "1.5h", "-1s", "+1s", "", "1", "٣s", "1e3s", "1sm",
        "1min",
    ] {
        let fault = of_limits(&format!("{{requests: 1, window: \"{window}\"}}"));
        has(
            &fault,
            &format!("rule \"r\": limits.window: \"{window}\" is not a duration; write"),
        );
    }
    has(
        &of_limits("{requests: 1, window: 0s}"),
        "limits.window: a window of 0s is too short; the shortest is 1ms",
    );
    has(
        &of_limits("{requests: 1, window: 18446744073709551616s}"),
        "limits.window: \"18446744073709551616s\" is too long",
    );
    has(
        &of_limits("{requests: 1, window: 3661d}"),
        "the longest is 3660d",
    );
    has(
        &of_limits("{requests: 1, window: 60}"),
        "limits.window: \"60\" is not a duration",
    );
    has(
        &of_limits("{requests: 1, window: [1m]}"),
        "a list is not a window; write 1s",
    );
    has(
        &of_limits("{requests: 1, window: hour}"),
        "limits.window: \"hour\" is not a duration; write 1h for that fixed length",
    );
    has(
        &of_rule("sync_interval: day"),
        "sync_interval: \"day\" is not a duration; write 1d for that fixed length",
    );
    for window in ["1s", "1m", "1h", "1d", "500ms", "1m30s"] {
        rules(&format!(
            "rules:\n- limits: {{requests: 1, window: {window}}}"
        ));
    }
}

#[test]
fn whole_numbers_are_plain_digits() {
    for number in [
        "true",
        "0x10",
        "1e3",
        "no",
        "null",
        "007",
        "\"10\"",
        "1_000",
        "10.0",
        "-1",
        "+1",
        "ten",
        "",
        "[1]",
        "{a: 1}",
        "0o7",
        ".5",
        "1.",
        "٣",
        "~",
        "10 000",
        "|\n      10",
    ] {
        let fault = of_limits(&format!("\n    window: 1m\n    requests: {number}"));
        has(&fault, "rule \"r\": limits.requests: ");
        has(
            &fault,
            " is not a whole number; write plain digits, such as 100, without quotes",
        );
    }
    has(
        &of_limits("{requests: 18446744073709551616, window: 1m}"),
        "limits.requests: 18446744073709551616 is too large",
    );
    for number in [
        "0x10", "1_000", "+1", "-1", "1.0", "1e3", "true", "\"10\"", "0o7", "inf",
    ] {
        let text = format!(
            "rules = [{{ name = \"r\", limits = {{ window = \"1m\", requests = {number} }} }}]"
        );
        let faults = compile(&[("r.toml", &text)]).unwrap_err();
        assert_eq!(faults.len(), 1);
        has(&faults[0], "limits.requests: ");
        has(&faults[0], " is not a whole number");
    }
    for number in ["-1", "1.0", "1e3", "true", "\"10\"", "null"] {
        let text =
            format!("{{\"rules\":[{{\"limits\":{{\"requests\":{number},\"window\":\"1m\"}}}}]}}");
        let faults = compile(&[("r.json", &text)]).unwrap_err();
        assert_eq!(faults.len(), 1);
        has(&faults[0], "rule 1: limits.requests: ");
        has(&faults[0], " is not a whole number");
    }
}

#[test]
fn texts_that_could_be_something_else_need_quotes() {
    for text in [
        "true",
        "no",
        "007",
        "1e3",
        "0x10",
        "off",
        "Y",
        "1.5",
        "-1",
        "12:30",
        "2024-01-01",
    ] {
        let fault = one(&format!(
            "rules:\n- limits: {{requests: 1, window: 1m}}\n  name: {text}"
        ));
        has(
            &fault,
            &format!("name: {text} can be read as something else than text; put it in quotes"),
        );
        rules(&format!(
            "rules:\n- limits: {{requests: 1, window: 1m}}\n  name: \"{text}\""
        ));
    }
    has(
        &of_limits("{no: {requests: 1, window: 1m}}"),
        "limits: no is not a name; names are text: put it in quotes",
    );
    has(
        &of_limits("{[a]: {requests: 1, window: 1m}, default: {requests: 1, window: 1m}}"),
        "a list is not a name",
    );
    has(&one("true: 1\nrules: []"), "r.yaml:1:1: true is not a name");
}

#[test]
fn unknown_keys_are_faults_with_a_suggestion() {
    has(
        &of_rule("limt: 5"),
        "rule \"r\": limt: \"limt\" is not known here; did you mean `limits`?",
    );
    has(&of_rule("methods: GET"), "did you mean `method`?");
    has(&of_rule("Endpoint: /a"), "did you mean `endpoint`?");
    has(
        &of_rule("zzz: 1"),
        "\"zzz\" is not known here; known are name, endpoint, method, key, limits",
    );
    has(
        &of_limits("{requests: 1, window: 1m, requestsperunit: 1}"),
        "limits.requestsperunit: \"requestsperunit\" is not known here; did you mean `requests`?",
    );
    has(
        &one("rules: []\nrule: []"),
        "r.yaml:2:1: rule: \"rule\" is not known here; did you mean `rules`?",
    );
    has(
        &one("rules: []\ndefaults: {window: 1m}"),
        "defaults.window: \"window\" is not known here",
    );
    has(
        &one("rules: []\ndefaults: 5"),
        "defaults: 5 is not a map of defaults",
    );
}

#[test]
fn duplicate_keys_are_faults_in_every_format() {
    has(
        &of_limits("{requests: 1, window: 1m, requests: 2}"),
        "r.yaml:3:37: rule \"r\": limits.requests: \"requests\" is here twice, first in line 3",
    );
    has(
        &of_limits("\n    a: {requests: 1, window: 1m}\n    a: {requests: 2, window: 1m}"),
        "limits.a: \"a\" is here twice, first in line 4; keep one of them",
    );
    let json = r#"{"rules":[],"rules":[]}"#;
    has(
        &compile(&[("r.json", json)]).unwrap_err()[0],
        "r.json:1:13: rules: \"rules\" is here twice",
    );
    let toml = "rules = []\nrules = []";
    has(
        &compile(&[("r.toml", toml)]).unwrap_err()[0],
        "r.toml:2:1: not TOML: duplicate key",
    );
    has(
        &of_limits("{requests: 1, amount: 1, window: 1m}"),
        "limits.amount: `amount` says the same as `requests`; keep one of them",
    );
}

#[test]
fn wrong_kinds_say_what_to_write() {
    has(
        &of_rule("endpoint: [/a]"),
        "endpoint: a list is not an endpoint; write /api/v1/orders",
    );
    has(
        &of_rule("endpoint:"),
        "endpoint: nothing (null) is not an endpoint",
    );
    has(
        &of_rule("method: {GET: 1}"),
        "method: a map is not a method; write GET, POST or a list",
    );
    has(
        &of_rule("key: [client, 1.5]"),
        "key[1]: 1.5 can be read as something else",
    );
    has(&of_rule("name: r2"), "\"name\" is here twice");
    has(&one("rules: 5"), "rules: 5 is not a list of rules");
    has(&one("rules: {a: 1}"), "rules: a map is not a list of rules");
    has(
        &one("[1]"),
        "r.yaml:1:1: a list is not a rule file; write `rules:` and a list of rules",
    );
    has(&one("rules: [[]]"), "rule 1: a list is not a rule");
    has(
        &one("rules: [{name: r}]"),
        "rule \"r\": `limits` is missing; write limits: {default:",
    );
    has(
        &of_limits("5"),
        "limits: 5 is not a limit; write {requests: 10, window: 1m}",
    );
    has(&of_limits("{free: 5}"), "limits.free: 5 is not a limit");
    for nothing in ["", "[]", "{}", "{free: }", "{free: []}", "{free: {}}"] {
        has(
            &of_limits(nothing),
            "there is no limit here; write {requests: 10, window: 1m}",
        );
    }
    has(
        &of_limits("{requests: 1}"),
        "limits: `window` is missing; write window: 1m",
    );
    has(
        &of_limits("{window: 1m}"),
        "limits: `requests` is missing; write requests: 10",
    );
    has(
        &of_limits("{requests: 1, window: 1m, count_denied: yes}"),
        "count_denied: yes is not true or false",
    );
}

#[test]
fn names_can_be_shown_anywhere() {
    for name in [
        "",
        " a",
        "größe",
        "line\\nbreak",
        "a\\u0000",
        "a\\u007f",
        &"x".repeat(129),
    ] {
        let fault = one(&format!(
            "rules:\n- name: \"{name}\"\n  limits: {{requests: 1, window: 1m}}"
        ));
        has(
            &fault,
            "cannot be a name; write 1 to 128 printable ASCII characters",
        );
    }
    has(
        &of_limits("{größe: {requests: 1, window: 1m}}"),
        "cannot be a name",
    );
    has(
        &of_limits("{requests: 1, window: 1m, name: \"\\t\"}"),
        "limits.name: \"\\t\" cannot be a name",
    );
    for name in ["a\\\"b", "a\\\\b", "{x=\\\"y\\\"}", &"x".repeat(128)] {
        rules(&format!(
            "rules:\n- name: \"{name}\"\n  limits: {{requests: 1, window: 1m}}"
        ));
    }
    has(
        &one("rules:\n- {endpoint: /größe, limits: {requests: 1, window: 1m}}"),
        "name: the endpoint cannot serve as the rule's name; give the rule a `name` of its own",
    );
}

#[test]
fn rule_names_are_unique_across_files() {
    let rule = "rules:\n- {endpoint: 'POST /a', limits: {requests: 1, window: 1m}}";
    let other = "rules:\n- {endpoint: /a/, method: post, limits: {requests: 1, window: 1m}}";
    let faults = compile(&[("a.yaml", rule), ("b.yaml", other)]).unwrap_err();
    assert_eq!(
        faults,
        [
            "b.yaml:2:3: rule \"post /a/\": name: another rule is called so, in a.yaml line 2; give one \
          of them another `name`"
        ]
    );
}

#[test]
fn limits_that_would_be_one_counter_are_refused() {
    has(
        &of_limits("\n  - {requests: 1, window: 1m}\n  - {requests: 2, window: 60s}"),
        "r.yaml:5:5: rule \"r\": limits[1]: the limit in line 4 has the same tier, algorithm and window",
    );
    has(
        &of_limits(
            "\n  - {requests: 1, window: 1m}\n  - {requests: 2, window: 1m, algorithm: fixed_window}",
        ),
        "limits[1]: the limit in line 4 is called \"default/1m\" too; give one of them another `name`",
    );
    rules(
        "rules:\n- limits:\n  - {requests: 1, window: 1m}\n  - {requests: 2, window: 1m, algorithm: fixed_window, name: x}",
    );
}

#[test]
fn words_are_known_or_refused_with_a_suggestion() {
    has(
        &of_rule("algorithm: sliding-window"),
        "algorithm: \"sliding-window\" is none of fixed_window, sliding_window, sliding_log, \
         token_bucket, leaky_bucket; did you mean `sliding_window`?",
    );
    has(
        &of_rule("on_store_loss: fail"),
        "on_store_loss: \"fail\" is none of local, share, open, closed",
    );
    has(
        &of_rule("consistency: bounded\n  algorithm: sliding_log"),
        "algorithm: bounded is for fixed_window and sliding_window, not for sliding_log; write \
         consistency: strict, or count by a window",
    );
    for wrong in ["0s", "11s"] {
        has(
            &of_rule(&format!("strict_timeout: {wrong}")),
            &format!("strict_timeout: {wrong} is no time to wait for the store; write 1ms to 10s"),
        );
    }
    has(
        &of_rule("consistency: aproximate"),
        "did you mean `approximate`?",
    );
}

#[test]
fn what_cannot_be_counted_is_refused() {
    has(
        &of_limits("{requests: 9007199254740992, window: 1m}"),
        "limits.requests: 9007199254740992 is more than the store counts exactly \
         (9007199254740991); write `consistency: local`, or a smaller amount",
    );
    has(
        &of_limits("{requests: 1, window: 1m, algorithm: token_bucket, burst: 9007199254740992}"),
        "limits.burst: 9007199254740992 is more than",
    );
    rules("rules:\n- limits: {requests: 9007199254740991, window: 1m}");
    rules("rules:\n- limits: {requests: 18446744073709551615, window: 1m, consistency: local}");
    has(
        &of_limits("{requests: 1, window: 1m, burst: 2}"),
        "limits.burst: only token_bucket and leaky_bucket",
    );
    has(
        &of_limits("{requests: 100001, window: 1m, algorithm: sliding_log}"),
        "limits.requests: sliding_log remembers every hit",
    );
    has(
        &of_limits("{amount: 100001, window: 1m, algorithm: sliding_log}"),
        "limits.amount: sliding_log",
    );
    has(
        &of_limits("{requests: 0, window: 1m, algorithm: token_bucket, burst: 2}"),
        "limits.burst: a burst of 2",
    );
    has(
        &of_limits("{requests: 1, window: 1us}"),
        "limits.window: \"1us\" is not a duration",
    );
}

#[test]
fn intervals_must_go_together() {
    for fields in [
        "sync_interval: 0s",
        "sync_interval: 10ms\n  sync_min_interval: 20ms",
        "sync_interval: 10ms\n  sync_max_interval: 5ms",
        "sync_min_interval: 200ms",
        "sync_max_interval: 50ms",
    ] {
        has(
            &of_rule(fields),
            "do not go together; none may be above the next",
        );
    }
    has(
        &one(
            "rules:\n- sync_min_interval: 20ms\n  limits: {requests: 1, window: 1m, sync_interval: 10ms}",
        ),
        "limits.sync_interval: sync_min_interval 20ms, sync_interval 10ms and sync_max_interval 5s do not",
    );
    has(
        &of_rule("sync_interval: 100"),
        "sync_interval: \"100\" is not a duration",
    );
}

#[test]
fn matchers_are_checked() {
    has(
        &of_rule("endpoint: api/v1"),
        "endpoint: \"api/v1\" does not begin with a slash; write /path",
    );
    has(&of_rule("endpoint: '*'"), "does not begin with a slash");
    has(
        &of_rule("endpoint: /a/{}"),
        "has a parameter without a proper name; write {id}, :id or *",
    );
    has(&of_rule("endpoint: /**/a"), "has `**` before its end");
    has(
        &of_rule("endpoint: 'GET,POST /a'"),
        "endpoint: \"GET,POST\" is not a method",
    );
    has(
        &of_rule("method: 'G T'"),
        "method: \"G T\" is not a method; write GET, POST or a list of methods",
    );
    has(
        &of_rule("method: [GET, '']"),
        "method[1]: \"\" is not a method",
    );
    has(
        &of_rule("endpoint: GET /a\n  method: GET"),
        "method: `method` says the same as `endpoint`; keep one of them",
    );
    has(
        &of_rule("key: 'headr:x'"),
        "key: \"headr:x\" names no caller; write client, api_key, header:NAME, attribute:NAME, \
         claim:NAME, subject, query:NAME, path:NAME, tenant or global; did you mean `header:x`?",
    );
    has(
        &of_rule("key: [user, 'attribute:User']"),
        "key[1]: \"attribute:User\" is in the list twice",
    );
    has(&of_rule("key: []"), "key: an empty list identifies nobody");
}

#[test]
fn a_set_of_empty_files_is_refused() {
    let faults = compile(&[("a.yaml", ""), ("b.toml", "# nothing")]).unwrap_err();
    assert_eq!(
        faults,
        [
            "a.yaml:1:1: no file has any rule; write `rules:` and a list, empty if nothing is to be limited"
        ]
    );
}

#[test]
fn one_bad_rule_refuses_the_whole_set() {
    let good = "rules:\n- {name: good, limits: {requests: 1, window: 1m}}";
    let bad = "rules:\n- {name: bad, limits: {requests: ten, window: 1m}}";
    let faults = compile(&[("good.yaml", good), ("bad.yaml", bad)]).unwrap_err();
    assert_eq!(faults.len(), 1);
    has(
        &faults[0],
        "bad.yaml:2:34: rule \"bad\": limits.requests: \"ten\" is not a whole number",
    );
}

#[test]
fn texts_of_files_are_told_on_one_line_and_shortened() {
    let long = "x".repeat(10_000);
    has(
        &of_rule(&format!("consistency: {long}")),
        &format!("\"{}…\" is none of", "x".repeat(60)),
    );
    has(
        &of_rule("consistency: \"a\\n\\e[1mb\""),
        "\"a\\n\\u{1b}[1mb\" is none of",
    );
    let fault = of_rule("\"k\\ney\": 1");
    has(
        &fault,
        "rule \"r\": \"k\\ney\": \"k\\ney\" is not known here",
    );
}

#[test]
fn json_is_read_strictly() {
    for (text, fault) in [
        ("{\"rules\":[],}", "r.json:1:13: not JSON: trailing comma"),
        (
            "{\"rules\":[]} // c",
            "r.json:1:14: not JSON: trailing characters",
        ),
        ("[1,]", "r.json:1:4: not JSON: trailing comma"),
        ("{'rules':[]}", "not JSON: key must be a string"),
        ("{rules: []}", "not JSON: key must be a string"),
        ("{\"rules\":[]", "not JSON: EOF"),
        ("rules: []", "not JSON: expected value"),
        ("{\"rules\":[01]}", "not JSON: invalid number"),
    ] {
        has(&compile(&[("r.json", text)]).unwrap_err()[0], fault);
    }
}

#[test]
fn yaml_is_read_without_tags_and_second_documents() {
    has(&one("rules: !!seq []"), "tags such as");
    has(
        &one("rules: []\n---\nrules: []"),
        "r.yaml:2:1: a file holds one document",
    );
    has(&one("rules: [\n"), "r.yaml:");
    has(
        &one("a: &a [*a]"),
        "an alias cannot repeat what it is a part of",
    );
    has(&one("rules: *x"), "not YAML: ");
}
