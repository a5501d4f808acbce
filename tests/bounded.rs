//! Limits with `consistency: bounded`, by daemons and Redis servers that are real
//! processes: never exceeded, although a node is killed and Redis fails over to a replica
//! that has forgotten.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_precision_loss)]

mod kit;

use std::collections::BTreeMap;
use std::time::Duration;

use kit::{Daemon, Drive, Proxy, Redis, counted_in, sum, wait_for_an_edge, wait_until};

const LIMIT: u64 = 600;
const WINDOW: Duration = Duration::from_secs(3);
const NODES: u32 = 3;
/// Twice the limit.
const PER_SECOND: u32 = 134;
const WINDOWS: u32 = 7;

/// What the fleet admitted in each window.
type Admitted = BTreeMap<u64, u64>;

/// Drives three nodes through all windows; `trouble` is made meanwhile, from the beginning
/// of the first one on.
fn drive(store: &str, trouble: impl FnOnce(&mut Vec<Daemon>)) -> (u64, Admitted) {
    let rules = format!(
        "rules:\n- {{ name: api, consistency: bounded, algorithm: fixed_window, limits: {{ \
         requests: {LIMIT}, window: {}s }} }}\n",
        WINDOW.as_secs()
    );
    let start = |_| Daemon::start(&rules, &["--store", store, "--strict-timeout", "2s"]);
    let mut daemons: Vec<Daemon> = (0..NODES).map(start).collect();
    for daemon in &daemons {
        wait_until("the store to answer", || {
            daemon.metric("tidegate_store_up", &[]) == 1.0
        });
    }
    let first = wait_for_an_edge(WINDOW);
    let check = ["TG.CHECK", "api", "shared"];
    let drive = |daemon: &Daemon| Drive::start(daemon.resp(), &check, PER_SECOND, WINDOW * WINDOWS);
    let drives: Vec<Drive> = daemons.iter().map(drive).collect();
    trouble(&mut daemons);
    let mut admitted = Admitted::new();
    for driven in drives.into_iter().map(Drive::join) {
        for sample in driven.samples.iter().filter(|sample| sample.admitted) {
            *admitted.entry(counted_in(sample, WINDOW)).or_default() += 1;
        }
    }
    (first, admitted)
}

/// Waits until `daemon`, which is asked at an even pace, was asked for so many windows.
fn wait_for(daemon: &Daemon, windows: f64) {
    let checks = f64::from(PER_SECOND) * WINDOW.as_secs_f64() * windows;
    wait_until("the load to go on", || {
        let asked = sum(&daemon.metrics(), "tidegate_checks_total", &[]);
        asked.unwrap_or(0.0) >= checks
    });
}

#[test]
fn what_is_lent_is_never_more_than_the_limit_and_nearly_all_of_it() {
    let redis = Redis::start();
    let (first, admitted) = drive(&redis.url(), |_| {});
    println!("admitted of {LIMIT}: {admitted:?}");
    assert!(admitted.values().all(|admitted| *admitted <= LIMIT));
    // From the second window on: the first saw the store for the first time.
    for window in first + 1..first + u64::from(WINDOWS) - 1 {
        let used = admitted.get(&window).copied().unwrap_or(0);
        assert!(used * 100 >= LIMIT * 97, "{window}: {admitted:?}");
    }
}

#[test]
fn a_killed_node_and_a_failover_admit_nothing_beyond_the_limit() {
    let (primary, replica) = (Redis::start(), Redis::start());
    let proxy = Proxy::start(primary.addr());
    let (first, admitted) = drive(&proxy.url(), |daemons| {
        wait_for(&daemons[1], 1.4);
        daemons[0].kill9();
        // A replica that lags by a good part of a window takes over within the next one.
        wait_for(&daemons[1], 2.2);
        replica.follow(&primary);
        replica.promote();
        wait_for(&daemons[1], 2.6);
        proxy.lead_to(replica.addr());
        proxy.cut();
    });
    println!("admitted of {LIMIT}: {admitted:?}");
    assert!(
        admitted.values().all(|admitted| *admitted <= LIMIT),
        "{admitted:?}"
    );
    // The windows that had begun before are given up; then all goes on.
    let last = first + u64::from(WINDOWS) - 2;
    let used = admitted.get(&last).copied().unwrap_or(0);
    assert!(used * 100 >= LIMIT * 90, "{admitted:?}");
}

#[test]
fn a_bounded_limit_that_is_too_small_for_the_fleet_is_in_the_metrics() {
    let redis = Redis::start();
    let rules = "rules:\n\
         - {name: large, limits: {requests: 1000, window: 1h, consistency: bounded, algorithm: fixed_window}}\n\
         - {name: small, limits: {requests: 150, window: 1h, consistency: bounded, algorithm: fixed_window}}\n\
         - {name: other, limits: {requests: 5, window: 1h}}\n";
    let url = redis.url();
    let start = || Daemon::start(rules, &["--store", &url]);
    let first = start();
    let small = |daemon: &Daemon| daemon.metric("tidegate_bounded_limits_too_small", &[]);
    wait_until("one node to be enough", || small(&first) == 0.0);
    let _second = start();
    wait_until("two nodes to be too many", || small(&first) == 1.0);
}
