//! A server with few file descriptors: it is a process of its own, this test started
//! anew, so that the limit binds it and not its clients.

// Tests assert by panicking, and their helpers are not in test functions.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusBuilder;
use rustix::process::{Resource, Rlimit, setrlimit};
use tidegate::clock::Clock;
use tidegate::counters::{Counters, Fleet};
use tidegate::engine::Engine;
use tidegate::rules::RuleSet;
use tidegate::server::{Address, Observer, Readiness, Server, ServerConfig, Services};
use tidegate::units::KeySecret;

/// The limit of open files, and what is left of it for connections.
const FILES: u64 = 256;
const PLACES: usize = 192;

#[test]
#[ignore = "not a test: the server of the tests below"]
fn server_of_few_descriptors() {
    let Some(dir) = std::env::var_os("TIDEGATE_TEST_DIR") else {
        return;
    };
    let wasted = std::env::var("TIDEGATE_TEST_WASTED").unwrap();
    let wasted: usize = wasted.parse().unwrap();
    let few = Rlimit {
        current: Some(FILES),
        maximum: Some(FILES),
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let files: Vec<_> = (0..wasted)
        .map(|_| File::open("/dev/null").unwrap())
        .collect();
    let metrics = PrometheusBuilder::new().install_recorder().unwrap();
    let engine = Arc::new(engine());
    let services = Services {
        authority: None,
        observer: Arc::new(Observer::new(engine.snapshot().rules())),
        engine,
        clock: Clock::system(),
        readiness: Readiness::default(),
        metrics: Arc::new(move || metrics.render()),
        status: Arc::new(|| serde_json::Value::Null),
        reloads: None,
    };
    let bound = Server::bind(ServerConfig {
        resp: vec![Address::Unix(Path::new(&dir).join("resp.sock"))],
        admin: vec![Address::Unix(Path::new(&dir).join("admin.sock"))],
        ..ServerConfig::default()
    })
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // The parent hangs up when its test is over.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = stop.send(());
    });
    println!("\nready");
    let serving = bound.serve(services, async {
        let _ = stopped.await;
    });
    runtime.block_on(serving).unwrap();
    drop(files);
}

fn engine() -> Engine {
    let counters = Arc::new(Counters::new(10_000, Fleet::alone()));
    Engine::new(RuleSet::default(), counters, &KeySecret::public())
}

/// The server's process, in which `wasted` descriptors are taken by something else.
fn start(dir: &Path, wasted: usize) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "server_of_few_descriptors",
            "--nocapture",
        ])
        .env("TIDEGATE_TEST_DIR", dir)
        .env("TIDEGATE_TEST_WASTED", wasted.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line != "ready\n" {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended");
    }
    // What it says at its end must not block it.
    std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
    child
}

fn stop(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// The first line of the answer to a PING on a new connection, which stays open.
fn ping(socket: &Path) -> (UnixStream, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    // A refusal may come before it is sent.
    let _ = stream.write_all(b"PING\r\n");
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    (stream, line)
}

fn page(dir: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(dir.join("admin.sock")).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

#[test]
fn as_many_are_served_as_there_are_places_and_the_rest_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("resp.sock");
    let server = start(dir.path(), 0);
    let mut kept = Vec::new();
    for number in 0..400 {
        let (stream, line) = ping(&socket);
        if number < PLACES {
            assert_eq!(line, "+PONG\r\n", "connection {number}");
            kept.push(stream);
        } else {
            assert_eq!(
                line, "-ERR max number of clients reached\r\n",
                "connection {number}"
            );
        }
    }
    assert!(page(dir.path(), "/livez").ends_with("\r\n\r\nok\n"));
    let refused = "tidegate_connections_refused_total{door=\"resp\",reason=\"full\"} 208\n";
    let metrics = page(dir.path(), "/metrics");
    assert!(metrics.contains(refused), "{metrics}");
    drop(kept);
    stop(server);
}

#[test]
fn without_descriptors_it_rests_and_serves_again_when_there_are_some() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("resp.sock");
    let server = start(dir.path(), 150);
    let (mut first, line) = ping(&socket);
    assert_eq!(line, "+PONG\r\n");
    // More than it has descriptors for, and it does not know.
    let waiting: Vec<_> = (0..400)
        .map(|_| UnixStream::connect(&socket).unwrap())
        .collect();
    // Those who are in are served meanwhile.
    for _ in 0..100 {
        first.write_all(b"PING\r\n").unwrap();
        let mut pong = [0; 7];
        first.read_exact(&mut pong).unwrap();
        assert_eq!(&pong, b"+PONG\r\n");
    }
    drop(waiting);
    let (_stream, line) = ping(&socket);
    assert_eq!(line, "+PONG\r\n");
    let metrics = page(dir.path(), "/metrics");
    let errors = "tidegate_connections_refused_total{door=\"resp\",reason=\"accept_error\"} ";
    let (_, errors) = metrics.split_once(errors).unwrap();
    let errors: u64 = errors.lines().next().unwrap().parse().unwrap();
    assert!((1..100).contains(&errors), "{errors} errors");
    stop(server);
}
