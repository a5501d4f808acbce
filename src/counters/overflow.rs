//! What a full table does with newcomers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::booking::shared_key;
use super::{Counters, Taken};
use crate::units::{Consistency, Cost, Key, Limit, Quota, Timestamp};

/// The shared cell for newcomers to a full table allows so many times the limit:
/// it must stop a flood, and not the few honest callers among it.
const OVERFLOW_FACTOR: u64 = 10;

impl Counters {
    /// Answers from the limit's shared cell, because the table is full. It counts on
    /// this node alone.
    #[cold]
    pub(super) fn take_overflow(
        &self,
        limit: &Arc<Limit>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Taken {
        self.overflowed.fetch_add(1, Ordering::Relaxed);
        let (key, shared) = self.overflow_of(limit, quota);
        // One cell for each limit, whether or not there is room for it.
        let (mut taken, signal) = self.touch_or_new(key, &shared, |cell| {
            cell.take(&shared, &shared.quota, cost, now, &self.fleet)
        });
        self.tell(key, signal);
        // What is told is the limit that the caller knows.
        taken.outcome.remaining = taken.outcome.remaining.min(quota.capacity());
        taken
    }

    /// The shared cell's key, and its limit, for newcomers that would count under `quota`.
    pub(super) fn overflow_of(&self, limit: &Arc<Limit>, quota: &Quota) -> (Key, Arc<Limit>) {
        let wanted = quota.generous(OVERFLOW_FACTOR);
        let known = self
            .overflow
            .get(&limit.id)
            .filter(|shared| shared.quota == wanted);
        // The guard must be gone before the map is written to.
        let known = known.map(|shared| Arc::clone(&shared));
        let shared = known.unwrap_or_else(|| {
            let mut shared = Limit::clone(limit);
            shared.quota = wanted;
            shared.consistency = Consistency::Local;
            let shared = Arc::new(shared);
            self.overflow.insert(limit.id.clone(), Arc::clone(&shared));
            shared
        });
        (shared_key(&shared), shared)
    }
}
