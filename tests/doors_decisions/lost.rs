//! A lost store: refusals that are not the caller's fault, and no invented figures.

use serde_json::{Value as Json, json};
use tidegate::counters::{Fleet, StoreHealth};

use super::support::{Doors, error, headers, said, serve_as};

fn lost(policy: &str) -> Doors {
    let rules = format!(
        "rules: [{{name: r, endpoint: /r, algorithm: fixed_window, on_store_loss: {policy}, \
         limits: {{default: {{requests: 8, window: 1m}}}}}}]"
    );
    let doors = serve_as(&rules, Fleet::with_store());
    doors.counters.fleet().set_nodes(4);
    doors.counters.fleet().set_health(StoreHealth::Lost);
    doors
}

const FIGURES: [&str; 4] = ["limit", "remaining", "reset_after_ms", "retry_after_ms"];
const NONE: [Json; 4] = [Json::Null, Json::Null, Json::Null, Json::Null];

#[test]
fn closed_is_503_with_a_small_wait_and_an_error_by_resp() {
    let doors = lost("closed");
    let mut client = doors.client();
    // Whatever is asked: more than the limit, or nothing at all.
    for cost in [1, 9, 0] {
        let reply = doors.named("r", "k", cost);
        assert_eq!(reply.status, 503);
        assert_eq!(reply.header("retry-after"), Some("1"));
        assert_eq!(headers(&reply), None);
        assert_eq!(
            said(&reply, ["allowed", "error", "rule"]),
            [json!(false), json!("store_unavailable"), json!("r")]
        );
        assert_eq!(said(&reply, FIGURES), NONE);
        let said = client.command(&["TG.CHECK", "r", "k", &cost.to_string()]);
        let text = error(&said).unwrap_or_else(|| panic!("{said:?}"));
        assert!(text.contains("without the store, which is lost"), "{text}");
    }
    let batch = doors.ask(r#"{"checks":[{"rule":"r","key":"k"}]}"#);
    let one = &batch.json()["results"][0];
    assert_eq!(
        (&one["error"], &one["remaining"]),
        (&json!("store_unavailable"), &Json::Null)
    );

    // Nothing was taken meanwhile.
    doors.counters.fleet().set_health(StoreHealth::Up);
    assert_eq!(
        said(&doors.named("r", "k", 1), ["limit", "remaining"]),
        [json!(8), json!(7)]
    );
    assert_eq!(
        client.command(&["TG.CHECK", "r", "k"]).ints()[..4],
        [0, 8, 6, -1]
    );
}

#[test]
fn open_is_200_without_figures_and_is_counted_for_later() {
    let doors = lost("open");
    let mut client = doors.client();
    for _ in 0..6 {
        let reply = doors.named("r", "k", 1);
        assert_eq!((reply.status, reply.header("retry-after")), (200, None));
        assert_eq!(headers(&reply), None);
        assert_eq!(
            said(&reply, ["allowed", "error"]),
            [json!(true), Json::Null]
        );
        assert_eq!(said(&reply, FIGURES), NONE);
        assert_eq!(
            client.command(&["TG.CHECK", "r", "k"]).ints(),
            [0, -1, -1, -1, -1]
        );
    }
    doors.counters.fleet().set_health(StoreHealth::Up);
    let reply = doors.named("r", "k", 1);
    assert_eq!(reply.status, 429);
    assert_eq!(said(&reply, ["limit", "remaining"]), [json!(8), json!(0)]);
}

#[test]
fn share_and_local_go_on_from_memory() {
    for (policy, admitted) in [("share", 2), ("local", 8)] {
        let doors = lost(policy);
        for remaining in (0..admitted).rev() {
            let reply = doors.named("r", "k", 1);
            assert_eq!(reply.status, 200, "{policy}");
            assert_eq!(
                said(&reply, ["limit", "remaining"]),
                [json!(8), json!(remaining)],
                "{policy}"
            );
        }
        let reply = doors.named("r", "k", 1);
        assert_eq!(
            (reply.status, reply.header("retry-after")),
            (429, Some("60")),
            "{policy}"
        );
    }
}

#[test]
fn without_a_rule_a_share_is_left_too() {
    let doors = lost("closed");
    let mut client = doors.client();
    let mut hit = || client.command(&["CL.THROTTLE", "k", "7", "8", "60"]).ints();
    assert_eq!(hit()[..4], [0, 8, 1, -1]);
    assert_eq!(hit()[..4], [0, 8, 0, -1]);
    assert_eq!(hit()[0], 1);
}
