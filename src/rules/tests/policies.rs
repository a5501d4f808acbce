use super::*;

fn limits(rules: &RuleSet, path: &str) -> Vec<String> {
    let applied = matching(rules, &described("GET", path));
    let shown = applied.iter().map(|one| {
        let quota = &one.limit.quota;
        format!("{} {} {}", one.limit.rule, one.limit.name, quota.capacity())
    });
    shown.collect()
}

#[test]
fn a_policy_stands_wherever_limits_do() {
    let compiled = compile(&[
        (
            "rules.yaml",
            "rules:\n- {name: a, endpoint: /a, limits: basic}\n\
             - {name: b, endpoint: /b, limits: {free: basic, default: [basic, {requests: 9, window: 1d}]}}\n\
             - {name: c, endpoint: /c, algorithm: token_bucket, limits: [burst]}",
        ),
        (
            "policies.yaml",
            "policies:\n  basic: [{requests: 100, window: 1m}, {requests: 1000, window: 1h}]\n  \
             burst: {requests: 5, window: 1s, burst: 20}",
        ),
    ])
    .unwrap();
    assert_eq!(compiled.warnings, []);
    let rules = compiled.rules;
    assert_eq!(
        limits(&rules, "/a"),
        ["a default/1m 100", "a default/1h 1000"]
    );
    assert_eq!(
        limits(&rules, "/b"),
        ["b default/1m 100", "b default/1h 1000", "b default/1d 9"]
    );
    assert_eq!(limits(&rules, "/c"), ["c default/1s 20"]);
}

#[test]
fn rules_that_share_a_policy_share_no_counter() {
    let shared = rules(
        "policies: {one: {requests: 1, window: 1m}}\nrules:\n- {name: a, limits: one}\n- {name: b, limits: one}",
    );
    let applied = matching(&shared, &described("GET", "/"));
    assert_ne!(applied[0].key, applied[1].key);
    // Nor does it matter whether a limit has a name for its policy.
    let inline = rules("rules: [{name: a, limits: {requests: 1, window: 1m}}]");
    assert_eq!(
        applied[0].key,
        matching(&inline, &described("GET", "/"))[0].key
    );
}

#[test]
fn what_is_wrong_in_a_policy_is_told_once_where_it_stands() {
    let faults = faults(
        "policies:\n  basic:\n  - {requests: ten, window: 1m}\nrules:\n- {name: a, limits: basic}\n\
         - {name: b, limits: {default: basic}}",
    );
    assert_eq!(
        faults,
        [
            "r.yaml:3:16: rule \"a\": limits[0].requests: \"ten\" is not a whole number; write plain \
          digits, such as 100, without quotes"
        ]
    );
}

#[test]
fn policies_that_cannot_be_used_are_told() {
    let one = |text: &str| faults(text).join("\n");
    let basic = "policies: {basic: {requests: 1, window: 1m}}\n";
    let told = one(&format!(
        "{basic}rules: [{{name: a, limits: {{pro: bsaic}}}}]"
    ));
    assert_eq!(
        told,
        "r.yaml:2:33: rule \"a\": limits.pro: there is no policy \"bsaic\"; did you mean `basic`?"
    );
    let told = one("rules: [{name: a, limits: basic}]");
    assert!(
        told.ends_with("there is no policy \"basic\"; write the limits here, or `policies:`"),
        "{told}"
    );
    let told = one(&format!("{basic}policies: {{x: basic}}\nrules: []"));
    assert!(
        told.contains("policies: \"policies\" is here twice"),
        "{told}"
    );
    let told = one(
        "policies: {x: basic, basic: {requests: 1, window: 1m}}\nrules: [{name: a, limits: x}]",
    );
    assert!(
        told.contains("a policy cannot name another; write its limits"),
        "{told}"
    );
    let told = one("policies: [1]\nrules: []");
    assert!(
        told.contains("policies: a list is not a map of policies; write"),
        "{told}"
    );
    let twice = compile(&[("a.yaml", &format!("{basic}rules: []")), ("b.yaml", basic)]);
    assert_eq!(
        twice.unwrap_err(),
        [
            "b.yaml:1:12: policies.basic: another policy is called so, in a.yaml line 1; give one of \
          them another name"
        ]
    );
    assert_eq!(
        warnings(&format!("{basic}rules: []")),
        ["r.yaml:1:19: policies.basic: no rule uses this policy"]
    );
}
