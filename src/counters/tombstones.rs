use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;

use super::Announcement;
use crate::units::{Key, MapHasher, Timestamp};

/// Announcements of cells that this node does not have, until their slots are over.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    known: DashMap<Key, Announcement, MapHasher>,
    /// How many there are. Most nodes most of the time have none.
    count: AtomicUsize,
}

/// So many are remembered; the others cost accuracy only.
const MOST: usize = 65_536;

impl Tombstones {
    pub(super) fn remember(&self, announced: Announcement, now: Timestamp) {
        if self.known.len() >= MOST {
            self.known.retain(|_, known| known.slot.is_current(now));
        }
        if self.known.len() < MOST {
            self.known.insert(announced.key, announced);
        }
        self.count.store(self.known.len(), Ordering::Relaxed);
    }

    /// What was announced of `key`, if its slot is not over.
    pub(super) fn recall(&self, key: Key, now: Timestamp) -> Option<Announcement> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let (_, announced) = self.known.remove(&key)?;
        self.count.store(self.known.len(), Ordering::Relaxed);
        Some(announced).filter(|announced| announced.slot.is_current(now))
    }
}
