//! How far it has come, in one line of the terminal that is drawn again and again.

use std::io::Write as _;

use super::table::grouped;
use crate::clock::Clock;
use crate::simulation::Progress;
use crate::units::{Nanos, Timestamp};

/// The line. It is gone with this value.
#[derive(Debug)]
pub(super) struct Display {
    parts: Vec<Progress>,
    clock: Clock,
    started: Timestamp,
    drawn: Option<Timestamp>,
}

/// It is not drawn more often.
const PAUSE: Nanos = Nanos::from_millis(200);
/// To the start of the line, and away with what is in it.
const CLEAR: &str = "\r\x1b[K";

impl Display {
    /// Of so many simulations.
    pub(super) fn of(count: usize) -> Display {
        let clock = Clock::system();
        let none = Progress {
            done: 0.0,
            checks: 0,
        };
        Display {
            parts: vec![none; count],
            started: clock.local(),
            clock,
            drawn: None,
        }
    }

    /// Takes note of how far one has come, and draws the line if it is time to.
    pub(super) fn tell(&mut self, number: usize, progress: Progress) {
        if let Some(part) = self.parts.get_mut(number) {
            *part = progress;
        }
        let now = self.clock.local();
        if self.drawn.is_some_and(|drawn| now.since(drawn) < PAUSE) {
            return;
        }
        self.drawn = Some(now);
        let line = line(&self.parts, now.since(self.started));
        // Where nobody sees it, nobody misses it.
        let _closed = write!(std::io::stderr(), "{CLEAR}{line}");
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        let _closed = write!(std::io::stderr(), "{CLEAR}");
    }
}

#[allow(clippy::cast_precision_loss)] // For people.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Casts saturate.
fn line(parts: &[Progress], passed: Nanos) -> String {
    let done = parts.iter().map(|part| part.done).sum::<f64>() / parts.len().max(1) as f64;
    let ended = parts.iter().filter(|part| part.done >= 1.0).count();
    let checks: u64 = parts.iter().map(|part| part.checks).sum();
    let mut line = format!(
        "simulating: {:.0}%, {ended} of {} done, {} checks",
        done * 100.0,
        parts.len(),
        grouped(checks as f64),
    );
    let seconds = passed.as_secs_f64();
    if done > 0.0 && seconds >= 1.0 {
        let left = Nanos::from_secs((seconds / done - seconds).ceil() as u64);
        line.push_str(&format!(", about {left} left"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_part_count_and_time_left() {
        let part = |done, checks| Progress { done, checks };
        let parts = [part(1.0, 1_000_000), part(0.5, 500), part(0.0, 0)];
        assert_eq!(
            line(&parts, Nanos::from_secs(60)),
            "simulating: 50%, 1 of 3 done, 1,000,500 checks, about 1m left"
        );
        assert_eq!(
            line(&parts[2..], Nanos::from_millis(20)),
            "simulating: 0%, 0 of 1 done, 0 checks"
        );
    }
}
