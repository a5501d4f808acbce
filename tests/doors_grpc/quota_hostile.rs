//! Streams that mean no good. Whatever they send, memory stays bounded and others are told.

use prost::Message;
use tidegate::protocol::grpc::quota::STREAM_QUOTAS;
use tonic::{Code, Request};

use crate::client::{Client, Gate};
use crate::kit::wait_until;
use crate::quota_client::{Stream, Told, reports, usage};

const RULES: &str = "
rules:
  - {name: users, domain: shop, descriptors: [{key: user}], limits: {requests: 100, window: 30d, algorithm: fixed_window}}
";

/// A message whose values of buckets are any bytes.
#[derive(Clone, PartialEq, Message)]
struct Reports {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    usages: Vec<Usage>,
}

#[derive(Clone, PartialEq, Message)]
struct Usage {
    #[prost(message, optional, tag = "1")]
    bucket: Option<Bucket>,
    #[prost(uint64, tag = "3")]
    allowed: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(btree_map = "string, bytes", tag = "1")]
    entries: std::collections::BTreeMap<String, Vec<u8>>,
}

fn left_out(gate: &Gate, reason: &str) -> f64 {
    let labels = [("reason", reason)];
    gate.daemon.metric("tidegate_quota_left_out_total", &labels)
}

#[test]
fn a_value_that_is_no_text_spoils_no_other_bucket() {
    let gate = Gate::start(RULES, &[]);
    let of = |value: &[u8]| Usage {
        bucket: Some(Bucket {
            entries: [("user".to_owned(), value.to_vec())].into(),
        }),
        allowed: 1,
    };
    let sent = Reports {
        domain: "shop".to_owned(),
        usages: vec![of(&[0xff]), of(&[b'x'; 2_000]), of(b"al")],
    };
    let client = Client::of(&gate.socket);
    // As a call with one message, after which the stream ends.
    let answer: Result<
        tidegate::protocol::grpc::messages::envoy::service::rate_limit_quota::v3::RateLimitQuotaResponse,
        _,
    > = client.call(STREAM_QUOTAS, Request::new(sent));
    // Of the last alone: what is known is forgotten, and a lump is assigned.
    assert_eq!(answer.unwrap().bucket_action.len(), 2);
    assert_eq!(left_out(&gate, "unusable"), 2.0);
}

#[test]
fn buckets_without_end_get_no_assignments_and_are_counted_all_the_same() {
    let gate = Gate::start(RULES, &[]);
    let mut stream = Stream::open(&gate.socket);
    for message in 0..10 {
        let names: Vec<String> = (0..1_000)
            .map(|n| format!("u{}", message * 1_000 + n))
            .collect();
        let usages = names.iter().map(|name| usage(&[("user", name)], 1, 0));
        stream.send(reports("shop", usages.collect()));
    }
    // The first has its place, whatever comes later.
    assert!(stream.told(&[("user", "u0")]).lump() > 0);
    wait_until("all to be reported", || {
        // Whoever does not read what it is told is not listened to.
        stream.newest(&[("user", "u0")]);
        gate.daemon.metrics().contains("reason=\"buckets\"")
            && left_out(&gate, "buckets") == 10_000.0 - 4_096.0
    });
    assert_eq!(
        gate.daemon.metric("tidegate_quota_subscribers", &[]),
        4_096.0
    );
    assert_eq!(gate.daemon.log().matches("more buckets").count(), 1);
    // Or the gateway would report of it for ever.
    assert_eq!(stream.ask(&[("user", "u9999")], 0, 0), Told::Abandoned);
    let mut other = Stream::open(&gate.socket);
    assert!(other.ask(&[("user", "al")], 1, 0).lump() > 0);
    // Whoever comes back has the places of before.
    stream.hang_up();
    let mut next = Stream::open(&gate.socket);
    assert!(next.ask(&[("user", "u0")], 0, 0).lump() > 0);
    assert_eq!(
        gate.daemon.metric("tidegate_quota_subscribers", &[]),
        4_097.0
    );
}

#[test]
fn a_gateway_with_thousands_of_new_buckets_at_once_waits_and_is_not_cut_off() {
    let gate = Gate::start(RULES, &[]);
    let mut stream = Stream::open(&gate.socket);
    // A message for each, as Envoy reports first requests.
    for number in 0..4_000 {
        let name = format!("{number:036}");
        stream.report(&[("name", "web"), ("user", &name)], 1, 0);
    }
    wait_until("all to be reported", || {
        stream.newest(&[]);
        gate.daemon.metric("tidegate_quota_reports_total", &[]) == 4_000.0
    });
    // All of them in one message, as Envoy reports from then on.
    let names: Vec<String> = (0..4_000).map(|number| format!("{number:036}")).collect();
    let usages = names
        .iter()
        .map(|name| usage(&[("name", "web"), ("user", name)], 1, 0));
    stream.send(reports("shop", usages.collect()));
    wait_until("all to be reported again", || {
        stream.newest(&[]);
        gate.daemon.metric("tidegate_quota_reports_total", &[]) == 8_000.0
    });
}

#[test]
fn a_report_of_more_than_can_be_is_counted_as_far_as_can_be() {
    let gate = Gate::start(RULES, &[]);
    let mut stream = Stream::open(&gate.socket);
    let user = [("user", "al")];
    assert!(stream.ask(&user, 1, 0).lump() > 0);
    assert_eq!(stream.ask(&user, u64::MAX, u64::MAX), Told::DenyAll);
    // The daemon lives, and others have their quota.
    assert!(stream.ask(&[("user", "bo")], 0, u64::MAX).lump() > 0);
}

#[test]
fn no_more_streams_are_open_than_there_may_be() {
    let gate = Gate::start(RULES, &[]);
    let first = Stream::open(&gate.socket);
    let mut streams: Vec<Stream> = (0..255).map(|_| Stream::open(&gate.socket)).collect();
    let client = Client::of(&gate.socket);
    let one_more: Result<(), _> =
        client.call(STREAM_QUOTAS, Request::new(reports("shop", Vec::new())));
    assert_eq!(one_more.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(left_out(&gate, "streams"), 1.0);
    // Streams that never say anything are ended.
    let mut silent = streams.pop().unwrap();
    assert_eq!(silent.end(), Some(Code::DeadlineExceeded));
    drop((first, streams));
}
