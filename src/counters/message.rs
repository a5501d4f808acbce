//! What the sync carries between cells and the store.

use super::Slot;
use crate::units::{Consistency, Key, Timestamp};

/// What a node sends to the store for one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The cost admitted since the last delta: units for windows, nanoseconds of
    /// drain time for buckets. Negative where an admission was undone.
    pub cost: i64,
    /// All that the cell has admitted here, with this delta; below zero where more was
    /// refunded here.
    pub upto: i64,
    /// What the slot may hold in all, in the unit of `cost`, as this node sees it: the
    /// limit, less what other slots count against it.
    pub room: u64,
    /// What is asked for a cell near its limit.
    pub ask: Option<Ask>,
}

impl Delta {
    /// The delta that does by itself what this one did with the `grant` it was given.
    #[must_use]
    pub fn granted(self, ask: Ask, grant: u64) -> Delta {
        let signed = i64::try_from(grant).unwrap_or(i64::MAX);
        Delta {
            cost: self.cost.saturating_add(signed),
            upto: self.upto.saturating_add_unsigned(grant / ask.unit.max(1)),
            ask: Some(Ask { want: 0, ..ask }),
            ..self
        }
    }
}

/// What a node asks of the store for a cell near its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The cost that it would have in advance: a lease. In the unit of [`Delta::cost`].
    pub want: u64,
    /// Its part of the fleet's demand, in millionths: no more of what is free is granted.
    pub portion: u32,
    /// What a grant is a multiple of: what a cost of one takes.
    pub unit: u64,
    /// What its limit promises: more is demanded of a grant that it is to be bounded by.
    pub promise: Consistency,
    /// The total from which on its cost is announced to all nodes, at every time; zero for
    /// never. In the unit of [`Delta::cost`].
    pub announced_from: u64,
    /// The change of the demand that it reports in this slot, in thousandths of cost per
    /// second.
    pub demand: i64,
}

/// What the store says about one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What the fleet has used: units for windows, nanoseconds of drain time for buckets.
    pub total: u64,
    /// The [`Delta::upto`] of the delta that the total contains.
    pub upto: i64,
    /// The store's time.
    pub at: Timestamp,
    /// What it says to an [`Ask`].
    pub told: Option<Told>,
}

/// What the store says to an [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The demand that all nodes report, in thousandths of cost per second.
    pub demand: u64,
    /// What was granted: it is in [`Answer::total`]. In the unit of [`Delta::cost`].
    pub grant: u64,
    /// Whether a lease was asked for.
    pub wanted: bool,
}

/// What the store announces to all nodes: that a cell has reached a level, or that much has
/// come to it while little is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The cell.
    pub key: Key,
    /// The slot.
    pub slot: Slot,
    /// How full it is.
    pub level: Level,
    /// What the fleet has used in the slot: units, or nanoseconds of drain time.
    pub total: u64,
    /// The demand that all nodes report, in thousandths of cost per second.
    pub demand: u64,
    /// The store's time.
    pub at: Timestamp,
}

/// How full a cell is that is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Half of its room is used.
    Half,
    /// Nothing is left of its room.
    Full,
}
