//! What a subscriber wants of its limit.

use super::rate::{self, Reserve};
use super::{Move, Peers, Room, SHORTEST_WAIT, Subscriber, Supply, tick, told, whole};
use crate::units::{Cost, Nanos, Timestamp};

/// Room for so many times as many as there are subscribers is ample.
const AMPLE: u64 = 4;

impl Subscriber {
    pub(super) fn wanted_lump(&mut self, room: &Room, peers: &Peers, now: Timestamp) -> Move {
        let turn = if room.supply == Supply::AtTheTurn && !room.reset_after.is_zero() {
            room.reset_after
        } else {
            room.period
        };
        // Other nodes look at the same moment, at the limit's reset: none takes what is left.
        let nodes = u64::from(peers.nodes.max(1));
        let here = room.remaining.div_ceil(nodes);
        let pool = here.saturating_add(peers.left.get());
        // Until the next report, and a little longer.
        let interval = self.usage.interval();
        let span = interval.plus(interval.divided_by(4)).min(turn);
        let spoken_for = peers.demand * turn.as_secs_f64();
        let (part, spare) = peers.part(pool as f64, spoken_for, self.demand());
        let part = match room.supply {
            Supply::AtTheTurn => part,
            _ => {
                // What the others hold they had in their turn.
                let pool = here.saturating_add(self.held) as f64;
                let a_second = room.supplied(Nanos::from_secs(1));
                peers.flow(pool, a_second, self.waits(now), self.demand())
            }
        };
        // Of less than one for each, who asked last gets it, and keeps it while it is likelier
        // than not to ask again before all is renewed.
        let asks_again =
            room.supply == Supply::AtTheTurn && self.demand() * turn.as_secs_f64() >= 0.5;
        let least = u64::from(self.usage.asked_last() || asks_again);
        let needed = self.usage.needed(span).max(least);
        let target = needed.min(whole(part.round()).max(least));
        let free = pool as f64 > spoken_for;
        // Then one for each, idle or not, is nothing to the others.
        let ample = pool / AMPLE > u64::from(peers.subscribers);
        let target = target
            .saturating_add(whole(spare))
            .max(u64::from(free || ample));
        let target = target.min(told::MOST_TOKENS);
        let (more, less) = (
            target.saturating_sub(self.held),
            self.held.saturating_sub(target),
        );
        self.is_short = nodes > 1 && here > 0 && self.held.saturating_add(here) < needed;
        if more == 0 || room.remaining > 0 {
            self.served = now;
        }
        if more > 0 && room.remaining > 0 {
            Move::Take(Cost::new(more.min(here)))
        } else if less > if free { target / 4 } else { 0 } {
            Move::GiveBack(Cost::new(less))
        } else {
            Move::Keep
        }
    }

    pub(super) fn wanted_for_tick(&mut self, room: &Room, peers: &Peers, now: Timestamp) -> Move {
        let tick = tick(room);
        self.ticked = self.ticked.min(now);
        let passed = now.since(self.ticked);
        if passed < tick.minus(SHORTEST_WAIT) {
            return Move::Keep;
        }
        let span = match self.rate.begin(room.period) {
            true => tick,
            false => passed.min(tick.times(2)),
        };
        self.ticked = now;
        self.paid.add(std::mem::take(&mut self.held));
        self.oldest.1 = 0;
        let wanted = self.wanted_of(room, peers, span);
        let more = self.rate.wants(wanted, span).min(room.remaining);
        if more > 0 {
            Move::Take(Cost::new(more))
        } else {
            Move::Keep
        }
    }

    /// What it wants of what the limit supplies in a `span`.
    fn wanted_of(&mut self, room: &Room, peers: &Peers, span: Nanos) -> f64 {
        let supplied = room.supplied(span);
        let spoken_for = peers.demand * span.as_secs_f64();
        let here = room.flow_here(supplied, peers.nodes);
        let (part, spare) = peers.part(here, spoken_for, self.demand());
        // What has been saved up is not spent as a rate, which would go on too long.
        let saved = match room.supply {
            Supply::AtTheTurn => 0.0,
            _ => room.remaining as f64 - supplied,
        };
        let (_, saved) = peers.part(saved.max(0.0), 0.0, self.demand());
        self.reserve = Reserve {
            least: rate::least(room.amount, peers.subscribers),
            saved: whole(saved),
        };
        part.min(self.usage.needed(span) as f64) + spare
    }
}
