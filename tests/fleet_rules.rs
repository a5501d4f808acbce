//! Rules that lie in the store for the whole fleet.

// Tests fail by panicking, their helpers too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::process::Output;

use kit::http;
use kit::{Daemon, Place, Redis, stderr, stdout, wait_until};

fn rules(name: &str, requests: u64) -> String {
    format!("rules:\n- {{name: {name}, limits: {{requests: {requests}, window: 1d}}}}\n")
}

/// Runs `tidegate rules` with `redis` as its store.
fn run(place: &Place, redis: &Redis, args: &[&str]) -> Output {
    let url = redis.url();
    place.run([&["rules"], args, &["--store", &url]].concat())
}

fn push(place: &Place, redis: &Redis, text: &str) -> String {
    let file = place.write("push.yaml", text);
    let output = run(place, redis, &["push", &file]);
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// Starts a node with `rules_from` and these rules in a file of its own, ready or not.
fn node(place: &Place, redis: &Redis, rules_from: &str, rules: &str) -> Daemon {
    node_of("local.yaml", place, redis, rules_from, rules)
}

fn node_of(file: &str, place: &Place, redis: &Redis, rules_from: &str, rules: &str) -> Daemon {
    let file = place.write(file, rules);
    let url = redis.url();
    let mut args = vec!["--store", url.as_str(), "--rules", &file];
    for from in rules_from.split(',') {
        args.extend(["--rules-from", from]);
    }
    Daemon::start_not_ready(&args)
}

/// The limit of `rule`; -1 if there is no such rule.
fn limit(daemon: &Daemon, rule: &str) -> i64 {
    let body = format!(r#"{{"rule":"{rule}","key":"k","cost":0}}"#);
    let reply = http::request(daemon.http(), "POST", "/v1/check", &body);
    reply.json()["limit"].as_i64().unwrap_or(-1)
}

fn wait_for(daemon: &Daemon, rule: &str, amount: i64) {
    wait_until("the fleet's rules", || limit(daemon, rule) == amount);
}

fn status(daemon: &Daemon) -> serde_json::Value {
    http::request(daemon.admin(), "GET", "/status", "").json()
}

#[test]
fn what_is_pushed_is_in_force_on_every_node_soon_and_stays_without_the_store() {
    let (place, mut redis) = (Place::new(), Redis::start());
    assert!(push(&place, &redis, &rules("a", 10)).starts_with("pushed: version 1 ("));
    let mut nodes = [(); 2].map(|()| node(&place, &redis, "store", &rules("local", 1)));
    for node in &mut nodes {
        node.until_ready();
        assert_eq!((limit(node, "a"), limit(node, "local")), (10, -1));
    }
    push(&place, &redis, &rules("a", 20));
    for node in &nodes {
        wait_for(node, "a", 20);
        assert_eq!(status(node)["rules"]["from"], "the store, version 2");
        assert_eq!(node.metric("tidegate_rules_store_version", &[]), 2.0);
    }
    let digest = |node: &Daemon| status(node)["rules"]["digest"].clone();
    assert_eq!(digest(&nodes[0]), digest(&nodes[1]));

    redis.kill();
    for node in &nodes {
        wait_until("the store to be lost", || {
            node.metric("tidegate_store_up", &[]) == 0.0
        });
        // Nor does reading everything anew change it.
        assert_eq!(
            http::request(node.admin(), "POST", "/reload", "").status,
            200
        );
        assert_eq!(limit(node, "a"), 20);
    }
    // It comes back without its memory: there are no rules in it, and later others.
    redis.restart();
    let warned = "the store has rules no more";
    wait_until("the loss to be told", || nodes[0].log().contains(warned));
    assert_eq!(limit(&nodes[0], "a"), 20);
    assert!(push(&place, &redis, &rules("a", 30)).starts_with("pushed: version 1 ("));
    for node in &nodes {
        wait_for(node, "a", 30);
    }
}

#[test]
fn a_node_that_lives_by_the_store_alone_is_not_ready_before_it_has_rules() {
    let (place, redis) = (Place::new(), Redis::start());
    let mut node = node(&place, &redis, "store", &rules("local", 1));
    wait_until("the store", || {
        http::try_request(&node.admin(), "GET", "/metrics", &[], "")
            .is_ok_and(|reply| reply.body.contains("tidegate_store_up 1"))
    });
    let ready = http::request(node.admin(), "GET", "/readyz", "");
    assert_eq!(ready.status, 503);
    let body = ready.json();
    assert_eq!(body["ready"], false, "{body}");
    assert_eq!(body["reasons"], serde_json::json!(["rules"]), "{body}");
    push(&place, &redis, &rules("a", 10));
    node.until_ready();
    assert_eq!(limit(&node, "a"), 10);
}

#[test]
fn files_that_the_stores_rules_name_are_watched_on_every_node() {
    let (place, redis) = (Place::new(), Redis::start());
    let keys = place.write("keys.yaml", "- {key: k, tier: pro}\n");
    let limits = "limits: {free: {requests: 1, window: 1d}, pro: {requests: 2, window: 1d}}";
    let text =
        format!("api_keys: {{file: {keys}}}\nrules: [{{name: r, key: api_key, {limits}}}]\n");
    push(&place, &redis, &text);
    let mut node = node(&place, &redis, "store", &rules("local", 1));
    node.until_ready();
    assert_eq!(limit(&node, "r"), 2);
    place.write("keys.yaml", "- {key: k, tier: free}\n");
    wait_for(&node, "r", 1);
    // Rules that come before their file are in force as soon as it is there.
    let late = place.path("late.yaml");
    let text = format!(
        "api_keys: {{file: {}}}\nrules: [{{name: s, {limits}}}]\n",
        late.display()
    );
    let body = serde_json::json!({"files": [{"name": "x.yaml", "text": text}]}).to_string();
    let key = "default:rules";
    redis.cli(&["HSET", key, "version", "2", "hash", "h", "body", &body]);
    let refused = || node.metric("tidegate_config_reloads_total", &[("outcome", "refused")]);
    wait_until("the refusal", || refused() == 1.0);
    // The file of the rules that stay is watched all the same.
    place.write("keys.yaml", "- {key: k, tier: pro}\n");
    wait_for(&node, "r", 2);
    place.write("late.yaml", "- {key: k, tier: pro}\n");
    wait_for(&node, "s", 1);
    assert_eq!(status(&node)["rules"]["from"], "the store, version 2");
}

#[test]
fn files_stand_in_until_the_store_has_rules_or_override_it() {
    let (place, redis) = (Place::new(), Redis::start());
    let start = |file, from, rules: &str| node_of(file, &place, &redis, from, rules);
    let mut stand_in = start("1.yaml", "store,file", &rules("local", 1));
    let mut local = start("2.yaml", "file,store", &rules("local", 2));
    let mut empty = start("3.yaml", "file,store", "rules: []\n");
    for node in [&mut stand_in, &mut local, &mut empty] {
        node.until_ready();
    }
    wait_for(&stand_in, "local", 1);
    push(&place, &redis, &rules("a", 10));
    wait_for(&stand_in, "a", 10);
    wait_for(&empty, "a", 10);
    assert_eq!(limit(&stand_in, "local"), -1);
    wait_until("the override to be told", || {
        local
            .log()
            .contains("the rules of files override the store's")
    });
    assert_eq!((limit(&local, "local"), limit(&local, "a")), (2, -1));
}

#[test]
fn a_node_whose_files_stand_in_is_ready_though_the_store_is_lost_or_says_nonsense() {
    let (place, mut redis) = (Place::new(), Redis::start());
    redis.cli(&[
        "HSET",
        "default:rules",
        "version",
        "1",
        "hash",
        "h",
        "body",
        "nonsense",
    ]);
    for _ in 0..2 {
        let mut node = node(&place, &redis, "store,file", &rules("local", 1));
        node.until_ready();
        assert_eq!(limit(&node, "local"), 1);
        redis.kill();
    }
}

#[test]
fn files_may_begin_and_cease_to_override_the_store() {
    let (place, redis) = (Place::new(), Redis::start());
    push(&place, &redis, &rules("a", 10));
    let mut node = node(&place, &redis, "file,store", "rules: []\n");
    node.until_ready();
    wait_for(&node, "a", 10);
    place.write("local.yaml", &rules("local", 5));
    wait_for(&node, "local", 5);
    assert_eq!(limit(&node, "a"), -1);
    place.write("local.yaml", "rules: []\n");
    wait_for(&node, "a", 10);
    assert_eq!(limit(&node, "local"), -1);
}

#[test]
fn what_a_node_cannot_use_is_refused_by_it_and_told() {
    let (place, redis) = (Place::new(), Redis::start());
    push(&place, &redis, &rules("a", 10));
    let mut node = node(&place, &redis, "store", "rules: []\n");
    node.until_ready();
    // As a newer version of the program might push it.
    let body = r#"{"files":[{"name":"x.yaml","text":"rules:\n- {name: a, newer: 1}\n"}]}"#;
    redis.cli(&[
        "HSET",
        "default:rules",
        "version",
        "2",
        "hash",
        "h",
        "body",
        body,
    ]);
    let refused = || node.metric("tidegate_config_reloads_total", &[("outcome", "refused")]);
    wait_until("the refusal", || refused() == 1.0);
    assert_eq!(limit(&node, "a"), 10);
    let place_of_it = "store/v2/x.yaml:2:13: rule \"a\": newer:";
    assert_eq!(node.log().matches(place_of_it).count(), 1, "{}", node.log());
    redis.cli(&[
        "HSET",
        "default:rules",
        "version",
        "3",
        "hash",
        "i",
        "body",
        "nonsense",
    ]);
    wait_until("the refusal", || refused() == 2.0);
    assert_eq!(status(&node)["rules"]["from"], "the store, version 1");
    assert_eq!(
        http::request(node.admin(), "GET", "/readyz", "").status,
        200
    );
    redis.cli(&["HSET", "default:rules", "version", "3"]);
    assert!(push(&place, &redis, &rules("a", 11)).starts_with("pushed: version 4 ("));
    wait_for(&node, "a", 11);
}

#[test]
fn a_broken_set_and_what_is_private_are_never_pushed() {
    let (place, redis) = (Place::new(), Redis::start());
    for (text, told) in [
        (
            "rules:\n- {name: a, limits: {requests: ten, window: 1d}}\n",
            "push.yaml:2:32: rule \"a\"",
        ),
        (
            "store: redis://:marker@h\nrules: []\n",
            "push.yaml:1:1: `store` is a setting, for one node alone",
        ),
        (
            "api_keys: [{key: marker}]\nrules: []\n",
            "push.yaml:1:1: a key in clear",
        ),
    ] {
        let file = place.write("push.yaml", text);
        for action in ["push", "diff"] {
            let output = run(&place, &redis, &[action, &file]);
            assert_eq!(output.status.code(), Some(2), "{text}");
            assert!(stderr(&output).contains(told), "{}", stderr(&output));
            assert!(!stderr(&output).contains("marker"));
        }
    }
    assert_eq!(redis.cli(&["EXISTS", "default:rules"]), "0");
}

#[test]
fn a_push_goes_over_the_version_that_its_author_has_seen_and_no_other() {
    let (place, redis) = (Place::new(), Redis::start());
    let file = place.write("a.yaml", &rules("a", 1));
    let first = run(&place, &redis, &["push", &file, "--over", "0"]);
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    let again = run(&place, &redis, &["push", &file]);
    assert!(
        stdout(&again).starts_with("unchanged: version 1 ("),
        "{}",
        stdout(&again)
    );
    place.write("a.yaml", &rules("a", 2));
    let late = run(&place, &redis, &["push", &file, "--over", "0"]);
    assert_eq!(late.status.code(), Some(1));
    let told = "somebody was faster: the store has version 1 now; nothing was changed";
    assert!(stderr(&late).contains(told), "{}", stderr(&late));
    assert!(
        redis
            .cli(&["HGET", "default:rules", "body"])
            .contains("requests: 1")
    );
    let next = run(&place, &redis, &["push", &file, "--over", "1"]);
    assert!(
        stdout(&next).starts_with("pushed: version 2 ("),
        "{}",
        stdout(&next)
    );
}

#[test]
fn what_is_pulled_is_what_was_pushed_and_differences_are_told_by_rule() {
    let (place, redis) = (Place::new(), Redis::start());
    let nothing = run(&place, &redis, &["pull", "-"]);
    assert_eq!(nothing.status.code(), Some(1));
    std::fs::create_dir(place.path("set")).unwrap();
    let one = place.write("set/1.yaml", &rules("a", 1));
    place.write(
        "set/2.toml",
        "[[rules]]\nname = 'b'\nlimits = {requests = 2, window = '1d'}\n",
    );
    let set = place.path("set").to_str().unwrap().to_owned();
    assert!(run(&place, &redis, &["push", &set]).status.success());
    let same = run(&place, &redis, &["diff", &set]);
    assert_eq!(stdout(&same), "the same as version 1 in the store\n");
    let pulled = place.path("pulled").to_str().unwrap().to_owned();
    let pull = run(&place, &redis, &["pull", &pulled]);
    assert!(
        stdout(&pull).starts_with("pulled: version 1 ("),
        "{}",
        stderr(&pull)
    );
    for name in ["1.yaml", "2.toml"] {
        let read = |set: &str| std::fs::read_to_string(place.path(set).join(name)).unwrap();
        assert_eq!(read("set"), read("pulled"));
    }
    place.write("set/1.yaml", &rules("a", 7));
    let differs = run(&place, &redis, &["diff", &set]);
    assert_eq!(differs.status.code(), Some(1));
    let want = format!(
        "from version 1 in the store to {set}\n~ rule a\n  - limits.requests: 1\n  + limits.requests: 7\n"
    );
    assert_eq!(stdout(&differs), want);
    // One file has to be called as what is in it.
    assert!(run(&place, &redis, &["push", &one]).status.success());
    let other = run(
        &place,
        &redis,
        &["pull", place.path("x.toml").to_str().unwrap()],
    );
    assert_eq!(other.status.code(), Some(2), "{}", stderr(&other));
    assert!(!place.path("x.toml").exists());
}

#[test]
fn a_store_that_cannot_be_asked_is_told_from_one_without_rules() {
    let (place, mut redis) = (Place::new(), Redis::start());
    let url = redis.url();
    redis.kill();
    let file = place.write("a.yaml", &rules("a", 1));
    for args in [
        ["push", file.as_str()],
        ["pull", "-"],
        ["diff", file.as_str()],
    ] {
        let output = place.run([&["rules"], &args[..], &["--store", &url]].concat());
        assert_eq!(output.status.code(), Some(69), "{}", stderr(&output));
    }
    let none = place.run(["rules", "pull", "-"]);
    assert_eq!(none.status.code(), Some(2));
    let serve = place.run(["serve", "--rules-from", "store"]);
    assert_eq!(serve.status.code(), Some(2));
    assert!(
        stderr(&serve).contains("--rules-from: there is no store"),
        "{}",
        stderr(&serve)
    );
}
