//! What becomes of what was lent.

use super::*;

/// A cell of a fleet, and the exchange with a store that answers as it is told to.
struct Node {
    counters: Counters,
    limit: Arc<Limit>,
    key: Key,
}

impl Node {
    fn new(algorithm: Algorithm, amount: u64, period: Nanos) -> Node {
        let counters = Counters::new(10, Fleet::with_store());
        let limit = limit(algorithm, amount, period);
        let key = key(&limit, 1);
        Node {
            counters,
            limit,
            key,
        }
    }

    fn take(&self, cost: u64, now: Timestamp) -> bool {
        admitted(take(&self.counters, &self.limit, 1, cost, now))
    }

    fn slot(&self, now: Timestamp) -> Slot {
        counters_slot(&self.limit, now)
    }

    fn freeze(&self, slot: Slot, now: Timestamp) -> Delta {
        let rest = &mut Vec::new();
        self.counters.freeze(self.key, slot, now, rest).unwrap()
    }

    /// The store answers to `delta` that so much was used, and that it lends so much.
    fn lend(
        &self,
        slot: Slot,
        delta: Delta,
        total: u64,
        grant: u64,
        now: Timestamp,
    ) -> Option<Nanos> {
        let answer = Answer {
            total,
            upto: delta.upto,
            at: now,
            told: Some(Told {
                demand: 0,
                grant,
                wanted: true,
            }),
        };
        self.counters.absorb(self.key, slot, answer, now)
    }
}

const LONG: Nanos = Nanos::from_secs(360_000);

/// How long a cost of one takes to drain from a bucket of 100 in that time.
const UNIT: u64 = Nanos::from_secs(3_600).get();

#[test]
fn an_idle_lease_goes_back_to_the_slot_it_is_of() {
    for algorithm in Algorithm::ALL {
        let node = Node::new(algorithm, 100, LONG);
        let unit = if algorithm.is_bucket() { UNIT } else { 1 };
        assert!(node.take(80, START));
        let slot = node.slot(START);
        let delta = node.freeze(slot, START);
        assert!(delta.ask.is_some(), "{}", algorithm.name());
        let wait = node.lend(slot, delta, 90 * unit, 10 * unit, START);
        assert!(node.take(3, START), "{}", algorithm.name());
        assert_eq!(node.freeze(slot, START).cost, 0, "{}", algorithm.name());
        let mut now = START;
        let mut wait = wait.unwrap();
        let back = loop {
            now = now.after(wait);
            let route = node.counters.route(node.key, now);
            let cost = node.freeze(node.slot(now), now).cost;
            match route.again {
                Some(again) => wait = again,
                None => break cost,
            }
            assert!(now < START.after(Nanos::from_secs(10)), "it keeps it");
        };
        let unit = i64::try_from(unit).unwrap();
        assert_eq!(back % unit, 0);
        assert!(
            (-7 * unit..0).contains(&back),
            "{}: {back}",
            algorithm.name()
        );
    }
}

#[test]
fn a_clock_that_was_set_back_a_little_forgets_no_lease() {
    let node = Node::new(Algorithm::FixedWindow, 100, LONG);
    assert!(node.take(50, START));
    let slot = node.slot(START);
    let wait = node.lend(slot, node.freeze(slot, START), 90, 40, START);
    // It is in use, and so not given back.
    for millis in (0..190).step_by(10) {
        assert!(node.take(1, START.after(Nanos::from_millis(millis))));
    }
    let early = START.after(wait.unwrap()).before(Nanos::from_millis(4));
    let again = node.counters.route(node.key, early).again;
    assert_eq!(again, wait);
}

#[test]
fn costs_are_sent_soon_after_a_clock_was_set_back_far() {
    for algorithm in Algorithm::ALL {
        let node = Node::new(algorithm, 100, LONG);
        assert!(node.take(80, START));
        let slot = node.slot(START);
        node.freeze(slot, START);
        node.lend(slot, node.freeze(slot, START), 80, 0, START);
        assert!(node.take(1, START));
        let back = START.before(Nanos::from_secs(86_400));
        let patience = node.counters.patience(node.key, back).unwrap();
        assert!(patience <= Nanos::from_secs(5), "{}", algorithm.name());
        let due = back.after(patience);
        let route = node.counters.route(node.key, due);
        assert!(!route.slots.is_empty(), "{}: {route:?}", algorithm.name());
    }
}

#[test]
fn a_refusal_of_the_store_does_not_outlast_a_clock_that_was_set_back_far() {
    let counters = Counters::new(10, Fleet::with_store());
    counters.fleet().set_health(StoreHealth::Up);
    let limit = bounded(1_000);
    assert_eq!(take(&counters, &limit, 1, 1, START).by, By::Store);
    let until = START.window(MINUTE).next().start(MINUTE);
    counters.refused(key(&limit, 1), Cost::ONE, until);
    assert_eq!(take(&counters, &limit, 1, 1, START).by, By::Cell);
    let back = START.before(Nanos::from_secs(86_400));
    take(&counters, &limit, 1, 1, back);
    let later = back.after(MINUTE);
    assert_eq!(take(&counters, &limit, 1, 1, later).by, By::Store);
}

#[test]
fn what_was_admitted_from_a_lease_is_counted_again_after_a_loss() {
    for algorithm in Algorithm::ALL {
        let node = Node::new(algorithm, 100, LONG);
        let unit = if algorithm.is_bucket() { UNIT } else { 1 };
        assert!(node.take(80, START));
        let slot = node.slot(START);
        node.lend(slot, node.freeze(slot, START), 90 * unit, 10 * unit, START);
        assert!(node.take(7, START));
        let partitions = Partitions::default();
        let partition = node.key.partition(partitions);
        let lost = node
            .counters
            .rewind(HashId { partition, slot }, partitions, START);
        assert_eq!(lost, [node.key], "{}", algorithm.name());
        // What is left of the lease is lent still.
        let again = u64::try_from(node.freeze(slot, START).cost).unwrap();
        assert_eq!(again, 90 * unit, "{}", algorithm.name());
    }
}

#[test]
fn a_lease_for_a_window_that_begins_calm_goes_back() {
    let second = Nanos::from_secs(1);
    let node = Node::new(Algorithm::FixedWindow, 100, second);
    assert!(node.take(1, START));
    let slot = node.slot(START);
    let announced = Announcement {
        key: node.key,
        slot,
        level: Level::Half,
        total: 50,
        demand: 1_000_000,
        at: START,
    };
    node.counters.announce(announced, START);
    let late = START.after(Nanos::from_millis(950));
    assert!(node.take(1, late));
    let slots = node.counters.route(node.key, late).slots;
    assert!(slots.contains(&slot.next()), "{slots:?}");
    let next = node.freeze(slot.next(), late);
    assert!(next.ask.is_some_and(|ask| ask.want > 0), "{next:?}");
    node.lend(slot.next(), next, 5, 5, late);
    // The others have given back what they had been lent.
    node.lend(slot, node.freeze(slot, late), 2, 0, late);
    let turned = START.after(second);
    assert!(node.take(1, turned));
    assert_eq!(node.freeze(slot.next(), turned).cost, 1 - 5);
}

#[test]
fn a_lease_that_comes_too_late_goes_back() {
    let node = Node::new(Algorithm::SlidingLog, 100, Nanos::from_secs(16));
    assert!(node.take(80, START));
    let slot = node.slot(START);
    let delta = node.freeze(slot, START);
    let late = START.after(Nanos::from_millis(1_001));
    assert_ne!(node.slot(late), slot);
    let wait = node.lend(slot, delta, 90, 10, late);
    let when = late.after(wait.unwrap());
    let slots = node.counters.route(node.key, when).slots;
    assert!(slots.contains(&slot), "{slots:?}");
    assert_eq!(node.freeze(slot, when).cost, -10);
}

#[test]
fn a_lease_goes_back_at_its_price_when_the_quota_of_the_call_changes() {
    let per_call = |amount| {
        let quota = Quota::new(Algorithm::TokenBucket, amount, LONG, None).unwrap();
        let id = LimitId::of_space("throttle");
        Arc::new(Limit::new(id, "", "throttle", quota, &KeySecret::public()))
    };
    let mut node = Node::new(Algorithm::TokenBucket, 100, LONG);
    node.limit = per_call(100);
    node.key = key(&node.limit, 1);
    assert!(node.take(80, START));
    let slot = node.slot(START);
    node.lend(slot, node.freeze(slot, START), 90 * UNIT, 10 * UNIT, START);
    node.limit = per_call(200);
    assert!(node.take(1, START));
    // One at half the price, less ten at the old.
    let unit = i64::try_from(UNIT).unwrap();
    assert_eq!(node.freeze(slot, START).cost, unit / 2 - 10 * unit);
}

#[test]
fn a_share_of_a_limit_brings_no_cell_near_it() {
    let node = Node::new(Algorithm::FixedWindow, 1_000, LONG);
    let share = node.limit.quota.share(4);
    node.counters.fleet().set_health(StoreHealth::Lost);
    node.counters.fleet().set_nodes(4);
    let cost = Cost::new(20);
    let taken = node
        .counters
        .take(&node.limit, &share, node.key, cost, START);
    assert_eq!(taken.outcome.remaining, 230);
    let delta = node.freeze(node.slot(START), START);
    assert_eq!((delta.cost, delta.room, delta.ask), (20, 1_000, None));
}

fn bounded(amount: u64) -> Arc<Limit> {
    let mut limit = Limit::clone(&limit(Algorithm::FixedWindow, amount, MINUTE));
    limit.consistency = Consistency::Bounded;
    Arc::new(limit)
}

#[test]
fn a_bounded_check_that_finds_the_table_full_is_put_to_the_store() {
    let counters = Counters::new(1, Fleet::with_store());
    let limit = bounded(1_000);
    take(&counters, &limit, 1, 1, START);
    let taken = take(&counters, &limit, 2, 1, START);
    assert_eq!(taken.by, By::Store);
    assert!(!admitted(taken), "a shared cell has no lease either");
}

#[test]
fn a_look_at_a_bounded_limit_without_a_lease_is_put_to_the_store() {
    let counters = Counters::new(10, Fleet::with_store());
    let limit = bounded(1_000);
    assert_eq!(
        take(&counters, &limit, 1, 0, START).by,
        By::Store,
        "no cell"
    );
    take(&counters, &limit, 1, 1, START);
    assert_eq!(take(&counters, &limit, 1, 0, START).by, By::Store, "a cell");
    let local = Counters::new(10, Fleet::alone());
    assert_eq!(take(&local, &limit, 1, 0, START).by, By::Cell);
}

#[test]
fn what_was_announced_of_a_cell_that_is_not_here_is_seen_by_looks_and_checks() {
    for level in [Level::Half, Level::Full] {
        let node = Node::new(Algorithm::FixedWindow, 1_000, LONG);
        let announced = Announcement {
            key: node.key,
            slot: node.slot(START),
            level,
            total: 950,
            demand: 0,
            at: START,
        };
        node.counters.announce(announced, START);
        let look = || take(&node.counters, &node.limit, 1, 0, START);
        assert_eq!(look().outcome.remaining, 50);
        assert_eq!(look().outcome.remaining, 50, "a look forgets nothing");
        assert_eq!(look().stale, Some(Nanos::ZERO));
        assert!(!node.take(51, START));
        let taken = take(&node.counters, &node.limit, 1, 50, START);
        assert_eq!(taken.outcome.remaining, 0);
    }
}

#[test]
fn a_bounded_cell_that_rests_keeps_its_lease_for_half_a_window_and_asks_no_more() {
    let counters = Counters::new(10, Fleet::with_store());
    counters.fleet().set_health(StoreHealth::Up);
    let limit = bounded(1_000);
    // Early in a window.
    let begin = START.window(MINUTE).next().start(MINUTE);
    let begin = begin.after(Nanos::from_secs(1));
    assert_eq!(take(&counters, &limit, 1, 1, begin).by, By::Store);
    let key = key(&limit, 1);
    let (mut asks, mut held, mut total) = (0, 0, 1);
    for turn in 0..200 {
        let now = begin.after(Nanos::from_millis(200).times(turn));
        for slot in counters.route(key, now).slots {
            let Some(delta) = counters.freeze(key, slot, now, &mut Vec::new()) else {
                continue;
            };
            let want = delta.ask.map_or(0, |ask| ask.want);
            asks += u64::from(want > 0);
            total = total + want - delta.cost.unsigned_abs();
            held = held + want - delta.cost.unsigned_abs();
            let told = delta.ask.map(|_| Told {
                demand: 0,
                grant: want,
                wanted: want > 0,
            });
            let answer = Answer {
                total,
                upto: delta.upto,
                at: now,
                told,
            };
            counters.absorb(key, slot, answer, now);
        }
        if turn == 140 {
            assert!(held > 0, "28 s after the only check");
        }
    }
    assert!(asks <= 3, "{asks} asks for one check");
    assert_eq!(held, 0, "40 s after the only check");
}

#[test]
fn what_is_refused_for_want_of_a_lease_is_told_what_is_left_of_the_lease() {
    let minute = Nanos::from_secs(60);
    let quota = Quota::new(Algorithm::LeakyBucket, 60, minute, Some(5)).unwrap();
    let limit = limit_of(quota);
    let node = Node {
        counters: Counters::new(10, Fleet::with_store()),
        key: key(&limit, 1),
        limit,
    };
    node.counters.fleet().set_nodes(3);
    let slot = node.slot(START);
    let mut left = 5;
    loop {
        let taken = take(&node.counters, &node.limit, 1, 1, START);
        let told = taken.outcome.remaining;
        if !admitted(taken) {
            // By its view, the limit is not used up.
            assert!(left > 0);
            assert_eq!(told, 0);
            break;
        }
        left = told;
        let delta = node.freeze(slot, START);
        let answer = Answer {
            total: (5 - left) * Nanos::from_secs(1).get(),
            upto: delta.upto,
            at: START,
            // The others ask for a thousand a second.
            told: Some(Told {
                demand: 1_000_000,
                grant: 0,
                wanted: true,
            }),
        };
        node.counters.absorb(node.key, slot, answer, START);
    }
}

#[test]
fn what_was_admitted_and_not_sent_is_told_in_units_of_every_algorithm() {
    for algorithm in Algorithm::ALL {
        let node = Node::new(algorithm, 100, LONG);
        assert_eq!(node.counters.unsent(), Unsent::default());
        assert!(node.take(80, START));
        let unsent = Unsent { cells: 1, cost: 80 };
        assert_eq!(node.counters.unsent(), unsent, "{}", algorithm.name());
        node.freeze(node.slot(START), START);
        assert_eq!(node.counters.unsent(), Unsent::default());
    }
}

#[test]
fn the_sweep_has_a_lease_sent_back_that_nobody_looks_at_any_more() {
    let node = Node::new(Algorithm::FixedWindow, 100, LONG);
    assert!(node.take(80, START));
    let slot = node.slot(START);
    // When to look again is not kept.
    node.lend(slot, node.freeze(slot, START), 90, 10, START);
    while node.counters.next_dirty().is_some() {}
    let later = START.after(Nanos::from_secs(10));
    for turn in 0..node.counters.sweeps_per_round() {
        node.counters.sweep(turn, later);
    }
    assert_eq!(node.counters.next_dirty(), Some(node.key));
    let patience = node.counters.patience(node.key, later);
    assert!(patience.is_some_and(|patience| patience <= Nanos::from_secs(1)));
    node.counters.route(node.key, later);
    assert_eq!(node.freeze(slot, later).cost, -10);
}
