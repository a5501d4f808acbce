//! When a core has anything to do again.

use super::{Core, Link, MAX_CALLS};
use crate::counters::Counters;
use crate::units::Timestamp;

impl Core {
    /// The first moment, on this machine's clock, at which a [`Core::tick`] would find
    /// anything to do, as things are now: for whoever has no need of the others.
    pub fn next_tick(&self, cells: &Counters) -> Timestamp {
        let can_send = self.link == Link::Open && self.calls.len() < MAX_CALLS;
        if cells.dirty() > 0 || (can_send && !self.ready.is_empty()) {
            return Timestamp::EPOCH;
        }
        let hello = (self.link != Link::Down).then_some(self.next_hello);
        let held = self.held.keys().next().copied();
        let parked = self.parked.keys().next().copied();
        let moments = [hello, held, parked].into_iter().flatten();
        moments.fold(self.next_housekeeping, Timestamp::min)
    }
}
