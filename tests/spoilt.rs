//! A store in which somebody has spoilt many keys of the fleet.

mod kit;

use kit::{Daemon, Redis, resp, wait_until};

const RULES: &str = "rules:
- name: log
  algorithm: sliding_log
  limits: { requests: 100, window: 16s }
";

#[test]
fn many_spoilt_keys_are_told_in_one_line_and_the_store_is_up() {
    let redis = Redis::start();
    let daemon = Daemon::start(RULES, &["--store", &redis.url(), "--partitions", "1"]);
    let mut client = resp::Client::connect(daemon.resp());
    let mut check = || client.command(&["TG.CHECK", "log", "alice"]);
    let spoil = || {
        for key in redis.cli(&["KEYS", "default:{p*"]).lines() {
            redis.cli(&["SET", key, "x"]);
        }
    };
    wait_until("errors of many keys", || {
        check();
        spoil();
        let errors = kit::sum(
            &daemon.metrics(),
            "tidegate_sync_errors_total",
            &[("class", "wrongtype")],
        );
        errors.unwrap_or(0.0) >= 5.0
    });
    assert!(daemon.metric("tidegate_store_up", &[]) > 0.0);
    assert_eq!(daemon.log().matches("holds something else").count(), 1);
}
