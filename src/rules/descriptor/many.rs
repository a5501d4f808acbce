use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use foldhash::quality::RandomState;

const WORDS: usize = 64;
const BITS: u64 = 64 * 64;
/// So many bits are set when about 1,000 distinct values were seen (linear counting:
/// 4096 · (1 − e^(−1000/4096))).
const MANY: u32 = 887;

/// Whether many distinct values have been seen, roughly and in 512 bytes.
#[derive(Debug)]
pub(in crate::rules) struct Many {
    bits: [AtomicU64; WORDS],
    set: AtomicU32,
    hasher: RandomState,
}

impl Default for Many {
    fn default() -> Many {
        Many {
            bits: [const { AtomicU64::new(0) }; WORDS],
            set: AtomicU32::new(0),
            // Seeded, so that nobody can choose values that look like few.
            hasher: RandomState::default(),
        }
    }
}

impl Many {
    /// Takes note of a value. Does nothing once there are many.
    pub(super) fn note(&self, value: &str) {
        if self.is_reached() {
            return;
        }
        let place = self.hasher.hash_one(value) % BITS;
        let bit = 1 << (place % 64);
        let word = usize::try_from(place / 64).ok();
        let Some(word) = word.and_then(|word| self.bits.get(word)) else {
            return;
        };
        let known = word.load(Ordering::Relaxed) & bit != 0;
        if !known && word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            self.set.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether there were about 1,000 or more.
    pub(super) fn is_reached(&self) -> bool {
        self.set.load(Ordering::Relaxed) >= MANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_about_a_thousand_distinct_ones() {
        let many = Many::default();
        for n in 0..800 {
            many.note(&format!("/x?n={n}"));
        }
        assert!(!many.is_reached());
        for n in 800..1_300 {
            many.note(&format!("/x?n={n}"));
        }
        assert!(many.is_reached());
    }

    #[test]
    fn the_same_few_never_become_many() {
        let many = Many::default();
        for n in 0..100_000 {
            many.note(&format!("/x?n={}", n % 500));
        }
        assert!(!many.is_reached());
    }
}
