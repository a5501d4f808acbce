//! What the scripts of the sync do in the store, in memory and on a clock that is
//! handed in: `lua/sync_window.lua`, `lua/sync_bucket.lua` and `lua/sync_hello.lua`.

use std::collections::{BTreeMap, HashMap};

use crate::counters::{Delta, HashId, Slot, Space};
use crate::sync::batch::{
    Agreement, Batch, BatchReply, Boot, Hello, HelloReply, LaneName, Stored, Token,
};
use crate::sync::wire::ALIVE;
use crate::units::{Key, MapHasher, Nanos, Timestamp};

/// A store of one fleet. A clone is what a replica or a dump holds.
#[derive(Clone, Debug, Default)]
pub struct SimStore {
    hashes: BTreeMap<HashId, Hash>,
    /// Live nodes, and when each last said so, in milliseconds.
    nodes: HashMap<Boot, u64>,
    /// What the fleet agrees on, and when it is forgotten, in milliseconds.
    agreed: Option<(Terms, u64)>,
}

/// What the nodes of a fleet must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How many partitions there are.
    pub partitions: u16,
    /// Made from the secret of the keys.
    pub check_value: [u8; 4],
}

#[derive(Clone, Debug, Default)]
struct Hash {
    /// In milliseconds.
    expires: u64,
    lanes: HashMap<LaneName, Token>,
    cells: HashMap<Key, Value, MapHasher>,
}

/// What a cell's field holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Of a window.
    Count(u64),
    /// Of a bucket. The scripts count in floating-point numbers, and so does this.
    Debt {
        /// The time in ns that the bucket takes to drain.
        debt: f64,
        /// When it owed that, in µs.
        last: f64,
    },
}

/// Beyond 2^53 a count would no longer be exact.
const MAX_COUNT: i128 = 1 << 53;
/// The largest number below 2^63 that a double can hold.
const MAX_DEBT: f64 = 9_223_372_036_854_774_784.0;
/// What the fleet agrees on is kept so many lifetimes of a hello.
const AGREED_LIFETIMES: u64 = 12;

impl SimStore {
    /// Carries out a batch at `time`, which like a store's is cut to microseconds.
    pub fn batch(&mut self, batch: &Batch, time: Timestamp) -> BatchReply {
        let time = cut(time);
        self.forget(batch.id, time);
        let hash = self.hashes.get(&batch.id);
        let lane = hash.and_then(|hash| hash.lanes.get(&batch.lane)).copied();
        let fits = lane == batch.previous;
        let totals = match batch.id.slot.space {
            Space::Windows { .. } => self.windows(batch, fits),
            Space::Buckets { .. } => self.buckets(batch, fits, time),
        };
        if fits {
            let hash = self.hashes.entry(batch.id).or_default();
            hash.lanes.insert(batch.lane, batch.new);
            if lane.is_none() {
                hash.expires = millis(time) + batch.id.slot.time_to_live().as_millis_ceil();
            }
        }
        let token = if fits { Some(batch.new) } else { lane };
        BatchReply {
            token: token.map_or(Stored::Nothing, Stored::Token),
            totals,
            time,
        }
    }

    fn windows(&mut self, batch: &Batch, fits: bool) -> Vec<u64> {
        if !fits {
            let hash = self.hashes.get(&batch.id);
            let count = |key| hash.map_or(0, |hash| hash.count(key));
            return batch.cells.iter().map(|(key, _)| count(key)).collect();
        }
        let hash = self.hashes.entry(batch.id).or_default();
        let add = |(key, delta): &(Key, Delta)| {
            let before = hash.count(key);
            if delta.cost == 0 {
                return before;
            }
            let sum = i128::from(before) + i128::from(delta.cost);
            let count = u64::try_from(sum.clamp(0, MAX_COUNT)).unwrap_or(0);
            hash.cells.insert(*key, Value::Count(count));
            count
        };
        batch.cells.iter().map(add).collect()
    }

    fn buckets(&mut self, batch: &Batch, fits: bool, time: Timestamp) -> Vec<u64> {
        let slot = batch.id.slot;
        let at = |slot: Slot| HashId { slot, ..batch.id };
        let (before, after) = (at(slot.previous()), at(slot.next()));
        self.forget(before, time);
        self.forget(after, time);
        let now = as_float(micros(time));
        let slice = as_float(slot.space.length().get().div_ceil(1_000));
        let mut totals = Vec::with_capacity(batch.cells.len());
        for (key, delta) in &batch.cells {
            let found = self.debt(batch.id, key).or_else(|| self.debt(before, key));
            let (mut debt, last) = aged(found, now, slice);
            if fits && delta.cost != 0 {
                let delta = as_signed_float(delta.cost);
                debt = (debt + delta).max(0.0);
                self.owe(batch.id, *key, debt, last);
                if let Some(later) = self.debt(after, key) {
                    let (debt, last) = aged(Some(later), now, slice);
                    self.owe(after, *key, (debt + delta).max(0.0), last);
                }
            }
            totals.push(whole(debt.ceil().min(MAX_DEBT)));
        }
        totals
    }

    fn debt(&self, id: HashId, key: &Key) -> Option<(f64, f64)> {
        match self.hashes.get(&id)?.cells.get(key)? {
            Value::Debt { debt, last } => Some((*debt, *last)),
            Value::Count(_) => None,
        }
    }

    fn owe(&mut self, id: HashId, key: Key, debt: f64, last: f64) {
        let hash = self.hashes.entry(id).or_default();
        hash.cells.insert(key, Value::Debt { debt, last });
    }

    /// A node whose terms are `terms` says hello at `time`.
    pub fn hello(&mut self, node: Boot, terms: Terms, hello: Hello, time: Timestamp) -> HelloReply {
        let time = cut(time);
        let (now, lifetime) = (millis(time), ALIVE.as_millis_ceil());
        if self.agreed.is_some_and(|(_, expires)| now > expires) {
            self.agreed = None;
            self.nodes.clear();
        }
        let oldest = now.saturating_sub(lifetime);
        let nobody = !self.nodes.values().any(|last| *last >= oldest);
        let mut agreed = self.agreed.map(|(terms, _)| terms);
        let leaving = hello == Hello::Leaving;
        if !leaving && (agreed.is_none() || nobody) {
            let expires = self.agreed.map_or(u64::MAX, |(_, expires)| expires);
            agreed = Some(terms);
            self.agreed = Some((terms, expires));
        }
        self.nodes.retain(|_, last| *last > oldest);
        if leaving {
            self.nodes.remove(&node);
        } else if agreed == Some(terms) {
            self.nodes.insert(node, now);
            self.agreed = Some((terms, now + lifetime * AGREED_LIFETIMES));
        }
        let said = agreed.unwrap_or(terms);
        let agreement = if said.partitions != terms.partitions {
            Agreement::OtherPartitions(said.partitions.to_string())
        } else if said.check_value != terms.check_value {
            Agreement::OtherSecret
        } else {
            Agreement::Agreed
        };
        HelloReply {
            agreement,
            nodes: u32::try_from(self.nodes.len()).unwrap_or(u32::MAX),
            time,
        }
    }

    /// Forgets everything.
    pub fn flush(&mut self) {
        *self = SimStore::default();
    }

    /// Forgets what has expired by `time`, which would not be seen again anyway.
    pub fn expire(&mut self, time: Timestamp) {
        self.hashes.retain(|_, hash| millis(time) <= hash.expires);
    }

    /// What each hash that has not expired by `time` holds: its cells, and when it
    /// expires, in milliseconds since the epoch.
    pub fn contents(
        &self,
        time: Timestamp,
    ) -> impl Iterator<Item = (HashId, u64, impl Iterator<Item = (Key, Value)>)> {
        let live = self
            .hashes
            .iter()
            .filter(move |(_, hash)| millis(time) <= hash.expires);
        live.map(|(id, hash)| {
            let cells = hash.cells.iter().map(|(key, value)| (*key, *value));
            (*id, hash.expires, cells)
        })
    }

    /// The count of `key` in `slot`, in whatever partition.
    pub fn count(&self, slot: Slot, key: &Key) -> u64 {
        let hashes = self.hashes.iter().filter(|(id, _)| id.slot == slot);
        hashes.map(|(_, hash)| hash.count(key)).sum()
    }

    fn forget(&mut self, id: HashId, time: Timestamp) {
        let over = |hash: &Hash| millis(time) > hash.expires;
        if self.hashes.get(&id).is_some_and(over) {
            self.hashes.remove(&id);
        }
    }
}

impl Hash {
    fn count(&self, key: &Key) -> u64 {
        match self.cells.get(key) {
            Some(Value::Count(count)) => *count,
            _ => 0,
        }
    }
}

/// What is left at `now` of a debt and its time.
fn aged(cell: Option<(f64, f64)>, now: f64, slice: f64) -> (f64, f64) {
    match cell {
        None => (0.0, now),
        Some((_, last)) if last - now > slice => (0.0, now),
        Some((debt, last)) if now > last => ((debt - (now - last) * 1_000.0).max(0.0), now),
        Some(cell) => cell,
    }
}

fn micros(time: Timestamp) -> u64 {
    time.as_nanos() / 1_000
}

fn millis(time: Timestamp) -> u64 {
    time.as_nanos() / 1_000_000
}

fn cut(time: Timestamp) -> Timestamp {
    Timestamp::EPOCH.after(Nanos::new(micros(time) * 1_000))
}

#[allow(clippy::cast_precision_loss)] // As in the scripts.
fn as_float(number: u64) -> f64 {
    number as f64
}

#[allow(clippy::cast_precision_loss)] // As in the scripts.
fn as_signed_float(number: i64) -> f64 {
    number as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // It is in range.
fn whole(number: f64) -> u64 {
    number as u64
}
