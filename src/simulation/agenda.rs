//! What will happen, in the order of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::units::Timestamp;

/// Things by the moment at which they happen; at the same moment, in the order in which
/// they were entered.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    /// Each with its place among the things, which are too large to be moved about.
    order: BinaryHeap<Reverse<(Timestamp, u64, usize)>>,
    things: Vec<Option<T>>,
    /// Places that nothing is in.
    free: Vec<usize>,
    /// Things that were entered in their order.
    steady: VecDeque<(Timestamp, u64, T)>,
    entered: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Agenda<T> {
        Agenda {
            order: BinaryHeap::new(),
            things: Vec::new(),
            free: Vec::new(),
            steady: VecDeque::new(),
            entered: 0,
        }
    }
}

impl<T> Agenda<T> {
    pub(super) fn enter(&mut self, at: Timestamp, what: T) {
        let number = self.entered;
        self.entered += 1;
        let place = self.free.pop().unwrap_or(self.things.len());
        match self.things.get_mut(place) {
            Some(free) => *free = Some(what),
            None => self.things.push(Some(what)),
        }
        self.order.push(Reverse((at, number, place)));
    }

    /// The same, cheaper, for things of which each happens no sooner than the one that
    /// was entered so before it: timeouts.
    pub(super) fn enter_last(&mut self, at: Timestamp, what: T) {
        if self.steady.back().is_some_and(|(last, ..)| *last > at) {
            return self.enter(at, what);
        }
        self.steady.push_back((at, self.entered, what));
        self.entered += 1;
    }

    /// The next thing that happens by `until`, and when.
    pub(super) fn next_until(&mut self, until: Timestamp) -> Option<(Timestamp, T)> {
        let one = self
            .order
            .peek()
            .map(|Reverse((at, number, _))| (*at, *number));
        let other = self.steady.front().map(|(at, number, _)| (*at, *number));
        let next = one
            .into_iter()
            .chain(other)
            .min()
            .filter(|(at, _)| *at <= until);
        let (at, _) = next?;
        if next == other {
            return self.steady.pop_front().map(|(_, _, what)| (at, what));
        }
        let Reverse((_, _, place)) = self.order.pop()?;
        self.free.push(place);
        self.things.get_mut(place)?.take().map(|what| (at, what))
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
