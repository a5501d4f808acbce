//! How often the sliding window counter decides otherwise than an exact trailing count.

// Tests assert by panicking, and their helpers are not in test functions.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::VecDeque;

use tidegate::algorithms::{State, Verdict};
use tidegate::simulation::Dice;
use tidegate::units::{Algorithm, Cost, Nanos, Quota, Timestamp};

const REQUESTS: u64 = 10_000_000;
const CALLERS: usize = 100_000;
const PER_SECOND: f64 = 2_000.0;
/// No caller asks within a twentieth of this: one who asks just as much as the limit is, is
/// decided by chance either way.
const LIMIT: u64 = 10_500;
const WINDOW: Nanos = Nanos::from_secs(600);
const SEED: u64 = 1;

/// Callers by Zipf's law: the request number of each is its rank's part of all.
struct Callers(Vec<f64>);

impl Callers {
    #[allow(clippy::cast_precision_loss)]
    fn zipf() -> Callers {
        let mut sum = 0.0;
        let sums = (1..=CALLERS).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Callers(sums.collect())
    }

    fn draw(&self, dice: &mut Dice) -> usize {
        let all = self.0.last().copied().unwrap();
        let at = dice.fraction() * all;
        self.0.partition_point(|sum| *sum < at).min(CALLERS - 1)
    }
}

/// Both count every request, refused or not, so that both ask the same: did this caller
/// ask more than the limit in the trailing window? The windows that both know whole count.
#[test]
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn of_ten_million_requests_by_zipfs_law_at_most_one_in_ten_thousand_is_decided_otherwise() {
    let quota = Quota::new(Algorithm::SlidingWindow, LIMIT, WINDOW, None).unwrap();
    let callers = Callers::zipf();
    let mut dice = Dice::new(SEED);
    let mut counters = vec![State::fresh(&quota); CALLERS];
    let mut exact: Vec<VecDeque<u64>> = vec![VecDeque::new(); CALLERS];
    let (mut now, mut wrong, mut refused) = (WINDOW.get() as f64, 0_u64, 0_u64);
    for _ in 0..REQUESTS {
        now += dice.exponential() / PER_SECOND * 1e9;
        let (at, caller) = (Timestamp::from_nanos(now as u64), callers.draw(&mut dice));
        let trailing = &mut exact[caller];
        let gone = at.before(WINDOW).as_nanos();
        while trailing.front().is_some_and(|hit| *hit <= gone) {
            trailing.pop_front();
        }
        let admits = (trailing.len() as u64) < LIMIT;
        trailing.push_back(at.as_nanos());
        let counter = &mut counters[caller];
        let verdict = counter.take(&quota, Cost::ONE, at).verdict;
        let admitted = matches!(verdict, Verdict::Admitted { .. });
        if !admitted {
            counter.charge(&quota, Cost::ONE, at);
            refused += 1;
        }
        wrong += u64::from(admitted != admits);
    }
    println!(
        "seed {SEED}: {wrong} of {REQUESTS} decided otherwise, {refused} refused; Zipf's law over \
         {CALLERS} callers, {PER_SECOND}/s, limit {LIMIT} per {WINDOW}, refused requests counted"
    );
    assert!(refused > REQUESTS / 10, "the limit is reached often enough");
    assert!(wrong <= REQUESTS / 10_000, "seed {SEED}: {wrong}");
}
