//! Python's gRPC, which is built on another core than Rust's.

use std::process::Command;

use crate::client::Gate;
use crate::kit::{root, tool};

const RULES: &str = "
domain: shop
descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 10}}]
";

#[test]
fn python_asks_over_a_unix_socket_and_over_tcp() {
    let gate = Gate::start(RULES, &["--grpc", "127.0.0.1:0"]);
    let log = gate.daemon.log();
    let tcp = log
        .split("grpc=")
        .map(|rest| rest.split(' ').next().unwrap_or_default())
        .find(|address| address.starts_with("127.0.0.1:"))
        .unwrap();
    let output = Command::new(tool("python"))
        .arg(root().join("tests/doors_grpc/ask.py"))
        .arg(&gate.socket)
        .arg(tcp.trim_end_matches(['"', '\n']))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let faults = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}{faults}");
    // It asks for the socket's path as if that were a host, which HTTP/2 does not take.
    assert_eq!(said.trim(), "plain: INTERNAL");
}
