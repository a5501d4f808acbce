//! What will happen, in the order of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::units::Timestamp;

/// What will happen. Of things at the same moment, the one first entered is first.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    items: BinaryHeap<Reverse<Item<T>>>,
    /// Things that were entered in their order.
    steady: VecDeque<Item<T>>,
    entered: u64,
}

#[derive(Debug)]
struct Item<T> {
    at: Timestamp,
    number: u64,
    what: T,
}

impl<T> Default for Agenda<T> {
    fn default() -> Agenda<T> {
        Agenda {
            items: BinaryHeap::new(),
            steady: VecDeque::new(),
            entered: 0,
        }
    }
}

impl<T> Agenda<T> {
    pub(super) fn enter(&mut self, at: Timestamp, what: T) {
        let number = self.entered;
        self.entered += 1;
        self.items.push(Reverse(Item { at, number, what }));
    }

    /// The same, cheaper, for things of which each happens no sooner than the one that
    /// was entered so before it: timeouts.
    pub(super) fn enter_last(&mut self, at: Timestamp, what: T) {
        if self.steady.back().is_some_and(|last| last.at > at) {
            return self.enter(at, what);
        }
        let number = self.entered;
        self.entered += 1;
        self.steady.push_back(Item { at, number, what });
    }

    /// The next thing that happens by `until`, and when.
    pub(super) fn next_until(&mut self, until: Timestamp) -> Option<(Timestamp, T)> {
        let one = self.items.peek().map(|Reverse(item)| item);
        let other = self.steady.front();
        let steady = match (one, other) {
            (Some(one), Some(other)) => other < one,
            (None, Some(_)) => true,
            _ => false,
        };
        let due = if steady { other } else { one }?.at <= until;
        let item = match due {
            false => None,
            true if steady => self.steady.pop_front(),
            true => self.items.pop().map(|Reverse(item)| item),
        };
        item.map(|item| (item.at, item.what))
    }

    /// How many things have been entered since the start.
    pub(super) fn entered(&self) -> u64 {
        self.entered
    }
}

impl<T> PartialEq for Item<T> {
    fn eq(&self, other: &Item<T>) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Item<T> {}

impl<T> PartialOrd for Item<T> {
    fn partial_cmp(&self, other: &Item<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Item<T> {
    fn cmp(&self, other: &Item<T>) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_in_their_order_and_not_before_their_time() {
        let at = Timestamp::from_nanos;
        let mut agenda = Agenda::default();
        agenda.enter_last(at(4), 'c');
        for (when, what) in [(5, 'd'), (3, 'a'), (5, 'e'), (3, 'b')] {
            agenda.enter(at(when), what);
        }
        agenda.enter_last(at(5), 'f');
        agenda.enter_last(at(4), 'x');
        agenda.enter(at(5), 'g');
        assert_eq!(agenda.next_until(at(2)), None);
        let all: String = std::iter::from_fn(|| Some(agenda.next_until(at(9))?.1)).collect();
        assert_eq!(all, "abcxdefg");
    }
}
