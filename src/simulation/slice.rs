//! A large fleet, cut into slices that know nothing of each other.
//!
//! Cells of different partitions share nothing but their nodes and their store: no
//! batch, no hash, no announcement. So a fleet may be simulated slice by slice, each
//! with the keys of some of the partitions, in the memory of one slice and on as many
//! cores as there are. Only how long the store keeps one slice waiting for another is
//! not seen; a store that is busy all the time ([`Figures::store_busy`]) tells of itself.
//!
//! [`Figures::store_busy`]: super::Figures::store_busy

use std::sync::{Arc, OnceLock};

use super::demand::Shape;
use super::dice::weight;
use super::scenario::Scenario;
use super::world::World;
use crate::units::Limit;

/// Which of so many slices of the keys is simulated.
#[derive(Clone, Debug)]
pub struct Slice {
    number: u32,
    of: u32,
    /// Found out by the slice that is first, for all that were made with it.
    parts: Arc<OnceLock<Parts>>,
}

/// All keys, by their slices.
#[derive(Debug)]
struct Parts {
    numbers: Vec<Vec<u32>>,
    /// The sum of all weights.
    whole: f64,
}

/// The keys of a slice.
#[derive(Clone, Debug)]
pub(super) struct Sliced {
    /// Their numbers among all keys; none if the slice is all of them.
    numbers: Vec<u32>,
    /// The weight of each.
    pub(super) weights: Vec<f64>,
    /// Their part of the demand.
    pub(super) part: f64,
}

/// A world of this many cells, on all nodes, is small enough not to be cut.
const WHOLE_CELLS: u64 = 1 << 20;
/// So is one with so many checks.
const WHOLE_CHECKS: f64 = 60e6;
/// Of one that is cut, each slice has about so many cells, which a processor's cache
/// holds, and checks.
const CELLS: u64 = 1 << 18;
const CHECKS: f64 = 2e6;
/// So many keys in a slice at least, on average.
const KEYS: u32 = 64;

impl Slice {
    /// The slices of so many, from the first one.
    pub fn all(of: u32) -> impl Iterator<Item = Slice> {
        let parts = Arc::default();
        (0..of).map(move |number| Slice {
            number,
            of,
            parts: Arc::clone(&parts),
        })
    }

    /// Its number, from zero.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How many there are.
    pub fn of(&self) -> u32 {
        self.of
    }
}

impl Default for Slice {
    /// All keys.
    fn default() -> Slice {
        Slice {
            number: 0,
            of: 1,
            parts: Arc::default(),
        }
    }
}

impl Scenario {
    /// How many checks there will be, about.
    pub fn checks(&self) -> f64 {
        self.rate * self.window.as_secs_f64() * (f64::from(self.windows) + 1.0)
    }

    /// The same in slices of which each is soon simulated, in little memory: one, if the
    /// fleet is, or if its checks come in bursts, which are of all keys.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Casts saturate.
    pub fn slices(&self) -> Vec<Scenario> {
        let cells = u64::from(self.nodes) * u64::from(self.keys);
        let is_small = cells <= WHOLE_CELLS && self.checks() <= WHOLE_CHECKS;
        // As many partitions in each.
        let most = (1 << self.partitions.get().trailing_zeros()).min(self.keys / KEYS);
        let of = if is_small || most == 0 || matches!(self.shape, Shape::Bursting(_)) {
            1
        } else {
            let by_cells = u32::try_from(cells.div_ceil(CELLS)).unwrap_or(u32::MAX);
            let by_checks = (self.checks() / CHECKS) as u32;
            // The largest power of two that is not too large.
            let wanted = by_cells.max(by_checks).max(1).checked_next_power_of_two();
            wanted.unwrap_or(1 << 31).min(1 << most.ilog2())
        };
        let slice = |slice| Scenario {
            slice,
            ..self.clone()
        };
        Slice::all(of).map(slice).collect()
    }

    /// The keys of the slice, as `limit` counts them.
    pub(super) fn sliced(&self, limit: &Limit) -> Sliced {
        if self.slice.of == 1 {
            let all = (0..self.keys).map(|number| weight(number, self.zipf));
            return Sliced {
                numbers: Vec::new(),
                weights: all.collect(),
                part: 1.0,
            };
        }
        let parts = self.slice.parts.get_or_init(|| self.parts(limit));
        let numbers = parts.numbers.get(self.slice.number as usize);
        let numbers = numbers.cloned().unwrap_or_default();
        let weights: Vec<f64> = numbers.iter().map(|n| weight(*n, self.zipf)).collect();
        let part = weights.iter().sum::<f64>() / parts.whole;
        Sliced {
            numbers,
            weights,
            part,
        }
    }

    fn parts(&self, limit: &Limit) -> Parts {
        let mut numbers = vec![Vec::new(); self.slice.of as usize];
        for number in 0..self.keys {
            let partition = World::key(limit, number).partition(self.partitions);
            numbers[usize::from(partition.get()) % self.slice.of as usize].push(number);
        }
        let weights = (0..self.keys).map(|number| weight(number, self.zipf));
        Parts {
            numbers,
            whole: weights.sum(),
        }
    }
}

impl Sliced {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.weights.len()
    }

    /// The number among all keys of the one at `place` here.
    pub(super) fn number(&self, place: u32) -> u32 {
        let number = self.numbers.get(place as usize);
        number.copied().unwrap_or(place)
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::{Figures, Measured};
    use super::*;
    use crate::units::{Algorithm, Nanos};

    fn fleet() -> Scenario {
        Scenario {
            rate: 40_000.0,
            keys: 400,
            zipf: 1.0,
            limit: 100,
            algorithm: Algorithm::FixedWindow,
            window: Nanos::from_secs(1),
            windows: 2,
            ..Scenario::default()
        }
    }

    fn cut(scenario: &Scenario, of: u32) -> Figures {
        let slice = |slice| Scenario {
            slice,
            ..scenario.clone()
        };
        let measured = Slice::all(of).map(|one| slice(one).measure(|_| ()).unwrap());
        measured.reduce(Measured::join).unwrap().figures()
    }

    #[test]
    fn every_key_is_in_one_slice_and_the_demand_is_divided() {
        let scenario = fleet();
        let world = World::new(&scenario).unwrap();
        let of = 8;
        let sliced: Vec<Sliced> = Slice::all(of)
            .map(|slice| {
                let scenario = Scenario { slice, ..fleet() };
                scenario.sliced(&world.limits()[0])
            })
            .collect();
        let mut numbers: Vec<u32> = sliced.iter().flat_map(|s| s.numbers.clone()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..400).collect::<Vec<_>>());
        let parts: f64 = sliced.iter().map(|sliced| sliced.part).sum();
        assert!((parts - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_slices_together_measure_what_the_whole_does() {
        let (whole, sliced) = (cut(&fleet(), 1), cut(&fleet(), 8));
        #[track_caller]
        fn assert_near(sliced: f64, whole: f64, within: f64) {
            assert!(
                (sliced - whole).abs() <= whole * within,
                "{sliced}, not {whole}"
            );
        }
        let count = |figures: &Figures, of: fn(&Figures) -> u64| of(figures) as f64;
        let near = |of: fn(&Figures) -> u64, within| {
            assert_near(count(&sliced, of), count(&whole, of), within);
        };
        assert_eq!(sliced.seconds, whole.seconds);
        assert_eq!(sliced.hellos, whole.hellos);
        near(|figures| figures.checks, 0.02);
        near(|figures| figures.admitted, 0.02);
        near(|figures| figures.over.windows, 0.1);
        near(|figures| figures.batches, 0.03);
        near(|figures| figures.deltas, 0.03);
        near(|figures| figures.pushes, 0.05);
        near(|figures| figures.bytes_sent, 0.03);
        near(|figures| figures.bytes_received, 0.03);
        assert_near(sliced.store_busy, whole.store_busy, 0.03);
        assert_near(sliced.stale_mean, whole.stale_mean, 0.05);
        assert_near(sliced.used, whole.used, 0.01);
        assert_eq!(sliced.admitted_by.iter().sum::<u64>(), sliced.admitted);
    }

    #[test]
    fn some_slices_scaled_tell_what_the_store_has_to_do_for_all() {
        let whole = cut(&fleet(), 1);
        let slice = |slice| Scenario { slice, ..fleet() };
        let some = Slice::all(8).take(4);
        let measured = some.map(|one| slice(one).measure(|_| ()).unwrap());
        let some = measured.reduce(Measured::join).unwrap().scaled(8, 4);
        let some = some.figures();
        assert_eq!(some.hellos, whole.hellos);
        for (some, whole) in [
            (some.batches, whole.batches),
            (some.deltas, whole.deltas),
            (some.bytes_sent, whole.bytes_sent),
        ] {
            assert!(some.abs_diff(whole) * 5 <= whole, "{some}, not {whole}");
        }
        let busy = some.store_busy / whole.store_busy;
        assert!((0.8..1.2).contains(&busy), "{busy}");
    }

    #[test]
    fn only_large_fleets_are_cut() {
        assert_eq!(fleet().slices().len(), 1);
        let large = Scenario {
            nodes: 50,
            keys: 1_000_000,
            ..fleet()
        };
        let slices = large.slices();
        assert_eq!(slices.len(), 256);
        let last = &slices[255].slice;
        assert_eq!((last.number(), last.of()), (255, 256));
        let asked = Scenario {
            rate: 1_000_000.0,
            keys: 50_000,
            window: Nanos::from_secs(60),
            windows: 1,
            ..fleet()
        };
        assert_eq!(asked.slices().len(), 64);
        assert_eq!(Scenario { keys: 1, ..asked }.slices().len(), 1);
        let bursting = Scenario {
            shape: Shape::Bursting(5),
            ..large
        };
        assert_eq!(bursting.slices().len(), 1);
    }
}
