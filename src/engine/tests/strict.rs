//! Limits that must ask the store, with a store played by the test.

use super::*;
use crate::algorithms;

const MIXED: &str = "
rules:
  - name: api
    algorithm: fixed_window
    limits:
      default:
        - { requests: 10, window: 1m }
        - { requests: 5, window: 1h, consistency: strict, on_store_loss: closed }
        - { requests: 7, window: 1d, consistency: strict, on_store_loss: local }
";

fn admits(remaining: u64) -> algorithms::Outcome {
    algorithms::Outcome {
        verdict: Verdict::Admitted { delay: Nanos::ZERO },
        remaining,
        reset_after: Nanos::from_secs(9),
    }
}

fn refuses(secs: u64) -> algorithms::Outcome {
    let retry_after = Nanos::from_secs(secs);
    algorithms::Outcome {
        verdict: Verdict::Refused { retry_after },
        ..admits(0)
    }
}

fn ruling(outcomes: &[algorithms::Outcome]) -> Result<Ruling, Unanswered> {
    Ok(Ruling {
        at: START.after(Nanos::from_secs(1)),
        outcomes: outcomes.to_vec(),
        dropped: Vec::new(),
    })
}

fn pending(engine: &Engine, request: &Request<'_>) -> Box<Pending> {
    match engine.snapshot().begin(request, START) {
        Begun::Pending(pending) => pending,
        Begun::Decided(decision) => panic!("{decision:?}"),
    }
}

/// What the minute, which is counted here, has left.
fn left_here(engine: &Engine) -> u64 {
    let limit = Arc::clone(&engine.snapshot().rules().limits()[0]);
    let key = pending(engine, &named("api", "alice", 0)).limits_here()[0];
    let taken = engine
        .counters()
        .probe(&limit, &limit.quota, key, Cost::ZERO, START);
    taken.outcome.remaining
}

#[test]
fn only_the_strict_limits_are_asked_and_the_tightest_of_all_is_described() {
    let engine = engine_of(MIXED, Fleet::with_store());
    let mut pending = pending(&engine, &named("api", "alice", 2));
    let asked = pending.question();
    let names: Vec<&str> = asked.limits.iter().map(|one| &*one.limit.name).collect();
    assert_eq!(names, ["default/1h", "default/1d"]);
    assert_eq!(asked.cost, Cost::new(2));
    let decision = pending.settle(&engine, ruling(&[admits(3), admits(1)]), START);
    let limit = decision.limit.unwrap();
    assert_eq!((limit.name, limit.remaining), ("default/1d", 1));
    assert!(decision.outcome.is_allowed());
    assert_eq!(decision.now, START.after(Nanos::from_secs(1)));
    assert_eq!(decision.stale, Some(Nanos::ZERO));
    assert_eq!(left_here(&engine), 8);
}

#[test]
fn a_refusal_of_the_store_gives_back_what_was_taken_here() {
    let engine = engine_of(MIXED, Fleet::with_store());
    let mut pending = pending(&engine, &named("api", "alice", 2));
    let decision = pending.settle(&engine, ruling(&[refuses(5), refuses(50)]), START);
    assert_eq!(decision.limit.unwrap().name, "default/1d");
    assert_eq!(decision.outcome.retry_after(), Some(Nanos::from_secs(50)));
    assert_eq!(left_here(&engine), 10);
}

#[test]
fn a_refusal_here_never_asks_the_store() {
    let engine = engine_of(MIXED, Fleet::with_store());
    let snapshot = engine.snapshot();
    let Begun::Decided(decision) = snapshot.begin(&named("api", "alice", 11), START) else {
        panic!("it asks");
    };
    assert_eq!(decision.outcome, Outcome::Impossible);
    assert_eq!(decision.limit.unwrap().name, "default/1m");
}

#[test]
fn without_an_answer_each_limit_goes_by_its_own_policy() {
    let engine = engine_of(MIXED, Fleet::with_store());
    let mut closed = pending(&engine, &named("api", "alice", 1));
    let decision = closed.settle(&engine, Err(Unanswered), START);
    assert_eq!(decision.outcome, Outcome::Unavailable);
    assert_eq!(decision.limit.unwrap().name, "default/1h");
    assert_eq!(left_here(&engine), 10);

    let local = MIXED.replace("closed", "local");
    let engine = engine_of(&local, Fleet::with_store());
    for left in [4, 3, 2, 1, 0] {
        let mut pending = pending(&engine, &named("api", "alice", 1));
        let decision = pending.settle(&engine, Err(Unanswered), START);
        assert_eq!(decision.limit.unwrap().remaining, left);
    }
    let mut over = pending(&engine, &named("api", "alice", 1));
    let decision = over.settle(&engine, Err(Unanswered), START);
    assert!(decision.outcome.retry_after().is_some(), "{decision:?}");
    assert_eq!(left_here(&engine), 5);
}

#[test]
fn an_answer_to_another_question_is_none() {
    let engine = engine_of(MIXED, Fleet::with_store());
    let mut pending = pending(&engine, &named("api", "alice", 1));
    let decision = pending.settle(&engine, ruling(&[admits(3)]), START);
    assert_eq!(decision.outcome, Outcome::Unavailable);
}

#[test]
fn what_is_asked_of_a_bypassed_limit_is_still_counted_here() {
    let open = MIXED.replace("closed", "open").replace("local", "open");
    let engine = engine_of(&open, Fleet::with_store());
    let mut pending = pending(&engine, &named("api", "alice", 1));
    let decision = pending.settle(&engine, Err(Unanswered), START);
    // The minute, which is counted here, has figures; the bypassed ones have none.
    assert!(decision.outcome.is_allowed());
    assert_eq!(decision.limit.unwrap().name, "default/1m");
    assert_eq!(left_here(&engine), 9);
}

#[test]
fn a_lost_store_is_not_asked_and_one_that_is_absent_is_not_missed() {
    let lost = engine_of(MIXED, Fleet::with_store());
    lost.counters().fleet().set_health(StoreHealth::Lost);
    let snapshot = lost.snapshot();
    let Begun::Decided(decision) = snapshot.begin(&named("api", "alice", 1), START) else {
        panic!("it asks");
    };
    assert_eq!(decision.outcome, Outcome::Unavailable);

    let alone = engine(MIXED);
    let snapshot = alone.snapshot();
    for left in [4, 3, 2, 1, 0] {
        let Begun::Decided(decision) = snapshot.begin(&named("api", "alice", 1), START) else {
            panic!("it asks");
        };
        assert_eq!(decision.limit.unwrap().remaining, left);
        assert!(decision.outcome.is_allowed());
    }
    let decision = snapshot.decide(&named("api", "alice", 1), START);
    assert!(decision.outcome.retry_after().is_some());
}

#[test]
fn a_ban_is_known_without_asking() {
    let banned = MIXED.replace("requests: 5", "requests: 0");
    let engine = engine_of(&banned, Fleet::with_store());
    let snapshot = engine.snapshot();
    let Begun::Decided(decision) = snapshot.begin(&named("api", "alice", 1), START) else {
        panic!("it asks");
    };
    assert_eq!(decision.outcome, Outcome::Banned);
}

#[test]
fn who_cannot_wait_is_answered_as_if_the_store_were_lost() {
    let engine = engine_of(MIXED, Fleet::with_store());
    let decision = engine
        .snapshot()
        .decide(&named("api", "alice", 1), START)
        .outcome;
    assert_eq!(decision, Outcome::Unavailable);
    assert_eq!(left_here(&engine), 10);
}

#[test]
fn a_pending_check_may_be_carried_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    let engine = engine_of(MIXED, Fleet::with_store());
    is_send(&pending(&engine, &named("api", "alice", 1)));
}

#[test]
fn a_shadow_is_charged_when_the_store_has_admitted_and_is_itself_never_asked() {
    let rules = "
defaults: { algorithm: fixed_window, consistency: strict }
rules:
  - { name: hard, limits: { requests: 9, window: 1m } }
  - { name: dark, mode: shadow, limits: { requests: 9, window: 1d } }
";
    let engine = engine_of(rules, Fleet::with_store());
    let request = Request {
        subject: Subject::Described(Described::default()),
        cost: Cost::ONE,
    };
    for (answer, left) in [
        (ruling(&[refuses(5)]), None),
        (ruling(&[admits(3)]), Some(8)),
        (ruling(&[refuses(5)]), None),
        (ruling(&[admits(2)]), Some(7)),
    ] {
        let mut pending = pending(&engine, &request);
        let asked = &pending.question().limits;
        assert_eq!((asked.len(), &*asked[0].limit.rule), (1, "hard"));
        let decision = pending.settle(&engine, answer, START);
        let told = decision.advised().first().map(|said| said.limit.remaining);
        assert_eq!(told, left);
    }
}

#[test]
fn a_request_under_shadows_alone_never_waits() {
    let rules = "rules: [{name: dark, mode: shadow, consistency: strict, limits: {requests: 1, window: 1m}}]";
    let engine = engine_of(rules, Fleet::with_store());
    let snapshot = engine.snapshot();
    for _ in 0..3 {
        let Begun::Decided(decision) = snapshot.begin(&named("dark", "alice", 1), START) else {
            panic!("it asks");
        };
        assert_eq!(decision.outcome, Outcome::Unlimited);
    }
}

#[test]
fn a_rules_cost_goes_with_the_question_and_is_given_back() {
    let text = MIXED.replace("  - name: api\n", "  - name: api\n    cost: 2\n");
    let engine = engine_of(&text, Fleet::with_store());
    let mut asked = pending(&engine, &named("api", "alice", 2));
    let question = asked.question();
    let costs = question
        .limits
        .iter()
        .map(|one| one.cost(question.cost).get());
    assert_eq!(costs.collect::<Vec<_>>(), [4, 4]);
    assert_eq!(left_here(&engine), 6);
    asked.settle(&engine, ruling(&[refuses(5), admits(1)]), START);
    assert_eq!(left_here(&engine), 10);
}
