//! What each call is answered.

use tidegate::protocol::grpc::SHOULD_RATE_LIMIT;
use tidegate::protocol::grpc::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use tidegate::protocol::grpc::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use tidegate::protocol::grpc::messages::envoy::service::ratelimit::v3::rate_limit_response::Code::{
    Ok as Under, OverLimit as Over,
};
use tidegate::protocol::grpc::messages::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use tidegate::protocol::grpc::messages::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse,
};
use tonic::Code;

use crate::client::{Client, Gate, descriptor, request, somebody, told, with_hits};
use crate::kit::{Redis, wait_until};

/// Windows that no test meets the end of.
const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 10, name: users}
  - key: free
    rate_limit: {unlimited: true}
  - key: closed
    rate_limit: {unit: day, requests_per_unit: 0}
  - key: all
    rate_limit: {unit: year, requests_per_unit: 3, replaces: [{name: users}]}
";

fn start(args: &[&str]) -> (Gate, Client) {
    let gate = Gate::start(RULES, args);
    let client = Client::of(&gate.socket);
    (gate, client)
}

#[test]
fn every_descriptor_has_one_status_in_order() {
    let (_gate, client) = start(&[]);
    let asked = [
        descriptor(&[("nobody", "knows")]),
        somebody(),
        descriptor(&[]),
        descriptor(&[("free", "")]),
        descriptor(&[("closed", "a")]),
    ];
    let response = client.ask(request(&asked)).unwrap();
    assert_eq!(
        told(&response),
        (
            Over,
            vec![
                (Under, 0),
                (Under, 9),
                (Under, 0),
                (Under, u32::MAX),
                (Over, 0)
            ]
        )
    );
    let limits: Vec<_> = response
        .statuses
        .iter()
        .map(|status| status.current_limit.as_ref())
        .collect();
    let users = limits[1].unwrap();
    assert_eq!(
        (users.name.as_str(), users.requests_per_unit, users.unit()),
        ("users", 10, Unit::Year)
    );
    assert!(response.statuses[1].duration_until_reset.is_some());
    for without in [0, 2, 3] {
        assert_eq!(limits[without], None, "{without}");
    }
}

#[test]
fn whoever_is_of_an_unlimited_tier_has_more_left_than_can_be_told() {
    let rules = "
rules:
  - name: users
    domain: shop
    descriptors: [{key: user}, {key: tier}]
    limits: {free: {requests: 10, window: 30d}, pro: unlimited}
";
    let gate = Gate::start(rules, &[]);
    let of_tier = |tier| descriptor(&[("user", "u"), ("tier", tier)]);
    let asked = [
        of_tier("pro"),
        of_tier("free"),
        descriptor(&[("user", "u")]),
    ];
    let response = Client::of(&gate.socket).ask(request(&asked)).unwrap();
    assert_eq!(
        told(&response).1,
        [(Under, u32::MAX), (Under, 9), (Under, 0)]
    );
    assert_eq!(response.statuses[0].current_limit, None);
}

#[test]
fn hits_are_one_or_what_the_request_or_the_descriptor_says() {
    let (_gate, client) = start(&[]);
    let who = somebody();
    let ask = |of_request, of_descriptor| {
        let asked = RateLimitDescriptor {
            hits_addend: of_descriptor,
            ..who.clone()
        };
        let request = RateLimitRequest {
            hits_addend: of_request,
            ..request(&[asked])
        };
        told(&client.ask(request).unwrap()).1[0]
    };
    assert_eq!(ask(0, None), (Under, 9));
    assert_eq!(ask(3, None), (Under, 6));
    assert_eq!(ask(3, Some(0)), (Under, 6), "a peek");
    assert_eq!(ask(3, Some(2)), (Under, 4));
    assert_eq!(ask(5, None), (Over, 4), "all or nothing");
    assert_eq!(ask(4, None), (Under, 0));
    assert_eq!(ask(1, Some(0)), (Over, 0), "a peek at what is used up");
    assert_eq!(ask(u32::MAX, None), (Over, 0));
}

#[test]
fn what_was_used_counts_past_the_limit_and_what_comes_back_is_taken_off() {
    let (_gate, client) = start(&[]);
    let who = somebody();
    let ask = |asked: RateLimitDescriptor| told(&client.ask(request(&[asked])).unwrap());
    assert_eq!(ask(with_hits(8, &who)), (Under, vec![(Under, 2)]));
    assert_eq!(ask(with_hits(5, &who)).0, Over);
    let back = |hits| RateLimitDescriptor {
        is_negative_hits: true,
        ..with_hits(hits, &who)
    };
    // 13 were used; of them 4 come back.
    assert_eq!(ask(back(4)), (Under, vec![(Under, 1)]));
    assert_eq!(ask(back(1_000)), (Under, vec![(Under, 10)]));
    assert_eq!(ask(with_hits(1 << 63, &who)).0, Over);
    assert_eq!(ask(with_hits(0, &who)), (Over, vec![(Over, 0)]));
}

#[test]
fn descriptors_are_each_on_their_own_and_the_same_one_twice_is_charged_twice() {
    let (_gate, client) = start(&[]);
    let (one, other) = (somebody(), somebody());
    let response = client.ask(request(&[one.clone(), one.clone()])).unwrap();
    assert_eq!(told(&response), (Under, vec![(Under, 9), (Under, 8)]));
    let full = with_hits(10, &other);
    client.ask(request(&[full])).unwrap();
    let response = client.ask(request(&[one, other])).unwrap();
    // The first one stays charged, as with Envoy's own service.
    assert_eq!(told(&response), (Over, vec![(Under, 7), (Over, 0)]));
}

#[test]
fn a_limit_that_the_gateway_states_takes_the_place_of_the_rules() {
    let (_gate, client) = start(&[]);
    let who = somebody();
    let stated = |requests_per_unit, unit| RateLimitDescriptor {
        limit: Some(RateLimitOverride {
            requests_per_unit,
            unit,
            unit_multiplier: None,
        }),
        ..who.clone()
    };
    let ask = |asked| client.ask(request(&[asked])).unwrap();
    let response = ask(stated(2, 6));
    assert_eq!(told(&response), (Under, vec![(Under, 1)]));
    let limit = response.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit()), (2, Unit::Year));
    assert_eq!(told(&ask(stated(2, 6))).1, [(Under, 0)]);
    assert_eq!(told(&ask(stated(2, 6))).0, Over);
    // Another limit has another counter, and one of an unknown unit is none.
    assert_eq!(told(&ask(stated(3, 6))).1, [(Under, 2)]);
    assert_eq!(told(&ask(stated(2, 0))).1, [(Under, 9)]);
    let used = with_hits(5, &stated(8, 6));
    assert_eq!(told(&ask(used.clone())).1, [(Under, 3)]);
    assert_eq!(told(&ask(used)).0, Over);
    let back = RateLimitDescriptor {
        is_negative_hits: true,
        ..with_hits(4, &stated(8, 6))
    };
    assert_eq!(told(&ask(back)), (Under, vec![(Under, 2)]));
}

#[test]
fn a_rule_replaces_those_that_it_names() {
    let (_gate, client) = start(&[]);
    let who = somebody();
    let both = [who.clone(), descriptor(&[("all", "of them")])];
    let response = client.ask(request(&both)).unwrap();
    assert_eq!(told(&response), (Under, vec![(Under, 0), (Under, 2)]));
    assert_eq!(response.statuses[0].current_limit, None);
    let response = client.ask(request(&[who])).unwrap();
    assert_eq!(told(&response).1, [(Under, 9)], "it was not charged");
}

#[test]
fn headers_and_metadata_are_told_where_they_are_wanted() {
    let refusal = |args: &[&str]| -> (Vec<String>, bool) {
        let (_gate, client) = start(args);
        let who = somebody();
        client.ask(request(&[with_hits(10, &who)])).unwrap();
        let response: RateLimitResponse = client.ask(request(&[who])).unwrap();
        assert_eq!(response.overall_code(), Over);
        let headers = response.response_headers_to_add.iter();
        let names = headers.map(|header| header.key.clone()).collect();
        (names, response.dynamic_metadata.is_some())
    };
    let (names, metadata) = refusal(&[]);
    assert_eq!((names.join(" ").as_str(), metadata), ("retry-after", false));
    let (names, _) = refusal(&["--grpc-headers", "none"]);
    assert_eq!(names, [""; 0]);
    let (names, metadata) = refusal(&["--grpc-headers", "all", "--grpc-metadata", "on"]);
    assert_eq!(
        (names.join(" ").as_str(), metadata),
        (
            "x-ratelimit-limit x-ratelimit-remaining x-ratelimit-reset \
             ratelimit-policy ratelimit retry-after",
            true
        )
    );
}

#[test]
fn what_asks_for_nothing_is_an_invalid_argument() {
    let (gate, client) = start(&[]);
    let nameless = RateLimitRequest {
        domain: String::new(),
        ..request(&[somebody()])
    };
    for wrong in [nameless, request(&[])] {
        let status = client.ask(wrong).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }
    let labels = [("door", "grpc"), ("reason", "content")];
    assert_eq!(
        gate.daemon.metric("tidegate_bad_requests_total", &labels),
        2.0
    );
}

#[test]
fn a_message_that_is_too_long_is_told_so_and_the_connection_lives() {
    let (gate, client) = start(&[]);
    let long = descriptor(&[("user", &"x".repeat(70_000))]);
    let status = client.ask(request(&[long])).unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let nearly = descriptor(&[("user", &"x".repeat(60_000))]);
    let response = client.ask(request(&[nearly])).unwrap();
    assert_eq!(told(&response).1, [(Under, 9)]);
    let labels = [("door", "grpc"), ("reason", "size")];
    assert_eq!(
        gate.daemon.metric("tidegate_bad_requests_total", &labels),
        1.0
    );
}

#[test]
fn two_hundred_descriptors_are_two_hundred_statuses() {
    let (_gate, client) = start(&[]);
    let who = somebody();
    let response = client.ask(request(&vec![who; 200])).unwrap();
    let (overall, statuses) = told(&response);
    assert_eq!((overall, statuses.len()), (Over, 200));
    let under = statuses.iter().filter(|(code, _)| *code == Under);
    assert_eq!(under.count(), 10);
}

#[test]
fn an_unknown_domain_is_admitted_and_told_once() {
    let (gate, client) = start(&[]);
    for _ in 0..3 {
        let asked = RateLimitRequest {
            domain: "shpo".to_owned(),
            ..request(&[somebody()])
        };
        let response = client.ask(asked).unwrap();
        assert_eq!(told(&response), (Under, vec![(Under, 0)]));
    }
    let calls = gate
        .daemon
        .metric("tidegate_unknown_domain_calls_total", &[]);
    assert_eq!(calls, 3.0);
    assert_eq!(gate.daemon.log().matches("shpo").count(), 1);
}

#[test]
fn an_unknown_domain_is_an_error_where_the_rules_want_it() {
    let rules = "
strict_domains: true
rules:
  - {name: users, domain: shop, descriptors: [{key: user}], limits: {requests: 9, window: 30d}}
";
    let gate = Gate::start(rules, &[]);
    let client = Client::of(&gate.socket);
    let asked = RateLimitRequest {
        domain: "shpo".to_owned(),
        ..request(&[somebody()])
    };
    assert_eq!(client.ask(asked).unwrap_err().code(), Code::NotFound);
    let response = client.ask(request(&[somebody()])).unwrap();
    assert_eq!(told(&response).1, [(Under, 8)]);
}

#[test]
fn a_lost_store_is_unavailable_where_the_rules_refuse_without_it() {
    let rules = |policy: &str| {
        format!(
            "rules:\n  - {{name: users, domain: shop, descriptors: [{{key: user}}], \
             on_store_loss: {policy}, consistency: strict, \
             limits: {{requests: 9, window: 30d}}}}\n"
        )
    };
    let nowhere = ["--store", "redis+unix:///nowhere/redis.sock"];
    let gate = Gate::start(&rules("local"), &nowhere);
    let response = Client::of(&gate.socket)
        .ask(request(&[somebody()]))
        .unwrap();
    assert_eq!(told(&response).1, [(Under, 8)]);
    let gate = Gate::start_unready(&rules("closed"), &nowhere);
    let status = Client::of(&gate.socket)
        .ask(request(&[somebody()]))
        .unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
}

#[test]
fn what_is_no_method_is_unimplemented() {
    let (_gate, client) = start(&[]);
    let asked = tonic::Request::new(request(&[somebody()]));
    let path = "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit";
    let answer: Result<RateLimitResponse, _> = client.call(path, asked);
    assert_eq!(answer.unwrap_err().code(), Code::Unimplemented);
}

#[test]
fn text_that_is_not_utf8_is_an_invalid_argument() {
    /// A request whose domain is any bytes.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Bytes {
        #[prost(bytes = "vec", tag = "1")]
        domain: Vec<u8>,
    }
    let (_gate, client) = start(&[]);
    let asked = Bytes {
        domain: vec![b's', 0xff],
    };
    let answer: Result<RateLimitResponse, _> =
        client.call(SHOULD_RATE_LIMIT, tonic::Request::new(asked));
    assert_eq!(answer.unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn what_was_used_and_what_comes_back_is_told_to_the_store_of_exact_limits() {
    let rules = "rules:
  - name: users
    domain: shop
    descriptors: [{key: user}]
    consistency: strict
    strict_timeout: 10s
    on_store_loss: closed
    limits: {requests: 10, window: 30d, algorithm: fixed_window}
";
    let redis = Redis::start();
    let url = redis.url();
    let [gate, other] = [(), ()].map(|()| Gate::start(rules, &["--store", &url]));
    for one in [&gate, &other] {
        wait_until("the store to be up", || {
            one.daemon.metric("tidegate_store_up", &[]) == 1.0
        });
    }
    let clients = [Client::of(&gate.socket), Client::of(&other.socket)];
    let who = somebody();
    let ask = |node: usize, asked: RateLimitDescriptor| {
        told(&clients[node].ask(request(&[asked])).unwrap())
    };
    assert_eq!(ask(0, with_hits(8, &who)), (Under, vec![(Under, 2)]));
    assert_eq!(ask(1, with_hits(5, &who)).0, Over);
    let back = RateLimitDescriptor {
        is_negative_hits: true,
        ..with_hits(4, &who)
    };
    // 13 were used; of them 4 come back.
    assert_eq!(ask(0, back).0, Under);
    assert_eq!(ask(1, with_hits(0, &who)), (Under, vec![(Under, 1)]));
    assert_eq!(ask(1, who.clone()), (Under, vec![(Under, 0)]));
    assert_eq!(ask(0, who).0, Over);
}
