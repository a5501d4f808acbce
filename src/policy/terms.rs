use super::{Pressure, near_interval};
use crate::units::{Consistency, Cost, Nanos, Pace};

/// How a limit gets its room back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// All at once, at the end of its window.
    AtTheTurn,
    /// Bit by bit, at an even rate.
    Continuous,
    /// As it was used, a period later.
    Trailing,
}

/// What the policy knows of a limit, and of the fleet that counts it.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// When costs are sent.
    pub pace: Pace,
    /// The limit's window, or the time in which it supplies its amount.
    pub period: Nanos,
    /// What the limit supplies in a period.
    pub amount: u64,
    /// The most it admits at once.
    pub capacity: u64,
    /// How it gets its room back.
    pub supply: Supply,
    /// Whether nothing may be admitted without a lease.
    pub promise: Consistency,
    /// Live nodes, this one among them.
    pub nodes: u32,
    /// How long an exchange with the store takes.
    pub trip: Nanos,
}

/// What a node knows of a cell near its limit at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// What counts against the limit, as this node believes: what the store told, the
    /// leases of other nodes with it, and what was admitted here; without the own lease.
    pub used: u64,
    /// What is left of the own lease.
    pub hold: u64,
    /// Admitted here without a lease and not yet sent.
    pub unsent: u64,
    /// How long ago the store told of the cell; since the window's beginning if it has
    /// not told of this window.
    pub age: Nanos,
    /// Whether the store has told of the present window, and of late.
    pub heard: bool,
    /// How long until the limit has its room back at once, or a period.
    pub left: Nanos,
    /// The demand here, and of the whole fleet, in cost per second.
    pub own: f64,
    /// See `own`.
    pub fleet: f64,
    /// What of `fleet` is no chance.
    pub at_least: f64,
    /// The fleet's demand that is beyond doubt: what the store told, and no more here than
    /// a burst of a few checks cannot feign.
    pub certain: f64,
    /// This node's part of the fleet's demand when the store last told.
    pub share_then: f64,
    /// Whether what was sent last has not been answered for so long that the store's
    /// silence means nothing.
    pub overdue: bool,
}

/// What demand may use up of the limit before the push comes: a fiftieth.
const EXPOSED: f64 = 0.02;
/// A cell that will not use more than this part of its limit is far from it.
const FAR: f64 = 0.7;
/// Leases cover the demand expected plus so many standard deviations.
const DEVIATIONS: f64 = 2.0;
/// A limit is lent out if there is so much of it for every node.
const LENDABLE: u64 = 100;
/// A node sends when what it has admitted makes the others exceed this part of what is left
/// to them.
const PATIENT_PART: f64 = 0.5;
/// This part of a limit, over all nodes, is not worth a message.
const HARDLY: f64 = 0.015;
/// A node's part of the demand has grown if it is so many times what it was.
const MUCH_MORE: f64 = 2.0;
/// If the store has never told of the cell, it sends when it has admitted this part of its
/// share of what is left.
const UNHEARD_PART: f64 = 0.125;

#[allow(clippy::cast_precision_loss)]
fn float(number: u64) -> f64 {
    number as f64
}

/// What covers a demand that is `expected` on average.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturates; never negative.
fn covering(expected: f64) -> u64 {
    (expected + DEVIATIONS * expected.sqrt() + 1.0).ceil() as u64
}

/// Whether a limit of this `capacity` is large enough to be lent out to so many `nodes`.
pub fn is_lent(capacity: u64, nodes: u32) -> bool {
    capacity / LENDABLE >= u64::from(nodes.max(1))
}

/// The part that a node with the demand `own` has of the `fleet`'s.
pub fn share(own: f64, fleet: f64) -> f64 {
    own / fleet.max(own).max(1e-9)
}

impl Terms {
    /// How long the news of an admission takes to everybody: gathering, the exchange, and
    /// the push.
    fn reach(&self) -> f64 {
        let trip = self.trip.as_secs_f64();
        1.1 * trip + self.pace.min_interval.as_secs_f64().max(trip)
    }

    /// The same for waiting: without the tenth that a trip may take longer.
    pub fn reaction(&self) -> Nanos {
        self.trip.plus(self.trip.max(self.pace.min_interval))
    }

    /// The longest that a cost of a cell that matters stays unsent.
    pub fn interval(&self) -> Nanos {
        near_interval(self.pace, self.period)
    }

    /// What the limit gives back, in cost per second.
    fn rate(&self) -> f64 {
        float(self.amount) / self.period.as_secs_f64()
    }

    /// What the limit gives back until the next exchange.
    fn coming(&self) -> f64 {
        self.rate() * self.interval().as_secs_f64()
    }

    /// Whether nothing is admitted without a lease.
    pub fn is_bounded(&self) -> bool {
        self.promise == Consistency::Bounded
    }

    /// Whether the limit is large enough to be lent out: a check must find what is lent on
    /// the node that it comes to.
    pub fn is_lent(&self) -> bool {
        is_lent(self.capacity, self.nodes)
    }

    /// How long a lease is kept although nothing is asked for.
    pub fn rest(&self) -> Nanos {
        let rest = self.interval().times(2);
        if self.is_bounded() {
            self.period.divided_by(2).max(rest)
        } else {
            rest
        }
    }

    /// How long the estimate of a cell's demand remembers.
    pub fn memory(&self) -> Nanos {
        let quarter = self.period.divided_by(4);
        self.pace
            .interval
            .times(2)
            .max(quarter)
            .min(Nanos::from_secs(2))
            .max(Nanos::from_millis(20))
    }

    /// The unsent cost that nobody misses: a fiftieth of the limit, over all nodes.
    pub fn negligible(&self) -> u64 {
        self.capacity / 50 / u64::from(self.nodes.max(1))
    }

    /// How soon a cell must be sent that is far from its limit, and of whose demand
    /// nothing is known. Half of what is `remaining`, spread over the nodes, may be
    /// unsent; an eighth if the store has never told of it.
    pub fn calm(&self, remaining: u64, unsent: u64, heard: bool) -> Pressure {
        let part = if heard { 2 } else { 8 };
        let share = remaining / (part * u64::from(self.nodes.max(1)));
        if unsent >= share.max(1) {
            Pressure::Urgent
        } else if unsent <= self.negligible() {
            Pressure::Silent
        } else {
            Pressure::Far
        }
    }

    /// Whether a cell with so much `remaining` needs no estimate of its demand.
    pub const fn is_calm(&self, remaining: u64) -> bool {
        remaining / 3 >= self.capacity / 4
    }
}

impl Standing {
    /// Whether the limit will not be reached, if demand stays as it is.
    pub fn is_far(&self, terms: &Terms) -> bool {
        let enough = FAR * float(terms.capacity);
        let used = float(self.used.saturating_add(self.hold));
        let expected = match terms.supply {
            Supply::AtTheTurn => {
                let to_come = self.fleet * self.left.as_secs_f64();
                used + self.unheard(self.fleet) + to_come < enough
            }
            Supply::Continuous => {
                self.fleet * terms.period.as_secs_f64() < FAR * float(terms.amount)
            }
            // What the store tells of a part of a log, not all nodes have told it yet.
            Supply::Trailing => {
                let fleet = self.fleet.max(self.own * f64::from(terms.nodes));
                fleet * terms.period.as_secs_f64() < FAR * float(terms.amount)
            }
        };
        used < enough && expected
    }

    /// Whether a limit that gives back bit by bit is as good as used up, and what comes
    /// back is used up at once.
    fn is_tight(&self, terms: &Terms) -> bool {
        let little = (2.0 * terms.coming()).max(EXPOSED * float(terms.capacity));
        terms.supply == Supply::Continuous
            && self.at_least > terms.rate()
            // What has come back since the store last told, the others have used as well.
            && self.room(terms) - self.unheard(terms.rate()) < little
    }

    /// Whether what comes back can be shared out in whole checks without asking.
    fn is_shared_out(&self, terms: &Terms) -> bool {
        self.is_tight(terms) && self.share() * terms.coming() >= 4.0
    }

    /// This node's part of the fleet's demand.
    fn share(&self) -> f64 {
        share(self.own, self.fleet)
    }

    /// Whether a fleet with this `demand` would use up too much of the limit before a push
    /// arrives.
    fn is_fast(&self, demand: f64, terms: &Terms) -> bool {
        self.is_tight(terms) || demand * terms.reach() > EXPOSED * float(terms.capacity)
    }

    /// What is left for all, as far as this node knows.
    fn room(&self, terms: &Terms) -> f64 {
        float(terms.capacity) - float(self.used) - float(self.hold)
    }

    /// What the others have used since the store told of them, by their `demand`.
    fn unheard(&self, demand: f64) -> f64 {
        (demand - self.own).max(0.0) * self.age.as_secs_f64()
    }

    /// Whether `cost` may be admitted without a lease, if the view admits it.
    pub fn admits(&self, cost: Cost, terms: &Terms) -> bool {
        if terms.is_bounded() {
            return false;
        }
        if self.is_far(terms) || terms.nodes <= 1 {
            return true;
        }
        if self.is_shared_out(terms) {
            return self.unsent.saturating_add(cost.get()) <= self.allowance(terms);
        }
        let slow = !self.is_fast(self.certain, terms) && !self.overdue;
        let (age, reach) = (self.age.as_secs_f64(), terms.reach());
        let cost = float(cost.get());
        // When the store keeps silent, the best guess is better than what is beyond doubt.
        let demand = if self.overdue {
            self.certain.max(self.fleet)
        } else {
            self.certain
        };
        let room = self.room(terms) - cost;
        // What is admitted here is known here. A node that has just become busy knows least
        // of the one that was.
        let share = share(self.own, demand).min(self.share_then);
        let others = (1.0 - share) * demand;
        let there_is_room = room - others * (age + reach) >= 0.0;
        let left = room - self.unheard(demand);
        let lasts = match terms.supply {
            Supply::AtTheTurn => left >= demand * self.left.as_secs_f64(),
            // What comes back is more than what is asked for.
            Supply::Continuous | Supply::Trailing => {
                let demand = self.fleet.max(self.certain) * terms.period.as_secs_f64();
                left >= 0.0 && demand < float(terms.amount)
            }
        };
        slow || there_is_room || (lasts && !self.overdue)
    }

    /// What may be unsent here of a limit that is always full: this node's share of what is
    /// left, less what the others are likely to have admitted and not sent.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn allowance(&self, terms: &Terms) -> u64 {
        // A node that has just become busy knows least of the one that was.
        let share = self.share().min(self.share_then);
        let meanwhile = terms.interval().as_secs_f64() / 2.0 + terms.reach();
        let others = (1.0 - share) * terms.rate() * meanwhile;
        let left = self.room(terms) + float(self.unsent) - others;
        (share * left.max(0.0)) as u64
    }

    /// The lease that this node should hold, for the time until it is refilled.
    pub fn need(&self, terms: &Terms) -> u64 {
        let reach = terms.reach();
        let left = match terms.supply {
            Supply::AtTheTurn => self.left.as_secs_f64().max(reach),
            Supply::Continuous | Supply::Trailing => f64::MAX,
        };
        let horizon = (self.horizon(terms) + reach).min(left);
        covering(self.own * horizon)
    }

    /// How long a lease is to last, in seconds: a bounded cell far from its limit is lent
    /// much at a time, since nobody misses it, but no more than it may leave unsent: a node
    /// that is killed takes it along, in long windows for days.
    fn horizon(&self, terms: &Terms) -> f64 {
        let interval = terms.interval();
        if terms.is_bounded() && self.is_far(terms) {
            let long = terms.period.divided_by(4).min(terms.pace.max_interval);
            long.max(interval).as_secs_f64()
        } else {
            interval.as_secs_f64()
        }
    }

    /// The lease that this node should have when the next window begins; zero while that
    /// is far away, or where the limit is unlikely to be reached in it.
    pub fn need_of_the_next_window(&self, terms: &Terms) -> u64 {
        let (horizon, reach) = (self.horizon(terms), terms.reach());
        let soon = self.left.as_secs_f64() <= horizon + 2.0 * reach;
        let lends = if terms.is_bounded() {
            terms.is_lent() && self.own * horizon >= 0.5
        } else {
            let used = self.fleet * terms.period.as_secs_f64();
            let capacity = float(terms.capacity);
            used >= FAR * capacity && self.fleet * reach > EXPOSED * capacity
        };
        if soon && lends {
            covering(self.own * (horizon + reach))
        } else {
            0
        }
    }

    /// Whether this node should admit from a lease.
    pub fn leases(&self, terms: &Terms) -> bool {
        if terms.is_bounded() {
            return terms.is_lent();
        }
        let rushed = match terms.supply {
            Supply::AtTheTurn => true,
            Supply::Continuous => self.fleet.max(self.certain) >= terms.rate(),
            // Its demand is estimated long before it is near its limit.
            Supply::Trailing => {
                let left = terms.capacity.saturating_sub(self.used);
                self.fleet.max(self.certain) >= terms.rate() && !terms.is_calm(left)
            }
        };
        rushed
            && terms.nodes > 1
            && !self.is_shared_out(terms)
            && !self.is_far(terms)
            && self.is_fast(self.fleet.max(self.certain), terms)
    }

    /// Whether nothing is left for anybody until the window ends.
    pub fn is_over(&self, terms: &Terms) -> bool {
        terms.supply == Supply::AtTheTurn && self.room(terms) <= 0.0
    }

    /// Whether the lease will be empty before it could be refilled.
    pub fn is_low(&self, terms: &Terms) -> bool {
        let meanwhile = self.own * terms.reach();
        let last = meanwhile + meanwhile.sqrt();
        if terms.is_bounded() {
            // It must not come to its end.
            float(self.hold) <= (2.0 * last + 1.0).max(float(self.need(terms)) / 4.0)
        } else {
            float(self.hold) <= last
        }
    }

    /// This node's part of the fleet's demand, in millionths.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn portion(&self) -> u32 {
        (self.share().clamp(0.0, 0.95) * 1e6) as u32
    }

    /// The total from which on a `cost` that is sent now is announced to all nodes, of a
    /// limit that has `room` for so much; zero for never. Cost and room are in the store's
    /// `unit`.
    ///
    /// What has room again after it was full is not announced as full again. Where so little
    /// comes back that no node hears of it with its own costs, each may spend once more what
    /// the last one has spent.
    pub fn announced_from(&self, cost: i64, room: u64, unit: u64, terms: &Terms) -> u64 {
        let others = u64::from(terms.nodes.saturating_sub(1));
        let at_stake = u64::try_from(cost).unwrap_or(0).saturating_mul(others);
        let matters = float(at_stake) > EXPOSED * float(terms.capacity.saturating_mul(unit));
        let is_slow = terms.coming() < float(u64::from(terms.nodes));
        if terms.supply == Supply::AtTheTurn || !matters || !is_slow {
            return 0;
        }
        room.saturating_sub(at_stake).max(1)
    }

    /// How soon the cell must be sent, leases apart.
    pub fn pressure(&self, terms: &Terms) -> Pressure {
        let far = self.is_far(terms);
        // If demand has grown here, it may have grown on all nodes alike.
        let has_grown = self.share() > MUCH_MORE * self.share_then;
        let share = if has_grown {
            self.share_then
        } else {
            self.share()
        };
        let part = if self.heard {
            // It misleads nobody but the others.
            (PATIENT_PART / (1.0 - share).max(PATIENT_PART)).min(1.0)
        } else {
            UNHEARD_PART
        };
        let demand = self.fleet.max(self.certain);
        let left = (self.room(terms) - self.unheard(demand)).max(0.0);
        let least = match terms.supply {
            // It comes to its limit all the time.
            Supply::Continuous => HARDLY * float(terms.capacity),
            Supply::AtTheTurn | Supply::Trailing => 0.0,
        };
        let lot = (share * (left * part).max(least)).max(1.0);
        let shared_out = self.is_shared_out(terms);
        let is_much = !shared_out && !self.leases(terms) && float(self.unsent) >= lot;
        // What is shared out must be shared out anew.
        if (shared_out && has_grown) || is_much {
            Pressure::Urgent
        } else if far && self.unsent <= terms.negligible() {
            Pressure::Silent
        } else if far {
            Pressure::Far
        } else {
            Pressure::Near
        }
    }
}

#[cfg(test)]
mod tests;
