//! When to sync: how long an admitted cost may stay unsent.
//!
//! Pure functions of what a cell knows. A cell is looked at when its first unsent
//! cost is admitted, and again when it becomes urgent.

use crate::units::{Cost, Nanos, Pace};

/// A cell is urgent once its unsent cost reaches this part of what is left: the
/// fleet must hear of it before the rest is gone. With N nodes near the same
/// limit, each holds back at most 1/8 of what it believes is left.
const URGENT_PART: u64 = 8;

/// What a cell knows of itself when it is asked how soon it must be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// Whether the store has answered for the cell's present window.
    pub heard: bool,
    /// Admitted here and not yet sent.
    pub unsent: Cost,
    /// What the limit would still admit, as this node believes.
    pub remaining: u64,
}

impl Situation {
    /// Whether the cell should be sent as soon as a few others have gathered:
    /// when the store was never asked about it, or when its unsent cost is a large
    /// part of what is left.
    pub fn is_urgent(self) -> bool {
        !self.heard || self.unsent.get() >= (self.remaining / URGENT_PART).max(1)
    }

    /// How long the cell's first unsent cost may stay unsent.
    pub fn patience(self, pace: Pace) -> Nanos {
        if self.is_urgent() {
            pace.min_interval
        } else {
            pace.interval
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(heard: bool, unsent: u64, remaining: u64) -> Situation {
        Situation {
            heard,
            unsent: Cost::new(unsent),
            remaining,
        }
    }

    #[test]
    fn a_cell_never_heard_of_is_due_at_once() {
        let pace = Pace::default();
        assert_eq!(situation(false, 0, 1_000).patience(pace), pace.min_interval);
    }

    #[test]
    fn a_cell_far_from_its_limit_waits_the_interval() {
        let pace = Pace::default();
        assert_eq!(situation(true, 10, 1_000).patience(pace), pace.interval);
    }

    #[test]
    fn a_cell_near_its_limit_is_due_at_once() {
        assert!(situation(true, 10, 80).is_urgent());
        assert!(!situation(true, 9, 80).is_urgent());
        assert!(situation(true, 1, 0).is_urgent());
    }
}
