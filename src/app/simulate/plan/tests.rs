use clap::Parser;

use super::super::args::SimulateArgs;
use super::*;
use crate::simulation::Progress;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: SimulateArgs,
}

fn args(line: &str) -> SimulateArgs {
    let words = std::iter::once("tidegate").chain(line.split_whitespace());
    Line::try_parse_from(words).unwrap().args
}

fn plan(line: &str) -> Plan {
    Plan::of(&args(line)).unwrap()
}

#[track_caller]
fn assert_fault(line: &str, wanted: &[&str]) {
    let faults = Plan::of(&args(line)).unwrap_err();
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(told, wanted, "{line}");
}

const RULES: &str = "\
rules:
- name: orders
  algorithm: token_bucket
  limits:
    free: { requests: 10, window: 1m, burst: 20 }
    pro:
    - { requests: 100, window: 1m, sync_interval: 250ms, sync_min_interval: 20ms }
    - { name: hourly, requests: 1000, window: 1h, algorithm: fixed_window }
- name: login
  consistency: local
  limits: { requests: 0, window: 1m }
";

fn with_rules(check: impl FnOnce(&str)) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rules.yaml");
    std::fs::write(&file, RULES).unwrap();
    check(&file.display().to_string());
}

#[test]
fn no_flag_at_all_makes_a_plan() {
    let plan = plan("");
    let common = &plan.common;
    assert_eq!(
        (common.nodes, common.rate, common.windows),
        (4, 2_000.0, 100)
    );
    let paces: Vec<_> = plan.scenarios().iter().map(|row| row.pace).collect();
    let millis = |min, every, max| Pace {
        min_interval: Nanos::from_millis(min),
        interval: Nanos::from_millis(every),
        max_interval: Nanos::from_millis(max),
    };
    let wanted = [
        millis(5, 10, 5_000),
        millis(5, 100, 5_000),
        millis(5, 1_000, 5_000),
    ];
    assert_eq!(paces, wanted);
}

#[test]
fn a_rate_may_be_times_what_all_limits_admit() {
    let rate = |line: &str| plan(line).common.rate;
    assert_eq!(rate("--rate 0.9x --limit 500 --window 10s"), 45.0);
    assert_eq!(rate("--rate 2x --keys 10"), 20_000.0);
    assert_eq!(rate("--rate 123.5"), 123.5);
}

#[test]
fn default_paces_give_way_to_the_intervals_and_stated_ones_do_not() {
    let paces = plan("--sync-interval 1ms,10s").scenarios();
    assert_eq!(paces[0].pace.min_interval, Nanos::from_millis(1));
    assert_eq!(paces[1].pace.max_interval, Nanos::from_secs(10));
    assert_fault(
        "--sync-interval 10ms,1s --sync-min-interval 20ms --sync-max-interval 500ms",
        &[
            "--sync-min-interval: 20ms contradicts --sync-interval 10ms; an interval lies \
             between its min and max: write one of at least 20ms",
            "--sync-max-interval: 500ms contradicts --sync-interval 1s; an interval lies \
             between its min and max: write one of at most 500ms",
        ],
    );
    // Of the usual intervals, those that fit.
    let narrow = plan("--sync-min-interval 20ms --sync-max-interval 500ms");
    assert_eq!(narrow.intervals, [Nanos::from_millis(100)]);
}

#[test]
fn a_rule_gives_limit_mode_and_pace_and_flags_win() {
    with_rules(|file| {
        let of = |more: &str| plan(&format!("--rules {file} {more}"));
        let free = of("--rule orders --tier free").common;
        assert_eq!(free.algorithm, Algorithm::TokenBucket);
        assert_eq!((free.limit, free.burst), (10, Some(20)));
        assert_eq!(free.window, Nanos::from_secs(60));
        let pro = of("--rule orders --tier pro --limit-name pro/1m");
        let millis = [100, 250, 1_000].map(Nanos::from_millis);
        assert_eq!(pro.intervals, millis, "10ms is below the rule's least");
        assert_eq!(pro.scenarios()[0].pace.min_interval, Nanos::from_millis(20));
        let other = of("--rule orders --tier free --limit 50 --algorithm fixed_window");
        assert_eq!((other.common.limit, other.common.burst), (50, None));
        assert_eq!(of("--rule login --limit 5").modes, [Consistency::Local]);
    });
}

#[test]
fn what_cannot_be_chosen_from_rules_is_told_with_what_can() {
    with_rules(|file| {
        let line = |more: &str| format!("--rules {file} {more}");
        assert_fault(
            &line(""),
            &["--rule: there are several rules; write --rule with orders or login"],
        );
        assert_fault(
            &line("--rule order"),
            &["--rule: there is no rule order; write --rule with orders or login"],
        );
        assert_fault(
            &line("--rule orders --tier gold"),
            &["--tier: rule orders has no tier gold; its limits are free/1m, pro/1m, hourly"],
        );
        assert_fault(
            &line("--rule orders --tier pro"),
            &[
                "--limit-name: one limit at a time is simulated; write --limit-name with \
                 pro/1m or hourly",
            ],
        );
        assert_fault(
            &line("--rule login"),
            &[
                "--rules: the limit login default/1m admits nothing; write --limit with what \
                 it is to admit",
            ],
        );
    });
    let missing = Plan::of(&args("--rules /nowhere.yaml")).unwrap_err();
    assert!(
        missing[0]
            .to_string()
            .starts_with("/nowhere.yaml: cannot read it")
    );
}

#[test]
fn combinations_that_make_no_sense_are_told() {
    assert_fault(
        "--nodes 1 --shape skewed",
        &["--shape: skewed:0.91 needs several nodes; write --nodes 2 or more, or --shape even"],
    );
    assert_fault(
        "--shape stepping:5s --windows 3",
        &[
            "--shape: the demand would rise after 5s, but all is over after 4s; write a \
             shorter stepping:AFTER, or more --windows",
        ],
    );
    assert_fault(
        "--zipf 1",
        &["--zipf: with one caller there is none to be unlike; write --keys 1000 or the like"],
    );
    assert_fault(
        "--burst 5",
        &["--burst: only token_bucket and leaky_bucket have a burst, not sliding_window"],
    );
    assert_fault(
        "--algorithm sliding_log --limit 100001",
        &[
            "--limit: sliding_log remembers every hit, at most 100000, not 100001; use \
             sliding_window",
        ],
    );
    assert_fault(
        "--rate 5x --limit 1000000000",
        &["--rate: 5000000000 checks a second; write at most 1000000000"],
    );
    assert_fault(
        "--window 365d --windows 10",
        &[
            "--windows: 10 windows of 365d are too long to simulate; write fewer windows, or \
             a shorter --window",
        ],
    );
}

#[test]
fn a_large_fleet_has_fewer_windows_unless_they_are_asked_for() {
    let large = "--nodes 50 --rate 10000000 --keys 1000000 --zipf 1 --window 10s";
    assert_eq!(plan(large).common.windows, 1);
    assert_eq!(plan(&format!("{large} --windows 7")).common.windows, 7);
    assert_eq!(plan(large).slices, 25, "of 256, 20 of 200 million checks");
    assert_eq!(plan(&format!("{large} --sample 50%")).slices, 128);
    assert_eq!(plan(&format!("{large} --sample 100%")).slices, 256);
    assert_eq!(plan("--nodes 50 --keys 1000000 --rate 1000").slices, 256);
    assert_fault(
        "--sample 50%",
        &[
            "--sample: so small a fleet is simulated as a whole; leave it out, or write more \
             --nodes or --keys",
        ],
    );
    assert_eq!(plan(&format!("{large} --shape stepping")).common.windows, 4);
}

#[test]
fn the_command_line_that_is_printed_makes_the_same_scenarios() {
    with_rules(|file| {
        for line in [
            "",
            "--shape shifting --rate 0.7x --limit 7 --window 3s --keys 9 --zipf 1.1",
            "--loss 7% --jitter 2ms --rtt 30ms --target-over 0.3% --consistency local,approximate",
            "--algorithm leaky_bucket --burst 3 --sync-max-interval 2s --seed 18446744073709551615",
            "--nodes 50 --keys 1000000 --zipf 1 --rate 10000000 --limit 1000 --window 10s",
            &format!("--rules {file} --rule orders --tier pro --limit-name pro/1m"),
        ] {
            let made = plan(line);
            let command = made.command();
            let again = plan(command.strip_prefix("tidegate simulate").unwrap());
            let told =
                |plan: &Plan| format!("{:?} {} {}", plan.scenarios(), plan.target, plan.slices);
            assert_eq!(told(&again), told(&made), "{line}");
        }
    });
}

#[test]
fn a_plan_can_be_simulated() {
    let plan = plan("--windows 1 --sync-interval 100ms --limit 100");
    let mut last = None;
    let figures = plan.scenarios()[0].run(|progress| last = Some(progress));
    let checks = figures.unwrap().checks;
    assert_eq!(last, Some(Progress { done: 1.0, checks }));
}
