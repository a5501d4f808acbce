//! What a batch does to one cell. The scripts count in floating-point numbers, and so
//! does this: every rounding is the same.

use super::micros;
use crate::counters::{Announcement, Ask, Delta, Level, Slot};
use crate::sync::batch::Batch;
use crate::units::{Consistency, Cost, Key, Timestamp};

/// What a cell's field holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Of a window.
    Count(Count),
    /// Of a bucket.
    Debt(Bucket),
}

/// The count of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
    /// What was used and what is lent.
    pub total: f64,
    /// The demand that the nodes report, in thousandths of cost per second.
    pub demand: f64,
    /// What was announced: half full is 1, full is 2.
    pub level: u8,
}

impl Count {
    /// A cost was admitted by the store itself.
    pub(super) fn add(&mut self, cost: Cost) {
        self.total = (self.total + float(cost.get())).min(MAX_COUNT);
    }
}

/// The debt of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The time in ns that the bucket takes to drain.
    pub debt: f64,
    /// When it owed that, in µs.
    pub last: f64,
    /// See [`Count::demand`].
    pub demand: f64,
    /// See [`Count::level`].
    pub level: u8,
}

/// Beyond 2^53 a count would no longer be exact.
const MAX_COUNT: f64 = 9_007_199_254_740_992.0;
/// The largest number below 2^63 that a double can hold.
const MAX_DEBT: f64 = 9_223_372_036_854_774_784.0;

/// One batch's turn in the store.
pub(super) struct Turn<'a> {
    pub(super) time: Timestamp,
    pub(super) totals: Vec<u64>,
    pub(super) demands: Vec<u64>,
    pub(super) granted: Vec<u64>,
    fits: bool,
    /// Whether anything is lent that must not be forgotten.
    lends: bool,
    /// Whether anything is still lent for the slot.
    open: bool,
    slot: Slot,
    now: f64,
    slice: f64,
    announced: &'a mut Vec<Announcement>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        batch: &Batch,
        fits: bool,
        lends: bool,
        time: Timestamp,
        announced: &'a mut Vec<Announcement>,
    ) -> Turn<'a> {
        let slot = batch.id.slot;
        let open = !slot.space.counts() || micros(time) < micros(slot.end());
        Turn {
            time,
            totals: Vec::with_capacity(batch.cells.len()),
            demands: Vec::new(),
            granted: Vec::new(),
            fits,
            lends,
            open,
            slot,
            now: float(micros(time)),
            slice: float(slot.length().get().div_ceil(1_000)),
            announced,
        }
    }

    /// Does what `delta` says to a window's count, and answers whether it is to be stored.
    pub(super) fn count(&mut self, key: Key, delta: &Delta, count: &mut Count) -> bool {
        if !self.fits {
            self.answer(delta, count.total, count.demand);
            return false;
        }
        count.total = (count.total + signed(delta.cost)).clamp(0.0, MAX_COUNT);
        if let Some(ask) = delta.ask {
            count.demand = (count.demand + signed(ask.demand)).clamp(0.0, MAX_COUNT);
            let sealed = ask.promise == Consistency::Bounded;
            let free = float(delta.room) - count.total;
            count.total += self.grant(ask, free, self.open && (self.lends || !sealed));
        }
        let (total, room) = (count.total, float(delta.room));
        let reached = match total {
            total if total >= room => 2,
            total if total * 2.0 >= room => 1,
            _ => 0,
        };
        let told = count.level;
        let large = is_large(delta, total);
        self.reach(key, (reached, large), &mut count.level, total, count.demand);
        self.answer(delta, total, count.demand);
        delta.cost != 0 || delta.ask.is_some() || count.level != told
    }

    /// The same to a bucket's debt; answers the delta and
    /// the grant that were added to it if it is to be stored.
    pub(super) fn debt(
        &mut self,
        key: Key,
        delta: &Delta,
        bucket: &mut Bucket,
    ) -> Option<(f64, f64)> {
        if !self.fits {
            self.answer(delta, bucket.debt.ceil().min(MAX_DEBT), bucket.demand);
            return None;
        }
        let (cost, mut grant) = (signed(delta.cost), 0.0);
        bucket.debt = owing(bucket.debt, cost, float(delta.room));
        if let Some(ask) = delta.ask {
            bucket.demand = (bucket.demand + signed(ask.demand)).clamp(0.0, MAX_COUNT);
            grant = self.grant(ask, float(delta.room) - bucket.debt, self.open);
            bucket.debt += grant;
        }
        let (debt, room) = (bucket.debt, float(delta.room));
        let reached = match debt {
            // A bucket that drains while it fills is never quite full.
            debt if debt * 8.0 >= room * 7.0 => 2,
            debt if debt * 2.0 >= room => 1,
            _ => 0,
        };
        let large = is_large(delta, debt);
        let debt = debt.ceil().min(MAX_DEBT);
        let told = bucket.level;
        self.reach(
            key,
            (reached, large),
            &mut bucket.level,
            debt,
            bucket.demand,
        );
        self.answer(delta, debt, bucket.demand);
        let changed = delta.cost != 0 || delta.ask.is_some() || bucket.level != told;
        changed.then_some((cost, grant))
    }

    /// What is left of a bucket's debt now.
    pub(super) fn aged(&self, bucket: Option<Bucket>) -> Bucket {
        let empty = Bucket {
            debt: 0.0,
            last: self.now,
            demand: 0.0,
            level: 0,
        };
        match bucket {
            None => empty,
            // A clock that stepped back neither repays nor freezes.
            Some(bucket) if bucket.last - self.now > self.slice => empty,
            Some(bucket) if self.now > bucket.last => Bucket {
                debt: (bucket.debt - (self.now - bucket.last) * 1_000.0).max(0.0),
                last: self.now,
                ..bucket
            },
            Some(bucket) => bucket,
        }
    }

    fn grant(&mut self, ask: Ask, free: f64, lends: bool) -> f64 {
        let mut grant = 0.0;
        if ask.want > 0 && lends {
            let (free, unit) = (free.max(0.0), float(ask.unit));
            let part = free * f64::from(ask.portion) / 1_000_000.0 / unit;
            let part = unit.max(part.floor() * unit);
            grant = float(ask.want).min(part).min((free / unit).floor() * unit);
        }
        self.granted.push(whole(grant));
        grant
    }

    /// Announces that a cell has reached a level, once, or that much has come to it.
    fn reach(
        &mut self,
        key: Key,
        (reached, large): (u8, bool),
        level: &mut u8,
        total: f64,
        demand: f64,
    ) {
        if reached > *level || large {
            let announcement = Announcement {
                key,
                slot: self.slot,
                level: if reached == 2 {
                    Level::Full
                } else {
                    Level::Half
                },
                total: whole(total),
                demand: whole(demand),
                at: self.time,
            };
            self.announced.push(announcement);
            *level = reached.max(*level);
        } else if reached == 0 {
            *level = 0;
        }
    }

    fn answer(&mut self, delta: &Delta, total: f64, demand: f64) {
        self.totals.push(whole(total));
        if delta.ask.is_some() {
            self.demands.push(whole(demand));
        }
    }
}

/// What a bucket with this `debt` and `room` owes after `cost`: no cost takes it past twice
/// its room.
pub(super) fn owing(debt: f64, cost: f64, room: f64) -> f64 {
    let most = if cost > 0.0 {
        debt.max(2.0 * room)
    } else {
        debt
    };
    (debt + cost).min(most).clamp(0.0, MAX_DEBT)
}

/// Whether a delta leaves so little, as its node says, that all must know.
fn is_large(delta: &Delta, total: f64) -> bool {
    let from = delta.ask.map_or(0, |ask| ask.announced_from);
    delta.cost > 0 && from > 0 && total >= float(from)
}

#[allow(clippy::cast_precision_loss)] // As in the scripts.
pub(super) fn float(number: u64) -> f64 {
    number as f64
}

#[allow(clippy::cast_precision_loss)] // As in the scripts.
fn signed(number: i64) -> f64 {
    number as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // It is in range.
fn whole(number: f64) -> u64 {
    number as u64
}
