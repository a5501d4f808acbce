//! Whoever waits as long as told is let in: on a virtual clock, for one to three stacked
//! limits of every algorithm.

// Tests assert by panicking, and their helpers are not in test functions.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate::counters::{Counters, Fleet};
use tidegate::engine::{Engine, Outcome, Request, Subject};
use tidegate::protocol::headers::{FieldName, fields};
use tidegate::rules::{Defaults, Described, Format, RuleSet, Source};
use tidegate::units::{Algorithm, Cost, KeySecret, Nanos, Pace, Timestamp};

/// A limit as rule files write it.
fn limit() -> impl Strategy<Value = String> {
    let window = select(vec!["250ms", "1s", "7s", "1m", "1h", "30d"]);
    let burst = option::of(1..30u64);
    (select(Algorithm::ALL.to_vec()), 1..40u64, window, burst).prop_map(
        |(algorithm, requests, window, burst)| {
            let name = algorithm.name();
            let burst = match burst.filter(|_| algorithm.is_bucket()) {
                Some(burst) => format!(", burst: {burst}"),
                None => String::new(),
            };
            format!("{{algorithm: {name}, requests: {requests}, window: {window}{burst}}}")
        },
    )
}

/// Decides checks of the rules for `/a`, at the times that a test says.
struct Decider(Engine);

impl Decider {
    /// One rule for each of `limits`.
    fn new(limits: &[String]) -> Decider {
        let mut text = "rules:\n".to_owned();
        for (number, limit) in limits.iter().enumerate() {
            text += &format!("- {{name: r{number}, endpoint: /a, limits: {limit}}}\n");
        }
        let secret = KeySecret::public();
        let defaults = Defaults {
            pace: Pace::default(),
            secret: secret.clone(),
        };
        let source = Source {
            name: "rules".into(),
            text,
            format: Format::Yaml,
        };
        let compiled =
            RuleSet::compile(&[source], &defaults).unwrap_or_else(|faults| panic!("{faults}"));
        let counters = Arc::new(Counters::new(1_000, Fleet::alone()));
        Decider(Engine::new(compiled.rules, counters, &secret))
    }

    /// What is decided, and the value of `Retry-After`.
    fn check(&self, cost: u64, now: Timestamp) -> (Outcome, Option<u64>) {
        let described = Described {
            method: "GET",
            path: "/a",
            ..Described::default()
        };
        let request = Request {
            subject: Subject::Described(described),
            cost: Cost::new(cost),
        };
        let snapshot = self.0.snapshot();
        let decision = snapshot.decide(&request, now);
        let told = fields(&decision);
        let told = told
            .iter()
            .find(|field| field.name == FieldName::RetryAfter);
        let wait = told.map(|field| field.value.parse().unwrap());
        (decision.outcome, wait)
    }

    /// Whether a check at `now` would be let in; it is charged if so.
    fn admits(&self, cost: u64, now: Timestamp) -> bool {
        self.check(cost, now).0.is_allowed()
    }
}

/// Costs, and how many milliseconds pass before each.
fn traffic() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let pause = prop_oneof![Just(0), 0..50u64, 0..3_000u64, 0..4_000_000u64];
    vec((1..20u64, pause), 1..60)
}

/// How somebody waits who is refused.
#[derive(Clone, Copy, Debug)]
enum Wait {
    /// To the nanosecond.
    Exact,
    /// As `retry_after_ms` says.
    Millis,
    /// As `Retry-After` says.
    Seconds,
}

fn obeying_always_helps(
    limits: &[String],
    start: u64,
    traffic: &[(u64, u64)],
    wait: Wait,
) -> Result<u32, TestCaseError> {
    let decider = Decider::new(limits);
    let mut now = Timestamp::from_nanos(start);
    let mut refusals = 0;
    for (cost, pause) in traffic {
        now = now.after(Nanos::from_millis(*pause));
        let (outcome, told) = decider.check(*cost, now);
        let Some(exact) = outcome.retry_after() else {
            // There is a wait where one helps, and nowhere else.
            prop_assert_eq!(told, None);
            prop_assert!(outcome.is_allowed() || outcome == Outcome::Impossible);
            continue;
        };
        refusals += 1;
        prop_assert!(!exact.is_zero());
        if matches!(wait, Wait::Exact) {
            let early = now.after(exact.minus(Nanos::new(1)));
            prop_assert!(
                !decider.admits(*cost, early),
                "a tick too early, {:?}",
                limits
            );
        }
        let told = told.unwrap_or_default();
        prop_assert!(told >= 1);
        now = now.after(match wait {
            Wait::Exact => exact,
            Wait::Millis => Nanos::from_millis(exact.as_millis_ceil()),
            Wait::Seconds => Nanos::from_secs(told),
        });
        prop_assert!(
            decider.admits(*cost, now),
            "after {} of {:?}",
            exact,
            limits
        );
    }
    Ok(refusals)
}

proptest! {
    #[test]
    fn whoever_obeys_is_let_in_and_a_tick_earlier_is_not(
        limits in vec(limit(), 1..4),
        start in 1_700_000_000_000_000_000..1_700_000_100_000_000_000u64,
        traffic in traffic(),
        wait in select(vec![Wait::Exact, Wait::Millis, Wait::Seconds]),
    ) {
        obeying_always_helps(&limits, start, &traffic, wait)?;
    }
}

#[test]
fn each_algorithm_alone_and_with_each_other_lets_in_whoever_obeys() {
    let limit = |algorithm: Algorithm, window| {
        format!(
            "{{algorithm: {}, requests: 5, window: {window}}}",
            algorithm.name()
        )
    };
    let traffic: Vec<(u64, u64)> = (0..200).map(|n| (1 + n % 5, n * 37 % 1_400)).collect();
    for first in Algorithm::ALL {
        for second in Algorithm::ALL {
            for third in Algorithm::ALL {
                let all = [
                    limit(first, "10s"),
                    limit(second, "17s"),
                    limit(third, "1m"),
                ];
                for count in 1..=3 {
                    for wait in [Wait::Exact, Wait::Millis, Wait::Seconds] {
                        let start = 1_700_000_000_123_456_789;
                        let refusals = obeying_always_helps(&all[..count], start, &traffic, wait);
                        assert!(refusals.unwrap() > 50, "{all:?}");
                    }
                }
            }
        }
    }
}
