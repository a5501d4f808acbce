//! Resident bytes per key at a million keys, algorithm by algorithm.

use std::sync::Arc;

use tidegate::counters::{Counters, Fleet};
use tidegate::units::{
    Algorithm, Cost, KeySecret, Limit, LimitId, Nanos, Quota, Series, Timestamp,
};

/// The daemon's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KEYS: u64 = 1_000_000;

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4_096
}

fn main() {
    let now = Timestamp::from_nanos(1_700_000_000_000_000_000);
    for algorithm in [
        Algorithm::SlidingWindow,
        Algorithm::TokenBucket,
        Algorithm::SlidingLog,
    ] {
        let Ok(quota) = Quota::new(algorithm, 100, Nanos::from_secs(60), None) else {
            panic!("this is a quota");
        };
        let id = LimitId::of_space(algorithm.name());
        let mut limit = Limit::new(id, "rule", "limit", quota, &KeySecret::public());
        limit.series = Series(1);
        let limit = Arc::new(limit);
        let before = resident();
        let counters = Counters::new(4_000_000, Fleet::with_store());
        for number in 0..KEYS {
            let mut hasher = limit.hasher.clone();
            hasher.component("key", Some(&number.to_be_bytes()));
            counters.take(&limit, &limit.quota, hasher.key(), Cost::ONE, now);
        }
        let per_key = (resident() - before) / KEYS;
        println!("{:<16} {per_key:>5} bytes per key", algorithm.name());
        drop(counters);
    }
}
