//! How long the driver waits for what, apart from its socket, so that a simulation
//! keeps the same times.

use std::num::NonZeroU32;
use std::time::Duration;

use super::error::Failure;
use crate::units::{Nanos, Pace};

/// An exchange without an answer is given up after this time; its fate is unknown.
pub const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(1);
/// An attempt to connect is given up after this time.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// No more exchanges a second than this from one node.
pub const EXCHANGES_PER_SECOND: NonZeroU32 = NonZeroU32::new(20_000).unwrap();
/// The first and the longest pause between attempts to connect.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LAST_BACKOFF: Duration = Duration::from_secs(2);
/// Between attempts to connect for what the store announces.
pub const LISTENING_PAUSE: Duration = Duration::from_millis(500);
/// A store that has announced nothing for so long is asked whether it is still there.
pub const LISTENING_PATIENCE: Duration = Duration::from_secs(5);
/// The quickest and the slowest that the core is polled.
const MIN_POLL: Nanos = Nanos::from_millis(1);
const MAX_POLL: Nanos = Nanos::from_millis(100);

/// How often the core of a node with this pace is polled.
pub fn poll(pace: Pace) -> Nanos {
    pace.min_interval.max(MIN_POLL).min(MAX_POLL)
}

/// How long to wait before connecting anew after a failed exchange; `None` if the
/// connection is still good. A stopped server breaks no connection, and one that was
/// demoted or has forgotten the scripts keeps answering on it. `greeted` says whether the
/// store has answered a hello on it: one that has forgotten the scripts before that, just
/// when it was taught them, will do so again.
pub fn pause_before_reconnecting(failure: Failure, greeted: bool) -> Option<Duration> {
    match failure {
        Failure::NoScript if greeted => Some(Duration::ZERO),
        Failure::Timeout | Failure::Disconnected => Some(FIRST_BACKOFF),
        Failure::NoScript | Failure::ReadOnly => Some(LAST_BACKOFF / 4),
        _ => None,
    }
}

/// The pauses between attempts to connect: doubling.
#[derive(Clone, Copy, Debug)]
pub struct Backoff(Duration);

impl Backoff {
    /// The pauses from the first one on.
    pub const fn new() -> Backoff {
        Backoff(FIRST_BACKOFF)
    }

    /// The next pause.
    pub fn pause(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LAST_BACKOFF);
        pause
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::new()
    }
}

/// `pause`, and up to as much again by `luck`, so that a fleet does not come back all
/// at once.
pub fn jittered(pause: Duration, luck: u64) -> Duration {
    let thousandths = u32::try_from(luck % 1_000).unwrap_or(0);
    pause + pause * thousandths / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_forgets_the_scripts_at_once_is_not_taught_them_in_a_hot_loop() {
        let pause = |greeted| pause_before_reconnecting(Failure::NoScript, greeted);
        assert_eq!(pause(true), Some(Duration::ZERO));
        assert_eq!(pause(false), Some(Duration::from_millis(500)));
    }

    #[test]
    fn pauses_double_up_to_two_seconds_and_jitter_at_most_doubles_one() {
        let mut backoff = Backoff::new();
        let pauses: Vec<u128> = (0..8).map(|_| backoff.pause().as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
        let second = Duration::from_secs(1);
        assert_eq!(jittered(second, 0), second);
        assert_eq!(jittered(second, 1_999), second + Duration::from_millis(999));
    }
}
