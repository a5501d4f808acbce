//! What the scripts of the sync do in the store, in memory and on a clock that is
//! handed in: `lua/sync_window.lua`, `lua/sync_bucket.lua`, `lua/sync_hello.lua` and
//! `lua/seal.lua`.

mod cells;
mod fleet;

use std::collections::{BTreeMap, HashMap};

use crate::algorithms::{Outcome, State, Verdict};
use crate::counters::{Announcement, HashId, Slot, Space};
use crate::engine::{Question, Ruling};
use crate::sync::batch::{
    Batch, BatchReply, Boot, Granted, Hello, HelloReply, LaneName, Stored, Token,
};
use crate::sync::seal::{self, Seal};
use crate::units::{Algorithm, Consistency, Key, MapHasher, Nanos, Partitions, Timestamp};
use cells::{Turn, float, owing};
use fleet::Members;

pub use cells::{Bucket, Count, Value};
pub use fleet::Terms;

/// A store of one fleet. A clone is what a replica or a dump holds.
#[derive(Clone, Debug, Default)]
pub struct SimStore {
    hashes: BTreeMap<HashId, Hash>,
    members: Members,
    seal: Option<Seal>,
}

#[derive(Clone, Debug, Default)]
struct Hash {
    /// In milliseconds.
    expires: u64,
    /// The token of each lane, and what its batch was granted.
    lanes: HashMap<LaneName, (Token, Vec<u64>)>,
    cells: HashMap<Key, Value, MapHasher>,
}

impl SimStore {
    /// Tells the seal at `time`, in the run of the server that is called `run`, to a node
    /// that was told seals up to the number `told`.
    pub fn seal(&mut self, run: &str, told: u64, time: Timestamp) -> Seal {
        let known = self.seal.take();
        let number = known.as_ref().map_or(0, Seal::number);
        let stands = known.clone().filter(|seal| {
            let is_new = seal.since() == Timestamp::EPOCH;
            let is_heir = number == told || (number > told && !is_new);
            seal.run() == run && (told == 0 || is_heir)
        });
        let seal = stands.unwrap_or_else(|| {
            let is_new = known.is_none() && told == 0;
            let since = if is_new { Timestamp::EPOCH } else { cut(time) };
            Seal::new(run, since, micros(time).max(number + 1).max(told + 1))
        });
        self.seal.insert(seal).clone()
    }

    /// Carries out a batch at `time`, which like a store's is cut to microseconds. What is
    /// announced to all nodes is added to `announced`. `seal` is the store's as the node
    /// knows it.
    pub fn batch(
        &mut self,
        batch: &Batch,
        seal: Option<&Seal>,
        time: Timestamp,
        announced: &mut Vec<Announcement>,
    ) -> BatchReply {
        let time = cut(time);
        self.forget(batch.id, time);
        let hash = self.hashes.get(&batch.id);
        let lane = hash.and_then(|hash| hash.lanes.get(&batch.lane));
        let stored = lane.map(|(token, _)| *token);
        let fits = stored == batch.previous;
        let before = match lane {
            Some((token, granted)) if *token == batch.new => granted.clone(),
            _ => Vec::new(),
        };
        let slot = batch.id.slot;
        let seal = seal.filter(|seal| seal.covers(slot));
        let remembers = seal.is_some() && seal == self.seal.as_ref();
        let lends = remembers && micros(time) >= micros_up(seal::lent_from(slot));
        let mut turn = Turn::new(batch, fits, lends, time, announced);
        match batch.id.slot.space {
            Space::Windows { .. } | Space::Calendar(_) => self.windows(batch, &mut turn),
            Space::Buckets { .. } => self.buckets(batch, &mut turn),
        }
        let Turn {
            totals,
            demands,
            granted,
            ..
        } = turn;
        let again = if fits { granted.clone() } else { before };
        if fits {
            let hash = self.hashes.entry(batch.id).or_default();
            hash.lanes.insert(batch.lane, (batch.new, granted));
            if stored.is_none() {
                hash.expires = millis(time) + batch.id.slot.time_to_live().as_millis_ceil();
            }
        }
        let grants = again.into_iter().chain(std::iter::repeat(0));
        let told = demands.into_iter().zip(grants);
        let token = if fits { Some(batch.new) } else { stored };
        BatchReply {
            token: token.map_or(Stored::Nothing, Stored::Token),
            totals,
            told: told
                .map(|(demand, grant)| Granted { demand, grant })
                .collect(),
            time,
        }
    }

    /// Decides a check of limits that count by windows, as `lua/strict.lua` does: all of
    /// them admit it, or none is charged. `None` for other limits, and if the store may have
    /// forgotten what counts now.
    pub fn rule(
        &mut self,
        question: &Question,
        partitions: Partitions,
        time: Timestamp,
    ) -> Option<Ruling> {
        let at = cut(time);
        let mut outcomes = Vec::with_capacity(question.limits.len());
        let mut places = Vec::with_capacity(question.limits.len());
        for one in &question.limits {
            let (limit, key) = (&one.limit, &one.key);
            let space = Space::of(&limit.quota);
            let slot = Slot {
                space,
                window: space.window(at),
            };
            let hash = |slot| HashId {
                partition: key.partition(partitions),
                slot,
            };
            let State::Window(mut state) = State::fresh(&limit.quota) else {
                return None;
            };
            let start = slot.start();
            let counts_from = match (limit.quota.algorithm(), limit.consistency) {
                (Algorithm::SlidingWindow, _) => slot.previous().start(),
                (_, Consistency::Bounded) => seal::lent_from(slot),
                _ => start,
            };
            if counts_from < self.seal.as_ref()?.since() {
                return None;
            }
            state.roll(&limit.quota, at);
            self.forget(hash(slot), at);
            for slot in [slot, slot.previous()] {
                let known = self.hashes.get(&hash(slot));
                state.set(slot.window, known.map_or(0, |hash| counted(hash, key)));
            }
            outcomes.push(state.take(&limit.quota, one.cost(question.cost), at));
            places.push((hash(slot), *key, one.cost(question.cost)));
        }
        let admits = |outcome: &Outcome| matches!(outcome.verdict, Verdict::Admitted { .. });
        if outcomes.iter().all(admits) && !question.cost.is_peek() {
            for (id, key, cost) in places {
                let hash = self.hashes.entry(id).or_insert_with(|| Hash {
                    expires: millis(at) + id.slot.time_to_live().as_millis_ceil(),
                    ..Hash::default()
                });
                let value = hash
                    .cells
                    .entry(key)
                    .or_insert(Value::Count(Count::default()));
                if let Value::Count(count) = value {
                    count.add(cost);
                }
            }
        }
        Some(Ruling {
            at,
            outcomes,
            dropped: Vec::new(),
        })
    }

    fn windows(&mut self, batch: &Batch, turn: &mut Turn<'_>) {
        let known = self.hashes.remove(&batch.id);
        let existed = known.is_some();
        let mut hash = known.unwrap_or_default();
        let mut changed = false;
        for (key, delta) in &batch.cells {
            let mut count = match hash.cells.get(key) {
                Some(Value::Count(count)) => *count,
                _ => Count::default(),
            };
            if turn.count(*key, delta, &mut count) {
                hash.cells.insert(*key, Value::Count(count));
                changed = true;
            }
        }
        if existed || changed {
            self.hashes.insert(batch.id, hash);
        }
    }

    fn buckets(&mut self, batch: &Batch, turn: &mut Turn<'_>) {
        let slot = batch.id.slot;
        let at = |slot: Slot| HashId { slot, ..batch.id };
        let (before, after) = (at(slot.previous()), at(slot.next()));
        self.forget(before, turn.time);
        self.forget(after, turn.time);
        for (key, delta) in &batch.cells {
            let (here, there) = (self.bucket(batch.id, key), self.bucket(before, key));
            let mut bucket = turn.aged(here.or(there));
            if here.is_none() {
                // Demand is reported anew in every slice.
                bucket.demand = 0.0;
            }
            let Some((cost, grant)) = turn.debt(*key, delta, &mut bucket) else {
                continue;
            };
            self.owe(batch.id, *key, bucket);
            if let Some(later) = self.bucket(after, key).filter(|_| cost + grant != 0.0) {
                let mut later = turn.aged(Some(later));
                later.debt = owing(later.debt, cost + grant, float(delta.room));
                self.owe(after, *key, later);
            }
        }
    }

    fn bucket(&self, id: HashId, key: &Key) -> Option<Bucket> {
        match self.hashes.get(&id)?.cells.get(key)? {
            Value::Debt(bucket) => Some(*bucket),
            Value::Count(_) => None,
        }
    }

    fn owe(&mut self, id: HashId, key: Key, bucket: Bucket) {
        let hash = self.hashes.entry(id).or_default();
        hash.cells.insert(key, Value::Debt(bucket));
    }

    /// A node whose terms are `terms` says hello at `time`.
    pub fn hello(&mut self, node: Boot, terms: Terms, hello: Hello, time: Timestamp) -> HelloReply {
        self.members.hello(node, terms, hello, cut(time))
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

    fn forget(&mut self, id: HashId, time: Timestamp) {
        let over = |hash: &Hash| millis(time) > hash.expires;
        if self.hashes.get(&id).is_some_and(over) {
            self.hashes.remove(&id);
        }
    }
}

fn micros(time: Timestamp) -> u64 {
    time.as_nanos() / 1_000
}

fn micros_up(time: Timestamp) -> u64 {
    time.as_nanos().div_ceil(1_000)
}

fn millis(time: Timestamp) -> u64 {
    time.as_nanos() / 1_000_000
}

fn cut(time: Timestamp) -> Timestamp {
    Timestamp::EPOCH.after(Nanos::new(micros(time) * 1_000))
}

/// The count of `key`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // It is in range.
fn counted(hash: &Hash, key: &Key) -> u64 {
    match hash.cells.get(key) {
        Some(Value::Count(count)) => count.total as u64,
        _ => 0,
    }
}
