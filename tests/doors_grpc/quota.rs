//! What a gateway is assigned, and what its limits count of it.

use tidegate::protocol::grpc::quota::MAX_REPORTS;
use tonic::Code;

use crate::client::{Client, Gate, descriptor, request, told, with_hits};
use crate::kit::{Redis, http, wait_until};
use crate::quota_client::{Stream, Told, reports, usage};

/// Windows that no test meets the end of.
const RULES: &str = "
rules:
  - {name: users, domain: shop, descriptors: [{key: name, value: web}, {key: user}], limits: {requests: 100, window: 30d, algorithm: fixed_window}}
  - {name: small, domain: shop, descriptors: [{key: small}], limits: {requests: 5, window: 30d, algorithm: fixed_window}}
  - {name: banned, domain: shop, descriptors: [{key: banned}], limits: {requests: 0, window: 30d}}
  - {name: watched, domain: shop, descriptors: [{key: watched}], mode: shadow, limits: {requests: 3, window: 30d}}
";
const USER: [(&str, &str); 2] = [("user", "al"), ("name", "web")];

/// What the limit of the entries, in the order of their rule, has left.
fn left(gate: &Gate, entries: &[(&str, &str)]) -> u64 {
    let peek = with_hits(0, &descriptor(entries));
    let response = Client::of(&gate.socket).ask(request(&[peek])).unwrap();
    told(&response).1[0].1.into()
}

fn left_of_user(gate: &Gate) -> u64 {
    left(gate, &[("name", "web"), ("user", "al")])
}

#[test]
fn a_lump_is_taken_before_it_is_assigned() {
    let gate = Gate::start(RULES, &[]);
    let mut stream = Stream::open(&gate.socket);
    let tokens = stream.ask(&USER, 1, 0).lump();
    assert!((1..=99).contains(&tokens), "{tokens}");
    assert_eq!(left_of_user(&gate), 99 - tokens);
    let held = gate.daemon.metric("tidegate_quota_held_requests", &[]);
    assert_eq!(held, tokens as f64);
}

#[test]
fn a_budget_is_used_up_to_the_last_and_not_beyond() {
    let gate = Gate::start(RULES, &[]);
    let mut stream = Stream::open(&gate.socket);
    let small = [("small", "x")];
    let (mut used, mut allowed) = (0, 1);
    loop {
        used += allowed;
        let told = stream.ask(&small, allowed, 3);
        if told == Told::DenyAll {
            break;
        }
        allowed = told.lump();
        assert_eq!(left(&gate, &small), 5 - used - allowed);
    }
    assert_eq!(used, 5);
    // What is admitted although it was denied is counted past the limit.
    stream.report(&small, 3, 0);
    stream.report(&[("banned", "x")], 0, 1);
    assert_eq!(stream.told(&[("banned", "x")]), Told::DenyAll);
    let requests = |outcome| {
        let labels = [("rule", "small"), ("outcome", outcome)];
        gate.daemon.metric("tidegate_quota_requests_total", &labels)
    };
    assert_eq!(requests("allowed"), 8.0);
    assert!(requests("denied") >= 3.0);
    let mut asked = descriptor(&small);
    asked.is_negative_hits = true;
    asked.hits_addend = Some(3);
    let back = Client::of(&gate.socket).ask(request(&[asked])).unwrap();
    // 8 are counted: 3 fewer make no room.
    assert_eq!(told(&back).1[0].1, 0);
}

#[test]
fn without_a_limit_all_is_admitted_and_with_a_ban_nothing() {
    let gate = Gate::start(RULES, &[]);
    let mut stream = Stream::open(&gate.socket);
    for bucket in [[("other", "x")], [("watched", "x")]] {
        assert_eq!(stream.ask(&bucket, 1, 0), Told::AllowAll);
    }
    // Longer ones and shorter ones are not for the rule.
    let longer = [("user", "al"), ("name", "web"), ("a", "b")];
    assert_eq!(stream.ask(&longer, 1, 0), Told::AllowAll);
    assert_eq!(stream.ask(&[("user", "al")], 1, 0), Told::AllowAll);
    assert_eq!(stream.ask(&[("banned", "x")], 0, 1), Told::DenyAll);
    // What only watches counts all the same.
    stream.report(&[("watched", "x")], 9, 0);
    stream.send(reports("shpo", vec![usage(&[("user", "al")], 1, 0)]));
    assert_eq!(stream.told(&[("user", "al")]), Told::AllowAll);
    let asked = request(&[descriptor(&[("watched", "x")])]);
    Client::of(&gate.socket).ask(asked).unwrap();
    let labels = [("rule", "watched"), ("outcome", "refused")];
    let over = gate
        .daemon
        .metric("tidegate_advisory_checks_total", &labels);
    assert_eq!(over, 1.0);
    assert_eq!(gate.daemon.log().matches("shpo").count(), 1);
}

#[test]
fn every_door_counts_where_the_bucket_counts() {
    let gate = Gate::start(RULES, &[]);
    let mut stream = Stream::open(&gate.socket);
    let tokens = stream.ask(&USER, 1, 0).lump();
    let entries = r#"[{"key":"name","value":"web"},{"key":"user","value":"al"}]"#;
    let body = format!(r#"{{"domain":"shop","entries":{entries},"cost":2}}"#);
    let by_http = http::request(gate.daemon.http(), "POST", "/v1/check", &body);
    assert_eq!(by_http.json()["remaining"], 97 - tokens, "{by_http:?}");
    let one = descriptor(&[("name", "web"), ("user", "al")]);
    let by_grpc = Client::of(&gate.socket).ask(request(&[one])).unwrap();
    assert_eq!(u64::from(told(&by_grpc).1[0].1), 96 - tokens);
    assert_eq!(left_of_user(&gate), 96 - tokens);
}

#[test]
fn streams_share_what_there_is_and_use_it_up() {
    let gate = Gate::start(RULES, &[]);
    let mut streams = [(); 2].map(|()| Stream::open(&gate.socket));
    let mut tokens = [1, 1];
    let mut used = [0, 0];
    while tokens != [0, 0] {
        for (number, stream) in streams.iter_mut().enumerate() {
            let allowed = std::mem::take(&mut tokens[number]);
            if allowed > 0 {
                used[number] += allowed;
                tokens[number] = stream.ask(&USER, allowed, 9).lump();
            }
        }
        assert!(used[0] + used[1] <= 100, "{used:?}");
    }
    assert_eq!(used[0] + used[1], 100);
    assert!(used[0] > 5 && used[1] > 5, "{used:?}");
    assert_eq!(left_of_user(&gate), 0);
    assert_eq!(gate.daemon.metric("tidegate_quota_subscribers", &[]), 2.0);
    assert_eq!(gate.daemon.metric("tidegate_quota_counters", &[]), 1.0);
}

#[test]
fn what_a_stream_holds_goes_back_when_it_is_gone_and_nobody_comes_for_it() {
    let gate = Gate::start(RULES, &[]);
    let mut stream = Stream::open(&gate.socket);
    let tokens = stream.ask(&USER, 1, 0).lump();
    assert_eq!(left_of_user(&gate), 99 - tokens);
    stream.settle_in(&gate, &USER);
    // What it is told now lives for two seconds.
    stream.report(&USER, tokens, 99);
    let labels = [("rule", "users"), ("outcome", "allowed")];
    wait_until("its use to be counted", || {
        let name = "tidegate_quota_requests_total";
        gate.daemon.metric(name, &labels) == 1.0 + tokens as f64
    });
    wait_until("it to be assigned more", || {
        left_of_user(&gate) < 99 - tokens
    });
    drop(stream);
    wait_until("what was held to come back", || {
        left_of_user(&gate) == 99 - tokens
    });
    for gauge in ["held_requests", "subscribers", "counters"] {
        let name = format!("tidegate_quota_{gauge}");
        assert_eq!(gate.daemon.metric(&name, &[]), 0.0, "{name}");
    }
}

#[test]
fn nodes_with_exact_limits_assign_no_more_than_there_is() {
    let rules = "
rules:
  - name: exact
    domain: shop
    descriptors: [{key: user}]
    consistency: strict
    strict_timeout: 5s
    limits: {requests: 40, window: 30d, algorithm: fixed_window}
";
    let redis = Redis::start();
    let url = redis.url();
    let gates = [(), ()].map(|()| Gate::start(rules, &["--store", &url]));
    let user = [("user", "al")];
    let mut streams = [&gates[0], &gates[1]].map(|gate| Stream::open(&gate.socket));
    let mut used = 0;
    let mut allowed = [1, 1];
    let mut denied = [false; 2];
    while denied != [true; 2] {
        for node in 0..2 {
            used += allowed[node];
            let told = streams[node].ask(&user, allowed[node], 9);
            denied[node] = told == Told::DenyAll;
            allowed[node] = told.lump();
        }
        assert!(used <= 40, "{used}");
    }
    assert_eq!(used, 40);
}

#[test]
fn a_stream_that_says_no_sense_is_ended_and_told_why() {
    let gate = Gate::start(RULES, &[]);
    for wrong in [
        reports("", vec![usage(&USER, 1, 0)]),
        reports("shop", vec![usage(&[], 1, 0)]),
    ] {
        let mut stream = Stream::open(&gate.socket);
        stream.send(wrong);
        assert_eq!(stream.end(), Some(Code::InvalidArgument));
    }
    let mut stream = Stream::open(&gate.socket);
    let long = "x".repeat(MAX_REPORTS);
    stream.report(&[("user", &long)], 1, 0);
    assert_eq!(stream.end(), Some(Code::ResourceExhausted));
    let bad = |reason| {
        let labels = [("door", "grpc"), ("reason", reason)];
        gate.daemon.metric("tidegate_bad_requests_total", &labels)
    };
    assert_eq!((bad("content"), bad("size")), (2.0, 1.0));
}
