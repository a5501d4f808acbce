//! Costs known only after the work: checks with an id, settlements, reports and refunds.

use proptest::prelude::*;

use super::*;
use crate::algorithms;

fn id(text: &str) -> CheckId<'_> {
    CheckId::new(text.as_bytes()).unwrap()
}

fn secs(secs: u64) -> Timestamp {
    START.after(Nanos::from_secs(secs))
}

fn rule(limits: &str) -> String {
    format!("rules: [{{name: api, limits: [{limits}]}}]")
}

/// START lies 20 s into its minute.
const NEXT_MINUTE: u64 = 40;

fn check(engine: &Engine, name: &str, cost: u64, now: Timestamp) -> Outcome {
    match engine
        .snapshot()
        .begin_as(&named("api", "alice", cost), id(name), now)
    {
        Begun::Decided(decision) => decision.outcome,
        Begun::Pending(pending) => panic!("{pending:?}"),
    }
}

fn settle(engine: &Engine, name: &str, total: u64, now: Timestamp) -> Settlement {
    match engine.settle(id(name), Total::Cost(Cost::new(total)), now) {
        Settling::Done(settlement) => settlement,
        Settling::Pending(pending) => panic!("{pending:?}"),
    }
}

/// Outcome, charged, refunded and late.
fn said(settlement: &Settlement) -> (Settled, u64, u64, usize) {
    let most = |effect| settlement.most(effect).get();
    let (charged, refunded) = (most(Effect::Charged), most(Effect::Refunded));
    (settlement.outcome, charged, refunded, settlement.late())
}

fn report(engine: &Engine, entry: Entry, cost: u64, now: Timestamp) -> (Outcome, u64) {
    let snapshot = engine.snapshot();
    match snapshot.report(&named("api", "alice", cost), entry, now) {
        Begun::Decided(decision) => (decision.outcome, decision.limit.unwrap().remaining),
        Begun::Pending(pending) => panic!("{pending:?}"),
    }
}

fn left(engine: &Engine, now: Timestamp) -> u64 {
    let snapshot = engine.snapshot();
    let decision = snapshot.decide(&named("api", "alice", 0), now);
    decision.limit.unwrap().remaining
}

const ALLOWED: Outcome = Outcome::Allowed { delay: Nanos::ZERO };

#[test]
fn what_lapsed_in_a_short_window_comes_back_to_the_longer_one_alone() {
    let limits = "{requests: 100, window: 1m, algorithm: fixed_window}, \
                  {requests: 90, window: 1d, algorithm: fixed_window}";
    let engine = engine(&rule(limits));
    assert_eq!(check(&engine, "a", 60, START), ALLOWED);
    let next = secs(NEXT_MINUTE);
    assert_eq!(check(&engine, "b", 20, next), ALLOWED);
    assert_eq!(left(&engine, next), 10);
    let lapsed = Entry::Lapsed {
        at: START,
        within: Nanos::from_secs(60),
    };
    // Of the day 80 were taken; the minute has 80 left, and keeps them.
    assert_eq!(report(&engine, lapsed, 60, next), (ALLOWED, 70));
    assert_eq!(check(&engine, "c", 70, next), ALLOWED);
    assert_eq!(left(&engine, next), 0);
    let of_nothing = Entry::Lapsed {
        at: START,
        within: Nanos::from_secs(86_400),
    };
    assert_eq!(report(&engine, of_nothing, 60, next).1, 0);
}

#[test]
fn c36_a_settlement_beyond_the_limit_is_recorded_once_and_closes_it_until_the_window_ends() {
    let fixed = "{requests: 1000, window: 1m, algorithm: fixed_window}";
    let engine = engine(&rule(fixed));
    assert_eq!(check(&engine, "a", 20, START), ALLOWED);
    let once = settle(&engine, "a", 1_500, START);
    assert_eq!(said(&once), (Settled::Now, 1_480, 0, 0));
    assert_eq!(left(&engine, START), 0);
    let snapshot = engine.snapshot();
    let next = snapshot.decide(&named("api", "alice", 1), START);
    let retry = next.outcome.retry_after();
    assert_eq!(retry, Some(Nanos::from_secs(NEXT_MINUTE)));
    let twice = settle(&engine, "a", 9_999, START);
    assert_eq!(said(&twice), (Settled::Before, 0, 0, 0));
    assert_eq!(left(&engine, secs(NEXT_MINUTE)), 1_000);
}

#[test]
fn c36_a_bucket_owes_what_was_settled_and_no_more_than_twice_its_capacity() {
    let engine = engine(&rule(
        "{requests: 1000, window: 1m, algorithm: token_bucket}",
    ));
    check(&engine, "a", 20, START);
    settle(&engine, "a", 1_500, START);
    let retry = |engine: &Engine, now| {
        let snapshot = engine.snapshot();
        let decision = snapshot.decide(&named("api", "alice", 1), now);
        decision.outcome.retry_after()
    };
    // 501 of them must be paid off.
    assert_eq!(retry(&engine, START), Some(Nanos::from_millis(30_060)));
    report(&engine, Entry::Charge, u64::MAX, START);
    assert_eq!(retry(&engine, START), Some(Nanos::from_millis(60_060)));
    let paid_off = START.after(Nanos::from_millis(60_060));
    assert_eq!(retry(&engine, paid_off), None);
}

#[test]
fn c36_a_late_settlement_goes_to_the_window_of_admission_or_nowhere_and_says_so() {
    let two = "{requests: 1000, window: 1m, algorithm: fixed_window}, \
               {requests: 5000, window: 1h, algorithm: fixed_window}";
    let engine = engine(&rule(two));
    check(&engine, "a", 20, START);
    check(&engine, "b", 20, START);
    let late = settle(&engine, "a", 1_500, secs(NEXT_MINUTE));
    assert_eq!(said(&late), (Settled::Now, 1_480, 0, 1));
    let effects: Vec<_> = late
        .parts
        .iter()
        .map(|(limit, effect, cost)| (&*limit.name, *effect, cost.get()))
        .collect();
    let wanted = [
        ("default/1m", Effect::Late, 1_480),
        ("default/1h", Effect::Charged, 1_480),
    ];
    assert_eq!(effects, wanted);
    assert_eq!(left(&engine, secs(NEXT_MINUTE)), 1_000);
    let hours = secs(500);
    let hour = engine.snapshot().telling_all();
    let told = hour.decide(&named("api", "alice", 0), hours);
    assert_eq!(told.all()[1].remaining, 5_000 - 1_500 - 20);

    let engine = super::engine(&rule("{requests: 9, window: 1m, algorithm: fixed_window}"));
    check(&engine, "a", 5, START);
    let late = settle(&engine, "a", 2, secs(NEXT_MINUTE));
    assert_eq!(said(&late), (Settled::Late, 0, 0, 1));
    assert_eq!(left(&engine, secs(NEXT_MINUTE)), 9);
}

#[test]
fn c36_a_lower_total_gives_back_the_up_front_cost_at_most_and_none_keeps_it() {
    for algorithm in Algorithm::ALL {
        let limit = format!(
            "{{requests: 1000, window: 1m, algorithm: {}}}",
            algorithm.name()
        );
        let engine = engine(&rule(&limit));
        for name in ["a", "b", "c"] {
            check(&engine, name, 200, START);
        }
        let part = settle(&engine, "a", 50, START);
        assert_eq!(said(&part), (Settled::Now, 0, 150, 0), "{algorithm:?}");
        let all = settle(&engine, "b", 0, START);
        assert_eq!(said(&all), (Settled::Now, 0, 200, 0), "{algorithm:?}");
        assert_eq!(left(&engine, START), 1_000 - 50 - 200, "{algorithm:?}");
        let same = settle(&engine, "c", 200, START);
        assert_eq!(said(&same), (Settled::Now, 0, 0, 0), "{algorithm:?}");
    }
}

#[test]
fn an_id_that_is_unknown_or_forgotten_is_told_apart_and_charges_nothing() {
    let bounds = ReceiptBounds {
        most: 1,
        time: Nanos::from_secs(30),
    };
    let secret = KeySecret::public();
    let engine = engine(&rule("{requests: 1000, window: 1m}")).keeping(bounds, &secret);
    check(&engine, "a", 20, START);
    check(&engine, "b", 20, START);
    assert_eq!(settle(&engine, "a", 500, START).outcome, Settled::Forgotten);
    assert_eq!(settle(&engine, "x", 500, START).outcome, Settled::Unknown);
    let late = settle(&engine, "b", 500, secs(30));
    assert_eq!(late.outcome, Settled::Forgotten);
    assert_eq!(engine.receipts(), (0, 2));
}

#[test]
fn the_same_check_again_is_admitted_and_charged_no_more_and_another_with_its_id_is_not() {
    let engine = engine(&rule("{requests: 30, window: 1m, algorithm: fixed_window}"));
    for _ in 0..5 {
        assert_eq!(check(&engine, "a", 20, START), ALLOWED);
        assert_eq!(left(&engine, START), 10);
    }
    assert_eq!(check(&engine, "a", 5, START), Outcome::IdInUse);
    let snapshot = engine.snapshot();
    let other = snapshot.begin_as(&named("api", "bob", 20), id("a"), START);
    assert!(matches!(
        other,
        Begun::Decided(Decision {
            outcome: Outcome::IdInUse,
            ..
        })
    ));
    settle(&engine, "a", 20, START);
    assert_eq!(check(&engine, "a", 20, START), Outcome::IdInUse);
    assert_eq!(left(&engine, START), 10);
    // What is refused leaves its id free.
    assert!(check(&engine, "b", 20, START).retry_after().is_some());
    assert_eq!(check(&engine, "b", 10, START), ALLOWED);
    assert_eq!(left(&engine, START), 0);
    assert_eq!(check(&engine, "b", 10, START), ALLOWED, "again, and full");
}

#[test]
fn a_leaky_buckets_delay_is_told_again_as_far_as_it_is_left() {
    let engine = engine(&rule("{requests: 60, window: 1m, algorithm: leaky_bucket}"));
    check(&engine, "a", 10, START);
    let delay = |millis| Outcome::Allowed {
        delay: Nanos::from_millis(millis),
    };
    assert_eq!(check(&engine, "b", 1, START), delay(10_000));
    assert_eq!(check(&engine, "b", 1, secs(4)), delay(6_000));
    assert_eq!(check(&engine, "b", 1, secs(11)), delay(0));
}

#[test]
fn a_rules_cost_multiplies_what_is_settled() {
    let engine = engine("rules: [{name: api, cost: 3, limits: [{requests: 1000, window: 1m}]}]");
    check(&engine, "a", 10, START);
    assert_eq!(left(&engine, START), 970);
    assert_eq!(
        said(&settle(&engine, "a", 100, START)),
        (Settled::Now, 270, 0, 0)
    );
    assert_eq!(left(&engine, START), 700);
    check(&engine, "b", 100, START);
    settle(&engine, "b", 10, START);
    assert_eq!(left(&engine, START), 670);
}

#[test]
fn what_an_attribute_measures_is_settled_by_it_and_concerns_no_other_rule() {
    let rules = "
rules:
  - {name: requests, limits: {requests: 10, window: 1m, algorithm: fixed_window}}
  - {name: tokens, cost: 'attribute:Tokens', limits: {requests: 1000, window: 1m, algorithm: fixed_window}}
";
    let engine = engine(rules);
    let check = |name: &'static str, tokens: &str| {
        let snapshot = engine.snapshot().telling_all();
        let attributes = [("tokens", tokens)];
        let described = Described {
            attributes: &attributes,
            ..Described::default()
        };
        let request = Request {
            subject: Subject::Described(described),
            cost: Cost::ONE,
        };
        match snapshot.begin_as(&request, id(name), START) {
            Begun::Decided(decision) => {
                let left = decision.all().iter().map(|limit| limit.remaining);
                (decision.outcome, left.collect::<Vec<_>>())
            }
            Begun::Pending(pending) => panic!("{pending:?}"),
        }
    };
    let settle = |name, tokens| {
        let measured = [("other", 3), ("tokens", tokens)];
        match engine.settle(id(name), Total::Measured(&measured), START) {
            Settling::Done(settlement) => said(&settlement),
            Settling::Pending(pending) => panic!("{pending:?}"),
        }
    };
    assert_eq!(check("a", "200"), (ALLOWED, vec![9, 800]));
    assert_eq!(check("a", "201").0, Outcome::IdInUse, "another cost");
    let misspelt = engine.settle(id("a"), Total::Measured(&[("tokns", 350)]), START);
    assert!(matches!(misspelt, Settling::Done(it) if said(&it) == (Settled::Unconcerned, 0, 0, 0)));
    assert_eq!(settle("a", 350), (Settled::Now, 150, 0, 0));
    assert_eq!(check("b", "100"), (ALLOWED, vec![8, 550]));
    assert_eq!(settle("b", 20), (Settled::Now, 0, 80, 0));
    assert_eq!(check("c", "1"), (ALLOWED, vec![7, 629]));
}

#[test]
fn a_cost_of_nothing_up_front_may_be_settled_too() {
    let engine = engine(&rule("{requests: 1000, window: 1m}"));
    assert_eq!(check(&engine, "a", 0, START), ALLOWED);
    assert_eq!(left(&engine, START), 1_000);
    settle(&engine, "a", 400, START);
    assert_eq!(left(&engine, START), 600);
}

#[test]
fn receipts_survive_a_reload_and_the_new_quota_stays() {
    let rules = |amount: u64| {
        rule(&format!(
            "{{requests: {amount}, window: 1m, algorithm: fixed_window}}"
        ))
    };
    let engine = engine(&rules(1_000));
    check(&engine, "a", 20, START);
    reload(&engine, &rules(500));
    assert_eq!(left(&engine, START), 480);
    settle(&engine, "a", 120, START);
    assert_eq!(left(&engine, START), 380);
    let again = check(&engine, "a", 20, START);
    assert_eq!(again, Outcome::IdInUse);
}

fn reload(engine: &Engine, rules: &str) {
    let defaults = Defaults {
        pace: Pace::default(),
        secret: KeySecret::public(),
    };
    let source = Source {
        name: "rules.yaml".into(),
        text: rules.into(),
        format: Format::Yaml,
    };
    let mut rules = RuleSet::compile(&[source], &defaults).unwrap().rules;
    rules.follow(engine.snapshot().rules());
    engine.replace(rules);
}

#[test]
fn a_report_is_recorded_in_all_limits_that_apply_and_tells_the_figures_after_it() {
    let rules = "
rules:
  - {name: hard, limits: {requests: 100, window: 1m, algorithm: fixed_window}}
  - {name: dark, mode: shadow, limits: {requests: 50, window: 1m, algorithm: fixed_window}}
  - {name: soft, mode: soft, limits: {requests: 70, window: 1m, algorithm: fixed_window}}
";
    let engine = engine(rules);
    let request = |cost| Request {
        subject: Subject::Described(Described::default()),
        cost: Cost::new(cost),
    };
    let snapshot = engine.snapshot();
    let report = |cost| match snapshot.report(&request(cost), Entry::Charge, START) {
        Begun::Decided(decision) => {
            let advised: Vec<u64> = decision
                .advised()
                .iter()
                .map(|said| said.limit.remaining)
                .collect();
            let limit = decision.limit.unwrap();
            (
                decision.outcome,
                limit.rule.to_owned(),
                limit.remaining,
                advised,
            )
        }
        Begun::Pending(pending) => panic!("{pending:?}"),
    };
    let hard = || "hard".to_owned();
    assert_eq!(report(60), (ALLOWED, hard(), 40, vec![0, 10]));
    let over = Outcome::Refused {
        retry_after: Nanos::from_secs(NEXT_MINUTE),
    };
    assert_eq!(report(60), (over, hard(), 0, vec![0, 0]));
    assert_eq!(report(0), (over, hard(), 0, vec![0, 0]));
    let missing = snapshot.report(&named("none", "x", 1), Entry::Charge, START);
    assert!(matches!(
        missing,
        Begun::Decided(Decision {
            outcome: Outcome::UnknownRule,
            ..
        })
    ));
}

#[test]
fn a_refund_takes_off_what_counts_now_and_never_goes_below_zero() {
    for algorithm in Algorithm::ALL {
        let limit = format!(
            "{{requests: 100, window: 1m, algorithm: {}}}",
            algorithm.name()
        );
        let engine = engine(&rule(&limit));
        assert_eq!(report(&engine, Entry::Charge, 90, START).1, 10);
        assert_eq!(report(&engine, Entry::Refund, 30, START).1, 40);
        assert_eq!(report(&engine, Entry::Refund, u64::MAX, START).1, 100);
        assert_eq!(report(&engine, Entry::Charge, 1, START).1, 99);
    }
}

#[test]
fn a_quota_of_the_askers_own_is_charged_and_refunded_too() {
    let engine = engine("rules: []");
    let quota = Quota::new(Algorithm::TokenBucket, 10, Nanos::from_secs(10), None).unwrap();
    let subject = Subject::Throttle { key: b"u", quota };
    let snapshot = engine.snapshot();
    let report = |cost, entry| {
        let request = Request {
            subject,
            cost: Cost::new(cost),
        };
        match snapshot.report(&request, entry, START) {
            Begun::Decided(decision) => decision.limit.unwrap().remaining,
            Begun::Pending(pending) => panic!("{pending:?}"),
        }
    };
    assert_eq!(report(15, Entry::Charge), 0);
    assert_eq!(report(9, Entry::Refund), 4);
}

#[test]
fn a_ban_records_nothing() {
    let engine = engine(&rule("{requests: 0, window: 1m}"));
    assert_eq!(
        report(&engine, Entry::Charge, 5, START),
        (Outcome::Banned, 0)
    );
    assert_eq!(engine.counters().cells(), 0);
}

const STRICT: &str = "
rules:
  - name: api
    algorithm: fixed_window
    limits:
      default:
        - { requests: 1000, window: 1m, consistency: strict, on_store_loss: LOSS }
        - { requests: 5000, window: 1h }
";

fn strict(loss: &str) -> Engine {
    engine_of(&STRICT.replace("LOSS", loss), Fleet::with_store())
}

fn ruling(remaining: u64, dropped: &[usize]) -> Ruling {
    Ruling {
        at: START,
        outcomes: vec![algorithms::Outcome {
            verdict: Verdict::Admitted { delay: Nanos::ZERO },
            remaining,
            reset_after: Nanos::from_secs(9),
        }],
        dropped: dropped.to_vec(),
    }
}

/// A check with an id that the store has admitted.
fn admitted(engine: &Engine, name: &str, cost: u64) {
    let snapshot = engine.snapshot();
    let request = named("api", "alice", cost);
    let Begun::Pending(mut pending) = snapshot.begin_as(&request, id(name), START) else {
        panic!("it does not ask");
    };
    let decision = pending.settle(engine, Ok(ruling(980, &[])), secs(1));
    assert_eq!(decision.outcome, ALLOWED);
}

fn pending(engine: &Engine, name: &str, total: u64) -> Box<PendingSettlement> {
    match engine.settle(id(name), Total::Cost(Cost::new(total)), secs(1)) {
        Settling::Pending(pending) => pending,
        Settling::Done(settlement) => panic!("{settlement:?}"),
    }
}

#[test]
fn the_store_is_told_what_it_admitted_itself_and_cells_count_the_rest() {
    let engine = strict("share");
    admitted(&engine, "a", 20);
    let more = pending(&engine, "a", 1_500);
    let question = &more.questions()[0];
    assert_eq!(question.limits.len(), 1);
    assert_eq!(question.limits[0].cost(question.cost), Cost::new(1_480));
    assert_eq!(question.purpose, Purpose::Charge(Some(START)));
    let settlement = more.settle(&engine, [Ok(ruling(0, &[]))], secs(1));
    assert_eq!(said(&settlement), (Settled::Now, 1_480, 0, 0));

    admitted(&engine, "b", 20);
    let less = pending(&engine, "b", 5);
    assert_eq!(less.questions()[0].purpose, Purpose::Refund(Some(START)));
    let settlement = less.settle(&engine, [Ok(ruling(0, &[0]))], secs(1));
    assert_eq!(said(&settlement), (Settled::Now, 0, 15, 1));
    let hour = engine.snapshot().telling_all();
    let told = hour.decide(&named("api", "alice", 0), secs(1));
    assert_eq!(told.all()[1].remaining, 5_000 - 1_500 - 5);
}

#[test]
fn what_the_store_does_not_hear_of_counts_here_and_is_given_back_once_at_most() {
    let engine = strict("local");
    admitted(&engine, "a", 20);
    let more = pending(&engine, "a", 300);
    let settlement = more.settle(&engine, [Err(Unanswered)], secs(1));
    assert_eq!(said(&settlement), (Settled::Now, 280, 0, 0));
    assert_eq!(
        left(&engine, secs(1)),
        720,
        "of the minute, as this node knows it"
    );

    admitted(&engine, "b", 20);
    let less = pending(&engine, "b", 5);
    let settlement = less.settle(&engine, [Err(Unanswered)], secs(1));
    assert_eq!(said(&settlement), (Settled::Now, 0, 15, 1));

    admitted(&engine, "c", 20);
    engine.counters().fleet().set_health(StoreHealth::Lost);
    let settlement = settle(&engine, "c", 120, secs(1));
    assert_eq!(said(&settlement), (Settled::Now, 100, 0, 0));
    assert_eq!(left(&engine, secs(1)), 620);
}

#[test]
fn a_report_of_an_exact_limit_is_told_to_the_store_and_counts_here_without_an_answer() {
    let engine = strict("closed");
    let begin = |entry| {
        let snapshot = engine.snapshot();
        match snapshot.report(&named("api", "alice", 300), entry, START) {
            Begun::Pending(pending) => pending,
            Begun::Decided(decision) => panic!("{decision:?}"),
        }
    };
    let mut told = begin(Entry::Charge);
    assert_eq!(told.question().purpose, Purpose::Charge(None));
    let decision = told.settle(&engine, Ok(ruling(3, &[])), START);
    assert_eq!(decision.limit.unwrap().remaining, 3);

    let mut refund = begin(Entry::Refund);
    assert_eq!(refund.question().purpose, Purpose::Refund(None));
    let decision = refund.settle(&engine, Ok(ruling(303, &[])), START);
    assert_eq!(decision.limit.unwrap().remaining, 303);

    let mut untold = begin(Entry::Charge);
    let decision = untold.settle(&engine, Err(Unanswered), START);
    assert!(
        decision.outcome.is_allowed(),
        "the store is not known to be lost"
    );
    assert_eq!(engine.counters().unsent().cost, 300 + 300);
}

#[test]
fn an_id_whose_check_nobody_waits_for_any_more_is_free_again() {
    let engine = strict("share");
    let snapshot = engine.snapshot();
    let request = named("api", "alice", 1);
    let first = snapshot.begin_as(&request, id("a"), START);
    assert!(matches!(first, Begun::Pending(_)));
    let second = snapshot.begin_as(&request, id("a"), START);
    assert!(matches!(
        second,
        Begun::Decided(Decision {
            outcome: Outcome::IdInUse,
            ..
        })
    ));
    drop(first);
    assert!(matches!(
        snapshot.begin_as(&request, id("a"), START),
        Begun::Pending(_)
    ));
}

/// What is asked of an engine with one limit and one caller.
#[derive(Clone, Copy, Debug)]
enum Act {
    Check(u64, u64),
    Settle(u64, u64),
    Report(u64),
    Refund(u64),
    Wait(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let cost = || prop_oneof![4 => 0..40u64, 1 => 90..200u64];
    let act = prop_oneof![
        4 => (0..12u64, cost()).prop_map(|(id, cost)| Act::Check(id, cost)),
        4 => (0..12u64, cost()).prop_map(|(id, cost)| Act::Settle(id, cost)),
        1 => cost().prop_map(Act::Report),
        1 => cost().prop_map(Act::Refund),
        1 => (1..30u64).prop_map(Act::Wait),
    ];
    proptest::collection::vec(act, 1..80)
}

proptest! {
    /// A window counts what was admitted, and what became known of it later.
    #[test]
    fn checks_settlements_reports_and_refunds_end_with_the_sum_of_them(acts in acts()) {
        let bounds = ReceiptBounds {
            time: Nanos::from_secs(86_400),
            ..ReceiptBounds::default()
        };
        let engine = engine(&rule("{requests: 100, window: 1m, algorithm: fixed_window}"))
            .keeping(bounds, &KeySecret::public());
        let (mut now, mut used) = (START, 0u64);
        let mut open = std::collections::HashMap::new();
        let mut done = std::collections::HashSet::new();
        for act in acts {
            match act {
                Act::Check(name, cost) => {
                    let outcome = check(&engine, &name.to_string(), cost, now);
                    let known = open.get(&name).copied();
                    match known {
                        Some((known, _)) if known == cost => prop_assert_eq!(outcome, ALLOWED),
                        Some(_) => prop_assert_eq!(outcome, Outcome::IdInUse),
                        None if done.contains(&name) => {
                            prop_assert_eq!(outcome, Outcome::IdInUse);
                        }
                        None if used + cost.max(1) <= 100 => {
                            prop_assert_eq!(outcome, ALLOWED);
                            used += cost;
                            open.insert(name, (cost, now.window(Nanos::from_secs(60))));
                        }
                        None => prop_assert!(!outcome.is_allowed()),
                    }
                }
                Act::Settle(name, total) => {
                    let settlement = settle(&engine, &name.to_string(), total, now);
                    let expected = match open.remove(&name) {
                        None if done.contains(&name) => Settled::Before,
                        None => Settled::Unknown,
                        Some((cost, window)) => {
                            done.insert(name);
                            if window == now.window(Nanos::from_secs(60)) {
                                used = (used + total).saturating_sub(cost);
                                Settled::Now
                            } else if total == cost {
                                Settled::Now
                            } else {
                                Settled::Late
                            }
                        }
                    };
                    prop_assert_eq!(settlement.outcome, expected);
                }
                Act::Report(cost) => {
                    report(&engine, Entry::Charge, cost, now);
                    used += cost;
                }
                Act::Refund(cost) => {
                    report(&engine, Entry::Refund, cost, now);
                    used = used.saturating_sub(cost);
                }
                Act::Wait(secs) => {
                    let then = now.after(Nanos::from_secs(secs));
                    if then.window(Nanos::from_secs(60)) != now.window(Nanos::from_secs(60)) {
                        used = 0;
                    }
                    now = then;
                }
            }
            prop_assert_eq!(left(&engine, now), 100u64.saturating_sub(used), "{:?}", act);
        }
    }
}
