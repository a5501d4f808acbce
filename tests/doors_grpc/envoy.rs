//! A real Envoy in front of a small backend, by the configuration that is shipped.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::client::Gate;
use crate::kit::http::{self, Reply};
use crate::kit::{root, tool, wait_until};

/// An Envoy, which ends with this value.
pub(crate) struct Envoy {
    child: Child,
    entry: SocketAddr,
    dir: tempfile::TempDir,
}

impl Envoy {
    /// Starts one that asks at `socket`, and refuses without an answer if it `denies`.
    fn start(socket: &Path, denies: bool) -> Envoy {
        Envoy::of("config/envoy/envoy.yaml", |replace| {
            replace("address: 127.0.0.1, port_value: 8080", &at(backend()), 1);
            let path = format!("path: {}", socket.display());
            replace("path: /run/tidegate/grpc.sock", &path, 1);
            // A busy machine is no lost store.
            replace("timeout: 0.05s", "timeout: 20s", 1);
            if denies {
                replace("failure_mode_deny: false", "failure_mode_deny: true", 1);
            }
        })
    }

    /// Starts one by the file that is shipped, in which some texts are replaced, each so many
    /// times.
    pub(crate) fn of(
        shipped: &str,
        change: impl FnOnce(&mut dyn FnMut(&str, &str, usize)),
    ) -> Envoy {
        let dir = tempfile::tempdir().unwrap();
        let (entry, admin) = (free_port(), free_port());
        let mut config = std::fs::read_to_string(root().join(shipped)).unwrap();
        let mut replace = |from: &str, to: &str, times: usize| {
            assert_eq!(config.matches(from).count(), times, "{from}");
            config = config.replace(from, to);
        };
        let admin_port = format!("port_value: {}", admin.port());
        replace("port_value: 9901", &admin_port, 1);
        replace("address: 0.0.0.0, port_value: 10000", &at(entry), 1);
        change(&mut replace);
        let file = dir.path().join("envoy.yaml");
        std::fs::write(&file, config).unwrap();
        let log = std::fs::File::create(dir.path().join("envoy.log")).unwrap();
        let child = Command::new(tool("envoy"))
            .args([
                "--disable-hot-restart",
                "--concurrency",
                "1",
                "-l",
                "warning",
                "-c",
            ])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let envoy = Envoy { child, entry, dir };
        wait_until("Envoy to be ready", || {
            http::try_request(&admin.into(), "GET", "/ready", &[], "")
                .is_ok_and(|reply| reply.status == 200)
        });
        envoy
    }

    fn get(&self, path: &str) -> Reply {
        http::request(self.entry, "GET", path, "")
    }

    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        http::try_request(&self.entry.into(), "GET", path, headers, "").unwrap()
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = std::fs::read_to_string(self.dir.path().join("envoy.log"));
            eprintln!("--- Envoy's log ---\n{}---", log.unwrap_or_default());
        }
    }
}

pub(crate) fn at(address: SocketAddr) -> String {
    format!("address: {}, port_value: {}", address.ip(), address.port())
}

/// An address that nobody listens on now.
fn free_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

/// A server that answers everything with 200, until the test ends.
pub(crate) fn backend() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            thread::spawn(move || {
                let mut head = Vec::new();
                let mut piece = [0; 1_024];
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut piece) {
                        Ok(read @ 1..) => head.extend(&piece[..read]),
                        _ => return,
                    }
                }
                let _ = stream.write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
                );
            });
        }
    });
    address
}

fn rules() -> String {
    std::fs::read_to_string(root().join("config/rules/envoy.yaml")).unwrap()
}

fn number(reply: &Reply, name: &str) -> u64 {
    let value = reply.header(name);
    let number = value.and_then(|value| value.parse().ok());
    number.unwrap_or_else(|| panic!("{name} is {value:?} in {reply:?}"))
}

#[test]
fn envoy_admits_then_refuses_with_the_headers_and_goes_on_without_the_daemon() {
    let mut gate = Gate::start(&rules(), &[]);
    let envoy = Envoy::start(&gate.socket, false);
    let other = envoy.get("/other");
    assert_eq!((other.status, other.body.as_str()), (200, "hello"));
    assert_eq!(other.header("x-ratelimit-limit"), Some("600, 600;w=60"));
    // Five a minute, and a minute may end in between.
    let replies: Vec<Reply> = (0..11).map(|_| envoy.get("/login")).collect();
    let first = &replies[0];
    assert_eq!((first.status, first.body.as_str()), (200, "hello"));
    assert_eq!(
        first.header("x-ratelimit-limit"),
        Some("5, 600;w=60, 5;w=60")
    );
    assert_eq!(number(first, "x-ratelimit-remaining"), 4);
    assert_eq!(first.header("retry-after"), None);
    let refused = replies
        .iter()
        .position(|reply| reply.status == 429)
        .unwrap();
    assert!(refused >= 5, "{replies:?}");
    let refused = &replies[refused];
    assert_eq!(refused.header("x-envoy-ratelimited"), Some("true"));
    assert_eq!(
        refused.header("x-ratelimit-limit"),
        Some("5, 600;w=60, 5;w=60")
    );
    assert_eq!(number(refused, "x-ratelimit-remaining"), 0);
    assert!((1..=60).contains(&number(refused, "x-ratelimit-reset")));
    assert!((1..=60).contains(&number(refused, "retry-after")));

    assert!(gate.daemon.terminate().success());
    let without = envoy.get("/login");
    assert_eq!(
        (without.status, without.header("x-ratelimit-limit")),
        (200, None)
    );
}

#[test]
fn envoy_refuses_without_the_daemon_where_it_is_told_to() {
    let mut gate = Gate::start(&rules(), &[]);
    let envoy = Envoy::start(&gate.socket, true);
    assert_eq!(envoy.get("/other").status, 200);
    gate.daemon.kill9();
    assert_eq!(envoy.get("/other").status, 500);
}
