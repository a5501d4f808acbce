//! The cells: one for each (limit, key), sharded, aged when they are touched.
//!
//! A cell is reached through its [`Key`] alone. The map gives one caller at a time
//! access to a cell, for some tens of nanoseconds, and no guard outlives a call. A
//! cell with something to send enters the dirty queue once; [`crate::sync`] takes
//! it from there.

mod body;
mod booking;
mod cell;
mod edge;
mod exchange;
mod fleet;
mod kept;
mod learning;
mod ledger;
mod marks;
mod message;
mod overflow;
mod settled;
mod share;
mod slot;
mod sweep;
mod taken;
mod tombstones;
mod unsent;
mod wants;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use crossbeam::queue::ArrayQueue;
use dashmap::DashMap;

use crate::algorithms::{Outcome, State, Verdict};
use crate::units::{
    Consistency, Cost, Key, Limit, LimitId, MapHasher, Nanos, Partitions, Quota, Timestamp,
};
use cell::{Cell, Signal};
use kept::Kept;
use tombstones::Tombstones;

pub use booking::Booked;
pub use exchange::Route;
pub use fleet::{Fleet, StoreHealth};
pub use message::{Announcement, Answer, Ask, Delta, Level, Told};
pub use settled::SettledWindow;
pub use slot::{HashId, Slot, Space};
pub use taken::{By, Taken};
pub use unsent::Unsent;

/// The cells are spread over so many maps by a remainder of their key, three
/// remainders a map, so that the sweep can look at one map at a time. (Three, because
/// the maps double: with a power of two they would all be half empty at a million keys.)
const REMAINDERS: usize = 256;
const REMAINDERS_PER_BANK: usize = 3;
const BANKS: usize = REMAINDERS.div_ceil(REMAINDERS_PER_BANK);
/// How many locks each map has.
const LOCKS_PER_BANK: usize = 2;
/// Dirty cells that wait for the sync. If more wait, the sync looks at all cells.
const DIRTY_CAPACITY: usize = 65_536;

type Bank = DashMap<Key, Kept, MapHasher>;

/// All cells of this node.
#[derive(Debug)]
pub struct Counters {
    banks: Vec<Bank>,
    cells: AtomicUsize,
    max_cells: usize,
    dirty: ArrayQueue<Key>,
    /// A dirty cell found the queue full.
    missed: AtomicBool,
    fleet: Fleet,
    settled: ArrayQueue<SettledWindow>,
    /// Cells near their limit that this node does not have.
    unknown: Tombstones,
    overflow: DashMap<LimitId, Arc<Limit>>,
    /// The counter spaces of the rules in force; `None` as long as none was ever left.
    in_force: ArcSwapOption<HashSet<LimitId>>,
    overflowed: AtomicU64,
    evicted: AtomicU64,
}

impl Counters {
    /// An empty table for at most `max_cells` cells (at least one), counting for
    /// this node alone or, where there is a store, for the `fleet`.
    pub fn new(max_cells: usize, fleet: Fleet) -> Counters {
        let bank = || DashMap::with_hasher_and_shard_amount(MapHasher::default(), LOCKS_PER_BANK);
        Counters {
            banks: (0..BANKS).map(|_| bank()).collect(),
            cells: AtomicUsize::new(0),
            max_cells: max_cells.max(1),
            dirty: ArrayQueue::new(DIRTY_CAPACITY),
            missed: AtomicBool::new(false),
            fleet,
            settled: ArrayQueue::new(settled::KEPT),
            unknown: Tombstones::default(),
            overflow: DashMap::new(),
            in_force: ArcSwapOption::empty(),
            overflowed: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    /// What this node knows of the fleet.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Takes `cost` from the cell of `key`, which counts `limit`, under `quota`: the
    /// limit's own, or a share of it. A cost of zero only looks.
    // What a check does to its cell is one piece of code from here down: the calls, and the
    // copies of what they answer, would take as long as the work itself.
    #[inline(never)]
    pub fn take(
        &self,
        limit: &Arc<Limit>,
        quota: &Quota,
        key: Key,
        cost: Cost,
        now: Timestamp,
    ) -> Taken {
        let Some(mut kept) = self.bank(key).get_mut(&key) else {
            return self.take_new(limit, quota, key, cost, now);
        };
        let (taken, signal) = kept.take(limit, quota, cost, now, &self.fleet);
        drop(kept);
        self.tell(key, signal);
        taken
    }

    /// The same for a key that has no cell.
    #[inline(never)]
    fn take_new(
        &self,
        limit: &Arc<Limit>,
        quota: &Quota,
        key: Key,
        cost: Cost,
        now: Timestamp,
    ) -> Taken {
        if cost.is_peek() {
            return self.probe_unknown(limit, quota, key, cost, now);
        }
        // A check that would leave nothing behind leaves no cell behind either.
        let mut fresh = State::fresh(quota);
        let outcome = fresh.take(quota, cost, now);
        if !matches!(outcome.verdict, Verdict::Admitted { .. }) {
            return Taken {
                outcome,
                stale: None,
                at: now,
                by: By::Cell,
            };
        }
        if self.cells.load(Ordering::Relaxed) >= self.max_cells {
            if limit.consistency == Consistency::Bounded && self.fleet.has_store() {
                // What no cell can hold a lease for, the store must decide.
                let verdict = Verdict::Refused {
                    retry_after: limit.pace.interval,
                };
                return Taken {
                    outcome: Outcome { verdict, ..outcome },
                    stale: None,
                    at: now,
                    by: By::Store,
                };
            }
            return self.take_overflow(limit, quota, cost, now);
        }
        let (taken, signal) = self.touch_or_new(key, limit, |cell| {
            if let Some(announced) = self.unknown.recall(key, now) {
                // It has nothing to send yet: nobody need be told.
                let _quiet = cell.announce(announced, now, &self.fleet);
            }
            cell.take(limit, quota, cost, now, &self.fleet)
        });
        self.tell(key, signal);
        taken
    }

    /// Says what [`Counters::take`] would answer, and takes nothing.
    pub fn probe(
        &self,
        limit: &Arc<Limit>,
        quota: &Quota,
        key: Key,
        cost: Cost,
        now: Timestamp,
    ) -> Taken {
        self.touch(key, |cell| cell.probe(limit, quota, cost, now, &self.fleet))
            .unwrap_or_else(|| self.probe_unknown(limit, quota, key, cost, now))
    }

    /// The same for a key that has no cell: it may still have been announced.
    fn probe_unknown(
        &self,
        limit: &Arc<Limit>,
        quota: &Quota,
        key: Key,
        cost: Cost,
        now: Timestamp,
    ) -> Taken {
        let mut taken = Kept::new(limit).touch(|cell| {
            if let Some(announced) = self.unknown.look(key, now) {
                let _quiet = cell.announce(announced, now, &self.fleet);
            }
            cell.probe(limit, quota, cost, now, &self.fleet)
        });
        let lent = limit.consistency == Consistency::Bounded && self.fleet.has_store();
        if lent && matches!(taken.outcome.verdict, Verdict::Admitted { .. }) {
            taken.by = By::Store;
        }
        taken
    }

    /// Takes note that the store has refused `cost` for the cell of `key`, and will until
    /// some moment: it need not be asked again before.
    pub fn refused(&self, key: Key, cost: Cost, until: Timestamp) {
        self.touch(key, |cell| {
            if let Some(edge) = &mut cell.edge {
                edge.refuse(cost, until);
            }
        });
    }

    /// Undoes a take of `cost` that was admitted at `taken_at` ([`Taken::at`]), in the
    /// window it was admitted in or nowhere.
    pub fn give_back(&self, key: Key, cost: Cost, taken_at: Timestamp, now: Timestamp) {
        let signal = self.touch(key, |cell| cell.give_back(cost, taken_at, now, &self.fleet));
        self.tell(key, signal.unwrap_or(Signal::Quiet));
    }

    /// The next cell that has something to send.
    pub fn next_dirty(&self) -> Option<Key> {
        self.dirty.pop()
    }

    /// How many cells wait to be looked at.
    pub fn dirty(&self) -> usize {
        self.dirty.len()
    }

    /// Whether cells have become dirty while the queue was full, so that all cells
    /// must be looked at. Asking forgets it.
    pub fn take_missed(&self) -> bool {
        self.missed.swap(false, Ordering::Relaxed)
    }

    /// How soon the cell of `key` wants to be sent; `None` if it has nothing to send.
    pub fn patience(&self, key: Key, now: Timestamp) -> Option<Nanos> {
        self.touch(key, |cell| cell.examine(now, &self.fleet))?
    }

    /// What the cell of `key` has for the store.
    pub fn route(&self, key: Key, now: Timestamp) -> Route {
        self.touch(key, |cell| cell.route(now, &self.fleet))
            .unwrap_or_default()
    }

    /// Puts what the cell of `key` has pending for `slot` into a delta (zero if it
    /// has nothing); `None` if the cell is gone or has left the slot behind. A cell
    /// that has something pending for another slot is added to `rest`.
    pub fn freeze(
        &self,
        key: Key,
        slot: Slot,
        now: Timestamp,
        rest: &mut Vec<Key>,
    ) -> Option<Delta> {
        self.touch(key, |cell| {
            let delta = cell.freeze(slot, now, &self.fleet);
            if cell.is_queued() {
                rest.push(key);
            }
            delta
        })?
    }

    /// Tells the cell of `key` what the store answered to its delta for `slot`.
    /// Answers when to look at the cell again ([`Counters::route`]), whether or not more
    /// is asked of it.
    pub fn absorb(&self, key: Key, slot: Slot, answer: Answer, now: Timestamp) -> Option<Nanos> {
        self.touch(key, |cell| {
            let wait = cell.absorb(slot, answer, now, &self.fleet);
            if let Some(window) = cell.settled(slot, answer, &self.fleet) {
                let _dropped = self.settled.push(window);
            }
            wait
        })?
    }

    /// Takes in what the store announces to all nodes. A cell that this node does not
    /// have is remembered until it is asked for, or its slot is over.
    pub fn announce(&self, announced: Announcement, now: Timestamp) {
        let key = announced.key;
        match self.touch(key, |cell| cell.announce(announced, now, &self.fleet)) {
            Some(signal) => self.tell(key, signal),
            None => self.unknown.remember(announced, now),
        }
    }

    /// Makes pending again all that this node has contributed to the hash `id`,
    /// which the store has lost, and answers the cells concerned.
    pub fn rewind(&self, id: HashId, partitions: Partitions, now: Timestamp) -> Vec<Key> {
        let mut keys = Vec::new();
        // Partition and bank are remainders of the same number: most banks can hold no
        // cell of this partition.
        let common = REMAINDERS.min(1 << partitions.get().trailing_zeros());
        let wanted = usize::from(id.partition.get()) % common;
        for (number, bank) in self.banks.iter().enumerate() {
            let first = number * REMAINDERS_PER_BANK;
            if (first..first + REMAINDERS_PER_BANK).any(|rest| rest % common == wanted) {
                let keyed = bank.iter().map(|entry| *entry.key());
                keys.extend(keyed.filter(|key| key.partition(partitions) == id.partition));
            }
        }
        keys.retain(|key| {
            self.touch(*key, |cell| cell.rewind(id.slot, now, &self.fleet))
                .unwrap_or(false)
        });
        keys
    }

    /// Takes note that `delta`, pending again after a rewind, did reach the store.
    pub fn credit(&self, key: Key, slot: Slot, delta: Delta) {
        self.touch(key, |cell| cell.credit(slot, delta));
    }

    /// This node is about to end: it asks for no more leases, and keeps none.
    pub fn leave(&self) {
        self.fleet.leave();
    }

    /// Gives back all leases, and answers all cells that have anything to send, told or
    /// not.
    pub fn settle_up(&self) -> Vec<Key> {
        self.find(|cell| {
            cell.return_lease();
            cell.is_queued() || cell.pending() != 0 || cell.has_leases()
        })
    }

    /// All cells that have something to send, for when the dirty queue was too small.
    pub fn queued(&self) -> Vec<Key> {
        self.find(|cell| cell.is_queued())
    }

    /// The cells that `wanted` says so of. No lock is held for longer than it takes to copy
    /// the keys of a bank, or to look at one cell.
    fn find(&self, wanted: impl Fn(&mut Cell<'_>) -> bool) -> Vec<Key> {
        let is_wanted = |key: &Key| self.touch(*key, &wanted).unwrap_or(false);
        self.banks.iter().flat_map(keys).filter(is_wanted).collect()
    }

    /// How many cells there are.
    pub fn cells(&self) -> usize {
        self.cells.load(Ordering::Relaxed)
    }

    /// Sums since the start, for the metrics.
    pub fn totals(&self) -> Totals {
        Totals {
            overflowed: self.overflowed.load(Ordering::Relaxed),
            expired: self.fleet.expired(),
            evicted: self.evicted.load(Ordering::Relaxed),
        }
    }

    #[inline]
    fn bank(&self, key: Key) -> &Bank {
        &self.banks[self.turn_of(key)]
    }

    #[inline]
    fn tell(&self, key: Key, signal: Signal) {
        if signal == Signal::Dirty && self.dirty.push(key).is_err() {
            self.missed.store(true, Ordering::Relaxed);
        }
    }

    /// Touches the cell of `key`, if there is one.
    fn touch<R>(&self, key: Key, touch: impl FnOnce(&mut Cell<'_>) -> R) -> Option<R> {
        Some(self.bank(key).get_mut(&key)?.touch(touch))
    }

    /// Touches the cell of `key`, made if there is none.
    fn touch_or_new<R>(
        &self,
        key: Key,
        limit: &Arc<Limit>,
        touch: impl FnOnce(&mut Cell<'_>) -> R,
    ) -> R {
        let new = || {
            self.cells.fetch_add(1, Ordering::Relaxed);
            Kept::new(limit)
        };
        self.bank(key).entry(key).or_insert_with(new).touch(touch)
    }
}

fn keys(bank: &Bank) -> Vec<Key> {
    bank.iter().map(|entry| *entry.key()).collect()
}

/// Sums since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Checks answered from a shared overflow cell.
    pub overflowed: u64,
    /// Cost that was never sent, because its window no longer matters.
    pub expired: u64,
    /// Cells forgotten by the sweep.
    pub evicted: u64,
}

#[cfg(test)]
mod tests;
