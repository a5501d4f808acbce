use std::sync::Arc;

use super::*;
use crate::units::{Algorithm, Consistency, EncodedIdentity, KeySecret, Pace, Partition};

mod booking;
mod crossing;
mod leases;
mod settled;
mod share;

const START: Timestamp = Timestamp::from_nanos(1_000_000_000_000_000);

fn limit(algorithm: Algorithm, amount: u64, period: Nanos) -> Arc<Limit> {
    limit_of(Quota::new(algorithm, amount, period, None).unwrap())
}

fn limit_of(quota: Quota) -> Arc<Limit> {
    let id = LimitId::new("rule", "default", &quota);
    let mut limit = Limit::new(id, "rule", "default/1m", quota, &KeySecret::public());
    limit.series = crate::units::Series(1);
    Arc::new(limit)
}

fn key(limit: &Limit, identity: u64) -> Key {
    limit
        .hasher
        .key(&EncodedIdentity::of("key", Some(&identity.to_be_bytes())))
}

fn take(
    counters: &Counters,
    limit: &Arc<Limit>,
    identity: u64,
    cost: u64,
    now: Timestamp,
) -> Taken {
    counters.take(
        limit,
        &limit.quota,
        key(limit, identity),
        Cost::new(cost),
        now,
    )
}

fn admitted(taken: Taken) -> bool {
    matches!(taken.outcome.verdict, Verdict::Admitted { .. })
}

const MINUTE: Nanos = Nanos::from_secs(60);

#[test]
fn every_algorithm_admits_exactly_its_amount_under_concurrency() {
    for algorithm in Algorithm::ALL {
        let counters = Counters::new(1_000, Fleet::alone());
        let limit = limit(algorithm, 50, Nanos::from_secs(3_600));
        let hits = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..63 {
                        if admitted(take(&counters, &limit, 1, 1, START)) {
                            hits.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(hits.into_inner(), 50, "{}", algorithm.name());
    }
}

#[test]
fn a_peek_or_a_refusal_leaves_no_cell_behind() {
    let counters = Counters::new(10, Fleet::alone());
    let limit = limit(Algorithm::FixedWindow, 5, MINUTE);
    assert_eq!(take(&counters, &limit, 1, 0, START).outcome.remaining, 5);
    assert_eq!(
        take(&counters, &limit, 1, 6, START).outcome.verdict,
        Verdict::Impossible
    );
    assert_eq!(counters.cells(), 0);
}

#[test]
fn a_full_table_answers_newcomers_from_one_generous_shared_cell() {
    let counters = Counters::new(3, Fleet::alone());
    let limit = limit(Algorithm::FixedWindow, 2, MINUTE);
    for identity in 0..3 {
        assert!(admitted(take(&counters, &limit, identity, 1, START)));
    }
    let newcomers = (100..200).filter(|id| admitted(take(&counters, &limit, *id, 1, START)));
    assert_eq!(
        newcomers.count(),
        20,
        "ten times the limit for all newcomers together"
    );
    assert_eq!(counters.cells(), 4, "the shared one is a cell too");
    assert_eq!(counters.totals().overflowed, 100);
    // Those who were there before keep their own count.
    assert_eq!(take(&counters, &limit, 0, 1, START).outcome.remaining, 0);
    assert!(!admitted(take(&counters, &limit, 0, 1, START)));
}

#[test]
fn a_full_table_serves_quotas_that_change_from_call_to_call() {
    let counters = Counters::new(1, Fleet::alone());
    let limits = [5, 7].map(|amount| limit(Algorithm::TokenBucket, amount, MINUTE));
    take(&counters, &limits[0], 0, 1, START);
    for turn in 0..10 {
        assert!(
            admitted(take(&counters, &limits[turn % 2], 1, 1, START)),
            "turn {turn}"
        );
    }
}

#[test]
fn a_table_that_was_full_has_room_again_when_all_is_forgotten() {
    let counters = Counters::new(2, Fleet::alone());
    let limit = limit(Algorithm::FixedWindow, 2, MINUTE);
    for identity in 0..50 {
        take(&counters, &limit, identity, 1, START);
    }
    let later = START.after(Nanos::from_secs(180));
    let sweep = (0..counters.sweeps_per_round()).map(|turn| counters.sweep(turn, later));
    assert_eq!(sweep.sum::<usize>(), 3);
    assert_eq!(counters.cells(), 0);
    assert_eq!(take(&counters, &limit, 7, 1, later).outcome.remaining, 1);
}

#[test]
fn what_is_pending_keeps_its_time_when_the_quota_of_the_call_changes() {
    let counters = Counters::new(10, Fleet::with_store());
    let quota = |burst, count, secs| {
        Quota::new(
            Algorithm::TokenBucket,
            count,
            Nanos::from_secs(secs),
            Some(burst),
        )
        .unwrap()
    };
    let per_call = |quota| {
        let id = LimitId::of_space("throttle");
        Arc::new(Limit::new(id, "", "throttle", quota, &KeySecret::public()))
    };
    take(&counters, &per_call(quota(1, 1, 60)), 1, 1, START);
    let quick = per_call(quota(65_000, 1_000, 1));
    take(&counters, &quick, 1, 1, START);
    let key = key(&quick, 1);
    let slot = counters.route(key, START).slots[0];
    let delta = counters.freeze(key, slot, START, &mut Vec::new()).unwrap();
    assert_eq!(
        delta.cost, 60_001_000_000,
        "60 s of the first and 1 ms of the second"
    );
}

#[test]
fn the_sweep_forgets_only_cells_that_equal_a_cell_never_seen() {
    let counters = Counters::new(1_000, Fleet::alone());
    let windows = limit(Algorithm::SlidingWindow, 5, MINUTE);
    let buckets = limit(Algorithm::TokenBucket, 5, MINUTE);
    for identity in 0..100 {
        take(&counters, &windows, identity, 1, START);
        take(&counters, &buckets, identity, 1, START);
    }
    let sweep = |now| {
        (0..counters.sweeps_per_round())
            .map(|t| counters.sweep(t, now))
            .sum::<usize>()
    };
    assert_eq!(sweep(START), 0);
    // One token of five is back after 12 s; a sliding window still weighs its past.
    assert_eq!(sweep(START.after(Nanos::from_secs(12))), 100);
    assert_eq!(counters.cells(), 100);
    assert_eq!(sweep(START.after(Nanos::from_secs(180))), 100);
    assert_eq!((counters.cells(), counters.totals().evicted), (0, 200));
}

#[test]
fn a_clock_that_jumped_ahead_leaves_no_cell_that_is_never_forgotten() {
    let counters = Counters::new(10, Fleet::alone());
    let limit = limit(Algorithm::TokenBucket, 5, MINUTE);
    take(
        &counters,
        &limit,
        1,
        5,
        START.after(Nanos::from_secs(86_400 * 400)),
    );
    let sweep = |now| {
        (0..counters.sweeps_per_round())
            .map(|t| counters.sweep(t, now))
            .sum::<usize>()
    };
    sweep(START);
    assert_eq!(sweep(START.after(Nanos::from_secs(61))), 1);
}

#[test]
fn a_cell_enters_the_dirty_queue_once_until_it_is_frozen() {
    let counters = Counters::new(10, Fleet::with_store());
    let limit = limit(Algorithm::FixedWindow, 1_000, MINUTE);
    for _ in 0..5 {
        take(&counters, &limit, 1, 5, START);
    }
    assert_eq!(counters.dirty(), 1, "20 of 1,000 nobody would have missed");
    let key = counters.next_dirty().unwrap();
    assert_eq!(
        counters.patience(key, START),
        Some(Pace::default().max_interval),
    );
    let slots = counters.route(key, START).slots;
    assert_eq!(slots.len(), 1);
    let mut rest = Vec::new();
    let delta = counters.freeze(key, slots[0], START, &mut rest).unwrap();
    assert_eq!((delta.cost, delta.upto, rest.len()), (25, 25, 0));
    let answer = Answer {
        total: 125,
        upto: 25,
        at: START,
        told: None,
    };
    counters.absorb(key, slots[0], answer, START);
    let taken = take(&counters, &limit, 1, 25, START);
    assert_eq!(taken.outcome.remaining, 850);
    assert_eq!(taken.stale, Some(Nanos::ZERO));
    assert_eq!(counters.next_dirty(), Some(key));
    assert_eq!(
        counters.patience(key, START),
        Some(Pace::default().max_interval)
    );
}

#[test]
fn a_cell_that_becomes_more_pressing_asks_to_be_sent_sooner() {
    let counters = Counters::new(10, Fleet::with_store());
    counters.fleet().set_nodes(4);
    let limit = limit(Algorithm::FixedWindow, 1_000, MINUTE);
    let pace = Pace::default();
    let told = |cost, patience| {
        take(&counters, &limit, 1, cost, START);
        let key = counters.next_dirty();
        assert_eq!(counters.next_dirty(), None);
        assert_eq!(key.and_then(|key| counters.patience(key, START)), patience);
        assert!(admitted(take(&counters, &limit, 1, 0, START)));
        assert_eq!(counters.next_dirty(), None, "told once");
    };
    // Not more than a fiftieth of the limit over four nodes: nobody misses it.
    told(5, None);
    told(1, Some(pace.max_interval));
    // An eighth of the limit over four nodes, of which the store has never told.
    told(25, Some(pace.min_interval));
}

#[test]
fn what_nobody_is_in_a_hurry_to_send_is_sent_by_the_sweep_where_windows_are_long() {
    for (period, sent) in [(MINUTE, 1), (Nanos::from_secs(10), 0)] {
        let counters = Counters::new(10, Fleet::with_store());
        let limit = limit(Algorithm::FixedWindow, 1_000, period);
        take(&counters, &limit, 1, 1, START);
        assert_eq!(counters.dirty(), 0);
        for turn in 0..counters.sweeps_per_round() {
            assert_eq!(counters.sweep(turn, START), 0);
        }
        assert_eq!(counters.dirty(), sent, "{period}");
    }
}

#[test]
fn costs_wait_no_longer_than_their_window() {
    let counters = Counters::new(10, Fleet::with_store());
    let limit = limit(Algorithm::FixedWindow, 1_000, MINUTE);
    let end = START.window(MINUTE).end(MINUTE);
    let now = end.before(Nanos::from_millis(2));
    take(&counters, &limit, 1, 25, now);
    let key = counters.next_dirty().unwrap();
    assert_eq!(counters.patience(key, now), Some(Nanos::from_millis(2)));
}

#[test]
fn what_is_given_back_leaves_nothing_to_send_where_nothing_is_shared() {
    let counters = Counters::new(10, Fleet::alone());
    let limit = limit(Algorithm::FixedWindow, 5, MINUTE);
    take(&counters, &limit, 1, 2, START);
    counters.give_back(key(&limit, 1), Cost::new(2), START, START);
    assert_eq!((counters.dirty(), counters.queued().len()), (0, 0));
    let sweep = (0..counters.sweeps_per_round()).map(|turn| counters.sweep(turn, START));
    assert_eq!(sweep.sum::<usize>(), 1);
}

#[test]
fn a_cell_that_is_held_back_asks_again_when_it_becomes_urgent() {
    let counters = Counters::new(10, Fleet::with_store());
    let limit = limit(Algorithm::FixedWindow, 1_000, MINUTE);
    take(&counters, &limit, 1, 25, START);
    let pace = Pace::default();
    let key = counters.next_dirty().unwrap();
    assert_eq!(counters.patience(key, START), Some(pace.max_interval));
    take(&counters, &limit, 1, 5, START);
    assert_eq!(counters.next_dirty(), None);
    take(&counters, &limit, 1, 200, START);
    assert_eq!(counters.next_dirty(), Some(key));
    assert_eq!(counters.patience(key, START), Some(pace.min_interval));
}

#[test]
fn a_total_of_the_fleet_refuses_here_what_others_have_used() {
    for algorithm in Algorithm::ALL {
        let counters = Counters::new(10, Fleet::with_store());
        let limit = limit(algorithm, 100, MINUTE);
        take(&counters, &limit, 1, 20, START);
        let key = counters.next_dirty().unwrap();
        // The parts of a log that this node has not written to are read before.
        let slots = counters.route(key, START).slots;
        let slot = *slots.iter().max_by_key(|slot| slot.window).unwrap();
        let delta = counters.freeze(key, slot, START, &mut Vec::new()).unwrap();
        // 80 used by others: a count, or the time that 100 of 100 a minute take to drain.
        let total = if algorithm.is_bucket() {
            MINUTE.get()
        } else {
            100
        };
        counters.absorb(
            key,
            slot,
            Answer {
                total,
                upto: delta.upto,
                at: START,
                told: None,
            },
            START,
        );
        let taken = take(&counters, &limit, 1, 1, START);
        assert!(!admitted(taken), "{}: {taken:?}", algorithm.name());
    }
}

#[test]
fn an_older_answer_takes_nothing_back_far_from_the_limit() {
    let counters = Counters::new(10, Fleet::with_store());
    let limit = limit(Algorithm::FixedWindow, 100, MINUTE);
    take(&counters, &limit, 1, 7, START);
    let key = counters.next_dirty().unwrap();
    let slot = counters.route(key, START).slots[0];
    counters.freeze(key, slot, START, &mut Vec::new());
    counters.absorb(
        key,
        slot,
        Answer {
            total: 20,
            upto: 7,
            at: START,
            told: None,
        },
        START,
    );
    counters.absorb(
        key,
        slot,
        Answer {
            total: 13,
            upto: 7,
            at: START,
            told: None,
        },
        START,
    );
    assert_eq!(take(&counters, &limit, 1, 0, START).outcome.remaining, 80);
}

#[test]
fn a_lost_hash_makes_this_nodes_own_counts_pending_again() {
    let counters = Counters::new(1_000, Fleet::with_store());
    let limit = limit(Algorithm::SlidingWindow, 1_000, MINUTE);
    let partitions = Partitions::default();
    for identity in 0..200 {
        take(&counters, &limit, identity, 1 + identity % 3, START);
    }
    while let Some(key) = counters.next_dirty() {
        for slot in counters.route(key, START).slots {
            counters.freeze(key, slot, START, &mut Vec::new());
        }
    }
    let slot = Slot {
        space: Space::of(&limit.quota),
        window: START.window(MINUTE),
    };
    let mut again = 0;
    for number in 0..256 {
        let id = HashId {
            partition: Partition::new(number),
            slot,
        };
        for key in counters.rewind(id, partitions, START) {
            assert_eq!(key.partition(partitions), Partition::new(number));
            again += counters
                .freeze(key, slot, START, &mut Vec::new())
                .unwrap()
                .cost;
        }
    }
    assert_eq!(
        again,
        (0..200).map(|identity| 1 + identity % 3).sum::<i64>()
    );
}

#[test]
fn a_lost_bucket_hash_gets_back_no_more_than_has_not_drained() {
    let counters = Counters::new(10, Fleet::with_store());
    let limit = limit(Algorithm::TokenBucket, 60, MINUTE);
    take(&counters, &limit, 1, 30, START);
    let key = counters.next_dirty().unwrap();
    let slot = counters.route(key, START).slots[0];
    assert_eq!(
        counters
            .freeze(key, slot, START, &mut Vec::new())
            .unwrap()
            .cost,
        i64::try_from(Nanos::from_secs(30).get()).unwrap()
    );
    let later = START.after(Nanos::from_secs(10));
    let slot = counters_slot(&limit, later);
    let id = HashId {
        partition: key.partition(Partitions::default()),
        slot,
    };
    assert_eq!(counters.rewind(id, Partitions::default(), later), vec![key]);
    let again = counters.freeze(key, slot, START, &mut Vec::new()).unwrap();
    assert_eq!(
        again.cost,
        i64::try_from(Nanos::from_secs(20).get()).unwrap()
    );
}

fn counters_slot(limit: &Limit, now: Timestamp) -> Slot {
    let space = Space::of(&limit.quota);
    Slot {
        space,
        window: space.window(now),
    }
}

#[test]
fn a_window_that_turned_sends_its_last_costs_to_its_own_slot() {
    let counters = Counters::new(10, Fleet::with_store());
    let limit = limit(Algorithm::FixedWindow, 100, MINUTE);
    take(&counters, &limit, 1, 7, START);
    let key = counters.next_dirty().unwrap();
    let later = START.after(MINUTE);
    take(&counters, &limit, 1, 2, later);
    let slots = counters.route(key, later).slots;
    let mut rest = Vec::new();
    let costs: Vec<_> = slots
        .iter()
        .map(|slot| {
            (
                slot.window,
                counters.freeze(key, *slot, later, &mut rest).unwrap().cost,
            )
        })
        .collect();
    let (now, before) = (later.window(MINUTE), START.window(MINUTE));
    assert_eq!(costs, vec![(now, 2), (before, 7)]);
    assert_eq!(
        rest,
        vec![key],
        "after the first of the two, the other was left"
    );
}

#[test]
fn a_local_limit_is_never_sent() {
    let counters = Counters::new(10, Fleet::with_store());
    let mut local = Limit::clone(&limit(Algorithm::FixedWindow, 100, MINUTE));
    local.consistency = Consistency::Local;
    let local = Arc::new(local);
    assert_eq!(take(&counters, &local, 1, 1, START).stale, None);
    assert_eq!(counters.dirty(), 0);
}

#[test]
fn dirty_cells_beyond_the_queue_are_found_by_looking_at_all() {
    let counters = Counters::new(100_000, Fleet::with_store());
    let limit = limit(Algorithm::FixedWindow, 10, MINUTE);
    for identity in 0..70_000 {
        take(&counters, &limit, identity, 1, START);
    }
    assert_eq!(counters.dirty(), DIRTY_CAPACITY);
    assert!(counters.take_missed());
    assert!(!counters.take_missed());
    assert_eq!(counters.queued().len(), 70_000);
}

#[test]
fn a_new_amount_keeps_what_was_used_and_a_new_window_does_not() {
    let counters = Counters::new(10, Fleet::alone());
    let hundred = limit(Algorithm::FixedWindow, 100, Nanos::from_secs(3_600));
    take(&counters, &hundred, 1, 60, START);
    let ten = limit(Algorithm::FixedWindow, 10, Nanos::from_secs(3_600));
    assert_eq!(hundred.id, ten.id);
    assert_eq!(take(&counters, &ten, 1, 0, START).outcome.remaining, 0);
    assert_eq!(take(&counters, &hundred, 1, 0, START).outcome.remaining, 40);
}

#[test]
fn what_a_log_gives_back_is_taken_from_the_part_that_counted_it() {
    let counters = Counters::new(10, Fleet::with_store());
    let limit = limit(Algorithm::SlidingLog, 100, MINUTE);
    // Another thread was here with a later time, in the next part of the window.
    let part = Space::of(&limit.quota).windows();
    let part = part.length(part.at(START));
    take(&counters, &limit, 1, 3, START.after(part));
    let taken = take(&counters, &limit, 1, 5, START);
    counters.give_back(key(&limit, 1), Cost::new(5), taken.at, START);
    let key = key(&limit, 1);
    let costs = counters
        .route(key, START.after(part))
        .slots
        .into_iter()
        .map(|slot| {
            counters
                .freeze(key, slot, START, &mut Vec::new())
                .unwrap()
                .cost
        });
    let costs: Vec<i64> = costs.filter(|cost| *cost != 0).collect();
    assert_eq!(costs, [3], "the other parts are only read");
}

#[test]
fn the_sweep_forgets_the_cells_of_limits_that_are_in_force_no_more() {
    let counters = Counters::new(1_000, Fleet::alone());
    let kept = limit(Algorithm::FixedWindow, 9, Nanos::from_secs(3_600));
    let left = limit(Algorithm::TokenBucket, 9, Nanos::from_secs(3_600));
    let mut per_call = Limit::clone(&left);
    per_call.series = crate::units::Series::PER_CALL;
    let per_call = Arc::new(per_call);
    take(&counters, &kept, 1, 4, START);
    take(&counters, &left, 2, 4, START);
    take(&counters, &per_call, 3, 4, START);
    let sweep = || {
        for turn in 0..counters.sweeps_per_round() {
            counters.sweep(turn, START);
        }
    };
    sweep();
    assert_eq!(counters.cells(), 3);
    counters.keep_only([&kept.id]);
    sweep();
    assert_eq!(counters.cells(), 2);
    assert_eq!(take(&counters, &kept, 1, 0, START).outcome.remaining, 5);
    assert_eq!(take(&counters, &per_call, 3, 0, START).outcome.remaining, 5);
    assert_eq!(take(&counters, &left, 2, 0, START).outcome.remaining, 9);
}

#[test]
fn a_cell_of_a_limit_no_more_in_force_is_sent_before_it_is_forgotten() {
    let counters = Counters::new(1_000, Fleet::with_store());
    let left = limit(Algorithm::FixedWindow, 1_000_000, Nanos::from_secs(3_600));
    take(&counters, &left, 1, 1, START);
    while counters.next_dirty().is_some() {}
    counters.keep_only([]);
    let turns = counters.sweeps_per_round();
    assert_eq!(
        (0..turns)
            .map(|turn| counters.sweep(turn, START))
            .sum::<usize>(),
        0
    );
    assert_eq!(counters.cells(), 1);
    assert_eq!(counters.queued(), [key(&left, 1)]);
}
