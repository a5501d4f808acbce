//! Rules that change while the daemon serves.

// Tests fail by panicking, their helpers too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use kit::http::{self, Reply};
use kit::resp::{Client, Value};
use kit::{Daemon, Drive, Place, Redis, stderr, wait_until};

fn rule(name: &str, limit: &str) -> String {
    format!("  - {{ name: {name}, endpoint: /{name}, limits: {{ default: {limit} }} }}\n")
}

fn rules(list: &[(&str, &str)]) -> String {
    let list: String = list.iter().map(|(name, limit)| rule(name, limit)).collect();
    format!("rules:\n{list}")
}

fn fixed(requests: u64) -> String {
    format!("{{ requests: {requests}, window: 1d, algorithm: fixed_window }}")
}

fn bucket(requests: u64) -> String {
    format!("{{ requests: {requests}, window: 1d, algorithm: token_bucket }}")
}

/// Puts another rule file in the place of the daemon's.
fn write(daemon: &Daemon, text: &str) {
    let new = daemon.dir().join("rules.yaml.new");
    fs::write(&new, text).unwrap();
    fs::rename(new, daemon.dir().join("rules.yaml")).unwrap();
}

fn reload(daemon: &Daemon) -> Reply {
    http::request(daemon.admin(), "POST", "/reload", "")
}

/// Puts `text` in force.
fn apply(daemon: &Daemon, text: &str) {
    write(daemon, text);
    let reply = reload(daemon);
    assert_eq!(reply.status, 200, "{}", reply.body);
}

fn status(daemon: &Daemon) -> serde_json::Value {
    http::request(daemon.admin(), "GET", "/status", "").json()
}

fn check(daemon: &Daemon, rule: &str, cost: u64) -> serde_json::Value {
    let body = format!(r#"{{"rule":"{rule}","key":"k","cost":{cost}}}"#);
    http::request(daemon.http(), "POST", "/v1/check", &body).json()
}

fn remaining(daemon: &Daemon, rule: &str) -> i64 {
    check(daemon, rule, 0)["remaining"].as_i64().unwrap_or(-1)
}

fn limit(daemon: &Daemon, rule: &str) -> i64 {
    check(daemon, rule, 0)["limit"].as_i64().unwrap_or(-1)
}

fn wait_for_limit(daemon: &Daemon, rule: &str, amount: i64) {
    wait_until("the rules to be in force", || limit(daemon, rule) == amount);
}

fn hang_up(daemon: &Daemon) {
    let kill = Command::new("kill")
        .args(["-HUP", &daemon.pid().to_string()])
        .status();
    assert!(kill.unwrap().success());
}

fn reloads(daemon: &Daemon, outcome: &str) -> f64 {
    daemon.metric("tidegate_config_reloads_total", &[("outcome", outcome)])
}

#[test]
fn a_file_that_is_written_in_place_or_replaced_is_in_force_soon() {
    let daemon = Daemon::start(&rules(&[("a", &fixed(10))]), &[]);
    check(&daemon, "a", 4);
    fs::write(daemon.dir().join("rules.yaml"), rules(&[("a", &fixed(20))])).unwrap();
    wait_for_limit(&daemon, "a", 20);
    assert_eq!(remaining(&daemon, "a"), 16);
    // As editors do it.
    fs::write(
        daemon.dir().join(".rules.yaml.swp"),
        rules(&[("a", &fixed(1))]),
    )
    .unwrap();
    fs::write(
        daemon.dir().join("rules.yaml.new"),
        rules(&[("a", &fixed(30))]),
    )
    .unwrap();
    fs::rename(
        daemon.dir().join("rules.yaml.new"),
        daemon.dir().join("rules.yaml"),
    )
    .unwrap();
    wait_for_limit(&daemon, "a", 30);
    assert_eq!(remaining(&daemon, "a"), 26);
    // Moved away and written anew.
    fs::rename(
        daemon.dir().join("rules.yaml"),
        daemon.dir().join("rules.yaml~"),
    )
    .unwrap();
    write(&daemon, &rules(&[("a", &fixed(40))]));
    wait_for_limit(&daemon, "a", 40);
    assert_eq!(remaining(&daemon, "a"), 36);
}

/// What Kubernetes does with a ConfigMap: its files are links into `..data`, a link to the
/// version, which is turned at once.
fn mount(at: &Path, version: u32, text: &str) {
    let name = format!("..version-{version}");
    fs::create_dir(at.join(&name)).unwrap();
    fs::write(at.join(&name).join("map.yaml"), text).unwrap();
    symlink(&name, at.join("..data_tmp")).unwrap();
    fs::rename(at.join("..data_tmp"), at.join("..data")).unwrap();
    if version > 1 {
        fs::remove_dir_all(at.join(format!("..version-{}", version - 1))).unwrap();
    } else {
        symlink("..data/map.yaml", at.join("map.yaml")).unwrap();
    }
}

#[test]
fn a_config_map_that_turns_its_link_is_in_force_soon() {
    let place = tempfile::tempdir().unwrap();
    mount(place.path(), 1, &rules(&[("a", &fixed(10))]));
    for path in [place.path().to_owned(), place.path().join("map.yaml")] {
        // The directory, and the one file in it.
        let before = rules(&[("other", &fixed(1))]);
        let args = ["--rules", path.to_str().unwrap()];
        let daemon = Daemon::start(&before, &args);
        for version in 2..5 {
            let current = limit(&daemon, "a");
            let next = current + 1;
            let version = version + u32::try_from(current).unwrap();
            mount_next(
                place.path(),
                version,
                &rules(&[("a", &fixed(next.unsigned_abs()))]),
            );
            wait_for_limit(&daemon, "a", next);
        }
        assert_eq!(reloads(&daemon, "refused"), 0.0);
    }
}

/// The next version, whichever was before.
fn mount_next(at: &Path, version: u32, text: &str) {
    let before = fs::read_link(at.join("..data")).unwrap();
    let name = format!("..next-{version}");
    fs::create_dir(at.join(&name)).unwrap();
    fs::write(at.join(&name).join("map.yaml"), text).unwrap();
    symlink(&name, at.join("..data_tmp")).unwrap();
    fs::rename(at.join("..data_tmp"), at.join("..data")).unwrap();
    fs::remove_dir_all(at.join(before)).unwrap();
}

#[test]
fn a_file_of_keys_that_the_rules_name_is_read_anew_though_it_was_broken_or_missing() {
    let daemon = Daemon::start(&rules(&[("r", &fixed(1))]), &[]);
    let keys = daemon.dir().join("keys.yaml");
    let limits = "limits: {free: {requests: 1, window: 1d}, pro: {requests: 2, window: 1d}}";
    write(
        &daemon,
        &format!("api_keys: {{file: keys.yaml}}\nrules: [{{name: r, key: api_key, {limits}}}]\n"),
    );
    assert_eq!(reload(&daemon).status, 422);
    assert_eq!(limit(&daemon, "r"), 1);
    let table = |tier: &str| fs::write(&keys, format!("- {{key: k, tier: {tier}}}\n")).unwrap();
    table("pro");
    wait_for_limit(&daemon, "r", 2);
    table("free");
    wait_for_limit(&daemon, "r", 1);
}

#[test]
fn a_hangup_reads_the_rules_anew_even_if_nothing_has_changed() {
    let daemon = Daemon::start(&rules(&[("a", &fixed(10))]), &[]);
    check(&daemon, "a", 3);
    hang_up(&daemon);
    wait_until("the reload", || reloads(&daemon, "applied") == 1.0);
    assert_eq!(status(&daemon)["last_reload"]["by"], "SIGHUP");
    assert_eq!(remaining(&daemon, "a"), 7);
}

#[test]
fn a_broken_set_is_refused_as_a_whole_and_told_once_with_its_places() {
    let good = rules(&[("a", &fixed(10))]);
    let daemon = Daemon::start(&good, &[]);
    check(&daemon, "a", 3);
    let before = status(&daemon)["rules"].clone();
    let extra = daemon.dir().join("rules.yaml");
    let broken = rules(&[("a", &fixed(99)), ("b", "{ requests: ten, window: 1m }")]) + "rles: []\n";
    write(&daemon, &broken);
    wait_until("the refusal", || reloads(&daemon, "refused") == 1.0);

    let told = stderr(&Place::new().run(["validate", extra.to_str().unwrap()]));
    let faults: Vec<_> = told
        .lines()
        .map(|line| line.replace(&format!("tidegate: {}/", daemon.dir().display()), ""))
        .collect();
    assert!(
        faults.len() == 2 && faults[0].contains("rules.yaml:3:"),
        "{told}"
    );
    let reply = reload(&daemon);
    assert_eq!(reply.status, 422);
    assert_eq!(reply.json()["faults"], serde_json::json!(faults));
    let line = faults.join(" | ");
    // By the change of the file, and by the call; the poll does not repeat it.
    assert_eq!(daemon.log().matches(&line).count(), 2, "{}", daemon.log());

    let now = status(&daemon);
    assert_eq!(now["rules"], before);
    assert_eq!(now["last_reload"]["outcome"], "refused");
    assert_eq!(now["last_reload"]["faults"], serde_json::json!(faults));
    assert_eq!(now["not_ready"], serde_json::json!([]));
    assert_eq!(
        daemon.metric("tidegate_config_last_reload_successful", &[]),
        0.0
    );
    assert_eq!(remaining(&daemon, "a"), 7);
    assert_eq!(check(&daemon, "b", 1)["error"], "unknown_rule");
    assert_eq!(
        http::request(daemon.admin(), "GET", "/readyz", "").status,
        200
    );

    write(&daemon, &good);
    wait_until("the good rules", || reloads(&daemon, "applied") == 1.0);
    assert_eq!(
        daemon.metric("tidegate_config_last_reload_successful", &[]),
        1.0
    );
    assert_eq!(remaining(&daemon, "a"), 7);
}

#[test]
fn whatever_is_wrong_with_the_files_those_of_before_stay_and_a_start_fails_alike() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let good = rules(&[("a", &fixed(10))]);
    fs::write(at("1.yaml"), &good).unwrap();
    let daemon = Daemon::start_from(&["--rules", place.path().to_str().unwrap()]);
    for (name, text) in [
        ("2.yaml", rules(&[("a", &fixed(5))])),
        ("2.yaml", rules(&[("b", "{ requests: ten, window: 1m }")])),
        ("2.yaml", "rules: [".to_owned()),
        ("2.json", "{".to_owned()),
        ("1.yaml", String::new()),
        ("1.yaml", "\u{0}".to_owned()),
    ] {
        fs::write(at(name), &text).unwrap();
        let reply = reload(&daemon);
        assert_eq!(reply.status, 422, "{name}: {text}");
        assert_eq!(limit(&daemon, "a"), 10, "{name}: {text}");
        let fault = reply.json()["faults"][0].as_str().unwrap().to_owned();
        let end = Place::new().run(["serve", "--rules", place.path().to_str().unwrap()]);
        assert_eq!(end.status.code(), Some(2));
        assert!(stderr(&end).contains(&fault), "{}{fault}", stderr(&end));
        fs::remove_file(at(name)).unwrap();
        fs::write(at("1.yaml"), &good).unwrap();
    }
    // No file at all, and no directory.
    fs::remove_file(at("1.yaml")).unwrap();
    assert_eq!(reload(&daemon).status, 422);
    fs::remove_dir(place.path()).unwrap();
    assert_eq!(reload(&daemon).status, 422);
    assert_eq!(limit(&daemon, "a"), 10);
    // A directory of that name is found again.
    fs::create_dir(place.path()).unwrap();
    fs::write(at("1.yaml"), rules(&[("a", &fixed(11))])).unwrap();
    wait_for_limit(&daemon, "a", 11);
}

#[test]
fn what_was_used_stays_when_the_amount_changes() {
    let set = |amount| rules(&[("w", &fixed(amount)), ("b", &bucket(amount))]);
    let daemon = Daemon::start(&set(100), &[]);
    check(&daemon, "w", 60);
    check(&daemon, "b", 60);
    apply(&daemon, &set(10));
    assert_eq!((remaining(&daemon, "w"), remaining(&daemon, "b")), (0, 10));
    assert_eq!(check(&daemon, "w", 1)["allowed"], false);
    apply(&daemon, &set(100));
    assert_eq!(remaining(&daemon, "w"), 40);
    // Never a jump to a full bucket; it is refilled at the new rate, 100 a day.
    assert_eq!(remaining(&daemon, "b"), 10);
    apply(&daemon, &rules(&[("w", &fixed(100))]));
    assert_eq!(check(&daemon, "b", 1)["error"], "unknown_rule");
    assert_eq!(remaining(&daemon, "w"), 40);
}

#[test]
fn a_bucket_that_is_made_small_waits_no_longer_than_its_new_self_takes_to_fill() {
    let set = |amount| {
        rules(&[(
            "b",
            &format!("{{ requests: {amount}, window: 1m, algorithm: token_bucket }}"),
        )])
    };
    let daemon = Daemon::start(&set(100), &[]);
    check(&daemon, "b", 100);
    apply(&daemon, &set(1));
    let refused = check(&daemon, "b", 1);
    let wait = refused["retry_after_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&wait), "{refused}");
}

#[test]
fn another_window_or_algorithm_counts_afresh() {
    let daemon = Daemon::start(&rules(&[("a", &fixed(10))]), &[]);
    check(&daemon, "a", 10);
    apply(
        &daemon,
        &rules(&[("a", "{ requests: 10, window: 2d, algorithm: fixed_window }")]),
    );
    assert_eq!(remaining(&daemon, "a"), 10);
    apply(&daemon, &rules(&[("a", &fixed(10))]));
    assert_eq!(
        check(&daemon, "a", 1)["allowed"],
        false,
        "it had been used up"
    );
}

#[test]
fn what_a_limit_would_refuse_is_counted_by_the_mode_that_it_has_now() {
    let text = |mode| format!("rules: [{{name: r, mode: {mode}, limits: {}}}]\n", fixed(1));
    let daemon = Daemon::start(&text("shadow"), &[]);
    let refused = |mode| {
        let labels = [("mode", mode), ("outcome", "impossible")];
        daemon.metric("tidegate_advisory_checks_total", &labels)
    };
    check(&daemon, "r", 2);
    assert_eq!(refused("shadow"), 1.0);
    apply(&daemon, &text("soft"));
    check(&daemon, "r", 2);
    assert_eq!((refused("shadow"), refused("soft")), (1.0, 1.0));
}

#[test]
fn settings_that_were_changed_are_told_and_not_applied() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("tidegate.yaml");
    let text = |keys: u64, amount: u64, more: &str| {
        let rules = rules(&[("a", &fixed(amount))]);
        format!("max_keys: {keys}\nsync_interval: 100ms\nkey_secret_file: secret\n{more}{rules}")
    };
    fs::write(place.path().join("secret"), "0123456789abcdef").unwrap();
    fs::write(&file, text(1_000, 10, "")).unwrap();
    let daemon = Daemon::start_from(&["--config", file.to_str().unwrap()]);
    // The default that was written before is the same as nothing.
    fs::write(
        &file,
        text(1_000, 11, "").replace("sync_interval: 100ms\n", ""),
    )
    .unwrap();
    wait_for_limit(&daemon, "a", 11);
    assert!(
        !daemon.log().contains("before a restart"),
        "{}",
        daemon.log()
    );
    let store = "store: redis://:marker@127.0.0.1:1\n";
    fs::write(&file, text(2_000, 12, store)).unwrap();
    wait_for_limit(&daemon, "a", 12);
    assert_eq!(reload(&daemon).status, 200);
    let told = "changed, with no effect before a restart: store, max_keys";
    assert_eq!(daemon.log().matches(told).count(), 1, "{}", daemon.log());
    let page = status(&daemon);
    assert_eq!(
        page["restart_for"],
        serde_json::json!(["store", "max_keys"])
    );
    assert!(!page.to_string().contains("marker") && !daemon.log().contains("marker"));
    // Another secret in the same file.
    fs::write(place.path().join("secret"), "fedcba9876543210").unwrap();
    check(&daemon, "a", 3);
    assert_eq!(reload(&daemon).status, 200);
    let restart = &status(&daemon)["restart_for"];
    assert_eq!(
        *restart,
        serde_json::json!(["store", "key_secret_file", "max_keys"])
    );
    assert_eq!(remaining(&daemon, "a"), 9, "counted by the same keys");
}

#[test]
fn figures_of_a_rule_go_on_when_others_come_and_go() {
    let daemon = Daemon::start(&rules(&[("gone", &fixed(9)), ("kept", &fixed(9))]), &[]);
    let counted = |rule: &str| daemon.metric("tidegate_checks_total", &[("rule", rule)]);
    check(&daemon, "gone", 1);
    check(&daemon, "kept", 1);
    apply(&daemon, &rules(&[("new", &fixed(9)), ("kept", &fixed(9))]));
    check(&daemon, "new", 1);
    check(&daemon, "kept", 1);
    assert_eq!(
        (counted("gone"), counted("kept"), counted("new")),
        (1.0, 2.0, 1.0)
    );
}

/// Open descriptors, watched directories, threads; and resident memory in KiB.
fn size(daemon: &Daemon) -> ([usize; 3], u64) {
    let process = format!("/proc/{}", daemon.pid());
    let status = fs::read_to_string(format!("{process}/status")).unwrap();
    let resident = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let resident = resident.split_whitespace().nth(1).unwrap().parse().unwrap();
    let count = |what: &str| fs::read_dir(format!("{process}/{what}")).unwrap();
    let infos = count("fdinfo").filter_map(|info| fs::read_to_string(info.unwrap().path()).ok());
    let watches = |info: String| {
        info.lines()
            .filter(|line| line.starts_with("inotify "))
            .count()
    };
    let watches = infos.map(watches).sum();
    (
        [count("fd").count(), watches, count("task").count()],
        resident,
    )
}

#[test]
fn five_hundred_reloads_under_load_lose_no_decision_and_leave_nothing_behind() {
    const RELOADS: usize = 500;
    const AMOUNT: u64 = 1_000_000;
    // A rule that stays, one whose amount changes, one that is new each time, and many.
    let set = |number: usize| {
        let mut list = vec![
            ("stays".to_owned(), fixed(AMOUNT)),
            ("drips".to_owned(), bucket(AMOUNT)),
            ("grows".to_owned(), fixed(AMOUNT + number as u64)),
            (format!("new-{}", number % 7), fixed(5)),
        ];
        list.extend((0..200).map(|number| (format!("rule-{number}"), fixed(5))));
        let list: Vec<_> = list.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        rules(&list)
    };
    let daemon = Daemon::start(&set(0), &[]);
    let commands: Vec<Vec<String>> = ["stays", "drips", "grows"]
        .iter()
        .map(|rule| ["TG.CHECK", rule, "k"].map(str::to_owned).to_vec())
        .collect();
    let drives: Vec<_> = (0..4)
        .map(|_| Drive::cycle(daemon.resp(), &commands, 500))
        .collect();
    let mut early = ([0; 3], 0);
    for number in 1..=RELOADS {
        apply(&daemon, &set(number));
        if number == RELOADS / 5 {
            early = size(&daemon);
        }
    }
    let late = size(&daemon);
    let mut sent = [0; 3];
    for drive in drives {
        let driven = drive.stop();
        assert_eq!(driven.errors, Vec::<String>::new());
        assert_eq!(
            driven.admitted(),
            driven.samples.len() as u64,
            "one was refused"
        );
        for sample in driven.samples {
            sent[sample.command] += 1;
        }
    }
    assert!(sent[0] > 100, "hardly any load: {sent:?}");
    // Each was counted once, and none was given back.
    let last = AMOUNT + RELOADS as u64;
    let mut client = Client::connect(daemon.resp());
    let mut left = |rule: &str| client.command(&["TG.CHECK", rule, "k", "0"]).ints()[2];
    assert_eq!(left("stays"), (AMOUNT - sent[0]) as i64);
    assert_eq!(left("grows"), (last - sent[2]) as i64);
    // Refilled meanwhile by what a day's bucket gives.
    let drips = left("drips").unsigned_abs();
    assert!((AMOUNT - sent[1]..=AMOUNT).contains(&drips), "{drips}");
    let figure = |rule| {
        daemon.metric(
            "tidegate_checks_total",
            &[("rule", rule), ("outcome", "allowed")],
        )
    };
    for (rule, sent) in ["stays", "grows"].iter().zip([sent[0], sent[2]]) {
        assert_eq!(figure(rule), sent as f64 + 1.0, "{rule}, and the look");
    }
    // And more, where a change was seen before it was told of.
    assert!(reloads(&daemon, "applied") >= RELOADS as f64);
    // Nothing is left of a reload: no descriptor but that of a file being read, no watch, no
    // thread but those that read files and end when they have rested, and no memory but what
    // the allocator has not yet given back.
    let ([files, watches, threads], kib) = late;
    assert!(files <= early.0[0] + 1, "descriptors: {early:?} {late:?}");
    assert_eq!((watches, early.0[1]), (1, 1), "watches: {early:?} {late:?}");
    assert!(threads <= early.0[2] + 4, "threads: {early:?} {late:?}");
    assert!(kib <= early.1 + 8 * 1_024, "KiB: {early:?} {late:?}");
}

#[test]
fn leases_under_way_survive_reloads_and_nothing_is_admitted_twice() {
    const AMOUNT: u64 = 2_000;
    let redis = Redis::start();
    let set = |other: u64| {
        let limit = format!(
            "{{ requests: {AMOUNT}, window: 1d, algorithm: fixed_window, consistency: bounded }}"
        );
        rules(&[("lent", &limit), ("other", &fixed(other))])
    };
    let url = redis.url();
    let daemons = [(); 2].map(|()| Daemon::start(&set(1), &["--store", &url]));
    for daemon in &daemons {
        wait_until("the store", || {
            daemon.metric("tidegate_store_up", &[]) == 1.0
        });
    }
    let connections = || redis.cli(&["CLIENT", "LIST"]).lines().count();
    let before = connections();
    let command = [["TG.CHECK", "lent", "k"].to_vec()];
    let drives: Vec<_> = daemons
        .iter()
        .map(|daemon| Drive::cycle(daemon.resp(), &command, 400))
        .collect();
    for number in 2..40 {
        for daemon in &daemons {
            apply(daemon, &set(number));
        }
    }
    assert!(
        connections() <= before + daemons.len(),
        "a connection is left behind"
    );
    // Until the last of it is used.
    for daemon in &daemons {
        let mut client = Client::connect(daemon.resp());
        wait_until("the limit to be used up", || {
            matches!(client.command(&["TG.CHECK", "lent", "k"]), Value::Array(fields)
                if fields[0] == Value::Int(1))
        });
    }
    let mut admitted = 0;
    for drive in drives {
        let driven = drive.stop();
        assert_eq!(driven.errors, Vec::<String>::new());
        admitted += driven.admitted();
    }
    assert!(admitted <= AMOUNT, "{admitted} of {AMOUNT}");
}

#[test]
fn a_changed_table_of_keys_is_in_force_soon_even_after_it_was_broken() {
    let text = "api_keys: {file: keys.yaml}\nrules:\n  - {name: a, key: api_key, on_missing: deny, \
                limits: {requests: 9, window: 1d}}\n";
    let place = Place::new();
    let rules = place.write("rules.yaml", text);
    let keys = |key: &str| place.write("keys.yaml", &format!("- {{key: {key}}}\n"));
    keys("one");
    let daemon = Daemon::start_from(&["--rules", &rules]);
    let allowed = |key: &str| {
        let body = format!(r#"{{"rule":"a","key":"{key}","cost":0}}"#);
        http::request(daemon.http(), "POST", "/v1/check", &body).status == 200
    };
    assert!(allowed("one") && !allowed("two"));
    keys("two");
    wait_until("the new table to be in force", || allowed("two"));
    assert!(!allowed("one"));
    place.write("keys.yaml", "- {kee: three}\n");
    wait_until("the broken table to be refused", || {
        reloads(&daemon, "refused") >= 1.0
    });
    assert!(allowed("two"));
    keys("three");
    wait_until("the mended table to be in force", || allowed("three"));
}
