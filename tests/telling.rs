//! What operators are told of a store that is lost, wrong or forgetful, and of a full table:
//! by the log, the metrics and `/readyz`.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::io::Write;
use std::net::TcpListener;

use kit::http;
use kit::{Daemon, Redis, wait_until};

const RULES: &str = "rules:\n  - {name: api, limits: {requests: 50, window: 1h}}\n";

fn check(daemon: &Daemon, rule: &str, key: &str) -> u16 {
    let body = format!(r#"{{"rule":"{rule}","key":"{key}"}}"#);
    http::request(daemon.http(), "POST", "/v1/check", &body).status
}

fn ready(daemon: &Daemon) -> (u16, String) {
    let reply = http::request(daemon.admin(), "GET", "/readyz", "");
    (reply.status, reply.body)
}

fn wait_for_line(daemon: &Daemon, parts: &[&str]) {
    let has = |line: &str| parts.iter().all(|part| line.contains(part));
    wait_until(&format!("a line with {parts:?}"), || {
        daemon.log().lines().any(has)
    });
}

#[test]
fn a_node_of_other_terms_says_so_to_probes_metrics_and_at_its_end() {
    let redis = Redis::start();
    let url = redis.url();
    let fleet = Daemon::start(RULES, &["--store", &url]);
    wait_until("the fleet to have its terms", || {
        fleet.metric("tidegate_store_up", &[]) == 1.0
    });
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "another secret of this fleet").unwrap();
    let secret = secret.to_str().unwrap();
    let name = "tidegate_fleet_disagreement";
    let (partitions, key_secret) = ([("about", "partitions")], [("about", "key_secret")]);
    for (flag, value, note, about, other) in [
        (
            "--partitions",
            "64",
            "other_partitions",
            &partitions,
            &key_secret,
        ),
        (
            "--key-secret-file",
            secret,
            "other_key_secret",
            &key_secret,
            &partitions,
        ),
    ] {
        let mut odd = Daemon::start(RULES, &["--store", &url, flag, value]);
        let told = format!(r#"{{"ready":true,"reasons":[],"notes":["{note}"]}}"#);
        wait_until("the disagreement to be told", || {
            ready(&odd) == (200, told.clone())
        });
        assert_eq!(odd.metric(name, about), 1.0);
        assert_eq!(odd.metric(name, other), 0.0);
        assert_eq!(odd.metric("tidegate_store_up", &[]), 0.0);
        for _ in 0..7 {
            assert_eq!(check(&odd, "api", "alice"), 200);
        }
        assert!(odd.terminate().success());
        let dropped = ["unsent_cost=7", "unsent_callers=1"];
        wait_for_line(
            &odd,
            &[&["WARN", "ended before all was sent"], &dropped[..]].concat(),
        );
    }
    assert_eq!(fleet.metric(name, &[]), 0.0);
    assert_eq!(
        ready(&fleet),
        (200, r#"{"ready":true,"reasons":[],"notes":[]}"#.to_owned())
    );
}

#[test]
fn a_lost_store_is_told_with_its_address_and_the_cause_and_without_its_password() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    // Nobody accepts what comes in here.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_at = silent.local_addr().unwrap().port();
    drop(free);
    // Speaks something, and no TLS.
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let plain_at = plain.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in plain.incoming() {
            let _ = stream.unwrap().write_all(b"-ERR what is it?\r\n");
        }
    });
    for (url, address, cause) in [
        (
            format!("redis://me:m4rk3r@127.0.0.1:{port}"),
            format!("127.0.0.1:{port}"),
            "connection refused",
        ),
        (
            "redis://:m4rk3r@host.invalid:6379".to_owned(),
            "host.invalid:6379".to_owned(),
            "unknown host",
        ),
        (
            "redis+unix:///nowhere/redis.sock?pass=m4rk3r".to_owned(),
            "/nowhere/redis.sock".to_owned(),
            "no such socket",
        ),
        (
            format!("redis://127.0.0.1:{silent_at}"),
            format!("127.0.0.1:{silent_at}"),
            "no answer in time",
        ),
        (format!("rediss://{plain_at}"), plain_at, "TLS failed"),
    ] {
        let daemon = Daemon::start_in(RULES, &[], &[("TIDEGATE_STORE", &url)]);
        let address = format!("address=\"{address}\"");
        wait_for_line(&daemon, &["the store is lost", &address, cause]);
        assert!(!daemon.log().contains("m4rk3r"));
        assert!(ready(&daemon).1.contains(r#""notes":["store_lost"]"#));
    }
}

#[test]
fn a_store_that_evicts_is_warned_of() {
    let evicting =
        Redis::start_with(&[("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru")]);
    let daemon = Daemon::start(RULES, &["--store", &evicting.url()]);
    wait_for_line(
        &daemon,
        &["WARN", "evicts keys", "allkeys-lru", "noeviction"],
    );
    assert_eq!(daemon.metric("tidegate_store_evicts", &[]), 1.0);

    let keeping = Redis::start_with(&[("maxmemory", "100mb"), ("maxmemory-policy", "noeviction")]);
    let daemon = Daemon::start(RULES, &["--store", &keeping.url()]);
    wait_for_line(&daemon, &["the store answers"]);
    assert_eq!(daemon.metric("tidegate_store_evicts", &[]), 0.0);
    assert!(!daemon.log().contains("evicts"));
}

#[test]
fn a_full_table_is_told_once() {
    let daemon = Daemon::start(RULES, &["--max-keys", "3"]);
    for caller in 0..9 {
        assert_eq!(check(&daemon, "api", &caller.to_string()), 200);
    }
    wait_for_line(&daemon, &["WARN", "max_keys", "share a cell"]);
    assert_eq!(daemon.log().matches("share a cell").count(), 1);
}

#[test]
fn strict_checks_of_a_lost_store_are_counted_and_a_limit_that_is_exact_again_is_told() {
    let mut redis = Redis::start();
    let rules = "rules:\n  - {name: api, consistency: strict, limits: {requests: 5000, window: 1s, \
                 algorithm: fixed_window}}\n";
    let daemon = Daemon::start(rules, &["--store", &redis.url(), "--strict-timeout", "10s"]);
    let up = || daemon.metric("tidegate_store_up", &[]);
    let strict = |outcome| daemon.metric("tidegate_strict_checks_total", &[("outcome", outcome)]);
    wait_until("the store to answer", || up() == 1.0);
    wait_until("an exact answer", || {
        check(&daemon, "api", "alice");
        strict("answered") > 0.0
    });
    redis.kill();
    wait_until("the store to be lost", || up() == 0.0);
    let before = strict("lost");
    assert_eq!(check(&daemon, "api", "alice"), 200);
    assert_eq!(strict("lost"), before + 1.0);

    redis.restart();
    wait_until("what is exact again to be told", || {
        check(&daemon, "api", "alice");
        daemon
            .log()
            .lines()
            .any(|line| line.contains("exact again: all that counts") && line.contains("rule=api"))
    });
    assert!(strict("forgotten") > 0.0);
    assert!(daemon.log().contains("the store has lost its memory"));
}

#[test]
fn a_soft_limit_warns_the_caller_each_time_and_the_operator_once_and_a_shadow_nobody() {
    let rules = "rules:\n\
         - {name: soft, mode: soft, limits: {requests: 1, window: 1h}}\n\
         - {name: dark, mode: shadow, limits: {requests: 1, window: 1h}}\n";
    let daemon = Daemon::start(rules, &[]);
    let warning = |rule| {
        let body = format!(r#"{{"rule":"{rule}","key":"k"}}"#);
        let reply = http::request(daemon.http(), "POST", "/v1/check", &body);
        assert_eq!(reply.status, 200);
        reply.header("x-ratelimit-warning").map(str::to_owned)
    };
    let name = |rule| Some(format!("\"{rule}/default/1h\""));
    assert_eq!(warning("soft"), None);
    assert_eq!(
        [warning("soft"), warning("soft")],
        [name("soft"), name("soft")]
    );
    assert_eq!([warning("dark"), warning("dark")], [None, None]);
    let said = |rule, outcome| {
        let labels = [("rule", rule), ("outcome", outcome)];
        daemon.metric("tidegate_advisory_checks_total", &labels)
    };
    assert_eq!(
        (said("soft", "allowed"), said("soft", "refused")),
        (1.0, 2.0)
    );
    assert_eq!(
        (said("dark", "allowed"), said("dark", "refused")),
        (1.0, 1.0)
    );
    wait_for_line(&daemon, &["over a soft limit", "rule=\"soft\""]);
    let lines = daemon.log();
    let told = lines
        .lines()
        .filter(|line| line.contains("over a soft limit"));
    let told: Vec<&str> = told.collect();
    assert_eq!(told.len(), 1, "{told:?}");
}
