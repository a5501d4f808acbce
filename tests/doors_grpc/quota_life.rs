//! Assignments in the course of time: windows that end, gateways and daemons that go, rules
//! that change.

use crate::client::{Client, Gate, descriptor, request, told, with_hits};
use crate::kit::{http, wait_until};
use crate::quota_client::{Stream, Told};

pub(crate) const USER: [(&str, &str); 1] = [("user", "al")];

pub(crate) fn rules(requests: u64, window: &str) -> String {
    format!(
        "rules:\n  - {{name: users, domain: shop, descriptors: [{{key: user}}], \
         limits: {{requests: {requests}, window: {window}, algorithm: fixed_window}}}}\n"
    )
}

/// What the user's limit has left.
pub(crate) fn left(gate: &Gate) -> u64 {
    let peek = with_hits(0, &descriptor(&USER));
    let response = Client::of(&gate.socket).ask(request(&[peek])).unwrap();
    told(&response).1[0].1.into()
}

/// Uses what is assigned until all is denied.
fn use_up(stream: &mut Stream) -> u64 {
    let (mut used, mut allowed) = (0, 1);
    loop {
        used += allowed;
        match stream.ask(&USER, allowed, 1) {
            Told::DenyAll => return used,
            told => allowed = told.lump(),
        }
    }
}

#[test]
fn what_is_denied_until_the_window_ends_is_renewed_without_a_report() {
    let gate = Gate::start(&rules(20, "12s"), &[]);
    let mut stream = Stream::open(&gate.socket);
    let used = use_up(&mut stream);
    // A window may end in between.
    assert!((20..=40).contains(&used), "{used}");
    let renewed = loop {
        match stream.told(&USER) {
            // Said again, lest it be forgotten.
            Told::DenyAll => {}
            told => break told.lump(),
        }
    };
    assert!((1..=20).contains(&renewed), "{renewed}");
    assert!(left(&gate) <= 20 - renewed);
}

#[test]
fn what_a_short_window_did_not_use_goes_back_to_the_long_one() {
    let rules = "rules:\n  - {name: users, domain: shop, descriptors: [{key: user}], \
                 algorithm: fixed_window, limits: [{requests: 1000, window: 12s}, \
                 {requests: 900, window: 30d}]}\n";
    let gate = Gate::start(rules, &[]);
    let mut stream = Stream::open(&gate.socket);
    let first = stream.ask(&USER, 1, 0).lump();
    assert!(first > 10);
    assert_eq!(left(&gate), 899 - first);
    // Renewed when the short window ends, which needs no report.
    assert!(stream.told(&USER).lump() > 0);
    wait_until("what lapsed to come back", || {
        stream.report(&USER, 0, 0);
        let held = gate.daemon.metric("tidegate_quota_held_requests", &[]);
        left(&gate) as f64 + held >= 890.0
    });
}

#[test]
fn what_nobody_asks_for_is_abandoned_and_goes_back() {
    let gate = Gate::start(&rules(100, "1s"), &[]);
    let mut stream = Stream::open(&gate.socket);
    stream.ask(&USER, 1, 0);
    // So that it is not waited for longer than anybody is.
    stream.settle_in(&gate, &USER);
    while stream.told(&USER) != Told::Abandoned {}
    for gauge in ["subscribers", "held_requests"] {
        let name = format!("tidegate_quota_{gauge}");
        assert_eq!(gate.daemon.metric(&name, &[]), 0.0, "{name}");
    }
    // It comes back as a new one.
    stream.report(&USER, 1, 0);
    assert_ne!(stream.told(&USER), Told::Abandoned);
}

#[test]
fn rules_that_change_hold_for_the_next_assignment() {
    let gate = Gate::start(&rules(100, "30d"), &[]);
    let mut stream = Stream::open(&gate.socket);
    assert!(stream.ask(&USER, 1, 9).lump() > 9);
    let apply = |text: &str| {
        std::fs::write(gate.daemon.dir().join("rules.yaml"), text).unwrap();
        let reply = http::request(gate.daemon.admin(), "POST", "/reload", "");
        assert_eq!(reply.status, 200, "{}", reply.body);
    };
    apply(&rules(10, "30d"));
    let tokens = stream.ask(&USER, 1, 9).lump();
    assert!(tokens <= 8, "{tokens}");
    assert_eq!(left(&gate), 8 - tokens);
    apply("rules: []\n");
    assert_eq!(stream.ask(&USER, 1, 0), Told::AllowAll);
    apply(&rules(0, "30d"));
    assert_eq!(stream.ask(&USER, 1, 0), Told::DenyAll);
}

#[test]
fn nothing_is_said_where_a_limit_refuses_without_its_store() {
    let rules = "rules:\n  - {name: users, domain: shop, descriptors: [{key: user}], \
                 on_store_loss: closed, consistency: strict, \
                 limits: {requests: 9, window: 30d}}\n";
    let nowhere = ["--store", "redis+unix:///nowhere/redis.sock"];
    let gate = Gate::start_unready(rules, &nowhere);
    let mut stream = Stream::open(&gate.socket);
    stream.report(&USER, 1, 0);
    // Of what comes after it, something is said.
    assert_eq!(stream.ask(&[("other", "x")], 1, 0), Told::AllowAll);
    assert_eq!(stream.newest(&USER), None);
}
