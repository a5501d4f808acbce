use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tempfile::TempDir;
use tidegate::clock::Clock;
use tidegate::counters::{Counters, Fleet};
use tidegate::engine::Engine;
use tidegate::rules::RuleSet;
use tidegate::server::{
    Address, AskedReload, Door, Drained, Observer, Readiness, Reloaded, Server, ServerConfig,
    Services,
};
use tidegate::units::{KeySecret, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// 2023-11-14, and the clock stands still.
const NOW: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);

/// A server in this test's own runtime, with its own metrics.
pub(crate) struct Running {
    pub(crate) addresses: Vec<(Door, Address)>,
    pub(crate) readiness: Readiness,
    pub(crate) metrics: PrometheusHandle,
    /// Once set, the page of metrics panics.
    pub(crate) broken: Arc<AtomicBool>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<io::Result<Drained>>,
    _recorder: metrics::LocalRecorderGuard<'static>,
}

fn engine() -> Engine {
    Engine::new(
        RuleSet::default(),
        Arc::new(Counters::new(10_000, Fleet::alone())),
        &KeySecret::public(),
    )
}

/// Serves `config`. The test must run in a runtime of one thread.
pub(crate) fn serve(config: ServerConfig) -> Running {
    // The recorder is the thread's, so that tests do not count each other's checks.
    let recorder = Box::leak(Box::new(PrometheusBuilder::new().build_recorder()));
    let metrics = recorder.handle();
    let guard = metrics::set_default_local_recorder(recorder);
    let bound = Server::bind(config).unwrap();
    let addresses = bound
        .addresses()
        .map(|(door, address)| (door, address.clone()))
        .collect();
    let engine = Arc::new(engine());
    let readiness = Readiness::default();
    let page = metrics.clone();
    let broken = Arc::new(AtomicBool::new(false));
    let is_broken = Arc::clone(&broken);
    let (reloads, mut asked) = mpsc::channel::<AskedReload>(1);
    tokio::spawn(async move {
        // The first is done, all others are refused.
        let mut answers = vec![Reloaded::Applied(serde_json::json!("done"))];
        while let Some(asked) = asked.recv().await {
            let refused = Reloaded::Refused(serde_json::json!(asked.by));
            let _ = asked.answer.send(answers.pop().unwrap_or(refused));
        }
    });
    let services = Services {
        authority: None,
        observer: Arc::new(Observer::new(engine.snapshot().rules())),
        engine,
        clock: Clock::manual(NOW),
        readiness: readiness.clone(),
        metrics: Arc::new(move || {
            assert!(!is_broken.load(Ordering::Relaxed), "as the test wants it");
            page.render()
        }),
        status: Arc::new(|| serde_json::json!({"rules": 3})),
        reloads: Some(reloads),
    };
    let (stop, stopped) = oneshot::channel();
    let serving = tokio::spawn(bound.serve(services, async {
        let _ = stopped.await;
    }));
    Running {
        addresses,
        readiness,
        metrics,
        broken,
        stop,
        serving,
        _recorder: guard,
    }
}

impl Running {
    /// A new connection to the first address of `door`.
    pub(crate) async fn connect(&self, door: Door) -> Client {
        let (_, address) = self.addresses.iter().find(|(it, _)| *it == door).unwrap();
        match address {
            Address::Unix(path) => Client::Unix(UnixStream::connect(path).await.unwrap()),
            Address::Tcp { host, port } => {
                Client::Tcp(TcpStream::connect((host.as_str(), *port)).await.unwrap())
            }
        }
    }

    /// Sends `bytes` on a new connection and reads until the server closes it.
    pub(crate) async fn exchange(&self, door: Door, bytes: &[u8]) -> String {
        let mut client = self.connect(door).await;
        client.send(bytes).await;
        client.rest().await
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) async fn stop(self) -> Drained {
        self.begin_stop().await.unwrap().unwrap()
    }

    /// Tells it to stop; the answer is done when it has.
    pub(crate) fn begin_stop(self) -> JoinHandle<io::Result<Drained>> {
        self.stop.send(()).unwrap();
        self.serving
    }

    /// The value of the metric whose line starts with `series`.
    pub(crate) fn figure(&self, series: &str) -> Option<f64> {
        let page = self.metrics.render();
        let line = page.lines().find(|line| line.starts_with(series))?;
        line.rsplit(' ').next()?.parse().ok()
    }
}

pub(crate) enum Client {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Client {
    /// Sends `bytes`, or as much of them as the server takes before it closes.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _ = match self {
            Client::Tcp(stream) => stream.write_all(bytes).await,
            Client::Unix(stream) => stream.write_all(bytes).await,
        };
    }

    /// All that comes until the server closes.
    pub(crate) async fn rest(&mut self) -> String {
        let mut said = Vec::new();
        let read = match self {
            Client::Tcp(stream) => stream.read_to_end(&mut said).await,
            Client::Unix(stream) => stream.read_to_end(&mut said).await,
        };
        read.unwrap();
        String::from_utf8(said).unwrap()
    }

    /// The next `count` bytes.
    pub(crate) async fn take(&mut self, count: usize) -> String {
        let mut said = vec![0; count];
        let read = match self {
            Client::Tcp(stream) => stream.read_exact(&mut said).await,
            Client::Unix(stream) => stream.read_exact(&mut said).await,
        };
        read.unwrap();
        String::from_utf8(said).unwrap()
    }

    /// One HTTP response with a body of a stated length: head and body.
    pub(crate) async fn response(&mut self) -> (String, String) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head += &self.take(1).await;
        }
        let head = head.to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        let body = self.take(length).await;
        (head, body)
    }

    /// Sends one check over HTTP and answers head and body.
    pub(crate) async fn post(&mut self, body: &str) -> (String, String) {
        self.send(post(body).as_bytes()).await;
        self.response().await
    }
}

/// A request for `/v1/check`.
pub(crate) fn post(body: &str) -> String {
    let length = body.len();
    format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// A directory and the addresses of sockets in it, one of each door.
pub(crate) fn sockets() -> (TempDir, ServerConfig) {
    let dir = tempfile::tempdir().unwrap();
    let socket = |name: &str| vec![Address::Unix(dir.path().join(name))];
    let config = ServerConfig {
        http: socket("http.sock"),
        resp: socket("resp.sock"),
        admin: socket("admin.sock"),
        ..ServerConfig::default()
    };
    (dir, config)
}

/// One of each door on a port of its own.
pub(crate) fn ports() -> ServerConfig {
    let any = || vec!["127.0.0.1:0".parse().unwrap()];
    ServerConfig {
        http: any(),
        resp: any(),
        admin: any(),
        ..ServerConfig::default()
    }
}

/// A server's configuration on sockets, and one on ports.
pub(crate) fn both() -> [(Option<TempDir>, ServerConfig); 2] {
    let (dir, on_sockets) = sockets();
    [(Some(dir), on_sockets), (None, ports())]
}

/// The path of a Unix address.
pub(crate) fn path(address: &Address) -> PathBuf {
    match address {
        Address::Unix(path) => path.clone(),
        Address::Tcp { .. } => panic!("{address} is no socket's path"),
    }
}
