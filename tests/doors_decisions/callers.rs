//! Who is counted, as the doors tell it.

use serde_json::json;

use super::support::{error, said, serve};

/// A described request with `headers` from `ip`.
fn from(ip: &str, headers: serde_json::Value) -> String {
    let request = json!({"method": "GET", "path": "/", "ip": ip, "headers": headers});
    json!({ "request": request }).to_string()
}

#[test]
fn whoever_must_be_known_and_is_not_is_a_401_at_every_door() {
    let doors = serve(
        "rules: [{name: r, key: api_key, on_missing: deny, limits: {requests: 5, window: 1m}}]",
    );
    for body in [
        from("203.0.113.9", json!({})),
        from("203.0.113.9", json!({"X-API-Key": " "})),
        json!({"rule": "r", "key": ""}).to_string(),
    ] {
        let reply = doors.ask(&body);
        assert_eq!(reply.status, 401, "{body}");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        assert_eq!(reply.header("retry-after"), None);
        assert_eq!(
            said(&reply, ["allowed", "error"]),
            [json!(false), json!("unidentified")]
        );
        let batch = doors.ask(&format!("{{\"checks\":[{body}]}}"));
        assert_eq!(batch.json()["results"][0]["error"], "unidentified");
    }
    let told = doors.client().command(&["TG.CHECK", "r", " "]);
    let told = error(&told).unwrap_or_else(|| panic!("{told:?}"));
    assert!(told.starts_with("ERR UNIDENTIFIED"), "{told}");
    let known = doors.ask(&from("203.0.113.9", json!({"X-API-Key": "abc"})));
    assert_eq!(said(&known, ["limit", "remaining"]), [json!(5), json!(4)]);
    assert_eq!(
        doors.client().command(&["TG.CHECK", "r", "abc"]).ints()[..3],
        [0, 5, 3]
    );
}

#[test]
fn one_secret_has_one_quota_however_it_is_spelt() {
    let doors = serve("rules: [{name: r, key: api_key, limits: {requests: 3, window: 1m}}]");
    let ask = |headers| doors.ask(&from("203.0.113.9", headers)).status;
    assert_eq!(ask(json!({"Authorization": "Bearer abc"})), 200);
    assert_eq!(ask(json!({"authorization": "bearer   abc"})), 200);
    assert_eq!(ask(json!({"X-API-Key": "abc"})), 200);
    assert_eq!(ask(json!({"X-API-Key": "  abc "})), 429);
    assert_eq!(
        doors.client().command(&["TG.CHECK", "r", "abc"]).ints()[0],
        1
    );
    assert_eq!(ask(json!({"X-API-Key": "ABC"})), 200);
}

#[test]
fn invented_keys_use_up_one_quota_and_one_cell() {
    let doors = serve(
        "api_keys: [{key: abc, name: acme}]\n\
         rules: [{name: r, key: api_key, limits: {requests: 5, window: 1m}}]",
    );
    let ask = |key: &str| {
        doors
            .ask(&from("203.0.113.9", json!({"X-API-Key": key})))
            .status
    };
    for n in 0..5 {
        assert_eq!(ask(&format!("sk_{n}")), 200);
    }
    for n in 5..50 {
        assert_eq!(ask(&format!("sk_{n}")), 429);
    }
    assert_eq!(doors.counters.cells(), 1);
    assert_eq!(ask("abc"), 200);
}

#[test]
fn whatever_a_proxy_forwards_is_one_client_or_the_proxy_and_no_error() {
    let doors = serve(
        "clients: {trusted_proxies: [10.0.0.0/8]}\n\
         rules: [{name: r, limits: {requests: 100, window: 1m}}]",
    );
    let left = |forwarded: &str| {
        let reply = doors.ask(&from("10.0.0.5", json!({"X-Forwarded-For": forwarded})));
        assert_eq!(reply.status, 200, "{forwarded}");
        reply.json()["remaining"].as_u64().unwrap()
    };
    assert_eq!(left("fe80::1%eth0"), 99);
    assert_eq!(left("fe80::1"), 98);
    // All of these are the proxy itself.
    let long = "A".repeat(4_096);
    for (turn, junk) in ["not-an-ip", "", "1.2.3.4.5", &long]
        .into_iter()
        .enumerate()
    {
        assert_eq!(left(junk), 99 - turn as u64);
    }
    let many = vec!["9.9.9.9"; 6_000].join(",");
    assert_eq!(left(&format!("{many},203.0.113.9")), 99);
    assert_eq!(left("203.0.113.9:4711"), 98);
}

#[test]
fn tiers_are_those_of_the_key_and_of_believed_peers() {
    let doors = serve(
        "api_keys: [{key: abc, tier: pro}]\n\
         tiers: {from: [api_key, {header: X-Tier, from: [10.0.0.0/8]}], default: free}\n\
         rules: [{name: r, key: api_key, limits: {free: {requests: 1, window: 1m}, \
         pro: {requests: 2, window: 1m}, enterprise: {requests: 3, window: 1m}}}]",
    );
    let limit = |ip, headers| {
        doors.ask(&from(ip, headers)).json()["limit"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(limit("203.0.113.9", json!({"X-API-Key": "abc"})), 2);
    assert_eq!(limit("203.0.113.9", json!({"X-Tier": "enterprise"})), 1);
    assert_eq!(limit("10.0.0.5", json!({"X-Tier": "enterprise"})), 3);
    let mut client = doors.client();
    assert_eq!(client.command(&["TG.CHECK", "r", "abc"]).ints()[1], 2);
    assert_eq!(
        client
            .command(&["TG.CHECK", "r", "abc", "1", "enterprise"])
            .ints()[1],
        3
    );
    assert_eq!(client.command(&["TG.CHECK", "r", "nobody"]).ints()[1], 1);
}
