//! What the scripts of the sync do in the store, in memory and on a clock that is
//! handed in: `lua/sync_window.lua`, `lua/sync_bucket.lua` and `lua/sync_hello.lua`.

use std::collections::{BTreeMap, HashMap};

use crate::counters::{Announcement, Ask, Delta, HashId, Level, Slot, Space};
use crate::sync::batch::{
    Agreement, Batch, BatchReply, Boot, Granted, Hello, HelloReply, LaneName, Stored, Token,
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
    /// The token, and what its batch was granted.
    lanes: HashMap<LaneName, (Token, Vec<u64>)>,
    cells: HashMap<Key, Cell, MapHasher>,
}

/// What a cell's field holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// What was used and lent.
    pub value: Value,
    /// The demand that the nodes report, in thousandths of cost per second.
    pub demand: u64,
    /// What was announced: nothing, half full, full.
    pub level: u8,
}

/// What was used and lent.
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
    /// Carries out a batch at `time`, which like a store's is cut to microseconds. What
    /// is to be announced is added to `announced`.
    pub fn batch(
        &mut self,
        batch: &Batch,
        time: Timestamp,
        announced: &mut Vec<Announcement>,
    ) -> BatchReply {
        let time = cut(time);
        self.forget(batch.id, time);
        let hash = self.hashes.get(&batch.id);
        let lane = hash.and_then(|hash| hash.lanes.get(&batch.lane)).cloned();
        let stored = lane.as_ref().map(|(token, _)| *token);
        let fits = stored == batch.previous;
        let said: Vec<Said> = match batch.id.slot.space {
            Space::Windows { .. } => self.windows(batch, fits, time, announced),
            Space::Buckets { .. } => self.buckets(batch, fits, time, announced),
        };
        let asked = || said.iter().filter_map(|said| said.told);
        if fits {
            let granted = asked().map(|told| told.grant).collect();
            let hash = self.hashes.entry(batch.id).or_default();
            hash.lanes.insert(batch.lane, (batch.new, granted));
            if lane.is_none() {
                hash.expires = millis(time) + batch.id.slot.time_to_live().as_millis_ceil();
            }
        }
        let token = if fits { Some(batch.new) } else { stored };
        // The same batch again is granted the same.
        let again = lane.filter(|(token, _)| !fits && *token == batch.new);
        let again = again.map_or(Vec::new(), |(_, granted)| granted);
        let told = asked().enumerate().map(|(number, told)| Granted {
            grant: again.get(number).copied().unwrap_or(told.grant),
            ..told
        });
        BatchReply {
            token: token.map_or(Stored::Nothing, Stored::Token),
            told: told.collect(),
            totals: said.iter().map(|said| said.total).collect(),
            time,
        }
    }

    fn windows(
        &mut self,
        batch: &Batch,
        fits: bool,
        time: Timestamp,
        announced: &mut Vec<Announcement>,
    ) -> Vec<Said> {
        let slot = batch.id.slot;
        if !fits {
            let hash = self.hashes.get(&batch.id);
            let said = |(key, delta): &(Key, Delta)| {
                let cell = hash.and_then(|hash| hash.cells.get(key)).copied();
                Said {
                    total: cell.map_or(0, Cell::count),
                    told: delta.ask.map(|_| Granted {
                        demand: cell.map_or(0, |cell| cell.demand),
                        grant: 0,
                    }),
                }
            };
            return batch.cells.iter().map(said).collect();
        }
        let is_open = micros(time) < micros(slot.window.end(slot.space.length()));
        let hash = self.hashes.entry(batch.id).or_default();
        let add = |(key, delta): &(Key, Delta)| {
            let before = hash.cells.get(key).copied().unwrap_or(Cell::NOTHING);
            let sum = i128::from(before.count()) + i128::from(delta.cost);
            let mut count = u64::try_from(sum.clamp(0, MAX_COUNT)).unwrap_or(0);
            let told = delta.ask.map(|ask| {
                let grant = grant(ask, as_float(delta.room), as_float(count), is_open);
                count += grant;
                Granted {
                    demand: before.demand.saturating_add_signed(ask.demand),
                    grant,
                }
            });
            let cell = Cell {
                value: Value::Count(count),
                demand: told.map_or(before.demand, |told| told.demand),
                level: match () {
                    () if count >= delta.room => 2,
                    () if count.saturating_mul(2) >= delta.room => 1,
                    () => 0,
                },
            };
            announce(before.level, cell, (*key, slot, count, time), announced);
            let cell = Cell {
                level: match cell.level {
                    0 => 0,
                    level => level.max(before.level),
                },
                ..cell
            };
            if delta.cost != 0 || delta.ask.is_some() {
                hash.cells.insert(*key, cell);
            }
            Said { total: count, told }
        };
        batch.cells.iter().map(add).collect()
    }

    fn buckets(
        &mut self,
        batch: &Batch,
        fits: bool,
        time: Timestamp,
        announced: &mut Vec<Announcement>,
    ) -> Vec<Said> {
        let slot = batch.id.slot;
        let at = |slot: Slot| HashId { slot, ..batch.id };
        let (before, after) = (at(slot.previous()), at(slot.next()));
        self.forget(before, time);
        self.forget(after, time);
        let now = as_float(micros(time));
        let slice = as_float(slot.space.length().get().div_ceil(1_000));
        let mut said = Vec::with_capacity(batch.cells.len());
        for (key, delta) in &batch.cells {
            let here = self.cell(batch.id, key);
            let found = here.or_else(|| self.cell(before, key));
            let mut cell = aged(found, now, slice);
            if here.is_none() {
                cell.demand = 0;
            }
            let (mut debt, last) = cell.debt();
            let mut told = delta.ask.map(|_| Granted {
                demand: cell.demand,
                grant: 0,
            });
            if fits {
                let mut change = as_signed_float(delta.cost);
                debt = (debt + change).max(0.0);
                let room = as_float(delta.room);
                if let (Some(ask), Some(told)) = (delta.ask, &mut told) {
                    told.demand = cell.demand.saturating_add_signed(ask.demand);
                    told.grant = grant(ask, room, debt, true);
                    debt += as_float(told.grant);
                    change += as_float(told.grant);
                    cell.demand = told.demand;
                }
                let unit = delta.ask.map_or(1.0, |ask| as_float(ask.unit));
                let before = cell.level;
                let reached = match () {
                    () if debt + unit > room => 2,
                    () if debt * 2.0 >= room => 1,
                    () => 0,
                };
                cell.level = reached;
                let total = whole(debt.ceil().min(MAX_DEBT));
                announce(before, cell, (*key, slot, total, time), announced);
                if reached > 0 {
                    cell.level = reached.max(before);
                }
                cell.value = Value::Debt { debt, last };
                if delta.cost != 0 || delta.ask.is_some() {
                    self.put(batch.id, *key, cell);
                    if let Some(later) = self.cell(after, key).filter(|_| change != 0.0) {
                        let later = aged(Some(later), now, slice);
                        let (debt, last) = later.debt();
                        let debt = (debt + change).max(0.0);
                        let value = Value::Debt { debt, last };
                        self.put(after, *key, Cell { value, ..later });
                    }
                }
            }
            let total = whole(debt.ceil().min(MAX_DEBT));
            said.push(Said { total, told });
        }
        said
    }

    fn cell(&self, id: HashId, key: &Key) -> Option<Cell> {
        self.hashes.get(&id)?.cells.get(key).copied()
    }

    fn put(&mut self, id: HashId, key: Key, cell: Cell) {
        let hash = self.hashes.entry(id).or_default();
        hash.cells.insert(key, cell);
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
    ) -> impl Iterator<Item = (HashId, u64, impl Iterator<Item = (Key, Cell)>)> {
        let live = self
            .hashes
            .iter()
            .filter(move |(_, hash)| millis(time) <= hash.expires);
        live.map(|(id, hash)| {
            let cells = hash.cells.iter().map(|(key, cell)| (*key, *cell));
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
        self.cells.get(key).map_or(0, |cell| cell.count())
    }
}

impl Cell {
    const NOTHING: Cell = Cell {
        value: Value::Count(0),
        demand: 0,
        level: 0,
    };

    fn count(self) -> u64 {
        match self.value {
            Value::Count(count) => count,
            Value::Debt { .. } => 0,
        }
    }

    /// The debt, and its time.
    fn debt(self) -> (f64, f64) {
        match self.value {
            Value::Debt { debt, last } => (debt, last),
            Value::Count(_) => (0.0, 0.0),
        }
    }
}

/// What is said of one cell of a batch.
#[derive(Clone, Copy, Debug)]
struct Said {
    total: u64,
    told: Option<Granted>,
}

/// What is granted of what is free beside `used`: whole units, no more than the node's
/// portion, but at least one.
fn grant(ask: Ask, room: f64, used: f64, is_open: bool) -> u64 {
    if ask.want == 0 || !is_open {
        return 0;
    }
    let (free, unit) = ((room - used).max(0.0), as_float(ask.unit));
    let portion = free * f64::from(ask.portion) / 1e6;
    let part = unit.max((portion / unit).floor() * unit);
    let all = (free / unit).floor() * unit;
    whole(as_float(ask.want).min(part).min(all))
}

/// Announces a cell that has reached a higher level than `before`.
fn announce(
    before: u8,
    cell: Cell,
    (key, slot, total, time): (Key, Slot, u64, Timestamp),
    announced: &mut Vec<Announcement>,
) {
    if cell.level > before {
        announced.push(Announcement {
            key,
            slot,
            level: if cell.level > 1 { Level::Full } else { Level::Half },
            total,
            demand: cell.demand,
            at: time,
        });
    }
}

/// What is left at `now` of a debt and its time.
fn aged(cell: Option<Cell>, now: f64, slice: f64) -> Cell {
    let fresh = Cell {
        value: Value::Debt {
            debt: 0.0,
            last: now,
        },
        ..Cell::NOTHING
    };
    let Some(cell) = cell else { return fresh };
    let (debt, last) = cell.debt();
    if last - now > slice {
        return fresh;
    }
    if now <= last {
        return cell;
    }
    let debt = (debt - (now - last) * 1_000.0).max(0.0);
    Cell {
        value: Value::Debt { debt, last: now },
        ..cell
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
