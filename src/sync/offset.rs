use std::collections::VecDeque;

use crate::units::{Nanos, Timestamp};

/// How far the store's clock is ahead of this machine's, and how wrong that may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Nanoseconds that the store's clock is ahead.
    pub nanos: i64,
    /// Half the round trip that it was measured with.
    pub error: Nanos,
}

/// Estimates the offset from the answers of the store: each carries the store's
/// time, read at some moment between sending and receiving; the middle is the best
/// guess, wrong by at most half the round trip. Of the last few answers, the
/// quickest is the most exact.
#[derive(Debug, Default)]
pub(super) struct Estimator {
    recent: VecDeque<Offset>,
}

const REMEMBERED: usize = 16;

impl Estimator {
    /// Takes in an answer: the store read `time` between `sent` and `received`, both
    /// on this machine's clock. Answers the best estimate.
    pub(super) fn observe(
        &mut self,
        sent: Timestamp,
        received: Timestamp,
        time: Timestamp,
    ) -> Offset {
        let error = received.since(sent).divided_by(2);
        let middle = sent.after(error).as_nanos();
        let difference = i128::from(time.as_nanos()) - i128::from(middle);
        let nanos =
            i64::try_from(difference).unwrap_or(if difference > 0 { i64::MAX } else { i64::MIN });
        let newest = Offset { nanos, error };
        // A step of either clock makes what was measured before it worthless.
        self.recent.retain(|known| known.agrees_with(newest));
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(newest);
        self.recent
            .iter()
            .copied()
            .min_by_key(|known| known.error)
            .unwrap_or(newest)
    }
}

impl Offset {
    /// Whether both can be true at once.
    fn agrees_with(self, other: Offset) -> bool {
        // Redis tells microseconds, and clocks drift a little between two answers.
        let slack = Nanos::from_millis(1).get();
        self.nanos.abs_diff(other.nanos) <= self.error.get() + other.error.get() + slack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::EPOCH.after(Nanos::from_millis(millis))
    }

    #[test]
    fn the_offset_is_taken_from_the_middle_of_the_round_trip() {
        let offset = Estimator::default().observe(at(1_000), at(1_010), at(6_005));
        assert_eq!(
            offset,
            Offset {
                nanos: 5_000_000_000,
                error: Nanos::from_millis(5)
            }
        );
    }

    #[test]
    fn the_quickest_answer_wins() {
        let mut estimator = Estimator::default();
        estimator.observe(at(1_000), at(1_002), at(1_001));
        let offset = estimator.observe(at(2_000), at(2_100), at(2_090));
        assert_eq!(
            offset,
            Offset {
                nanos: 0,
                error: Nanos::from_millis(1)
            }
        );
    }

    #[test]
    fn a_step_of_the_clock_is_followed_at_once() {
        let mut estimator = Estimator::default();
        estimator.observe(at(1_000), at(1_002), at(1_001));
        let offset = estimator.observe(at(2_000), at(2_010), at(92_005));
        assert_eq!(offset.nanos, 90_000_000_000);
    }
}
