use crate::policy::Supply;
use crate::units::{Cost, Nanos};

/// The limit that decides, as it is at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// What it supplies in a period.
    pub amount: u64,
    /// What it would admit now.
    pub remaining: u64,
    /// Its window, or the time in which it supplies its amount.
    pub period: Nanos,
    /// How long until all of it is available again; zero where nothing is used.
    pub reset_after: Nanos,
    /// How long until it admits anything, where it admits nothing now.
    pub retry_after: Option<Nanos>,
    /// How it gets its room back.
    pub supply: Supply,
}

impl Room {
    /// What it supplies in so long a time, on average.
    pub(super) fn supplied(&self, span: Nanos) -> f64 {
        self.amount as f64 * span.as_secs_f64() / self.period.as_secs_f64()
    }

    /// What of the `supplied` is for one of so many `nodes`: its part, and what the others have
    /// let lie. If each took all, the limit would be used up in a part of its period, and
    /// refuse in the rest of it: no rate that a gateway could be told.
    pub(super) fn flow_here(&self, supplied: f64, nodes: u32) -> f64 {
        let due = match self.supply {
            Supply::AtTheTurn if !self.reset_after.is_zero() => self.supplied(self.reset_after),
            Supply::AtTheTurn => self.amount as f64,
            _ => supplied,
        };
        let let_lie = (self.remaining as f64 - due).max(0.0);
        (supplied / f64::from(nodes.max(1)) + let_lie).min(supplied)
    }
}

/// All subscribers of one bucket on this node, the one in question among them.
#[derive(Clone, Copy, Debug)]
pub struct Peers {
    /// How many there are.
    pub subscribers: u32,
    /// The sum of their demands, per second.
    pub demand: f64,
    /// The sum of what is [left](super::Subscriber::left) to them.
    pub left: Cost,
    /// The sum of what they [wait](super::Subscriber::waits) for.
    pub waiting: f64,
    /// Live nodes, this one among them.
    pub nodes: u32,
}

impl Peers {
    /// What of a `pool` is for one that waits for so much, where the limit supplies so much a
    /// second, bit by bit: who looks first leaves the others what has come while they waited,
    /// and all share the rest by demand.
    pub(super) fn flow(&self, pool: f64, a_second: f64, waits: f64, demand: f64) -> f64 {
        let share = if demand < self.demand {
            demand / self.demand
        } else {
            1.0
        };
        if self.demand <= 0.0 || self.waiting <= 0.0 {
            return pool * share;
        }
        let come = (a_second * self.waiting / self.demand).min(pool);
        come * (waits / self.waiting).min(1.0) + (pool - come) * share
    }

    /// What of a `pool`, of which so much is `spoken_for` by the demand of all, is for one
    /// with this `demand`: what it may have if it needs it, and what it may have in any case.
    ///
    /// Where there is enough, half of the rest is for those who are here, the same for all;
    /// who is not here yet finds the other half.
    pub(super) fn part(&self, pool: f64, spoken_for: f64, demand: f64) -> (f64, f64) {
        let share = if demand < self.demand {
            demand / self.demand
        } else {
            1.0
        };
        let free = (pool - spoken_for).max(0.0);
        let by_demand = (pool - free / 2.0) * share;
        (by_demand, free / 2.0 / f64::from(self.subscribers.max(1)))
    }
}

/// What is to be done at the limit before a subscriber is told anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Take this much from it.
    Take(Cost),
    /// Give this much back to it.
    GiveBack(Cost),
    /// Nothing.
    Keep,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_its_part_of_a_flow_and_what_others_let_lie() {
        let here = |supply, remaining, nodes| {
            let room = Room {
                amount: 50,
                remaining,
                period: Nanos::from_secs(1),
                reset_after: Nanos::from_millis(500),
                retry_after: None,
                supply,
            };
            room.flow_here(5.0, nodes)
        };
        // Half of the window is left, and half of what it supplies.
        assert_eq!(here(Supply::AtTheTurn, 25, 1), 5.0);
        assert_eq!(here(Supply::AtTheTurn, 25, 2), 2.5);
        assert_eq!(here(Supply::AtTheTurn, 26, 2), 3.5);
        assert_eq!(here(Supply::AtTheTurn, 40, 2), 5.0);
        assert_eq!(here(Supply::AtTheTurn, 0, 2), 2.5);
        for supply in [Supply::Trailing, Supply::Continuous] {
            assert_eq!(here(supply, 5, 2), 2.5);
            assert_eq!(here(supply, 6, 2), 3.5);
            assert_eq!(here(supply, 50, 5), 5.0);
        }
    }
}
