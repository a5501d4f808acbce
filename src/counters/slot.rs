use std::fmt;

use crate::algorithms::MOST_OWED;
use crate::units::{Algorithm, Calendar, Nanos, Partition, Quota, Timestamp, WindowId, Windows};

/// A kind of hash in the store: how long the stretch of time is that one such hash
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Counts of windows, `length` each; read until `kept` more windows have passed.
    Windows {
        /// The window's length.
        length: Nanos,
        /// How many windows later its counts are still read.
        kept: u8,
    },
    /// Counts of the windows of a calendar, read until one more window has passed.
    Calendar(Calendar),
    /// Debts of buckets. Time is cut into slices of 2^`exponent` nanoseconds, each
    /// at least as long as the longest debt in it takes to drain.
    Buckets {
        /// The binary logarithm of the slice's length in nanoseconds.
        exponent: u8,
    },
}

/// A sliding log's use by other nodes is counted in so many parts of its window,
const LOG_PARTS: u64 = 16;
/// each at least this long.
const MIN_LOG_PART: Nanos = Nanos::from_millis(10);
/// The shortest slice of buckets: 2^36 ns, 69 s. Most quotas drain sooner, so
/// changing one for another keeps its key in the same hashes.
const MIN_EXPONENT: u8 = 36;
/// How much longer than its meaning a hash is kept, for batches that come late.
const GRACE: Nanos = Nanos::from_secs(5);

impl Space {
    /// The kind of hash that counts limits of this quota.
    pub fn of(quota: &Quota) -> Space {
        match quota.algorithm() {
            Algorithm::FixedWindow | Algorithm::SlidingWindow => match quota.windows() {
                Windows::Even(length) => Space::Windows { length, kept: 1 },
                Windows::Calendar(calendar) => Space::Calendar(calendar),
            },
            Algorithm::SlidingLog => {
                let period = quota.period().get();
                let length = period.div_ceil(LOG_PARTS).max(MIN_LOG_PART.get());
                let kept = u8::try_from(period.div_ceil(length)).unwrap_or(u8::MAX);
                Space::Windows {
                    length: Nanos::new(length),
                    kept,
                }
            }
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                let longest = quota.drain_time().times(MOST_OWED).get().max(1);
                let exponent = longest.ilog2() + 1;
                let exponent = u8::try_from(exponent.min(63)).unwrap_or(63);
                Space::Buckets {
                    exponent: exponent.max(MIN_EXPONENT),
                }
            }
        }
    }

    /// The windows or slices that it is cut into.
    pub const fn windows(self) -> Windows {
        match self {
            Space::Windows { length, .. } => Windows::Even(length),
            Space::Calendar(calendar) => Windows::Calendar(calendar),
            Space::Buckets { exponent } => Windows::Even(Nanos::new(1 << exponent)),
        }
    }

    /// Whether it holds counts of windows, and no debts.
    pub const fn counts(self) -> bool {
        !matches!(self, Space::Buckets { .. })
    }

    /// The window or slice that `now` lies in.
    pub fn window(self, now: Timestamp) -> WindowId {
        self.windows().at(now)
    }

    const fn kept(self) -> u64 {
        match self {
            Space::Windows { kept, .. } => kept as u64,
            Space::Calendar(_) | Space::Buckets { .. } => 1,
        }
    }
}

/// The form in the name of the store's hash: `60s`, `3750ms+16`, `day@Europe/Berlin` or
/// `slice36`.
impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Space::Windows { length, kept: 1 } => write!(f, "{length}"),
            Space::Windows { length, kept } => write!(f, "{length}+{kept}"),
            Space::Calendar(calendar) => calendar.fmt(f),
            Space::Buckets { exponent } => write!(f, "slice{exponent}"),
        }
    }
}

/// One window of one [`Space`]: what a cost is tagged with when it is admitted. A
/// late cost lands in its own slot or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The kind of hash.
    pub space: Space,
    /// The window, absolute.
    pub window: WindowId,
}

impl Slot {
    /// The moment that it begins.
    pub fn start(self) -> Timestamp {
        self.space.windows().start(self.window)
    }

    /// The moment that it ends.
    pub fn end(self) -> Timestamp {
        self.space.windows().end(self.window)
    }

    /// How long it is.
    pub fn length(self) -> Nanos {
        self.space.windows().length(self.window)
    }

    /// How long after its creation the slot's hash may be forgotten. That of a window may
    /// be created a while before: what is lent in advance is lent then.
    pub fn time_to_live(self) -> Nanos {
        match self.space {
            Space::Windows { kept: 1, .. } | Space::Calendar(_) => self.life().plus(self.lead()),
            Space::Windows { .. } | Space::Buckets { .. } => self.life(),
        }
    }

    /// How long before a window begins something is lent of it: half of the one before.
    pub fn lead(self) -> Nanos {
        self.previous().length().divided_by(2)
    }

    /// How long the slot's counts matter, from its beginning, and a little longer.
    pub fn life(self) -> Nanos {
        self.length().plus(self.reach()).plus(GRACE)
    }

    /// Whether the slot's counts can still matter to a decision, or to a batch on
    /// its way: a little shorter than the hash lives.
    pub fn matters(self, now: Timestamp) -> bool {
        let life = self.life().minus(Nanos::from_secs(1));
        now < self.start().after(life)
    }

    /// Whether any decision can still read the slot's counts.
    pub fn is_read(self, now: Timestamp) -> bool {
        now < self.end().after(self.reach())
    }

    /// Whether the slot is the one that costs are admitted in.
    pub fn is_current(self, now: Timestamp) -> bool {
        self.space.window(now) == self.window
    }

    /// How long the slot's counts are read after its end.
    pub fn reach(self) -> Nanos {
        match self.space {
            Space::Calendar(_) => self.next().length(),
            space => self.length().times(space.kept()),
        }
    }

    /// Since when the store must remember to decide by the slot: as long as that is how far
    /// the slots reach that are weighed with it, or a lease of it.
    pub fn remembered_from(self) -> Timestamp {
        match self.space {
            Space::Calendar(_) => self.previous().start(),
            _ => self.start().before(self.reach()),
        }
    }

    /// The slot after this one.
    pub const fn next(self) -> Slot {
        Slot {
            space: self.space,
            window: self.window.next(),
        }
    }

    /// The slot before this one.
    pub const fn previous(self) -> Slot {
        Slot {
            space: self.space,
            window: self.window.previous(),
        }
    }
}

/// One hash in the store: one slot's cells of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashId {
    /// The partition.
    pub partition: Partition,
    /// The slot.
    pub slot: Slot,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::CalendarUnit;

    fn space(algorithm: Algorithm, amount: u64, period: Nanos) -> Space {
        Space::of(&Quota::new(algorithm, amount, period, None).unwrap())
    }

    #[test]
    fn the_amount_of_a_window_does_not_move_its_hash() {
        let minute = Nanos::from_secs(60);
        assert_eq!(
            space(Algorithm::FixedWindow, 10, minute),
            space(Algorithm::FixedWindow, 99, minute)
        );
        assert_eq!(space(Algorithm::FixedWindow, 10, minute).to_string(), "1m");
        assert_eq!(
            space(Algorithm::SlidingLog, 10, minute).to_string(),
            "3s750ms+16"
        );
    }

    #[test]
    fn a_slice_is_at_least_as_long_as_the_bucket_takes_to_drain() {
        for (amount, period) in [
            (1, Nanos::from_millis(1)),
            (3, Nanos::from_secs(1_000)),
            (1, Quota::MAX_PERIOD),
        ] {
            let quota = Quota::new(Algorithm::TokenBucket, amount, period, Some(7)).unwrap();
            assert!(Space::of(&quota).windows().length(WindowId::new(1)) >= quota.drain_time());
        }
    }

    #[test]
    fn a_window_matters_until_the_windows_that_read_it_have_passed() {
        let slot = Slot {
            space: space(Algorithm::SlidingWindow, 1, Nanos::from_secs(60)),
            window: WindowId::new(10),
        };
        assert!(slot.matters(Timestamp::from_nanos(719_000_000_000)));
        assert!(!slot.matters(Timestamp::from_nanos(725_000_000_000)));
        assert!(slot.time_to_live() >= Nanos::from_secs(120));
    }

    fn calendar(unit: CalendarUnit, zone: &str) -> Space {
        let calendar = Calendar::new(unit, zone).unwrap();
        Space::of(&Quota::calendar(10, calendar))
    }

    #[test]
    fn windows_of_a_calendar_have_hashes_of_their_own_for_each_zone() {
        let day = calendar(CalendarUnit::Day, "UTC");
        let others = [
            calendar(CalendarUnit::Day, "Europe/Berlin"),
            calendar(CalendarUnit::Week, "UTC"),
            space(Algorithm::FixedWindow, 10, Nanos::from_secs(86_400)),
        ];
        let names = [day, others[0], others[1], others[2]].map(|space| space.to_string());
        assert_eq!(names, ["day", "day@Europe/Berlin", "week", "1d"]);
        assert!(others.iter().all(|other| *other != day));
        let more = Space::of(&Quota::calendar(
            99,
            Calendar::new(CalendarUnit::Day, "utc").unwrap(),
        ));
        assert_eq!(more, day);
    }

    #[test]
    fn a_hash_of_a_calendar_outlives_its_window_and_the_next_from_the_first_lease_on() {
        for (unit, zone) in [
            (CalendarUnit::Month, "UTC"),
            (CalendarUnit::Month, "Europe/Berlin"),
            (CalendarUnit::Week, "America/Havana"),
            (CalendarUnit::Day, "Africa/Cairo"),
            (CalendarUnit::Day, "Pacific/Apia"),
        ] {
            let space = calendar(unit, zone);
            let begin = Timestamp::from_nanos(1_300_000_000_000_000_000);
            let mut slot = Slot {
                space,
                window: space.window(begin),
            };
            for _ in 0..6_000 {
                let lent_from = slot.start().before(slot.lead());
                let read_until = slot.next().end();
                assert!(
                    lent_from.after(slot.time_to_live()) > read_until,
                    "{slot:?}"
                );
                assert_eq!(slot.end(), slot.next().start());
                assert_eq!(slot.end(), slot.start().after(slot.length()));
                assert_eq!(slot.remembered_from(), slot.previous().start());
                assert!(slot.is_read(read_until.before(Nanos::new(1))));
                assert!(!slot.is_read(read_until) && slot.matters(read_until));
                assert!(!slot.matters(read_until.after(GRACE)));
                slot = slot.next();
            }
        }
    }
}
