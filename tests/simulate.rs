//! `tidegate simulate` as people and scripts meet it.

// Tests fail by panicking, their helpers too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use kit::{Place, stderr, stdout};
use serde_json::Value;

/// A fleet that is simulated in a moment.
const SMALL: [&str; 9] = [
    "simulate",
    "--algorithm",
    "fixed_window",
    "--limit",
    "200",
    "--windows",
    "4",
    "--sync-interval",
    "10ms,100ms",
];

fn run(place: &Place, more: &[&str]) -> String {
    let output = place.run(SMALL.iter().chain(more).copied());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "no progress where nobody watches");
    stdout(&output)
}

fn json(place: &Place, more: &[&str]) -> Value {
    let text = run(place, &[&["--format", "json"], more].concat());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_table_has_a_row_for_each_interval_and_mode_and_a_recommendation() {
    let place = Place::new();
    let text = run(&place, &["--consistency", "approximate,local"]);
    let starts = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(starts("approximate  "), 2, "{text}");
    assert_eq!(starts("local        "), 2, "{text}");
    assert!(text.contains("\napproximate: --sync-interval "), "{text}");
    assert!(text.contains("\nlocal: no interval here keeps"), "{text}");
    assert!(text.contains("; seed 1\n"), "{text}");
    assert!(
        text.lines()
            .last()
            .unwrap()
            .starts_with("again: tidegate simulate --nodes 4 ")
    );
}

#[test]
fn the_object_tells_the_figures_of_each_row() {
    let place = Place::new();
    let told = json(&place, &[]);
    assert_eq!(told["scenario"]["rate"], 400.0);
    assert_eq!(told["scenario"]["window_ms"], 1_000);
    let rows = told["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, (every, plain, most)) in rows.iter().zip([(10, 0.015, 240.0), (100, 0.15, 40.0)]) {
        assert_eq!(row["sync_interval_ms"], every);
        assert_eq!(row["over"]["windows"], 4, "{row}");
        let number = |name: &str| row[name].as_f64().unwrap();
        let (checks, admitted) = (number("checks"), number("admitted"));
        assert_eq!(checks, admitted + number("refused"));
        // Five windows of 200 were filled, and hardly more.
        assert!((1_000.0..1_050.0).contains(&admitted), "{row}");
        assert!(number("used") > 0.99, "{row}");
        // With each hello the seal is asked for.
        let sum = number("batches_per_second") + 2.0 * number("hellos_per_second");
        assert!((number("commands_per_second") - sum).abs() < 1e-9, "{row}");
        assert_eq!(number("hellos_per_second"), 4.0);
        // The law: (1 - 4 (1/4)²) · 2 · T/W, and at most a command for each check.
        let over = row["plain"]["over"].as_f64().unwrap();
        assert!((over - plain).abs() < 1e-9, "{row}");
        let commands = row["plain"]["commands_per_second"].as_f64().unwrap();
        assert!(commands > most / 2.0 && commands <= most * 1.1, "{row}");
    }
    assert_eq!(told["recommended"][0]["mode"], "approximate");
    assert_eq!(told["recommended"][0]["found"], "within_target");
}

#[test]
fn the_command_that_is_printed_prints_the_same_on_any_number_of_threads() {
    let place = Place::new();
    let more = [
        "--shape", "skewed", "--jitter", "1ms", "--loss", "1%", "--seed", "7",
    ];
    let first = json(&place, &[&more[..], &["--threads", "1"]].concat());
    let again = first["again"].as_str().unwrap().to_owned();
    let words = again.split(' ').skip(1);
    let output = place.run(words.chain(["--format", "json", "--threads", "2"]));
    let second: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(second, first);
    let other = json(&place, &[&more[..7], &["8"]].concat());
    assert_ne!(other["rows"], first["rows"]);
}

#[test]
fn the_drawing_is_written_and_sound() {
    let place = Place::new();
    let file = place.path("trade-off.svg");
    run(&place, &["--svg", file.to_str().unwrap()]);
    let svg = std::fs::read_to_string(&file).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    assert!(
        document
            .root_element()
            .has_tag_name(("http://www.w3.org/2000/svg", "svg"))
    );
}

#[test]
fn a_limit_comes_from_rules() {
    let place = Place::new();
    let file = place.write(
        "rules.yaml",
        "rules: [{name: a, algorithm: token_bucket, limits: {requests: 50, window: 1s, burst: 80}}]\n",
    );
    let line = [
        "simulate",
        "--rules",
        &file,
        "--windows",
        "1",
        "--sync-interval",
        "1s",
    ];
    let output = place.run(line);
    let text = stdout(&output);
    assert!(
        text.starts_with("token_bucket of 50 in 1s, burst 80, approximate;"),
        "{text}"
    );
}

#[test]
fn a_demand_below_the_limit_exceeds_nothing() {
    let place = Place::new();
    let told = json(&place, &["--rate", "0.1x"]);
    for row in told["rows"].as_array().unwrap() {
        assert_eq!(row["over"], Value::Null);
        assert_eq!(row["wrongly_refused"], 0);
        assert_eq!(row["plain"]["over"], Value::Null);
    }
    assert_eq!(told["recommended"][0]["found"], "never_full");
    assert_eq!(told["recommended"][0]["sync_interval_ms"], 100);
}

#[test]
fn progress_is_told_on_standard_error_when_asked_for() {
    let place = Place::new();
    let output = place.run(SMALL.into_iter().chain(["--progress"]));
    let told = stderr(&output);
    assert!(told.starts_with("\r\u{1b}[Ksimulating: "), "{told:?}");
    assert!(
        told.ends_with("\r\u{1b}[K"),
        "the line is gone at the end: {told:?}"
    );
    assert!(!told.contains('\n'));
}

#[test]
fn a_run_can_be_looked_into_up_to_a_step_or_a_moment() {
    let place = Place::new();
    let text = run(&place, &["--until", "500"]);
    assert!(text.contains("\nstep 500, "), "{text}");
    assert!(!text.contains("\nstep 501, "), "{text}");
    assert!(text.contains("\nseed 1, step 500, "), "{text}");
    assert!(
        text.contains("\nnode 3: connected, life 1; knows 4 nodes"),
        "{text}"
    );
    assert!(text.contains("\ncaller 0: used "), "{text}");
    assert_eq!(run(&place, &["--until", "500"]), text);
    let later = run(&place, &["--until", "2s500ms"]);
    assert!(later.contains(", 2s50"), "{later}");
    let output = place.run(SMALL.into_iter().chain(["--until", "1d"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("tidegate: --until: all is over before"));
}

#[test]
fn what_makes_no_sense_is_told_and_the_code_is_two() {
    let place = Place::new();
    for (line, told) in [
        (
            "--nodes 1 --shape skewed --zipf 1",
            "tidegate: --shape: skewed:0.91 needs several nodes; write --nodes 2 or more, or \
             --shape even\ntidegate: --zipf: with one caller there is none to be unlike; write \
             --keys 1000 or the like\n",
        ),
        (
            "--svg /nowhere/a.svg --windows 1",
            "tidegate: --svg: cannot write /nowhere/a.svg: No such file or directory (os error 2)\n",
        ),
    ] {
        let output = place.run(["simulate"].into_iter().chain(line.split(' ')));
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert_eq!(stderr(&output), told);
        assert_eq!(stdout(&output), "");
    }
    for (line, told) in [
        (
            "--consistency exact",
            "write one of approximate, bounded, strict, local",
        ),
        (
            "--rate fast",
            "write checks a second, such as 5000, or times the limit",
        ),
        ("--sync-interval 0s", "write a duration from 1ms to 1h"),
        ("--tier pro", "--rules"),
        ("--limit 0", "'--limit <NUMBER>'"),
    ] {
        let output = place.run(["simulate"].into_iter().chain(line.split(' ')));
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
}

#[test]
fn a_limit_of_a_calendar_is_told_to_want_a_fixed_window() {
    let place = Place::new();
    let text =
        "rules: [{name: api, limits: {requests: 200, window: month, time_zone: Asia/Tokyo}}]";
    let file = place.write("rules.yaml", text);
    let output = place.run(["simulate", "--rules", &file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains(
            "--rules: the limit api default/month@Asia/Tokyo counts by a calendar, which is not \
             simulated; write --window with a fixed length, such as 30d"
        ),
        "{}",
        stderr(&output)
    );
    let more = ["--rules", &file, "--window", "1s", "--windows", "2"];
    let output = place.run(["simulate"].iter().chain(&more).copied());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).starts_with("fixed_window of 200 in 1s,"),
        "{}",
        stdout(&output)
    );
}
