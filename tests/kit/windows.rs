//! Windows aligned to the epoch, and what a load saw of them.

use std::time::Duration;

use super::{Driven, Sample, since_epoch};

/// The window that a moment lies in.
pub fn window_of(at: Duration, window: Duration) -> u64 {
    (at.as_nanos() / window.as_nanos()) as u64
}

/// The fixed window that the daemon counted a check in: the one whose end its answer
/// tells, in milliseconds. A check that is sent before an edge may be judged after it.
pub fn counted_in(sample: &Sample, window: Duration) -> u64 {
    let end = sample.at + Duration::from_millis(sample.reset_after as u64);
    window_of(end + window / 2, window) - 1
}

/// Sleeps until the beginning of a window, and answers which.
pub fn wait_for_an_edge(window: Duration) -> u64 {
    let next = window_of(since_epoch(), window) + 1;
    let edge = window * u32::try_from(next).expect("a window of this century");
    while since_epoch() < edge {
        std::thread::sleep(edge.saturating_sub(since_epoch()));
    }
    next
}

/// The longest pause that a load made after a check that is `wanted`: the checks are
/// sent at an even pace, so the rest is the machine's doing.
pub fn longest_gap(driven: &Driven, wanted: impl Fn(&Sample) -> bool) -> Duration {
    let pairs = driven.samples.windows(2);
    let gaps = pairs.filter(|pair| wanted(&pair[0]));
    gaps.map(|pair| pair[1].at.saturating_sub(pair[0].at))
        .max()
        .unwrap_or_default()
}
