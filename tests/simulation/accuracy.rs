//! How far from its limit a fleet is.

use tidegate::simulation::{
    Fault, Figures, Memory, Network, Scenario, Service, Shape, Skew, Trouble,
};
use tidegate::units::{Algorithm, Consistency, Cost, Nanos, StoreLoss};

use crate::kit::{each_seed, world};

const SECOND: Nanos = Nanos::from_secs(1);
const SHAPES: [(&str, Shape); 4] = [
    ("even", Shape::Even),
    ("skewed", Shape::Skewed(0.91)),
    (
        "shifting",
        Shape::Shifting {
            share: 0.91,
            every: SECOND.times(2),
        },
    ),
    ("bursting", Shape::Bursting(10)),
];

/// How far an `approximate` limit of 1,000 a second on four nodes may be off at twice and
/// ten times its demand, as parts of the limit.
struct Bound {
    algorithm: Algorithm,
    /// The mean of all windows but the first, and the worst.
    mean: f64,
    worst: f64,
    /// The first window.
    cold: f64,
    /// What is used at least.
    used: f64,
}

const fn bound(algorithm: Algorithm, mean: f64, worst: f64, cold: f64, used: f64) -> Bound {
    Bound {
        algorithm,
        mean,
        worst,
        cold,
        used,
    }
}

const BOUNDS: [Bound; 5] = [
    bound(Algorithm::FixedWindow, 0.015, 0.05, 0.05, 0.96),
    bound(Algorithm::SlidingWindow, 0.03, 0.09, 0.10, 0.94),
    bound(Algorithm::SlidingLog, 0.10, 0.20, 0.20, 0.92),
    bound(Algorithm::TokenBucket, 0.03, 0.08, 0.08, 0.96),
    bound(Algorithm::LeakyBucket, 0.03, 0.08, 0.08, 0.96),
];

fn run(scenario: &Scenario) -> Figures {
    scenario.run(|_| ()).unwrap()
}

#[test]
fn a_scenario_gives_the_same_figures_every_time_and_a_seed_gives_others() {
    let scenario = Scenario {
        network: Network {
            jitter: Nanos::from_millis(2),
            ..Network::default()
        },
        windows: 5,
        ..Scenario::default()
    };
    let first = run(&scenario);
    assert_eq!(run(&scenario), first);
    let other = Scenario {
        seed: 2,
        ..scenario
    };
    assert_ne!(run(&other), first);
}

#[test]
fn approximate_stays_within_its_bound() {
    for bound in BOUNDS {
        for (name, shape) in SHAPES {
            for times in [2.0, 10.0] {
                let scenario = Scenario {
                    algorithm: bound.algorithm,
                    shape,
                    rate: 1_000.0 * times,
                    windows: 6,
                    ..Scenario::default()
                };
                let figures = run(&scenario);
                let algorithm = bound.algorithm.name();
                let place = format!("{algorithm}, {name}, {times} times the limit: {figures:?}");
                assert_eq!(figures.over.windows, 6, "{place}");
                assert!(figures.over.mean <= bound.mean, "{place}");
                assert!(figures.over.worst <= bound.worst, "{place}");
                assert!(figures.cold.worst <= bound.cold, "{place}");
                assert!(figures.used >= bound.used, "{place}");
            }
        }
    }
}

#[test]
fn a_fleet_in_step_costs_the_store_less_than_a_plain_interval() {
    for (name, shape) in SHAPES {
        for times in [0.9, 2.0, 10.0] {
            let scenario = Scenario {
                nodes: 10,
                shape,
                rate: 1_000.0 * times,
                windows: 10,
                ..Scenario::default()
            };
            let figures = run(&scenario);
            // Ten nodes, each every 100 ms; hellos come on top in any case.
            let plain = 100.0;
            let commands = figures.batches as f64 / figures.seconds;
            assert!(commands <= plain, "{name}, {times} times: {commands}");
        }
    }
}

#[test]
fn below_the_limit_next_to_nothing_is_refused() {
    for algorithm in Algorithm::ALL {
        for (name, shape) in SHAPES {
            each_seed(2, |seed| {
                let scenario = Scenario {
                    algorithm,
                    shape,
                    // Bursts of ten would go beyond it by chance at 0.9.
                    rate: 800.0,
                    windows: 6,
                    seed,
                    ..Scenario::default()
                };
                let figures = run(&scenario);
                let place = format!("{}, {name}, seed {seed}: {figures:?}", algorithm.name());
                assert_eq!(figures.unavailable, 0, "{place}");
                // What is lent in vain to one node, the others miss.
                let most = match algorithm {
                    Algorithm::FixedWindow => 0.0,
                    _ => 0.01,
                };
                assert!(figures.wrongly_refused_part() <= most, "{place}");
            });
        }
    }
}

/// A window that turns takes its count with it, in the store as in memory: nothing of an
/// old one is left to refuse with.
#[test]
fn five_minutes_of_short_windows_far_from_the_limit_refuse_nobody() {
    for nodes in [1, 4] {
        let scenario = Scenario {
            nodes,
            algorithm: Algorithm::FixedWindow,
            limit: 3_000,
            window: SECOND,
            rate: 500.0,
            windows: 300,
            ..Scenario::default()
        };
        let figures = run(&scenario);
        assert!(figures.admitted > 140_000, "{figures:?}");
        assert_eq!(
            (figures.refused, figures.unavailable),
            (0, 0),
            "{figures:?}"
        );
    }
}

#[test]
fn one_node_alone_is_exact() {
    for algorithm in Algorithm::ALL {
        let scenario = Scenario {
            nodes: 1,
            algorithm,
            consistency: Consistency::Local,
            service: Service {
                command: Nanos::ZERO,
                cell: Nanos::ZERO,
            },
            windows: 6,
            ..Scenario::default()
        };
        let figures = run(&scenario);
        let name = algorithm.name();
        assert_eq!(
            (figures.over.worst, figures.cold.worst),
            (0.0, 0.0),
            "{name}"
        );
        // The store tells its time in microseconds: at an edge the node is behind.
        assert!(figures.wrongly_refused_part() < 0.001, "{name}");
        assert_eq!(figures.batches, 0, "{name}");
    }
}

/// The judge must be able to say so: nodes that do not talk admit the limit each.
#[test]
fn four_nodes_alone_admit_four_times_the_limit() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingLog] {
        let scenario = Scenario {
            algorithm,
            rate: 40_000.0,
            consistency: Consistency::Local,
            windows: 3,
            ..Scenario::default()
        };
        let figures = run(&scenario);
        let over = figures.over;
        assert_eq!((over.mean, over.worst), (3.0, 3.0), "{}", algorithm.name());
        assert_eq!(figures.admitted, 4 * 4_000, "{}", algorithm.name());
    }
}

#[test]
fn clocks_that_are_wrong_and_drift_change_little() {
    let skews = vec![
        Skew {
            ahead: 5_000_000_000,
            drift: 100,
        },
        Skew {
            ahead: -90_000_000_000,
            drift: -200,
        },
        Skew {
            ahead: -400 * 86_400 * 1_000_000_000,
            drift: 0,
        },
        Skew {
            ahead: 3_600_000_000_000,
            drift: 0,
        },
    ];
    let right = Scenario {
        windows: 10,
        ..Scenario::default()
    };
    let wrong = Scenario {
        skews,
        ..right.clone()
    };
    let (right, wrong) = (run(&right), run(&wrong));
    assert!(wrong.over.worst <= right.over.worst + 0.01, "{wrong:?}");
    assert!(wrong.wrongly_refused_part() < 0.001, "{wrong:?}");
}

#[test]
fn without_its_store_a_limit_does_as_it_says() {
    let stop = Fault {
        after: SECOND.times(2),
        trouble: Trouble::StoreStops {
            away: SECOND.times(6),
            memory: Memory::Kept,
        },
    };
    let with = |on_store_loss, rate| {
        run(&Scenario {
            faults: vec![stop.clone()],
            on_store_loss,
            rate,
            windows: 9,
            ..Scenario::default()
        })
    };
    let share = with(StoreLoss::Share, 4_000.0);
    assert!(share.used > 0.99, "{share:?}");
    // Until the loss is noticed each node may go beyond its share.
    assert!(share.over.worst < 1.0, "{share:?}");
    assert_eq!(share.unavailable, 0);
    let closed = with(StoreLoss::Closed, 4_000.0);
    // It is gone for six seconds and found again within four.
    assert!((20_000..32_000).contains(&closed.unavailable), "{closed:?}");
    let open = with(StoreLoss::Open, 4_000.0);
    assert!((2.9..3.1).contains(&open.over.worst), "{open:?}");
    let local = with(StoreLoss::Local, 8_000.0);
    assert!((2.9..=3.0).contains(&local.over.worst), "{local:?}");
}

#[test]
fn a_store_with_more_to_do_than_it_can_answers_late_and_is_told_so() {
    let slow = Scenario {
        nodes: 10,
        keys: 1_000,
        rate: 5_000.0,
        limit: 20,
        service: Service {
            command: Nanos::from_millis(1),
            cell: Nanos::from_millis(1),
        },
        windows: 3,
        ..Scenario::default()
    };
    let quick = Scenario {
        service: Service::default(),
        ..slow.clone()
    };
    let (slow, quick) = (run(&slow), run(&quick));
    assert!(quick.store_busy < 0.5, "{quick:?}");
    assert!(slow.store_busy > 0.95, "{slow:?}");
    assert!(slow.stale_mean > quick.stale_mean, "{slow:?}, {quick:?}");
}

/// A caller that nobody has heard of asks for its whole limit at one node, as fast as it
/// can: that is its right.
#[test]
fn a_burst_of_one_caller_at_one_node_is_hardly_refused() {
    for (nodes, least) in [(1, 1.0), (4, 0.95)] {
        for algorithm in Algorithm::ALL {
            for micros in [20, 100, 500, 2_000] {
                for (limit, cost) in [(100, 1), (200, 5), (1_000, 1), (1_000, 50)] {
                    let scenario = Scenario {
                        nodes,
                        limit,
                        algorithm,
                        rate: 0.000_1,
                        window: SECOND.times(60),
                        windows: 1,
                        ..Scenario::default()
                    };
                    let mut world = world(&scenario);
                    let begin = world.start().after(SECOND.times(3));
                    world.run_until(begin);
                    let mut admitted = 0;
                    for turn in 0..limit / cost {
                        world.run_until(begin.after(Nanos::new(1_000 * micros * turn)));
                        let (outcome, _) = world.check(0, 0, Cost::new(cost)).unwrap();
                        admitted += u64::from(outcome.is_allowed()) * cost;
                    }
                    let name = algorithm.name();
                    assert!(
                        admitted as f64 >= least * limit as f64,
                        "{name}, {nodes} nodes: {admitted} of {limit}, {cost} every {micros} µs"
                    );
                }
            }
        }
    }
}
