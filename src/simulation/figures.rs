//! What a simulation has measured.

use super::truth::{Closed, Worst};
use crate::units::Nanos;

/// What a simulation has measured, from the first check on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// How many nodes there were.
    pub nodes: u32,
    /// How long it took, in seconds of the simulation.
    pub seconds: f64,
    /// Checks.
    pub checks: u64,
    /// Those that were admitted.
    pub admitted: u64,
    /// Those that were admitted, node by node.
    pub admitted_by: Vec<u64>,
    /// Those that were refused because the limit was reached, as the node believed.
    pub refused: u64,
    /// Those refused although the fleet was below its limit.
    pub wrongly_refused: u64,
    /// Those refused because the store was lost.
    pub unavailable: u64,
    /// By how much the limit was exceeded in the windows in which a key wanted more
    /// than it, but for the first one.
    pub over: Over,
    /// When that was worst, if it ever was.
    pub worst: Option<Worst>,
    /// The same in the first window, in which no node had heard of the key.
    pub cold: Over,
    /// What was used of the limit in the windows of `over`, as a part of it.
    pub used: f64,
    /// Batches that the nodes sent.
    pub batches: u64,
    /// Cells in those batches.
    pub deltas: u64,
    /// Announcements that nodes heard, each node's for itself.
    pub pushes: u64,
    /// Checks that were put to the store.
    pub asked: u64,
    /// Hellos that the nodes sent.
    pub hellos: u64,
    /// How much of the time the store was busy: 1 is all that it can do.
    pub store_busy: f64,
    /// Bytes that the nodes sent to the store, about.
    pub bytes_sent: u64,
    /// Bytes that the store answered, about.
    pub bytes_received: u64,
    /// How old the store's word was at a check, in seconds, where there was any: the
    /// mean.
    pub stale_mean: f64,
    /// The same at its worst.
    pub stale_max: f64,
}

/// By how much a limit was exceeded: parts of the limit, so 0.01 is one percent.
///
/// A window's excess is the most that was used beyond the limit at any moment in it,
/// by the limit's own algorithm: of a fixed window, what was admitted beyond its
/// amount; of a sliding one, what its weighted or trailing count was above it; of a
/// bucket, how far it was overdrawn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Over {
    /// How many windows, of all keys.
    pub windows: u64,
    /// The mean of the windows.
    pub mean: f64,
    /// What 99 of 100 windows did not exceed.
    pub p99: f64,
    /// The worst window.
    pub worst: f64,
}

/// What was measured of one slice of the keys, or of several.
#[derive(Clone, Debug)]
pub struct Measured {
    /// All that is counted.
    pub(super) tally: Figures,
    pub(super) closed: Closed,
    pub(super) stale: Stale,
}

/// How old the store's word was at the checks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stale {
    pub(super) sum: f64,
    pub(super) count: u64,
    pub(super) max: Nanos,
}

impl Measured {
    /// What was measured of both.
    pub fn join(mut self, other: Measured) -> Measured {
        let (ours, theirs) = (&mut self.tally, other.tally);
        ours.checks += theirs.checks;
        ours.admitted += theirs.admitted;
        let nodes = ours.admitted_by.len().max(theirs.admitted_by.len());
        ours.admitted_by.resize(nodes, 0);
        let each = ours.admitted_by.iter_mut().zip(theirs.admitted_by);
        each.for_each(|(ours, theirs)| *ours += theirs);
        ours.refused += theirs.refused;
        ours.wrongly_refused += theirs.wrongly_refused;
        ours.unavailable += theirs.unavailable;
        ours.batches += theirs.batches;
        ours.deltas += theirs.deltas;
        ours.pushes += theirs.pushes;
        ours.asked += theirs.asked;
        ours.hellos += theirs.hellos;
        ours.store_busy += theirs.store_busy;
        ours.bytes_sent += theirs.bytes_sent;
        ours.bytes_received += theirs.bytes_received;
        self.closed.cold.extend(other.closed.cold);
        self.closed.over.extend(other.closed.over);
        self.closed.used += other.closed.used;
        self.closed.worst = Worst::of(self.closed.worst, other.closed.worst);
        self.stale.sum += other.stale.sum;
        self.stale.count += other.stale.count;
        self.stale.max = self.stale.max.max(other.stale.max);
        self
    }

    /// The same, with what the store has to do taken `of` / `measured` times: what was
    /// measured are so many of all slices. The checks are those that were simulated.
    pub fn scaled(mut self, of: u64, measured: u64) -> Measured {
        let measured = measured.max(1);
        let tally = &mut self.tally;
        for count in [
            &mut tally.batches,
            &mut tally.deltas,
            &mut tally.pushes,
            &mut tally.asked,
            &mut tally.bytes_sent,
            &mut tally.bytes_received,
        ] {
            *count = count.saturating_mul(of) / measured;
        }
        tally.store_busy *= super::truth::part(of, measured);
        self
    }

    /// The figures of it.
    #[allow(clippy::cast_precision_loss)] // Figures for people.
    pub fn figures(self) -> Figures {
        let windows = self.closed.over.len().max(1) as f64;
        Figures {
            used: self.closed.used / windows,
            over: Over::of(self.closed.over),
            worst: self.closed.worst,
            cold: Over::of(self.closed.cold),
            stale_mean: self.stale.sum / self.stale.count.max(1) as f64,
            stale_max: self.stale.max.as_secs_f64(),
            ..self.tally
        }
    }
}

impl Figures {
    /// Commands a second that the store carried out for the whole fleet.
    pub fn commands_per_second(&self) -> f64 {
        // With each hello the seal is asked for.
        let sent = self.batches.saturating_add(self.hellos.saturating_mul(2));
        self.per_second(sent.saturating_add(self.asked))
    }

    /// Bytes a second between the fleet and its store, both ways, about.
    pub fn bytes_per_second(&self) -> f64 {
        self.per_second(self.bytes_sent.saturating_add(self.bytes_received))
    }

    /// The part of all checks that was refused although the fleet was below its limit.
    pub fn wrongly_refused_part(&self) -> f64 {
        super::truth::part(self.wrongly_refused, self.checks)
    }

    #[allow(clippy::cast_precision_loss)] // A figure for people.
    fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 {
            count as f64 / self.seconds
        } else {
            0.0
        }
    }
}

impl Over {
    /// Of these windows.
    #[allow(clippy::cast_precision_loss)] // A figure for people.
    pub(super) fn of(mut windows: Vec<f64>) -> Over {
        windows.sort_by(f64::total_cmp);
        let count = windows.len();
        let Some(worst) = windows.last().copied() else {
            return Over::default();
        };
        let rank = (count * 99).div_ceil(100);
        Over {
            windows: count as u64,
            mean: windows.iter().sum::<f64>() / count as f64,
            p99: windows[rank.saturating_sub(1)],
            worst,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_windows_has_mean_rank_and_worst() {
        assert_eq!(Over::of(Vec::new()), Over::default());
        let hundred: Vec<f64> = (0..100).map(f64::from).rev().collect();
        let over = Over::of(hundred);
        assert_eq!((over.mean, over.p99, over.worst), (49.5, 98.0, 99.0));
        assert_eq!(Over::of(vec![0.5]).p99, 0.5);
    }
}
