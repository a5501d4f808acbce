//! How connections begin and end, and how the door tells that it serves.

use std::io::Write as _;

use tidegate::protocol::grpc::SERVICE;
use tidegate::protocol::grpc::messages::envoy::service::ratelimit::v3::rate_limit_response::Code as Told;
use tidegate::protocol::grpc::quota::QUOTA_SERVICE;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::client::{Client, Gate, descriptor, request, somebody, told};
use crate::kit::Addr;
use crate::kit::frames::{END_HEADERS, END_STREAM, HEADERS, connect, fields, frame, goaway};

const RULES: &str = "
domain: shop
descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 100000}}]
";
const CHECK: &str = "/grpc.health.v1.Health/Check";

fn health(client: &Client, service: &str) -> Result<ServingStatus, Code> {
    let service = service.to_owned();
    let asked = tonic::Request::new(HealthCheckRequest { service });
    let answer: Result<HealthCheckResponse, _> = client.call(CHECK, asked);
    answer.map(|it| it.status()).map_err(|it| it.code())
}

#[test]
fn health_follows_readiness() {
    let gate = Gate::start(RULES, &[]);
    let client = Client::of(&gate.socket);
    assert_eq!(health(&client, ""), Ok(ServingStatus::Serving));
    assert_eq!(health(&client, SERVICE), Ok(ServingStatus::Serving));
    assert_eq!(health(&client, QUOTA_SERVICE), Ok(ServingStatus::Serving));
    assert_eq!(health(&client, "other"), Err(Code::NotFound));
    let closed = "rules:\n  - {name: users, domain: shop, descriptors: [{key: user}], \
                  on_store_loss: closed, consistency: strict, \
                  limits: {requests: 9, window: 30d}}\n";
    let nowhere = ["--store", "redis+unix:///nowhere/redis.sock"];
    let gate = Gate::start_unready(closed, &nowhere);
    let client = Client::of(&gate.socket);
    crate::kit::wait_until("the door to say that it does not serve", || {
        health(&client, SERVICE) == Ok(ServingStatus::NotServing)
    });
}

#[test]
fn who_watches_is_told_of_the_end_and_let_go() {
    let mut gate = Gate::start(RULES, &["--drain-delay", "2s"]);
    let client = Client::of(&gate.socket);
    let mut watcher = HealthClient::new(client.channel.clone());
    let asked = HealthCheckRequest::default();
    let mut watched = client
        .runtime
        .block_on(watcher.watch(asked))
        .unwrap()
        .into_inner();
    let first = client.runtime.block_on(watched.message()).unwrap();
    assert_eq!(first.map(|it| it.status()), Some(ServingStatus::Serving));
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| gate.daemon.terminate());
        client.runtime.block_on(async {
            let next = watched.message().await.unwrap();
            assert_eq!(next.map(|it| it.status()), Some(ServingStatus::NotServing));
            let end = watched.message().await;
            assert!(matches!(end, Ok(None)), "{end:?}");
            // Whoever hears of the end says so, and hangs up.
            while !ending.is_finished() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        });
        assert!(ending.join().unwrap().success());
    });
    assert!(
        gate.daemon.log().contains("connections_cut=0"),
        "{}",
        gate.daemon.log()
    );
}

#[test]
fn an_old_connection_is_asked_to_go_and_no_decision_is_lost() {
    let gate = Gate::start(RULES, &["--max-connection-age", "200ms"]);
    let mut idle = connect(&gate.socket);
    let client = Client::of(&gate.socket);
    let who = descriptor(&[("user", "one")]);
    // Meanwhile connections grow old, and the client opens others. What it had not sent when
    // one ended it asks again: the figures show that such a call was not counted.
    let ask = || client.ask(request(std::slice::from_ref(&who)));
    for number in 0..3_000 {
        let response = match ask() {
            Err(status) if status.code() == Code::Cancelled => ask(),
            answer => answer,
        };
        let left = told(&response.unwrap()).1;
        assert_eq!(left, [(Told::Ok, 99_999 - number)]);
    }
    assert_eq!(goaway(&mut idle), Some(0));
}

#[test]
fn a_call_in_hand_is_answered_before_the_end() {
    let mut gate = Gate::start(RULES, &[]);
    let mut stream = connect(&gate.socket);
    // Without its message, which comes when the daemon ends.
    stream
        .write_all(&frame(HEADERS, END_HEADERS, 1, &fields()))
        .unwrap();
    crate::kit::wait_until("the call to arrive", || {
        gate.daemon
            .metric("tidegate_connections", &[("door", "grpc")])
            > 0.0
    });
    let ending = std::thread::scope(|scope| {
        let ending = scope.spawn(|| gate.daemon.terminate());
        // An empty message has no domain: an answer all the same.
        let message = frame(0, END_STREAM, 1, &[0; 5]);
        stream.write_all(&message).unwrap();
        let mut answered = false;
        while !answered {
            let frame = crate::kit::frames::read(&mut stream).unwrap();
            answered = (frame.kind, frame.stream) == (HEADERS, 1);
        }
        // It knows nothing of pings, by which the daemon would find out that it has heard all.
        drop(stream);
        ending.join().unwrap()
    });
    assert!(ending.success());
    assert!(gate.daemon.log().contains("connections_cut=0"));
}

#[test]
fn who_finds_all_places_taken_is_told_to_calm_down() {
    let gate = Gate::start(RULES, &["--max-connections", "1"]);
    let first = Client::of(&gate.socket);
    assert!(first.ask(request(&[somebody()])).is_ok());
    let mut second = Addr::from(gate.socket.as_path()).connect().unwrap();
    assert_eq!(goaway(&mut second), Some(11));
    let labels = [("door", "grpc"), ("reason", "full")];
    let refused = gate
        .daemon
        .metric("tidegate_connections_refused_total", &labels);
    assert_eq!(refused, 1.0);
}
