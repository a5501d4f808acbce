//! The program as people and scripts meet it: what it prints, how it ends.

// Tests fail by panicking, their helpers too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::Output;

use kit::{Daemon, Place, http, stderr, stdout, sum, wait_until};

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[test]
fn the_first_command_serves_and_its_own_suggestion_works() {
    let place = Place::new();
    let daemon = place.serve([]);
    assert!(
        daemon
            .banner
            .contains("serves 2 rules: orders, login (the built-in config/tidegate.yaml)\n"),
        "{}",
        daemon.banner
    );
    let answer = place
        .command("sh")
        .args(["-c", daemon.suggestion()])
        .output()
        .unwrap();
    let answer = stdout(&answer);
    assert!(
        answer.starts_with(r#"{"allowed":true,"rule":"orders","#),
        "{answer}"
    );
    let mode = place.runtime_dir().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn check_tells_allowed_refused_unknown_and_unreachable_apart() {
    let place = Place::new();
    let daemon = place.serve([]);
    for left in (0..5).rev() {
        let output = place.run(["check", "login", "alice"]);
        assert_eq!(code(&output), 0);
        let answer: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(answer["remaining"], left);
        assert_eq!(stdout(&output).lines().count(), 1);
    }
    let refused = place.run(["check", "login", "alice"]);
    assert_eq!(code(&refused), 1, "{}", stderr(&refused));
    let answer: serde_json::Value = serde_json::from_str(&stdout(&refused)).unwrap();
    assert_eq!(answer["error"], "rate_limit_exceeded");
    assert_eq!(
        code(&place.run(["check", "login", "bob", "--cost", "6"])),
        1
    );
    assert_eq!(
        code(&place.run(["check", "login", "bob", "--cost", "5"])),
        0
    );
    assert_eq!(code(&place.run(["check", "nothing", "alice"])), 2);

    daemon.signal("TERM");
    let (status, said) = daemon.end();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_eq!(code(&place.run(["check", "login", "alice"])), 69);
}

#[test]
fn check_tells_a_refusal_whatever_it_looks_like() {
    let place = Place::new();
    let rules = place.write(
        "own.yaml",
        "rules: [{name: own, limits: {requests: 1, window: 1h}, answers: {refusal: \
         {status: 400, body: \"no\", content_type: text/plain}}}]",
    );
    let _daemon = place.serve(["--rules", &rules]);
    assert_eq!(code(&place.run(["check", "own", "alice"])), 0);
    let refused = place.run(["check", "own", "alice"]);
    assert_eq!(code(&refused), 1, "{}", stderr(&refused));
    let answer: serde_json::Value = serde_json::from_str(&stdout(&refused)).unwrap();
    assert_eq!(answer["error"], "rate_limit_exceeded");
    // What is said to callers of callers is not of interest here.
    assert_eq!(answer.get("response"), None);
    assert_eq!(code(&place.run(["check", "none", "alice"])), 2);
}

#[test]
fn check_asks_for_a_tier() {
    let place = Place::new();
    let _daemon = place.serve([]);
    for (tier, limit) in [("free", 10), ("pro", 100), ("enterprise", 1_000)] {
        let output = place.run(["check", "orders", "alice", "--tier", tier]);
        let answer: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(answer["limit"], limit, "{tier}");
    }
}

#[test]
fn check_works_over_tcp_too() {
    let place = Place::new();
    let daemon = place.serve(["--http", "127.0.0.1:0"]);
    let http = daemon.banner.split("http ").nth(1).unwrap();
    let address = http.split_whitespace().next().unwrap();
    let output = place.run(["check", "orders", "alice", "--http", address]);
    assert_eq!(code(&output), 0, "{address}: {}", stderr(&output));
}

#[test]
fn a_daemon_told_to_end_is_no_longer_ready_but_serves_until_the_delay_is_over() {
    let place = Place::new();
    let daemon = place.serve(["--drain-delay", "1h"]);
    let ready = || place.run(["check", "--ready"]);
    assert_eq!(code(&ready()), 0);
    assert_eq!(stdout(&ready()), "{\"ready\":true}\n");
    daemon.signal("TERM");
    while code(&ready()) == 0 {}
    assert_eq!(code(&ready()), 1);
    assert_eq!(stdout(&ready()), "{\"ready\":false}\n");
    assert_eq!(code(&place.run(["check", "orders", "alice"])), 0);
    // A second signal ends the delay, and tells that not all was done.
    daemon.signal("INT");
    let (status, said) = daemon.end();
    assert_eq!(status.code(), Some(1), "{said}");
}

#[test]
fn a_door_that_other_machines_can_reach_is_warned_of() {
    let place = Place::new();
    for (flag, address, warned) in [
        ("--http", "0.0.0.0:0", 1),
        ("--resp", "[::]:0", 1),
        ("--resp", "127.0.0.1:0", 0),
    ] {
        let daemon = place.serve([flag, address]);
        daemon.signal("TERM");
        let (_, said) = daemon.end();
        let warnings = said.matches("other machines may reach this door").count();
        assert_eq!(warnings, warned, "{said}");
    }
}

#[test]
fn an_unknown_path_is_told_where_to_ask() {
    let place = Place::new();
    let _daemon = place.serve([]);
    let http = place.runtime_dir().join("http.sock");
    let answer = place
        .command("curl")
        .args(["-s", "-w", "%{http_code}", "--unix-socket"])
        .arg(http)
        .arg("http://localhost/check")
        .output()
        .unwrap();
    assert_eq!(
        stdout(&answer),
        r#"{"error":"not_found","message":"ask with POST /v1/check, /v1/report or /v1/settle, or by /v1/authorize"}404"#
    );
}

#[test]
fn sockets_are_gone_after_the_end() {
    let place = Place::new();
    let daemon = place.serve([]);
    let sockets = || place.runtime_dir().read_dir().unwrap().count();
    assert_eq!(sockets(), 3);
    daemon.signal("INT");
    assert_eq!(daemon.end().0.code(), Some(0));
    assert_eq!(sockets(), 0);
}

#[test]
fn an_address_that_is_taken_is_told_and_left_alone() {
    let place = Place::new();
    let _first = place.serve([]);
    let second = place.run(["serve"]);
    assert_eq!(code(&second), 69);
    assert!(stderr(&second).contains("http.sock"), "{}", stderr(&second));
    assert_eq!(code(&place.run(["check", "orders", "alice"])), 0);
}

#[test]
fn all_faults_are_told_and_the_code_is_two() {
    let place = Place::new();
    let config = place.write(
        "bad.yaml",
        "max_keyss: 1\nrules:\n  - endpoint: /a\n    limits: {default: {requests: 5, window: 5x}}\n",
    );
    let output = place
        .tidegate(["serve", "--config", &config, "--drain-delay", "soon"])
        .env("TIDEGATE_MAX_CONNECTIONS", "many")
        .output()
        .unwrap();
    assert_eq!(code(&output), 2);
    let told = stderr(&output);
    for part in [
        "--drain-delay: `soon` is not a duration",
        "TIDEGATE_MAX_CONNECTIONS: `many`",
        "bad.yaml:1:1: there is no key `max_keyss`; did you mean `max_keys`?",
        "bad.yaml:4:",
        "window",
    ] {
        assert!(told.contains(part), "{part} is missing in:\n{told}");
    }
    assert_eq!(told.lines().count(), 4, "{told}");
    assert_eq!(stdout(&output), "");
}

#[test]
fn validate_tells_all_faults_of_all_files_and_what_is_sound() {
    let place = Place::new();
    let rules = place.write(
        "rules.json",
        r#"{"rules":[{"endpoint":"/a","limits":{"default":{"requests":5,"window":"1m"}}}]}"#,
    );
    let config = place.write(
        "config.toml",
        "max_keys = 5\nrules_files = [\"rules.json\"]\n",
    );
    let output = place.run(["validate", &rules, &config]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        format!("{rules}: sound, 1 rule\n{config}: a sound config file, 1 rule\n")
    );
    let bad = place.write("bad.yaml", "rules:\n  - endpoint: 5\n    limits: {}\n");
    let worse = place.write("worse.yaml", "http: [nowhere]\nnode: ''\n");
    let output = place.run(["validate", &rules, &bad, &worse]);
    assert_eq!(code(&output), 2);
    assert!(stdout(&output).ends_with("sound, 1 rule\n"));
    let told = stderr(&output);
    assert!(told.contains("bad.yaml:2:"), "{told}");
    assert!(told.contains("worse.yaml:1:8: http"), "{told}");
    assert!(told.contains("worse.yaml:2:7: node"), "{told}");
    assert_eq!(code(&place.run(["validate", "/nowhere.yaml"])), 2);
    assert_eq!(
        code(&place.run(["validate", "--kind", "config", &rules])),
        0
    );
}

#[test]
fn rules_by_flag_replace_those_of_the_config_file_and_a_directory_is_all_its_files() {
    let place = Place::new();
    let directory = place.path("rules.d");
    std::fs::create_dir(&directory).unwrap();
    let rule = |name: &str| {
        format!(
            "rules:\n  - name: {name}\n    endpoint: /{name}\n    limits: {{default: {{requests: 5, window: 1m}}}}\n"
        )
    };
    place.write("rules.d/b.yaml", &rule("second"));
    place.write("rules.d/a.yml", &rule("first"));
    place.write("rules.d/notes.txt", "no rules");
    place.write("rules.d/.hidden.yaml", "no: rules");
    let directory = directory.to_str().unwrap();
    let daemon = place.serve(["--rules", directory]);
    let serves = format!("serves 2 rules: first, second ({directory})\n");
    assert!(daemon.banner.contains(&serves), "{}", daemon.banner);
}

#[test]
fn no_secret_is_told_by_anything() {
    const MARKER: &str = "m4rk3r-s3cr3t-0123456789";
    let place = Place::new();
    let key = place.write("key", MARKER);
    let token = place.write("token", MARKER);
    let store = format!("redis+unix:///nowhere/redis.sock?pass={MARKER}");
    let mut command = place.tidegate([
        "serve",
        "--log",
        "trace",
        "--key-secret-file",
        &key,
        "--admin-token-file",
        &token,
        "--final-sync-timeout",
        "0s",
    ]);
    let daemon = kit::Served::start(command.env("TIDEGATE_STORE", &store));
    assert_eq!(code(&place.run(["check", "orders", MARKER])), 0);
    let admin = place.runtime_dir().join("admin.sock");
    let metrics = place
        .command("curl")
        .args(["-s", "--unix-socket", admin.to_str().unwrap()])
        .arg("http://localhost/metrics")
        .output()
        .unwrap();
    let metrics = stdout(&metrics);
    assert!(metrics.contains("tidegate_checks_total"), "{metrics}");
    assert!(!metrics.contains(MARKER));
    daemon.signal("TERM");
    let (_, said) = daemon.end();
    assert!(said.contains("***"), "{said}");
    assert!(!said.contains(MARKER), "{said}");
    let help = place
        .tidegate(["serve", "--help"])
        .env("TIDEGATE_STORE", &store)
        .output()
        .unwrap();
    assert!(!stdout(&help).contains(MARKER));
    let bad = place.run(["serve", "--store", &format!("http://:{MARKER}@h")]);
    assert_eq!(code(&bad), 2);
    assert!(!stderr(&bad).contains(MARKER));
}

#[test]
fn the_config_is_waited_for_when_told_so() {
    let place = Place::new();
    let late = place.path("late.yaml");
    let late = late.to_str().unwrap();
    let missing = place.run(["serve", "--config", late]);
    assert_eq!(code(&missing), 2);
    let never = place.run(["serve", "--config", late, "--wait-for-config", "1ms"]);
    assert!(
        stderr(&never).contains("did not appear within 1ms"),
        "{}",
        stderr(&never)
    );
    let mut command = place.tidegate(["serve", "--config", late, "--wait-for-config", "1h"]);
    let waiting = std::thread::spawn(move || kit::Served::start(&mut command));
    // Renamed, so that it appears with its text in it.
    place.write(
        "early.yaml",
        &std::fs::read_to_string(kit::root().join("config/tidegate.yaml")).unwrap(),
    );
    std::fs::rename(place.path("early.yaml"), late).unwrap();
    let daemon = waiting.join().unwrap();
    assert!(daemon.banner.contains("late.yaml"), "{}", daemon.banner);
}

#[test]
fn json_logs_are_one_object_a_line_and_nothing_else_is_printed() {
    let place = Place::new();
    let mut child = place
        .tidegate(["serve", "--log-format", "json", "--log", "debug"])
        .env("TIDEGATE_SYNC_INTERVALL", "5s")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while code(&place.run(["check", "--ready"])) != 0 {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
    }
    let status = std::process::Command::new("kill")
        .arg(child.id().to_string())
        .status();
    assert!(status.unwrap().success());
    assert!(child.wait().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "");
    let told = stderr(&output);
    let events: Vec<serde_json::Value> = told
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        events.iter().any(|event| event["message"] == "serving"),
        "{told}"
    );
    let misspelt = "TIDEGATE_SYNC_INTERVALL has no effect; did you mean TIDEGATE_SYNC_INTERVAL?";
    assert!(
        events.iter().any(|event| event["message"] == misspelt),
        "{told}"
    );
}

#[test]
fn usage_errors_are_two_and_help_is_zero() {
    let place = Place::new();
    for (arguments, expected) in [
        (vec![], 2),
        (vec!["--help"], 0),
        (vec!["--version"], 0),
        (vec!["serve", "--help"], 0),
        (vec!["serve", "--colour"], 2),
        (vec!["check"], 2),
        (vec!["check", "--ready", "orders"], 2),
        (vec!["check", "--domain", "d", "orders", "alice"], 2),
        (vec!["check", "orders", "alice", "--entry", "a=b"], 2),
        (vec!["explain", "--domain", "d", "--path", "/a"], 2),
        (vec!["explain", "--path", "/a", "--entry", "a=b"], 2),
        (vec!["check", "orders", "alice", "--http", "nowhere"], 2),
        (vec!["check", "orders", "alice", "--timeout", "soon"], 2),
        (vec!["validate"], 2),
    ] {
        assert_eq!(
            code(&place.run(arguments.clone())),
            expected,
            "{arguments:?}"
        );
    }
    let help = stdout(&place.run(["--help"]));
    for line in ["Exit codes:", "   0  done", "  69  check: no answer"] {
        assert!(help.contains(line), "{help}");
    }
}

#[test]
fn a_service_manager_is_told_when_it_serves_and_when_it_ends() {
    let place = Place::new();
    let socket = UnixDatagram::bind(place.path("notify")).unwrap();
    let mut command = place.tidegate(["serve"]);
    let daemon = kit::Served::start(command.env("NOTIFY_SOCKET", place.path("notify")));
    let told = || {
        let mut buffer = [0; 100];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    assert_eq!(told().trim(), "READY=1");
    daemon.signal("TERM");
    assert_eq!(told().trim(), "STOPPING=1");
    assert_eq!(daemon.end().0.code(), Some(0));
}

#[test]
fn a_file_without_end_is_refused() {
    let place = Place::new();
    let link = place.path("endless.yaml");
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    let output = place
        .tidegate(["validate", link.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("longer than 16 MiB"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_wrong_value_is_told_with_what_to_write_in_plain_words() {
    let place = Place::new();
    for (arguments, told) in [
        ("simulate --limit 0", "`0` is not a whole number from 1 to"),
        (
            "simulate --nodes x",
            "`x` is not a whole number from 1 to 10000",
        ),
        (
            "simulate --nodes -3",
            "`-3` is not a whole number from 1 to 10000",
        ),
        (
            "simulate --threads 0",
            "`0` is not a whole number from 1 to",
        ),
        ("simulate --seed -1", "`-1` is not a whole number from 0 to"),
        (
            "simulate --target-over -1%",
            "write a percentage such as 1%",
        ),
        ("simulate --zipf -1", "write a number from 0 to 10"),
        ("simulate --rate -5", "write checks a second"),
        (
            "simulate --window -1s",
            "`-1s` is not a duration; write 250ms",
        ),
        (
            "simulate --window 999999999s",
            "a window of 11574d2h is too long; the longest is 3660d",
        ),
        (
            "check a b --cost -1",
            "`-1` is not a whole number from 0 to",
        ),
        ("check a b --timeout -1s", "`-1s` is not a duration"),
        (
            "serve --max-keys -1",
            "--max-keys: `-1` is not a whole number",
        ),
        (
            "serve --sync-interval -1s",
            "--sync-interval: `-1s` is not a duration",
        ),
        (
            "serve --sync-interval 9999999999999d",
            "--sync-interval: 9999999999999d is out of range; write a duration from 1ms to 1h",
        ),
        (
            "serve --runtime-dir /proc/x",
            "cannot make the runtime directory /proc/x: No such file or directory",
        ),
        ("serve --log wran", "--log: `wran` is neither a level"),
        (
            "serve --rules /nowhere",
            "/nowhere: cannot read it: No such file",
        ),
        (
            "validate /nowhere",
            "/nowhere: cannot read it: No such file",
        ),
    ] {
        let said = stderr(&place.run(arguments.split(' ')));
        assert!(said.contains(told), "{arguments}: {said}");
    }
}

#[test]
fn forwarding_headers_of_strangers_are_counted_and_told_once() {
    let rules = "rules: [{name: r, limits: {requests: 10, window: 1h, algorithm: fixed_window}}]";
    let daemon = Daemon::start(rules, &[]);
    for n in 0..50 {
        let body = format!(
            "{{\"request\": {{\"method\": \"GET\", \"path\": \"/\", \"ip\": \"10.0.0.5\", \
             \"headers\": {{\"X-Forwarded-For\": \"203.0.113.{n}\"}}}}}}"
        );
        let reply = http::request(daemon.http(), "POST", "/v1/check", &body);
        // All are the balancer.
        assert_eq!(reply.status, if n < 10 { 200 } else { 429 });
    }
    wait_until("all to be counted", || {
        let page = daemon.metrics();
        sum(&page, "tidegate_forwarding_ignored_total", &[]) == Some(50.0)
    });
    let log = daemon.log();
    let told = "forwarding headers are ignored";
    assert_eq!(log.matches(told).count(), 1, "{log}");
    assert!(log.contains("from=10.0.0.5"), "{log}");
}

#[test]
fn a_config_file_says_who_callers_are_by_files_beside_it() {
    let place = Place::new();
    let config = place.write(
        "tidegate.yaml",
        "api_keys: {file: keys.yaml}\njwt: [{issuer: me, audience: api, algorithms: [HS256], \
         secret_file: secret}]\nrules: [{name: r, key: [api_key, subject], limits: {requests: 1, \
         window: 1m}}]\n",
    );
    let missing = stderr(&place.run(["validate", &config]));
    assert!(missing.contains("api_keys.file: "), "{missing}");
    assert!(missing.contains("jwt[0].secret_file: "), "{missing}");
    place.write("keys.yaml", "- {key: sk_live_1, name: acme}\n");
    place.write("secret", "a shared secret of more than 32 bytes\n");
    let output = place.run(["validate", &config]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

const EXPLAINED: &str = "\
api_keys: [{key: sk_live_1, name: acme}]
rules:
  - {name: search, endpoint: POST /api/search, limits: {requests: 5, window: 1h}}
  - {name: api, endpoint: /api/**, key: api_key, cost: 2, limits: {requests: 10, window: 1d, algorithm: fixed_window}, answers: {x_ratelimit: true, reset: delta, ietf: false}}
";

#[test]
fn explain_tells_by_a_rules_file_what_a_fresh_daemon_would_say() {
    let place = Place::new();
    let rules = place.write("rules.yaml", EXPLAINED);
    let base = ["explain", "--rules", &rules, "--path", "/api/x"];
    let explain =
        |more: &[&'static str]| place.run(base.iter().copied().chain(more.iter().copied()));
    let output = explain(&["--header", "X-API-Key=sk_live_1"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let told = stdout(&output);
    for line in [
        "caller: api key of acme",
        "search: no, its endpoint is another path",
        "api: applies, counts api_key acme, tier default",
        "  default/1d: 10 per 1d, fixed_window, enforce, approximate; costs 2 of 10 left: allowed",
        "answer: allowed, status 200",
        "  X-RateLimit-Remaining: 8",
    ] {
        assert!(told.lines().any(|told| told == line), "{line} in\n{told}");
    }
    assert!(!told.contains("sk_live"), "{told}");

    let output = explain(&["--cost", "6", "--json", "--ip", "203.0.113.9"]);
    let told: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(told["answer"]["outcome"], "impossible");
    assert_eq!(told["answer"]["status"], 429);
    assert_eq!(told["rules"][0]["why_not"], "endpoint");
    assert_eq!(told["rules"][1]["limits"][0]["cost"], 12);

    let config = place.write("config.yaml", &format!("max_keys: 1000\n{EXPLAINED}"));
    let output = place.run(["explain", "--config", &config, "--path", "/"]);
    assert!(
        stdout(&output).ends_with("answer: unlimited, status 200\n"),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
}

#[test]
fn explain_tells_what_is_left_at_a_running_daemon_and_takes_nothing() {
    let place = Place::new();
    let rules = place.write("rules.yaml", EXPLAINED);
    let _daemon = place.serve(["--rules", &rules]);
    let check = place.run(["check", "api", "sk_live_1", "--cost", "3"]);
    assert_eq!(code(&check), 0, "{}", stdout(&check));
    for cost in ["2", "3"] {
        let output = place.run([
            "explain",
            "--path",
            "/api/x",
            "--header",
            "Authorization=Bearer sk_live_1",
            "--cost",
            cost,
            "--json",
        ]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let told: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        let limit = &told["rules"][1]["limits"][0];
        assert_eq!(limit["remaining"], 4, "{told}");
        let (outcome, status) = match cost {
            "2" => ("allowed", 200),
            _ => ("refused", 429),
        };
        assert_eq!(limit["outcome"], outcome);
        assert_eq!(told["answer"]["status"], status);
    }
}

#[test]
fn explain_tells_a_wrong_question_from_an_absent_daemon() {
    let place = Place::new();
    let rules = place.write("rules.yaml", EXPLAINED);
    assert_eq!(code(&place.run(["explain", "--path", "/"])), 69);
    let twice = ["--header", "a=1", "--header", "A=2"];
    let question = ["explain", "--rules", &rules, "--path", "/"];
    let output = place.run(question.into_iter().chain(twice));
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("header a is given twice"));
    let broken = place.write("broken.yaml", "rules: [{name: 1}]\n");
    let output = place.run(["explain", "--rules", &broken, "--path", "/"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("broken.yaml:1:"),
        "{}",
        stderr(&output)
    );
    let daemon = Daemon::start("rules: []\n", &[]);
    let wrong = http::request(
        daemon.admin(),
        "POST",
        "/explain",
        r#"{"rule":"r","key":"k"}"#,
    );
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    assert!(
        wrong.body.contains("only one described request"),
        "{}",
        wrong.body
    );
}

#[test]
fn check_and_explain_know_descriptors() {
    let place = Place::new();
    let rules = place.write(
        "envoy.yaml",
        "domain: shop\ndescriptors: [{key: path, value: /login, descriptors: \
         [{key: user, rate_limit: {unit: year, requests_per_unit: 2}}]}]",
    );
    let _daemon = place.serve(["--rules", &rules]);
    let entries = [
        "--domain",
        "shop",
        "--entry",
        "path=/login",
        "--entry",
        "user=a=b",
    ];
    let ask = |command| place.run([command].into_iter().chain(entries));
    let explained = stdout(&ask("explain"));
    assert!(
        explained.contains("counts path /login + user a=b"),
        "{explained}"
    );
    assert!(
        explained.contains("costs 1 of 2 left: allowed"),
        "{explained}"
    );
    for left in [1, 0] {
        let output = ask("check");
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let answer: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(answer["rule"], "shop.path_/login.user");
        assert_eq!(
            (&answer["limit"], &answer["remaining"]),
            (&2.into(), &left.into())
        );
    }
    assert_eq!(code(&ask("check")), 1);
    let explained = stdout(&ask("explain"));
    assert!(
        explained.contains("costs 1 of 0 left: refused"),
        "{explained}"
    );
    let other = place.run(["check", "--domain", "shop", "--entry", "user=a"]);
    assert_eq!(code(&other), 0);
    let explained = place.run(["explain", "--domain", "shop"]);
    assert!(stdout(&explained).contains("no, it is for other descriptors"));
    let explained = place.run(["explain", "--domain", "other"]);
    assert!(stdout(&explained).contains("no, it is for descriptors of another domain"));
    let unknown = place.run(["check", "--domain", "other"]);
    assert_eq!(code(&unknown), 0);
}

#[test]
fn an_unknown_domain_is_a_mistake_where_domains_are_strict() {
    let place = Place::new();
    let rules = place.write(
        "rules.yaml",
        "strict_domains: true\nrules: [{name: a, ban: true}]",
    );
    let _daemon = place.serve(["--rules", &rules]);
    let unknown = place.run(["check", "--domain", "other", "--entry", "a=b"]);
    assert_eq!(code(&unknown), 2);
    assert!(
        stdout(&unknown).contains("unknown_rule"),
        "{}",
        stdout(&unknown)
    );
}

#[test]
fn a_rule_that_counts_many_paths_with_queries_is_told_of_once() {
    let rules = "rules: [{name: by-path, domain: d, descriptors: [{key: path}], \
                 limits: {requests: 5, window: 1m}}]";
    let daemon = Daemon::start(rules, &[]);
    let ask = |from: usize| {
        let checks = (from..from + 900).map(|n| {
            let entries = serde_json::json!([{"key": "path", "value": format!("/x?n={n}")}]);
            serde_json::json!({"domain": "d", "entries": entries})
        });
        let checks: Vec<_> = checks.collect();
        let body = serde_json::json!({ "checks": checks }).to_string();
        let reply = http::request(daemon.http(), "POST", "/v1/check", &body);
        assert_eq!(reply.status, 200, "{reply:?}");
    };
    ask(0);
    ask(900);
    wait_until("the rule to be told of", || {
        sum(&daemon.metrics(), "tidegate_rules_of_many_paths", &[]) == Some(1.0)
    });
    let log = daemon.log();
    let told = "counts a thousand and more paths with queries";
    assert_eq!(log.matches(told).count(), 1, "{log}");
    assert!(log.contains("by-path"), "{log}");
}
