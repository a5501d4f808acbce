//! Calls of impatient gateways while the store is slow: Envoy waits 20 ms, and then admits.

use std::io::Write as _;
use std::time::Duration;

use prost::Message as _;
use tidegate::protocol::grpc::SHOULD_RATE_LIMIT;
use tidegate::protocol::grpc::messages::envoy::service::ratelimit::v3::rate_limit_response::Code as RateLimitCode;
use tidegate::protocol::grpc::messages::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse,
};
use tokio::task::JoinSet;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::client::{Client, Gate, descriptor, request, told, with_hits};
use crate::kit::frames::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, connect, fields, frame, read,
};
use crate::kit::{Proxy, Redis, sum, wait_until};

const LIMIT: u32 = 1_000_000;
/// A store that is asked is waited for much longer than any gateway waits.
const ARGS: [&str; 2] = ["--strict-timeout", "10s"];
/// How long a caller waits.
const PATIENCE: Duration = Duration::from_millis(20);
/// The load, of 2,000 calls a second where the machine keeps up: so many connections have so
/// many calls at once, so many times after each other.
const CONNECTIONS: u64 = 4;
const AT_ONCE: u64 = 10;
const TIMES: u64 = 80;
const CALLS: u64 = CONNECTIONS * AT_ONCE * TIMES;

fn rules(policy: &str) -> String {
    let limits = format!("limits: {{requests: {LIMIT}, window: 30d, algorithm: fixed_window}}");
    format!(
        "rules:
  - {{name: here, domain: shop, descriptors: [{{key: here}}], {limits}}}
  - name: exact
    domain: shop
    descriptors: [{{key: exact}}]
    consistency: strict
    on_store_loss: {policy}
    {limits}
"
    )
}

/// A daemon, and what stands between it and its store.
struct Late {
    gate: Gate,
    proxy: Proxy,
    _redis: Redis,
}

impl Late {
    fn start(policy: &str) -> Late {
        let redis = Redis::start();
        let proxy = Proxy::start(redis.url().trim_start_matches("redis://").parse().unwrap());
        let url = proxy.url();
        let args = [&["--store", &*url][..], &ARGS].concat();
        let gate = Gate::start(&rules(policy), &args);
        wait_until("the store to answer", || {
            gate.daemon.metric("tidegate_store_up", &[]) == 1.0
        });
        Late {
            gate,
            proxy,
            _redis: redis,
        }
    }

    /// The same, 50 ms away.
    fn far(policy: &str) -> Late {
        let late = Late::start(policy);
        late.proxy.delay(Duration::from_millis(25));
        late
    }

    fn metric(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let sum = sum(&self.gate.daemon.metrics(), name, labels).unwrap_or(0.0);
        // Counts are whole.
        format!("{sum}").parse().unwrap()
    }

    fn checks(&self, rule: &str) -> u64 {
        self.metric("tidegate_checks_total", &[("rule", rule)])
    }

    fn cancelled(&self) -> u64 {
        self.metric("tidegate_cancelled_calls_total", &[])
    }

    fn waited(&self, outcome: &str) -> u64 {
        let outcome = [("outcome", outcome)];
        self.metric("tidegate_strict_checks_total", &outcome)
    }

    /// How much of the limit is used.
    fn used(&self, key: &str) -> u64 {
        let client = Client::of(&self.gate.socket);
        let peek = request(&[with_hits(0, &descriptor(&[(key, "a")]))]);
        let (_, statuses) = told(&client.ask(peek).unwrap());
        u64::from(LIMIT - statuses[0].1)
    }

    /// Asks [`CALLS`] times by clients that give up; answers how many calls were admitted, not
    /// available, and given up.
    fn ask_impatiently(&self, key: &'static str) -> [u64; 3] {
        let connection = || {
            let client = Client::of(&self.gate.socket);
            let mut counts = [0; 3];
            client.runtime.block_on(async {
                let mut ticks = tokio::time::interval(PATIENCE);
                for _ in 0..TIMES {
                    ticks.tick().await;
                    let calls: JoinSet<_> = (0..AT_ONCE).map(|_| impatient(&client, key)).collect();
                    for said in calls.join_all().await {
                        match said.map_err(|status| status.code()) {
                            Ok(_) => counts[0] += 1,
                            Err(Code::Unavailable) => counts[1] += 1,
                            Err(Code::Cancelled) => counts[2] += 1,
                            Err(code) => panic!("{code:?}"),
                        }
                    }
                }
            });
            counts
        };
        std::thread::scope(|scope| {
            let connections: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(connection)).collect();
            connections.into_iter().fold([0; 3], |sum, counts| {
                let counts = counts.join().unwrap();
                [0, 1, 2].map(|at| sum[at] + counts[at])
            })
        })
    }
}

/// A call that is cancelled when its caller has waited long enough.
fn impatient(
    client: &Client,
    key: &str,
) -> impl Future<Output = Result<Response<RateLimitResponse>, Status>> + use<> {
    let mut grpc = tonic::client::Grpc::new(client.channel.clone());
    let mut call = Request::new(request(&[descriptor(&[(key, "a")])]));
    call.set_timeout(PATIENCE);
    async move {
        grpc.ready().await.unwrap();
        let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
        let path = PathAndQuery::from_static(SHOULD_RATE_LIMIT);
        grpc.unary(call, path, codec).await
    }
}

#[test]
fn what_is_counted_approximately_never_waits_for_a_slow_store() {
    let late = Late::far("open");
    let [admitted, failed, given_up] = late.ask_impatiently("here");
    // A busy machine may let a client give up; none did so while the store was waited for.
    assert_eq!(
        (admitted + given_up, failed, late.cancelled()),
        (CALLS, 0, 0)
    );
    assert!((admitted..=CALLS).contains(&late.checks("here")));
    // Each is counted once; calls that were given up may still be on their way.
    let mut peeks = 0;
    wait_until("all calls to be counted", || {
        peeks += 1;
        late.used("here") == late.checks("here") - peeks
    });
    // Nor does anybody need a store that says nothing at all.
    late.proxy.stall();
    let client = Client::of(&late.gate.socket);
    let before = late.checks("here");
    for _ in 0..1_000 {
        let said = client.ask(request(&[descriptor(&[("here", "a")])]));
        assert_eq!(told(&said.unwrap()).0, RateLimitCode::Ok);
    }
    assert_eq!(late.checks("here"), before + 1_000);
    for outcome in ["answered", "timeout", "failed", "abandoned", "lost"] {
        assert_eq!(late.waited(outcome), 0, "{outcome}");
    }
}

/// Calls about an exact limit whose callers give up before the store can answer.
fn answered_by_policy(policy: &str, outcome: &str) {
    let late = Late::far(policy);
    let [admitted, failed, given_up] = late.ask_impatiently("exact");
    assert_eq!(admitted + failed + given_up, CALLS);
    let otherwise = if policy == "open" { failed } else { admitted };
    assert_eq!(otherwise, 0);
    // Nobody was kept for as long as the store may be waited for.
    assert_eq!(late.waited("timeout"), 0);
    assert!(
        late.waited("abandoned") > 0,
        "{}",
        late.gate.daemon.metrics()
    );
    // A call is either decided or cancelled; what its caller has been told is decided.
    let decided = late.checks("exact");
    assert!(decided >= admitted + failed && decided + late.cancelled() <= CALLS);
    let by_policy = [("rule", "exact"), ("outcome", outcome)];
    let by_policy = late.metric("tidegate_checks_total", &by_policy);
    assert!(by_policy > 0, "{}", late.gate.daemon.metrics());
    // And whatever the store has heard of, it has counted once.
    late.proxy.delay(Duration::ZERO);
    let used = late.used("exact");
    assert!((1..=CALLS).contains(&used), "{used} of {CALLS} counted");
}

#[test]
fn an_exact_limit_is_answered_by_policy_before_the_caller_gives_up() {
    answered_by_policy("open", "bypassed");
    answered_by_policy("closed", "unavailable");
}

/// A call about these descriptors, in frames as most clients send them.
fn call(id: u32, keys: &[&str]) -> Vec<u8> {
    let descriptors: Vec<_> = keys.iter().map(|key| descriptor(&[(key, "a")])).collect();
    let asked = request(&descriptors).encode_to_vec();
    let mut message = vec![0];
    message.extend(u32::try_from(asked.len()).unwrap().to_be_bytes());
    message.extend(asked);
    let head = frame(HEADERS, END_HEADERS, id, &fields());
    let data = frame(DATA, 0, id, &message);
    [head, data, frame(DATA, END_STREAM, id, &[])].concat()
}

fn taken_back(id: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, id, &8_u32.to_be_bytes())
}

#[test]
fn whoever_cancels_is_counted_once_or_not_at_all() {
    const CANCELLED: u64 = 50;
    let late = Late::start("open");
    late.proxy.stall();
    let mut stream = connect(&late.gate.socket);
    let ids: Vec<u32> = (1..).step_by(2).take(50).collect();
    for id in &ids {
        stream.write_all(&call(*id, &["here", "exact"])).unwrap();
    }
    // By then all of them wait, or have been answered as the store is taken for lost.
    wait_until("all calls to have begun", || {
        late.checks("here") == CANCELLED
    });
    for id in &ids {
        stream.write_all(&taken_back(*id)).unwrap();
    }
    let ended = || late.cancelled() + late.checks("exact") == CANCELLED;
    wait_until("all calls to have ended", ended);
    assert!(late.cancelled() > 0);
    late.proxy.release();
    wait_until("the store to answer", || {
        late.gate.daemon.metric("tidegate_store_up", &[]) == 1.0
    });
    assert_eq!(late.used("here"), CANCELLED);
    assert!(late.used("exact") <= CANCELLED);
}

#[test]
fn a_daemon_that_stood_still_does_not_hang_up_on_whoever_gave_up_meanwhile() {
    let late = Late::start("open");
    let mut stream = connect(&late.gate.socket);
    late.gate.daemon.pause();
    // As many as come in 0.2 s.
    let last = 801;
    let given_up = (1..last).step_by(2);
    let given_up = given_up.flat_map(|id| [call(id, &["here"]), taken_back(id)].concat());
    let all: Vec<u8> = given_up.chain(call(last, &["here"])).collect();
    // Nobody reads now: it must fit.
    assert!(all.len() < 100_000);
    stream.write_all(&all).unwrap();
    late.gate.daemon.go_on();
    let answer = loop {
        let frame = read(&mut stream).unwrap();
        assert_ne!(frame.kind, GOAWAY, "{:?}", frame.payload);
        if frame.stream == last {
            break frame.kind;
        }
    };
    assert_eq!(answer, HEADERS);
    assert!((1..=401).contains(&late.checks("here")));
}
