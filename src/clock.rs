//! The only reader of the operating system's clock.
//!
//! A [`Clock`] is anchored to the wall clock once, when it is made, and from then
//! on advances with the monotonic clock: a step of the machine's wall clock moves
//! no window. Where there is a store, its clock is the fleet's, and the sync sets
//! the offset to it with [`Clock::set_offset`].

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::units::{Nanos, Timestamp};

/// Tells the time, on the clock that the fleet agrees on. Clones tell the same time.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: Source,
    /// Nanoseconds that the fleet's clock is ahead of this machine's.
    offset: AtomicI64,
}

#[derive(Debug)]
enum Source {
    System { wall: u64, started: Instant },
    Manual(AtomicU64),
}

impl Clock {
    /// This machine's clock.
    #[allow(clippy::disallowed_methods)]
    pub fn system() -> Clock {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
            });
        Clock::from(Source::System {
            wall,
            started: Instant::now(),
        })
    }

    /// A clock that stands at `now` until [`Clock::advance`] moves it: for tests
    /// and simulations.
    pub fn manual(now: Timestamp) -> Clock {
        Clock::from(Source::Manual(AtomicU64::new(now.as_nanos())))
    }

    fn from(source: Source) -> Clock {
        Clock(Arc::new(Inner {
            source,
            offset: AtomicI64::new(0),
        }))
    }

    /// The time on the fleet's clock.
    pub fn now(&self) -> Timestamp {
        self.to_fleet(self.local())
    }

    /// The time on this machine's own clock, without the offset: for measuring
    /// the offset itself and durations that no step may disturb.
    #[allow(clippy::disallowed_methods)]
    pub fn local(&self) -> Timestamp {
        match &self.0.source {
            Source::System { wall, started } => {
                Timestamp::from_nanos(*wall).after(Nanos::from(started.elapsed()))
            }
            Source::Manual(now) => Timestamp::from_nanos(now.load(Ordering::Relaxed)),
        }
    }

    /// A moment of this machine's own clock on the fleet's clock.
    pub fn to_fleet(&self, local: Timestamp) -> Timestamp {
        let offset = self.0.offset.load(Ordering::Relaxed);
        Timestamp::from_nanos(local.as_nanos().saturating_add_signed(offset))
    }

    /// Sets how many nanoseconds the fleet's clock is ahead of this machine's.
    pub fn set_offset(&self, nanos: i64) {
        self.0.offset.store(nanos, Ordering::Relaxed);
    }

    /// Moves a manual clock on; a system clock moves by itself and ignores it.
    pub fn advance(&self, by: Nanos) {
        if let Source::Manual(now) = &self.0.source {
            now.fetch_add(by.get(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = Clock::manual(Timestamp::from_nanos(5));
        let same = clock.clone();
        clock.advance(Nanos::new(2));
        assert_eq!(same.now(), Timestamp::from_nanos(7));
    }

    #[test]
    fn the_offset_moves_the_fleets_time_and_not_the_local_one() {
        let clock = Clock::manual(Timestamp::from_nanos(100));
        clock.set_offset(-30);
        assert_eq!(clock.now(), Timestamp::from_nanos(70));
        assert_eq!(clock.local(), Timestamp::from_nanos(100));
        clock.set_offset(-300);
        assert_eq!(clock.now(), Timestamp::EPOCH);
    }

    #[test]
    fn the_system_clock_does_not_go_back() {
        let clock = Clock::system();
        let before = clock.now();
        assert!(clock.now() >= before);
    }
}
