//! Strict checks on a real Redis, held against the algorithms of the library at the very
//! moments that the store's clock gave.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use kit::{Proxy, Redis};
use redis::Connection;
use tidegate::algorithms::{Outcome, State, Verdict, WindowState};
use tidegate::clock::Clock;
use tidegate::counters::{Slot, Space};
use tidegate::engine::{Authority, Counted, Purpose, Question, Ruling, Unanswered};
use tidegate::sync::seal::{self, Told};
use tidegate::sync::{Strict, SyncConfig};
use tidegate::units::{
    Algorithm, Calendar, CalendarUnit, Consistency, Cost, Key, KeySecret, Limit, LimitId, Nanos,
    Pace, Partitions, Quota, Timestamp, WindowId,
};
use tokio::runtime::Runtime;

const FLEET: &str = "f";

struct Bench {
    redis: Redis,
    connection: Connection,
    strict: Strict,
    runtime: Runtime,
}

impl Bench {
    fn new() -> Bench {
        let redis = Redis::start();
        let runtime = Runtime::new().unwrap();
        let strict = strict(&redis.url(), &runtime, Clock::system());
        Bench {
            connection: redis.connect(),
            redis,
            strict,
            runtime,
        }
    }

    fn ask(&self, limits: &[Counted], cost: u64) -> Ruling {
        ask(&self.runtime, &self.strict, limits, cost)
    }

    fn one(&self, limit: &Counted, cost: u64) -> (Timestamp, Outcome) {
        let ruling = self.ask(std::slice::from_ref(limit), cost);
        (ruling.at, ruling.outcomes[0])
    }

    /// The store's time.
    fn now(&mut self) -> Timestamp {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut self.connection).unwrap();
        Timestamp::from_nanos(seconds * 1_000_000_000 + micros * 1_000)
    }

    fn hget(&mut self, key: &str, field: Key) -> Option<Vec<u8>> {
        let mut command = redis::cmd("HGET");
        command.arg(key).arg(&field.to_bytes());
        command.query(&mut self.connection).unwrap()
    }

    fn hset(&mut self, key: &str, field: Key, value: &[u8]) {
        let mut command = redis::cmd("HSET");
        command.arg(key).arg(&field.to_bytes()).arg(value);
        let _: i64 = command.query(&mut self.connection).unwrap();
    }

    fn ttl_ms(&mut self, key: &str) -> i64 {
        let command = redis::cmd("PTTL").arg(key).query(&mut self.connection);
        command.unwrap()
    }
}

fn strict(url: &str, runtime: &Runtime, clock: Clock) -> Strict {
    let config = SyncConfig {
        url: url.into(),
        node: "n".into(),
        fleet: FLEET.into(),
        partitions: Partitions::default(),
        secret: KeySecret::public(),
        pace: Pace::default(),
    };
    let _context = runtime.enter();
    // As long as it takes: a busy machine is no fault of the script.
    Strict::new(&config, Nanos::from_secs(30), clock, Told::default()).unwrap()
}

fn ask(runtime: &Runtime, strict: &Strict, limits: &[Counted], cost: u64) -> Ruling {
    runtime
        .block_on(strict.ask(&question(limits, cost)))
        .unwrap()
}

fn question(limits: &[Counted], cost: u64) -> Question {
    Question {
        limits: limits.to_vec(),
        cost: Cost::new(cost),
        purpose: Purpose::Check,
    }
}

fn counted_with(quota: Quota, who: &str, change: impl FnOnce(&mut Limit)) -> Counted {
    let id = LimitId::new("r", "t", &quota);
    let mut limit = Limit::new(id, "r", "t", quota, &KeySecret::public());
    change(&mut limit);
    let key = limit.hasher.key_of("key", who.as_bytes());
    Counted {
        limit: Arc::new(limit),
        key,
        weight: 1,
    }
}

fn counted(quota: Quota, who: &str) -> Counted {
    counted_with(quota, who, |_| {})
}

fn quota(algorithm: Algorithm, amount: u64, period_ms: u64, burst: Option<u64>) -> Quota {
    Quota::new(algorithm, amount, Nanos::from_millis(period_ms), burst).unwrap()
}

fn calendar(unit: CalendarUnit, zone: &str, amount: u64) -> Quota {
    Quota::calendar(amount, Calendar::new(unit, zone).unwrap())
}

/// The name of the hash that counts `limit` in `window`.
fn hash(limit: &Counted, window: WindowId) -> String {
    let partition = limit.key.partition(Partitions::default()).get();
    let space = Space::of(&limit.limit.quota);
    format!("{FLEET}:{{p{partition}}}:{space}:{}", window.get())
}

/// The same, told in whole microseconds as the store tells it.
fn in_micros(outcome: Outcome) -> Outcome {
    let up = |span: Nanos| Nanos::new(span.get().div_ceil(1_000).saturating_mul(1_000));
    Outcome {
        verdict: match outcome.verdict {
            Verdict::Admitted { delay } => Verdict::Admitted { delay: up(delay) },
            Verdict::Refused { retry_after } => Verdict::Refused {
                retry_after: up(retry_after),
            },
            other => other,
        },
        reset_after: up(outcome.reset_after),
        ..outcome
    }
}

fn admits(outcome: Outcome) -> bool {
    matches!(outcome.verdict, Verdict::Admitted { .. })
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % most
    }
}

/// Quotas of every algorithm: windows so short that many pass, rates with fractions that
/// nothing binary or decimal holds.
fn quotas() -> Vec<Quota> {
    use Algorithm::*;
    vec![
        quota(FixedWindow, 7, 40, None),
        quota(FixedWindow, 100, 250, None),
        quota(SlidingWindow, 7, 40, None),
        quota(SlidingWindow, 1_000, 100, None),
        quota(SlidingLog, 7, 40, None),
        quota(SlidingLog, 300, 130, None),
        quota(TokenBucket, 7, 40, None),
        quota(TokenBucket, 7, 3_600_000, Some(3)),
        quota(TokenBucket, 33_333, 86_400_000, Some(9)),
        quota(TokenBucket, 700_000, 1, Some(50)),
        quota(SlidingWindow, 3, 1, None),
        quota(LeakyBucket, 13, 60, Some(4)),
        quota(LeakyBucket, 999_983, 1_000, Some(20)),
        calendar(CalendarUnit::Day, "Asia/Kathmandu", 50),
        calendar(CalendarUnit::Week, "Europe/Berlin", 70),
        calendar(CalendarUnit::Month, "America/New_York", 90),
    ]
}

#[test]
fn every_algorithm_answers_as_the_library_does_at_the_stores_time() {
    let bench = Bench::new();
    let mut dice = Dice(1);
    for (number, quota) in quotas().into_iter().enumerate() {
        let limit = counted(quota, &format!("who{number}"));
        let mut state = State::fresh(&quota);
        let (mut admitted, mut refused) = (0, 0);
        for turn in 0..400 {
            let most = quota.capacity() + 2;
            let cost = match dice.below(4) {
                0 => dice.below(most),
                1 => dice.below(1 + most / 4),
                _ => dice.below(3),
            };
            let (at, said) = bench.one(&limit, cost);
            let wanted = in_micros(state.take(&quota, Cost::new(cost), at));
            assert_eq!(said, wanted, "{quota:?} turn {turn}: {cost} at {at:?}");
            if admits(said) {
                admitted += 1;
            } else {
                refused += 1;
            }
        }
        assert!(
            admitted > 0 && refused > 0,
            "{quota:?}: {admitted} {refused}"
        );
    }
}

#[test]
fn refusals_that_are_charged_are_charged_as_in_the_library() {
    let bench = Bench::new();
    let mut dice = Dice(2);
    for (number, quota) in quotas().into_iter().enumerate() {
        let limit = counted_with(quota, &format!("who{number}"), |limit| {
            limit.count_denied = true;
        });
        let mut state = State::fresh(&quota);
        for turn in 0..150 {
            let cost = dice.below(quota.capacity() + 2);
            let (at, said) = bench.one(&limit, cost);
            let wanted = in_micros(state.take(&quota, Cost::new(cost), at));
            assert_eq!(
                said.verdict, wanted.verdict,
                "{quota:?} turn {turn}: {cost}"
            );
            if matches!(said.verdict, Verdict::Refused { .. }) {
                state.charge(&quota, Cost::new(cost), at);
            }
        }
    }
}

/// Charges the state with `cost` for `moment`, or refunds it, as the cells of a node do.
/// Answers whether that went anywhere.
fn book(state: &mut State, quota: &Quota, cost: u64, purpose: Purpose, now: Timestamp) -> bool {
    let cost = Cost::new(cost);
    state.age(quota, now);
    match (state, purpose) {
        (_, Purpose::Check) => panic!("no booking"),
        (State::Window(state), Purpose::Charge(moment)) => {
            state.charge_at(quota, cost, moment.unwrap_or(now))
        }
        (State::Window(state), Purpose::Refund(None)) => {
            let was = state.current();
            state.refund(quota, cost, now);
            was > 0
        }
        (State::Window(state), Purpose::Refund(Some(moment))) => {
            let weighed = quota.algorithm() == Algorithm::SlidingWindow;
            let window = quota.windows().at(moment);
            let counts = (window == state.id() && state.current() > 0)
                || (weighed && window == state.id().previous() && state.previous() > 0);
            if counts {
                state.give_back(quota, cost, moment);
            }
            counts
        }
        (State::Bucket(state), Purpose::Charge(_)) => {
            state.charge(quota, cost, now);
            true
        }
        (State::Bucket(state), Purpose::Refund(moment)) => {
            let of = moment.unwrap_or(now);
            let owes = state.debt() > 0 && now.since(of) <= quota.drain_time();
            if owes {
                state.refund(quota, cost, now);
            }
            owes
        }
        (State::Log(state), Purpose::Charge(moment)) => {
            let moment = moment.unwrap_or(now);
            let counts = now.since(moment) < quota.period();
            if counts {
                state.add(quota, moment, cost);
            }
            counts
        }
        (State::Log(state), Purpose::Refund(None)) => !state.refund(quota, cost, now).is_empty(),
        (State::Log(state), Purpose::Refund(Some(moment))) => {
            let before = state.clone();
            state.give_back(cost, moment);
            *state != before
        }
    }
}

#[test]
fn charges_and_refunds_nobody_is_asked_about_count_as_in_the_library() {
    let bench = Bench::new();
    let (mut dice, mut dropped) = (Dice(4), 0);
    for (number, quota) in quotas().into_iter().enumerate() {
        let limit = counted(quota, &format!("who{number}"));
        let limits = [limit];
        let mut state = State::fresh(&quota);
        let mut taken: Vec<(Timestamp, u64)> = Vec::new();
        let mut counted = 0;
        for turn in 0..400 {
            let cost = 1 + dice.below(1 + quota.capacity() / 2);
            let old = (!taken.is_empty())
                .then(|| taken[usize::try_from(dice.below(taken.len() as u64)).unwrap()]);
            let (purpose, cost) = match (dice.below(8), old) {
                (0, _) => (Purpose::Charge(None), 2 * cost),
                (1, Some((at, _))) => (Purpose::Charge(Some(at)), cost),
                (2, Some((at, took))) => (Purpose::Refund(Some(at)), 1 + dice.below(took)),
                (3, _) => (Purpose::Refund(None), cost),
                _ => (Purpose::Check, cost),
            };
            let question = Question {
                purpose,
                ..question(&limits, cost)
            };
            let ruling = bench.runtime.block_on(bench.strict.ask(&question)).unwrap();
            let (at, said) = (ruling.at, ruling.outcomes[0]);
            let of = format!("{quota:?} turn {turn}: {purpose:?} {cost} at {at:?}");
            if purpose == Purpose::Check {
                let wanted = in_micros(state.take(&quota, Cost::new(cost), at));
                assert_eq!(said, wanted, "{of}");
                if admits(said) {
                    taken.push((at, cost));
                    taken.drain(..taken.len().saturating_sub(6));
                }
                continue;
            }
            let counts = book(&mut state, &quota, cost, purpose, at);
            assert_eq!(ruling.dropped.is_empty(), counts, "{of}");
            let wanted = in_micros(state.take(&quota, Cost::ZERO, at));
            assert_eq!(said, wanted, "{of}");
            if counts {
                counted += 1;
            } else {
                dropped += 1;
            }
        }
        assert!(counted > 20, "{quota:?}: {counted}");
    }
    assert!(dropped > 20, "{dropped}");
}

#[test]
fn a_late_cost_counts_in_the_calendars_window_that_it_was_admitted_in_or_nowhere() {
    let bench = Bench::new();
    for unit in CalendarUnit::ALL {
        let quota = calendar(unit, "Asia/Kathmandu", 50);
        let limits = [counted(quota, unit.name())];
        let (now, _) = bench.one(&limits[0], 1);
        let begin = quota.windows().start(quota.windows().at(now));
        let (before, after) = (begin.before(Nanos::from_millis(1)), begin);
        for (moment, dropped) in [(before, vec![0]), (after, vec![])] {
            for purpose in [Purpose::Charge(Some(moment)), Purpose::Refund(Some(moment))] {
                let question = Question {
                    purpose,
                    ..question(&limits, 1)
                };
                let ruling = bench.runtime.block_on(bench.strict.ask(&question)).unwrap();
                assert_eq!(ruling.dropped, dropped, "{unit:?}, {purpose:?}");
            }
        }
    }
}

#[test]
fn a_charge_of_any_size_neither_wraps_nor_loses_what_was_counted() {
    let bench = Bench::new();
    for (number, algorithm) in Algorithm::ALL.into_iter().enumerate() {
        let quota = quota(algorithm, 1_000, 3_600_000, None);
        let limits = [counted(quota, &format!("who{number}"))];
        for cost in [u64::MAX, 1, u64::MAX, u64::MAX] {
            let question = Question {
                purpose: Purpose::Charge(None),
                ..question(&limits, cost)
            };
            let ruling = bench.runtime.block_on(bench.strict.ask(&question)).unwrap();
            assert_eq!(ruling.outcomes[0].remaining, 0, "{algorithm:?}");
            assert!(!admits(ruling.outcomes[0]), "{algorithm:?}");
        }
        assert!(!admits(bench.one(&limits[0], 1).1), "{algorithm:?}");
    }
}

#[test]
fn several_limits_are_charged_together_or_not_at_all() {
    several_limits(["all"; 5].map(|who| (who, 1)));
}

#[test]
fn each_of_several_limits_is_charged_by_its_own_weight() {
    several_limits([1, 3, 2, 1, 2].map(|weight| ("each", weight)));
}

/// Charges a limit of each algorithm for `who`, so many times the cost.
fn several_limits(weights: [(&str, u64); 5]) {
    let bench = Bench::new();
    let mut dice = Dice(3);
    let quotas = [
        quota(Algorithm::FixedWindow, 9, 50, None),
        quota(Algorithm::SlidingWindow, 30, 200, None),
        quota(Algorithm::SlidingLog, 40, 300, None),
        quota(Algorithm::TokenBucket, 70, 500, Some(12)),
        quota(Algorithm::LeakyBucket, 90, 700, Some(15)),
    ];
    let limits: Vec<Counted> = quotas
        .iter()
        .zip(weights)
        .map(|(quota, (who, weight))| Counted {
            weight,
            ..counted(*quota, who)
        })
        .collect();
    let mut states: Vec<State> = quotas.iter().map(State::fresh).collect();
    let mut refusers = [0; 5];
    for turn in 0..1_500 {
        let cost = if dice.below(16) == 0 {
            9
        } else {
            dice.below(4)
        };
        let ruling = bench.ask(&limits, cost);
        let mut next = states.clone();
        let wanted: Vec<Outcome> = (quotas.iter().zip(&mut next).zip(weights))
            .map(|((quota, state), (_, weight))| {
                let cost = Cost::new(cost).times(weight);
                in_micros(state.take(quota, cost, ruling.at))
            })
            .collect();
        let verdicts = |outcomes: &[Outcome]| -> Vec<Verdict> {
            outcomes.iter().map(|outcome| outcome.verdict).collect()
        };
        assert_eq!(verdicts(&ruling.outcomes), verdicts(&wanted), "turn {turn}");
        if wanted.iter().all(|outcome| admits(*outcome)) {
            assert_eq!(ruling.outcomes, wanted, "turn {turn}");
            states = next;
        } else {
            for (refused, outcome) in refusers.iter_mut().zip(&wanted) {
                *refused += u32::from(!admits(*outcome));
            }
        }
    }
    // The slower the machine, the fewer limits are reached; the bucket's burst always is.
    assert!(refusers.iter().any(|refused| *refused > 0));
}

#[test]
fn a_peek_and_a_refusal_write_nothing() {
    let mut bench = Bench::new();
    let limits: Vec<Counted> = Algorithm::ALL
        .map(|algorithm| counted(quota(algorithm, 5, 60_000, None), "a"))
        .into();
    bench.ask(&limits, 0);
    let ruling = bench.ask(&limits, 6);
    assert!(
        ruling
            .outcomes
            .iter()
            .all(|it| it.verdict == Verdict::Impossible)
    );
    let keys: i64 = redis::cmd("DBSIZE").query(&mut bench.connection).unwrap();
    assert_eq!(keys, 1, "the seal alone");
    // A cost that no number of the script holds is as impossible as any.
    let ruling = bench.ask(&limits, u64::MAX);
    assert!(
        ruling
            .outcomes
            .iter()
            .all(|it| it.verdict == Verdict::Impossible)
    );
    assert!(bench.ask(&limits, 5).outcomes.iter().all(|it| admits(*it)));
    let before = bench.redis.cli(&["DEBUG", "DIGEST"]);
    assert!(!bench.ask(&limits, 1).outcomes.iter().any(|it| admits(*it)));
    assert_eq!(bench.redis.cli(&["DEBUG", "DIGEST"]), before);
}

#[test]
fn counts_are_shared_with_the_other_modes_and_what_stands_beside_them_is_kept() {
    let mut bench = Bench::new();
    let limit = counted(quota(Algorithm::FixedWindow, 10, 86_400_000, None), "a");
    let window = bench.now().window(Nanos::from_secs(86_400));
    let name = hash(&limit, window);
    bench.hset(&name, limit.key, b"7 1250 1");
    assert_eq!(bench.one(&limit, 0).1.remaining, 3);
    assert_eq!(bench.one(&limit, 2).1.remaining, 1);
    assert_eq!(bench.hget(&name, limit.key).unwrap(), b"9 1250 1");
    bench.hset(&name, limit.key, b"4");
    assert_eq!(bench.one(&limit, 1).1.remaining, 5);
    assert_eq!(bench.hget(&name, limit.key).unwrap(), b"5");
    // A hash that is new is given its time to live; the others have theirs.
    let fresh = counted(quota(Algorithm::FixedWindow, 10, 86_400_000, None), "b");
    bench.one(&fresh, 1);
    let name = hash(&fresh, window);
    let slot = Slot {
        space: Space::of(&limit.limit.quota),
        window,
    };
    let ttl = bench.ttl_ms(&name);
    let wanted = i64::try_from(slot.time_to_live().as_millis_ceil()).unwrap();
    assert!(ttl > wanted / 2 && ttl <= wanted, "{ttl}");
}

#[test]
fn debts_are_shared_with_the_other_modes_and_what_stands_beside_them_is_kept() {
    let mut bench = Bench::new();
    // A token takes 100 s to drain: the test's own time does not show.
    let limit = counted(quota(Algorithm::TokenBucket, 9, 900_000, None), "a");
    let token = 100e9;
    let space = Space::of(&limit.limit.quota);
    let window = space.window(bench.now());
    let debt = |value: &[u8]| f64::from_be_bytes(value[..8].try_into().unwrap());
    let micros = |at: Timestamp| (at.as_nanos() / 1_000) as f64;
    let packed = |tokens: f64, at: Timestamp, beside: &[u8]| -> Vec<u8> {
        let (debt, at) = ((tokens * token).to_be_bytes(), micros(at).to_be_bytes());
        [&debt[..], &at[..], beside].concat()
    };
    let beside = [1250_f64.to_be_bytes(), 1_f64.to_be_bytes()].concat();
    let now = bench.now();
    bench.hset(&hash(&limit, window), limit.key, &packed(4.5, now, &beside));
    // Half a token owed leaves no room for it.
    assert_eq!(bench.one(&limit, 0).1.remaining, 4);
    assert_eq!(bench.one(&limit, 1).1.remaining, 3);
    let kept = bench.hget(&hash(&limit, window), limit.key).unwrap();
    assert_eq!((kept.len(), &kept[16..]), (32, &beside[..]));
    assert!((debt(&kept) / token - 5.5).abs() < 0.1, "{}", debt(&kept));

    // What the next slice has taken over counts, and both are charged.
    let next = hash(&limit, window.next());
    let now = bench.now();
    bench.hset(&next, limit.key, &packed(7.0, now, &[]));
    assert_eq!(bench.one(&limit, 1).1.remaining, 1);
    for name in [&next, &hash(&limit, window)] {
        let kept = bench.hget(name, limit.key).unwrap();
        assert!((debt(&kept) / token - 8.0).abs() < 0.1, "{}", debt(&kept));
    }

    // What lies in the slice before is taken over.
    let other = counted(quota(Algorithm::TokenBucket, 9, 900_000, None), "b");
    let now = bench.now();
    bench.hset(
        &hash(&other, window.previous()),
        other.key,
        &packed(3.0, now, &beside),
    );
    assert_eq!(bench.one(&other, 1).1.remaining, 5);
    assert_eq!(
        bench.hget(&hash(&other, window), other.key).unwrap().len(),
        16
    );
    assert!(bench.ttl_ms(&hash(&other, window)) > 0);
}

#[test]
fn what_nobody_has_written_counts_as_full_and_is_no_error() {
    let mut bench = Bench::new();
    let day = 86_400_000;
    let refused = |outcome: Outcome| (admits(outcome), outcome.remaining);
    for junk in [
        "",
        "x",
        "-5",
        "1.5",
        "nan",
        "12 many 1",
        "99999999999999999999999999",
    ] {
        for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow] {
            let limit = counted(quota(algorithm, 10, day, None), "a");
            let window = bench.now().window(Nanos::from_millis(day));
            bench.hset(&hash(&limit, window), limit.key, junk.as_bytes());
            assert_eq!(refused(bench.one(&limit, 1).1), (false, 0), "{junk}");
        }
    }
    let limit = counted(quota(Algorithm::TokenBucket, 10, day, None), "a");
    let (nan, now) = (f64::NAN.to_be_bytes(), 1e15_f64.to_be_bytes());
    for junk in [
        &b""[..],
        &[0; 8],
        &[0; 24],
        &[nan, now].concat(),
        &[now, nan].concat(),
    ] {
        let window = Space::of(&limit.limit.quota).window(bench.now());
        bench.hset(&hash(&limit, window), limit.key, junk);
        assert_eq!(refused(bench.one(&limit, 1).1), (false, 0), "{junk:?}");
        // From now on it drains.
        let kept = bench.hget(&hash(&limit, window), limit.key).unwrap();
        assert_eq!(kept.len(), 16, "{junk:?}");
    }
    let limit = counted(quota(Algorithm::SlidingLog, 10, day, None), "a");
    assert!(admits(bench.one(&limit, 1).1));
    let key = bench.redis.cli(&["KEYS", "*:log:*"]);
    for ahead in [0, 1_000, 3_600_000_000] {
        let score = bench.now().as_nanos() / 1_000 + ahead;
        bench.redis.cli(&["ZADD", &key, &score.to_string(), "junk"]);
        assert_eq!(bench.one(&limit, 1).1.remaining, 9);
    }
}

#[test]
fn a_clock_that_stepped_back_neither_repays_nor_freezes_a_debt() {
    let mut bench = Bench::new();
    let limit = counted(quota(Algorithm::TokenBucket, 10, 1_000_000, None), "a");
    let window = Space::of(&limit.limit.quota).window(bench.now());
    let mut owe = |ahead: Nanos| {
        let at = bench.now().after(ahead).as_nanos() / 1_000;
        let cell = [1e12_f64.to_be_bytes(), (at as f64).to_be_bytes()].concat();
        let name = hash(&limit, window);
        bench.hset(&name, limit.key, &cell);
        let (asked_at, outcome) = bench.one(&limit, 1);
        (Timestamp::from_nanos(at * 1_000).since(asked_at), outcome)
    };
    // Up to a slice ahead its time stands still until the clock has caught up.
    let (lag, ahead) = owe(Nanos::from_secs(500));
    let retry_after = Nanos::from_secs(100).plus(lag);
    assert_eq!(ahead.verdict, Verdict::Refused { retry_after });
    // Further ahead it is a wrong clock's.
    let (_, afresh) = owe(Nanos::from_secs(3_600 * 24));
    assert_eq!(afresh.remaining, 9);
}

#[test]
fn buckets_beyond_all_measure_are_counted_to_a_small_part_of_a_token() {
    let bench = Bench::new();
    let quota =
        |algorithm, burst| Quota::new(algorithm, 1, Quota::MAX_PERIOD, Some(burst)).unwrap();
    // Two centuries, in which no whole number of microseconds is exact any more.
    let limit = counted(quota(Algorithm::TokenBucket, 20), "a");
    for left in (0..20).rev() {
        let (_, said) = bench.one(&limit, 1);
        assert!(admits(said) && said.remaining == left, "{said:?}");
    }
    let (_, said) = bench.one(&limit, 1);
    let Verdict::Refused { retry_after } = said.verdict else {
        panic!("{said:?}");
    };
    let token = Quota::MAX_PERIOD.get();
    assert!(
        retry_after.get().abs_diff(token) < token / 1_000,
        "{retry_after}"
    );

    // More than any clock will see, and than any answer can tell.
    let limit = counted(quota(Algorithm::LeakyBucket, (1 << 53) - 1), "a");
    assert!(admits(bench.one(&limit, 1 << 52).1));
    let (_, said) = bench.one(&limit, 1);
    assert_eq!(said.verdict, Verdict::Admitted { delay: Nanos::MAX });
    assert_eq!(said.reset_after, Nanos::MAX);
    assert!(said.remaining.abs_diff(1 << 52) < 10, "{said:?}");
}

#[test]
fn a_debt_that_other_modes_rounded_is_never_rounded_down() {
    let mut bench = Bench::new();
    // A token takes 514,285,714,285.71… ns: no number of the store is one.
    let limit = counted(quota(Algorithm::TokenBucket, 7, 3_600_000, None), "a");
    let six: f64 = 6.0 * 3_600e9 / 7.0;
    let window = Space::of(&limit.limit.quota).window(bench.now());
    for (ns, left) in [(six, 1), (six + 0.5, 0), (six - 0.5, 1), (six + 1.0, 0)] {
        // A little ahead of the clock it stands still.
        let at = bench.now().after(Nanos::from_secs(600)).as_nanos() / 1_000;
        let cell = [ns.to_be_bytes(), (at as f64).to_be_bytes()].concat();
        bench.hset(&hash(&limit, window), limit.key, &cell);
        assert_eq!(bench.one(&limit, 0).1.remaining, left, "{ns}");
    }
}

#[test]
fn counts_as_large_as_the_store_holds_are_weighed_exactly() {
    let mut bench = Bench::new();
    let most = (1 << 53) - 1;
    let period = Nanos::from_secs(3_600 * 24 * 365);
    let mut dice = Dice(4);
    for turn in 0..40_u64 {
        let amount = most - dice.below(1_000);
        let quota = Quota::new(Algorithm::SlidingWindow, amount, period, None).unwrap();
        let limit = counted(quota, &format!("who{turn}"));
        let window = bench.now().window(period);
        // Below one in 2^52 parts the counts are far apart, and near each other's sum.
        let (before, count) = (
            most - dice.below(1 << 20),
            dice.below(1 << 31) << (turn % 22),
        );
        bench.hset(
            &hash(&limit, window.previous()),
            limit.key,
            before.to_string().as_bytes(),
        );
        bench.hset(
            &hash(&limit, window),
            limit.key,
            count.to_string().as_bytes(),
        );
        let cost = dice.below(1 << 31) << (turn % 23);
        let (at, said) = bench.one(&limit, cost);
        let mut state = WindowState::default();
        state.roll(&quota, at);
        state.raise(window.previous(), before);
        state.raise(window, count);
        let wanted = in_micros(state.take(&quota, Cost::new(cost), at));
        assert_eq!(said, wanted, "{before} {count} {cost}");
    }
}

#[test]
fn a_log_keeps_no_hit_longer_than_it_counts_and_lies_beside_the_other_keys() {
    let mut bench = Bench::new();
    let limit = counted(quota(Algorithm::SlidingLog, 5, 30, None), "a");
    for _ in 0..200 {
        bench.one(&limit, 1);
    }
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg("*:log:*")
        .query(&mut bench.connection)
        .unwrap();
    let [key] = &keys[..] else {
        panic!("{keys:?}");
    };
    let fingerprint = u128::from_be_bytes(limit.key.to_bytes());
    let partition = limit.key.partition(Partitions::default()).get();
    assert_eq!(
        *key,
        format!("f:{{p{partition}}}:log:30ms:{fingerprint:032x}")
    );
    let hits: i64 = redis::cmd("ZCARD")
        .arg(key)
        .query(&mut bench.connection)
        .unwrap();
    assert!((1..=5).contains(&hits), "{hits}");
    let ttl = bench.ttl_ms(key);
    assert!(ttl > 0 && ttl <= 5_060, "{ttl}");
}

#[test]
fn a_full_log_finds_its_waits_and_grows_no_further() {
    let mut bench = Bench::new();
    let quota = quota(Algorithm::SlidingLog, 100_000, 86_400_000, None);
    let limit = counted_with(quota, "a", |limit| limit.count_denied = true);
    let partition = limit.key.partition(Partitions::default()).get();
    let fingerprint = u128::from_be_bytes(limit.key.to_bytes());
    let key = format!("{FLEET}:{{p{partition}}}:log:1d:{fingerprint:032x}");
    // A hit each microsecond, 100,000 of them.
    let first = bench.now().as_nanos() / 1_000 - 1_000_000;
    let script = "for i = 0, 99999 do redis.call('ZADD', KEYS[1], string.format('%.0f', \
        ARGV[1] + i), string.format('%016.0f%016.0f', i, i + 1)) end";
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(1).arg(&key).arg(first);
    let (): () = command.query(&mut bench.connection).unwrap();
    let peek = bench.one(&limit, 0).1;
    assert_eq!(peek.remaining, 0);
    // Refusals are charged here: what was charged before waits for its own end too.
    let mut charged = 0;
    for cost in [1, 2, 70, 4_096, 65_536] {
        let (at, said) = bench.one(&limit, cost);
        charged += cost;
        // So many hits must leave the window, the first of them after a day.
        let last = Timestamp::from_nanos((first + charged - 1) * 1_000);
        let retry_after = last.after(quota.period()).since(at);
        assert_eq!(said.verdict, Verdict::Refused { retry_after }, "{cost}");
        // Counted from the newest hit, which the charge has moved.
        assert_eq!((said.remaining, said.reset_after), (0, quota.period()));
    }
    let hits: u64 = redis::cmd("ZCARD")
        .arg(&key)
        .query(&mut bench.connection)
        .unwrap();
    assert_eq!(hits, 100_000);
}

#[test]
fn nodes_whose_clocks_differ_agree_on_one_window_by_the_stores_clock() {
    let bench = Bench::new();
    let ahead = Clock::system();
    ahead.set_offset(5_000_000_000);
    let behind = Clock::system();
    behind.set_offset(-90_000_000_000);
    let others = [ahead, behind].map(|clock| strict(&bench.redis.url(), &bench.runtime, clock));
    let nodes = [&bench.strict, &others[0], &others[1]];
    for algorithm in Algorithm::ALL {
        let quota = quota(algorithm, 60, 2_000, None);
        let limit = [counted(quota, "a")];
        let mut state = State::fresh(&quota);
        for turn in 0..90 {
            let ruling = ask(&bench.runtime, nodes[turn % 3], &limit, 1);
            let wanted = in_micros(state.take(&quota, Cost::ONE, ruling.at));
            assert_eq!(ruling.outcomes, [wanted], "{algorithm:?} turn {turn}");
        }
    }
}

#[test]
fn a_store_that_has_forgotten_the_script_is_taught_it_again() {
    let bench = Bench::new();
    let limit = counted(quota(Algorithm::FixedWindow, 1_000, 86_400_000, None), "a");
    for used in 1..=20 {
        assert_eq!(bench.redis.cli(&["SCRIPT", "FLUSH"]), "OK");
        assert_eq!(bench.one(&limit, 1).1.remaining, 1_000 - used);
    }
}

#[test]
fn a_check_whose_answer_is_lost_is_charged_once_and_never_sent_again() {
    let bench = Bench::new();
    let proxy = Proxy::start(bench.redis.addr());
    let strict = strict(&proxy.url(), &bench.runtime, Clock::system());
    let limit = [counted(
        quota(Algorithm::FixedWindow, 100, 86_400_000, None),
        "a",
    )];
    for round in 1..=10 {
        proxy.drop_replies_to("EVALSHA", 1);
        let question = question(&limit, 1);
        let asked = bench.runtime.block_on(strict.ask(&question));
        assert_eq!(asked, Err(Unanswered));
        assert_eq!(proxy.dropped(), round);
        // On the next connection, as soon as there is one.
        let ruling = ask(&bench.runtime, &strict, &limit, 1);
        assert_eq!(ruling.outcomes[0].remaining, 100 - 2 * round);
    }
}

#[test]
fn a_check_that_waits_in_vain_may_still_be_charged() {
    let bench = Bench::new();
    let proxy = Proxy::start(bench.redis.addr());
    let strict = strict(&proxy.url(), &bench.runtime, Clock::system());
    let quota = quota(Algorithm::FixedWindow, 100, 86_400_000, None);
    let patient = [counted(quota, "a")];
    // Its own patience is shorter than that of others.
    let hasty = [counted_with(quota, "a", |limit| {
        limit.strict_timeout = Some(Nanos::from_millis(20));
    })];
    assert_eq!(
        ask(&bench.runtime, &strict, &patient, 1).outcomes[0].remaining,
        99
    );
    proxy.stall();
    let asked = bench
        .runtime
        .block_on(async { strict.ask(&question(&hasty, 1)).await });
    assert_eq!(asked, Err(Unanswered));
    proxy.release();
    assert_eq!(
        ask(&bench.runtime, &strict, &patient, 1).outcomes[0].remaining,
        97
    );
}

#[test]
fn a_limit_whose_windows_pass_on_the_way_does_not_break_off_the_others() {
    let bench = Bench::new();
    let proxy = Proxy::start(bench.redis.addr());
    let strict = strict(&proxy.url(), &bench.runtime, Clock::system());
    let day = [counted(
        quota(Algorithm::FixedWindow, 100, 86_400_000, None),
        "a",
    )];
    ask(&bench.runtime, &strict, &day, 1);
    // Far away: only ever of windows that are over.
    proxy.delay(Duration::from_millis(30));
    let short = counted_with(quota(Algorithm::FixedWindow, 100, 1, None), "a", |limit| {
        limit.strict_timeout = Some(Nanos::from_millis(1_500));
    });
    let short = question(&[short], 1);
    for _ in 0..3 {
        let asked = bench.runtime.block_on(async { strict.ask(&short).await });
        assert_eq!(asked, Err(Unanswered));
    }
    assert_eq!(
        ask(&bench.runtime, &strict, &day, 1).outcomes[0].remaining,
        98
    );
}

#[test]
fn a_check_that_nobody_waits_for_is_charged_once_at_most_and_holds_nobody_up() {
    let bench = Bench::new();
    let proxy = Proxy::start(bench.redis.addr());
    let strict = strict(&proxy.url(), &bench.runtime, Clock::system());
    let limit = [counted(
        quota(Algorithm::FixedWindow, 100, 86_400_000, None),
        "a",
    )];
    ask(&bench.runtime, &strict, &limit, 1);
    // No answer can be there before anybody looks.
    proxy.stall();
    {
        let _context = bench.runtime.enter();
        let question = question(&limit, 1);
        let mut asked = strict.ask(&question);
        let mut nobody = Context::from_waker(Waker::noop());
        assert!(asked.as_mut().poll(&mut nobody).is_pending());
    }
    proxy.release();
    let left = ask(&bench.runtime, &strict, &limit, 1).outcomes[0].remaining;
    assert!(left == 97 || left == 98, "{left}");
}

/// What the store does when it is asked `limit` after a loss: nothing, if what counts now
/// began before.
fn is_forgotten(bench: &Bench, limit: &Counted) -> bool {
    let question = question(std::slice::from_ref(limit), 1);
    bench.runtime.block_on(bench.strict.ask(&question)) == Err(Unanswered)
}

/// What the script answers of a limit of 10 whose three windows begin so, in us from now,
/// and whose last one then ends; and how much was used in each of them.
fn ask_by_hand(bench: &mut Bench, starts: [i64; 4], cost: u64) -> (Vec<i64>, [u64; 3], u64) {
    let now = bench.now().as_nanos() / 1_000;
    let starts = starts.map(|start| now.saturating_add_signed(start));
    let seal: redis::Value = seal::ask(FLEET, &Told::default())
        .query(&mut bench.connection)
        .unwrap();
    let seal = seal::read(&seal).unwrap();
    let mut packed = Vec::new();
    rmp::encode::write_array_len(&mut packed, 3).unwrap();
    rmp::encode::write_uint(&mut packed, cost).unwrap();
    rmp::encode::write_str(&mut packed, seal.text()).unwrap();
    rmp::encode::write_array_len(&mut packed, 10).unwrap();
    for number in [1, 1, 3, 700, 60_000, 0, 10, 0, 0] {
        rmp::encode::write_uint(&mut packed, number).unwrap();
    }
    rmp::encode::write_array_len(&mut packed, 4).unwrap();
    for start in starts {
        rmp::encode::write_uint(&mut packed, start).unwrap();
    }
    let keys = ["f:{p1}:month:700", "f:{p1}:month:701", "f:{p1}:month:702"];
    let mut command = redis::cmd("EVAL");
    command.arg(include_str!("../lua/strict.lua")).arg(4);
    command.arg(&keys).arg(format!("{FLEET}:{{fleet}}:seal"));
    command.arg("sixteen bytes in").arg(packed);
    let said = command.query(&mut bench.connection).unwrap();
    let used = keys.map(|key| {
        let count = redis::cmd("HGET").arg(key).arg("sixteen bytes in").clone();
        let count: Option<u64> = count.query(&mut bench.connection).unwrap();
        count.unwrap_or(0)
    });
    (said, used, starts[3])
}

#[test]
fn windows_of_unequal_lengths_turn_by_the_stores_clock_as_they_are_told() {
    let mut bench = Bench::new();
    const MINUTE: i64 = 60_000_000;
    // The present window is each of the three in turn; the last of no length, and one before it.
    for (place, starts) in [
        (0, [-MINUTE, 5 * MINUTE, 9 * MINUTE, 10 * MINUTE]),
        (1, [-7 * MINUTE, -MINUTE, 5 * MINUTE, 10 * MINUTE]),
        (2, [-7 * MINUTE, -3 * MINUTE, -MINUTE, 5 * MINUTE]),
        (2, [-7 * MINUTE, -MINUTE, -MINUTE, 5 * MINUTE]),
    ] {
        bench.redis.cli(&["FLUSHALL"]);
        let (said, used, _) = ask_by_hand(&mut bench, starts, 10);
        assert_eq!((said[0], said[3], said[4]), (1, 0, 0));
        let mut all = [0; 3];
        all[place] = 10;
        assert_eq!(used, all);
        let (said, used, ends) = ask_by_hand(&mut bench, starts, 1);
        let ends = i64::try_from(ends).unwrap() + starts[place + 1] - starts[3];
        let left = ends - said[1] * 1_000_000 - said[2];
        assert_eq!(said[3..], [1, 0, left, left, 0]);
        assert_eq!((said[0], used), (0, all));
    }
    // The store's clock is before or after all of them: it says so and does nothing.
    for starts in [[1, 2, 3, 4], [-4, -3, -2, -1]] {
        let starts = starts.map(|start| start * MINUTE);
        let before = bench.redis.cli(&["DEBUG", "DIGEST"]);
        let (said, ..) = ask_by_hand(&mut bench, starts, 1);
        assert_eq!((said[0], said.len()), (-1, 3));
        assert_eq!(bench.redis.cli(&["DEBUG", "DIGEST"]), before);
    }
}

#[test]
fn what_counts_now_and_began_before_the_store_was_emptied_is_not_decided() {
    let bench = Bench::new();
    let day = |algorithm| quota(algorithm, 5, 86_400_000, None);
    let long: Vec<Counted> = Algorithm::ALL.map(|of| counted(day(of), "a")).into();
    for limit in &long {
        assert!(admits(bench.one(limit, 1).1));
    }
    bench.redis.cli(&["FLUSHALL"]);
    for limit in &long {
        assert!(is_forgotten(&bench, limit), "{limit:?}");
    }
    assert_eq!(bench.redis.cli(&["DBSIZE"]), "1", "nothing is charged");
    // What began after is decided again, and exactly.
    for algorithm in Algorithm::ALL {
        let limit = counted(quota(algorithm, 5, 400, None), "b");
        while is_forgotten(&bench, &limit) {}
        bench.one(&limit, 0);
    }
    // One limit that cannot be decided leaves all of them undecided.
    let short = counted(quota(Algorithm::FixedWindow, 5, 400, None), "c");
    let both = question(&[short.clone(), long[0].clone()], 5);
    let asked = bench.runtime.block_on(bench.strict.ask(&both));
    assert_eq!(asked, Err(Unanswered));
    assert!(admits(bench.one(&short, 5).1));
}

#[test]
fn a_bounded_limit_may_have_been_lent_before_its_window_began() {
    let mut bench = Bench::new();
    for quota in [
        quota(Algorithm::FixedWindow, 5, 86_400_000, None),
        calendar(CalendarUnit::Day, "UTC", 5),
    ] {
        lent_before_its_window(&mut bench, quota);
    }
}

fn lent_before_its_window(bench: &mut Bench, quota: Quota) {
    bench.redis.cli(&["FLUSHALL"]);
    let strict_authority = strict(&bench.redis.url(), &bench.runtime, Clock::system());
    bench.strict = strict_authority;
    let strict = counted_with(quota, "a", |it| it.consistency = Consistency::Strict);
    let bounded = counted_with(quota, "a", |it| it.consistency = Consistency::Bounded);
    assert!(admits(bench.one(&bounded, 1).1));
    let told = Told::default();
    let seal: redis::Value = seal::ask(FLEET, &told)
        .query(&mut bench.connection)
        .unwrap();
    let seal = seal::read(&seal).unwrap();
    let run = seal.text().split(' ').next().unwrap().to_owned();
    let windows = quota.windows();
    let start = windows.start(windows.at(bench.now())).as_nanos() / 1_000;
    let since = |micros: u64| {
        let number = u64::MAX >> 12;
        let seal = format!("{run} {micros} {number}");
        bench
            .redis
            .cli(&["SET", &format!("{FLEET}:{{fleet}}:seal"), &seal]);
        (is_forgotten(bench, &strict), is_forgotten(bench, &bounded))
    };
    let half = 43_200_000_000;
    assert_eq!(since(start + 1), (true, true));
    assert_eq!(since(start), (false, true));
    assert_eq!(since(start - half + 1), (false, true));
    assert_eq!(since(start - half), (false, false));
}
