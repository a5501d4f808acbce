//! When to sync: how long an admitted cost may stay unsent.
//!
//! Pure functions of what a cell knows. A cell is looked at when its first unsent
//! cost is admitted, and again whenever it has become more pressing.

use crate::units::{Cost, Nanos, Pace};

/// What a cell knows of itself when it is asked how soon it must be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// Whether the store has told of the cell's present window, and of late.
    pub heard: bool,
    /// Admitted here and not yet sent.
    pub unsent: Cost,
    /// What the limit would still admit, as this node believes.
    pub remaining: u64,
    /// What the limit admits in all.
    pub capacity: u64,
    /// How many nodes count with this one, itself included.
    pub nodes: u32,
}

/// How soon a cell must be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// It is far from its limit.
    Far,
    /// It matters.
    Near,
    /// The fleet must hear of it, or this node of the fleet, before more is admitted.
    Urgent,
}

impl Situation {
    /// How soon the cell must be sent.
    ///
    /// It is urgent if the store was never asked about it, or once its unsent cost
    /// is 1/(2N) of what is left: while all N nodes keep to that, no more than half
    /// of what is left is unknown to the others. It is far while 7/10 are left.
    pub fn pressure(self) -> Pressure {
        let double = u64::from(self.nodes.max(1)) * 2;
        if !self.heard || self.unsent.get().saturating_mul(double) >= self.remaining.max(1) {
            Pressure::Urgent
        } else if self.remaining / 7 >= self.capacity / 10 {
            Pressure::Far
        } else {
            Pressure::Near
        }
    }
}

impl Pressure {
    /// How long the cell's first unsent cost may stay unsent.
    pub const fn patience(self, pace: Pace) -> Nanos {
        match self {
            Pressure::Far => pace.max_interval,
            Pressure::Near => pace.interval,
            Pressure::Urgent => pace.min_interval,
        }
    }
}

/// How long ago the store may have told of a cell for its word to be trusted: a cell
/// that is sent at the slowest pace is always told of in time.
pub const fn trusted_for(pace: Pace) -> Nanos {
    pace.max_interval.times(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressure(unsent: u64, remaining: u64, nodes: u32) -> Pressure {
        let unsent = Cost::new(unsent);
        Situation {
            heard: true,
            unsent,
            remaining,
            capacity: 1_000,
            nodes,
        }
        .pressure()
    }

    #[test]
    fn a_cell_never_heard_of_is_due_at_once() {
        let unsent = Cost::ZERO;
        let cell = Situation {
            heard: false,
            unsent,
            remaining: 1_000,
            capacity: 1_000,
            nodes: 1,
        };
        assert_eq!(cell.pressure(), Pressure::Urgent);
        let pace = Pace::default();
        assert_eq!(cell.pressure().patience(pace), pace.min_interval);
    }

    #[test]
    fn a_cell_far_from_its_limit_may_wait_the_longest() {
        assert_eq!(pressure(10, 700, 4), Pressure::Far);
        assert_eq!(pressure(10, 699, 4), Pressure::Near);
        let pace = Pace::default();
        assert_eq!(Pressure::Far.patience(pace), pace.max_interval);
        assert_eq!(Pressure::Near.patience(pace), pace.interval);
    }

    #[test]
    fn all_nodes_together_hold_back_at_most_half_of_what_is_left() {
        assert_eq!(pressure(99, 800, 4), Pressure::Far);
        assert_eq!(pressure(100, 800, 4), Pressure::Urgent);
        assert_eq!(pressure(8, 800, 50), Pressure::Urgent);
        assert_eq!(pressure(7, 800, 50), Pressure::Far);
        assert_eq!(pressure(1, 0, 1), Pressure::Urgent);
    }

    #[test]
    fn nothing_overflows() {
        assert_eq!(pressure(u64::MAX, u64::MAX, u32::MAX), Pressure::Urgent);
    }
}
