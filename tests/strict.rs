//! Limits with `consistency: strict`, by daemons and a Redis that are real processes.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kit::http::{self, Reply};
use kit::resp::{Client, Value};
use kit::{Daemon, Proxy, Redis, wait_until};

const NODES: usize = 4;
/// Clients of each node at once.
const CLIENTS: usize = 3;

fn rule(limit: &str) -> String {
    format!("rules:\n  - name: api\n    consistency: strict\n    limits: {{ default: {limit} }}\n")
}

/// A daemon that counts in `redis` and has found it. Its checks wait as long as they may, so
/// that a busy machine is taken for no lost store.
fn daemon(redis: &Redis, rules: &str) -> Daemon {
    daemon_with(redis, rules, &["--strict-timeout", "10s"])
}

fn daemon_with(redis: &Redis, rules: &str, args: &[&str]) -> Daemon {
    let url = redis.url();
    let daemon = Daemon::start(rules, &[&["--store", &url], args].concat());
    wait_until("the store to answer", || {
        daemon.metric("tidegate_store_up", &[]) == 1.0
    });
    daemon
}

fn fleet(redis: &Redis, rules: &str) -> Vec<Daemon> {
    (0..NODES).map(|_| daemon(redis, rules)).collect()
}

fn check(daemon: &Daemon) -> Reply {
    let body = r#"{"rule":"api","key":"shared"}"#;
    http::request(daemon.http(), "POST", "/v1/check", body)
}

/// Lets every client of every node do `work`, all at once.
fn hammer<T: Send>(daemons: &[Daemon], work: impl Fn(&Daemon) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let clients: Vec<_> = daemons
            .iter()
            .flat_map(|daemon| (0..CLIENTS).map(move |_| daemon))
            .map(|daemon| scope.spawn(move || work(daemon)))
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    })
}

/// The day of the store's clock.
fn day(redis: &Redis) -> u64 {
    let time = redis.cli(&["TIME"]);
    time.lines().next().unwrap().parse::<u64>().unwrap() / 86_400
}

/// The numbers that stand in the store's hashes of windows, whoever is counted.
fn counts(redis: &Redis) -> Vec<u64> {
    let keys = redis.cli(&["KEYS", "*:1d:*"]);
    let values = keys.lines().map(|key| redis.cli(&["HVALS", key]));
    let all: Vec<String> = values.collect();
    all.iter()
        .flat_map(|values| values.lines())
        // What else there is of a cell stands behind its count.
        .filter_map(|value| value.split(' ').next()?.parse().ok())
        .collect()
}

#[test]
fn a_fleet_admits_the_limit_exactly_by_each_algorithm() {
    const LIMIT: usize = 150;
    for algorithm in [
        "fixed_window",
        "sliding_window",
        "sliding_log",
        "token_bucket",
        "leaky_bucket",
    ] {
        // No part of a day passes here that is worth a token; a day may end, though.
        loop {
            let redis = Redis::start();
            let limit = format!("{{ requests: {LIMIT}, window: 1d, algorithm: {algorithm} }}");
            let daemons = fleet(&redis, &rule(&limit));
            let before = day(&redis);
            let admitted = hammer(&daemons, |daemon| {
                let mut client = Client::connect(daemon.resp());
                let asked = (0..40).map(|_| client.command(&["TG.CHECK", "api", "shared"]));
                asked.filter(|answer| answer.ints()[0] == 0).count()
            });
            if day(&redis) != before {
                continue;
            }
            assert_eq!(
                admitted.iter().sum::<usize>(),
                LIMIT,
                "{algorithm}: {admitted:?}"
            );
            assert!(
                admitted.iter().all(|one| *one > 0),
                "{algorithm}: {admitted:?}"
            );
            break;
        }
    }
}

#[test]
fn every_window_of_the_stores_clock_admits_the_limit_exactly() {
    const LIMIT: u64 = 20;
    let redis = Redis::start();
    let limit = format!("{{ requests: {LIMIT}, window: 1s, algorithm: fixed_window }}");
    let daemons = fleet(&redis, &rule(&limit));
    // The end of the window that it was decided in, and whether it was admitted.
    let answers = hammer(&daemons, |daemon| {
        let (mut answers, mut windows) = (Vec::new(), BTreeSet::new());
        while windows.len() <= 3 {
            let reply = check(daemon);
            let window: u64 = reply.header("x-ratelimit-reset").unwrap().parse().unwrap();
            windows.insert(window);
            answers.push((window, reply.status));
        }
        answers
    });
    let mut windows: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    for (window, status) in answers.into_iter().flatten() {
        let place = match status {
            200 => 0,
            429 => 1,
            other => panic!("status {other}"),
        };
        windows.entry(window).or_default()[place] += 1;
    }
    let mut full = 0;
    for (window, [admitted, refused]) in &windows {
        assert!(*admitted <= LIMIT, "{window}: {windows:?}");
        if *refused > 0 {
            assert_eq!(*admitted, LIMIT, "{window}: {windows:?}");
            full += 1;
        }
    }
    assert!(full >= 1, "{windows:?}");
}

#[test]
fn limits_of_one_request_are_charged_all_or_none_across_the_fleet() {
    loop {
        let redis = Redis::start();
        let limits = "[{ requests: 100, window: 1d, algorithm: fixed_window, name: a }, \
            { requests: 60, window: 1d, algorithm: token_bucket }]";
        let daemons = fleet(&redis, &rule(limits));
        let before = day(&redis);
        let admitted = hammer(&daemons, |daemon| {
            (0..20).filter(|_| check(daemon).status == 200).count()
        });
        if day(&redis) != before {
            continue;
        }
        assert_eq!(admitted.iter().sum::<usize>(), 60);
        // 240 were asked for, and 180 refused by the bucket: the window knows nothing of them.
        assert_eq!(counts(&redis), [60]);
        break;
    }
}

#[test]
fn what_other_modes_have_counted_is_used_up() {
    loop {
        let redis = Redis::start();
        let limit = "{ requests: 100, window: 1d, algorithm: fixed_window }";
        let approximate = rule(limit).replace("strict", "approximate");
        let (one, other) = (daemon(&redis, &approximate), daemon(&redis, &rule(limit)));
        let before = day(&redis);
        let mut client = Client::connect(one.resp());
        assert_eq!(
            client.command(&["TG.CHECK", "api", "shared", "60"]).ints()[..3],
            [0, 100, 40]
        );
        wait_until("the count to arrive", || counts(&redis) == [60]);
        let mut client = Client::connect(other.resp());
        assert_eq!(
            client.command(&["TG.CHECK", "api", "shared", "30"]).ints()[..3],
            [0, 100, 10]
        );
        if day(&redis) == before {
            assert_eq!(counts(&redis), [90]);
            break;
        }
    }
}

#[test]
fn pipelines_and_batches_are_charged_and_answered_in_their_order() {
    let redis = Redis::start();
    let rules = "rules:
  - { name: api, consistency: strict, limits: { requests: 90, window: 1d, algorithm: token_bucket } }
  - { name: here, consistency: local, limits: { requests: 90, window: 1d, algorithm: token_bucket } }
";
    let daemon = daemon(&redis, rules);
    let mut client = Client::connect(daemon.resp());
    let mut commands: Vec<Vec<String>> = Vec::new();
    for number in 0..100 {
        let number = number.to_string();
        let words: [&[&str]; 3] = [
            &["TG.CHECK", "api", "piped"],
            &["ECHO", &number],
            &["TG.CHECK", "here", "piped"],
        ];
        commands.extend(words.map(|words| words.iter().map(|word| (*word).to_owned()).collect()));
    }
    let commands: Vec<Vec<&str>> = (commands.iter())
        .map(|command| command.iter().map(String::as_str).collect())
        .collect();
    let answers = client.pipeline(&commands);
    for (number, answers) in answers.chunks(3).enumerate() {
        let number = i64::try_from(number).unwrap();
        let wanted = [i64::from(number >= 90), 90, (89 - number).max(0)];
        assert_eq!(answers[0].ints()[..3], wanted, "strict, command {number}");
        assert_eq!(answers[1], Value::Bulk(number.to_string().into_bytes()));
        assert_eq!(answers[2].ints()[..3], wanted, "local, command {number}");
    }

    let check = |rule: &str| format!(r#"{{"rule":"{rule}","key":"batch"}}"#);
    let checks: Vec<String> = (0..100)
        .flat_map(|_| [check("api"), check("nothing"), check("here")])
        .collect();
    let body = format!(r#"{{"checks":[{}]}}"#, checks.join(","));
    let reply = http::request(daemon.http(), "POST", "/v1/check", &body).json();
    let results = reply["results"].as_array().unwrap();
    assert_eq!(results.len(), 300);
    for (number, results) in results.chunks(3).enumerate() {
        for (place, rule) in [(0, "api"), (2, "here")] {
            assert_eq!(results[place]["rule"], rule);
            assert_eq!(results[place]["allowed"], number < 90, "{rule} {number}");
            assert_eq!(results[place]["remaining"], 89_usize.saturating_sub(number));
        }
        assert_eq!(results[1]["error"], "unknown_rule");
        assert_eq!(results[0]["stale_ms"], 0);
    }
}

#[test]
fn a_stopped_store_is_answered_for_by_policy_and_soon_not_asked_any_more() {
    let redis = Redis::start();
    let rules = "rules:
  - { name: api, consistency: strict, on_store_loss: closed, limits: { requests: 1, window: 1d } }
  - { name: open, consistency: strict, on_store_loss: open, limits: { requests: 1, window: 1d } }
  - { name: share, consistency: strict, limits: { requests: 2, window: 1d } }
";
    let daemon = daemon_with(&redis, rules, &["--strict-timeout", "700ms"]);
    let ask = |rule: &str| {
        let body = format!(r#"{{"rule":"{rule}","key":"k"}}"#);
        http::request(daemon.http(), "POST", "/v1/check", &body)
    };
    let asked =
        |outcome: &str| daemon.metric("tidegate_strict_checks_total", &[("outcome", outcome)]);
    // The one request is used: a refusal is a refusal.
    assert_eq!(ask("api").status, 200);
    assert_eq!(ask("api").status, 429);
    redis.pause();
    // Whoever is asked waits in vain three times, together or one after the other; then
    // nobody waits. (Or the sync finds the store lost before.)
    let statuses: Vec<u16> = (0..30).map(|_| ask("api").status).collect();
    assert_eq!(statuses, [503; 30]);
    assert!(asked("timeout") <= 3.0, "{}", daemon.metrics());
    let mut client = Client::connect(daemon.resp());
    let Value::Error(unavailable) = client.command(&["TG.CHECK", "api", "k"]) else {
        panic!("it is decided");
    };
    assert!(unavailable.starts_with("UNAVAILABLE "), "{unavailable}");
    assert_eq!(ask("open").status, 200);
    assert_eq!(ask("open").status, 200);
    let shares: Vec<u16> = (0..3).map(|_| ask("share").status).collect();
    assert_eq!(shares, [200, 200, 429]);
    let waited = asked("timeout") + asked("failed");
    assert!(waited <= 3.0, "{}", daemon.metrics());

    redis.resume();
    // A probe closes the breaker after its time, if there was one; then the store decides.
    for turn in 0.. {
        assert!(turn < 6_000, "it stays open: {}", daemon.metrics());
        match ask("api").status {
            429 => break,
            503 => std::thread::sleep(Duration::from_millis(20)),
            other => panic!("status {other}"),
        }
    }
    assert_eq!(daemon.metric("tidegate_breaker_open", &[]), 0.0);
    let page = daemon.metrics();
    let changes = |to| kit::sum(&page, "tidegate_breaker_changes_total", &[("to", to)]);
    assert_eq!(
        changes("closed").is_some(),
        changes("open").is_some(),
        "{page}"
    );
    // What was counted here meanwhile is in the store's record.
    wait_until("the share to be used up", || ask("share").status == 429);
}

#[test]
fn a_breaker_opens_after_three_checks_and_tells_so() {
    let redis = Redis::start();
    let limit = "{ requests: 5, window: 1d, on_store_loss: closed }";
    let daemon = daemon_with(&redis, &rule(limit), &["--strict-timeout", "500ms"]);
    // Connected, and the script run once.
    wait_until("a decision of the store", || check(&daemon).status == 429);
    let opened = || daemon.metric("tidegate_breaker_open", &[]) == 1.0;
    wait_until("the breaker to be closed", || !opened());
    redis.pause();
    wait_until("the breaker to open", || {
        assert_eq!(check(&daemon).status, 503);
        opened()
    });
    let asked = || daemon.metric("tidegate_strict_checks_total", &[("outcome", "timeout")]);
    let before = asked();
    for _ in 0..50 {
        assert_eq!(check(&daemon).status, 503);
    }
    assert_eq!(asked(), before);
    let log = daemon.log();
    assert_eq!(log.matches("the breaker is open").count(), 1, "{log}");
    let changes = daemon.metric("tidegate_breaker_changes_total", &[("to", "open")]);
    assert_eq!(changes, 1.0);
}

#[test]
fn a_connection_that_breaks_while_nobody_asks_is_replaced() {
    let redis = Redis::start();
    let daemon = daemon(&redis, &rule("{ requests: 5, window: 1d }"));
    assert_eq!(check(&daemon).status, 200);
    let ids = || -> BTreeSet<String> {
        let all = redis.cli(&["CLIENT", "LIST", "TYPE", "normal"]);
        let ids = all.lines().filter(|line| !line.contains("cmd=client"));
        ids.filter_map(|line| Some(line.split(' ').next()?.to_owned()))
            .collect()
    };
    let before = ids();
    assert_eq!(
        before.len(),
        2,
        "of the sync, and of strict checks: {before:?}"
    );
    redis.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    wait_until("both to be replaced", || {
        let now = ids();
        now.len() == 2 && now.is_disjoint(&before)
    });
    assert_eq!(daemon.metric("tidegate_breaker_open", &[]).to_string(), "0");
}

#[test]
fn without_a_store_a_strict_limit_counts_on_its_node_alone() {
    let limit = "{ requests: 5, window: 1d, algorithm: token_bucket }";
    let daemon = Daemon::start(&rule(limit), &[]);
    let statuses: Vec<u16> = (0..7).map(|_| check(&daemon).status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429]);
}

const LOST: usize = 20;

/// Two daemons at `url` use up limits of a day and of two seconds; then `lose` makes the
/// store forget. Nothing of the windows that had begun may be admitted any more, and the
/// next ones admit again.
fn nothing_is_over_when_the_store(url: &str, lose: impl FnOnce()) {
    let algorithms = [
        "fixed_window",
        "sliding_window",
        "sliding_log",
        "token_bucket",
        "leaky_bucket",
    ];
    let mut rules = "rules:\n".to_owned();
    let mut rule = |name: &str, window: &str, algorithm: &str| {
        rules += &format!(
            "  - {{ name: {name}, consistency: strict, on_store_loss: closed, limits: \
             {{ requests: {LOST}, window: {window}, algorithm: {algorithm} }} }}\n"
        );
    };
    for algorithm in algorithms {
        rule(algorithm, "1d", algorithm);
    }
    rule("soon", "2s", "fixed_window");
    let start = || Daemon::start(&rules, &["--store", url, "--strict-timeout", "10s"]);
    let daemons = [start(), start()];
    for daemon in &daemons {
        wait_until("the store to answer", || {
            daemon.metric("tidegate_store_up", &[]) == 1.0
        });
    }
    let ask = |daemon: &Daemon, rule: &str| {
        let body = format!(r#"{{"rule":"{rule}","key":"k"}}"#);
        http::request(daemon.http(), "POST", "/v1/check", &body).status
    };
    let all = || daemons.iter().cycle();
    for algorithm in algorithms {
        let asked = all().take(2 * LOST);
        let admitted = asked.filter(|daemon| ask(daemon, algorithm) == 200).count();
        assert_eq!(admitted, LOST, "{algorithm}");
    }
    lose();
    let forgotten = |daemon: &Daemon| {
        daemon.metric("tidegate_strict_checks_total", &[("outcome", "forgotten")])
    };
    // Until both have asked the store that has forgotten, and some time after.
    for daemon in &daemons {
        wait_until("the store to be asked", || {
            for algorithm in algorithms {
                assert_eq!(ask(daemon, algorithm), 503, "{algorithm}");
            }
            forgotten(daemon) >= 50.0
        });
        assert_eq!(ask(daemon, "fixed_window"), 503);
        assert!(daemon.log().contains("the store has lost its memory"));
    }
    // The windows of two seconds that begin from now on admit what they should.
    wait_until("a window that began after", || {
        ask(&daemons[0], "soon") == 200
    });
    let mut asked = all().take(2 * LOST);
    let rest = asked.by_ref().filter(|daemon| ask(daemon, "soon") == 200);
    assert!(rest.count() >= LOST - 1);
}

#[test]
fn nothing_is_over_when_the_store_is_killed_and_starts_empty() {
    let mut redis = Redis::start();
    let url = redis.url();
    nothing_is_over_when_the_store(&url, || redis.restart());
}

#[test]
fn nothing_is_over_when_the_store_starts_with_what_it_kept() {
    let mut redis = Redis::start_with(&[("appendonly", "yes")]);
    let url = redis.url();
    nothing_is_over_when_the_store(&url, || redis.restart());
}

#[test]
fn nothing_is_over_when_the_store_is_flushed() {
    let redis = Redis::start();
    nothing_is_over_when_the_store(&redis.url(), || {
        redis.cli(&["FLUSHALL"]);
    });
}

#[test]
fn nothing_is_over_when_a_replica_takes_over() {
    let (redis, replica) = (Redis::start(), Redis::start());
    let proxy = Proxy::start(redis.addr());
    replica.follow(&redis);
    nothing_is_over_when_the_store(&proxy.url(), || {
        // It has heard of the seal, and not of what was counted last.
        wait_until("the replica to know the seal", || {
            replica.cli(&["KEYS", "*:seal"]).contains("seal")
        });
        replica.promote();
        replica.cli(&[
            "EVAL",
            "for _, key in ipairs(redis.call('KEYS', '*{p*')) do redis.call('DEL', key) end",
            "0",
        ]);
        proxy.lead_to(replica.addr());
        proxy.cut();
    });
}
