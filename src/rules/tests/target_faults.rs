//! What is wrong with the fields that say which requests a rule is for, and how it acts.

use super::*;

#[track_caller]
fn one(yaml: &str) -> String {
    let mut faults = faults(yaml);
    assert_eq!(faults.len(), 1, "{yaml}\n{faults:#?}");
    faults.remove(0)
}

/// The one fault of a rule with `fields`, and limits.
#[track_caller]
fn of(fields: &str) -> String {
    one(&format!(
        "rules:\n- name: r\n  limits: {{requests: 1, window: 1m}}\n  {fields}"
    ))
}

#[track_caller]
fn has(fault: &str, part: &str) {
    assert!(fault.contains(part), "{fault}\nlacks: {part}");
}

#[test]
fn expressions_that_cannot_be_used_are_refused_with_the_rules_name() {
    for text in ["regex:(x{1000}){1000}", "regex:/.{65535}"] {
        has(
            &of(&format!("endpoint: '{text}'")),
            &format!("r.yaml:4:13: rule \"r\": endpoint: \"{text}\" is too large; write fewer"),
        );
    }
    has(
        &of("endpoint: 'GET regex:/(a'"),
        "is not a regular expression: unclosed group",
    );
    has(
        &of("endpoint: 'regex:v1/.*'"),
        "matches no path, for every path begins with a slash",
    );
    has(
        &of("when: {headers: {A: 'regex:['}}"),
        "when.headers.A: \"regex:[\" is not a regular expression: unclosed",
    );
    has(
        &of("endpoint: 'prefix:/a/**'"),
        "has `**`, which a prefix implies",
    );
    has(&of("endpoint: 'prefix:a'"), "does not begin with a slash");
}

#[test]
fn conditions_say_what_they_need() {
    has(
        &of("when: {headrs: {A: b}}"),
        "when.headrs: \"headrs\" is not known here; did you mean `headers`?",
    );
    has(
        &of("when: {not: {not: {headers: {A: b}}}}"),
        "when.not.not: \"not\" is not known here",
    );
    has(&of("when: {}"), "when: there is no condition here");
    has(
        &of("when: {headers: {}}"),
        "when: there is no condition here",
    );
    has(
        &of("when: {headers: [A]}"),
        "when.headers: a list is not a map of names and values",
    );
    has(
        &of("when: {headers: {'A B': c}}"),
        "\"A B\" is no name of a header or attribute",
    );
    has(
        &of("when: {headers: {X-A: c, x-a: d}}"),
        "\"x-a\" is here twice, for its case does not count",
    );
    has(
        &of("when: {headers: {A: []}}"),
        "when.headers.A: there is no value here",
    );
    has(
        &of("when: {headers: {A: null}}"),
        "when.headers.A: there is no value here",
    );
    has(
        &of("when: {headers: {A: ''}}"),
        "\"\" is an empty value, which is the same as none",
    );
    has(
        &of("when: {headers: {A: 'prefix:'}}"),
        "\"prefix:\" is an empty value",
    );
    has(
        &of("when: {headers: {A: [b, true]}}"),
        "when.headers.A[1]: ",
    );
    has(&of("when: x"), "when: \"x\" is not a condition; write");
}

#[test]
fn what_contradicts_is_told() {
    has(
        &of("unlimited: true"),
        "unlimited: `unlimited` contradicts `limits`; keep one of them",
    );
    has(
        &of("ban: true"),
        "ban: `ban` contradicts `limits`; keep one of them",
    );
    has(
        &one("rules: [{name: r, ban: true, unlimited: true}]"),
        "ban: `ban` contradicts `unlimited`; keep one of them",
    );
    has(
        &one("rules: [{name: r, unlimited: false}]"),
        "`limits` is missing; write limits:",
    );
    has(
        &one("rules: [{name: r, unlimited: 'true'}]"),
        "true or false, without quotes",
    );
    has(
        &of("priority: 5"),
        "a priority orders the rules of one `group`: write that too",
    );
    has(&of("group: [a]"), "group: a list is not a name; write text");
    has(
        &of("group: g\n  priority: -1"),
        "priority: -1 is not a whole number",
    );
    has(
        &of("endpoint: /a/**\n  trailing_slash: distinct"),
        "`trailing_slash` has no sense for an endpoint with an open end",
    );
    has(
        &of("case: lower"),
        "case: \"lower\" is none of sensitive, insensitive",
    );
}

#[test]
fn a_percentage_is_a_whole_number_up_to_100() {
    for percent in ["12.5", "-1", "'10'", "1e1", "10%"] {
        has(&of(&format!("percent: {percent}")), "percent: ");
    }
    has(&of("percent: 12.5"), "is not a whole number");
    has(
        &of("percent: 101"),
        "101 is no part of the callers; write 0 to 100",
    );
}

#[test]
fn modes_are_words_of_files_and_rules() {
    has(
        &of("mode: shaddow"),
        "mode: \"shaddow\" is none of enforce, shadow, soft; did you mean `shadow`?",
    );
    has(
        &one("rules:\n- {name: r, limits: {requests: 1, window: 1m, mode: soft}}"),
        "limits.mode: \"mode\" is not known here",
    );
}

#[test]
fn overrides_are_read_as_strictly_as_rules() {
    let over = |text: &str| of(&format!("overrides: {text}"));
    has(&over("/a"), "overrides: \"/a\" is not a list of overrides");
    has(
        &over("[{endpoint: /a}]"),
        "overrides[0]: `limits` is missing",
    );
    has(
        &over("[{limits: {requests: 1, window: 1m}}]"),
        "overrides[0]: `endpoint` is missing",
    );
    has(
        &over("[{endpoint: /a, limit: {requests: 1, window: 1m}, ban: true}]"),
        "overrides[0].limit: \"limit\" is not known here; did you mean `limits`?",
    );
    has(
        &over("[{endpoint: /a, limits: {requests: 1}}]"),
        "overrides[0].limits: `window` is missing",
    );
    has(
        &over("[{endpoint: /a, ban: true}, {endpoint: /a, when: {headers: {A: b}}, ban: true}]"),
        "overrides[1]: the override in line 4 is called \"/a\" too",
    );
    has(
        &over("[{endpoint: /a, ban: true, unlimited: true}]"),
        "`ban` contradicts `unlimited`",
    );
}

#[test]
fn all_faults_of_a_rule_are_told_at_once() {
    let faults = faults(
        "rules:\n- name: r\n  endpoint: 'regex:('\n  when: {headers: {A: 'regex:('}}\n  percent: 200\n  \
         mode: x\n  overrides: [{endpoint: a, limits: {requests: x, window: 1m}}]\n  \
         limits: {requests: 1, window: x}",
    );
    assert_eq!(faults.len(), 7, "{faults:#?}");
}

#[test]
fn doubtful_rules_are_warned_of() {
    let limits = "limits: {requests: 1, window: 1m}";
    let of = |fields: &str| {
        let mut warnings = warnings(&format!("rules:\n- {{name: r, {fields}}}"));
        assert_eq!(warnings.len(), 1, "{warnings:#?}");
        warnings.remove(0)
    };
    has(
        &of(&format!("percent: 0, {limits}")),
        "rule \"r\": percent: 0 percent are nobody; write enabled: false",
    );
    has(
        &of("unlimited: true"),
        "unlimited: limits nothing and exempts nobody from other rules",
    );
    has(
        &of("limits: unlimited"),
        "limits nothing and exempts nobody",
    );
    has(
        &of(&format!("mode: shadow, consistency: strict, {limits}")),
        "limits: a shadow limit makes no request wait: it is counted as approximate, not strict",
    );
    has(
        &of(&format!(
            "{limits}, overrides: [{{endpoint: /a/**, ban: true}}, {{endpoint: /a/b, ban: true}}]"
        )),
        "overrides[1]: never applies: \"/a/**\" comes first and matches all that this does",
    );
    let sound = [
        "unlimited: true, group: g",
        "unlimited: true, overrides: [{endpoint: /a, ban: true}]",
    ];
    for fields in sound {
        assert!(
            warnings(&format!("rules: [{{name: r, {fields}}}]")).is_empty(),
            "{fields}"
        );
    }
}

#[test]
fn rules_of_a_group_that_never_apply_are_warned_of() {
    let of = |first: &str, second: &str| {
        let limits = "limits: {requests: 1, window: 1m}";
        warnings(&format!(
            "rules:\n- {{name: a, group: g, {first}, {limits}}}\n- {{name: b, group: g, {second}, {limits}}}"
        ))
    };
    let dead = "r.yaml:3:3: rule \"b\": group: never applies: \"a\" comes first and matches all that \
                this does";
    assert_eq!(of("endpoint: /a/**", "endpoint: /a/b"), [dead]);
    assert_eq!(of("priority: 1", "endpoint: 'regex:/x[0-9]'"), [dead]);
    assert_eq!(of("method: [GET, PUT]", "endpoint: PUT /b"), [dead]);
    for (first, second) in [
        ("endpoint: /a/b", "endpoint: /a/**"),
        ("endpoint: /a/**", "endpoint: /a/b, priority: 1"),
        ("percent: 50", "endpoint: /a"),
        ("enabled: false", "endpoint: /a"),
        ("when: {headers: {A: present}}", "endpoint: /a"),
        ("endpoint: 'regex:/a.*'", "endpoint: /ab"),
        ("method: GET", "endpoint: /a"),
    ] {
        assert!(of(first, second).is_empty(), "{first} {second}");
    }
}
