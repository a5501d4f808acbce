//! What gateways hold whose streams are over: they go on with it, and come back or do not.

use crate::client::{Client, Gate, descriptor, request};
use crate::kit::{Redis, http, wait_until};
use crate::quota_client::Stream;
use crate::quota_life::{USER, left, rules};

fn gauge(gate: &Gate, what: &str) -> u64 {
    let gauge = gate.daemon.metric(&format!("tidegate_quota_{what}"), &[]);
    format!("{gauge}").parse().unwrap()
}

fn held(gate: &Gate) -> u64 {
    gauge(gate, "held_requests")
}

#[test]
fn what_a_stream_held_is_nobody_elses_until_it_comes_back() {
    let gate = Gate::start(&rules(100, "30d"), &[]);
    let mut first = Stream::open(&gate.socket);
    let mut second = Stream::open(&gate.socket);
    let parked = first.ask(&USER, 1, 0).lump();
    assert!(parked > 2, "{parked}");
    let mut tokens = second.ask(&USER, 1, 0).lump();
    first.hang_up();
    assert_eq!(held(&gate), parked + tokens);
    let mut used = 1 + 1;
    while tokens > 0 {
        used += tokens;
        tokens = second.ask(&USER, tokens, 50).lump();
    }
    assert_eq!((left(&gate), used), (0, 100 - parked));
    assert_eq!((held(&gate), gauge(&gate, "subscribers")), (parked, 2));
    // It has used all but two meanwhile.
    let mut again = Stream::open(&gate.socket);
    let tokens = again.ask(&USER, parked - 2, 5).lump();
    assert_eq!(held(&gate), tokens);
    assert_eq!(left(&gate) + tokens, 2);
    assert_eq!(gauge(&gate, "subscribers"), 2);
    // One that comes then has nothing to take over.
    let mut third = Stream::open(&gate.socket);
    third.ask(&USER, 0, 1).lump();
    assert_eq!(gauge(&gate, "subscribers"), 3);
    assert_eq!(left(&gate) + held(&gate), 2);
}

#[test]
fn what_was_used_while_an_old_connection_was_replaced_is_settled() {
    let gate = Gate::start(&rules(100, "30d"), &["--max-connection-age", "200ms"]);
    let mut stream = Stream::open(&gate.socket);
    let tokens = stream.ask(&USER, 1, 0).lump();
    assert_eq!(stream.end(), None);
    assert_eq!((left(&gate), held(&gate)), (99 - tokens, tokens));
    // The gateway goes on with what it was assigned, and reports it on another stream.
    let mut next = Stream::open(&gate.socket);
    let more = next.ask(&USER, tokens, 0).lump();
    assert!(more > 0);
    assert_eq!((left(&gate), held(&gate)), (99 - tokens - more, more));
    // Half of it is told anew: what was told last may not have come.
    assert_eq!(next.end(), None);
    let mut last = Stream::open(&gate.socket);
    let rest = last.ask(&USER, more / 2, 0).lump();
    let used = 1 + tokens + more / 2;
    assert_eq!((left(&gate), held(&gate)), (100 - used - rest, rest));
}

#[test]
fn rules_that_change_hold_for_what_a_stream_has_left() {
    let gate = Gate::start(&rules(100, "30d"), &[]);
    let mut stream = Stream::open(&gate.socket);
    assert!(stream.ask(&USER, 1, 9).lump() > 9);
    stream.hang_up();
    std::fs::write(gate.daemon.dir().join("rules.yaml"), rules(10, "30d")).unwrap();
    let reply = http::request(gate.daemon.admin(), "POST", "/reload", "");
    assert_eq!(reply.status, 200, "{}", reply.body);
    let mut again = Stream::open(&gate.socket);
    let tokens = again.ask(&USER, 1, 9).lump();
    assert!(tokens <= 8, "{tokens}");
    assert_eq!((left(&gate), held(&gate)), (8 - tokens, tokens));
}

#[test]
fn what_ends_with_its_short_window_goes_back_to_the_long_one() {
    let rules = "rules:\n  - {name: users, domain: shop, descriptors: [{key: user}], \
                 algorithm: fixed_window, limits: [{requests: 1000, window: 12s}, \
                 {requests: 900, window: 30d}]}\n";
    let gate = Gate::start(rules, &[]);
    let mut stream = Stream::open(&gate.socket);
    assert!(stream.ask(&USER, 1, 0).lump() > 0);
    stream.settle_in(&gate, &USER);
    stream.hang_up();
    assert!(held(&gate) > 0);
    wait_until("all to be given back", || left(&gate) == 899);
    assert_eq!((held(&gate), gauge(&gate, "subscribers")), (0, 0));
}

/// What is held when the daemon ends is not used, whether its stream lives or not.
fn goes_back_at_the_end(end: impl FnOnce(Stream, &mut Gate)) {
    let redis = Redis::start();
    let url = redis.url();
    let limit = rules(100, "30d");
    let store = ["--store", &*url, "--sync-max-interval", "100ms"];
    let mut gate = Gate::start(&limit, &store);
    let mut stream = Stream::open(&gate.socket);
    assert!(stream.ask(&USER, 1, 0).lump() > 0);
    end(stream, &mut gate);
    let gate = Gate::start(&limit, &store);
    // It hears of the fleet's count when it has something to say itself.
    let one = request(&[descriptor(&USER)]);
    Client::of(&gate.socket).ask(one).unwrap();
    wait_until("the fleet's count", || left(&gate) == 98);
}

#[test]
fn what_is_held_goes_back_before_the_daemon_tells_the_store_the_last_time() {
    goes_back_at_the_end(|mut stream, gate| {
        assert!(gate.daemon.terminate().success());
        assert_eq!(stream.end(), None);
        assert!(gate.daemon.log().contains("connections_cut=0"));
    });
}

#[test]
fn what_streams_have_left_goes_back_before_the_daemon_tells_the_store_the_last_time() {
    goes_back_at_the_end(|stream, gate| {
        stream.hang_up();
        assert!(held(gate) > 0);
        assert!(gate.daemon.terminate().success());
    });
}
