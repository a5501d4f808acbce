mod booking;
mod calendar;
mod descriptors;
mod modes;
mod reload;
mod strict;
mod told;

use super::*;
use crate::algorithms::Verdict;
use crate::counters::{Fleet, StoreHealth};
use crate::rules::{Defaults, Described, Format, Source};
use crate::units::{Algorithm, Limit, Nanos, Pace, Quota};

const START: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);

fn engine_of(rules: &str, fleet: Fleet) -> Engine {
    let secret = KeySecret::public();
    let defaults = Defaults {
        pace: Pace::default(),
        secret: secret.clone(),
    };
    let source = Source {
        name: "rules.yaml".into(),
        text: rules.into(),
        format: Format::Yaml,
    };
    let compiled = RuleSet::compile(&[source], &defaults).unwrap();
    Engine::new(
        compiled.rules,
        Arc::new(Counters::new(1_000, fleet)),
        &secret,
    )
}

fn engine(rules: &str) -> Engine {
    engine_of(rules, Fleet::alone())
}

fn named<'a>(rule: &'a str, key: &'a str, cost: u64) -> Request<'a> {
    let subject = Subject::Rule {
        rule,
        key: key.as_bytes(),
        tier: None,
    };
    Request {
        subject,
        cost: Cost::new(cost),
    }
}

const STACKED: &str = "
rules:
  - name: api
    algorithm: fixed_window
    limits:
      default:
        - { requests: 3, window: 1m }
        - { requests: 5, window: 1h }
        - { requests: 4, window: 1d }
";

#[test]
fn the_limit_with_least_left_is_described_on_success() {
    let engine = engine(STACKED);
    let snapshot = engine.snapshot();
    let decision = snapshot.decide(&named("api", "alice", 1), START);
    let limit = decision.limit.unwrap();
    assert_eq!(
        (limit.name, limit.limit, limit.remaining),
        ("default/1m", 3, 2)
    );
    assert_eq!((limit.rule, decision.outcome.is_allowed()), ("api", true));
}

#[test]
fn a_refusal_charges_nothing_and_the_longest_wait_is_described() {
    let engine = engine(STACKED);
    let snapshot = engine.snapshot();
    let minute = |n: u64| START.after(Nanos::from_secs(60 * n));
    for turn in 0..3 {
        assert!(
            snapshot
                .decide(&named("api", "alice", 1), minute(turn))
                .outcome
                .is_allowed()
        );
    }
    // 3 used: the hour leaves 2, the day 1. Two at once are refused by the day alone.
    let refused = snapshot.decide(&named("api", "alice", 2), minute(3));
    assert_eq!(refused.limit.unwrap().name, "default/1d");
    assert!(refused.outcome.retry_after().is_some());
    // Neither minute nor hour was charged for it.
    let peek = snapshot.decide(&named("api", "alice", 0), minute(3));
    assert_eq!(peek.limit.unwrap().remaining, 1);
    assert!(
        snapshot
            .decide(&named("api", "alice", 1), minute(3))
            .outcome
            .is_allowed()
    );
    // Now minute (2 of 3 left), hour (1 left) and day (none) differ; the day waits longest.
    let refused = snapshot.decide(&named("api", "alice", 3), minute(3));
    assert_eq!(refused.limit.unwrap().name, "default/1d");
}

#[test]
fn the_order_of_the_limits_never_matters() {
    let mut limits = [
        "{ requests: 3, window: 1m }",
        "{ requests: 5, window: 1h, algorithm: token_bucket, burst: 4 }",
        "{ requests: 9, window: 1d, algorithm: sliding_log }",
    ];
    let mut told = Vec::new();
    for _ in 0..3 {
        limits.rotate_left(1);
        let list = limits.map(|limit| format!("      - {limit}\n")).concat();
        let engine = engine(&format!("rules:\n  - name: api\n    limits:\n{list}"));
        let snapshot = engine.snapshot();
        let checks = (0..40u64).map(|turn| {
            let now = START.after(Nanos::from_secs(turn * 17));
            let decision = snapshot.decide(&named("api", "alice", 1 + turn % 3), now);
            let name = decision.limit.map(|limit| limit.name.to_owned());
            (
                decision.outcome,
                name,
                decision.limit.map(|limit| limit.remaining),
            )
        });
        told.push(checks.collect::<Vec<_>>());
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0], told[2]);
}

#[test]
fn obeying_retry_after_always_succeeds() {
    for algorithm in Algorithm::ALL {
        let rules = format!(
            "rules:\n  - name: api\n    algorithm: {}\n    limits:\n      - {{ requests: 7, window: \
             1h }}\n      - {{ requests: 3, window: 1m }}\n",
            algorithm.name()
        );
        let engine = engine(&rules);
        let snapshot = engine.snapshot();
        let mut now = START;
        for turn in 0..60u64 {
            let request = named("api", "alice", 1 + turn % 3);
            // The longest wait is told, and it is enough for all the others.
            let mut outcome = snapshot.decide(&request, now).outcome;
            if let Some(wait) = outcome.retry_after() {
                now = now.after(wait);
                outcome = snapshot.decide(&request, now).outcome;
            }
            assert!(
                outcome.is_allowed(),
                "{}, turn {turn}: {outcome:?}",
                algorithm.name()
            );
        }
    }
}

#[test]
fn a_cost_that_can_never_pass_comes_before_any_wait() {
    let engine = engine(STACKED);
    let snapshot = engine.snapshot();
    let decision = snapshot.decide(&named("api", "alice", 4), START);
    assert_eq!(decision.outcome, Outcome::Impossible);
    assert_eq!(decision.outcome.retry_after(), None);
    assert_eq!(decision.limit.unwrap().name, "default/1m");
    assert_eq!(engine.counters().cells(), 0);
}

#[test]
fn unknown_rules_and_unmatched_requests_are_told_apart() {
    let engine =
        engine("rules:\n  - { endpoint: /a, limits: { default: { requests: 1, window: 1s } } }\n");
    let snapshot = engine.snapshot();
    assert_eq!(
        snapshot.decide(&named("nope", "x", 1), START).outcome,
        Outcome::UnknownRule
    );
    let described = Described {
        method: "GET",
        path: "/b",
        ..Described::default()
    };
    let request = Request {
        subject: Subject::Described(described),
        cost: Cost::ONE,
    };
    let decision = snapshot.decide(&request, START);
    assert_eq!(
        (decision.outcome, decision.limit),
        (Outcome::Unlimited, None)
    );
}

#[test]
fn a_described_request_and_a_named_one_meet_in_one_cell() {
    let engine = engine(
        "rules:\n  - { name: a, endpoint: /a, key: user, limits: { default: { requests: 2, window: 1h } } }\n",
    );
    let snapshot = engine.snapshot();
    let described = Described {
        method: "GET",
        path: "/a",
        attributes: &[("user", "alice")],
        ..Described::default()
    };
    let request = Request {
        subject: Subject::Described(described),
        cost: Cost::ONE,
    };
    assert_eq!(snapshot.decide(&request, START).limit.unwrap().remaining, 1);
    assert_eq!(
        snapshot
            .decide(&named("a", "alice", 1), START)
            .limit
            .unwrap()
            .remaining,
        0
    );
}

#[test]
fn a_quota_may_change_from_call_to_call_and_the_state_stays_with_the_key() {
    let engine = engine("rules: []");
    let snapshot = engine.snapshot();
    let throttle = |burst, count, period, cost| {
        let period = Nanos::from_secs(period);
        let quota = Quota::new(Algorithm::TokenBucket, count, period, Some(burst)).unwrap();
        let subject = Subject::Throttle { key: b"u", quota };
        let decision = snapshot.decide(
            &Request {
                subject,
                cost: Cost::new(cost),
            },
            START,
        );
        let limit = decision.limit.unwrap();
        (
            decision.outcome.is_allowed(),
            limit.remaining,
            limit.reset_after.as_secs_ceil(),
        )
    };
    for turn in 0..16 {
        assert_eq!(throttle(16, 30, 60, 1), (true, 15 - turn, 2 * (turn + 1)));
    }
    assert_eq!(throttle(16, 30, 60, 1), (false, 0, 32));
    // 32 s to drain at one token in 2 s are 16 of 101.
    assert_eq!(throttle(101, 30, 60, 1), (true, 84, 34));
    // And 34 tokens at one a second.
    assert_eq!(throttle(101, 60, 60, 0), (true, 67, 34));
}

fn with_loss(policy: &str) -> Engine {
    let rules = format!(
        "rules:\n  - name: api\n    algorithm: fixed_window\n    on_store_loss: {policy}\n    limits: {{ \
         default: {{ requests: 9, window: 1h }} }}\n"
    );
    let engine = engine_of(&rules, Fleet::with_store());
    engine.counters().fleet().set_nodes(4);
    engine.counters().fleet().set_health(StoreHealth::Lost);
    engine
}

fn admitted(engine: &Engine) -> usize {
    let snapshot = engine.snapshot();
    (0..20)
        .filter(|_| {
            snapshot
                .decide(&named("api", "k", 1), START)
                .outcome
                .is_allowed()
        })
        .count()
}

#[test]
fn a_lost_store_is_met_as_the_limit_says() {
    assert_eq!(admitted(&with_loss("local")), 9);
    assert_eq!(
        admitted(&with_loss("share")),
        3,
        "a quarter of 9, rounded up"
    );
    assert_eq!(admitted(&with_loss("open")), 20);
    assert_eq!(admitted(&with_loss("closed")), 0);
    let closed = with_loss("closed");
    let snapshot = closed.snapshot();
    assert_eq!(
        snapshot.decide(&named("api", "k", 1), START).outcome,
        Outcome::Unavailable
    );
    let open = with_loss("open");
    let snapshot = open.snapshot();
    let decision = snapshot.decide(&named("api", "k", 1), START);
    assert_eq!(
        (decision.outcome, decision.figures()),
        (Outcome::Bypassed, None)
    );
}

#[test]
fn a_cost_above_the_share_is_told_the_share_and_not_that_waiting_never_helps() {
    for algorithm in Algorithm::ALL {
        let rules = format!(
            "rules:\n  - {{ name: api, limits: {{ requests: 50, window: 1h, algorithm: {} }} }}\n",
            algorithm.name()
        );
        let engine = engine_of(&rules, Fleet::with_store());
        engine.counters().fleet().set_nodes(3);
        engine.counters().fleet().set_health(StoreHealth::Lost);
        let snapshot = engine.snapshot();
        let check = |cost| {
            let decision = snapshot.decide(&named("api", "k", cost), START);
            let figures = decision
                .figures()
                .map(|limit| (limit.limit, limit.remaining));
            (decision.outcome, figures)
        };
        let refused = Outcome::Refused {
            retry_after: Nanos::from_secs(1),
        };
        // Of a caller never seen, and of one that is known.
        assert_eq!(check(30), (refused, Some((50, 17))), "{}", algorithm.name());
        assert!(check(16).0.is_allowed());
        assert_eq!(check(30), (refused, Some((50, 1))), "{}", algorithm.name());
        assert!(check(1).0.is_allowed());
        assert_eq!(check(51).0, Outcome::Impossible);
    }
}

#[test]
fn a_store_that_comes_back_restores_the_full_limit() {
    let engine = with_loss("share");
    assert_eq!(admitted(&engine), 3);
    engine.counters().fleet().set_health(StoreHealth::Up);
    engine.counters().fleet().set_nodes(1);
    assert_eq!(admitted(&engine), 6);
}

#[test]
fn a_bypassed_refusal_that_another_limit_refuses_gives_nothing_back() {
    let limits = |policy: &str| {
        format!("{{ requests: 3, window: 1h, on_store_loss: {policy}, algorithm: fixed_window }}")
    };
    let (open, closed) = (limits("open"), limits("closed").replace("1h", "1d"));
    let engine = engine_of(
        &format!(
            "rules:\n  - {{ name: a, limits: {open} }}\n  - {{ name: b, limits: [{open}, {closed}] }}\n"
        ),
        Fleet::with_store(),
    );
    let snapshot = engine.snapshot();
    assert!(
        snapshot
            .decide(&named("b", "k", 3), START)
            .outcome
            .is_allowed()
    );
    engine.counters().fleet().set_health(StoreHealth::Lost);
    for _ in 0..3 {
        let outcome = snapshot.decide(&named("b", "k", 1), START).outcome;
        assert_eq!(outcome, Outcome::Unavailable);
    }
    engine.counters().fleet().set_health(StoreHealth::Up);
    let refused = snapshot.decide(&named("b", "k", 1), START);
    assert_eq!(
        refused.limit.unwrap().remaining,
        0,
        "all three are still used"
    );
}

#[test]
fn refusals_are_counted_in_every_limit_that_counts_them_whatever_their_order() {
    let counting = "{ requests: 2, window: 1h, algorithm: fixed_window, count_denied: true }";
    let plain = "{ requests: 2, window: 1d, algorithm: fixed_window }";
    for list in [[counting, plain], [plain, counting]] {
        let rules = format!(
            "rules:\n  - {{ name: a, limits: [{}, {}] }}\n",
            list[0], list[1]
        );
        let engine = engine(&rules);
        let snapshot = engine.snapshot();
        snapshot.decide(&named("a", "k", 2), START);
        for _ in 0..3 {
            snapshot.decide(&named("a", "k", 1), START);
        }
        let used = |limit: &Arc<Limit>| {
            let key = limit
                .hasher
                .key(&crate::units::EncodedIdentity::of("key", Some(b"k")));
            // A limit large enough to show what is used.
            let quota = limit.quota.generous(10);
            20 - engine
                .counters()
                .take(limit, &quota, key, Cost::ZERO, START)
                .outcome
                .remaining
        };
        for limit in snapshot.rules().limits() {
            assert_eq!(
                used(limit),
                if limit.count_denied { 5 } else { 2 },
                "{}",
                limit.name
            );
        }
    }
}

#[test]
fn strict_checks_that_a_lost_store_was_not_asked_are_counted() {
    let rules = "rules:\n  - { name: a, consistency: strict, limits: { requests: 5, window: 1h } }\n  \
                 - { name: b, limits: { requests: 5, window: 1h } }\n";
    let engine = engine_of(rules, Fleet::with_store());
    let snapshot = engine.snapshot();
    let begin = |rule| drop(snapshot.begin(&named(rule, "k", 1), START));
    begin("a");
    assert_eq!(engine.unasked(), 0, "it is asked");
    engine.counters().fleet().set_health(StoreHealth::Lost);
    begin("a");
    begin("b");
    begin("a");
    assert_eq!(engine.unasked(), 2);
}

#[test]
fn a_rules_cost_is_charged_many_times_and_given_back_whole() {
    let engine = engine(
        "rules:\n\
         - { name: five, cost: 5, limits: { requests: 20, window: 1h } }\n\
         - { name: one, limits: { requests: 3, window: 1h } }\n",
    );
    let snapshot = engine.snapshot();
    let described = Described {
        path: "/",
        ..Described::default()
    };
    let all = |cost| {
        let request = Request {
            subject: Subject::Described(described),
            cost: Cost::new(cost),
        };
        snapshot.decide(&request, START)
    };
    let left = || {
        let limit = all(0).limit.unwrap();
        (limit.rule.to_owned(), limit.remaining)
    };
    assert!(all(2).outcome.is_allowed());
    assert_eq!(left(), ("one".to_owned(), 1));
    // The second refuses, and the first gets all of its ten back.
    assert!(!all(2).outcome.is_allowed());
    assert!(all(1).outcome.is_allowed());
    let five = snapshot.decide(&named("five", "", 0), START);
    assert_eq!(five.limit.unwrap().remaining, 5);
    let huge = snapshot.decide(&named("five", "x", u64::MAX), START);
    assert_eq!(huge.outcome, Outcome::Impossible);
    let more = snapshot.decide(&named("five", "x", 5), START);
    assert_eq!(more.outcome, Outcome::Impossible);
    let most = snapshot.decide(&named("five", "x", 4), START);
    assert_eq!(most.limit.unwrap().remaining, 0);
}

#[test]
fn whoever_must_be_known_and_is_not_is_nobody_and_charged_nothing() {
    let engine = engine(
        "rules:\n\
         - { name: all, limits: { requests: 1, window: 1h } }\n\
         - { name: known, key: api_key, on_missing: deny, limits: { requests: 5, window: 1h } }\n",
    );
    let snapshot = engine.snapshot();
    let decide = |headers| {
        let described = Described {
            path: "/",
            headers,
            ..Described::default()
        };
        let request = Request {
            subject: Subject::Described(described),
            cost: Cost::ONE,
        };
        snapshot.decide(&request, START)
    };
    for _ in 0..3 {
        let decision = decide(&[("x-api-key", " ")]);
        assert_eq!(
            (decision.outcome, decision.limit),
            (Outcome::Unidentified, None)
        );
        let named = snapshot.decide(&named("known", "", 1), START);
        assert_eq!(named.outcome, Outcome::Unidentified);
    }
    assert!(!Outcome::Unidentified.is_allowed());
    assert!(decide(&[("x-api-key", "abc")]).outcome.is_allowed());
}
