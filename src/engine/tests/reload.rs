//! Rules that change while checks are under way.

use super::*;
use crate::algorithms;

fn compiled(rules: &str) -> RuleSet {
    let source = Source {
        name: "rules.yaml".into(),
        text: rules.into(),
        format: Format::Yaml,
    };
    let defaults = Defaults {
        pace: Pace::default(),
        secret: KeySecret::public(),
    };
    RuleSet::compile(&[source], &defaults).unwrap().rules
}

pub(super) fn reload(engine: &Engine, rules: &str) {
    let mut rules = compiled(rules);
    rules.follow(engine.snapshot().rules());
    engine.replace(rules);
}

fn of(name: &str, limit: &str) -> String {
    format!("rules:\n- {{name: {name}, limits: {{{limit}}}}}\n")
}

fn look(engine: &Engine, now: Timestamp) -> (u64, Outcome) {
    let snapshot = engine.snapshot();
    let decision = snapshot.decide(&named("api", "alice", 0), now);
    (decision.limit.unwrap().remaining, decision.outcome)
}

#[test]
fn a_snapshot_judges_by_its_own_rules_to_its_end() {
    let engine = engine(&of("api", "requests: 10, window: 1h"));
    let before = engine.snapshot();
    reload(&engine, &of("other", "requests: 1, window: 1h"));
    let decision = before.decide(&named("api", "alice", 4), START);
    assert_eq!(decision.limit.unwrap().remaining, 6);
    let snapshot = engine.snapshot();
    let decision = snapshot.decide(&named("api", "alice", 1), START);
    assert_eq!(decision.outcome, Outcome::UnknownRule);
}

#[test]
fn a_check_that_waits_for_the_store_ends_by_the_rules_it_began_with() {
    let strict = of("api", "requests: 10, window: 1h, consistency: strict");
    let engine = engine_of(&strict, Fleet::with_store());
    let Begun::Pending(mut pending) = engine.snapshot().begin(&named("api", "alice", 4), START)
    else {
        panic!("it does not ask");
    };
    reload(&engine, &of("other", "requests: 1, window: 1h"));
    let outcome = algorithms::Outcome {
        verdict: Verdict::Admitted { delay: Nanos::ZERO },
        remaining: 6,
        reset_after: Nanos::from_secs(9),
    };
    let answer = Ruling {
        at: START,
        outcomes: vec![outcome],
        dropped: Vec::new(),
    };
    let decision = pending.settle(&engine, Ok(answer), START);
    let limit = decision.limit.unwrap();
    assert_eq!((limit.rule, limit.limit, limit.remaining), ("api", 10, 6));
}

#[test]
fn a_bucket_whose_amount_changed_keeps_what_was_left_and_fills_at_its_new_rate() {
    let bucket = |amount: u64| {
        let limit = format!("requests: {amount}, window: 100s, algorithm: token_bucket");
        of("api", &limit)
    };
    let engine = engine(&bucket(100));
    engine.snapshot().decide(&named("api", "alice", 60), START);
    assert_eq!(look(&engine, START).0, 40);
    reload(&engine, &bucket(10));
    assert_eq!(look(&engine, START).0, 10);
    reload(&engine, &bucket(100));
    assert_eq!(look(&engine, START).0, 10);
    let later = START.after(Nanos::from_secs(5));
    assert_eq!(look(&engine, later).0, 15);
}

#[test]
fn a_window_whose_amount_changed_keeps_its_count_and_its_end() {
    let window = |amount: u64| {
        let limit = format!("requests: {amount}, window: 1h, algorithm: fixed_window");
        of("api", &limit)
    };
    let engine = engine(&window(100));
    engine.snapshot().decide(&named("api", "alice", 60), START);
    reload(&engine, &window(10));
    let snapshot = engine.snapshot();
    let refused = snapshot.decide(&named("api", "alice", 1), START);
    let limit = refused.limit.unwrap();
    assert_eq!((limit.limit, limit.remaining), (10, 0));
    let (wait, reset) = (refused.outcome.retry_after(), limit.reset_after);
    assert_eq!(wait, Some(reset), "to the end of the same window");
    reload(&engine, &window(100));
    assert_eq!(look(&engine, START).0, 40);
    assert_eq!(look(&engine, START.after(reset)).0, 100);
}

#[test]
fn a_reload_that_changes_nothing_leaves_every_cell_as_it_is() {
    for algorithm in Algorithm::ALL {
        let limit = format!("requests: 9, window: 1h, algorithm: {}", algorithm.name());
        let engine = engine(&of("api", &limit));
        engine.snapshot().decide(&named("api", "alice", 4), START);
        let before = look(&engine, START);
        for _ in 0..3 {
            reload(&engine, &of("api", &limit));
            assert_eq!(look(&engine, START), before, "{algorithm:?}");
        }
        assert_eq!(engine.counters().cells(), 1);
    }
}
