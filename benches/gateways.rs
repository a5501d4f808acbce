//! What it adds to a request that its gateway asks the daemon about it: each gateway with its
//! configuration of `config/`, beside the same without the line that asks. And what a store that
//! is 50 ms away adds, beside one that is near.
//!
//! Both stand before the same backend and take turns in short rounds, and each figure is the
//! median of the rounds' figures: so what else the machine does falls on both. The client
//! has one connection at a time, and sends one request after another.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[path = "../tests/kit/mod.rs"]
mod kit;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use kit::{Backend, Daemon, GRPC_DOOR, Gateway, Kind, Proxy, Redis, wait_until};

const ROUNDS: usize = 11;
const ROUND: Duration = Duration::from_millis(400);
const RULES: &str = "
clients: { trusted_proxies: [127.0.0.1], header: x-forwarded-for }
rules:
  - { name: all, limits: { requests: 1000000000, window: 1h } }
  - name: all-paths
    domain: shop
    descriptors: [{ key: path, normalize: path }]
    limits: { requests: 1000000000, window: 1h }
  - name: quota
    domain: shop
    descriptors: [{ key: name, value: others }]
    limits: { requests: 1000000000, window: 1h }
";
const REQUEST: &[u8] = b"GET /items/1 HTTP/1.1\r\nHost: shop.example\r\n\r\n";

fn main() {
    let doors = [&["--http", "127.0.0.1:0"], &GRPC_DOOR[..]].concat();
    let daemon = Daemon::start(RULES, &doors);
    let backend = Backend::start();
    println!(
        "{:<12} {:>10} {:>10} {:>10} {:>6}",
        "p50", "alone", "asking", "added", "ratio"
    );
    for kind in [
        Kind::Nginx,
        Kind::Haproxy,
        Kind::Caddy,
        Kind::Traefik,
        Kind::Kong,
        Kind::Envoy,
        Kind::EnvoyByQuota,
    ] {
        let alone = Gateway::start(kind, &backend, None);
        let asking = Gateway::start(kind, &backend, Some(&daemon));
        let (mut alone, mut asking) = (Client::new(alone.addr()), Client::new(asking.addr()));
        // The first round warms up.
        let mut rounds: Vec<(Duration, Duration)> = (0..=ROUNDS)
            .map(|_| (median_of(alone.round()), median_of(asking.round())))
            .collect();
        rounds.remove(0);
        let median = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let micros = |span: &Duration| span.as_secs_f64() * 1e6;
        let of = |figure: &dyn Fn(f64, f64) -> f64| {
            let figures = rounds
                .iter()
                .map(|(alone, asking)| figure(micros(alone), micros(asking)));
            median(figures.collect())
        };
        println!(
            "{:<12} {:>7.0} µs {:>7.0} µs {:>7.0} µs {:>6.2}",
            format!("{kind:?}"),
            of(&|alone, _| alone),
            of(&|_, asking| asking),
            of(&|alone, asking| asking - alone),
            of(&|alone, asking| asking / alone),
        );
    }
    for rule in ["all", "all-paths"] {
        let asked = daemon.metric("tidegate_checks_total", &[("rule", rule)]);
        assert!(asked > 100.0, "{rule}: asked {asked} times");
    }
    wait_until("Envoy to report what it has admitted", || {
        daemon.metric("tidegate_quota_requests_total", &[("rule", "quota")]) > 100.0
    });
    far_store(&backend);
}

/// What Envoy's clients notice of where the store is: the slow end of all rounds.
fn far_store(backend: &Backend) {
    let redis = Redis::start();
    let target = redis.url().trim_start_matches("redis://").parse();
    let [near, far] = [(); 2].map(|()| Proxy::start(target.clone().unwrap()));
    let [mut near, mut far] =
        [(near, Duration::ZERO), (far, Duration::from_millis(25))].map(|(proxy, each_way)| {
            let url = proxy.url();
            let args = [&["--store", &*url], &GRPC_DOOR[..]].concat();
            let daemon = Daemon::start(RULES, &args);
            wait_until("the store to answer", || {
                daemon.metric("tidegate_store_up", &[]) == 1.0
            });
            proxy.delay(each_way);
            let gateway = Gateway::start(Kind::Envoy, backend, Some(&daemon));
            (Client::new(gateway.addr()), gateway, daemon, proxy)
        });
    let (mut all_near, mut all_far) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        all_near.extend(near.0.round());
        all_far.extend(far.0.round());
    }
    let [near, far] = [all_near, all_far].map(|mut all| {
        all.sort();
        all[all.len() - 1 - all.len() / 1_000]
    });
    println!(
        "Envoy, p99.9: {near:.0?} with the store near, {far:.0?} with it 50 ms away, ratio {:.2}",
        far.as_secs_f64() / near.as_secs_f64()
    );
}

fn median_of(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

/// So many requests go over one connection: nginx ends it after 1,000.
const OF_A_CONNECTION: usize = 500;

struct Client {
    to: SocketAddr,
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    fn new(to: SocketAddr) -> Client {
        Client {
            to,
            stream: connect(to),
            buffer: vec![0; 64 * 1_024],
        }
    }

    /// The latencies of one round.
    fn round(&mut self) -> Vec<Duration> {
        let mut all = Vec::new();
        let began = Instant::now();
        while began.elapsed() < ROUND {
            if all.len() % OF_A_CONNECTION == 0 {
                self.stream = connect(self.to);
            }
            let sent = Instant::now();
            self.ask();
            all.push(sent.elapsed());
        }
        all
    }

    /// Sends one request and reads its answer.
    fn ask(&mut self) {
        self.stream.write_all(REQUEST).unwrap();
        let mut filled = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[filled..]).unwrap();
            assert!(read > 0, "the gateway hung up");
            filled += read;
            let answer = &self.buffer[..filled];
            assert!(answer.starts_with(b"HTTP/1.1 200 "));
            let text = String::from_utf8_lossy(answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.parse().ok())?
            });
            let length: usize = length.expect("a length");
            if body.len() >= length {
                return;
            }
        }
    }
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}
