//! What people who run rate limiters ask for, each with its right answer.

use super::{Outcome, State, Verdict, WindowState};
use crate::units::{Algorithm, Cost, Nanos, Quota, QuotaError, Timestamp, WindowId};

use Algorithm::*;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// A whole number of minutes, hours and days.
const START: u64 = 20_000 * DAY;

fn quota(algorithm: Algorithm, amount: u64, period: u64) -> Quota {
    Quota::new(algorithm, amount, Nanos::new(period), None).unwrap()
}

fn burst(algorithm: Algorithm, amount: u64, period: u64, burst: u64) -> Quota {
    Quota::new(algorithm, amount, Nanos::new(period), Some(burst)).unwrap()
}

/// A state, its quota and a frozen clock.
struct Cell {
    state: State,
    quota: Quota,
    now: u64,
}

impl Cell {
    fn new(quota: Quota) -> Cell {
        Cell {
            state: State::fresh(&quota),
            quota,
            now: START,
        }
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_nanos(self.now)
    }

    fn take(&mut self, cost: u64) -> Outcome {
        let at = self.at();
        self.state.take(&self.quota, Cost::new(cost), at)
    }

    fn peek(&mut self) -> Outcome {
        self.take(0)
    }

    fn admits(&mut self, cost: u64) -> bool {
        matches!(self.take(cost).verdict, Verdict::Admitted { .. })
    }

    /// How many checks of cost 1 are admitted out of `tries`.
    fn admitted(&mut self, tries: u64) -> u64 {
        (0..tries).map(|_| u64::from(self.admits(1))).sum()
    }

    fn reload(&mut self, quota: Quota) {
        let at = self.at();
        self.state.requote(&self.quota, &quota, at);
        self.quota = quota;
    }
}

fn outcome(verdict: Verdict, remaining: u64, reset_after: u64) -> Outcome {
    Outcome {
        verdict,
        remaining,
        reset_after: Nanos::new(reset_after),
    }
}

fn refused(nanos: u64) -> Verdict {
    Verdict::Refused {
        retry_after: Nanos::new(nanos),
    }
}

#[test]
fn a_state_is_at_most_32_bytes() {
    assert!(size_of::<State>() <= 32);
}

#[test]
fn c16_two_limits_of_one_client_count_apart() {
    let mut per_minute = Cell::new(quota(FixedWindow, 5, MINUTE));
    let mut per_hour = Cell::new(quota(FixedWindow, 100, HOUR));
    let mut allowed = 0;
    for _ in 0..6 {
        // All or nothing, as the engine walks.
        let at = per_hour.at();
        if per_hour.admits(1) {
            if per_minute.admits(1) {
                allowed += 1;
            } else {
                let taken_at = per_hour.state.moment(&per_hour.quota, at);
                let quota = per_hour.quota;
                per_hour.state.give_back(&quota, Cost::ONE, taken_at, at);
            }
        }
    }
    assert_eq!(allowed, 5);
    assert_eq!(per_minute.peek().remaining, 0);
    assert_eq!(per_hour.peek().remaining, 95);
}

#[test]
fn c22_a_cost_above_the_capacity_is_impossible_and_one_equal_to_it_is_not() {
    for algorithm in Algorithm::ALL {
        let mut full = Cell::new(quota(algorithm, 10, SECOND));
        assert!(full.admits(10), "{algorithm:?}");

        let mut cell = Cell::new(quota(algorithm, 10, SECOND));
        for cost in [11, u64::MAX] {
            let before = cell.state.clone();
            assert_eq!(cell.take(cost), outcome(Verdict::Impossible, 10, 0));
            assert_eq!(cell.state, before);
        }
        assert!(cell.admits(1));
        let Verdict::Refused { retry_after } = cell.take(10).verdict else {
            panic!("{algorithm:?}: a normal refusal, with a finite wait");
        };
        cell.now += retry_after.get() - 1;
        assert!(!cell.admits(10), "{algorithm:?}");
        cell.now += 1;
        assert!(cell.admits(10), "{algorithm:?}");
    }
}

#[test]
fn c23_a_limit_of_zero_is_a_ban() {
    for algorithm in Algorithm::ALL {
        let mut cell = Cell::new(quota(algorithm, 0, SECOND));
        for cost in [0, 1, u64::MAX] {
            assert_eq!(cell.take(cost), outcome(Verdict::Banned, 0, 0));
        }
        let (quota, at) = (cell.quota, cell.at());
        cell.state.charge(&quota, Cost::ONE, at);
        assert!(cell.state.is_fresh(&quota, at));
    }
    assert_eq!(
        Quota::new(TokenBucket, 0, Nanos::new(SECOND), Some(5)),
        Err(QuotaError::NeverRefills(5))
    );
}

#[test]
fn c24_a_peek_is_told_what_a_check_would_be_told_and_changes_nothing() {
    for algorithm in Algorithm::ALL {
        let mut cell = Cell::new(quota(algorithm, 3, MINUTE));
        assert_eq!(cell.peek(), outcome(Verdict::NOW, 3, 0));
        cell.take(3);
        let before = cell.state.clone();
        let peeked = cell.peek();
        assert!(matches!(peeked.verdict, Verdict::Refused { .. }));
        assert_eq!(peeked, cell.take(1), "{algorithm:?}");
        assert_eq!(peeked, cell.peek(), "the peek before equals the peek after");
        assert_eq!(cell.state, before);
    }
}

#[test]
fn c25_the_burst_defaults_to_the_amount_for_slow_rates_too() {
    let first_minute = |algorithm| {
        let mut cell = Cell::new(quota(algorithm, 6, MINUTE));
        assert_eq!(cell.admitted(7), 6, "{algorithm:?}: six at once");
        let mut at = Vec::new();
        for second in 1..60 {
            cell.now = START + second * SECOND;
            if cell.admits(1) {
                at.push(second);
            }
        }
        at
    };
    assert_eq!(first_minute(TokenBucket), [10, 20, 30, 40, 50]);
    assert_eq!(first_minute(LeakyBucket), [10, 20, 30, 40, 50]);
    assert_eq!(first_minute(FixedWindow), [0; 0]);
    assert_eq!(first_minute(SlidingWindow), [0; 0]);
    assert_eq!(first_minute(SlidingLog), [0; 0]);
}

#[test]
fn c27_extreme_quotas_are_refused_or_computed_with() {
    let new = |amount, period| Quota::new(TokenBucket, amount, period, None);
    assert!(matches!(
        new(1, Nanos::from_secs(584 * 366 * 86_400)),
        Err(QuotaError::PeriodTooLong(_))
    ));
    for period in [Nanos::ZERO, Nanos::new(1)] {
        assert_eq!(
            new(10_000_000_000_000_000_000, period),
            Err(QuotaError::PeriodTooShort(period))
        );
    }
    let mut cell = Cell::new(burst(TokenBucket, 1_000, MINUTE, 1_001));
    for remaining in [1_000, 999, 998] {
        assert_eq!(cell.take(1).remaining, remaining);
        cell.now += 10_000;
    }
}

#[test]
fn c28_every_field_of_a_throttle_is_what_redis_cell_answers() {
    let mut cell = Cell::new(burst(TokenBucket, 30, MINUTE, 16));
    assert_eq!(cell.peek(), outcome(Verdict::NOW, 16, 0));
    for taken in 1..=16 {
        let expected = outcome(Verdict::NOW, 16 - taken, 2 * taken * SECOND);
        assert_eq!(cell.take(1), expected);
    }
    let full = outcome(refused(2 * SECOND), 0, 32 * SECOND);
    assert_eq!(cell.take(1), full);
    assert_eq!(cell.take(1), full);
    cell.now += 1_000_000;
    let Outcome { verdict, .. } = cell.take(1);
    assert_eq!(verdict, refused(2 * SECOND - 1_000_000));
    cell.now += 2 * SECOND - 1_000_000;
    assert_eq!(cell.admitted(2), 1);
    cell.now += 40 * SECOND;
    assert_eq!(cell.peek(), outcome(Verdict::NOW, 16, 0));
}

#[test]
fn c30_refusals_do_not_lengthen_the_punishment() {
    let mut cell = Cell::new(quota(SlidingLog, 10, MINUTE));
    let mut allowed = 0;
    for _ in 0..300 {
        allowed += cell.admitted(1);
        cell.now += 2 * SECOND;
    }
    assert_eq!(allowed, 100);

    let mut cell = Cell::new(quota(FixedWindow, 5, MINUTE));
    assert_eq!(cell.admitted(50), 5);
    cell.reload(quota(FixedWindow, 20, MINUTE));
    assert_eq!(cell.admitted(50), 15);
}

#[test]
fn c30_charged_refusals_count_and_leave_nothing_below_zero() {
    for algorithm in Algorithm::ALL {
        let mut cell = Cell::new(quota(algorithm, 5, MINUTE));
        let at = cell.at();
        cell.state.charge(&cell.quota, Cost::new(7), at);
        let told = cell.peek();
        assert_eq!(told.remaining, 0, "{algorithm:?}");
        assert!(matches!(told.verdict, Verdict::Refused { .. }));
        for _ in 0..3 {
            cell.state.charge(&cell.quota, Cost::new(u64::MAX), at);
        }
        assert_eq!(cell.peek().remaining, 0, "{algorithm:?}");
    }
}

#[test]
fn c36_a_charge_past_the_limit_leaves_nothing_until_it_is_paid_off() {
    for (algorithm, wait) in [
        (FixedWindow, MINUTE),
        // The next window weighs 1,500 of before until two thirds of them are gone.
        (SlidingWindow, MINUTE + (MINUTE - 999 * MINUTE / 1_500)),
        (SlidingLog, MINUTE),
        (TokenBucket, 501 * MINUTE / 1_000),
        (LeakyBucket, 501 * MINUTE / 1_000),
    ] {
        let mut cell = Cell::new(quota(algorithm, 1_000, MINUTE));
        cell.now -= cell.now % MINUTE;
        assert!(cell.admits(20));
        let at = cell.at();
        cell.state.charge(&cell.quota, Cost::new(1_480), at);
        let told = cell.peek();
        assert_eq!(
            (told.verdict, told.remaining),
            (refused(wait), 0),
            "{algorithm:?}"
        );
        cell.now += wait - 1;
        assert!(!cell.admits(1), "{algorithm:?}");
        cell.now += 1;
        assert!(cell.admits(1), "{algorithm:?}");
    }
}

#[test]
fn c36_no_charge_keeps_a_bucket_closed_for_longer_than_two_bursts_take_to_drain() {
    for algorithm in [TokenBucket, LeakyBucket] {
        let mut cell = Cell::new(burst(algorithm, 60, MINUTE, 10));
        let at = cell.at();
        for cost in [u64::MAX, 5, u64::MAX] {
            cell.state.charge(&cell.quota, Cost::new(cost), at);
        }
        assert_eq!(cell.peek().verdict, refused(11 * SECOND));
        assert_eq!(cell.peek().reset_after, Nanos::new(20 * SECOND));
    }
}

#[test]
fn c36_a_cost_that_comes_late_counts_in_its_own_window_or_nowhere() {
    for (algorithm, next) in [(FixedWindow, false), (SlidingWindow, true)] {
        let quota = quota(algorithm, 1_000, MINUTE);
        let mut state = WindowState::default();
        let at = |minute: u64| Timestamp::from_nanos(minute * MINUTE);
        state.take(&quota, Cost::new(20), at(5));
        assert!(state.charge_at(&quota, Cost::new(u64::MAX), at(5)));
        assert_eq!(state.current(), u64::MAX);
        state.roll(&quota, at(6));
        state.set(at(5).window(quota.period()), 20);
        assert_eq!(state.charge_at(&quota, Cost::new(30), at(5)), next);
        assert_eq!(state.previous(), if next { 50 } else { 20 });
        state.roll(&quota, at(7));
        assert!(!state.charge_at(&quota, Cost::new(30), at(5)));
        assert_eq!((state.current(), state.previous()), (0, 0));
    }
}

#[test]
fn c33_buckets_drain_continuously_and_not_once_a_period() {
    for algorithm in [TokenBucket, LeakyBucket] {
        let mut cell = Cell::new(quota(algorithm, 10, MINUTE));
        assert_eq!(cell.admitted(11), 10);
        for _ in 0..20 {
            cell.now += 6 * SECOND - 1;
            assert_eq!(cell.admitted(1), 0);
            cell.now += 1;
            assert_eq!(cell.admitted(2), 1);
        }
    }
}

#[test]
fn a_leaky_bucket_tells_each_check_how_long_until_its_slot() {
    let mut cell = Cell::new(burst(LeakyBucket, 10, SECOND, 3));
    for slot in 0..3 {
        let delay = Nanos::from_millis(100 * slot);
        assert_eq!(cell.take(1).verdict, Verdict::Admitted { delay });
    }
    assert_eq!(cell.take(1).verdict, refused(SECOND / 10));
}

#[test]
fn c45_a_jump_of_the_clock_grants_one_capacity_at_most_and_heals_within_a_period() {
    for algorithm in Algorithm::ALL {
        let mut cell = Cell::new(quota(algorithm, 100, MINUTE));
        assert_eq!(cell.admitted(60), 60);
        let left = 40;
        cell.now += HOUR;
        let jumped = cell.admitted(300);
        cell.now -= HOUR;
        let returned = cell.admitted(300);
        assert!(jumped <= 100, "{algorithm:?}: {jumped}");
        assert!(returned <= left, "{algorithm:?}: {returned}");
        let Verdict::Refused { retry_after } = cell.peek().verdict else {
            panic!("{algorithm:?}: the capacity was just used");
        };
        assert!(retry_after <= Nanos::new(MINUTE + MINUTE / 100));
        cell.now += MINUTE + MINUTE / 100;
        assert!(cell.admits(1), "{algorithm:?}: served again");
        cell.now += 2 * MINUTE;
        assert_eq!(cell.peek().remaining, 100, "{algorithm:?}");
    }
}

#[test]
fn c45_a_key_not_seen_since_the_jump_is_forgotten_by_a_sweep() {
    for algorithm in Algorithm::ALL {
        let mut cell = Cell::new(quota(algorithm, 100, MINUTE));
        cell.now += HOUR;
        cell.take(100);
        cell.now -= HOUR;
        let (quota, at) = (cell.quota, cell.at());
        cell.state.age(&quota, at);
        assert!(!cell.state.is_fresh(&quota, at), "{algorithm:?}");
        assert!(
            cell.state
                .is_fresh(&quota, at.after(Nanos::new(2 * MINUTE))),
            "{algorithm:?}"
        );
    }
}

#[test]
fn moments_a_little_out_of_order_grant_nothing() {
    for algorithm in Algorithm::ALL {
        let mut cell = Cell::new(quota(algorithm, 1_000, SECOND));
        let mut admitted = 0;
        // Two threads, one always a microsecond behind, across a window's edge.
        for step in 0..20_000 {
            cell.now = START + SECOND / 2 + step * 50_000 - (step % 2) * 51_000;
            admitted += cell.admitted(1);
        }
        let most = match algorithm {
            SlidingLog => 1_000,
            SlidingWindow => 1_500,
            _ => 2_000,
        };
        assert!(admitted <= most, "{algorithm:?}: {admitted}");
    }
}

#[test]
fn c49_the_same_minute_of_the_next_day_is_another_window() {
    let mut cell = Cell::new(quota(FixedWindow, 10, MINUTE));
    cell.now += 9 * HOUR + 15 * MINUTE;
    assert_eq!(cell.admitted(11), 10);
    cell.now += DAY;
    assert_eq!(cell.admitted(11), 10);
}

#[test]
fn c50_very_long_windows_end_when_they_should() {
    for days in [25, 50, 400, 3_660] {
        for algorithm in Algorithm::ALL {
            let mut cell = Cell::new(quota(algorithm, 2, days * DAY));
            cell.now = days * DAY;
            assert_eq!(cell.admitted(3), 2);
            cell.now += days * DAY - 1;
            let before = match algorithm {
                // One is due after half the time.
                TokenBucket | LeakyBucket => 1,
                _ => 0,
            };
            assert_eq!(cell.peek().remaining, before, "{algorithm:?} {days}");
            cell.now += days * DAY + 1;
            assert_eq!(cell.peek(), outcome(Verdict::NOW, 2, 0), "{algorithm:?}");
        }
    }
}

#[test]
fn a_century_of_idleness_and_a_clock_near_zero_are_ordinary() {
    for algorithm in Algorithm::ALL {
        for amount in [1, 100_000] {
            let mut cell = Cell::new(quota(algorithm, amount, MINUTE));
            cell.now = 0;
            assert!(cell.admits(amount), "{algorithm:?}");
            assert!(!cell.admits(1), "{algorithm:?}");
            cell.now = 36_525 * DAY;
            assert_eq!(cell.peek(), outcome(Verdict::NOW, amount, 0));
        }
    }
    for algorithm in [FixedWindow, SlidingWindow, TokenBucket, LeakyBucket] {
        let mut cell = Cell::new(quota(algorithm, u64::MAX, Quota::MAX_PERIOD.get()));
        cell.now = u64::MAX - 1;
        assert!(cell.admits(u64::MAX), "{algorithm:?}");
        assert_eq!(cell.peek().remaining, 0, "{algorithm:?}");
        cell.now = u64::MAX;
        cell.take(1);
    }
}

#[test]
fn c57_a_fixed_window_keeps_what_was_used_through_reloads() {
    let mut cell = Cell::new(quota(FixedWindow, 100, HOUR));
    cell.take(60);
    let reset = cell.peek().reset_after.get();
    cell.reload(quota(FixedWindow, 10, HOUR));
    assert_eq!(cell.peek(), outcome(refused(HOUR), 0, reset));
    cell.reload(quota(FixedWindow, 100, HOUR));
    assert_eq!(cell.peek(), outcome(Verdict::NOW, 40, reset));
}

#[test]
fn c57_the_sliding_algorithms_keep_what_was_used_through_reloads() {
    for algorithm in [SlidingWindow, SlidingLog] {
        let mut cell = Cell::new(quota(algorithm, 100, HOUR));
        cell.take(60);
        cell.reload(quota(algorithm, 10, HOUR));
        assert_eq!(cell.peek().remaining, 0);
        cell.reload(quota(algorithm, 100, HOUR));
        assert_eq!(cell.peek().remaining, 40);
    }
}

#[test]
fn c57_a_bucket_keeps_what_is_left_and_never_jumps_to_full() {
    let mut cell = Cell::new(quota(TokenBucket, 100, HOUR));
    cell.take(60);
    cell.reload(quota(TokenBucket, 10, HOUR));
    assert_eq!(cell.peek().remaining, 10);
    cell.reload(quota(TokenBucket, 100, HOUR));
    assert_eq!(cell.peek().remaining, 10);
    cell.now += HOUR / 100 - 1;
    assert_eq!(cell.peek().remaining, 10);
    cell.now += 1;
    assert_eq!(cell.peek().remaining, 11, "refills at the new rate");
}

#[test]
fn c57_after_a_cut_nobody_waits_longer_than_a_full_refill() {
    let mut cell = Cell::new(quota(TokenBucket, 100, MINUTE));
    cell.take(60);
    cell.reload(quota(TokenBucket, 1, MINUTE));
    assert_eq!(cell.take(1).verdict, Verdict::NOW);
    assert_eq!(cell.take(1).verdict, refused(MINUTE));

    let mut cell = Cell::new(quota(TokenBucket, 100, MINUTE));
    let at = cell.at();
    cell.state.charge(&cell.quota, Cost::new(1_000), at);
    cell.reload(quota(TokenBucket, 1, MINUTE));
    assert_eq!(cell.take(1).verdict, refused(MINUTE));
}

#[test]
fn c57_a_ban_in_between_keeps_the_debt() {
    let mut cell = Cell::new(quota(TokenBucket, 100, HOUR));
    cell.take(60);
    cell.reload(quota(TokenBucket, 0, HOUR));
    assert_eq!(cell.peek(), Outcome::BANNED);
    cell.reload(quota(TokenBucket, 100, HOUR));
    assert_eq!(cell.peek().remaining, 40);
}

#[test]
fn c57_another_period_or_algorithm_starts_afresh() {
    for new in [
        quota(FixedWindow, 100, MINUTE),
        quota(SlidingWindow, 100, HOUR),
        quota(TokenBucket, 100, HOUR),
        quota(SlidingLog, 100, HOUR),
    ] {
        let mut cell = Cell::new(quota(FixedWindow, 100, HOUR));
        cell.take(60);
        cell.reload(new);
        assert!(cell.state.suits(&new));
        assert_eq!(cell.peek().remaining, 100);
    }
}

#[test]
fn a_state_of_another_kind_counts_as_fresh() {
    let (window, bucket) = (quota(FixedWindow, 5, HOUR), quota(TokenBucket, 5, HOUR));
    let mut cell = Cell::new(window);
    cell.take(5);
    cell.quota = bucket;
    assert!(!cell.state.suits(&bucket));
    assert!(cell.state.is_fresh(&bucket, cell.at()));
    assert_eq!(cell.take(1).remaining, 4);
}

/// No rate is rounded: over a long run of greedy checks, exactly what the rate
/// allows is admitted.
#[test]
fn uneven_rates_neither_drift_nor_round() {
    for (amount, period, periods) in [
        (7, HOUR, 1_000),
        (700, SECOND, 100),
        (3, 1_000 * SECOND, 1_000),
    ] {
        for algorithm in [TokenBucket, LeakyBucket] {
            let mut cell = Cell::new(burst(algorithm, amount, period, 1));
            let mut admitted = 0_u64;
            let end = START + periods * period;
            while cell.now < end {
                match cell.take(1).verdict {
                    Verdict::Admitted { .. } => admitted += 1,
                    Verdict::Refused { retry_after } => cell.now += retry_after.get(),
                    other => panic!("{other:?}"),
                }
                // Waits are whole nanoseconds, yet what is repaid in between stays.
                let due = u128::from(cell.now - START) * u128::from(amount);
                assert!(u128::from(admitted) * u128::from(period) <= due + u128::from(period));
            }
            // Within the rounding of waits, which a burst of one cannot make up for.
            assert!(amount * periods - admitted <= 1, "{admitted}");
        }
    }
}

#[test]
fn seven_an_hour_for_a_year_are_exactly_seven_an_hour() {
    let mut cell = Cell::new(quota(TokenBucket, 7, HOUR));
    assert_eq!(cell.admitted(8), 7);
    let mut admitted = 0;
    for _ in 0..365 * 24 * 60 {
        cell.now += MINUTE;
        admitted += cell.admitted(2);
    }
    assert_eq!(admitted, 7 * 24 * 365);
}

#[test]
fn seven_hundred_million_a_second_are_not_a_thousand_million() {
    let mut cell = Cell::new(quota(TokenBucket, 700_000_000, SECOND));
    assert!(cell.admits(700_000_000));
    for _ in 0..1_000 {
        cell.now += 10;
        assert!(!cell.admits(8));
        assert!(cell.admits(7), "seven in ten nanoseconds");
    }
}

#[test]
fn what_is_given_back_after_its_window_goes_nowhere() {
    for algorithm in Algorithm::ALL {
        let mut cell = Cell::new(quota(algorithm, 10, MINUTE));
        let taken_at = cell.at();
        cell.take(4);
        cell.now += 3 * MINUTE;
        cell.take(5);
        let (before, at) = (cell.state.clone(), cell.at());
        let quota = cell.quota;
        cell.state.give_back(&quota, Cost::new(4), taken_at, at);
        assert_eq!(cell.state, before, "{algorithm:?}");
    }
}

#[test]
fn what_is_given_back_in_the_next_window_comes_off_the_previous_count() {
    let mut cell = Cell::new(quota(SlidingWindow, 10, MINUTE));
    let taken_at = cell.at();
    cell.take(8);
    cell.now += MINUTE;
    cell.take(1);
    let (quota, at) = (cell.quota, cell.at());
    cell.state.give_back(&quota, Cost::new(4), taken_at, at);
    cell.state.give_back(&quota, Cost::new(9), at, at);
    let State::Window(window) = cell.state else {
        panic!("a window");
    };
    assert_eq!((window.current(), window.previous()), (0, 4));
}

#[test]
fn a_window_is_raised_to_what_others_counted_and_never_lowered() {
    let quota = quota(SlidingWindow, 10, MINUTE);
    let mut window = WindowState::default();
    let at = Timestamp::from_nanos(START);
    window.roll(&quota, at);
    let id = at.window(quota.period());
    assert_eq!(window.id(), id);
    window.raise(id, 7);
    window.raise(id, 3);
    window.raise(id.previous(), 5);
    window.raise(id.next(), 100);
    window.raise(WindowId::new(id.get() - 2), 100);
    assert_eq!((window.current(), window.previous()), (7, 5));
}

#[test]
fn a_bucket_is_raised_to_what_others_owe_aged_to_now() {
    let quota = quota(TokenBucket, 10, SECOND);
    let at = |millis: u64| Timestamp::from_nanos(START + millis * 1_000_000);
    let raised = |debt, unsent| {
        let mut state = State::fresh(&quota);
        state.take(&quota, Cost::new(2), at(0));
        let State::Bucket(mut bucket) = state else {
            panic!("a bucket");
        };
        let debt = Nanos::from_millis(debt);
        bucket.raise(&quota, debt, at(0), Cost::new(unsent), at(100));
        bucket.debt_time(&quota)
    };
    assert_eq!(raised(800, 0), Nanos::from_millis(700));
    assert_eq!(raised(800, 2), Nanos::from_millis(900));
    assert_eq!(raised(50, 0), Nanos::from_millis(100), "never lowered");
    assert_eq!(
        raised(1_500, 0),
        Nanos::from_millis(1_400),
        "above capacity"
    );
    assert_eq!(
        raised(5_000, 9),
        Nanos::from_secs(2),
        "twice the capacity at most"
    );
}

#[test]
fn a_debt_reported_from_ahead_of_the_clock_is_not_aged() {
    let quota = quota(TokenBucket, 10, SECOND);
    let State::Bucket(mut bucket) = State::fresh(&quota) else {
        panic!("a bucket");
    };
    let now = Timestamp::from_nanos(START);
    let ahead = now.after(Nanos::from_millis(20));
    bucket.raise(&quota, Nanos::from_millis(300), ahead, Cost::ZERO, now);
    assert_eq!(bucket.at(), now);
    assert_eq!(bucket.debt_time(&quota), Nanos::from_millis(300));
}

#[test]
fn a_log_adds_what_others_used_where_it_belongs() {
    let quota = quota(SlidingLog, 10, MINUTE);
    let mut cell = Cell::new(quota);
    let at = |secs| Timestamp::from_nanos(START + secs * SECOND);
    cell.now += 30 * SECOND;
    assert_eq!(cell.take(2).remaining, 8);
    let State::Log(log) = &mut cell.state else {
        panic!("a log");
    };
    log.add(&quota, at(10), Cost::new(3));
    log.add(&quota, at(20), Cost::new(1));
    log.add(&quota, at(10), Cost::new(1));
    cell.now += 5 * SECOND;
    assert_eq!(cell.peek().remaining, 3);
    assert_eq!(cell.take(4).verdict, refused(35 * SECOND));
    assert_eq!(cell.take(8).verdict, refused(45 * SECOND));
    assert_eq!(cell.take(9).verdict, refused(55 * SECOND));
    cell.now = START + 70 * SECOND;
    assert_eq!(cell.peek().remaining, 7);
}

#[test]
fn a_log_stays_bounded_whatever_is_added_and_forgets_nothing_that_counts() {
    let quota = quota(SlidingLog, 100_000, MINUTE);
    let mut cell = Cell::new(quota);
    let State::Log(log) = &mut cell.state else {
        panic!("a log");
    };
    for nanos in 0..100_100 {
        let at = Timestamp::from_nanos(START + nanos);
        log.add(&quota, at, Cost::ONE);
    }
    log.add(&quota, Timestamp::from_nanos(START + 7), Cost::new(5));
    assert_eq!(log.len(), 100_000);
    cell.now = START + MINUTE - 1;
    let told = cell.peek();
    assert_eq!(told.remaining, 0);
    assert_eq!(told.reset_after, Nanos::new(100_100));
    // 106 have to go, and the eighth hit costs six: the last to go came at 100.
    assert_eq!(told.verdict, refused(101));
}

#[test]
fn a_throttle_whose_quota_changes_keeps_the_time_to_drain() {
    let (old, new) = (
        burst(TokenBucket, 30, MINUTE, 16),
        burst(TokenBucket, 7, HOUR, 5),
    );
    let mut cell = Cell::new(old);
    cell.take(3);
    assert_eq!(cell.peek().reset_after, Nanos::new(6 * SECOND));
    let at = cell.at();
    cell.state.reprice(&old, &new, at);
    cell.quota = new;
    assert_eq!(cell.peek().reset_after, Nanos::new(6 * SECOND));
    assert_eq!(cell.peek().remaining, 4);
    cell.state.reprice(&new, &old, at);
    cell.quota = old;
    assert_eq!(cell.peek(), outcome(Verdict::NOW, 13, 6 * SECOND));
}
