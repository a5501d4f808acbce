use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use serde_json::Value as Json;
use tempfile::TempDir;
use tidegate::clock::Clock;
use tidegate::counters::{Counters, Fleet};
use tidegate::engine::Engine;
use tidegate::protocol::grpc::{Headers, Telling};
use tidegate::rules::{Defaults, Format, RuleSet, Source};
use tidegate::server::{Address, Door, Observer, Readiness, Server, ServerConfig, Services};
use tidegate::units::{Algorithm, KeySecret, Nanos, Pace, Timestamp};
use tokio::runtime::{Builder, Runtime};

use crate::kit::http::{Reply, request};
use crate::kit::resp::{Client, Value};
use crate::kit::{Addr, http};

/// Where every test's clock stands at first: on the edge of a minute, in seconds.
pub(crate) const START: u64 = 1_700_000_040;

/// A server with rules, on sockets and on ports, that runs until it is dropped.
pub(crate) struct Doors {
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
    /// Of each door the socket, then the port.
    pub(crate) http: [Addr; 2],
    pub(crate) resp: [Addr; 2],
    pub(crate) admin: Addr,
    /// The socket of the gRPC door, which tells all that it can.
    pub(crate) grpc: PathBuf,
    _runtime: Runtime,
    _dir: TempDir,
}

/// Serves `rules` (YAML or JSON) without a store.
pub(crate) fn serve(rules: &str) -> Doors {
    serve_as(rules, Fleet::alone())
}

pub(crate) fn serve_as(rules: &str, fleet: Fleet) -> Doors {
    let engine = engine(rules, fleet);
    let counters = Arc::clone(engine.counters());

    // Every server counts for itself, whatever other tests run beside it.
    let recorder: &'static PrometheusRecorder =
        Box::leak(Box::new(PrometheusBuilder::new().build_recorder()));
    let observer = metrics::with_local_recorder(recorder, || {
        Arc::new(Observer::new(engine.snapshot().rules()))
    });
    let page = recorder.handle();
    // Several threads, so that checks meet in the engine as they do in a daemon.
    let runtime = Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .on_thread_start(move || {
            std::mem::forget(metrics::set_default_local_recorder(recorder));
        })
        .build()
        .unwrap();

    let dir = tempfile::tempdir().unwrap();
    let places = |name: &str| {
        let socket = Address::Unix(dir.path().join(name));
        vec![socket, "127.0.0.1:0".parse().unwrap()]
    };
    let grpc = dir.path().join("grpc.sock");
    let config = ServerConfig {
        http: places("http.sock"),
        resp: places("resp.sock"),
        admin: places("admin.sock"),
        grpc: vec![Address::Unix(grpc.clone())],
        grpc_telling: Telling {
            headers: Headers::All,
            dynamic_metadata: true,
        },
        ..ServerConfig::default()
    };
    let clock = Clock::manual(Timestamp::EPOCH.after(Nanos::from_secs(START)));
    let services = Services {
        authority: None,
        engine: Arc::new(engine),
        clock: clock.clone(),
        observer,
        readiness: Readiness::default(),
        metrics: Arc::new(move || page.render()),
        status: Arc::new(|| serde_json::Value::Null),
        reloads: None,
    };
    let context = runtime.enter();
    let bound = Server::bind(config).unwrap();
    let at = |door: Door| {
        let addresses = bound.addresses().filter(|(it, _)| *it == door);
        let addresses: Vec<Addr> = addresses.map(|(_, address)| addr(address)).collect();
        <[Addr; 2]>::try_from(addresses).unwrap()
    };
    let (http, resp, [admin, _]) = (at(Door::Http), at(Door::Resp), at(Door::Admin));
    runtime.spawn(bound.serve(services, std::future::pending()));
    drop(context);
    Doors {
        clock,
        counters,
        http,
        resp,
        admin,
        grpc,
        _runtime: runtime,
        _dir: dir,
    }
}

/// An engine with `rules` (YAML or JSON), and no door before it.
pub(crate) fn engine(rules: &str, fleet: Fleet) -> Engine {
    let secret = KeySecret::public();
    let source = Source {
        name: "rules".into(),
        text: rules.into(),
        format: if rules.starts_with('{') {
            Format::Json
        } else {
            Format::Yaml
        },
    };
    let defaults = Defaults {
        pace: Pace::default(),
        secret: secret.clone(),
    };
    let compiled =
        RuleSet::compile(&[source], &defaults).unwrap_or_else(|faults| panic!("{faults}"));
    let counters = Arc::new(Counters::new(100_000, fleet));
    Engine::new(compiled.rules, counters, &secret)
}

fn addr(address: &Address) -> Addr {
    match address {
        Address::Unix(path) => Addr::Unix(path.clone()),
        Address::Tcp { host, port } => {
            let host: IpAddr = host.parse().unwrap();
            Addr::Tcp(SocketAddr::new(host, *port))
        }
    }
}

impl Doors {
    /// Asks over HTTP, on the socket.
    pub(crate) fn ask(&self, body: &str) -> Reply {
        ask(&self.http[0], body)
    }

    /// Asks over HTTP by a rule's name.
    pub(crate) fn named(&self, rule: &str, key: &str, cost: u64) -> Reply {
        self.ask(&named(rule, key, cost))
    }

    /// A connection to the RESP socket.
    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.resp[0])
    }

    /// The page of metrics.
    pub(crate) fn page(&self) -> String {
        request(&self.admin, "GET", "/metrics", "").body
    }

    pub(crate) fn wait(&self, millis: u64) {
        self.clock.advance(Nanos::from_millis(millis));
    }
}

/// Asks over HTTP at `at`.
pub(crate) fn ask(at: &Addr, body: &str) -> Reply {
    http::request(at, "POST", "/v1/check", body)
}

/// The body that asks by a rule's name.
pub(crate) fn named(rule: &str, key: &str, cost: u64) -> String {
    serde_json::json!({"rule": rule, "key": key, "cost": cost}).to_string()
}

/// One rule for each algorithm, called by the algorithm's name and at the path of that
/// name, for `limit` (as rule files write it).
pub(crate) fn every_algorithm(limit: &str) -> String {
    let mut rules = String::from("rules:\n");
    for name in Algorithm::ALL.map(Algorithm::name) {
        rules += &format!(
            "- {{name: {name}, endpoint: /{name}, key: attribute:user, algorithm: {name}, \
             limits: {{default: {limit}}}}}\n"
        );
    }
    rules
}

/// The names of all algorithms.
pub(crate) fn algorithms() -> impl Iterator<Item = &'static str> {
    Algorithm::ALL.into_iter().map(Algorithm::name)
}

/// The values of the three `X-RateLimit-` headers: limit, remaining, reset.
pub(crate) fn headers(reply: &Reply) -> Option<[u64; 3]> {
    let value = |name| reply.header(name).map(|text| text.parse().unwrap());
    match [
        value("X-RateLimit-Limit"),
        value("X-RateLimit-Remaining"),
        value("X-RateLimit-Reset"),
    ] {
        [Some(limit), Some(remaining), Some(reset)] => Some([limit, remaining, reset]),
        [None, None, None] => None,
        some => panic!("some of the headers: {some:?}"),
    }
}

/// What a reply's body says of `names`, as JSON.
pub(crate) fn said<const N: usize>(reply: &Reply, names: [&str; N]) -> [Json; N] {
    let body = reply.json();
    names.map(|name| body.get(name).cloned().unwrap_or(Json::Null))
}

/// Whether a RESP reply is an error; its text.
pub(crate) fn error(value: &Value) -> Option<&str> {
    match value {
        Value::Error(text) => Some(text),
        _ => None,
    }
}
