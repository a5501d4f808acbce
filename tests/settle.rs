//! Costs known afterwards, by daemons and a Redis that are real processes.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::time::Duration;

use kit::http::{self, Reply};
use kit::resp::Client;
use kit::{Daemon, Redis, wait_for_an_edge, wait_until};

fn rule(limit: &str) -> String {
    format!("rules:\n  - name: api\n    limits: {{ default: {limit} }}\n")
}

fn post(daemon: &Daemon, path: &str, body: &str) -> Reply {
    http::request(daemon.http(), "POST", path, body)
}

fn check(daemon: &Daemon, cost: u64, id: &str) -> Reply {
    let body = format!(r#"{{"rule":"api","key":"k","cost":{cost},"id":"{id}"}}"#);
    post(daemon, "/v1/check", &body)
}

fn settle(daemon: &Daemon, id: &str, cost: u64) -> Reply {
    post(
        daemon,
        "/v1/settle",
        &format!(r#"{{"id":"{id}","cost":{cost}}}"#),
    )
}

fn left(daemon: &Daemon) -> i64 {
    let mut client = Client::connect(daemon.resp());
    client.command(&["TG.CHECK", "api", "k", "0"]).ints()[2]
}

#[test]
fn c36_every_clause_over_http_and_resp() {
    let daemon = Daemon::start(
        &rule("{ requests: 1000, window: 1d, algorithm: sliding_log }"),
        &[],
    );
    let mut client = Client::connect(daemon.resp());
    let mut both = |http: bool, name: &str, cost: u64, total: u64| -> Vec<i64> {
        let (key, cost, total) = (format!("k-{http}"), cost.to_string(), total.to_string());
        let id = format!("{name}-{http}");
        if http {
            let body = format!(r#"{{"rule":"api","key":"{key}","cost":{cost},"id":"{id}"}}"#);
            assert_eq!(post(&daemon, "/v1/check", &body).status, 200);
            let said = settle(&daemon, &id, total.parse().unwrap()).json();
            ["charged", "refunded", "late"]
                .map(|name| said[name].as_i64().unwrap())
                .to_vec()
        } else {
            let five = client.command(&["TG.CHECK", "api", &key, &cost, "ID", &id]);
            assert_eq!(five.ints()[0], 0);
            client.command(&["TG.SETTLE", &id, &total]).ints()[1..].to_vec()
        }
    };
    for http in [true, false] {
        assert_eq!(both(http, "less", 100, 30), [0, 70, 0]);
        assert_eq!(both(http, "past", 20, 1_500), [1_480, 0, 0]);
    }
    let mut client = Client::connect(daemon.resp());
    for key in ["k-true", "k-false"] {
        let five = client.command(&["TG.CHECK", "api", key, "1"]).ints();
        assert_eq!((five[0], five[2]), (1, 0), "{five:?}");
        assert!(five[3] > 86_000_000, "{five:?}");
        let four = client.command(&["TG.SETTLE", &key.replace('k', "past"), "7"]);
        assert_eq!(four.ints(), [0, 0, 0, 0]);
    }
    assert_eq!(settle(&daemon, "nobody", 1).status, 404);
}

#[test]
fn c36_a_settlement_after_the_window_is_dropped_and_counted() {
    const WINDOW: Duration = Duration::from_secs(2);
    let limit = "{ requests: 1000, window: 2s, algorithm: fixed_window }";
    let daemon = Daemon::start(&rule(limit), &[]);
    assert_eq!(check(&daemon, 20, "a").status, 200);
    wait_for_an_edge(WINDOW);
    let late = settle(&daemon, "a", 1_500);
    assert_eq!(late.json()["outcome"], "late", "{}", late.body);
    assert_eq!(left(&daemon), 1_000);
    let labels = [("effect", "late"), ("rule", "api")];
    let dropped = daemon.metric("tidegate_settled_cost_total", &labels);
    assert_eq!(dropped, 1_480.0);
    assert_eq!(daemon.metric("tidegate_receipts", &[]), 1.0);
}

#[test]
fn receipts_are_bounded_by_the_settings_and_survive_a_reload() {
    let limit = "{ requests: 1000, window: 1d, algorithm: sliding_log }";
    let daemon = Daemon::start(&rule(limit), &["--max-receipts", "2"]);
    for id in ["a", "b", "c"] {
        assert_eq!(check(&daemon, 20, id).status, 200);
    }
    let forgotten = settle(&daemon, "a", 500);
    assert_eq!(forgotten.status, 410, "{}", forgotten.body);
    assert_eq!(forgotten.json()["error"], "forgotten_id");
    let reloaded = http::request(daemon.admin(), "POST", "/reload", "");
    assert!(reloaded.status < 300, "{}", reloaded.body);
    assert_eq!(settle(&daemon, "b", 120).json()["charged"], 100);
    assert_eq!(left(&daemon), 1_000 - 20 - 120 - 20);
    let of = daemon.metric("tidegate_receipts_forgotten_total", &[]);
    assert_eq!(of, 1.0);
}

/// Two daemons that count in `redis`, and have found it.
fn two(redis: &Redis, rules: &str) -> [Daemon; 2] {
    let url = redis.url();
    let args = [
        "--store",
        &url,
        "--sync-interval",
        "20ms",
        "--strict-timeout",
        "10s",
    ];
    let daemons = [(); 2].map(|()| Daemon::start(rules, &args));
    for daemon in &daemons {
        wait_until("the store to answer", || {
            daemon.metric("tidegate_store_up", &[]) == 1.0
        });
    }
    daemons
}

/// The counts in the store's hashes of windows, all together.
fn total(redis: &Redis) -> u64 {
    let keys = redis.cli(&["KEYS", "*:1d:*"]);
    let values = keys.lines().map(|key| redis.cli(&["HVALS", key]));
    let values: Vec<String> = values.collect();
    let counts = values.iter().flat_map(|values| values.lines());
    counts
        .filter_map(|value| value.split(' ').next()?.parse::<u64>().ok())
        .sum()
}

#[test]
fn the_fleets_total_is_what_was_settled_on_all_nodes_in_every_mode() {
    for consistency in ["approximate", "bounded", "strict"] {
        let redis = Redis::start();
        let limit = format!(
            "{{ requests: 10000, window: 1d, algorithm: fixed_window, consistency: {consistency} }}"
        );
        let nodes = two(&redis, &rule(&limit));
        for (number, node) in nodes.iter().enumerate() {
            for (id, cost, settled) in [("low", 300, 100), ("high", 20, 4_000), ("none", 50, 0)] {
                let id = format!("{id}{number}");
                let admitted = check(node, cost, &id);
                assert_eq!(admitted.status, 200, "{consistency}: {}", admitted.body);
                if settled > 0 {
                    let said = settle(node, &id, settled);
                    assert_eq!(said.status, 200, "{consistency}: {}", said.body);
                }
            }
        }
        // Past the limit on the one, and known to the other.
        assert_eq!(check(&nodes[0], 1, "last").status, 200, "{consistency}");
        assert_eq!(settle(&nodes[0], "last", 5_000).json()["charged"], 4_999);
        wait_until(&format!("{consistency}: the other to refuse"), || {
            let body = r#"{"rule":"api","key":"k"}"#;
            let reply = post(&nodes[1], "/v1/check", body);
            reply.status == 429 && reply.json()["remaining"] == 0
        });
        let report = post(
            &nodes[1],
            "/v1/report",
            r#"{"rule":"api","key":"k","cost":250}"#,
        );
        assert_eq!(
            (report.status, &report.json()["remaining"]),
            (200, &0.into())
        );
        // What was admitted of the other while it did not know is on top.
        let admitted = |node: &Daemon| {
            let labels = [("outcome", "allowed")];
            node.metric("tidegate_checks_total", &labels)
        };
        let extra = admitted(&nodes[0]) + admitted(&nodes[1]) - 7.0;
        assert!((0.0..200.0).contains(&extra), "{consistency}: {extra}");
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let wanted = 2 * (100 + 4_000 + 50) + 5_000 + 250 + extra as u64;
        // What was lent and not used goes back at the end.
        for mut node in nodes {
            assert!(node.terminate().success(), "{consistency}");
        }
        assert_eq!(total(&redis), wanted, "{consistency}");
    }
}

#[test]
fn a_buckets_debt_is_known_to_the_fleet() {
    for consistency in ["approximate", "strict"] {
        let redis = Redis::start();
        let limit = format!(
            "{{ requests: 10000, window: 1d, algorithm: token_bucket, consistency: {consistency} }}"
        );
        let nodes = two(&redis, &rule(&limit));
        assert_eq!(check(&nodes[0], 20, "a").status, 200, "{consistency}");
        assert_eq!(settle(&nodes[0], "a", 15_000).json()["charged"], 14_980);
        wait_until(&format!("{consistency}: the other to refuse"), || {
            let five = Client::connect(nodes[1].resp()).command(&["TG.CHECK", "api", "k"]);
            let five = five.ints();
            // Some 5,000 are to be paid off, at 10,000 a day.
            five[0] == 1 && five[3] > 42_000_000
        });
    }
}
