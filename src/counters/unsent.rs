//! What the store has not been told of.

use super::{Counters, keys};

/// What was admitted here and not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsent {
    /// In so many cells.
    pub cells: u64,
    /// The cost, in units.
    pub cost: u64,
}

impl Counters {
    /// What the store has not been told of; what is under way to it is not in it.
    pub fn unsent(&self) -> Unsent {
        let mut unsent = Unsent::default();
        for key in self.banks.iter().flat_map(keys) {
            let cost = self.touch(key, |cell| cell.pending()).unwrap_or(0);
            unsent.cells += u64::from(cost > 0);
            unsent.cost = unsent.cost.saturating_add(cost);
        }
        unsent
    }
}
