//! Daemons whose wall clocks are wrong, or are set while they run: the fleet counts by
//! the store's clock, and a running daemon by no wall clock at all.
//!
//! `libfaketime` gives each daemon a wall clock of its own.

// The figures of a test are far from any edge.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod kit;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kit::{Daemon, Drive, Driven, Redis, counted_in, longest_gap, since_epoch};
use kit::{http, wait_for_an_edge, wait_until};

const LIMIT: u64 = 400;
/// No skew here is a multiple of it: a daemon that read its own clock would count by
/// other edges than the rest.
const WINDOW: Duration = Duration::from_secs(4);
const WINDOWS: u32 = 3;
const CHECKS_PER_SECOND: u32 = 200;
const RULES: &str = "rules:
  - name: strict
    consistency: strict
    limits: { default: { requests: 400, window: 4s, algorithm: fixed_window } }
  - name: approximate
    limits: { default: { requests: 400, window: 4s, algorithm: fixed_window } }
  - name: day
    limits: { default: { requests: 5, window: day } }
";

/// The library that fakes the wall clock of a program.
fn library() -> PathBuf {
    let name = Path::new("faketime/libfaketimeMT.so.1");
    let places = std::fs::read_dir("/usr/lib").expect("the system's libraries");
    let places = places.map(|place| place.expect("a directory").path().join(name));
    let found = places.into_iter().find(|place| place.exists());
    found.expect("libfaketime is installed: see tests/run")
}

/// A daemon whose wall clock is what `clock` says, a file that may change; its
/// monotonic clock is the machine's.
fn with_clock(clock: &Path, args: &[&str]) -> Daemon {
    let (library, clock) = (library(), clock.display().to_string());
    let environment = [
        ("LD_PRELOAD", library.to_str().expect("a path")),
        ("FAKETIME_TIMESTAMP_FILE", &clock),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ];
    Daemon::start_in(RULES, args, &environment)
}

/// The daemon's wall clock, as its last log line tells it, less the machine's: in whole
/// seconds.
fn skew(daemon: &Daemon) -> i64 {
    let log = daemon.log();
    let line = log.lines().last().expect("it has said something");
    let time = line.split_whitespace().next().expect("a time");
    let date = Command::new("date").args(["-d", time, "+%s"]).output();
    let seconds = String::from_utf8(date.expect("date can be run").stdout).expect("a number");
    let seconds: i64 = seconds.trim().parse().expect("seconds");
    seconds - since_epoch().as_secs() as i64
}

fn drive(daemon: &Daemon, rule: &str) -> Drive {
    let check = ["TG.CHECK", rule, "shared"];
    Drive::start(daemon.resp(), &check, CHECKS_PER_SECOND, WINDOW * WINDOWS)
}

fn join(drives: Vec<Drive>) -> Vec<Driven> {
    drives.into_iter().map(Drive::join).collect()
}

/// What was admitted in each window that the daemons say they counted in, after all of
/// them were seen to mean the same edges.
fn admitted(driven: &[Driven], first: u64) -> Vec<u64> {
    for sample in driven.iter().flat_map(|driven| &driven.samples) {
        let end = sample.at + Duration::from_millis(sample.reset_after as u64);
        let past = end + WINDOW / 2 - WINDOW * (counted_in(sample, WINDOW) as u32 + 1);
        let off = past.abs_diff(WINDOW / 2);
        assert!(
            off <= sample.latency + Duration::from_millis(20),
            "{sample:?} ends {off:?} from an edge"
        );
    }
    let samples = || driven.iter().flat_map(|driven| &driven.samples);
    let of = |window| samples().filter(move |s| s.admitted && counted_in(s, WINDOW) == window);
    (first..first + u64::from(WINDOWS))
        .map(|window| of(window).count() as u64)
        .collect()
}

#[test]
fn three_daemons_with_three_wall_clocks_count_in_one_window() {
    let redis = Redis::start();
    let place = tempfile::tempdir().expect("a temporary directory");
    let skews: [i32; 3] = [0, 5, -90];
    let daemons = skews.map(|skew| {
        let clock = place.path().join(format!("clock{skew}"));
        std::fs::write(&clock, format!("{skew:+}")).expect("a file can be written");
        let args = ["--store", &redis.url(), "--strict-timeout", "5s"];
        with_clock(&clock, &args)
    });
    for (daemon, wanted) in daemons.iter().zip(skews) {
        wait_until("the store to answer", || {
            daemon.metric("tidegate_store_up", &[]) == 1.0
        });
        assert!(
            skew(daemon).abs_diff(wanted.into()) <= 1,
            "{}",
            daemon.log()
        );
        // The store's clock is this machine's.
        let offset = daemon.metric("tidegate_clock_offset_seconds", &[]);
        let error = daemon.metric("tidegate_clock_offset_error_seconds", &[]);
        println!("{wanted:+} s: the store is {offset:+} s ahead, within {error} s");
        assert!(error > 0.0 && error < 0.5, "{error}");
        assert!(
            (offset + f64::from(wanted)).abs() <= error + 0.001,
            "{offset}"
        );
    }
    let first = wait_for_an_edge(WINDOW);
    let all = |rule| -> Vec<Drive> { daemons.iter().map(|one| drive(one, rule)).collect() };
    let (strict, approximate) = (all("strict"), all("approximate"));
    let (strict, approximate) = (join(strict), join(approximate));
    assert!(strict.iter().all(|driven| driven.errors.is_empty()));
    let exact = admitted(&strict, first);
    let near = admitted(&approximate, first);
    println!("limit {LIMIT}: strict {exact:?}, approximate {near:?}");
    assert_eq!(exact, [LIMIT; WINDOWS as usize]);
    let gap = approximate
        .iter()
        .map(|driven| longest_gap(driven, |_| true));
    // While one stands still the others do not hear of it; checks are 5 ms apart.
    let stall = gap.max().unwrap_or_default();
    let stall = stall.saturating_sub(Duration::from_millis(15));
    let others = u128::from(CHECKS_PER_SECOND * 2);
    let allowance = (others * stall.as_nanos()).div_ceil(1_000_000_000) as u64;
    for admitted in near {
        let bound = LIMIT + LIMIT / 50 + allowance;
        assert!(admitted <= bound, "{admitted} of at most {bound}");
        assert!(admitted * 100 >= LIMIT * 98, "{admitted} of {LIMIT}");
    }
}

#[test]
fn a_wall_clock_that_is_set_changes_no_decision_of_a_fleet() {
    let redis = Redis::start();
    setting_the_clock_changes_nothing(&["--store", &redis.url()]);
}

#[test]
fn a_wall_clock_that_is_set_changes_no_decision_of_a_node_alone() {
    setting_the_clock_changes_nothing(&[]);
}

/// Three daemons, each of which counts a caller of its own, and has its clock set.
fn setting_the_clock_changes_nothing(args: &[&str]) {
    let place = tempfile::tempdir().expect("a temporary directory");
    let hour = 3_600;
    let steps = [-hour, hour, -400 * 24 * hour];
    let clocks = steps.map(|step: i64| place.path().join(format!("step{step}")));
    let mut daemons = clocks.each_ref().map(|clock| {
        std::fs::write(clock, "+0").expect("a file can be written");
        with_clock(clock, args)
    });
    let used_up = |key: &str, daemon: &Daemon| {
        let mut client = kit::resp::Client::connect(daemon.resp());
        client.command(&["TG.CHECK", "day", key]).ints()
    };
    let begin = since_epoch();
    let mut ends = Vec::new();
    for (number, daemon) in daemons.iter().enumerate() {
        if !args.is_empty() {
            wait_until("the store to answer", || {
                daemon.metric("tidegate_store_up", &[]) == 1.0
            });
        }
        let key = number.to_string();
        for _ in 0..5 {
            assert_eq!(used_up(&key, daemon)[0], 0);
        }
        let told = used_up(&key, daemon);
        assert_eq!(told[..3], [1, 5, 0]);
        ends.push(since_epoch() + Duration::from_millis(told[4] as u64));
    }
    let first = wait_for_an_edge(WINDOW);
    let keys = ["0", "1", "2"];
    let drives = daemons.iter().zip(keys).map(|(daemon, key)| {
        let check = ["TG.CHECK", "approximate", key];
        Drive::start(daemon.resp(), &check, CHECKS_PER_SECOND, WINDOW * WINDOWS)
    });
    let drives: Vec<Drive> = drives.collect();
    // In the middle of a window.
    let middle = WINDOW * (first as u32 + 1) + WINDOW / 2;
    std::thread::sleep(middle.saturating_sub(since_epoch()));
    for (clock, step) in clocks.iter().zip(steps) {
        // Whole at once: an empty file is no clock.
        let new = clock.with_extension("new");
        std::fs::write(&new, format!("{step:+}")).expect("a file can be written");
        std::fs::rename(&new, clock).expect("a file can be renamed");
    }
    for driven in join(drives) {
        assert_eq!(driven.errors, [""; 0]);
        let admitted = admitted(std::slice::from_ref(&driven), first);
        println!("{args:?}: {admitted:?} of {LIMIT}");
        assert_eq!(admitted, [LIMIT; WINDOWS as usize]);
    }
    for (number, daemon) in daemons.iter_mut().enumerate() {
        // The day may have ended: then all begin another.
        let told = used_up(&number.to_string(), daemon);
        let end = since_epoch() + Duration::from_millis(told[4] as u64);
        let same_day = begin.as_secs() / 86_400 == since_epoch().as_secs() / 86_400;
        if same_day {
            assert_eq!(told[..3], [1, 5, 0]);
            let moved = end.abs_diff(ends[number]);
            assert!(moved <= Duration::from_secs(1), "{moved:?}");
        }
        assert!(daemon.terminate().success());
        // Its wall clock had been set indeed.
        let off = skew(daemon).abs_diff(steps[number]);
        assert!(off <= 3, "{}", daemon.log());
    }
}

/// The day that everybody counts in is that of UTC, or of the zone that the rule names,
/// whatever the process thinks of the time of day where it is.
#[test]
fn the_time_zone_of_a_daemon_changes_no_window() {
    let redis = Redis::start();
    let rules = "
defaults: {consistency: strict}
rules:
- {name: fixed, algorithm: fixed_window, limits: {requests: 10, window: 1d}}
- {name: day, limits: {requests: 10, window: day}}
- {name: nepal, limits: {requests: 10, window: day, time_zone: Asia/Kathmandu}}
- {name: week, limits: {requests: 10, window: week}}
";
    let zones = ["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Apia"];
    let url = redis.url();
    let daemons = zones.map(|zone| {
        let args = ["--store", &url, "--strict-timeout", "10s"];
        Daemon::start_in(rules, &args, &[("TZ", zone)])
    });
    let check = |daemon: &Daemon, rule: &str, cost: u64| {
        let body = format!(r#"{{"rule":"{rule}","key":"k","cost":{cost}}}"#);
        http::request(daemon.http(), "POST", "/v1/check", &body)
    };
    let ask = |rule| {
        let told = daemons.iter().map(|daemon| {
            let reply = check(daemon, rule, 1);
            let number = |name| reply.header(name).unwrap().parse::<u64>().unwrap();
            let policy = reply.header("ratelimit-policy").unwrap().to_owned();
            let (left, reset) = ("x-ratelimit-remaining", "x-ratelimit-reset");
            (number(left), number(reset), policy)
        });
        told.collect::<Vec<_>>()
    };
    wait_until("all daemons to be served by the store", || {
        let mut replies = daemons.iter().map(|daemon| check(daemon, "fixed", 0));
        replies.all(|reply| reply.json()["stale_ms"] == 0)
    });
    let day = 86_400;
    // When they end in UTC, and how long they are; the epoch was a Thursday.
    for (rule, from, length) in [
        ("fixed", 0, day),
        ("day", 0, day),
        ("nepal", day - (5 * 3_600 + 45 * 60), day),
        ("week", 4 * day, 7 * day),
    ] {
        // A midnight between two checks is over when they are asked again.
        let told = (0..2)
            .map(|_| ask(rule))
            .find(|told| told.iter().all(|(_, reset, _)| *reset == told[0].1));
        let told = told.unwrap();
        assert_eq!(told[0].1 % length, from, "{rule}");
        let policy = &told[0].2;
        assert!(policy.contains(&format!(";w={length}")), "{rule}: {policy}");
        let left: Vec<u64> = told.iter().map(|(left, ..)| *left).collect();
        assert!(
            left.windows(2).all(|pair| pair[1] + 1 == pair[0]),
            "{rule}: {left:?}"
        );
    }
}
