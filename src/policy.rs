//! When to sync, and what to admit in between.
//!
//! Pure functions of what a node knows of one cell. The mechanism: a cell far from its
//! limit is admitted freely and hardly ever sent. Near the limit a node admits from a
//! *lease*, cost that the store has granted it in advance by its part of the fleet's
//! demand; and where the lease is empty, only what cannot matter before the store has
//! spoken. A cell that reaches its limit is announced to all nodes at once, so what is
//! admitted too much grows with the round trip and the gathering time, and not with the
//! sync interval or the number of nodes.
//!
//! Demand is estimated in floating point. It decides how large a lease is asked for, and
//! whether a check that the view would admit is held back; never that a check is admitted
//! beyond the view.

pub mod assignment;
mod demand;
mod terms;

pub use demand::Demand;
pub use terms::{Standing, Supply, Terms, is_lent, share};

use crate::units::{Nanos, Pace};

/// How soon a cell must be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// It is so far from its limit, and so little of it unsent, that nobody misses it.
    Silent,
    /// It is far from its limit.
    Far,
    /// It matters.
    Near,
    /// The fleet must hear of it, or this node of the fleet, before more is admitted.
    Urgent,
}

impl Pressure {
    /// How long the cell's first unsent cost may stay unsent; `None` if for as long as
    /// the cell stays as it is. `period` is the limit's.
    pub fn patience(self, pace: Pace, period: Nanos) -> Option<Nanos> {
        let near = near_interval(pace, period);
        match self {
            Pressure::Silent => None,
            Pressure::Far => Some(
                pace.max_interval
                    .min(period.times(2).divided_by(5))
                    .max(near),
            ),
            Pressure::Near => Some(near),
            Pressure::Urgent => Some(pace.min_interval),
        }
    }
}

/// The longest that a cost of a cell that matters stays unsent: the sync interval, or a
/// tenth of the limit's period where that is shorter.
pub fn near_interval(pace: Pace, period: Nanos) -> Nanos {
    pace.interval
        .min(period.divided_by(10))
        .max(Nanos::from_millis(10))
        .max(pace.min_interval)
}

/// How long ago the store may have told of a cell for its word to be trusted: a cell
/// that is sent at the slowest pace is always told of in time.
pub const fn trusted_for(pace: Pace) -> Nanos {
    pace.max_interval.times(2)
}
