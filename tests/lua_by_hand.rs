//! The scripts under `lua/` that people use with `redis-cli`, run by a real Redis
//! and held against oracles in exact arithmetic.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::collections::HashMap;
use std::process::{Command, Stdio};

use kit::Redis;
use redis::{Connection, FromRedisValue, RedisResult, Script, Value};

const SCRIPTS: [&str; 5] = [
    "fixed_window",
    "sliding_window",
    "sliding_log",
    "token_bucket",
    "leaky_bucket",
];

fn source(script: &str) -> String {
    let path = format!("{}/lua/{script}.lua", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A Redis and a connection to it.
struct Bench {
    redis: Redis,
    connection: Connection,
    scripts: HashMap<&'static str, Script>,
}

impl Bench {
    fn new() -> Bench {
        let redis = Redis::start();
        let connection = redis.connect();
        let scripts = SCRIPTS
            .map(|name| (name, Script::new(&source(name))))
            .into();
        Bench {
            redis,
            connection,
            scripts,
        }
    }

    fn try_run(&mut self, script: &str, key: &str, args: &[&str]) -> RedisResult<Value> {
        let mut call = self.scripts[script].prepare_invoke();
        call.key(key);
        for arg in args {
            call.arg(*arg);
        }
        call.invoke(&mut self.connection)
    }

    /// The numbers of the answer.
    fn run(&mut self, script: &str, key: &str, args: &[&str]) -> Vec<i64> {
        let answer = self.try_run(script, key, args);
        answer
            .and_then(|value| match value {
                Value::Int(number) => Ok(vec![number]),
                other => Ok(Vec::<i64>::from_redis_value(other)?),
            })
            .unwrap_or_else(|error| panic!("{script} {key} {args:?}: {error}"))
    }

    /// The same through `redis-cli EVAL`.
    fn run_by_hand(&self, script: &str, key: &str, args: &[&str]) -> String {
        let source = source(script);
        let command = ["EVAL", source.as_str(), "1", key];
        self.redis.cli(&[&command[..], args].concat())
    }

    fn error(&mut self, script: &str, key: &str, args: &[&str]) -> String {
        match self.try_run(script, key, args) {
            Err(error) => error.to_string(),
            Ok(value) => panic!("{script} {args:?} answered {value:?}"),
        }
    }

    fn ttl_ms(&mut self, key: &str) -> i64 {
        let ttl = redis::cmd("PTTL").arg(key).query(&mut self.connection);
        ttl.expect("PTTL answers")
    }

    /// All that a key holds and when it expires, to see that nothing changed.
    fn dump(&mut self, key: &str) -> (Option<Vec<u8>>, i64) {
        let dump = redis::cmd("DUMP").arg(key).query(&mut self.connection);
        let expiry = redis::cmd("PEXPIRETIME")
            .arg(key)
            .query(&mut self.connection);
        (
            dump.expect("DUMP answers"),
            expiry.expect("PEXPIRETIME answers"),
        )
    }
}

/// Arguments for a script: an amount per `window` seconds, at `now` in µs.
fn args(script: &str, amount: u64, window: u64, now: u64, cost: u64) -> Vec<String> {
    let secs = format!("{}.{:06}", now / 1_000_000, now % 1_000_000);
    match script {
        "fixed_window" | "sliding_window" => {
            vec![
                amount.to_string(),
                window.to_string(),
                secs,
                cost.to_string(),
            ]
        }
        "sliding_log" => vec![
            (now / 1_000).to_string(),
            window.to_string(),
            amount.to_string(),
            cost.to_string(),
        ],
        // The bucket drains in `window` seconds: `amount` is a multiple of it here.
        _ => vec![
            amount.to_string(),
            (amount / window).max(1).to_string(),
            secs,
            cost.to_string(),
        ],
    }
}

fn check(bench: &mut Bench, script: &str, key: &str, now: u64, cost: u64) -> Vec<i64> {
    let args = args(script, 10, 10, now, cost);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    bench.run(script, key, &args)
}

/// A moment at which every window of 10 s begins, in µs.
const T: u64 = 1_700_000_000_000_000;
const SECOND: u64 = 1_000_000;

#[test]
fn ten_are_admitted_at_once_and_the_eleventh_is_refused_and_changes_nothing() {
    let mut bench = Bench::new();
    for script in SCRIPTS {
        for used in 1..=10 {
            let answer = check(&mut bench, script, script, T, 1);
            assert_eq!(answer[0], 1, "{script} {used}");
            if script != "sliding_log" {
                assert_eq!(answer[1], 10 - used, "{script} {used}");
            }
        }
        let before = bench.dump(script);
        assert!(before.0.is_some());
        for cost in [1, 0, 10, 11, u64::MAX] {
            let answer = check(&mut bench, script, script, T + 1, cost);
            assert_eq!(answer[0], 0, "{script} cost {cost}");
            assert!(answer[1..].iter().all(|&number| number == 0), "{script}");
        }
        assert_eq!(bench.dump(script), before, "{script}");
    }
}

#[test]
fn a_peek_answers_and_leaves_no_key() {
    let mut bench = Bench::new();
    for script in SCRIPTS {
        let answer = check(&mut bench, script, script, T, 0);
        let whole = [1, 10, 0];
        assert_eq!(answer, whole[..answer.len()], "{script}");
        assert_eq!(bench.dump(script), (None, -2), "{script}");
    }
}

#[test]
fn a_cost_above_the_capacity_is_refused_when_nothing_is_used() {
    let mut bench = Bench::new();
    for script in SCRIPTS {
        for cost in [11, 1 << 53, u64::MAX] {
            assert_eq!(
                check(&mut bench, script, script, T, cost)[0],
                0,
                "{script} {cost}"
            );
        }
        assert_eq!(bench.dump(script), (None, -2), "{script}");
        assert_eq!(check(&mut bench, script, script, T, 10)[0], 1, "{script}");
    }
}

#[test]
fn a_limit_of_zero_refuses_hits_and_peeks() {
    let mut bench = Bench::new();
    for script in SCRIPTS {
        for cost in [0, 1] {
            let args = args(script, 0, 10, T, cost);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let answer = bench.run(script, script, &args);
            assert!(
                answer.iter().all(|&number| number == 0),
                "{script} {answer:?}"
            );
        }
        assert_eq!(bench.dump(script), (None, -2), "{script}");
    }
}

#[test]
fn capacity_returns_at_the_exact_moment_and_not_before() {
    let mut bench = Bench::new();
    // When the next one fits after ten at T, and the tick of the script's clock.
    for (script, wait, tick) in [
        ("fixed_window", 10 * SECOND, 1),
        // Of ten in the previous window nine still count one second into the next.
        ("sliding_window", 11 * SECOND, 1),
        ("sliding_log", 10 * SECOND, 1_000),
        ("token_bucket", SECOND, 1),
        ("leaky_bucket", SECOND, 1),
    ] {
        assert_eq!(check(&mut bench, script, script, T, 10)[0], 1, "{script}");
        assert_eq!(
            check(&mut bench, script, script, T + wait - tick, 1)[0],
            0,
            "{script}"
        );
        assert_eq!(
            check(&mut bench, script, script, T + wait, 1)[0],
            1,
            "{script}"
        );
    }
}

#[test]
fn a_clock_that_steps_back_neither_repays_nor_freezes() {
    let mut bench = Bench::new();
    for script in SCRIPTS {
        assert_eq!(
            check(&mut bench, script, script, T + SECOND, 9)[0],
            1,
            "{script}"
        );
        // Nine seconds back, within a window: the nine still count, one fits.
        assert_eq!(
            check(&mut bench, script, script, T - 8 * SECOND, 2)[0],
            0,
            "{script}"
        );
        assert_eq!(
            check(&mut bench, script, script, T - 8 * SECOND, 1)[0],
            1,
            "{script}"
        );
        assert_eq!(
            check(&mut bench, script, script, T - 8 * SECOND, 1)[0],
            0,
            "{script}"
        );
        // The time that passed twice is not repaid twice.
        assert_eq!(
            check(&mut bench, script, script, T + SECOND, 1)[0],
            0,
            "{script}"
        );
        assert_eq!(
            check(&mut bench, script, script, T + 21 * SECOND, 10)[0],
            1,
            "{script}"
        );
    }
}

#[test]
fn a_record_from_far_ahead_counts_for_nothing() {
    let mut bench = Bench::new();
    for script in SCRIPTS {
        assert_eq!(
            check(&mut bench, script, script, T + 3_600 * SECOND, 10)[0],
            1,
            "{script}"
        );
        assert_eq!(check(&mut bench, script, script, T, 10)[0], 1, "{script}");
        assert_eq!(check(&mut bench, script, script, T, 1)[0], 0, "{script}");
        assert_eq!(
            check(&mut bench, script, script, T + 20 * SECOND, 10)[0],
            1,
            "{script}"
        );
    }
}

#[test]
fn a_key_expires_soon_after_it_means_nothing() {
    let mut bench = Bench::new();
    // After ten at T + 3 s: until when it means something, and how much longer the
    // script promises to keep it, in ms.
    for (script, meaning, margin) in [
        ("fixed_window", 7_000, 10_000),
        ("sliding_window", 17_000, 1_000),
        ("sliding_log", 10_000, 1_000),
        ("token_bucket", 10_000, 1_000),
        ("leaky_bucket", 10_000, 1_000),
    ] {
        check(&mut bench, script, script, T + 3 * SECOND, 10);
        let ttl = bench.ttl_ms(script);
        assert!(ttl > meaning && ttl <= meaning + margin, "{script}: {ttl}");
    }
    // The same hit seen by a clock that steps back 4 s: it means something longer.
    for (script, meaning) in [("sliding_log", 14_000), ("token_bucket", 6_000)] {
        let key = format!("{script}:back");
        check(&mut bench, script, &key, T + 3 * SECOND, 1);
        check(&mut bench, script, &key, T - SECOND, 1);
        let ttl = bench.ttl_ms(&key);
        assert!(ttl > meaning && ttl <= meaning + 1_000, "{script}: {ttl}");
    }
}

#[test]
fn an_expiry_is_set_for_the_shortest_and_the_longest_window() {
    let mut bench = Bench::new();
    for script in ["fixed_window", "sliding_window"] {
        let longest = ["5", "316224000", "1700000000", "1"];
        assert_eq!(bench.run(script, "long", &longest), [1, 4]);
        assert!(bench.ttl_ms("long") > 1_000);
        assert_eq!(
            bench.run(script, "short", &["5", "0.001", "1700000000", "1"]),
            [1, 4]
        );
        redis::cmd("DEL")
            .arg("long")
            .exec(&mut bench.connection)
            .unwrap();
    }
    let longest = ["1700000000000", "316224000", "5"];
    assert_eq!(bench.run("sliding_log", "log", &longest), [1]);
    assert!(bench.ttl_ms("log") > 316_224_000_000);
    // 94 years to drain.
    let slow = ["3000000", "0.001", "1700000000", "3000000"];
    assert_eq!(bench.run("token_bucket", "bucket", &slow), [1, 0]);
    let drain = 3_000_000_000_000;
    assert!((drain..=drain + 1_000).contains(&bench.ttl_ms("bucket")));
}

#[test]
fn hits_of_one_instant_are_all_remembered_and_refused_ones_are_not() {
    let mut bench = Bench::new();
    let at = |now: &'static str| [now, "60", "3"];
    let mut answers = Vec::new();
    for _ in 0..5 {
        answers.extend(bench.run("sliding_log", "log", &at("1700000000000")));
    }
    assert_eq!(answers, [1, 1, 1, 0, 0]);
    assert_eq!(bench.redis.cli(&["ZCARD", "log"]), "3");
    assert_eq!(bench.run("sliding_log", "log", &at("1700000059999")), [0]);
    assert_eq!(bench.run("sliding_log", "log", &at("1700000060000")), [1]);
    assert_eq!(bench.redis.cli(&["ZCARD", "log"]), "1");
}

#[test]
fn a_log_takes_a_cost_of_its_whole_limit() {
    let mut bench = Bench::new();
    let all = ["1700000000000", "60", "100000", "99999"];
    assert_eq!(bench.run("sliding_log", "log", &all), [1]);
    assert_eq!(bench.redis.cli(&["ZCARD", "log"]), "99999");
    let one = &all[..3];
    assert_eq!(bench.run("sliding_log", "log", one), [1]);
    assert_eq!(bench.run("sliding_log", "log", one), [0]);
}

#[test]
fn large_numbers_lose_nothing() {
    let mut bench = Bench::new();
    let most = (1_u64 << 53) - 1;
    let limit = most.to_string();
    for script in ["fixed_window", "sliding_window"] {
        let mut take = |cost: u64| {
            bench.run(
                script,
                script,
                &[&limit, "60", "1700000000", &cost.to_string()],
            )
        };
        assert_eq!(take(most - 2), [1, 2]);
        assert_eq!(take(3), [0, 2]);
        assert_eq!(take(1), [1, 1]);
        assert_eq!(take(1), [1, 0]);
    }
    // The previous window's count times what is left of it is far above 2^53.
    let next = bench.run(
        "sliding_window",
        "sliding_window",
        &[&limit, "60", "1700000090", "0"],
    );
    let used = (u128::from(most) * 10).div_ceil(60);
    let next: Vec<u128> = next.iter().map(|n| u128::from(n.unsigned_abs())).collect();
    assert_eq!(next, [1, u128::from(most) - used]);

    // 9,000,000,000 tokens in units of a millionth are just below 2^53.
    let mut take = |now: &str, cost: &str| {
        let args = ["9000000000", "9000000000", now, cost];
        bench.run("token_bucket", "bucket", &args)
    };
    assert_eq!(take("1700000000", "8999999999"), [1, 1]);
    assert_eq!(take("1700000000", "2"), [0, 1]);
    assert_eq!(take("1700000000", "1"), [1, 0]);
    assert_eq!(take("1700000000.000001", "9000"), [1, 0]);
}

#[test]
fn a_new_rate_keeps_the_debt_and_repays_it_at_the_new_pace() {
    let mut bench = Bench::new();
    let mut take = |rate: &str, now: &str, cost: &str| {
        bench.run("token_bucket", "bucket", &["100", rate, now, cost])
    };
    assert_eq!(take("10", "1000", "100"), [1, 0]);
    assert_eq!(take("0.25", "1004", "0"), [1, 1]);
    assert_eq!(take("0.25", "1004", "1"), [1, 0]);
    assert_eq!(take("2.5", "1010", "15"), [1, 0]);
    assert_eq!(take("2.5", "1010", "1"), [0, 0]);
}

#[test]
fn a_changed_limit_keeps_what_was_used() {
    let mut bench = Bench::new();
    for script in ["fixed_window", "sliding_window"] {
        let mut take = |limit: &str, cost: &str| {
            bench.run(script, script, &[limit, "3600", "1700000000", cost])
        };
        assert_eq!(take("100", "60"), [1, 40], "{script}");
        assert_eq!(take("10", "0"), [0, 0], "{script}");
        assert_eq!(take("100", "0"), [1, 40], "{script}");
    }
}

#[test]
fn a_window_id_never_repeats_although_the_key_outlives_its_window() {
    let mut bench = Bench::new();
    let day = 86_400 * SECOND;
    for script in SCRIPTS {
        check(&mut bench, script, script, T, 10);
        redis::cmd("PERSIST")
            .arg(script)
            .exec(&mut bench.connection)
            .unwrap();
        assert_eq!(
            check(&mut bench, script, script, T + day, 10)[0],
            1,
            "{script}"
        );
    }
}

#[test]
fn a_window_of_a_calendar_is_told_by_when_it_begins_and_ends() {
    let mut bench = Bench::new();
    // 29 March 2026 in Berlin, 23 hours long, and the days beside it.
    let (before, from, to, after) = (1_774_652_400, 1_774_738_800, 1_774_821_600, 1_774_908_000);
    let days = [(before, from), (from, to), (to, after)];
    let mut run = |day: (u64, u64), now: u64, cost: u64| {
        let window = format!("{}-{}", day.0, day.1);
        let (now, cost) = (format!("{now}.5"), cost.to_string());
        bench.run("fixed_window", "day", &["10", &window, &now, &cost])
    };
    assert_eq!(run(days[0], from - 1, 10), [1, 0]);
    assert_eq!(run(days[1], from, 4), [1, 6]);
    assert_eq!(run(days[1], to - 1, 7), [0, 6]);
    assert_eq!(run(days[1], to - 1, 6), [1, 0]);
    assert_eq!(run(days[2], to, 3), [1, 7]);
    // Who is behind stays in the newest window.
    assert_eq!(run(days[1], to - 2, 1), [1, 6]);
    assert_eq!(run(days[2], to, 0), [1, 6]);
    let ttl = bench.ttl_ms("day");
    assert!(ttl > 86_400_000 && ttl <= 2 * 86_400_000, "{ttl}");
}

#[test]
fn a_leaky_bucket_spaces_what_it_admits() {
    let mut bench = Bench::new();
    let mut take =
        |now: &str, cost: &str| bench.run("leaky_bucket", "queue", &["4", "3", now, cost]);
    assert_eq!(take("1000", "1"), [1, 3, 0]);
    assert_eq!(take("1000", "1"), [1, 2, 334]);
    assert_eq!(take("1000", "2"), [1, 0, 667]);
    assert_eq!(take("1000", "1"), [0, 0, 0]);
    // A second leaks three, one is left before the next.
    assert_eq!(take("1001", "1"), [1, 2, 334]);
    // A clock half a second back: its wait is until the same moment.
    assert_eq!(take("1000.5", "0"), [1, 2, 1_167]);
}

#[test]
fn what_was_spent_already_is_charged_past_the_limit_and_refunded_to_zero_at_most() {
    let mut bench = Bench::new();
    for script in SCRIPTS {
        let mut run = |now: u64, cost: u64, how: &str| {
            let mut args = args(script, 10, 10, now, cost);
            if !how.is_empty() {
                args.push(how.to_owned());
            }
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let said = bench.run(script, script, &args);
            // The log tells only whether there is room.
            (said[0], said.get(1).copied())
        };
        let told = |room: i64, left: i64| (room, (script != "sliding_log").then_some(left));
        assert_eq!(run(T, 4, ""), told(1, 6), "{script}");
        assert_eq!(run(T, 3, "charge"), told(1, 3), "{script}");
        assert_eq!(run(T, 2, "refund"), told(1, 5), "{script}");
        assert_eq!(run(T, 1, ""), told(1, 4), "{script}");
        assert_eq!(run(T, 1_000_000, "charge"), told(0, 0), "{script}");
        assert_eq!(run(T, 1, ""), told(0, 0), "{script}");
        let closed = match script {
            // 10 more than the capacity is all that it owes.
            "token_bucket" | "leaky_bucket" => 11 * SECOND,
            // It weighs the next window down to its end, all but a millionth.
            "sliding_window" => 20 * SECOND - 89,
            _ => 10 * SECOND,
        };
        assert_eq!(run(T + closed - 1_000, 1, "").0, 0, "{script}");
        assert_eq!(run(T + closed, 1, "").0, 1, "{script}");
        let later = T + 60 * SECOND;
        assert_eq!(run(later, 7, "charge"), told(1, 3), "{script}");
        assert_eq!(run(later, 1_000_000, "refund"), told(1, 10), "{script}");
        assert_eq!(run(later, 10, "").0, 1, "{script}");
        assert_eq!(run(later, 0, "charge").0, 0, "{script}");
    }
}

#[test]
fn wrong_arguments_are_errors_that_say_what_is_meant_and_change_nothing() {
    let mut bench = Bench::new();
    let windows = |script| {
        [
            (script, vec!["ten", "60", "1000"], "limit must be"),
            (script, vec!["-1", "60", "1000"], "limit must be"),
            (script, vec!["1.5", "60", "1000"], "limit must be"),
            (script, vec!["0x10", "60", "1000"], "limit must be"),
            (
                script,
                vec!["9007199254740992", "60", "1000"],
                "limit must be",
            ),
            (script, vec!["1", "0", "1000"], "window must be"),
            (script, vec!["1", "0.0009", "1000"], "window must be"),
            (script, vec!["1", "316224001", "1000"], "window must be"),
            (script, vec!["1", "1m", "1000"], "window must be"),
            (script, vec!["1", "60", "-1"], "now must be"),
            (script, vec!["1", "60", "nan"], "now must be"),
            (script, vec!["1", "60", "1e300"], "now must be"),
            (script, vec!["1", "60", "9007199255"], "now must be"),
            (script, vec!["1", "60", "."], "now must be"),
            (script, vec!["1", "60", "1000", "-1"], "cost must be"),
            (script, vec!["1", "60", "1000", "1.5"], "cost must be"),
            (script, vec!["1", "60", "1000", ""], "cost must be"),
            (
                script,
                vec!["1", "60"],
                "usage: 1 key limit window_s now_s [cost [charge|refund]]",
            ),
            (
                script,
                vec!["1", "60", "1000", "1", "1"],
                "charge or refund",
            ),
            (
                script,
                vec!["1", "60", "1000", "1", "charge", "1"],
                "usage:",
            ),
        ]
    };
    let buckets = |script| {
        [
            (script, vec!["-1", "1", "1000"], "capacity must be"),
            (
                script,
                vec!["9007199254740992", "1", "1000"],
                "capacity must be",
            ),
            (script, vec!["1", "0", "1000"], "per second, above 0"),
            (script, vec!["1", "-1", "1000"], "per second, above 0"),
            (script, vec!["1", "inf", "1000"], "per second, above 0"),
            (script, vec!["1", "1e3", "1000"], "per second, above 0"),
            (script, vec!["1", "1", "now"], "now must be"),
            (script, vec!["1", "1", "1000", "x"], "cost must be"),
            (
                script,
                vec!["4000000000", "1", "1000"],
                "more than a century",
            ),
            (script, vec!["1", "1"], "usage: 1 key capacity"),
        ]
    };
    let log = |args, meant| ("sliding_log", args, meant);
    let mut cases = vec![
        log(vec!["1000.5", "60", "1"], "now must be whole milliseconds"),
        log(vec!["-1", "60", "1"], "now must be"),
        log(vec!["1000", "0", "1"], "window must be"),
        log(vec!["1000", "60", "100001"], "limit must be"),
        log(vec!["1000", "60", "x"], "limit must be"),
        log(vec!["1000", "60", "1", "x"], "cost must be"),
        log(
            vec!["1000", "60"],
            "usage: 1 key now_ms window_s limit [cost [charge|refund]]",
        ),
    ];
    cases.extend(windows("fixed_window"));
    cases.extend(
        [
            ("60-", "1000", "window must be"),
            ("-60", "50", "window must be"),
            ("x-y", "1000", "window must be"),
            ("60-60", "60", "window must be"),
            ("60-50", "55", "window must be"),
            ("0-9007199255", "60", "window must be"),
            ("60-120", "59.999999", "now must be in the window"),
            ("60-120", "120", "now must be in the window"),
        ]
        .map(|(window, now, meant)| ("fixed_window", vec!["1", window, now], meant)),
    );
    cases.extend(windows("sliding_window"));
    cases.extend(buckets("token_bucket"));
    cases.extend(buckets("leaky_bucket"));
    for (script, args, meant) in cases {
        let error = bench.error(script, "key", &args);
        assert!(error.contains(meant), "{script} {args:?}: {error}");
        let by_hand = bench.run_by_hand(script, "key", &args);
        assert!(by_hand.starts_with("ERR "), "{script} {args:?}: {by_hand}");
        assert_eq!(bench.dump("key"), (None, -2), "{script} {args:?}");
    }
    // No key and two keys.
    for script in SCRIPTS {
        let source = source(script);
        for keys in [&["0"][..], &["2", "a", "b"]] {
            let command = [&["EVAL", source.as_str()], keys, &["1", "60", "1000"]].concat();
            assert!(
                bench.redis.cli(&command).starts_with("ERR usage: 1 key"),
                "{script}"
            );
        }
    }
}

#[test]
fn a_key_of_another_kind_is_an_error_and_stays_as_it_is() {
    let mut bench = Bench::new();
    for script in SCRIPTS {
        bench.redis.cli(&["SET", script, "something else"]);
        let before = bench.dump(script);
        let error = bench.error(script, script, &["1", "60", "1000"]);
        assert!(error.contains("WRONGTYPE"), "{script}: {error}");
        assert_eq!(bench.dump(script), before);
    }
}

#[test]
fn redis_cli_and_a_client_library_have_the_same_answers() {
    let mut bench = Bench::new();
    for script in SCRIPTS {
        for step in 0..15 {
            let args = args(script, 10, 10, T + step * SECOND / 7, 1);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let lines = bench.run_by_hand(script, "by hand", &args);
            let by_hand: Vec<i64> = lines.lines().map(|n| n.parse().unwrap()).collect();
            assert_eq!(
                bench.run(script, "library", &args),
                by_hand,
                "{script} {args:?}"
            );
        }
        bench.redis.cli(&["DEL", "by hand", "library"]);
    }
}

/// Runs a shell line as an operator would, from the root of the repository, with a
/// `redis-cli` that finds the test's Redis.
fn shell(redis: &Redis, line: &str) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let wrapper = dir.path().join("redis-cli");
    let path = std::env::var("PATH").unwrap();
    let text = format!(
        "#!/bin/sh\nPATH='{path}' exec redis-cli -s '{}' \"$@\"\n",
        redis.socket().display()
    );
    std::fs::write(&wrapper, text).unwrap();
    std::fs::set_permissions(&wrapper, PermissionsExt::from_mode(0o755)).unwrap();
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("PATH", format!("{}:{path}", dir.path().display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The lines of a text that show how to run a script by hand.
fn examples(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| {
            line.trim_start_matches(['-', ' ', '$', '`'])
                .trim_end_matches('`')
        })
        .filter(|line| line.starts_with("redis-cli EVAL \"$(cat lua/"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_token_bucket_example_answers_one_and_nine() {
    let redis = Redis::start();
    let line =
        r#"redis-cli EVAL "$(cat lua/token_bucket.lua)" 1 "ratelimit:user123" 10 1 $(date +%s) 1"#;
    assert_eq!(shell(&redis, line), ["1", "9"]);
    let ttl: i64 = redis.cli(&["PTTL", "ratelimit:user123"]).parse().unwrap();
    assert!((1..=2_000).contains(&ttl), "{ttl}");
    assert_eq!(examples(&source("token_bucket")), [line]);
}

#[test]
fn the_sliding_log_example_answers_one_until_the_limit() {
    let redis = Redis::start();
    let line = r#"redis-cli EVAL "$(cat lua/sliding_log.lua)" 1 "ratelimit:log:user123" $(date +%s%3N) 60 100"#;
    assert_eq!(examples(&source("sliding_log")), [line]);
    assert_eq!(shell(&redis, line), ["1"]);
    let three = line.replace(" 60 100", " 60 3");
    assert_eq!(
        shell(&redis, &format!("{three}; {three}; {three}")),
        ["1", "1", "0"]
    );
}

#[test]
fn every_example_in_the_scripts_and_the_readme_is_admitted() {
    let redis = Redis::start();
    for script in SCRIPTS {
        let examples = examples(&source(script));
        assert!(!examples.is_empty(), "{script} shows how it is used");
        for example in examples {
            redis.cli(&["FLUSHALL"]);
            assert_eq!(shell(&redis, &example)[0], "1", "{example}");
        }
    }
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    for example in examples(&std::fs::read_to_string(readme).unwrap_or_default()) {
        redis.cli(&["FLUSHALL"]);
        assert_eq!(shell(&redis, &example)[0], "1", "{example}");
    }
}

/// A generator that is the same in every run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Hits ever admitted, and what they mean to each algorithm at a moment.
#[derive(Default)]
struct Oracle {
    /// (µs, cost)
    admitted: Vec<(u64, u64)>,
}

impl Oracle {
    fn in_span(&self, span: std::ops::Range<u64>) -> u128 {
        let inside = self.admitted.iter().filter(|(at, _)| span.contains(at));
        inside.map(|(_, cost)| u128::from(*cost)).sum()
    }

    fn fixed_window(&self, window: u64, now: u64) -> u128 {
        let start = now / window * window;
        self.in_span(start..start + window)
    }

    fn sliding_window(&self, window: u64, now: u64) -> u128 {
        let start = now / window * window;
        let left = u128::from(start + window - now);
        let previous = self.in_span(start - window..start);
        (previous * left).div_ceil(u128::from(window)) + self.in_span(start..start + window)
    }

    fn sliding_log(&self, window: u64, now: u64) -> u128 {
        self.in_span(now - window + 1..now + 1)
    }

    /// The debt in 10^-12 of a token, with a rate in millionths of a token per second.
    fn bucket(&self, rate: u64, now: u64) -> u128 {
        let (mut debt, mut last) = (0_u128, 0);
        for (at, cost) in self.admitted.iter().chain(&[(now, 0)]) {
            let repaid = u128::from(at - last) * u128::from(rate);
            debt = debt.saturating_sub(repaid) + u128::from(*cost) * 1_000_000_000_000;
            last = *at;
        }
        debt
    }
}

/// Two hundred checks of a script at random moments and costs.
struct Walk {
    script: &'static str,
    seed: u64,
    limit: u64,
    /// The longest time between two checks, and the script's resolution, in µs.
    step: u64,
    tick: u64,
}

impl Walk {
    /// Holds each answer against the oracle: admitted or refused, and what remains.
    /// `args` makes the arguments of now in seconds, now in milliseconds, and cost.
    fn compare(
        &self,
        bench: &mut Bench,
        args: impl Fn(&str, &str, &str) -> Vec<String>,
        used: impl Fn(&Oracle, u64) -> u128,
    ) {
        let &Walk {
            script,
            seed,
            limit,
            step,
            tick,
        } = self;
        let key = format!("{script}:{seed}:{limit}:{step}");
        let (mut random, mut oracle, mut now) = (Random(seed), Oracle::default(), T);
        let (mut yes, mut no) = (0, 0);
        for check in 0..200 {
            now += random.below(step) / tick * tick;
            let cost = random.below(limit / 3 + 2);
            let secs = format!("{}.{:06}", now / SECOND, now % SECOND);
            let args = args(&secs, &(now / 1_000).to_string(), &cost.to_string());
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let expected = used(&oracle, now) + u128::from(cost.max(1)) <= u128::from(limit);
            if expected && cost > 0 {
                oracle.admitted.push((now, cost));
            }
            let left = u128::from(limit).saturating_sub(used(&oracle, now));
            let answer = bench.run(script, &key, &args);
            let context = format!("{script}, seed {seed}, check {check}, {args:?}");
            assert_eq!(answer[0], i64::from(expected), "{context}");
            if let Some(remaining) = answer.get(1) {
                assert_eq!(u128::from(remaining.unsigned_abs()), left, "{context}");
            }
            *(if expected { &mut yes } else { &mut no }) += 1;
        }
        assert!(yes > 20 && no > 20, "a walk on both sides: {yes} and {no}");
    }
}

#[test]
fn windows_agree_with_an_exact_oracle_step_by_step() {
    let mut bench = Bench::new();
    for seed in 1..=3 {
        for (limit, window_ms) in [(10, 1_000), (7, 60_000), (1_000, 250), (100, 3_600_000)] {
            let window = window_ms * 1_000;
            let secs = format!("{}.{:03}", window_ms / 1_000, window_ms % 1_000);
            let (limit_text, step) = (u64::to_string(&limit), window / 4);
            let by_secs = |now: &str, _: &str, cost: &str| {
                [&limit_text, &secs, now, cost].map(str::to_owned).to_vec()
            };
            let by_millis = |_: &str, now: &str, cost: &str| {
                [now, &secs, &limit_text, cost].map(str::to_owned).to_vec()
            };
            let walk = |script, tick| Walk {
                script,
                seed,
                limit,
                step,
                tick,
            };
            let fixed = |o: &Oracle, now| o.fixed_window(window, now);
            walk("fixed_window", 1).compare(&mut bench, by_secs, fixed);
            let sliding = |o: &Oracle, now| o.sliding_window(window, now);
            walk("sliding_window", 1).compare(&mut bench, by_secs, sliding);
            let log = |o: &Oracle, now| o.sliding_log(window, now);
            walk("sliding_log", 1_000).compare(&mut bench, by_millis, log);
        }
    }
}

#[test]
fn buckets_agree_with_an_exact_oracle_step_by_step() {
    let mut bench = Bench::new();
    for script in ["token_bucket", "leaky_bucket"] {
        for seed in 1..=3 {
            // Rates that no binary fraction holds, in millionths of a token per second.
            for (capacity, rate) in [(10, 1_000_000), (7, 100_000), (50, 3_333_333), (9, 3_000)] {
                let rate_text = format!("{}.{:06}", rate / 1_000_000, rate % 1_000_000);
                let capacity_text = u64::to_string(&capacity);
                let args = |now: &str, _: &str, cost: &str| {
                    [&capacity_text, &rate_text, now, cost]
                        .map(str::to_owned)
                        .to_vec()
                };
                // In whole tokens, a part of one counting as one.
                let used = |o: &Oracle, now| o.bucket(rate, now).div_ceil(1_000_000_000_000);
                let step = capacity * SECOND * 1_000_000 / rate / 4;
                let walk = Walk {
                    script,
                    seed,
                    limit: capacity,
                    step,
                    tick: 1,
                };
                walk.compare(&mut bench, args, used);
            }
        }
    }
}
