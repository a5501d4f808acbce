//! What windows come to that were full.

use super::*;

struct Node {
    counters: Counters,
    limit: Arc<Limit>,
    key: Key,
}

/// The next window begins 20 s after the start.
const EDGE: Timestamp = START.after(Nanos::from_secs(20));
/// Long enough after it that all nodes have sent what they had.
const COMPLETE: Timestamp = EDGE.after(Nanos::from_secs(1));

impl Node {
    fn new(algorithm: Algorithm) -> Node {
        let limit = limit(algorithm, 100, MINUTE);
        Node {
            counters: Counters::new(10, Fleet::with_store()),
            key: key(&limit, 1),
            limit,
        }
    }

    fn take(&self, cost: u64, now: Timestamp) -> bool {
        admitted(take(&self.counters, &self.limit, 1, cost, now))
    }

    /// Sends what the cell has, and hears that so much was used in the present window and
    /// in the one before. Answers the windows that it heard of.
    fn exchange(&self, present: u64, before: u64, now: Timestamp) -> Vec<Slot> {
        let slots = self.counters.route(self.key, now).slots;
        for slot in &slots {
            let rest = &mut Vec::new();
            let delta = self.counters.freeze(self.key, *slot, now, rest).unwrap();
            let total = if slot.is_current(now) {
                present
            } else {
                before
            };
            let answer = Answer {
                total,
                upto: delta.upto,
                at: now,
                told: None,
            };
            self.counters.absorb(self.key, *slot, answer, now);
        }
        slots.to_vec()
    }

    fn settled(&self) -> Vec<(u64, u64)> {
        let next = || self.counters.next_settled();
        std::iter::from_fn(next)
            .map(|window| (window.total, window.over()))
            .collect()
    }
}

#[test]
fn a_full_windows_total_is_read_once_when_all_have_sent_theirs() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow] {
        let node = Node::new(algorithm);
        assert!(node.take(99, START));
        assert!(node.take(1, START));
        assert!(!node.take(1, START));
        node.exchange(100, 0, START);
        // Others were admitted at the same time, and say so later.
        node.take(1, EDGE);
        node.exchange(1, 100, EDGE);
        assert_eq!(node.settled(), [], "{}: too early", algorithm.name());
        // Costs wait a little while.
        node.take(1, COMPLETE.before(Nanos::from_millis(200)));
        let before = counters_slot(&node.limit, START);
        assert!(node.exchange(2, 103, COMPLETE).contains(&before));
        assert_eq!(node.settled(), [(103, 3)]);
        let later = COMPLETE.after(Nanos::from_secs(10));
        node.take(1, later.before(Nanos::from_millis(200)));
        let read = node.exchange(3, 103, later).contains(&before);
        assert!(algorithm == Algorithm::SlidingWindow || !read);
        assert_eq!(node.settled(), [], "once");
    }
}

#[test]
fn a_window_that_was_not_full_is_not_read() {
    let node = Node::new(Algorithm::FixedWindow);
    assert!(node.take(99, START));
    node.exchange(99, 0, START);
    node.take(1, COMPLETE);
    assert!(
        !node
            .exchange(1, 99, COMPLETE)
            .contains(&counters_slot(&node.limit, START))
    );
    assert_eq!(node.settled(), []);
}

#[test]
fn the_sweep_has_it_read_when_nobody_asks_any_more() {
    let node = Node::new(Algorithm::FixedWindow);
    assert!(node.take(100, START));
    node.exchange(100, 0, START);
    while node.counters.next_dirty().is_some() {}
    let sweep = |now| {
        for turn in 0..node.counters.sweeps_per_round() {
            node.counters.sweep(turn, now);
        }
    };
    sweep(EDGE);
    assert_eq!(node.counters.next_dirty(), None, "too early");
    sweep(COMPLETE);
    assert_eq!(node.counters.next_dirty(), Some(node.key));
    assert!(node.counters.patience(node.key, COMPLETE).is_some());
    node.exchange(0, 101, COMPLETE);
    assert_eq!(node.settled(), [(101, 1)]);
    // Now it equals a cell never seen.
    sweep(COMPLETE);
    assert_eq!(node.counters.cells(), 0);
}

#[test]
fn what_is_left_of_a_lease_is_taken_off_before_a_full_window_is_read() {
    let node = Node::new(Algorithm::FixedWindow);
    assert!(node.take(80, START));
    let slot = counters_slot(&node.limit, START);
    let rest = &mut Vec::new();
    let delta = node.counters.freeze(node.key, slot, START, rest).unwrap();
    let told = Some(Told {
        demand: 0,
        grant: 10,
        wanted: true,
    });
    let answer = Answer {
        total: 100,
        upto: delta.upto,
        at: START,
        told,
    };
    node.counters.absorb(node.key, slot, answer, START);
    assert!(node.take(9, START));
    // The others have used the rest, or so it is announced.
    let announced = Announcement {
        key: node.key,
        slot,
        level: Level::Full,
        total: 102,
        demand: 0,
        at: START,
    };
    node.counters.announce(announced, START);
    assert!(!node.take(2, START));
    assert!(node.take(1, EDGE));
    let delta = node.counters.freeze(node.key, slot, EDGE, rest).unwrap();
    assert_eq!(delta.cost, -1);
}
