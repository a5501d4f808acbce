//! Costs that are known only after the work is done: to the unit and the millisecond, by
//! both doors.

use serde_json::{Value as Json, json};

use super::support::{Doors, algorithms, error, every_algorithm, serve};
use crate::kit::http::{self, Reply};
use crate::kit::resp::Client;

/// What a door says of a settlement: its word, then charged, refunded and late.
type Said = (String, [i64; 3]);

/// The two ways in.
trait Way {
    /// Whether a check with an id is admitted; else how long to wait, in ms.
    fn check(&mut self, rule: &str, cost: u64, id: &str) -> Result<(), i64>;
    /// The same without an id.
    fn plain(&mut self, rule: &str, cost: u64) -> Result<(), i64>;
    fn settle(&mut self, id: &str, cost: u64) -> Said;
    /// What is left after it, and how long a check must wait then, in ms.
    fn report(&mut self, rule: &str, cost: u64) -> (i64, i64);
    fn left(&mut self, rule: &str) -> i64;
}

struct Http<'d>(&'d Doors);

impl Http<'_> {
    fn post(&self, path: &str, body: &Json) -> Reply {
        http::request(&self.0.http[0], "POST", path, &body.to_string())
    }

    fn ask(&self, body: &Json) -> Result<(), i64> {
        let reply = self.post("/v1/check", body);
        let said = reply.json();
        if said["allowed"] == true {
            assert_eq!(reply.status, 200);
            return Ok(());
        }
        assert_eq!(reply.status, 429, "{}", reply.body);
        Err(said["retry_after_ms"].as_i64().unwrap_or(-1))
    }
}

impl Way for Http<'_> {
    fn check(&mut self, rule: &str, cost: u64, id: &str) -> Result<(), i64> {
        self.ask(&json!({"rule": rule, "key": "k", "cost": cost, "id": id}))
    }

    fn plain(&mut self, rule: &str, cost: u64) -> Result<(), i64> {
        self.ask(&json!({"rule": rule, "key": "k", "cost": cost}))
    }

    fn settle(&mut self, id: &str, cost: u64) -> Said {
        let reply = self.post("/v1/settle", &json!({"id": id, "cost": cost}));
        let said = reply.json();
        if reply.status != 200 {
            let error = said["error"].as_str().unwrap();
            assert_eq!((reply.status, error), (404, "unknown_id"));
            return ("unknown".to_owned(), [0; 3]);
        }
        let figures = ["charged", "refunded", "late"].map(|name| said[name].as_i64().unwrap());
        let word = if said["outcome"] == "already_settled" {
            "before"
        } else {
            "now"
        };
        assert_eq!(said["outcome"] == "late", figures == [0, 0, 1], "{said}");
        (word.to_owned(), figures)
    }

    fn report(&mut self, rule: &str, cost: u64) -> (i64, i64) {
        let reply = self.post(
            "/v1/report",
            &json!({"rule": rule, "key": "k", "cost": cost}),
        );
        let said = reply.json();
        assert_eq!((reply.status, &said["recorded"]), (200, &json!(true)));
        assert_eq!(reply.header("Retry-After"), None);
        let remaining = said["remaining"].as_i64().unwrap();
        assert_eq!(
            reply.header("X-RateLimit-Remaining"),
            Some(&*remaining.to_string())
        );
        (remaining, said["retry_after_ms"].as_i64().unwrap_or(-1))
    }

    fn left(&mut self, rule: &str) -> i64 {
        let reply = self.post("/v1/check", &json!({"rule": rule, "key": "k", "cost": 0}));
        reply.json()["remaining"].as_i64().unwrap()
    }
}

struct Resp(Client);

impl Resp {
    fn ask(&mut self, words: &[&str]) -> Result<(), i64> {
        let five = self.0.command(words).ints();
        if five[0] == 0 { Ok(()) } else { Err(five[3]) }
    }
}

impl Way for Resp {
    fn check(&mut self, rule: &str, cost: u64, id: &str) -> Result<(), i64> {
        self.ask(&["TG.CHECK", rule, "k", &cost.to_string(), "ID", id])
    }

    fn plain(&mut self, rule: &str, cost: u64) -> Result<(), i64> {
        self.ask(&["TG.CHECK", rule, "k", &cost.to_string()])
    }

    fn settle(&mut self, id: &str, cost: u64) -> Said {
        let value = self.0.command(&["TG.SETTLE", id, &cost.to_string()]);
        if let Some(error) = error(&value) {
            assert!(error.starts_with("ERR UNKNOWN "), "{error}");
            return ("unknown".to_owned(), [0; 3]);
        }
        let four = value.ints();
        let word = if four[0] == 1 { "now" } else { "before" };
        (word.to_owned(), [four[1], four[2], four[3]])
    }

    fn report(&mut self, rule: &str, cost: u64) -> (i64, i64) {
        let words = ["TG.REPORT", rule, "k", &cost.to_string()];
        let five = self.0.command(&words).ints();
        // A leaky bucket tells how long an admitted check would have to wait.
        (five[2], if five[0] == 1 { five[3] } else { -1 })
    }

    fn left(&mut self, rule: &str) -> i64 {
        self.0.command(&["TG.CHECK", rule, "k", "0"]).ints()[2]
    }
}

/// Does the same over both doors, each with rules and a clock of its own.
fn both_ways(rules: &str, does: impl Fn(&mut dyn Way, &Doors)) {
    let doors = serve(rules);
    does(&mut Http(&doors), &doors);
    let doors = serve(rules);
    does(&mut Resp(doors.client()), &doors);
}

fn now(figures: [i64; 3]) -> Said {
    ("now".to_owned(), figures)
}

#[test]
fn c36_a_settlement_is_always_recorded_and_the_next_request_waits_as_long_as_it_is_told() {
    both_ways(
        &every_algorithm("{requests: 1000, window: 1m}"),
        |way, doors| {
            for rule in algorithms() {
                let wait = match rule {
                    "fixed_window" | "sliding_log" => 60_000,
                    // In the next window 1,500 must weigh no more than 999.
                    "sliding_window" => 60_000 + 20_040,
                    _ => 501 * 60,
                };
                assert_eq!(way.check(rule, 20, rule), Ok(()));
                assert_eq!(way.settle(rule, 1_500), now([1_480, 0, 0]), "{rule}");
                assert_eq!(way.left(rule), 0, "{rule}");
                assert_eq!(way.plain(rule, 1), Err(wait), "{rule}");
                // Once more by the same id: nothing changes.
                let before = ("before".to_owned(), [0; 3]);
                assert_eq!(way.settle(rule, 9_999), before, "{rule}");
                assert_eq!(way.plain(rule, 1), Err(wait), "{rule}");
                doors.wait(u64::try_from(wait).unwrap() - 1);
                assert!(way.plain(rule, 1).is_err(), "{rule}");
                doors.wait(1);
                assert_eq!(way.plain(rule, 1), Ok(()), "{rule}");
                // The next one begins at the edge of a minute again.
                doors.wait(300_000 - u64::try_from(wait).unwrap());
            }
        },
    );
}

#[test]
fn c36_a_late_settlement_goes_to_the_window_of_admission_or_nowhere() {
    both_ways(
        &every_algorithm("{requests: 1000, window: 1m}"),
        |way, doors| {
            for rule in algorithms() {
                for name in ["charge", "refund"] {
                    assert_eq!(way.check(rule, 20, &format!("{rule}/{name}")), Ok(()));
                }
                doors.wait(60_001);
                let left = way.left(rule);
                let charged = way.settle(&format!("{rule}/charge"), 320);
                let refunded = way.settle(&format!("{rule}/refund"), 5);
                // The sliding window weighs the one before wholly now; the bucket owes what
                // comes, and was repaid what it was owed.
                let (wanted, less) = match rule {
                    "sliding_window" => ([now([300, 0, 0]), now([0, 15, 0])], 285),
                    "token_bucket" | "leaky_bucket" => ([now([300, 0, 0]), now([0, 0, 1])], 300),
                    _ => ([now([0, 0, 1]), now([0, 0, 1])], 0),
                };
                assert_eq!([charged, refunded], wanted, "{rule}");
                assert_eq!(way.left(rule), left - less, "{rule}");
                doors.wait(239_999);
            }
        },
    );
}

#[test]
fn c36_a_lower_total_refunds_the_up_front_cost_at_most_and_no_settlement_keeps_it() {
    both_ways(
        &every_algorithm("{requests: 1000, window: 1m}"),
        |way, _| {
            for rule in algorithms() {
                for (name, cost) in [("a", 100), ("b", 20), ("never", 7)] {
                    assert_eq!(way.check(rule, cost, &format!("{rule}/{name}")), Ok(()));
                }
                let part = way.settle(&format!("{rule}/a"), 40);
                assert_eq!(part, now([0, 60, 0]), "{rule}");
                let all = way.settle(&format!("{rule}/b"), 0);
                assert_eq!(all, now([0, 20, 0]), "{rule}");
                assert_eq!(way.left(rule), 1_000 - 40 - 7, "{rule}");
                let unknown = ("unknown".to_owned(), [0; 3]);
                assert_eq!(way.settle("nobody's", 5), unknown);
            }
        },
    );
}

#[test]
fn a_report_is_never_refused_and_tells_what_is_left_after_it() {
    both_ways(
        &every_algorithm("{requests: 1000, window: 1m}"),
        |way, _| {
            for rule in algorithms() {
                assert_eq!(way.report(rule, 400), (600, -1), "{rule}");
                let (left, wait) = way.report(rule, 1_100);
                assert_eq!(left, 0, "{rule}");
                assert_eq!(way.plain(rule, 1), Err(wait), "{rule}");
                assert_eq!(way.report(rule, u64::MAX >> 1).0, 0, "{rule}");
            }
        },
    );
}

#[test]
fn a_client_that_asks_again_with_its_id_is_charged_once() {
    both_ways(
        "rules: [{name: r, limits: {requests: 30, window: 1m, algorithm: fixed_window}}]",
        |way, _| {
            for _ in 0..4 {
                assert_eq!(way.check("r", 20, "a"), Ok(()));
                assert_eq!(way.left("r"), 10);
            }
            assert_eq!(way.settle("a", 25), now([5, 0, 0]));
            assert_eq!(way.left("r"), 5);
        },
    );
}

#[test]
fn an_id_of_another_check_is_a_conflict() {
    let doors = serve("rules: [{name: r, limits: {requests: 30, window: 1m}}]");
    let ask = |key: &str, cost: u64| {
        doors.ask(&json!({"rule": "r", "key": key, "cost": cost, "id": "a"}).to_string())
    };
    assert_eq!(ask("k", 1).status, 200);
    for reply in [ask("k", 2), ask("other", 1)] {
        assert_eq!(reply.status, 409, "{}", reply.body);
        assert_eq!(reply.json()["error"], "id_in_use");
        assert_eq!(
            reply.json()["message"],
            "the id is that of another check, which was admitted and is remembered, or of this \
             one, whose answer is still to come"
        );
        assert_eq!(reply.header("Retry-After"), None);
    }
    let value = doors
        .client()
        .command(&["TG.CHECK", "r", "k", "2", "ID", "a"]);
    assert_eq!(
        error(&value),
        Some(
            "ERR IN_USE the id is that of another check, or of this one, whose answer is still to come"
        )
    );
}

#[test]
fn a_described_request_is_settled_and_reported_too() {
    let rules = "rules: [{endpoint: /x, key: attribute:user, cost: attribute:tokens, \
                 limits: {requests: 1000, window: 1m, algorithm: fixed_window}}]";
    let doors = serve(rules);
    let request = json!({"request": {"method": "GET", "path": "/x"},
        "attributes": {"user": "u", "tokens": "3"}, "cost": 10});
    let with_id = |id: &str| {
        let mut request = request.clone();
        request["id"] = json!(id);
        request.to_string()
    };
    assert_eq!(doors.ask(&with_id("a")).json()["remaining"], 970);
    let mut client = doors.client();
    assert_eq!(
        client.command(&["TG.SETTLE", "a", "100"]).ints(),
        [1, 270, 0, 0]
    );
    let words = [
        "TG.MATCH", "GET", "/x", "ATTR", "user", "u", "COST", "5", "ID", "b",
    ];
    // A request that says nothing of its tokens costs one for each.
    let matched = client.command(&words).ints();
    assert_eq!(matched[..3], [0, 1_000, 695]);
    let batch = json!({"checks": [request, {"rule": "none", "key": "k"}]}).to_string();
    let reply = http::request(&doors.http[0], "POST", "/v1/report", &batch);
    let results = reply.json()["results"].clone();
    assert_eq!(results[0]["recorded"], true);
    assert_eq!(results[0]["remaining"], 665);
    assert_eq!(
        (&results[1]["recorded"], &results[1]["error"]),
        (&json!(false), &json!("unknown_rule"))
    );
}

#[test]
fn what_an_attribute_measures_is_settled_by_it_over_both_doors() {
    let doors = serve(
        "rules: [{name: each, endpoint: /x, limits: {requests: 10, window: 1m}},\
          {name: sum, endpoint: /x, cost: 'attribute:tokens', limits: {requests: 1000, window: 1m}}]",
    );
    let mut client = doors.client();
    for id in ["a", "b"] {
        let words = [
            "TG.MATCH",
            "GET",
            "/x",
            "IP",
            "192.0.2.1",
            "ATTR",
            "tokens",
            "100",
            "ID",
            id,
        ];
        assert_eq!(client.command(&words).ints()[0], 0);
    }
    let four = client.command(&["TG.SETTLE", "a", "ATTR", "Tokens", "450"]);
    assert_eq!(four.ints(), [1, 350, 0, 0]);
    let body = r#"{"id":"b","attributes":{"tokens":"30"}}"#;
    let reply = http::request(&doors.http[0], "POST", "/v1/settle", body);
    assert_eq!(reply.json()["refunded"], 70);
    let left = |rule: &str| {
        let body = json!({"rule": rule, "key": "192.0.2.1", "cost": 0}).to_string();
        doors.ask(&body).json()["remaining"].clone()
    };
    assert_eq!(
        (left("each"), left("sum")),
        (json!(8), json!(1_000 - 450 - 30))
    );
}

#[test]
fn what_cannot_be_understood_is_told_and_changes_nothing() {
    let doors = serve("rules: [{name: r, limits: {requests: 30, window: 1m}}]");
    for (path, body, named) in [
        ("/v1/settle", "{}", "missing field `id`"),
        (
            "/v1/settle",
            r#"{"id":"a","cost":-1}"#,
            "a whole number, 0 or more",
        ),
        (
            "/v1/report",
            r#"{"rule":"r","key":"k","id":"a"}"#,
            "`id` does not go with a report",
        ),
        (
            "/v1/check",
            r#"{"rule":"r","key":"k","id":""}"#,
            "`id` must have 1 to 128 bytes",
        ),
    ] {
        let reply = http::request(&doors.http[0], "POST", path, body);
        assert_eq!(reply.status, 400, "{}", reply.body);
        assert!(reply.body.contains(named), "{}", reply.body);
    }
    for path in ["/v1/settle", "/v1/report"] {
        let reply = http::request(&doors.http[0], "GET", path, "");
        assert_eq!((reply.status, reply.header("Allow")), (405, Some("POST")));
    }
    let unknown = http::request(
        &doors.http[0],
        "POST",
        "/v1/report",
        r#"{"rule":"none","key":"k"}"#,
    );
    assert_eq!(unknown.status, 404);
    let mut client = doors.client();
    for words in [
        &["TG.SETTLE", "a"][..],
        &["TG.SETTLE", "", "5"],
        &["TG.REPORT", "r"],
        &["TG.REPORT", "r", "k", "-5"],
        &["TG.REPORT", "none", "k"],
    ] {
        assert!(error(&client.command(words)).is_some(), "{words:?}");
    }
    assert_eq!(client.command(&["TG.CHECK", "r", "k", "0"]).ints()[2], 30);
}

#[test]
fn settlements_and_reports_are_counted_by_what_became_of_them() {
    let doors =
        serve("rules: [{name: r, limits: {requests: 1000, window: 1m, algorithm: fixed_window}}]");
    let mut client = doors.client();
    for (name, cost, total) in [("a", "20", "1500"), ("b", "0", "0")] {
        client.command(&["TG.CHECK", "r", name, cost, "ID", name]);
        client.command(&["TG.SETTLE", name, total]);
    }
    client.command(&["TG.SETTLE", "a", "1"]);
    client.command(&["TG.SETTLE", "none", "1"]);
    client.command(&["TG.CHECK", "r", "c", "20", "ID", "c"]);
    client.command(&["TG.CHECK", "r", "d", "20", "ID", "d"]);
    client.command(&["TG.SETTLE", "d", "5"]);
    doors.wait(60_000);
    http::request(
        &doors.http[0],
        "POST",
        "/v1/settle",
        r#"{"id":"c","cost":30}"#,
    );
    client.command(&["TG.REPORT", "r", "k", "3"]);
    client.command(&["TG.REPORT", "none", "k", "3"]);
    client.command(&["TG.CHECK", "r", "k", "3", "ID", "a"]);
    let page = doors.page();
    for line in [
        r#"tidegate_settlements_total{outcome="settled",door="resp"} 3"#,
        r#"tidegate_settlements_total{outcome="already_settled",door="resp"} 1"#,
        r#"tidegate_settlements_total{outcome="unknown",door="resp"} 1"#,
        r#"tidegate_settlements_total{outcome="late",door="http"} 1"#,
        r#"tidegate_settled_cost_total{rule="r",limit="default/1m",effect="charged"} 1480"#,
        r#"tidegate_settled_cost_total{rule="r",limit="default/1m",effect="refunded"} 15"#,
        r#"tidegate_settled_cost_total{rule="r",limit="default/1m",effect="late"} 10"#,
        r#"tidegate_reports_total{rule="r",limit="default/1m",outcome="recorded",door="resp"} 1"#,
        r#"tidegate_reports_total{rule="",limit="",outcome="unknown_rule",door="resp"} 1"#,
        r#"tidegate_checks_total{rule="",limit="",outcome="id_in_use",door="resp"} 1"#,
    ] {
        assert!(page.contains(line), "no {line} in:\n{page}");
    }
}
