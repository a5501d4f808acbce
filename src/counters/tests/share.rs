//! What a node admits while it hears nothing of the others.

use super::*;

const NODES: u32 = 4;

struct Node {
    counters: Counters,
    limit: Arc<Limit>,
}

impl Node {
    /// One of four, with a limit of so much a minute.
    fn new(algorithm: Algorithm, amount: u64) -> Node {
        let counters = Counters::new(10, Fleet::with_store());
        counters.fleet().set_nodes(NODES);
        Node {
            counters,
            limit: limit(algorithm, amount, MINUTE),
        }
    }

    /// How many of a thousand checks its share admits.
    fn share(&self, now: Timestamp) -> u64 {
        let share = self.limit.quota.share(NODES);
        let key = key(&self.limit, 1);
        let taken =
            (0..1_000).map(|_| self.counters.take(&self.limit, &share, key, Cost::ONE, now));
        taken.filter(|taken| admitted(*taken)).count() as u64
    }

    /// Has `cost` admitted by the whole limit and sent, and hears that the fleet has
    /// used `total`.
    fn exchange(&self, cost: u64, total: u64, now: Timestamp) {
        assert!(admitted(take(&self.counters, &self.limit, 1, cost, now)));
        let slot = counters_slot(&self.limit, now);
        let key = key(&self.limit, 1);
        let rest = &mut Vec::new();
        let delta = self.counters.freeze(key, slot, now, rest).unwrap();
        let answer = Answer {
            total,
            upto: delta.upto,
            at: now,
            told: None,
        };
        self.counters.absorb(key, slot, answer, now);
    }

    fn lose_the_store(&self) {
        self.counters.fleet().set_health(StoreHealth::Lost);
        self.counters.fleet().set_scattered(true);
    }
}

#[test]
fn a_share_is_of_what_was_left_when_the_store_last_told_and_not_of_the_limit() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow] {
        let node = Node::new(algorithm, 100);
        // The others have used more than a share, and less than the limit.
        node.exchange(10, 60, START);
        node.lose_the_store();
        assert_eq!(node.share(START), 10, "a quarter of 40");
    }
}

#[test]
fn nothing_of_a_limit_that_was_used_up_is_shared() {
    let node = Node::new(Algorithm::FixedWindow, 100);
    node.exchange(10, 100, START);
    node.lose_the_store();
    assert_eq!(node.share(START), 0);
    // Nobody has used anything of the next one.
    assert_eq!(node.share(START.after(MINUTE)), 25);
}

#[test]
fn a_share_is_rounded_up_and_told_as_what_remains() {
    let node = Node::new(Algorithm::FixedWindow, 9);
    node.lose_the_store();
    let share = node.limit.quota.share(NODES);
    let look = |cost| {
        let (key, cost) = (key(&node.limit, 1), Cost::new(cost));
        let taken = (node.counters).take(&node.limit, &share, key, cost, START);
        (admitted(taken), taken.outcome.remaining)
    };
    assert_eq!(look(1), (true, 2));
    assert_eq!(look(2), (true, 0));
    assert_eq!(look(1), (false, 0));
    assert_eq!(look(0), (false, 0));
}

#[test]
fn what_the_others_share_of_one_sliding_window_counts_in_the_next() {
    let node = Node::new(Algorithm::SlidingWindow, 100);
    node.lose_the_store();
    // A window begins 20 s after the start.
    let begin = START.after(Nanos::from_secs(20));
    assert_eq!(node.share(begin), 25);
    // A quarter of the limit comes back in a quarter of the time, to four nodes.
    assert_eq!(node.share(begin.after(MINUTE)), 0);
    let quarter = Nanos::from_secs(15);
    assert!((6..=7).contains(&node.share(begin.after(MINUTE).after(quarter))));
}

#[test]
fn a_node_that_came_back_first_takes_nothing_that_the_others_have_used() {
    let node = Node::new(Algorithm::FixedWindow, 100);
    node.lose_the_store();
    assert_eq!(node.share(START), 25);
    // The store is empty but for what this node tells it now.
    node.counters.fleet().set_health(StoreHealth::Up);
    let slot = counters_slot(&node.limit, START);
    let key = key(&node.limit, 1);
    let rest = &mut Vec::new();
    let delta = node.counters.freeze(key, slot, START, rest).unwrap();
    assert!(delta.ask.is_none_or(|ask| ask.want == 0), "{delta:?}");
    let answer = Answer {
        total: 25,
        upto: delta.upto,
        at: START,
        told: None,
    };
    node.counters.absorb(key, slot, answer, START);
    assert_eq!(node.share(START), 0);
    // The others are back: the limit is everybody's again.
    node.counters.fleet().set_scattered(false);
    assert!(admitted(take(&node.counters, &node.limit, 1, 1, START)));
}
