//! Costs that nobody is asked about.

use super::*;

/// A cell, and the exchange with a store that only adds up.
struct Node {
    counters: Counters,
    limit: Arc<Limit>,
    key: Key,
}

impl Node {
    fn of(limit: Arc<Limit>, fleet: Fleet) -> Node {
        let key = key(&limit, 1);
        Node {
            counters: Counters::new(10, fleet),
            limit,
            key,
        }
    }

    fn new(algorithm: Algorithm, amount: u64) -> Node {
        Node::of(limit(algorithm, amount, MINUTE), Fleet::with_store())
    }

    fn take(&self, cost: u64, now: Timestamp) -> Taken {
        take(&self.counters, &self.limit, 1, cost, now)
    }

    fn charge(&self, cost: u64, now: Timestamp) -> Booked {
        self.counters
            .charge(&self.limit, self.key, Cost::new(cost), now)
    }

    fn charge_late(&self, cost: u64, moment: Timestamp, now: Timestamp) -> Booked {
        let cost = Cost::new(cost);
        self.counters
            .charge_late(&self.limit, self.key, cost, moment, now)
    }

    fn refund_late(&self, cost: u64, moment: Timestamp, now: Timestamp) -> Booked {
        let cost = Cost::new(cost);
        self.counters
            .refund_late(&self.limit, self.key, cost, moment, now)
    }

    fn refund(&self, cost: u64, now: Timestamp) -> Booked {
        self.counters
            .refund(&self.limit, self.key, Cost::new(cost), now)
    }

    fn left(&self, now: Timestamp) -> u64 {
        self.take(0, now).outcome.remaining
    }

    /// Sends all that is pending, and answers what that came to by slot.
    fn sent(&self, now: Timestamp) -> Vec<(Slot, i64)> {
        let route = self.counters.route(self.key, now);
        let sent = route.slots.into_iter().map(|slot| {
            let rest = &mut Vec::new();
            let delta = self.counters.freeze(self.key, slot, now, rest).unwrap();
            (slot, delta.cost)
        });
        sent.filter(|(_, cost)| *cost != 0).collect()
    }

    fn sum(&self, now: Timestamp) -> i64 {
        self.sent(now).iter().map(|(_, cost)| cost).sum()
    }
}

#[test]
fn a_charge_past_the_limit_is_sent_like_any_cost_and_the_cell_wants_to_say_so_at_once() {
    for algorithm in Algorithm::ALL {
        let node = Node::new(algorithm, 1_000);
        let unit = if algorithm.is_bucket() { 60_000_000 } else { 1 };
        assert!(admitted(node.take(20, START)));
        assert_eq!(node.charge(1_480, START), Booked::Counted);
        assert_eq!(node.left(START), 0, "{algorithm:?}");
        let told = node.counters.next_dirty();
        assert_eq!(told, Some(node.key), "{algorithm:?}");
        let patience = node.counters.patience(node.key, START);
        assert_eq!(
            patience,
            Some(Pace::default().min_interval),
            "{algorithm:?}"
        );
        assert_eq!(node.sum(START), 1_500 * unit, "{algorithm:?}");
        assert_eq!(node.sum(START), 0);
    }
}

#[test]
fn no_charge_wraps_or_keeps_later_costs_from_the_store() {
    for algorithm in Algorithm::ALL {
        let node = Node::new(algorithm, 1_000);
        for _ in 0..3 {
            assert_eq!(node.charge(u64::MAX, START), Booked::Counted);
        }
        assert_eq!(node.left(START), 0, "{algorithm:?}");
        assert!(node.sum(START) > 0);
        // A bucket goes on for ever, and so must what it has told.
        let later = START.after(MINUTE.times(3));
        assert!(admitted(node.take(7, later)), "{algorithm:?}");
        let unit = if algorithm.is_bucket() { 60_000_000 } else { 1 };
        assert_eq!(node.sum(later), 7 * unit, "{algorithm:?}");
    }
}

#[test]
fn a_late_cost_goes_to_its_own_window_and_slot_or_nowhere() {
    for (algorithm, weighed) in [
        (Algorithm::FixedWindow, false),
        (Algorithm::SlidingWindow, true),
    ] {
        let node = Node::new(algorithm, 1_000);
        let taken = node.take(20, START);
        let slot = node.sent(START)[0].0;
        let next = slot.next().window.start(MINUTE);
        let booked = node.charge_late(300, taken.at, next);
        let wanted = if weighed {
            (Booked::Counted, vec![(slot, 300)], 680)
        } else {
            (Booked::Dropped, vec![], 1_000)
        };
        assert_eq!((booked, node.sent(next), node.left(next)), wanted);
        let after = next.after(MINUTE);
        assert_eq!(node.charge_late(300, taken.at, after), Booked::Dropped);
        assert_eq!(node.refund_late(5, taken.at, after), Booked::Dropped);
        assert_eq!((node.left(after), node.sum(after)), (1_000, 0));
    }
    let node = Node::new(Algorithm::SlidingLog, 1_000);
    let taken = node.take(20, START);
    let late = START.after(Nanos::from_secs(59));
    assert_eq!(node.charge_late(300, taken.at, late), Booked::Counted);
    assert_eq!(node.left(late), 680);
    let over = START.after(MINUTE);
    assert_eq!(node.left(over), 1_000, "it counts from its admission on");
    assert_eq!(node.charge_late(1, taken.at, over), Booked::Dropped);
}

#[test]
fn a_bucket_owes_a_late_cost_now_and_is_not_given_back_what_it_has_repaid() {
    let node = Node::new(Algorithm::TokenBucket, 60);
    let taken = node.take(20, START);
    let later = START.after(MINUTE.times(2));
    assert_eq!(node.refund_late(20, taken.at, later), Booked::Dropped);
    assert_eq!(node.charge_late(50, taken.at, later), Booked::Counted);
    assert_eq!(node.left(later), 10);
    let soon = later.after(Nanos::from_secs(1));
    assert_eq!(node.refund_late(30, later, soon), Booked::Counted);
    assert_eq!(node.left(soon), 41);
}

#[test]
fn a_part_that_is_given_back_is_taken_off_in_the_store_too() {
    for algorithm in Algorithm::ALL {
        let node = Node::new(algorithm, 1_000);
        let unit = if algorithm.is_bucket() { 60_000_000 } else { 1 };
        let taken = node.take(800, START);
        assert_eq!(node.sum(START), 800 * unit);
        assert_eq!(node.refund_late(500, taken.at, START), Booked::Counted);
        assert_eq!(node.left(START), 700, "{algorithm:?}");
        assert_eq!(node.sum(START), -500 * unit, "{algorithm:?}");
    }
}

#[test]
fn a_refund_of_what_another_node_admitted_is_told_and_never_goes_below_zero_here() {
    for algorithm in Algorithm::ALL {
        let node = Node::new(algorithm, 1_000);
        let unit = if algorithm.is_bucket() { 60_000_000 } else { 1 };
        node.take(300, START);
        node.sum(START);
        assert_eq!(node.refund(500, START), Booked::Counted);
        assert_eq!(node.left(START), 1_000, "{algorithm:?}");
        assert_eq!(node.sum(START), -500 * unit, "{algorithm:?}");
        node.take(300, START);
        assert_eq!(node.left(START), 700, "{algorithm:?}");
        assert_eq!(node.sum(START), 300 * unit, "{algorithm:?}");
    }
    let alone = Node::of(limit(Algorithm::FixedWindow, 10, MINUTE), Fleet::alone());
    assert_eq!(alone.refund(5, START), Booked::Dropped);
    assert_eq!(alone.counters.cells(), 0);
    alone.take(3, START);
    assert_eq!(alone.refund(5, START), Booked::Counted);
    assert_eq!(alone.left(START), 10);
}

#[test]
fn a_charge_is_spent_from_the_lease_first_and_told_once() {
    for consistency in [Consistency::Approximate, Consistency::Bounded] {
        let mut limit = Limit::clone(&limit(Algorithm::FixedWindow, 10_000, MINUTE));
        limit.consistency = consistency;
        let node = Node::of(Arc::new(limit), Fleet::with_store());
        let now = START.after(Nanos::from_secs(5));
        node.charge(9_000, now);
        let slot = Slot {
            space: Space::of(&node.limit.quota),
            window: now.window(MINUTE),
        };
        let rest = &mut Vec::new();
        let delta = node.counters.freeze(node.key, slot, now, rest).unwrap();
        assert_eq!(delta.cost, 9_000, "{consistency:?}");
        let told = Some(Told {
            demand: 0,
            grant: 500,
            wanted: true,
        });
        let answer = Answer {
            total: 9_500,
            upto: delta.upto,
            at: now,
            told,
        };
        node.counters.absorb(node.key, slot, answer, now);
        assert_eq!(node.charge(700, now), Booked::Counted);
        assert_eq!(node.left(now), 300, "{consistency:?}");
        // 500 of the 700 were lent, and are in the store's total already.
        let sent = node.counters.freeze(node.key, slot, now, rest).unwrap();
        assert_eq!(sent.cost, 200, "{consistency:?}");
    }
}

#[test]
fn newcomers_to_a_full_table_are_charged_in_their_shared_cell() {
    let counters = Counters::new(1, Fleet::alone());
    let limit = limit(Algorithm::FixedWindow, 2, MINUTE);
    take(&counters, &limit, 0, 1, START);
    let newcomer = key(&limit, 1);
    let charged = counters.charge(&limit, newcomer, Cost::new(15), START);
    assert_eq!(charged, Booked::Counted);
    let admits = || (100..200).filter(|id| admitted(take(&counters, &limit, *id, 1, START)));
    assert_eq!(admits().count(), 5, "of ten times the limit");
    let refunded = counters.refund_late(&limit, newcomer, Cost::new(3), START, START);
    assert_eq!((refunded, admits().count()), (Booked::Counted, 3));
    let refunded = counters.refund(&limit, newcomer, Cost::new(4), START);
    assert_eq!((refunded, admits().count()), (Booked::Counted, 4));

    let counters = Counters::new(1, Fleet::with_store());
    let mut bounded = Limit::clone(&limit);
    bounded.consistency = Consistency::Bounded;
    let bounded = Arc::new(bounded);
    take(&counters, &limit, 0, 1, START);
    let key = key(&bounded, 1);
    let charged = counters.charge(&bounded, key, Cost::ONE, START);
    assert_eq!(charged, Booked::ByStore);
    let charged = counters.charge_shared(&bounded, Cost::ONE, None, START);
    assert_eq!(charged, Booked::Counted);
}

#[test]
fn a_limit_that_a_reload_has_changed_keeps_its_quota_when_an_old_cost_comes() {
    let counters = Counters::new(10, Fleet::alone());
    let old = limit(Algorithm::FixedWindow, 100, MINUTE);
    let new = limit(Algorithm::FixedWindow, 50, MINUTE);
    let taken = take(&counters, &old, 1, 10, START);
    assert_eq!(take(&counters, &new, 1, 0, START).outcome.remaining, 40);
    counters.charge_late(&old, key(&old, 1), Cost::new(20), taken.at, START);
    let key = key(&old, 1);
    let peek = counters.probe(&new, &new.quota, key, Cost::ZERO, START);
    assert_eq!(peek.outcome.remaining, 20);
}
