//! Nothing is lost and nothing counts twice.

use std::collections::BTreeMap;

use tidegate::simulation::{Dice, Fault, Memory, Network, Scenario, Trouble, Value, World};
use tidegate::sync::event::Report;
use tidegate::units::{Algorithm, Cost, Nanos};

use crate::kit::{
    admitted, counted, each_seed, noise, quiet, settle, traced, traffic_for, whole, world,
};

const SECOND: Nanos = Nanos::from_secs(1);
const COUNTED: [Algorithm; 3] = [
    Algorithm::FixedWindow,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
];

/// A second of traffic in `scenario`, and then rest.
fn second_of(scenario: &Scenario) -> World {
    let mut world = world(scenario);
    play(&mut world, scenario);
    assert!(
        world.batches() >= 10,
        "next to nothing was sent: {}",
        world.place()
    );
    settle(&mut world);
    world
}

fn play(world: &mut World, scenario: &Scenario) {
    world.remember_admissions();
    // Not at the edge of a window, where a node's clock may still be in the one before.
    world.run_until(world.now().after(SECOND));
    let nodes = usize::try_from(scenario.nodes).unwrap();
    let mut dice = Dice::new(world.now().as_nanos() ^ scenario.seed);
    traffic_for(world, &mut dice, nodes, scenario.keys, SECOND);
}

#[track_caller]
fn assert_exact(world: &World, scenario: &Scenario) {
    let limit = &world.limits()[0];
    let algorithm = scenario.algorithm.name();
    assert_eq!(
        counted(world, limit, scenario.keys),
        admitted(world),
        "{algorithm}, {}",
        world.place()
    );
}

fn fault(trouble: Trouble) -> Fault {
    Fault {
        after: Nanos::from_millis(1_500),
        trouble,
    }
}

#[test]
fn a_network_that_loses_delays_and_doubles_changes_no_count() {
    for algorithm in COUNTED {
        each_seed(20, |seed| {
            let scenario = Scenario {
                network: noise(0.03, 0.1),
                ..quiet(seed, algorithm)
            };
            assert_exact(&second_of(&scenario), &scenario);
        });
    }
}

#[test]
fn what_another_limit_refuses_is_given_back() {
    each_seed(20, |seed| {
        let scenario = Scenario {
            network: noise(0.03, 0.1),
            ..quiet(seed, Algorithm::FixedWindow)
        };
        let rules = "rules:\n- name: simulated\n  algorithm: fixed_window\n  limits:\n    default:\n    \
                     - { requests: 1000000, window: 1h }\n    - { requests: 30, window: 2h }\n";
        let mut world = traced(World::with_rules(&scenario, rules).unwrap());
        play(&mut world, &scenario);
        settle(&mut world);
        let (admissions, checks) = (world.admissions().len() as u64, world.checks());
        assert!(
            admissions < checks,
            "nothing was refused: {}",
            world.place()
        );
        let admitted = admitted(&world);
        for limit in world.limits() {
            let name = &limit.name;
            assert_eq!(
                counted(&world, limit, 20),
                admitted,
                "{name}, {}",
                world.place()
            );
        }
    });
}

#[test]
fn a_flushed_store_is_filled_again_to_the_unit() {
    for algorithm in COUNTED {
        each_seed(20, |seed| {
            let scenario = Scenario {
                network: noise(0.05, 0.05),
                faults: vec![fault(Trouble::StoreFlushed)],
                ..quiet(seed, algorithm)
            };
            assert_exact(&second_of(&scenario), &scenario);
        });
    }
}

#[test]
fn a_store_that_was_flushed_unnoticed_is_filled_again_at_the_end() {
    each_seed(10, |seed| {
        let scenario = Scenario {
            faults: vec![Fault {
                after: SECOND.times(20),
                trouble: Trouble::StoreFlushed,
            }],
            ..quiet(seed, Algorithm::FixedWindow)
        };
        let mut world = second_of(&scenario);
        let flushed = world.start().after(SECOND.times(20));
        world.run_until(flushed);
        assert_eq!(counted(&world, &world.limits()[0], 20).len(), 0);
        world.flush();
        assert!(world.settle(SECOND), "{}", world.place());
        assert_exact(&world, &scenario);
    });
}

#[test]
fn a_failover_that_forgets_the_last_batches_is_healed_to_the_unit() {
    for algorithm in COUNTED {
        each_seed(20, |seed| {
            let failover = Trouble::StoreStops {
                away: Nanos::from_millis(100),
                memory: Memory::Older(Nanos::from_millis(50 + seed * 10)),
            };
            let scenario = Scenario {
                network: noise(0.05, 0.05),
                faults: vec![fault(failover)],
                ..quiet(seed, algorithm)
            };
            assert_exact(&second_of(&scenario), &scenario);
        });
    }
}

#[test]
fn a_store_that_was_away_hears_everything_that_still_matters() {
    let away = [
        Trouble::StoreStops {
            away: SECOND.times(5),
            memory: Memory::Kept,
        },
        Trouble::StoreStops {
            away: SECOND.times(5),
            memory: Memory::Lost,
        },
        Trouble::StoreStalls(SECOND.times(5)),
        Trouble::Partition {
            nodes: vec![0, 2],
            lasting: SECOND.times(5),
        },
    ];
    for trouble in away {
        for algorithm in COUNTED {
            each_seed(4, |seed| {
                let scenario = Scenario {
                    faults: vec![fault(trouble.clone())],
                    ..quiet(seed, algorithm)
                };
                assert_exact(&second_of(&scenario), &scenario);
            });
        }
    }
}

#[test]
fn after_the_noise_every_node_sees_what_the_fleet_has_used() {
    for algorithm in Algorithm::ALL {
        each_seed(6, |seed| {
            let scenario = Scenario {
                network: noise(0.03, 0.1),
                keys: 10,
                ..quiet(seed, algorithm)
            };
            let mut world = second_of(&scenario);
            // What a log's parts gave back late is read when the last word is a second old.
            world.run_until(world.now().after(SECOND.times(2)));
            // Who sends something is told what the fleet has used.
            for node in 0..3 {
                for key in 0..10 {
                    world.check(node, key, Cost::ONE);
                }
                settle(&mut world);
                for key in 0..10 {
                    let used = world.used(key);
                    let (_, left) = world.check(node, key, Cost::ZERO).unwrap();
                    let seen = scenario.limit - left;
                    // A bucket begins to drain when the store hears of it: here within
                    // some seconds, in which it drains some hundred.
                    let most = used + if algorithm.is_bucket() { 200 } else { 0 };
                    assert!(
                        (used..=most).contains(&seen),
                        "{}, {}: node {node} sees {seen} of key {key}, not {used}",
                        algorithm.name(),
                        world.place()
                    );
                }
            }
        });
    }
}

#[test]
fn a_late_batch_lands_in_its_own_window() {
    each_seed(30, |seed| {
        let scenario = Scenario {
            window: SECOND,
            network: noise(0.2, 0.1),
            ..quiet(seed, Algorithm::FixedWindow)
        };
        let mut world = world(&scenario);
        play(&mut world, &scenario);
        world.set_network(Network::default());
        // As long as the hashes live.
        world.run_until(world.start().after(SECOND.times(6)));
        let mut in_store: BTreeMap<u64, u64> = BTreeMap::new();
        for (id, _, cells) in world.store().contents(world.now()) {
            let counts = cells.map(|(_, value)| match value {
                Value::Count(count) => whole(count),
                Value::Debt(_) => 0,
            });
            *in_store.entry(id.slot.window.get()).or_default() += counts.sum::<u64>();
        }
        let mut admitted: BTreeMap<u64, u64> = BTreeMap::new();
        for admission in world.admissions() {
            let window = admission.counted_at.window(SECOND).get();
            *admitted.entry(window).or_default() += admission.cost.get();
        }
        let (mut missing, place) = (0, world.place());
        for (window, count) in &admitted {
            let counted = in_store.remove(window).unwrap_or(0);
            assert!(
                counted <= *count,
                "{place}: {counted} of {count} in {window}"
            );
            missing += count - counted;
        }
        assert_eq!(
            in_store.values().sum::<u64>(),
            0,
            "{place}: in a wrong window"
        );
        // What is so little that nobody misses it was never sent.
        let negligible = 20 * 3 * scenario.limit / 50 / 3;
        let most = world.expired() + admitted.len() as u64 * negligible;
        assert!(missing <= most, "{place}: {missing} of {most}");
    });
}

#[test]
fn a_crash_loses_what_was_not_yet_sent_and_no_more() {
    each_seed(20, |seed| {
        let crash = Trouble::NodeCrashes {
            node: 1,
            away: Nanos::from_millis(200),
        };
        let scenario = Scenario {
            faults: vec![Fault {
                after: SECOND.times(4),
                trouble: crash,
            }],
            ..quiet(seed, Algorithm::FixedWindow)
        };
        let mut world = world(&scenario);
        for _ in 0..4 {
            play(&mut world, &scenario);
        }
        settle(&mut world);
        let crashed = world.start().after(SECOND.times(4));
        // A cell waits as long as it may, and for long while next to nothing is unsent.
        let sent_until = crashed.before(scenario.pace.max_interval.plus(SECOND.divided_by(10)));
        let negligible = scenario.limit / 50 / 3;
        let all = admitted(&world);
        let in_store = counted(&world, &world.limits()[0], 20);
        let mut lost = 0;
        for (key, all) in all {
            let unsent = world.admissions().iter().filter(|admission| {
                let by = (admission.node, admission.life, admission.key);
                by == (1, 1, key) && admission.at >= sent_until
            });
            let unsent: u64 = unsent.map(|admission| admission.cost.get()).sum();
            let found = in_store.get(&key).copied().unwrap_or(0);
            let least = all - unsent - negligible;
            let place = world.place();
            assert!(
                (least..=all).contains(&found),
                "{place}: {found} of {least} to {all}"
            );
            lost += all - found;
        }
        assert!(lost > 0, "nothing was lost: {}", world.place());
    });
}

#[test]
fn a_node_that_leaves_loses_nothing() {
    for algorithm in COUNTED {
        each_seed(6, |seed| {
            let leave = Trouble::NodeLeaves {
                node: 1,
                away: Nanos::from_millis(300),
            };
            let scenario = Scenario {
                faults: vec![fault(leave)],
                ..quiet(seed, algorithm)
            };
            assert_exact(&second_of(&scenario), &scenario);
        });
    }
}

#[test]
fn the_store_is_reported_when_it_is_found_and_when_it_is_lost_and_not_in_between() {
    let stop = Trouble::StoreStops {
        away: SECOND.times(5),
        memory: Memory::Kept,
    };
    let scenario = Scenario {
        nodes: 1,
        faults: vec![fault(stop)],
        ..quiet(1, Algorithm::FixedWindow)
    };
    let world = second_of(&scenario);
    let news: Vec<&Report> = world.news().iter().map(|news| &news.report).collect();
    let lost = Report::StoreLost(tidegate::sync::Failure::Disconnected);
    assert_eq!(news, [&Report::StoreUp, &lost, &Report::StoreUp]);
}
