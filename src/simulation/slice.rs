//! A large fleet, cut into slices that know nothing of each other.
//!
//! Cells of different partitions share nothing but their nodes and their store: no
//! batch, no hash, no announcement. So a fleet may be simulated slice by slice, each
//! with the keys of some of the partitions, in the memory of one slice and on as many
//! cores as there are. Only how long the store keeps one slice waiting for another is
//! not seen; a store that is busy all the time ([`Figures::store_busy`]) tells of itself.
//!
//! [`Figures::store_busy`]: super::Figures::store_busy

use super::demand::Shape;
use super::dice::weight;
use super::scenario::Scenario;
use super::world::World;
use crate::units::Limit;

/// Which of so many slices of the keys is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its number, from zero.
    pub number: u32,
    /// How many there are.
    pub of: u32,
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
const CELLS: u64 = 1 << 20;

impl Slice {
    /// All keys.
    pub const WHOLE: Slice = Slice { number: 0, of: 1 };
}

impl Scenario {
    /// The same in slices of which each fits into a few hundred megabytes: one, if the
    /// fleet does, or if its checks come in bursts, which are of all keys.
    pub fn slices(&self) -> Vec<Scenario> {
        let cells = u64::from(self.nodes) * u64::from(self.keys);
        let wanted = u32::try_from(cells.div_ceil(CELLS)).unwrap_or(u32::MAX);
        // As many partitions in each.
        let most = 1 << self.partitions.get().trailing_zeros();
        let of = match self.shape {
            Shape::Bursting(_) => 1,
            _ => wanted.min(most).next_power_of_two(),
        };
        let slice = |number| Scenario {
            slice: Slice { number, of },
            ..self.clone()
        };
        (0..of).map(slice).collect()
    }

    /// The keys of the slice, as `limit` counts them.
    pub(super) fn sliced(&self, limit: &Limit) -> Sliced {
        let all = (0..self.keys).map(|number| weight(number, self.zipf));
        if self.slice == Slice::WHOLE {
            return Sliced {
                numbers: Vec::new(),
                weights: all.collect(),
                part: 1.0,
            };
        }
        let whole: f64 = all.sum();
        let is_here = |number: &u32| {
            let partition = World::key(limit, *number).partition(self.partitions);
            u32::from(partition.get()) % self.slice.of == self.slice.number
        };
        let numbers: Vec<u32> = (0..self.keys).filter(is_here).collect();
        let weights: Vec<f64> = numbers.iter().map(|n| weight(*n, self.zipf)).collect();
        let part = weights.iter().sum::<f64>() / whole;
        Sliced {
            numbers,
            weights,
            part,
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
        let slice = |number| Scenario {
            slice: Slice { number, of },
            ..scenario.clone()
        };
        let measured = (0..of).map(|number| slice(number).measure(|_| ()).unwrap());
        measured.reduce(Measured::join).unwrap().figures()
    }

    #[test]
    fn every_key_is_in_one_slice_and_the_demand_is_divided() {
        let scenario = fleet();
        let world = World::new(&scenario).unwrap();
        let of = 8;
        let sliced: Vec<Sliced> = (0..of)
            .map(|number| {
                let slice = Slice { number, of };
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
        let slice = |number| Scenario {
            slice: Slice { number, of: 8 },
            ..fleet()
        };
        let measured = (0..4).map(|number| slice(number).measure(|_| ()).unwrap());
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
        assert_eq!(slices.len(), 64);
        assert_eq!(slices[63].slice, Slice { number: 63, of: 64 });
        let bursting = Scenario {
            shape: Shape::Bursting(5),
            ..large
        };
        assert_eq!(bursting.slices().len(), 1);
    }
}
