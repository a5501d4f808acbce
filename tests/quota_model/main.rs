//! Gateways that decide by themselves, in virtual time: what their subscribers are assigned
//! by the real engine, and what comes of it.
//!
//! Each run is replayed by its seed: `TIDEGATE_SEED=7 cargo test --test quota_model`. With
//! `--nocapture` each tells its figures, and with `TIDEGATE_TRACE=1` what everybody was told.

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

use Algorithm::{FixedWindow, SlidingWindow, TokenBucket};

const SECOND: Nanos = Nanos::from_secs(1);
/// What a gateway admits on its old assignment while the new one is on its way.
const IN_FLIGHT_SECS: f64 = 0.02;

fn seed() -> u64 {
    std::env::var("TIDEGATE_SEED").map_or(1, |seed| seed.parse().unwrap())
}

/// How the demand changes and how suddenly it comes: slowly against the time between two
/// reports.
fn changing(limit: Limit, interval: Nanos) -> [Shape; 2] {
    let change = limit.period.times(2).max(interval.times(4));
    [Shape::Shifting(change), Shape::FromIdle(change.times(2))]
}

const STEADY: [Shape; 3] = [Shape::Even, Shape::Chance, Shape::Skewed];

/// Scenes of all these, at the seed.
fn scenes(
    limits: &[Limit],
    envoys: &[usize],
    secs: &[u64],
    factors: &[f64],
    shapes: impl Fn(Limit, Nanos) -> Vec<Shape>,
) -> Vec<Scene> {
    let mut all = Vec::new();
    for &limit in limits {
        for &envoys in envoys {
            for &secs in secs {
                for &factor in factors {
                    let interval = Nanos::from_secs(secs);
                    all.extend(shapes(limit, interval).into_iter().map(|shape| Scene {
                        limit,
                        envoys,
                        interval,
                        factor,
                        shape,
                        seed: seed(),
                    }));
                }
            }
        }
    }
    all
}

/// Plays the scene, tells its figures, and asserts what always holds.
fn play(scene: Scene) -> Outcome {
    let outcome = World::new(scene).run();
    println!(
        "{scene}: used {:.1}%, wrongly refused {:.2}%, {} over, {:.2} messages",
        outcome.used() * 100.0,
        outcome.wrongly_refused() * 100.0,
        outcome.excess,
        outcome.messages,
    );
    assert_eq!(outcome.expired, 0, "{scene}: an assignment ran out");
    assert!(
        outcome.counted >= outcome.reported + outcome.held,
        "{scene}: {outcome:?}"
    );
    let most = if STEADY.contains(&scene.shape) {
        2.0
    } else {
        3.0
    };
    assert!(outcome.messages <= most, "{scene}: {outcome:?}");
    outcome
}

#[track_caller]
fn assert_used(scene: Scene, outcome: &Outcome) {
    let least = match scene.limit.algorithm {
        // What becomes free between two reports is taken at the next.
        SlidingWindow => 0.92,
        _ => 0.95,
    };
    let least = if scene.factor > 1.0 { least } else { 0.0 };
    assert!(outcome.used() >= least, "{scene}: {outcome:?}");
}

#[test]
fn a_fixed_window_in_lumps_admits_what_it_says_and_what_is_in_flight() {
    let limits = [
        limit(FixedWindow, 100, 60),
        limit(FixedWindow, 1_000, 60),
        limit(FixedWindow, 1_000, 3_600),
    ];
    let shapes = |limit, interval| [&STEADY[..], &changing(limit, interval)].concat();
    let mut all = scenes(&limits, &[1, 3, 10], &[10], &[0.9, 2.0, 10.0], shapes);
    all.extend(scenes(&limits[..2], &[1, 3, 10], &[1, 5], &[2.0], shapes));
    for scene in all {
        let outcome = play(scene);
        let in_flight = scene.requests_a_second() * IN_FLIGHT_SECS;
        assert!(
            outcome.excess <= 3 + in_flight as u64 + outcome.unassigned,
            "{scene}: {outcome:?}"
        );
        if STEADY.contains(&scene.shape) {
            assert_used(scene, &outcome);
        }
    }
}

#[test]
fn a_limit_of_five_is_kept_by_ten_gateways() {
    let limits = [limit(FixedWindow, 5, 60)];
    let shapes = |limit, interval| [&STEADY[..], &changing(limit, interval)].concat();
    for scene in scenes(
        &limits,
        &[1, 3, 10],
        &[1, 5, 10],
        &[0.5, 0.9, 2.0, 10.0],
        shapes,
    ) {
        let outcome = play(scene);
        // Each new one is admitted once before it is assigned anything.
        assert!(
            outcome.excess <= scene.envoys as u64,
            "{scene}: {outcome:?}"
        );
    }
}

#[test]
fn sliding_windows_and_buckets_in_lumps_are_used_up_and_not_exceeded() {
    let limits = [
        limit(SlidingWindow, 1_000, 60),
        limit(TokenBucket, 100, 60),
        limit(TokenBucket, 1_000, 60),
    ];
    for scene in scenes(&limits, &[1, 3, 10], &[1, 5], &[2.0, 10.0], |_, _| {
        STEADY.to_vec()
    }) {
        let outcome = play(scene);
        assert_used(scene, &outcome);
        // What is held for half a period is forgotten, and may be used after all.
        let slack = 2 + scene.limit.amount / 50;
        assert!(outcome.excess <= slack, "{scene}: {outcome:?}");
    }
}

#[test]
fn a_rate_is_used_up_and_exceeded_by_little() {
    let burst = Some(500);
    let limits = [
        limit(FixedWindow, 1_000, 1),
        limit(SlidingWindow, 1_000, 1),
        limit(FixedWindow, 100, 1),
        Limit {
            burst,
            ..limit(TokenBucket, 100, 1)
        },
    ];
    for scene in scenes(&limits, &[1, 3, 10], &[1, 10], &[0.9, 2.0], |_, _| {
        STEADY.to_vec()
    }) {
        let outcome = play(scene);
        assert_used(scene, &outcome);
        if scene.limit.algorithm != TokenBucket {
            // A bucket that is not used up is a quarter of a period's worth, or four; and a
            // new rate comes with a full one, where it is used up of a hundredth, or four.
            let reserve = if scene.factor < 1.0 { 4 } else { 50 };
            let slack = scene.limit.amount / reserve + 4 * scene.envoys as u64;
            assert!(outcome.excess <= slack, "{scene}: {outcome:?}");
        }
    }
}

#[test]
fn ten_a_second_is_kept_on_average_and_within_a_second_as_good_as_it_can() {
    let limits = [limit(FixedWindow, 10, 1)];
    for scene in scenes(&limits, &[1, 3, 10], &[1, 10], &[2.0, 10.0], |_, _| {
        STEADY.to_vec()
    }) {
        let outcome = play(scene);
        assert!(
            (0.75..=1.2).contains(&outcome.used()),
            "{scene}: {outcome:?}"
        );
        assert!(outcome.excess <= 10, "{scene}: {outcome:?}");
    }
}

#[test]
fn a_burst_from_idle_passes_a_rate_by_less_than_half_of_it() {
    let limits = [limit(FixedWindow, 1_000, 1)];
    let idle = |limit, interval| changing(limit, interval)[1..].to_vec();
    for scene in scenes(&limits, &[1, 3, 10], &[1], &[2.0], idle) {
        let outcome = play(scene);
        assert!(
            outcome.excess < scene.limit.amount / 2,
            "{scene}: {outcome:?}"
        );
    }
}

#[test]
fn what_has_room_is_not_refused() {
    let limits = [
        limit(FixedWindow, 1_000, 60),
        limit(FixedWindow, 1_000, 3_600),
        limit(FixedWindow, 1_000, 1),
        limit(TokenBucket, 1_000, 60),
        limit(SlidingWindow, 1_000, 60),
    ];
    for scene in scenes(&limits, &[1, 10], &[5, 10], &[0.9], |_, _| {
        vec![Shape::Even, Shape::Chance]
    }) {
        let rarely = scene.interval > SECOND.times(5);
        let most = match (scene.limit.algorithm, scene.shape) {
            // What is held counts from when it was taken: where a sixth of the period passes
            // between two reports, that is more than what nobody asks for.
            (SlidingWindow, _) if rarely => 0.04,
            (SlidingWindow, _) => 0.02,
            (_, Shape::Even) => 0.001,
            // Many who report rarely cannot know of each other's luck.
            _ if scene.envoys == 10 && rarely => 0.01,
            _ => 0.005,
        };
        let outcome = play(scene);
        assert!(outcome.wrongly_refused() <= most, "{scene}: {outcome:?}");
    }
}

#[test]
fn what_is_short_is_split_by_demand() {
    let limits = [
        limit(FixedWindow, 1_000, 60),
        limit(FixedWindow, 1_000, 1),
        limit(SlidingWindow, 1_000, 60),
        limit(TokenBucket, 1_000, 60),
        limit(TokenBucket, 1_000, 1),
    ];
    for scene in scenes(&limits, &[2], &[1, 5], &[2.0, 10.0], |_, _| {
        vec![Shape::Weighted(3.0)]
    }) {
        let outcome = play(scene);
        let ratio = outcome.admitted[0] as f64 / outcome.admitted[1] as f64;
        let asked = outcome.asked_of[0] as f64 / outcome.asked_of[1] as f64;
        // Of what comes back bit by bit, who asks for more is a little ahead.
        let near = match scene.limit.algorithm {
            SlidingWindow => 0.88..=1.15,
            _ => 0.9..=1.1,
        };
        assert!(near.contains(&(ratio / asked)), "{scene}: {outcome:?}");
    }
}

#[test]
fn all_that_was_admitted_and_all_that_is_held_is_in_the_engines_count() {
    let day = limit(FixedWindow, 1_000_000, 86_400);
    for factor in [0.5, 2.0, 10.0] {
        let scene = Scene {
            limit: day,
            envoys: 3,
            interval: SECOND.times(5),
            factor,
            shape: Shape::Chance,
            seed: seed(),
        };
        // Within one day: it began at 22:13.
        let outcome = World::new(scene).run_for(Nanos::from_secs(600));
        assert!(outcome.reported > 2_000, "{outcome:?}");
        assert_eq!(
            outcome.counted,
            outcome.reported + outcome.held,
            "{outcome:?}"
        );
        assert_eq!(outcome.used_in_engine, outcome.counted, "{outcome:?}");
    }
}

#[test]
fn a_seed_replays_its_run() {
    let scene = |seed| Scene {
        limit: limit(FixedWindow, 100, 1),
        envoys: 3,
        interval: SECOND,
        factor: 2.0,
        shape: Shape::Chance,
        seed,
    };
    let run = |seed| format!("{:?}", World::new(scene(seed)).run());
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}
