//! Decisions that describe all limits.

use super::*;

const THREE: &str = "
rules:
  - name: minute
    endpoint: /a
    limits: { requests: 3, window: 1m, algorithm: token_bucket }
  - name: hour
    endpoint: /a
    limits: { requests: 5, window: 1h, algorithm: fixed_window }
  - name: day
    endpoint: /a
    limits: { requests: 4, window: 1d, algorithm: fixed_window }
";

fn check(engine: &Engine, cost: u64, now: Timestamp) -> (Outcome, Vec<(String, u64, Nanos)>) {
    let described = Described {
        method: "GET",
        path: "/a",
        ..Described::default()
    };
    let request = Request {
        subject: Subject::Described(described),
        cost: Cost::new(cost),
    };
    let snapshot = engine.snapshot().telling_all();
    let decision = snapshot.decide(&request, now);
    let told = decision.all().iter().map(|limit| {
        let rule = limit.rule.to_owned();
        (rule, limit.remaining, limit.reset_after)
    });
    (decision.outcome, told.collect())
}

fn told(minute: (u64, u64), hour: u64, day: u64) -> Vec<(String, u64, Nanos)> {
    // Until the next hour and day begin, from 1,700,000,000 s.
    let (next_hour, next_day) = (Nanos::from_secs(2_800), Nanos::from_secs(6_400));
    vec![
        ("minute".to_owned(), minute.0, Nanos::from_secs(minute.1)),
        ("hour".to_owned(), hour, next_hour),
        ("day".to_owned(), day, next_day),
    ]
}

#[test]
fn all_limits_are_described_in_the_order_of_their_rules() {
    let engine = engine(THREE);
    let (outcome, all) = check(&engine, 1, START);
    assert!(outcome.is_allowed());
    assert_eq!(all, told((2, 20), 4, 3));
}

#[test]
fn a_refusal_describes_the_others_as_they_are_without_it() {
    let engine = engine(THREE);
    check(&engine, 2, START);
    // Of the bucket one is left, of the day two: both refuse three, the hour does not.
    let (outcome, all) = check(&engine, 3, START);
    assert!(outcome.retry_after().is_some());
    assert_eq!(all, told((1, 40), 3, 2));
    // The bucket refuses two, and the others do not.
    let (outcome, all) = check(&engine, 2, START);
    assert_eq!(outcome.retry_after(), Some(Nanos::from_secs(20)));
    assert_eq!(all, told((1, 40), 3, 2));
}

#[test]
fn what_was_taken_before_another_limit_refused_is_described_as_given_back() {
    let engine = engine(
        "rules:\n\
         - {name: bucket, endpoint: /a, limits: {requests: 6, window: 1m, algorithm: token_bucket}}\n\
         - {name: one, endpoint: /a, limits: {requests: 1, window: 1m, algorithm: fixed_window}}\n",
    );
    check(&engine, 1, START);
    let (outcome, all) = check(&engine, 1, START);
    assert!(!outcome.is_allowed());
    let wanted = [
        ("bucket".to_owned(), 5, Nanos::from_secs(10)),
        ("one".to_owned(), 0, Nanos::from_secs(40)),
    ];
    assert_eq!(all, wanted);
}

#[test]
fn nobody_who_does_not_ask_is_told_of_all_nor_of_one_as_of_all() {
    let three = engine(THREE);
    let snapshot = three.snapshot();
    let decision = snapshot.decide(&named("minute", "alice", 1), START);
    assert_eq!((decision.all().len(), decision.limit.is_some()), (0, true));
    let snapshot = three.snapshot().telling_all();
    let decision = snapshot.decide(&named("minute", "alice", 1), START);
    assert_eq!((decision.all().len(), decision.limit.is_some()), (0, true));
}

#[test]
fn limits_that_the_store_rules_are_described_in_their_places() {
    let rules = "rules:
  - name: api
    algorithm: fixed_window
    limits:
      - { requests: 5, window: 1h, consistency: strict }
      - { requests: 10, window: 1m }
";
    let engine = engine_of(rules, Fleet::with_store());
    for (verdict, remaining, here) in [
        (Verdict::Admitted { delay: Nanos::ZERO }, 4, 8),
        (
            Verdict::Refused {
                retry_after: Nanos::from_secs(5),
            },
            0,
            8,
        ),
    ] {
        let snapshot = engine.snapshot().telling_all();
        let begun = snapshot.begin(&named("api", "alice", 2), START);
        let Begun::Pending(mut pending) = begun else {
            panic!("{begun:?}");
        };
        let outcome = crate::algorithms::Outcome {
            verdict,
            remaining,
            reset_after: Nanos::from_secs(9),
        };
        let ruling = Ruling {
            at: START,
            outcomes: vec![outcome],
            dropped: Vec::new(),
        };
        let decision = pending.settle(&engine, Ok(ruling), START);
        let left: Vec<_> = decision
            .all()
            .iter()
            .map(|limit| (limit.name, limit.remaining))
            .collect();
        assert_eq!(left, [("default/1h", remaining), ("default/1m", here)]);
    }
}
