use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The longest pause before a connection that was sound is made anew.
const FIRST: Duration = Duration::from_millis(10);
/// The longest pause there is.
const LONGEST: Duration = Duration::from_secs(1);

/// How long to wait before the next attempt to connect: random, so that the clients of a
/// daemon that comes back do not all come at once, and longer after each failure.
#[derive(Debug)]
pub(super) struct Backoff {
    failures: u32,
    random: RandomState,
    drawn: u64,
}

impl Backoff {
    pub(super) fn new() -> Backoff {
        Backoff {
            failures: 0,
            random: RandomState::new(),
            drawn: 0,
        }
    }

    /// Counts an attempt that came to nothing.
    pub(super) fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Forgets the failures.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Whether the last attempt failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// The next pause: after failures between half of the longest and the longest, which
    /// doubles with each.
    pub(super) fn pause(&mut self) -> Duration {
        let most = FIRST
            .saturating_mul(1 << self.failures.min(16))
            .min(LONGEST);
        let least = if self.is_failing() {
            most / 2
        } else {
            Duration::ZERO
        };
        self.drawn = self.drawn.wrapping_add(1);
        let drawn = self.random.hash_one(self.drawn) & 0xffff;
        let share = u32::try_from(drawn).unwrap_or(0);
        least + (most - least) / 0x1_0000 * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_a_second_and_lie_between_the_half_and_the_whole() {
        let mut backoff = Backoff::new();
        for _ in 0..100 {
            assert!(backoff.pause() < FIRST);
        }
        for most in [20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000] {
            backoff.failed();
            let most = Duration::from_millis(most);
            for _ in 0..100 {
                let pause = backoff.pause();
                assert!(most / 2 <= pause && pause < most, "{pause:?} of {most:?}");
            }
        }
        for _ in 0..100 {
            backoff.failed();
        }
        assert!(backoff.pause() < LONGEST);
        backoff.succeeded();
        assert!(backoff.pause() < FIRST);
    }

    #[test]
    fn pauses_differ_from_one_client_to_the_next() {
        let pauses = || {
            let mut backoff = Backoff::new();
            [(); 8].map(|()| backoff.pause())
        };
        assert_ne!(pauses(), pauses());
    }
}
