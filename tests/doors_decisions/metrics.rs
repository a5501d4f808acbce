//! What the page of metrics says after checks that are known.

use std::collections::BTreeMap;

use super::support::{Doors, named, serve};
use crate::kit::http;

const RULES: &str = "rules:\n\
    - {name: orders, endpoint: POST /orders, key: attribute:user, algorithm: fixed_window, limits: {\
       free: {requests: 2, window: 1m}, pro: {requests: 5, window: 1m}}}\n\
    - {name: shut, endpoint: /shut, limits: {default: {requests: 0, window: 1m}}}\n";

/// Checks by rule, limit, outcome and door.
fn checks(doors: &Doors) -> BTreeMap<[String; 4], u64> {
    let page = doors.page();
    let lines = page
        .lines()
        .filter_map(|line| line.strip_prefix("tidegate_checks_total{"));
    lines
        .map(|line| {
            let (labels, value) = line.split_once("} ").unwrap();
            let labels: BTreeMap<&str, &str> = labels
                .split(',')
                .map(|label| label.split_once('=').unwrap())
                .collect();
            assert_eq!(labels.len(), 4, "{line}");
            let labels = ["rule", "limit", "outcome", "door"]
                .map(|name| labels[name].trim_matches('"').to_owned());
            (labels, value.parse().unwrap())
        })
        .collect()
}

#[test]
fn checks_are_counted_once_by_rule_limit_outcome_and_door() {
    let doors = serve(RULES);
    assert_eq!(checks(&doors), BTreeMap::new());
    let mut client = doors.client();
    // HTTP: two of free, one too many; a batch of pro and of what nobody limits.
    for _ in 0..3 {
        doors.named("orders", "a", 1);
    }
    doors.ask(
        r#"{"checks":[{"rule":"orders","key":"a","tier":"pro"},{"rule":"orders","key":"a","tier":"pro","cost":6},
            {"request":{"method":"GET","path":"/x"}},{"rule":"nope","key":"a"},{"rule":"shut","key":"a"}]}"#,
    );
    doors.ask(
        r#"{"request":{"method":"POST","path":"/orders"},"attributes":{"user":"b","tier":"pro"}}"#,
    );
    // RESP: a peek is a check too; what is no check is none.
    for words in [
        &["TG.CHECK", "orders", "c"][..],
        &["TG.CHECK", "orders", "c", "0"],
        &["TG.CHECK", "orders", "a"],
        &["TG.CHECK", "orders", "c", "-1"],
        &["TG.CHECK", "nope", "c"],
        &["CL.THROTTLE", "c", "0", "1", "60"],
        &["CL.THROTTLE", "c", "0", "1", "60"],
        &["CL.THROTTLE", "c", "0", "1", "60", "2"],
        &["PING"],
    ] {
        client.command(words);
    }
    doors.ask("{}");

    let wanted = [
        (["orders", "free/1m", "allowed", "http"], 2),
        (["orders", "free/1m", "refused", "http"], 1),
        (["orders", "pro/1m", "allowed", "http"], 2),
        (["orders", "pro/1m", "impossible", "http"], 1),
        (["shut", "default/1m", "banned", "http"], 1),
        (["", "", "unlimited", "http"], 1),
        (["", "", "unknown_rule", "http"], 1),
        (["orders", "free/1m", "allowed", "resp"], 2),
        (["orders", "free/1m", "refused", "resp"], 1),
        (["", "", "unknown_rule", "resp"], 1),
        (["", "throttle", "allowed", "resp"], 1),
        (["", "throttle", "refused", "resp"], 1),
        (["", "throttle", "impossible", "resp"], 1),
    ];
    let wanted: BTreeMap<_, _> = wanted
        .into_iter()
        .map(|(labels, count)| (labels.map(str::to_owned), count))
        .collect();
    assert_eq!(checks(&doors), wanted);
}

#[test]
fn what_never_refuses_is_counted_beside_the_decision() {
    let doors = serve(
        "rules:\n\
         - {name: hard, endpoint: /x, algorithm: fixed_window, limits: {requests: 3, window: 1m}}\n\
         - {name: dark, endpoint: /x, mode: shadow, algorithm: fixed_window, limits: {requests: 2, window: 1m}}\n\
         - {name: mild, endpoint: /x, mode: soft, algorithm: fixed_window, limits: {requests: 1, window: 1m}}\n",
    );
    let mut client = doors.client();
    for allowed in [true, true, true, false] {
        let said = client.command(&["TG.MATCH", "GET", "/x", "IP", "203.0.113.9"]);
        assert_eq!(said.ints()[0] == 0, allowed);
    }
    let wanted = [
        (["hard", "default/1m", "allowed", "resp"], 3),
        (["hard", "default/1m", "refused", "resp"], 1),
    ];
    let wanted = wanted.map(|(labels, count)| (labels.map(str::to_owned), count));
    assert_eq!(checks(&doors), wanted.into());
    let page = doors.page();
    let mut advisory: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("tidegate_advisory_checks_total"))
        .collect();
    advisory.sort_unstable();
    assert_eq!(
        advisory,
        [
            r#"{rule="dark",limit="default/1m",mode="shadow",outcome="allowed"} 2"#,
            r#"{rule="dark",limit="default/1m",mode="shadow",outcome="refused"} 1"#,
            r#"{rule="mild",limit="default/1m",mode="soft",outcome="allowed"} 1"#,
            r#"{rule="mild",limit="default/1m",mode="soft",outcome="refused"} 2"#,
        ]
    );
}

#[test]
fn no_name_that_a_client_chooses_makes_a_line() {
    let doors = serve(RULES);
    let mut client = doors.client();
    let mut round = |name: &str| {
        for _ in 0..3 {
            doors.ask(&named("orders", name, 1));
            client.command(&["TG.CHECK", "orders", name]);
            client.command(&["CL.THROTTLE", name, "0", "1", "60"]);
        }
        doors.ask(&named(name, name, 1));
        doors.ask(&format!(
            r#"{{"rule":"orders","key":"{name}","tier":"{name}","cost":0}}"#
        ));
        doors.ask(&format!(
            r#"{{"request":{{"method":"{name}","path":"/{name}","headers":{{"{name}":"{name}"}}}},"attributes":{{"{name}":"{name}","user":"{name}"}}}}"#
        ));
        doors.ask(&format!(r#"{{"{name}":1}}"#));
        client.command(&["TG.CHECK", name, name, "1", name]);
        client.command(&[name, name]);
        client.command(&["CLIENT", "SETNAME", name]);
        http::request(&doors.http[0], name, &format!("/{name}"), "");
        http::request(&doors.admin, "GET", &format!("/{name}"), "");
    };
    round("FIRST");
    let lines = doors.page().lines().count();
    for nth in 0..100 {
        round(&format!("NAME{nth}"));
    }
    let page = doors.page();
    assert_eq!(page.lines().count(), lines, "{page}");
    assert!(!page.contains("NAME") && !page.contains("FIRST"), "{page}");
}
