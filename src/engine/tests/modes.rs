//! Limits that never refuse.

use super::*;
use crate::units::Mode;

fn advised(decision: &Decision<'_>) -> Vec<(String, Mode, &'static str, u64)> {
    let said = decision.advised().iter();
    said.map(|said| {
        let name = format!("{} {}", said.limit.rule, said.limit.name);
        (name, said.mode, said.outcome.name(), said.limit.remaining)
    })
    .collect()
}

fn described<'a>(path: &'a str) -> Request<'a> {
    Request {
        subject: Subject::Described(Described {
            method: "GET",
            path,
            ip: Some([203, 0, 113, 9].into()),
            ..Described::default()
        }),
        cost: Cost::ONE,
    }
}

const FILE: &str = "
defaults: { algorithm: fixed_window }
rules:
  - { name: hard, limits: { requests: 4, window: 1m } }
  - { name: dark, mode: shadow, limits: { requests: 2, window: 1m } }
  - { name: mild, endpoint: /soft, mode: soft, limits: { requests: 1, window: 1h } }
";

#[test]
fn a_shadow_limit_is_counted_and_never_refuses() {
    let engine = engine(FILE);
    let snapshot = engine.snapshot();
    for (left, outcome) in [
        (1, "allowed"),
        (0, "allowed"),
        (0, "refused"),
        (0, "refused"),
    ] {
        let decision = snapshot.decide(&described("/"), START);
        assert!(decision.outcome.is_allowed());
        let dark = ("dark default/1m".to_owned(), Mode::Shadow, outcome, left);
        assert_eq!(advised(&decision), [dark]);
        assert_eq!(decision.warning(), None);
        // Described is the limit that could have refused.
        assert_eq!(decision.limit.unwrap().rule, "hard");
    }
    let refused = snapshot.decide(&described("/"), START);
    assert_eq!(refused.limit.unwrap().rule, "hard");
    assert!(refused.outcome.retry_after().is_some());
    assert!(refused.advised().is_empty());
}

#[test]
fn a_soft_limit_warns_with_what_it_would_have_said() {
    let engine = engine(FILE);
    let snapshot = engine.snapshot();
    assert_eq!(snapshot.decide(&described("/soft"), START).warning(), None);
    let decision = snapshot.decide(&described("/soft"), START);
    assert!(decision.outcome.is_allowed());
    let warning = decision.warning().unwrap();
    assert_eq!(
        (
            warning.limit.rule,
            warning.limit.limit,
            warning.limit.remaining
        ),
        ("mild", 1, 0)
    );
    assert!(warning.outcome.retry_after().is_some());
}

#[test]
fn limits_that_never_refuse_are_charged_only_with_what_the_others_admit() {
    let engine = engine(
        "
defaults: { algorithm: fixed_window }
rules:
  - { name: hard, limits: { requests: 2, window: 1m } }
  - { name: dark, mode: shadow, limits: { requests: 100, window: 1d } }
",
    );
    let snapshot = engine.snapshot();
    for _ in 0..50 {
        snapshot.decide(&described("/"), START);
    }
    let next_minute = START.after(Nanos::from_secs(60));
    let decision = snapshot.decide(&described("/"), next_minute);
    assert_eq!(decision.advised()[0].limit.remaining, 97);
}

#[test]
fn refusals_of_a_shadow_take_nothing_from_the_others() {
    let engine = engine(
        "
defaults: { algorithm: fixed_window }
rules:
  - { name: dark, mode: shadow, limits: { requests: 0, window: 1m } }
  - { name: hard, limits: { requests: 10, window: 1m } }
  - { name: small, mode: soft, limits: { requests: 1, window: 1m } }
",
    );
    let snapshot = engine.snapshot();
    let request = Request {
        cost: Cost::new(3),
        ..described("/")
    };
    let decision = snapshot.decide(&request, START);
    assert_eq!(decision.outcome, Outcome::Allowed { delay: Nanos::ZERO });
    assert_eq!(decision.limit.unwrap().remaining, 7);
    let outcomes: Vec<_> = decision.advised().iter().map(|said| said.outcome).collect();
    assert_eq!(outcomes, [Outcome::Banned, Outcome::Impossible]);
}

#[test]
fn a_request_under_such_limits_alone_is_unlimited() {
    let engine = engine("rules: [{name: mild, mode: soft, limits: {requests: 1, window: 1m}}]");
    let snapshot = engine.snapshot();
    for over in [false, true] {
        let decision = snapshot.decide(&named("mild", "alice", 1), START);
        assert_eq!(
            (decision.outcome, decision.limit),
            (Outcome::Unlimited, None)
        );
        assert_eq!(decision.warning().is_some(), over);
    }
}

#[test]
fn the_delay_of_a_leaky_bucket_in_shadow_delays_nobody() {
    let engine = engine(
        "rules: [{name: dark, mode: shadow, algorithm: leaky_bucket, limits: {requests: 60, window: 1m}}]",
    );
    let snapshot = engine.snapshot();
    for _ in 0..3 {
        let decision = snapshot.decide(&named("dark", "alice", 1), START);
        assert_eq!(decision.outcome, Outcome::Unlimited);
    }
}

#[test]
fn without_the_store_a_shadow_that_fails_closed_refuses_nothing() {
    let fleet = Fleet::with_store();
    let rules = "
rules:
  - { name: dark, mode: shadow, on_store_loss: closed, limits: { requests: 5, window: 1m } }
  - { name: hard, consistency: local, limits: { requests: 5, window: 1m } }
";
    let engine = engine_of(rules, fleet);
    engine.counters().fleet().set_health(StoreHealth::Lost);
    let snapshot = engine.snapshot();
    let decision = snapshot.decide(&described("/"), START);
    assert!(decision.outcome.is_allowed());
    assert_eq!(decision.advised()[0].outcome, Outcome::Unavailable);
    assert_eq!(decision.warning(), None);
}
