//! Four daemons at their limits, and one Redis that is killed for twenty seconds and
//! comes back empty: what each policy for a lost store promises, it keeps.

// The figures of a test are far from any edge.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod kit;

use std::time::Duration;

use kit::http::Reply;
use kit::{Daemon, Drive, Driven, Redis, Sample, counted_in, http, since_epoch};
use kit::{in_one_of_a_few_runs, wait_for_an_edge, wait_until};

const LIMIT: u64 = 1_000;
const WINDOW: Duration = Duration::from_secs(10);
const NODES: usize = 4;
const CHECKS_PER_SECOND: u32 = 500;
/// The fault begins in the second window, when the limit has been reached, and ends in
/// the fourth, when every node has used its share.
const CALM: Duration = Duration::from_secs(13);
const LOST: Duration = Duration::from_secs(20);
const WINDOWS: u32 = 5;

const RULES: &str = "rules:
  - name: share
    limits: { default: { requests: 1000, window: 10s, algorithm: fixed_window } }
  - name: closed
    on_store_loss: closed
    limits: { default: { requests: 1000, window: 10s, algorithm: fixed_window } }
";

fn drive(daemon: &Daemon, rule: &str, per_second: u32) -> Drive {
    let check = ["TG.CHECK", rule, "shared"];
    Drive::start(daemon.resp(), &check, per_second, WINDOW * WINDOWS)
}

fn all_are(daemons: &[Daemon], up: f64) {
    for daemon in daemons {
        wait_until("the store's state to be known", || {
            daemon.metric("tidegate_store_up", &[]) == up
        });
    }
}

fn ask(daemon: &Daemon, rule: &str) -> Reply {
    let body = format!(r#"{{"rule":"{rule}","key":"shared"}}"#);
    http::request(daemon.http(), "POST", "/v1/check", &body)
}

fn join(drives: Vec<Drive>) -> Vec<Driven> {
    drives.into_iter().map(Drive::join).collect()
}

#[test]
fn a_fleet_at_its_limit_keeps_to_it_while_the_store_is_lost_and_afterwards() {
    in_one_of_a_few_runs(a_fleet_keeps_to_its_limit);
}

fn a_fleet_keeps_to_its_limit() -> Result<(), String> {
    let mut redis = Redis::start();
    let url = redis.url();
    let daemons: Vec<Daemon> = (0..NODES)
        .map(|_| Daemon::start(RULES, &["--store", &url]))
        .collect();
    let control = Daemon::start(RULES, &[]);
    all_are(&daemons, 1.0);
    let first = wait_for_an_edge(WINDOW);
    let begin = since_epoch();
    let all = |rule, per_second| -> Vec<Drive> {
        let drives = daemons.iter().map(|daemon| drive(daemon, rule, per_second));
        drives.collect()
    };
    let (share, closed) = (all("share", CHECKS_PER_SECOND), all("closed", 100));
    let beside = drive(&control, "share", CHECKS_PER_SECOND);

    std::thread::sleep((begin + CALM).saturating_sub(since_epoch()));
    let killed = since_epoch();
    redis.kill();
    all_are(&daemons, 0.0);
    let known = since_epoch();
    for daemon in &daemons {
        assert_eq!(ask(daemon, "closed").status, 503);
    }
    std::thread::sleep((killed + LOST).saturating_sub(since_epoch()));
    for daemon in &daemons {
        let reply = ask(daemon, "share");
        assert!([200, 429].contains(&reply.status));
        let stale = reply.json()["stale_ms"].as_u64();
        let stale = Duration::from_millis(stale.expect("it told before"));
        assert!(
            stale + Duration::from_millis(10) >= since_epoch() - killed,
            "{stale:?}"
        );
    }
    let back = since_epoch();
    redis.restart();
    all_are(&daemons, 1.0);
    let all_back = since_epoch();
    println!(
        "lost after {:?}, all back {:?} after the restart",
        known - killed,
        all_back - back
    );
    let (share, closed) = (join(share), join(closed));
    let beside = beside.join();

    for window in first..first + u64::from(WINDOWS) {
        let samples = share.iter().flat_map(|driven| &driven.samples);
        let admitted = samples.filter(|s| s.admitted && counted_in(s, WINDOW) == window);
        let admitted = admitted.count() as u64;
        println!("share, window {}: {admitted} of {LIMIT}", window - first);
        // Every node is asked for more than its share.
        if admitted * 20 > LIMIT * 21 || admitted * 100 < LIMIT * 98 {
            return Err(format!("{admitted} of {LIMIT}"));
        }
    }
    assert!(share.iter().all(|driven| driven.errors.is_empty()));

    for driven in &closed {
        let lost = |sample: &&Sample| sample.at >= known && sample.at < back;
        assert_eq!(driven.samples.iter().filter(lost).count(), 0);
        let unavailable = |error: &String| error.contains("UNAVAILABLE ");
        assert!(driven.errors.iter().all(unavailable), "{:?}", driven.errors);
        // A hundred a second, or a few less where the machine was busy.
        assert!(driven.errors.len() as u64 >= 50 * LOST.as_secs());
        let afterwards = driven.samples.iter().filter(|s| s.at > all_back);
        assert!(afterwards.filter(|sample| sample.admitted).count() > 0);
    }
    kit::nobody_waited("lost for 20 s", (killed, back), &share, &beside);
    Ok(())
}
