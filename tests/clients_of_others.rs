//! The Redis clients that others have, with their own greetings: a pipeline of a thousand
//! checks gets a reply for each, in order.

// Tests fail by panicking, their helpers too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use kit::{Daemon, root, stderr, stdout};

const LIMIT: u64 = 100_000;
const RULES: &str = "rules: [{name: orders, algorithm: fixed_window, \
    limits: {requests: 100000, window: 30d}}]";

/// What tests/run has installed.
fn tool(path: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let path = target.join("tools").join(path);
    assert!(
        path.exists(),
        "{} is missing; run tests/run, which installs it",
        path.display()
    );
    path
}

/// The replies that a script of `tests/clients` gets from a daemon of its own.
fn replies(interpreter: &Path, script: &str, protocol: &str) -> Vec<Value> {
    let daemon = Daemon::start(RULES, &[]);
    let output = Command::new(interpreter)
        .env("NODE_PATH", tool("node/node_modules"))
        .arg(root().join("tests/clients").join(script))
        .arg(daemon.dir().join("resp.sock"))
        .arg(protocol)
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

/// Checks of cost 0, 1 and 2 by turns, and every tenth of a rule that is not there.
fn are_in_order(replies: &[Value]) {
    assert_eq!(replies.len(), 1_000);
    let mut remaining = LIMIT;
    for (n, reply) in (0..).zip(replies) {
        if n % 10 == 9 {
            // Some clients hide the `ERR` with which it begins.
            let said = reply.as_str().unwrap_or_else(|| panic!("{n}: {reply}"));
            assert!(said.ends_with("unknown rule 'none'"), "{n}: {said}");
        } else {
            remaining -= n % 3;
            let [limited, limit, left, retry] = [0, 1, 2, 3].map(|at| reply[at].clone());
            let wanted = [json!(0), json!(LIMIT), json!(remaining), json!(-1)];
            assert_eq!([limited, limit, left, retry], wanted, "{n}");
        }
    }
}

#[test]
fn redis_py_by_default_and_in_either_protocol() {
    let python = tool("venv/bin/python3");
    for protocol in ["default", "2", "3"] {
        are_in_order(&replies(&python, "redis_py.py", protocol));
    }
}

#[test]
fn ioredis_by_default() {
    are_in_order(&replies(Path::new("node"), "ioredis.cjs", "default"));
}

#[test]
fn node_redis_by_default_and_in_either_protocol() {
    for protocol in ["default", "2", "3"] {
        are_in_order(&replies(Path::new("node"), "node_redis.cjs", protocol));
    }
}
