//! Brute force: every algorithm by its definition, over the list of what was
//! admitted, in unbounded integers. The states are held against it.

use std::time::Duration;

use governor::clock::Clock;
use num_bigint::BigInt;
use proptest::prelude::*;

use super::{MOST_OWED, Outcome, State, Verdict};
use crate::units::{Algorithm, Cost, Nanos, Quota, Timestamp};

/// All that was admitted or charged.
#[derive(Clone, Debug)]
struct Oracle {
    quota: Quota,
    /// When, and how much: in tokens, for buckets in token · nanosecond.
    hits: Vec<(u64, BigInt)>,
}

fn big(n: u64) -> BigInt {
    BigInt::from(n)
}

fn ceil(n: BigInt, d: u64) -> BigInt {
    (n + big(d) - 1) / big(d)
}

impl Oracle {
    fn new(quota: Quota) -> Oracle {
        Oracle {
            quota,
            hits: Vec::new(),
        }
    }

    fn period(&self) -> u64 {
        self.quota.period().get()
    }

    fn sum(&self, counts: impl Fn(u64) -> bool) -> BigInt {
        self.hits
            .iter()
            .filter(|(at, _)| counts(*at))
            .map(|(_, cost)| cost)
            .sum()
    }

    /// What a bucket owes at `t`: the largest of what any run of its last hits
    /// leaves unpaid.
    fn debt(&self, t: u64) -> BigInt {
        let mut debt = BigInt::ZERO;
        let mut run = BigInt::ZERO;
        for (at, units) in self.hits.iter().rev() {
            run += units;
            debt = debt.max(&run - big(t - at) * big(self.quota.amount()));
        }
        debt
    }

    fn newest(&self) -> u64 {
        self.hits.iter().map(|(at, _)| *at).max().unwrap_or(0)
    }

    /// The moment that a check at `now` counts for, after bringing back what lies
    /// too far ahead, and whether something did.
    fn moment(&mut self, now: u64) -> (u64, bool) {
        let (newest, period) = (self.newest(), self.period());
        match self.quota.algorithm() {
            Algorithm::FixedWindow | Algorithm::SlidingWindow => {
                let (id, state_id) = (now / period, newest / period);
                let is_empty = self.sum(|at| at / period + 1 >= state_id) == BigInt::ZERO;
                if id >= state_id {
                    (now, false)
                } else if id + 1 == state_id && !is_empty {
                    (state_id * period, false)
                } else {
                    let total = self.sum(|at| at / period == state_id);
                    self.hits = vec![(now, total)];
                    (now, true)
                }
            }
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                if now >= newest {
                    return (now, false);
                }
                let debt = self.debt(newest);
                if debt > BigInt::ZERO && newest - now <= self.quota.drain_time().get() {
                    return (newest, false);
                }
                let full = big(self.quota.capacity()) * big(period);
                self.hits = vec![(now, debt.min(full))];
                (now, true)
            }
            Algorithm::SlidingLog => {
                if newest <= now {
                    (now, false)
                } else if newest - now <= period {
                    (newest, false)
                } else {
                    for (at, _) in &mut self.hits {
                        *at = now.min(*at);
                    }
                    (now, true)
                }
            }
        }
    }

    /// By definition, at a moment that is not before any hit.
    fn admits(&self, cost: u64, t: u64) -> bool {
        let (period, amount) = (self.period(), big(self.quota.amount()));
        let cost = big(cost);
        match self.quota.algorithm() {
            Algorithm::FixedWindow => {
                let id = t / period;
                self.sum(|at| at / period == id) + cost <= amount
            }
            Algorithm::SlidingWindow => {
                let (id, elapsed) = (t / period, t % period);
                let previous = self.sum(|at| at / period + 1 == id);
                let weighted = ceil(previous * big(period - elapsed), period);
                weighted + self.sum(|at| at / period == id) + cost <= amount
            }
            Algorithm::SlidingLog => {
                self.sum(|at| u128::from(at) + u128::from(period) > u128::from(t)) + cost <= amount
            }
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                self.debt(t) + cost * big(period) <= big(self.quota.capacity()) * big(period)
            }
        }
    }

    /// Whether a check of `cost` would be admitted at `now`.
    fn would_admit(&self, cost: u64, now: u64) -> bool {
        let mut at = self.clone();
        let (moment, _) = at.moment(now);
        at.admits(cost, moment)
    }

    fn record(&mut self, cost: u64, moment: u64) {
        // What no state remembers after this, should the clock go back.
        let period = self.period();
        match self.quota.algorithm() {
            Algorithm::FixedWindow | Algorithm::SlidingWindow => {
                self.hits
                    .retain(|(at, _)| at / period + 1 >= moment / period);
            }
            Algorithm::SlidingLog => self.hits.retain(|(at, _)| moment - at < period),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                if self.debt(moment) == BigInt::ZERO {
                    self.hits.clear();
                }
            }
        }
        let units = match self.quota.algorithm() {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                let most = big(self.quota.capacity()) * big(period) * big(MOST_OWED);
                let left = (most - self.debt(moment)).max(BigInt::ZERO);
                (big(cost) * big(period)).min(left)
            }
            // Counts saturate.
            Algorithm::SlidingLog => big(cost).min(big(u64::MAX) - self.sum(|_| true)),
            Algorithm::FixedWindow | Algorithm::SlidingWindow => {
                let counted = self.sum(|at| at / period == moment / period);
                big(cost).min(big(u64::MAX) - counted)
            }
        };
        // A log whose sum is at its end does not remember when.
        if self.quota.algorithm() != Algorithm::SlidingLog || units > BigInt::ZERO {
            self.hits.push((moment, units));
        }
    }

    /// Takes off again up to `cost` of what counts at `moment`, the last first, and answers
    /// how much that was.
    fn refund(&mut self, cost: u64, moment: u64) -> BigInt {
        let period = self.period();
        if self.quota.algorithm().is_bucket() {
            let debt = self.debt(moment);
            let refunded = big(cost).min(ceil(debt.clone(), period));
            let left = (debt - &refunded * big(period)).max(BigInt::ZERO);
            self.hits = vec![(moment, left)];
            return refunded;
        }
        let logs = self.quota.algorithm() == Algorithm::SlidingLog;
        let mut left = big(cost);
        self.hits.sort_by_key(|(at, _)| *at);
        for (at, units) in self.hits.iter_mut().rev() {
            let counts = if logs {
                moment - *at < period
            } else {
                *at / period == moment / period
            };
            if counts {
                let part = left.clone().min(units.clone());
                *units -= &part;
                left -= part;
            }
        }
        if logs {
            self.hits
                .retain(|(at, units)| moment - at < period && *units != BigInt::ZERO);
        }
        big(cost) - left
    }
}

/// One step of a history. Times are in 1/60 of a period or of a drain time, so
/// that hits meet edges.
#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    WaitNanos(u64),
    WaitCentury,
    Back(u64),
    Take(Size),
    Charge(Size),
    Refund(Size),
    GiveBack,
}

#[derive(Clone, Copy, Debug)]
enum Size {
    Exactly(u64),
    /// What remains, and this much more.
    Remaining(u64),
    /// The capacity, less this much.
    Capacity(u64),
    AboveCapacity,
    Part(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![
        4 => (0..4u64).prop_map(Size::Exactly),
        1 => Just(Size::Exactly(u64::MAX)),
        2 => (0..3u64).prop_map(Size::Remaining),
        1 => (0..3u64).prop_map(Size::Capacity),
        1 => Just(Size::AboveCapacity),
        2 => (1..8u64).prop_map(Size::Part),
    ];
    let other = size.clone();
    let third = size.clone();
    let step = prop_oneof![
        4 => (0..150u64).prop_map(Step::Wait),
        2 => (0..3u64).prop_map(Step::WaitNanos),
        1 => any::<u64>().prop_map(|n| Step::WaitNanos(n % 100_000_000_000)),
        1 => Just(Step::WaitCentury),
        1 => (0..400u64).prop_map(Step::Back),
        12 => size.prop_map(Step::Take),
        2 => other.prop_map(Step::Charge),
        1 => third.prop_map(Step::Refund),
        2 => Just(Step::GiveBack),
    ];
    proptest::collection::vec(step, 1..40)
}

fn quota(algorithm: Algorithm) -> impl Strategy<Value = Quota> {
    let amount = prop_oneof![
        6 => 1..20u64,
        1 => Just(0u64),
        1 => Just(700u64),
        1 => Just(700_000_000u64),
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ];
    let period = prop_oneof![
        Just(Quota::MIN_PERIOD),
        Just(Quota::MAX_PERIOD),
        Just(Nanos::from_secs(1)),
        Just(Nanos::from_secs(1_000)),
        Just(Nanos::from_secs(3_600)),
        (1_000_000..10_000_000_000u64).prop_map(Nanos::new),
    ];
    let burst = prop_oneof![
        Just(None),
        (1..20u64).prop_map(Some),
        (1..=u64::MAX).prop_map(Some)
    ];
    (amount, period, burst).prop_map(move |(amount, period, burst)| {
        let amount = match algorithm {
            Algorithm::SlidingLog => amount % 1_000,
            _ => amount,
        };
        let burst = burst.filter(|_| algorithm.is_bucket() && amount > 0);
        Quota::new(algorithm, amount, period, burst).unwrap()
    })
}

/// No history goes beyond: what follows must be representable.
const LAST: u64 = 1 << 63;

/// Plays `steps` on a state and on the oracle, and compares all they say.
fn play(quota: Quota, start: u64, steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut state, mut oracle) = (State::fresh(&quota), Oracle::new(quota));
    let mut now = start;
    let mut last_take = None;
    let span = u128::from(quota.period().get().min(quota.drain_time().get()).max(1));
    let part = |sixtieths: u64| u64::try_from(u128::from(sixtieths) * span / 60).unwrap();
    for step in steps {
        match *step {
            Step::Wait(sixtieths) => now = now.saturating_add(part(sixtieths)).min(LAST),
            Step::WaitNanos(nanos) => now = now.saturating_add(nanos).min(LAST),
            Step::WaitCentury => {
                now = now
                    .saturating_add(Nanos::from_secs(100 * 366 * 86_400).get())
                    .min(LAST);
            }
            Step::Back(sixtieths) => now = now.saturating_sub(part(sixtieths)),
            Step::Take(size) => {
                let cost = sized(size, &state, &quota, now);
                let (taken, came_back) = check(&mut state, &mut oracle, cost, now)?;
                if taken {
                    last_take = Some((cost, oracle.newest()));
                } else if came_back {
                    last_take = None;
                }
            }
            Step::Charge(size) => {
                let cost = sized(size, &state, &quota, now);
                if !quota.is_ban() && cost > 0 {
                    let (moment, _) = oracle.moment(now);
                    oracle.record(cost, moment);
                }
                state.charge(&quota, Cost::new(cost), Timestamp::from_nanos(now));
                last_take = None;
            }
            Step::Refund(size) if !quota.is_ban() => {
                let cost = sized(size, &state, &quota, now);
                let (mut after, mut oracle_after) = (state.clone(), oracle.clone());
                let (moment, _) = oracle_after.moment(now);
                let refunded = refund(&mut after, &quota, cost, now);
                let expected = oracle_after.refund(cost, moment);
                prop_assert_eq!(&refunded, &expected, "refund {}", cost);
                // Where nothing was there, it may have gone on to `now`, which no hit tells of.
                if refunded > BigInt::ZERO {
                    (state, oracle, last_take) = (after, oracle_after, None);
                }
            }
            Step::Refund(_) => {}
            Step::GiveBack => {
                if let Some((cost, moment)) = last_take.take() {
                    let at = Timestamp::from_nanos(moment);
                    state.give_back(&quota, Cost::new(cost), at, Timestamp::from_nanos(now));
                    if quota.algorithm() == Algorithm::SlidingLog {
                        oracle.hits.pop();
                    } else if quota.algorithm().is_bucket()
                        && now.saturating_sub(moment) > quota.drain_time().get()
                    {
                        // Too late: repaid by now.
                    } else if let Some((_, units)) = oracle.hits.last_mut() {
                        *units = BigInt::ZERO;
                    }
                }
            }
        }
        let is_fresh = state.is_fresh(&quota, Timestamp::from_nanos(now));
        let full = quota.is_ban() || oracle.would_admit(quota.capacity(), now);
        prop_assert_eq!(is_fresh, full, "fresh at {}", now);
    }
    Ok(())
}

/// The cost that `size` stands for.
fn sized(size: Size, state: &State, quota: &Quota, now: u64) -> u64 {
    let peek = state
        .clone()
        .take(quota, Cost::ZERO, Timestamp::from_nanos(now));
    let (left, capacity) = (peek.remaining, quota.capacity());
    match size {
        Size::Exactly(cost) => cost,
        Size::Remaining(more) => left.saturating_add(more),
        Size::Capacity(less) => capacity.saturating_sub(less),
        Size::AboveCapacity => capacity.saturating_add(1),
        Size::Part(divisor) => capacity / divisor,
    }
}

fn refund(state: &mut State, quota: &Quota, cost: u64, now: u64) -> BigInt {
    let (cost, now) = (Cost::new(cost), Timestamp::from_nanos(now));
    match state {
        State::Window(state) => big(state.refund(quota, cost, now).get()),
        State::Bucket(state) => big(state.refund(quota, cost, now).get()),
        State::Log(state) => {
            let parts = state.refund(quota, cost, now);
            parts.iter().map(|(_, cost)| big(cost.get())).sum()
        }
    }
}

/// One check, compared. Answers whether something was taken, and whether the state
/// came back from too far ahead.
fn check(
    state: &mut State,
    oracle: &mut Oracle,
    cost: u64,
    now: u64,
) -> Result<(bool, bool), TestCaseError> {
    let quota = oracle.quota;
    let at = Timestamp::from_nanos;
    let before = state.clone();
    let outcome = state.take(&quota, Cost::new(cost), at(now));
    if quota.is_ban() {
        prop_assert_eq!(outcome, Outcome::BANNED);
        prop_assert_eq!(&*state, &before);
        return Ok((false, false));
    }
    let (moment, came_back) = oracle.moment(now);
    let asked = cost.max(1);
    let mut taken = false;
    match outcome.verdict {
        Verdict::Admitted { delay } => {
            prop_assert!(oracle.admits(asked, moment), "admitted {cost} at {now}");
            let slot = match quota.algorithm() {
                Algorithm::LeakyBucket => oracle.debt(moment),
                _ => BigInt::ZERO,
            };
            let expected = if slot == BigInt::ZERO {
                slot
            } else {
                ceil(slot, quota.amount()) + big(moment - now)
            };
            prop_assert_eq!(big(delay.get()), expected.min(big(u64::MAX)));
            taken = cost > 0;
            if taken {
                oracle.record(cost, moment);
                prop_assert_eq!(state.moment(&quota, at(now)), at(moment));
            }
        }
        Verdict::Refused { retry_after } => {
            prop_assert!(asked <= quota.capacity());
            prop_assert!(!oracle.admits(asked, moment), "refused {cost} at {now}");
            let wait = retry_after.get();
            prop_assert!(wait > 0);
            if let Some(then) = representable(now, wait) {
                prop_assert!(oracle.would_admit(asked, then), "after {wait}");
                prop_assert!(!oracle.would_admit(asked, then - 1), "before {wait}");
                let admitted = |then| {
                    let outcome = state.clone().take(&quota, Cost::new(cost), at(then));
                    matches!(outcome.verdict, Verdict::Admitted { .. })
                };
                prop_assert!(admitted(then) && !admitted(then - 1));
            }
        }
        Verdict::Impossible => prop_assert!(asked > quota.capacity()),
        Verdict::Banned => prop_assert!(false, "not a ban"),
    }
    // Of an empty state nobody can tell what moment it is of.
    if !taken && !came_back && !before.is_fresh(&quota, at(now)) {
        prop_assert_eq!(&*state, &before, "a peek or a refusal changed something");
    }
    prop_assert!(outcome.remaining <= quota.capacity());
    if outcome.remaining > 0 {
        prop_assert!(oracle.admits(outcome.remaining, moment), "too much remains");
    }
    if outcome.remaining < quota.capacity() {
        prop_assert!(
            !oracle.admits(outcome.remaining + 1, moment),
            "more remains"
        );
    }
    let reset = outcome.reset_after.get();
    if let Some(then) = representable(now, reset) {
        prop_assert!(oracle.would_admit(quota.capacity(), then), "reset {reset}");
        prop_assert!(reset == 0 || !oracle.would_admit(quota.capacity(), then - 1));
    }
    Ok((taken, came_back))
}

/// The moment after `wait`, unless the wait or the moment is beyond the end of time.
fn representable(now: u64, wait: u64) -> Option<u64> {
    now.checked_add(wait).filter(|_| wait < u64::MAX)
}

fn histories() -> impl Strategy<Value = (u64, Vec<Step>)> {
    let start = prop_oneof![
        0..3u64,
        Just(1_790_000_000_000_000_000),
        0..LAST,
        Just(1_800_000_000_000_000_000)
    ];
    (start, steps())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_fixed_window_is_what_its_definition_says(
        quota in quota(Algorithm::FixedWindow), (start, steps) in histories()
    ) {
        play(quota, start, &steps)?;
    }

    #[test]
    fn the_sliding_window_is_what_its_definition_says(
        quota in quota(Algorithm::SlidingWindow), (start, steps) in histories()
    ) {
        play(quota, start, &steps)?;
    }

    #[test]
    fn the_sliding_log_is_what_its_definition_says(
        quota in quota(Algorithm::SlidingLog), (start, steps) in histories()
    ) {
        play(quota, start, &steps)?;
    }

    #[test]
    fn the_token_bucket_is_what_its_definition_says(
        quota in quota(Algorithm::TokenBucket), (start, steps) in histories()
    ) {
        play(quota, start, &steps)?;
    }

    #[test]
    fn the_leaky_bucket_is_what_its_definition_says(
        quota in quota(Algorithm::LeakyBucket), (start, steps) in histories()
    ) {
        play(quota, start, &steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Where a token takes a whole number of nanoseconds, `governor` is exact too.
    #[test]
    fn the_token_bucket_is_governors(
        per_token in prop_oneof![1_000_000..10_000_000u64, 1..2_000_000_000_000u64],
        amount in 1..1_000u64,
        burst in 1..50u32,
        steps in proptest::collection::vec((0..150u64, 1..60u32), 1..60),
    ) {
        let period = Nanos::new((per_token * amount).max(Quota::MIN_PERIOD.get()));
        prop_assume!(period.get() == per_token * amount && period <= Quota::MAX_PERIOD);
        let burst_size = std::num::NonZeroU32::new(burst).unwrap();
        let clock = governor::clock::FakeRelativeClock::default();
        let theirs = governor::RateLimiter::direct_with_clock(
            governor::Quota::with_period(Duration::from_nanos(per_token))
                .unwrap()
                .allow_burst(burst_size),
            clock.clone(),
        );
        let quota =
            Quota::new(Algorithm::TokenBucket, amount, period, Some(burst.into())).unwrap();
        let mut ours = State::fresh(&quota);
        let mut now = Timestamp::from_nanos(1_790_000_000_000_000_000);
        for (sixtieths, cost) in steps {
            let step = Nanos::new(per_token * sixtieths / 60);
            now = now.after(step);
            clock.advance(step.into());
            let size = std::num::NonZeroU32::new(cost).unwrap();
            let verdict = ours.take(&quota, Cost::new(cost.into()), now).verdict;
            let expected = match theirs.check_n(size) {
                Ok(Ok(())) => Verdict::NOW,
                Ok(Err(until)) => Verdict::Refused {
                    retry_after: until.wait_time_from(clock.now()).into(),
                },
                Err(_) => Verdict::Impossible,
            };
            prop_assert_eq!(verdict, expected);
        }
    }

    #[test]
    fn another_price_keeps_the_time_to_drain_exactly(
        old in quota(Algorithm::TokenBucket),
        new in quota(Algorithm::TokenBucket),
        cost in any::<u64>(),
    ) {
        prop_assume!(!old.is_ban() && !new.is_ban());
        let now = Timestamp::from_nanos(1 << 60);
        let mut state = State::fresh(&old);
        state.charge(&old, Cost::new(cost), now);
        let State::Bucket(before) = state else { unreachable!() };
        state.reprice(&old, &new, now);
        let State::Bucket(after) = state else { unreachable!() };
        let exact = ceil(BigInt::from(before.debt()) * big(new.amount()), old.amount());
        prop_assert_eq!(BigInt::from(after.debt()), exact.min(BigInt::from(u128::MAX)));
    }
}

#[test]
fn a_log_whose_sum_is_at_its_end_remembers_no_more_hits() {
    let millisecond = Nanos::from_millis(1);
    let quota = Quota::new(Algorithm::SlidingLog, 700, millisecond, None).unwrap();
    let steps = [
        Step::Charge(Size::Exactly(u64::MAX)),
        Step::Back(171),
        Step::Wait(200),
        Step::Charge(Size::Exactly(1)),
        Step::Wait(123),
        Step::Back(184),
        Step::Take(Size::Exactly(0)),
    ];
    play(quota, 1_790_000_000_000_000_000, &steps).unwrap();
}
