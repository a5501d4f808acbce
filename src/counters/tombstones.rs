use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dashmap::DashMap;

use super::{Announcement, Level};
use crate::units::{Key, MapHasher, Nanos, Timestamp};

/// Announcements of cells that this node does not have, until their slots are over.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    known: DashMap<Key, Announcement, MapHasher>,
    /// How many there are. Most nodes most of the time have none.
    count: AtomicUsize,
    /// When those whose slots are over were last looked for, in nanoseconds.
    swept: AtomicU64,
}

/// So many are remembered; the others cost accuracy only.
const MOST: usize = 65_536;
/// To look for those that are over takes a while: it is not done more often.
const SWEEPS: Nanos = Nanos::from_secs(1);
/// So many leave room for none but full cells.
const MANY: usize = MOST / 2;

impl Tombstones {
    pub(super) fn remember(&self, announced: Announcement, now: Timestamp) {
        let most = match announced.level {
            Level::Half => MANY,
            Level::Full => MOST,
        };
        let swept = Timestamp::from_nanos(self.swept.load(Ordering::Relaxed));
        if self.known.len() >= most && now.since(swept) >= SWEEPS {
            self.swept.store(now.as_nanos(), Ordering::Relaxed);
            self.known.retain(|_, known| known.slot.is_current(now));
        }
        if self.known.len() < most {
            self.known.insert(announced.key, announced);
        }
        self.count.store(self.known.len(), Ordering::Relaxed);
    }

    /// What was announced of `key`, if its slot is not over.
    pub(super) fn look(&self, key: Key, now: Timestamp) -> Option<Announcement> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let announced = *self.known.get(&key)?;
        Some(announced).filter(|announced| announced.slot.is_current(now))
    }

    /// The same, and forgets it.
    pub(super) fn recall(&self, key: Key, now: Timestamp) -> Option<Announcement> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let (_, announced) = self.known.remove(&key)?;
        self.count.store(self.known.len(), Ordering::Relaxed);
        Some(announced).filter(|announced| announced.slot.is_current(now))
    }
}
