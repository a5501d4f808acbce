//! The way between the nodes and the store.

use super::dice::Dice;
use crate::units::{Nanos, Timestamp};

/// How the network behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// The quickest round trip.
    pub round_trip: Nanos,
    /// How much longer each way takes on average; exponentially distributed.
    pub jitter: Nanos,
    /// The part of the messages that TCP has to send again: each comes a fifth of a
    /// second later, and what was sent after it waits for it.
    pub loss: f64,
    /// What no connection does, to look for faults: none by default.
    pub chaos: Chaos,
}

/// Parts of the messages that something happens to; with any of them, messages may
/// also overtake each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chaos {
    /// They never arrive.
    pub lost: f64,
    /// They arrive twice.
    pub doubled: f64,
    /// They arrive up to so much later that their exchange was given up.
    pub late: f64,
}

/// TCP sends anew what was not acknowledged for so long, at the earliest.
const RESENT_AFTER: Nanos = Nanos::from_millis(200);
const LATEST: Nanos = Nanos::from_millis(2_500);

impl Default for Network {
    fn default() -> Network {
        Network {
            round_trip: Nanos::from_millis(1),
            jitter: Nanos::ZERO,
            loss: 0.0,
            chaos: Chaos::default(),
        }
    }
}

impl Network {
    /// When a message that is sent at `now` arrives: never, once or twice. `last` is
    /// when the one before it arrived that took the same way.
    pub(super) fn arrivals(
        &self,
        now: Timestamp,
        last: &mut Timestamp,
        dice: &mut Dice,
    ) -> impl Iterator<Item = Timestamp> + use<> {
        let Chaos {
            lost,
            doubled,
            late,
        } = self.chaos;
        if self.chaos == Chaos::default() {
            let mut at = now.after(self.delay(dice));
            while dice.happens(self.loss) {
                at = at.after(RESENT_AFTER);
            }
            *last = at.max(*last);
            return [Some(*last), None].into_iter().flatten();
        }
        let mut arrival = || {
            let mut at = now.after(self.delay(dice));
            if dice.happens(late) {
                at = at.after(Nanos::new(dice.below(LATEST.get())));
            }
            (!dice.happens(lost)).then_some(at)
        };
        let first = arrival();
        let again = arrival().filter(|_| dice.happens(doubled));
        [first, again].into_iter().flatten()
    }

    fn delay(&self, dice: &mut Dice) -> Nanos {
        let way = self.round_trip.divided_by(2);
        if self.jitter.is_zero() {
            return way;
        }
        way.plus(scaled(self.jitter, dice.exponential()))
    }
}

/// `span` times `factor`.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // To the nanosecond or not makes no difference, and casts saturate.
pub(super) fn scaled(span: Nanos, factor: f64) -> Nanos {
    Nanos::new((span.get() as f64 * factor) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(network: Network, count: u64) -> Vec<Vec<u64>> {
        let (mut dice, mut last) = (Dice::new(1), Timestamp::EPOCH);
        let mut send = |n| {
            let now = Timestamp::EPOCH.after(Nanos::from_millis(n));
            let arrivals = network.arrivals(now, &mut last, &mut dice);
            arrivals.map(|at| at.since(now).get()).collect()
        };
        (0..count).map(&mut send).collect()
    }

    #[test]
    fn a_message_takes_half_the_round_trip() {
        assert_eq!(sent(Network::default(), 3), vec![vec![500_000]; 3]);
    }

    #[test]
    fn what_tcp_sends_again_holds_up_what_comes_after_it() {
        let network = Network {
            loss: 0.01,
            ..Network::default()
        };
        let delays: Vec<u64> = sent(network, 1_000).concat();
        let resent = delays
            .iter()
            .position(|delay| *delay > 200_000_000)
            .unwrap();
        assert_eq!(
            delays[resent] - delays[resent + 1],
            1_000_000,
            "in its order"
        );
        assert_eq!(delays.len(), 1_000);
    }

    #[test]
    fn chaos_loses_doubles_and_delays() {
        let chaos = Chaos {
            lost: 0.1,
            doubled: 0.1,
            late: 0.1,
        };
        let sent = sent(
            Network {
                chaos,
                ..Network::default()
            },
            1_000,
        );
        let came = |times| sent.iter().filter(|delays| delays.len() == times).count();
        assert!((60..140).contains(&came(0)), "{}", came(0));
        assert!((60..140).contains(&came(2)), "{}", came(2));
        assert!(sent.iter().flatten().any(|delay| *delay > 1_000_000_000));
    }
}
