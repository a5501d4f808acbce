//! Chance that can be had again.

use std::hash::{BuildHasher as _, RandomState};

/// SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
pub(crate) struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// Seeded by `TIDEGATE_TEST_SEED`, else by chance; the seed is printed.
    pub(crate) fn seeded(test: &str) -> Random {
        let seed = std::env::var("TIDEGATE_TEST_SEED").map_or_else(
            |_| RandomState::new().hash_one(test),
            |seed| seed.parse().unwrap(),
        );
        println!("TIDEGATE_TEST_SEED={seed}");
        Random { seed, state: seed }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        usize::try_from(z % end as u64).unwrap()
    }

    pub(crate) fn one_of<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// Yes, once in so many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
