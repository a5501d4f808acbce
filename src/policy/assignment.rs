//! What a gateway that decides by itself is assigned: quota that was taken for it before.
//!
//! Such a gateway asks nothing. It reports from time to time what it has admitted and
//! refused, and is told in return what it may admit until it is told again. Whatever it is
//! told, that much was taken from the limit first, by a decision like any other. So no
//! estimate can make a fleet admit more than its limits; demand, which is estimated in
//! floating point, only says who gets it.
//!
//! What was taken and not reported as used yet is *held*. A lump is held where the limit's
//! period is long against the time between two reports: all that there is until the next
//! one. Where it is short, a rate is assigned, and what it needs is taken tick by tick; of a
//! rate a bucket's content is beyond what was taken, until it is reported and charged.
//!
//! At each report, and whenever [`Told::look_again`] is over: [`Subscriber::reported`] (and
//! the charge that it answers), [`Subscriber::wanted`], the move at the limit and
//! [`Subscriber::took`] or [`Subscriber::gave_back`], then [`Subscriber::told`] by the room
//! that is left. When a subscriber goes, what it [holds](Subscriber::held) is given back once
//! its gateway [cannot spend it any more](Subscriber::spends_until).

mod rate;
mod room;
mod spent;
mod told;
mod usage;
mod wanted;

#[cfg(test)]
mod tests;

use super::Supply;
use crate::units::{Cost, Nanos, Timestamp};
use rate::{Rate, Reserve};
use spent::{Paid, Past};
use usage::Usage;

pub use room::{Move, Peers, Room};
pub use told::{Assignment, Told};

/// One bucket of one gateway, which decides by itself.
#[derive(Clone, Debug)]
pub struct Subscriber {
    usage: Usage,
    /// Taken, and not reported as used.
    held: u64,
    /// Held when its window ended: what is reported may have been used of it, but it admits
    /// nothing any more.
    past: Past,
    /// Taken for ticks that are over, and not reported as used.
    paid: Paid,
    /// When what is held ceases to count, where that comes at once.
    turns_at: Option<Timestamp>,
    /// When that was the last time.
    turned: Timestamp,
    /// When something was taken for it last, or nothing needed to be.
    served: Timestamp,
    /// How much of what is held was held already at this moment.
    oldest: (Timestamp, u64),
    rate: Rate,
    reserve: Reserve,
    ticked: Timestamp,
    said: Option<Said>,
    /// Whether what is held has changed since it was told.
    changed: bool,
    /// Whether it needs more than what this node takes at once.
    is_short: bool,
    serial: u32,
}

/// What a subscriber was told last.
#[derive(Clone, Copy, Debug)]
struct Said {
    assignment: Assignment,
    /// When it was told first, and last.
    first: Timestamp,
    last: Timestamp,
    /// For how long.
    lives: Nanos,
}

/// A rate is taken for in so many ticks a period: the less is taken at once, the sooner the
/// nodes of a fleet hear of each other's.
const TICKS: u64 = 10;
/// But they are at least so long.
const SHORTEST_TICK: Nanos = Nanos::from_millis(100);
/// An assignment is told again when this part of its life is over: at each report, so that
/// one may be missed.
const AGEING: u64 = 4;
/// What could not be taken is asked for again when this part of the time between two reports
/// is over,
const SOON: u64 = 4;
/// but no sooner than this.
const SHORTEST_WAIT: Nanos = Nanos::from_millis(20);

impl Subscriber {
    /// A bucket that was reported for the first time at `now`.
    pub fn new(now: Timestamp) -> Subscriber {
        Subscriber {
            usage: Usage::new(now),
            held: 0,
            past: Past::default(),
            paid: Paid::default(),
            turns_at: None,
            turned: Timestamp::EPOCH,
            served: now,
            oldest: (now, 0),
            rate: Rate::default(),
            reserve: Reserve::default(),
            ticked: Timestamp::EPOCH,
            said: None,
            changed: false,
            is_short: false,
            serial: 0,
        }
    }

    /// The gateway has admitted and refused so many since its last report. Answers what is
    /// to be charged past the limit: what it admitted beyond what was taken for it.
    #[must_use]
    pub fn reported(&mut self, allowed: u64, denied: u64, now: Timestamp) -> Cost {
        let past = std::mem::take(&mut self.past);
        let before = self.usage.before(allowed, past.until, now);
        self.usage.report(allowed, denied, now);
        let rest = allowed - past.settle(allowed, before, self.held);
        let rest = rest - self.paid.settle(rest);
        let of_held = rest.min(self.held);
        self.held -= of_held;
        self.oldest.1 = self.oldest.1.saturating_sub(of_held);
        Cost::new(rest - of_held)
    }

    /// What the gateway is asked for, per second: what it refuses is in it.
    pub fn demand(&self) -> f64 {
        self.usage.demand()
    }

    /// What was taken for it and is not reported as used.
    pub fn held(&self) -> Cost {
        Cost::new(self.held)
    }

    /// What of it is left by now, if it goes on as it was last reported.
    pub fn left(&self, now: Timestamp) -> Cost {
        Cost::new(
            self.held
                .saturating_sub(self.usage.expected(self.turned, now)),
        )
    }

    /// How long what it is told holds if it hears no more.
    pub fn time_to_live(&self) -> Nanos {
        self.usage.time_to_live()
    }

    /// What was taken for it and may be reported as used yet: what it holds, and what it held
    /// of times that are over.
    pub fn unsettled(&self) -> Cost {
        let past = self.past.cost().saturating_add(self.paid.cost());
        Cost::new(self.held.saturating_add(past))
    }

    /// What was asked of it since it last took what it needed: it waits for that much.
    pub fn waits(&self, now: Timestamp) -> f64 {
        let longest = self.usage.interval().times(2);
        self.demand() * now.since(self.served).min(longest).as_secs_f64()
    }

    /// Until when the gateway may spend what it was told of if it hears no more: its time to
    /// live, or for a lump the end of its window; `None` if it was told nothing.
    pub fn spends_until(&self) -> Option<Timestamp> {
        let said = self.said?;
        let until = said.last.after(said.lives);
        let turn = self.turns_at.filter(|_| said.assignment.is_lump());
        Some(turn.map_or(until, |turn| until.min(turn)))
    }

    /// It goes on where no word may have come to the gateway: it is told anew what it holds.
    pub fn resume(&mut self) {
        self.changed |= self.held > 0;
        if let Some(said) = &mut self.said {
            said.last = Timestamp::EPOCH;
        }
    }

    /// What does not count at its limit any more is not held, though it was never reported.
    pub fn lapse(&mut self, room: &Room, now: Timestamp) {
        if self.has_lumps(room) {
            self.forget_old(room, now);
        } else if now.since(self.ticked) >= tick(room) {
            self.paid.add(std::mem::take(&mut self.held));
        }
    }

    /// Whether nothing was asked of it for so long that it is to be abandoned.
    /// `period` is its limit's.
    pub fn is_idle(&self, period: Nanos, now: Timestamp) -> bool {
        self.usage.is_idle(period, now)
    }

    /// What is to be taken from the limit or given back before it is told anything.
    pub fn wanted(&mut self, room: &Room, peers: &Peers, now: Timestamp) -> Move {
        if self.has_lumps(room) {
            self.forget_old(room, now);
            self.rate = Rate::default();
            self.wanted_lump(room, peers, now)
        } else {
            self.wanted_for_tick(room, peers, now)
        }
    }

    /// So much was taken for it.
    pub fn took(&mut self, cost: Cost, now: Timestamp) {
        if self.held == 0 {
            self.oldest = (now, cost.get());
        }
        self.held = self.held.saturating_add(cost.get());
        self.rate.grant(cost);
        self.changed |= !cost.is_peek();
    }

    /// So much of what it holds was given back.
    pub fn gave_back(&mut self, cost: Cost) {
        self.held = self.held.saturating_sub(cost.get());
        self.oldest.1 = self.oldest.1.min(self.held);
        self.changed |= !cost.is_peek();
    }

    /// What it is to be told, if that is new, by the limit's `room` after what was taken or
    /// given back; and when to look again although it has not reported.
    pub fn told(&mut self, room: &Room, now: Timestamp) -> Told {
        let (assignment, look_again) = match self.has_lumps(room) {
            true => (self.lump(room, now), self.next_lump(room)),
            false => {
                let next = self.ticked.after(tick(room)).since(now);
                (self.granted_rate(room), Some(next.max(SHORTEST_WAIT)))
            }
        };
        Told {
            look_again,
            ..self.tell(assignment, now)
        }
    }

    /// The same where no limit has a say: the `assignment` is one for all requests.
    pub fn tell(&mut self, assignment: Assignment, now: Timestamp) -> Told {
        let time_to_live = self.usage.time_to_live();
        Told {
            assignment: self.news(assignment, time_to_live, now),
            time_to_live,
            look_again: None,
        }
    }

    /// When a lump is to be looked at, although nothing is reported.
    fn next_lump(&self, room: &Room) -> Option<Nanos> {
        let soon = self.usage.interval().divided_by(SOON).max(SHORTEST_WAIT);
        let turns = room.supply == Supply::AtTheTurn && !room.reset_after.is_zero();
        let refused = self.held == 0 && !turns;
        let waits = [
            turns.then_some(room.reset_after),
            refused.then(|| soon.max(room.retry_after.unwrap_or(soon))),
            self.is_short.then_some(soon),
        ];
        waits.into_iter().flatten().min()
    }

    /// The assignment, if it is to be told: it is new, or was told too long ago.
    fn news(&mut self, next: Assignment, lives: Nanos, now: Timestamp) -> Option<Assignment> {
        let known = self
            .said
            .filter(|said| said.assignment.serves_for(next, now.since(said.first)));
        let said = match known {
            Some(said) if now.since(said.last) < said.lives.divided_by(AGEING) => return None,
            Some(said) => Said {
                last: now,
                lives,
                ..said
            },
            None => Said {
                assignment: next,
                first: now,
                last: now,
                lives,
            },
        };
        self.said = Some(said);
        Some(said.assignment)
    }

    fn has_lumps(&self, room: &Room) -> bool {
        // A little less than twice as long, so that no jitter makes it now one and now the other.
        room.period >= self.usage.interval().times(9).divided_by(5)
    }

    /// What ceased to count is held no longer.
    fn forget_old(&mut self, room: &Room, now: Timestamp) {
        if room.supply == Supply::AtTheTurn {
            // It ends in the next period, unless the clock has been set back.
            let ends = |turn: Timestamp| turn <= now || turn.since(now) > room.period.times(2);
            if self.turns_at.is_some_and(ends) {
                self.turns_at = None;
                let held = std::mem::take(&mut self.held);
                let used = self.usage.expected(self.turned, now);
                self.past.add(held, used, now);
                self.turned = now;
                self.oldest.1 = 0;
                self.changed |= held > 0;
            }
        } else if now.since(self.oldest.0) >= room.period.divided_by(2) {
            // It was not used, and is told anew at once.
            let old = self.oldest.1.min(self.held);
            self.held -= old;
            self.changed |= old > 0;
            self.oldest = (now, self.held);
        }
    }

    /// A lump of all that is left of what is held.
    fn lump(&mut self, room: &Room, now: Timestamp) -> Assignment {
        if room.supply == Supply::AtTheTurn && !room.reset_after.is_zero() {
            self.turns_at = Some(now.after(room.reset_after));
        }
        if self.held == 0 {
            self.changed = false;
            return Assignment::DenyAll;
        }
        let said = self.said.map(|said| said.assignment);
        if let Some(said) = said.filter(|said| said.is_lump() && !self.changed) {
            return said;
        }
        self.changed = false;
        // A lump is all there: without what was used since the last report.
        match self.left(now).get() {
            0 => Assignment::DenyAll,
            left => told::lump(left, self.next_serial()),
        }
    }

    /// The rate of what was granted in the last ticks.
    fn granted_rate(&mut self, room: &Room) -> Assignment {
        self.changed = false;
        let longer = |wait| wait > room.period.times(2);
        if room.retry_after.is_some_and(longer) {
            // Not this limit refuses, but one with a longer period: no rate goes on till then.
            self.rate = Rate::default();
            return Assignment::DenyAll;
        }
        let serial = self.next_serial();
        self.rate
            .assignment(self.demand(), room.period, self.reserve, serial)
    }

    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial % told::SERIALS + 1;
        self.serial
    }
}

/// How often a rate is taken for.
fn tick(room: &Room) -> Nanos {
    room.period.divided_by(TICKS).max(SHORTEST_TICK)
}

/// A number that is not negative, cut to a whole one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Casts saturate.
fn whole(number: f64) -> u64 {
    number as u64
}
