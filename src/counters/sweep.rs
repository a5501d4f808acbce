//! Forgetting cells that nobody needs.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::cell::{Fate, Signal};
use super::{BANKS, Counters, REMAINDERS, REMAINDERS_PER_BANK, keys};
use crate::units::{Key, Limit, LimitId, Timestamp};

impl Counters {
    /// Keeps the cells of these limits, and of those that no rule names. The sweep forgets
    /// all others, as soon as what they have for the store is sent.
    pub fn keep_only<'l>(&self, limits: impl IntoIterator<Item = &'l LimitId>) {
        let ids: HashSet<LimitId> = limits.into_iter().cloned().collect();
        self.overflow.retain(|id, _| ids.contains(id));
        self.in_force.store(Some(Arc::new(ids)));
    }

    /// Forgets the cells of one bank that equal a cell never seen, and answers how many;
    /// has those sent that nobody was in a hurry to send. `turn` says which bank. No lock is
    /// held for longer than it takes to copy the keys, or to look at one cell.
    pub fn sweep(&self, turn: usize, now: Timestamp) -> usize {
        let Some(bank) = self.banks.get(turn % BANKS) else {
            return 0;
        };
        let in_force = self.in_force.load();
        let is_left = |limit: &Limit| {
            let ids = in_force.as_deref();
            ids.is_some_and(|ids| !limit.is_per_call() && !ids.contains(&limit.id))
        };
        let mut forgotten = 0;
        for key in keys(bank) {
            let mut fate = Fate::Kept;
            bank.remove_if_mut(&key, |_, kept| {
                let left = is_left(kept.limit());
                fate = kept.touch(|cell| match left {
                    true => cell.last_fate(now, &self.fleet),
                    false => cell.fate(now, &self.fleet),
                });
                fate == Fate::Forgotten
            });
            match fate {
                Fate::Forgotten => forgotten += 1,
                Fate::Sent => self.tell(key, Signal::Dirty),
                Fate::Kept => {}
            }
        }
        self.cells.fetch_sub(forgotten, Ordering::Relaxed);
        self.evicted.fetch_add(forgotten as u64, Ordering::Relaxed);
        forgotten
    }

    /// The turn of [`Counters::sweep`] that looks at the cell of `key`.
    #[inline]
    pub fn turn_of(&self, key: Key) -> usize {
        key.spread(REMAINDERS) / REMAINDERS_PER_BANK
    }

    /// How many calls of [`Counters::sweep`] look at every cell once.
    pub const fn sweeps_per_round(&self) -> usize {
        BANKS
    }
}
