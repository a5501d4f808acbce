//! Gateways that decide by themselves, in virtual time: what their subscribers are assigned
//! by the real engine, and what comes of it.
//!
//! Each run is replayed by its seed: `TIDEGATE_SEED=7 cargo test --test quota_model`.

// Tests assert by panicking, and their helpers are not in test functions.
#![allow(clippy::unwrap_used, clippy::panic)]
// The figures are small.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

mod daemon;
mod envoy;
mod scene;
mod world;

use scene::{Limit, Scene, Shape};
use tidegate::units::{Algorithm, Nanos};
use world::{Outcome, World};

const fn limit(algorithm: Algorithm, amount: u64, secs: u64) -> Limit {
    Limit {
        algorithm,
        amount,
        period: Nanos::from_secs(secs),
        burst: None,
    }
}

fn seed() -> u64 {
    std::env::var("TIDEGATE_SEED").map_or(1, |seed| seed.parse().unwrap())
}

fn limits() -> Vec<Limit> {
    use Algorithm::{FixedWindow, SlidingWindow, TokenBucket};
    let mut all = Vec::new();
    for algorithm in [FixedWindow, SlidingWindow, TokenBucket] {
        for (amount, secs) in [
            (5, 60),
            (100, 60),
            (1_000, 60),
            (1_000, 3_600),
            (10, 1),
            (1_000, 1),
        ] {
            all.push(limit(algorithm, amount, secs));
        }
    }
    let burst = Some(500);
    all.push(Limit {
        burst,
        ..limit(TokenBucket, 100, 1)
    });
    all
}

fn shapes(limit: Limit, interval: Nanos) -> [Shape; 5] {
    let change = limit.period.times(2).max(interval.times(4));
    [
        Shape::Even,
        Shape::Chance,
        Shape::Skewed,
        Shape::Shifting(change),
        Shape::FromIdle(change.times(2)),
    ]
}

#[test]
fn table() {
    let picked = std::env::var("TIDEGATE_PICK").unwrap_or_default();
    for limit in limits() {
        for envoys in [1, 3, 10] {
            for secs in [1, 5, 10] {
                for factor in [0.5, 0.9, 2.0, 10.0] {
                    let interval = Nanos::from_secs(secs);
                    for shape in shapes(limit, interval) {
                        let name = format!(
                            "{:14} {:>4}/{:<4} x{envoys:<2} T={secs:<2} {factor:>4} {:9}",
                            limit.algorithm.name(),
                            limit.amount,
                            limit.period.to_string(),
                            format!("{shape:?}").split('(').next().unwrap(),
                        );
                        let name = name.trim_end().to_owned();
                        if !picked.split(',').all(|word| name.contains(word)) {
                            continue;
                        }
                        let scene = Scene {
                            limit,
                            envoys,
                            interval,
                            factor,
                            shape,
                            seed: seed(),
                        };
                        let outcome: Outcome = World::new(scene).run();
                        println!(
                            "{name:54} used {:6.1}% wrong {:6.2}% over {:4} trail {:4} msgs {:5.2} exp {} chg {}",
                            outcome.used() * 100.0,
                            outcome.wrongly_refused() * 100.0,
                            outcome.excess,
                            outcome.trailing_excess,
                            outcome.messages,
                            outcome.expired,
                            outcome.charged,
                        );
                    }
                }
            }
        }
    }
}
