//! What HTTP clients are told: status, headers and body.

use serde_json::json;

use super::support::{START, algorithms, ask, every_algorithm, headers, named, said, serve};

/// The rules that people already have.
const TIERS: &str = r#"{"rules":[{"endpoint":"/api/v1/orders","method":"POST","limits":{"free":{"requests":10,"window":"1m"},"pro":{"requests":100,"window":"1m"},"enterprise":{"requests":1000,"window":"1m"}}},{"endpoint":"/api/v1/auth/login","limits":{"default":{"requests":5,"window":"1m"}}}]}"#;

/// Two a minute.
const TWO: &str = "rules: [{name: two, endpoint: /two, algorithm: fixed_window, \
                   limits: {default: {requests: 2, window: 1m}}}]";

#[test]
fn both_forms_of_asking_are_answered_with_the_figures_of_the_rule() {
    let doors = serve(
        "rules: [{name: orders, endpoint: POST /api/v1/orders, key: attribute:user, limits: {\
         free: {requests: 10, window: 1m}}}]",
    );
    let forms = [
        r#"{"rule":"orders","key":"alice","cost":1}"#,
        r#"{"request":{"method":"POST","path":"/api/v1/orders","ip":"203.0.113.9","headers":{}},"attributes":{"user":"alice","tier":"free"},"cost":1}"#,
    ];
    // The same caller by either form, and at either address.
    let mut remaining = 10;
    for at in &doors.http {
        for form in forms {
            let reply = ask(at, form);
            remaining -= 1;
            assert_eq!(reply.status, 200);
            assert_eq!(reply.header("content-type"), Some("application/json"));
            // A sliding window is free again when this one has left the trailing minute.
            assert_eq!(
                reply.body,
                format!(
                    r#"{{"allowed":true,"rule":"orders","limit":10,"remaining":{remaining},"reset_after_ms":120000,"retry_after_ms":null,"stale_ms":null,"limit_name":"free/1m"}}"#
                )
            );
            assert_eq!(headers(&reply), Some([10, remaining, START + 120]));
            assert_eq!(reply.header("retry-after"), None);
        }
    }
}

#[test]
fn each_tier_is_held_to_its_own_limit() {
    let doors = serve(TIERS);
    let orders = |tier: &str, cost: u64| {
        let body = json!({
            "request": {"method": "POST", "path": "/api/v1/orders", "ip": "203.0.113.9"},
            "attributes": {"tier": tier}, "cost": cost,
        });
        doors.ask(&body.to_string())
    };
    for (tier, limit) in [("free", 10), ("pro", 100), ("enterprise", 1_000)] {
        for remaining in (0..3).map(|used| limit - 1 - used) {
            let reply = orders(tier, 1);
            let [told, left, _] = headers(&reply).unwrap();
            assert_eq!(
                (reply.status, told, left),
                (200, limit, remaining),
                "{tier}"
            );
        }
        assert_eq!(orders(tier, limit - 3).status, 200, "{tier}");
        let reply = orders(tier, 1);
        let [told, left, _] = headers(&reply).unwrap();
        assert_eq!((reply.status, told, left), (429, limit, 0), "{tier}");
        assert_eq!(said(&reply, ["rule"]), [json!("POST /api/v1/orders")]);
    }
    // The other rule counts the same caller by itself, in whatever tier.
    let login = r#"{"request":{"method":"POST","path":"/api/v1/auth/login","ip":"203.0.113.9"},"attributes":{"tier":"pro"}}"#;
    let reply = doors.ask(login);
    assert_eq!(said(&reply, ["limit", "remaining"]), [json!(5), json!(4)]);
    // And another method is no order.
    let get = r#"{"request":{"method":"GET","path":"/api/v1/orders","ip":"203.0.113.9"}}"#;
    let reply = doors.ask(get);
    assert_eq!((reply.status, headers(&reply)), (200, None));
}

#[test]
fn a_tier_of_two_limits_describes_the_one_that_decides() {
    let doors = serve(
        "rules: [{name: api, endpoint: /api, algorithm: fixed_window, limits: {default: [\
         {requests: 3, window: 1m}, {requests: 4, window: 1h}]}}]",
    );
    let hit = || doors.named("api", "k", 1);
    for remaining in [2, 1, 0] {
        assert_eq!(
            said(&hit(), ["limit", "remaining"]),
            [json!(3), json!(remaining)]
        );
    }
    assert_eq!(
        said(&hit(), ["limit", "retry_after_ms"]),
        [json!(3), json!(60_000)]
    );
    doors.wait(60_000);
    // The refused one took nothing from the hour: one is left of it.
    let reply = hit();
    assert_eq!(reply.status, 200);
    assert_eq!(said(&reply, ["limit", "remaining"]), [json!(4), json!(0)]);
    let reply = hit();
    assert_eq!(reply.status, 429);
    assert_eq!(said(&reply, ["limit", "remaining"]), [json!(4), json!(0)]);
}

#[test]
fn a_refusal_is_429_with_error_and_message_beside_the_fields() {
    let doors = serve(TWO);
    for at in &doors.http {
        let key = format!("{at:?}");
        doors.named("two", &key, 2);
        let reply = ask(at, &named("two", &key, 1));
        assert_eq!(reply.status, 429);
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(
            reply.body,
            r#"{"allowed":false,"error":"rate_limit_exceeded","message":"rate limit of rule 'two' exceeded; retry after 60 s","rule":"two","limit":2,"remaining":0,"reset_after_ms":60000,"retry_after_ms":60000,"stale_ms":null,"limit_name":"default/1m"}"#
        );
    }
}

#[test]
fn a_refusal_carries_the_headers_of_a_success_and_retry_after() {
    for (answers, reset) in [("", START + 60), ("answers: {reset: delta}\n", 13)] {
        let doors = serve(&format!("{answers}{TWO}"));
        // The window ends in 12.3 s.
        doors.wait(47_700);
        for (remaining, status, retry_after) in
            [(1, 200, None), (0, 200, None), (0, 429, Some("13"))]
        {
            let reply = doors.named("two", "k", 1);
            assert_eq!(reply.status, status);
            assert_eq!(headers(&reply), Some([2, remaining, reset]));
            assert_eq!(reply.header("retry-after"), retry_after);
        }
    }
}

#[test]
fn retry_after_is_whole_seconds_rounded_up_and_at_least_one() {
    let doors = serve(TWO);
    for (wait, seconds) in [
        (1, "1"),
        (400, "1"),
        (1_000, "1"),
        (1_200, "2"),
        (59_999, "60"),
    ] {
        // The clock stands on the edge of a window, and comes to the next one.
        doors.wait(60_000 - wait);
        assert_eq!(doors.named("two", "k", 2).status, 200);
        let reply = doors.named("two", "k", 1);
        assert_eq!(reply.status, 429);
        assert_eq!(reply.header("retry-after"), Some(seconds), "{wait} ms");
        assert_eq!(said(&reply, ["retry_after_ms"]), [json!(wait)]);
        doors.wait(wait);
    }
}

#[test]
fn waiting_as_long_as_told_helps_and_a_millisecond_less_does_not() {
    let doors = serve(&every_algorithm("{requests: 3, window: 10s}"));
    for rule in algorithms() {
        for _ in 0..3 {
            assert_eq!(doors.named(rule, "k", 1).status, 200, "{rule}");
            doors.wait(700);
        }
        let reply = doors.named(rule, "k", 2);
        assert_eq!(reply.status, 429, "{rule}");
        let wait = said(&reply, ["retry_after_ms"])[0].as_u64().unwrap();
        assert!(wait > 1, "{rule}: {wait}");
        doors.wait(wait - 1);
        let early = doors.named(rule, "k", 2);
        assert_eq!(said(&early, ["retry_after_ms"]), [json!(1)], "{rule}");
        doors.wait(1);
        assert_eq!(doors.named(rule, "k", 2).status, 200, "{rule}");
    }
}

#[test]
fn a_batch_is_answered_one_by_one_and_in_order() {
    let doors = serve(
        "rules:\n\
         - {name: two, endpoint: /two, algorithm: fixed_window, limits: {default: {requests: 2, window: 1m}}}\n\
         - {name: none, endpoint: /none, limits: {default: {requests: 0, window: 1m}}}\n",
    );
    let batch = json!({"checks": [
        {"rule": "two", "key": "k"},
        {"rule": "no-such", "key": "k"},
        {"rule": "two", "key": "k", "cost": 3},
        {"rule": "none", "key": "k"},
        {"rule": "two", "key": "k"},
        {"rule": "two", "key": "k"},
        {"request": {"method": "GET", "path": "/free"}},
        {"request": {"method": "GET", "path": "/two", "ip": "192.0.2.1"}, "cost": 0},
    ]});
    for at in &doors.http {
        let reply = ask(at, &batch.to_string());
        assert_eq!(reply.status, 200);
        assert_eq!(headers(&reply), None);
        assert_eq!(reply.header("retry-after"), None);
        let body = reply.json();
        let results: Vec<_> = body["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                json!([
                    one["allowed"],
                    one.get("error"),
                    one["limit"],
                    one["remaining"],
                    one["retry_after_ms"]
                ])
            })
            .collect();
        let wanted = json!([
            [true, null, 2, 1, null],
            [false, "unknown_rule", null, null, null],
            [false, "cost_above_limit", 2, 1, null],
            [false, "banned", 0, 0, null],
            [true, null, 2, 0, null],
            [false, "rate_limit_exceeded", 2, 0, 60_000],
            [true, null, null, null, null],
            [true, null, 2, 2, null],
        ]);
        assert_eq!(json!(results), wanted);
        doors.wait(60_000);
    }
}

#[test]
fn an_unknown_rule_is_404_and_no_refusal() {
    let doors = serve(TWO);
    let reply = doors.named("tow", "k", 1);
    assert_eq!((reply.status, headers(&reply)), (404, None));
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(
        said(&reply, ["allowed", "error"]),
        [json!(false), json!("unknown_rule")]
    );
    let said = doors.client().command(&["TG.CHECK", "tow", "k"]);
    assert_eq!(super::support::error(&said), Some("ERR unknown rule 'tow'"));
}

#[test]
fn a_domain_without_rules_is_called_so_where_that_is_a_mistake() {
    let doors = serve(
        "strict_domains: true\n\
         rules: [{domain: shop, descriptors: [{key: k}], limits: {requests: 2, window: 1m}}]",
    );
    let ask = |domain: &str| {
        let entries = json!([{"key": "k", "value": "v"}]);
        doors.ask(&json!({"domain": domain, "entries": entries}).to_string())
    };
    assert_eq!(ask("shop").status, 200);
    let reply = ask("shpo");
    assert_eq!(
        (reply.status, said(&reply, ["error", "message"])),
        (
            404,
            [json!("unknown_rule"), json!("there is no domain 'shpo'")]
        )
    );
}

#[test]
fn a_leaky_bucket_tells_how_long_to_wait_for_the_slot() {
    let doors = serve(
        "rules: [{name: out, endpoint: /out, algorithm: leaky_bucket, \
         limits: {default: {requests: 4, window: 1s, burst: 3}}}]",
    );
    // A slot every 250 ms. The first is free.
    for (delay, remaining) in [(None, 2), (Some(250), 1), (Some(500), 0)] {
        let reply = doors.named("out", "k", 1);
        assert_eq!((reply.status, reply.header("retry-after")), (200, None));
        assert_eq!(
            reply.json().get("delay_ms"),
            delay.map(|ms| json!(ms)).as_ref()
        );
        assert_eq!(
            said(&reply, ["remaining", "retry_after_ms"]),
            [json!(remaining), json!(null)]
        );
    }
    let reply = doors.named("out", "k", 1);
    assert_eq!(
        (reply.status, reply.header("retry-after")),
        (429, Some("1"))
    );
    assert_eq!(
        said(&reply, ["retry_after_ms", "delay_ms"]),
        [json!(250), json!(null)]
    );
    doors.wait(100);
    let mut client = doors.client();
    assert_eq!(
        client.command(&["TG.CHECK", "out", "k"]).ints(),
        [1, 3, 0, 150, 650]
    );
    doors.wait(150);
    // By RESP the wait is the delay.
    assert_eq!(
        client.command(&["TG.CHECK", "out", "k"]).ints(),
        [0, 3, 0, 500, 750]
    );
}
