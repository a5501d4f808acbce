use std::collections::VecDeque;
use std::sync::Arc;

use indexmap::IndexSet;

use super::Now;
use super::batch::{Batch, BatchReply, Boot, LaneName, Stored, Token};
use crate::counters::{Answer, Counters, Delta, HashId, Told};
use crate::units::{Key, MapHasher, Nanos, Partitions, Timestamp};

/// One node's way into one hash: batches one after the other, each applied at most
/// once, and the memory needed to find out what became of them.
#[derive(Debug)]
pub(super) struct Lane {
    id: HashId,
    name: LaneName,
    /// The token that the hash is known to hold.
    token: Option<Token>,
    /// Numbers the tokens; a new generation begins when the hash was lost.
    generation: u32,
    next_number: u64,
    in_flight: Option<Arc<Batch>>,
    /// Batches that a failover has undone, to be applied again before anything new.
    replays: VecDeque<Arc<Batch>>,
    /// Batches known to have been applied, with the time of the answer.
    applied: VecDeque<(Timestamp, Arc<Batch>)>,
    /// What the applied batches weigh.
    weight: usize,
    /// Cells that have something for this hash.
    waiting: IndexSet<Key, MapHasher>,
    /// When the store last answered, on this machine's clock.
    contact: Timestamp,
    /// When the oldest cost that waits, and the oldest that is under way, came in, on
    /// this machine's clock.
    waiting_since: Option<Timestamp>,
    sent_since: Option<Timestamp>,
    /// How often the hash was lost since a batch was last applied.
    losses: u32,
    stage: Stage,
}

/// Where a lane stands, so that it stands in one place only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has nothing to send.
    Idle,
    /// It is in the queue of those that can send, or will be after a pause.
    Queued,
    /// Its batch is under way.
    Sent,
}

/// The most cells in one batch: about 100 µs of the store's time.
pub(super) const MAX_CELLS: usize = 64;
/// Applied batches are remembered longer than a replica lags behind, as long as they
/// weigh no more than this: a delta weighs 1, a batch 4 besides.
const REMEMBERED: Nanos = Nanos::from_secs(10);
const MAX_WEIGHT: usize = 16_384;

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Applied, once; its totals were taken in.
    Applied,
    /// The hash was lost: this node's own counts are pending again.
    Reopened,
    /// A failover has lost the last batches: they are sent again.
    Replaying,
    /// The lane holds what this node never wrote, or no longer knows: it goes on in
    /// another lane.
    Renamed,
}

impl Lane {
    pub(super) fn new(id: HashId, boot: Boot, now: Now) -> Lane {
        Lane {
            id,
            name: LaneName { boot, number: 0 },
            token: None,
            generation: 0,
            next_number: 1,
            in_flight: None,
            replays: VecDeque::new(),
            applied: VecDeque::new(),
            weight: 0,
            waiting: IndexSet::with_hasher(MapHasher::default()),
            contact: now.local,
            waiting_since: None,
            sent_since: None,
            losses: 0,
            stage: Stage::Idle,
        }
    }

    /// A cell has something for this hash.
    pub(super) fn push(&mut self, key: Key, now: Now) {
        self.waiting_since.get_or_insert(now.local);
        self.waiting.insert(key);
    }

    /// Whether the lane must be put into the queue of those that can send; it then
    /// counts as being there.
    pub(super) fn enqueue(&mut self) -> bool {
        let idle = self.stage == Stage::Idle && self.is_busy();
        if idle {
            self.stage = Stage::Queued;
        }
        idle
    }

    /// The same, for a lane that has nothing to send but should look at its hash.
    pub(super) fn enqueue_overdue(&mut self, now: Now) -> bool {
        self.is_overdue(now) && self.enqueue_known()
    }

    /// The same, overdue or not, for a lane that has ever written to its hash.
    pub(super) fn enqueue_known(&mut self) -> bool {
        let known = self.stage == Stage::Idle && self.token.is_some();
        if known {
            self.stage = Stage::Queued;
        }
        known
    }

    /// The batch under way has failed: the lane is to be put into the queue again.
    pub(super) fn failed(&mut self) {
        self.stage = Stage::Queued;
    }

    /// Whether the hash was lost again before anything could be put into it.
    pub(super) fn is_lost_again(&self) -> bool {
        self.losses > 1
    }

    /// Whether anything is on its way, or waits to be.
    fn is_busy(&self) -> bool {
        self.in_flight.is_some() || !self.replays.is_empty() || !self.waiting.is_empty()
    }

    /// Whether nothing is on its way, and nothing is to be sent or looked at.
    pub(super) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle && !self.is_busy()
    }

    /// Whether the lane's hash should be looked at, so that a loss is noticed while
    /// anybody reads it.
    fn is_overdue(&self, now: Now) -> bool {
        let patience = self.id.slot.reach().divided_by(4);
        let patience = patience.max(Nanos::from_secs(1)).min(Nanos::from_secs(10));
        self.id.slot.is_read(now.fleet) && now.local.since(self.contact) >= patience
    }

    /// The age of the oldest cost that the store has not acknowledged.
    pub(super) fn lag(&self, now: Now) -> Nanos {
        let oldest = self.sent_since.or(self.waiting_since);
        oldest.map_or(Nanos::ZERO, |since| now.local.since(since))
    }

    /// The cells that still wait, when the lane ends.
    pub(super) fn into_waiting(self) -> impl Iterator<Item = Key> {
        self.waiting.into_iter()
    }

    /// The batch to send: the one whose fate is unknown, else the next replay, else
    /// a new one of the cells that wait. Cells that have more to send elsewhere are
    /// added to `rest`.
    pub(super) fn next(&mut self, cells: &Counters, now: Now, rest: &mut Vec<Key>) -> Arc<Batch> {
        self.stage = Stage::Sent;
        if let Some(batch) = &self.in_flight {
            return Arc::clone(batch);
        }
        let batch = match self.replays.pop_front() {
            Some(replay) => Arc::new(Batch {
                lane: self.name,
                previous: self.token,
                ..Batch::clone(&replay)
            }),
            None => Arc::new(self.freeze(cells, now, rest)),
        };
        self.in_flight = Some(Arc::clone(&batch));
        batch
    }

    fn freeze(&mut self, cells: &Counters, now: Now, rest: &mut Vec<Key>) -> Batch {
        let first = self.waiting.drain(..self.waiting.len().min(MAX_CELLS));
        let slot = self.id.slot;
        let frozen = first
            .filter_map(|key| Some((key, cells.freeze(key, slot, now.fleet, rest)?)))
            .collect();
        self.sent_since = self.waiting_since;
        if self.waiting.is_empty() {
            self.waiting_since = None;
        }
        let new = Token {
            generation: self.generation,
            number: self.next_number,
        };
        self.next_number += 1;
        Batch {
            id: self.id,
            lane: self.name,
            previous: self.token,
            new,
            cells: frozen,
        }
    }

    /// Takes in the store's answer to the batch in flight. Cells that should be looked
    /// at again are added to `again`, with the time until then.
    pub(super) fn answer(
        &mut self,
        reply: &BatchReply,
        cells: &Counters,
        partitions: Partitions,
        now: Now,
        again: &mut Vec<(Nanos, Key)>,
    ) -> Option<Fate> {
        let batch = self.in_flight.take()?;
        self.contact = now.local;
        self.stage = Stage::Idle;
        let fate = match reply.token {
            Stored::Token(token) if token == batch.new => {
                let granted = self.absorb(batch, reply, cells, now, again);
                self.token = Some(token);
                self.remember(granted, now);
                self.losses = 0;
                Fate::Applied
            }
            Stored::Nothing => {
                self.restart(None, cells, partitions, now);
                Fate::Reopened
            }
            Stored::Token(token) => self.recover(token, batch, cells, partitions, now),
            Stored::Foreign => {
                self.rename(batch);
                Fate::Renamed
            }
        };
        if self.in_flight.is_none() && self.replays.is_empty() {
            self.sent_since = None;
        }
        Some(fate)
    }

    /// Tells the cells what the store answered. Answers the batch as it is remembered:
    /// what was granted is part of its deltas, so that applied again to a store that has
    /// forgotten it, it restores the same sums.
    fn absorb(
        &self,
        batch: Arc<Batch>,
        reply: &BatchReply,
        cells: &Counters,
        now: Now,
        again: &mut Vec<(Nanos, Key)>,
    ) -> Arc<Batch> {
        let mut told = reply.told.iter();
        let mut tell = |key: Key, delta: Delta, total: u64| -> Delta {
            let granted = delta.ask.and_then(|ask| Some((ask, told.next()?)));
            let answer = Answer {
                total,
                upto: delta.upto,
                at: reply.time,
                told: granted.map(|(ask, granted)| Told {
                    demand: granted.demand,
                    grant: granted.grant,
                    wanted: ask.want > 0,
                }),
            };
            if let Some(wait) = cells.absorb(key, self.id.slot, answer, now.fleet) {
                again.push((wait, key));
            }
            granted.map_or(delta, |(ask, granted)| delta.granted(ask, granted.grant))
        };
        if reply.told.is_empty() {
            for ((key, delta), total) in batch.cells.iter().zip(&reply.totals) {
                tell(*key, *delta, *total);
            }
            return batch;
        }
        let told = batch.cells.iter().zip(&reply.totals);
        let granted = told
            .map(|((key, delta), total)| (*key, tell(*key, *delta, *total)))
            .collect();
        Arc::new(Batch {
            cells: granted,
            ..Batch::clone(&batch)
        })
    }

    fn remember(&mut self, batch: Arc<Batch>, now: Now) {
        self.weight += weight(&batch);
        self.applied.push_back((now.local, batch));
        while let Some((at, oldest)) = self.applied.front() {
            if self.weight <= MAX_WEIGHT && now.local.since(*at) <= REMEMBERED {
                break;
            }
            self.weight -= weight(oldest);
            self.applied.pop_front();
        }
    }

    /// The hash holds an older token of ours.
    fn recover(
        &mut self,
        token: Token,
        batch: Arc<Batch>,
        cells: &Counters,
        partitions: Partitions,
        now: Now,
    ) -> Fate {
        let mut applied = self.applied.iter();
        let known = applied.position(|(_, applied)| applied.new == token);
        let is_ours = token.generation == self.generation && token.number < batch.new.number;
        match known {
            // A failover to a replica that had not heard of the last batches; older than
            // those remembered, it costs what lies between.
            _ if is_ours => {
                let tail = self.applied.split_off(known.map_or(0, |at| at + 1));
                self.weight = self.applied.iter().map(|(_, batch)| weight(batch)).sum();
                let mut again: VecDeque<_> = tail.into_iter().map(|(_, batch)| batch).collect();
                again.retain(|batch| batch.new.generation == self.generation);
                again.push_back(batch);
                again.append(&mut self.replays);
                self.replays = again;
                self.token = Some(token);
                Fate::Replaying
            }
            // The first batch of an older generation came late, into the hash that
            // was lost: of ours, the hash holds that batch and nothing else.
            Some(at) if self.applied[at].1.previous.is_none() => {
                let late = Arc::clone(&self.applied[at].1);
                self.restart(Some(token), cells, partitions, now);
                for (key, delta) in &late.cells {
                    cells.credit(*key, self.id.slot, *delta);
                }
                Fate::Reopened
            }
            _ => {
                self.rename(batch);
                Fate::Renamed
            }
        }
    }

    /// Begins a new generation: all that this node has contributed is pending again.
    fn restart(
        &mut self,
        token: Option<Token>,
        cells: &Counters,
        partitions: Partitions,
        now: Now,
    ) {
        self.losses = self.losses.saturating_add(1);
        self.replays.clear();
        self.generation += 1;
        self.next_number = 1;
        self.token = token;
        self.waiting
            .extend(cells.rewind(self.id, partitions, now.fleet));
    }

    /// Goes on in a lane that does not exist yet, beginning with `batch`.
    fn rename(&mut self, batch: Arc<Batch>) {
        self.name.number += 1;
        self.token = None;
        self.applied.clear();
        self.weight = 0;
        let batch = Batch {
            lane: self.name,
            previous: None,
            ..Batch::clone(&batch)
        };
        self.in_flight = Some(Arc::new(batch));
    }
}

fn weight(batch: &Batch) -> usize {
    batch.cells.len() + 4
}
