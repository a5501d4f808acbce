//! Costs that can never be admitted, limits that admit nothing, and what is no cost.

use serde_json::{Value as Json, json};

use super::support::{algorithms, error, every_algorithm, headers, said, serve};

#[test]
fn a_cost_above_the_limit_is_refused_for_good_and_takes_nothing() {
    let doors = serve(&every_algorithm("{requests: 10, window: 1s}"));
    let mut client = doors.client();
    for rule in algorithms() {
        assert_eq!(doors.named(rule, "full", 10).status, 200, "{rule}");
        for cost in [11, u64::MAX] {
            let reply = doors.named(rule, "k", cost);
            assert_eq!(
                (reply.status, reply.header("retry-after")),
                (429, None),
                "{rule}"
            );
            let [limit, remaining, _] = headers(&reply).unwrap();
            assert_eq!((limit, remaining), (10, 10), "{rule}");
            assert_eq!(
                said(&reply, ["allowed", "error", "retry_after_ms"]),
                [json!(false), json!("cost_above_limit"), Json::Null],
                "{rule}"
            );
            let said = client.command(&["TG.CHECK", rule, "k", "11"]).ints();
            assert_eq!(said, [1, 10, 10, -1, 0], "{rule}");
        }
        // The whole of a limit in use is a wait like any other.
        assert_eq!(doors.named(rule, "k", 1).status, 200, "{rule}");
        let reply = doors.named(rule, "k", 10);
        assert_eq!(
            (reply.status, reply.header("retry-after").is_some()),
            (429, true),
            "{rule}"
        );
        assert_eq!(
            said(&reply, ["error", "remaining"]),
            [json!("rate_limit_exceeded"), json!(9)],
            "{rule}"
        );
        let wait = said(&reply, ["retry_after_ms"])[0].as_u64().unwrap();
        assert!((1..=2_000).contains(&wait), "{rule}: {wait} ms");
    }
}

#[test]
fn a_limit_of_zero_is_a_ban_for_hits_and_peeks() {
    let doors = serve(&every_algorithm("{requests: 0, window: 1m}"));
    let mut client = doors.client();
    for rule in algorithms() {
        for cost in [1, 0, u64::MAX] {
            let reply = doors.named(rule, "k", cost);
            assert_eq!(
                (reply.status, reply.header("retry-after")),
                (429, None),
                "{rule}"
            );
            let [limit, remaining, _] = headers(&reply).unwrap();
            assert_eq!((limit, remaining), (0, 0), "{rule}");
            assert_eq!(
                said(&reply, ["allowed", "error", "retry_after_ms"]),
                [json!(false), json!("banned"), Json::Null],
                "{rule}"
            );
        }
        for cost in ["1", "0"] {
            let said = client.command(&["TG.CHECK", rule, "k", cost]).ints();
            assert_eq!(said, [1, 0, 0, -1, 0], "{rule}");
        }
    }
}

#[test]
fn a_cost_of_zero_looks_and_what_is_no_cost_is_an_error() {
    let doors = serve(&every_algorithm("{requests: 2, window: 1m}"));
    let mut client = doors.client();
    for rule in algorithms() {
        let left = || said(&doors.named(rule, "k", 0), ["allowed", "remaining"]);
        assert_eq!(left(), [json!(true), json!(2)], "{rule}");
        assert_eq!(doors.named(rule, "k", 1).status, 200, "{rule}");
        for cost in [
            "-1",
            "1.5",
            "\"abc\"",
            "abc",
            "\"1\"",
            "1e3",
            "18446744073709551616",
        ] {
            let body = format!(r#"{{"rule":"{rule}","key":"k","cost":{cost}}}"#);
            let reply = doors.ask(&body);
            assert_eq!(
                (reply.status, headers(&reply)),
                (400, None),
                "{rule}: {cost}"
            );
            assert_eq!(
                said(&reply, ["error"]),
                [json!("bad_request")],
                "{rule}: {cost}"
            );
        }
        // One check that is no check undoes the whole batch.
        let batch = format!(
            r#"{{"checks":[{{"rule":"{rule}","key":"k"}},{{"rule":"{rule}","key":"k","cost":-1}}]}}"#
        );
        assert_eq!(doors.ask(&batch).status, 400, "{rule}");
        for cost in ["-1", "1.5", "abc"] {
            let said = client.command(&["TG.CHECK", rule, "k", cost]);
            assert!(error(&said).unwrap().starts_with("ERR "), "{rule}: {cost}");
        }
        assert_eq!(left(), [json!(true), json!(1)], "{rule}");
        assert_eq!(
            client.command(&["TG.CHECK", rule, "k", "0"]).ints()[..3],
            [0, 2, 1],
            "{rule}"
        );
        // Who looks when nothing is left is told so.
        assert_eq!(doors.named(rule, "k", 1).status, 200, "{rule}");
        let reply = doors.named(rule, "k", 0);
        assert_eq!(
            (reply.status, reply.header("retry-after").is_some()),
            (429, true),
            "{rule}"
        );
    }
}
