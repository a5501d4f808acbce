//! Resident bytes per key at a million keys, algorithm by algorithm.

// A benchmark that cannot be set up ends.
#![allow(clippy::panic)]

use std::process::Command;
use std::sync::Arc;

use tidegate::counters::{Counters, Fleet};
use tidegate::units::{
    Algorithm, Cost, EncodedIdentity, KeySecret, Limit, LimitId, Nanos, Quota, Series, Timestamp,
};

const KEYS: u64 = 1_000_000;
const ONLY: &str = "--only=";

fn main() {
    let only = std::env::args().find_map(|arg| arg.strip_prefix(ONLY).map(str::to_owned));
    if let Some(name) = only {
        Algorithm::ALL
            .into_iter()
            .filter(|algorithm| algorithm.name() == name)
            .for_each(measure);
        return;
    }
    // Each in a process of its own: freed memory would flatter the second.
    for algorithm in Algorithm::ALL {
        let Ok(program) = std::env::current_exe() else {
            return;
        };
        let _ = Command::new(program)
            .arg(format!("{ONLY}{}", algorithm.name()))
            .status();
    }
}

fn measure(algorithm: Algorithm) {
    let now = Timestamp::from_nanos(1_700_000_000_000_000_000);
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
        let key = limit
            .hasher
            .key(&EncodedIdentity::of("key", Some(&number.to_be_bytes())));
        counters.take(&limit, &limit.quota, key, Cost::ONE, now);
    }
    let per_key = resident().saturating_sub(before) / KEYS;
    println!("{:<16} {per_key:>5} bytes per key", algorithm.name());
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4_096
}
