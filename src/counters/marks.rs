use crate::policy::Pressure;
use crate::units::{Nanos, Timestamp};

/// When the store last told about a cell, and how much of the cell the sync knows:
/// seven bytes, since there are as many as keys. The time is in microseconds, as the
/// store tells it, and ends in the year 2540.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u64);

/// What the sync has been told of a cell that it is not done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Told {
    Nothing,
    /// That it has something to send, and how soon it must be sent.
    Queued(Pressure),
}

const TOLD_BITS: u32 = 2;
const TOLD: u64 = (1 << TOLD_BITS) - 1;
/// The last moment, in microseconds.
const LAST: u64 = (1 << (56 - TOLD_BITS)) - 1;

impl Marks {
    /// The marks that were taken apart.
    #[inline]
    pub(super) fn of((low, middle, high): (u32, u16, u8)) -> Marks {
        Marks(u64::from(low) | u64::from(middle) << 32 | u64::from(high) << 48)
    }

    /// In pieces that fit beside the tag of an enum.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // The pieces are what is wanted.
    pub(super) const fn parts(self) -> (u32, u16, u8) {
        (self.0 as u32, (self.0 >> 32) as u16, (self.0 >> 48) as u8)
    }

    /// The store's time of its last answer; the epoch if there was none.
    pub(super) const fn heard(self) -> Timestamp {
        Timestamp::from_nanos((self.0 >> TOLD_BITS).saturating_mul(1_000))
    }

    pub(super) fn set_heard(&mut self, at: Timestamp) {
        let micros = at.since(Timestamp::EPOCH).get() / 1_000;
        self.0 = micros.min(LAST) << TOLD_BITS | (self.0 & TOLD);
    }

    pub(super) const fn told(self) -> Told {
        match self.0 & TOLD {
            0 => Told::Nothing,
            1 => Told::Queued(Pressure::Far),
            2 => Told::Queued(Pressure::Near),
            _ => Told::Queued(Pressure::Urgent),
        }
    }

    pub(super) fn set_told(&mut self, told: Told) {
        let bits = match told {
            // What nobody misses is not told of.
            Told::Nothing | Told::Queued(Pressure::Silent) => 0,
            Told::Queued(Pressure::Far) => 1,
            Told::Queued(Pressure::Near) => 2,
            Told::Queued(Pressure::Urgent) => 3,
        };
        self.0 = self.0 >> TOLD_BITS << TOLD_BITS | bits;
    }

    /// How long ago the store last told; `None` if it never has.
    pub(super) fn stale(self, now: Timestamp) -> Option<Nanos> {
        (self.heard() > Timestamp::EPOCH).then(|| now.since(self.heard()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_the_same_in_pieces_and_after_the_last_moment_it_is_the_last() {
        let mut marks = Marks::default();
        for nanos in [0, 1_000, 1_800_000_000_123_456_000, u64::MAX] {
            marks.set_told(Told::Queued(Pressure::Urgent));
            marks.set_heard(Timestamp::from_nanos(nanos));
            assert_eq!(Marks::of(marks.parts()), marks);
            assert_eq!(marks.told(), Told::Queued(Pressure::Urgent));
            let last = (1 << 54) - 1;
            assert_eq!(marks.heard().as_nanos() / 1_000, (nanos / 1_000).min(last));
        }
    }

    #[test]
    fn the_time_and_what_was_told_do_not_disturb_each_other() {
        let mut marks = Marks::default();
        assert_eq!(
            (marks.stale(Timestamp::from_nanos(5)), marks.told()),
            (None, Told::Nothing)
        );
        let at = Timestamp::from_nanos(1_800_000_000_123_456_000);
        marks.set_heard(at);
        for pressure in [Pressure::Urgent, Pressure::Near, Pressure::Far] {
            marks.set_told(Told::Queued(pressure));
            assert_eq!((marks.heard(), marks.told()), (at, Told::Queued(pressure)));
        }
        marks.set_heard(Timestamp::EPOCH);
        assert_eq!(marks.heard(), Timestamp::EPOCH);
        assert_eq!(marks.told(), Told::Queued(Pressure::Far));
    }
}
