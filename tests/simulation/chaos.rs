//! Anything that can go wrong, in any order.

use std::collections::BTreeMap;

use tidegate::simulation::{Dice, Fault, Memory, Network, Scenario, Shape, Skew, Trouble, World};
use tidegate::units::{Algorithm, Cost, Nanos};

use crate::kit::{
    admitted, counted, each_seed, noise, quiet, settle, settle_up, traffic_for, world,
};

fn millis(dice: &mut Dice, most: u64) -> Nanos {
    Nanos::from_millis(dice.below(most))
}

fn any_trouble(dice: &mut Dice, nodes: usize) -> Trouble {
    let node = usize::try_from(dice.below(nodes as u64)).unwrap();
    let away = millis(dice, 3_000);
    match dice.below(7) {
        0 => Trouble::StoreStops {
            away,
            memory: Memory::Kept,
        },
        1 => Trouble::StoreStops {
            away,
            memory: Memory::Lost,
        },
        2 => Trouble::StoreStops {
            away,
            memory: Memory::Older(millis(dice, 1_000)),
        },
        3 => Trouble::StoreStalls(away),
        4 => Trouble::StoreFlushed,
        5 => Trouble::Partition {
            nodes: vec![node],
            lasting: away,
        },
        _ if dice.below(2) == 0 => Trouble::NodeCrashes { node, away },
        _ => Trouble::NodeLeaves { node, away },
    }
}

/// Up to three troubles in the first three seconds.
pub(crate) fn any_faults(dice: &mut Dice, nodes: usize) -> Vec<Fault> {
    let fault = |dice: &mut Dice| Fault {
        after: Nanos::from_millis(1_000).plus(millis(dice, 2_000)),
        trouble: any_trouble(dice, nodes),
    };
    (0..dice.below(4)).map(|_| fault(dice)).collect()
}

pub(crate) fn any_network(dice: &mut Dice) -> Network {
    match dice.below(3) {
        0 => noise(0.05, 0.05),
        1 => Network {
            round_trip: millis(dice, 30),
            jitter: millis(dice, 10),
            loss: 0.01,
            ..Network::default()
        },
        _ => Network::default(),
    }
}

/// Clocks that are wrong by up to a minute.
pub(crate) fn any_skews(dice: &mut Dice) -> Vec<Skew> {
    let skew = |dice: &mut Dice| Skew {
        ahead: i64::try_from(dice.below(120)).unwrap() * 1_000_000_000 - 60_000_000_000,
        drift: i32::try_from(dice.below(400)).unwrap() - 200,
    };
    (0..dice.below(4)).map(|_| skew(dice)).collect()
}

/// Each life of each node that ended, and so took with it what the store did not have.
fn dead_lives_share(world: &World) -> BTreeMap<u32, u64> {
    let mut last: BTreeMap<usize, u64> = BTreeMap::new();
    for node in 0..3 {
        last.insert(node, world.life(node));
    }
    let mut share = BTreeMap::new();
    for admission in world.admissions() {
        if admission.life < last[&admission.node] {
            *share.entry(admission.key).or_default() += admission.cost.get();
        }
    }
    share
}

#[test]
fn whatever_happens_nothing_is_lost_but_with_the_dead_and_nothing_counts_twice() {
    for algorithm in [
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
    ] {
        each_seed(40, |seed| {
            let mut dice = Dice::new(seed + 7_000);
            let scenario = Scenario {
                network: any_network(&mut dice),
                skews: any_skews(&mut dice),
                faults: any_faults(&mut dice, 3),
                ..quiet(seed, algorithm)
            };
            let mut world = world(&scenario);
            world.remember_admissions();
            world.run_until(world.now().after(Nanos::from_secs(1)));
            traffic_for(&mut world, &mut dice, 3, 20, Nanos::from_millis(2_500));
            settle_up(&mut world);
            let counted = counted(&world, &world.limits()[0], 20);
            let dead = dead_lives_share(&world);
            for (key, all) in admitted(&world) {
                let found = counted.get(&key).copied().unwrap_or(0);
                let least = all - dead.get(&key).copied().unwrap_or(0);
                assert!(
                    (least..=all).contains(&found),
                    "{}, {}: {found} of key {key}, not {least} to {all}; {:?}",
                    algorithm.name(),
                    world.place(),
                    scenario.faults
                );
            }
        });
    }
}

#[test]
fn whatever_happens_no_cell_refuses_for_longer_than_its_window_afterwards() {
    each_seed(120, |seed| {
        let mut dice = Dice::new(seed + 9_000);
        let algorithm = Algorithm::ALL[usize::try_from(dice.below(5)).unwrap()];
        let nodes = 1 + u32::try_from(dice.below(4)).unwrap();
        let keys = 1 + u32::try_from(dice.below(8)).unwrap();
        let shapes = [Shape::Even, Shape::Skewed(0.9), Shape::Bursting(8)];
        let scenario = Scenario {
            nodes,
            keys,
            zipf: 1.0,
            algorithm,
            shape: shapes[usize::try_from(dice.below(3)).unwrap()],
            rate: 200.0 + f64::from(u32::try_from(dice.below(2_000)).unwrap()),
            limit: 20 + dice.below(200),
            window: Nanos::from_millis(
                [200, 1_000, 2_000][usize::try_from(dice.below(3)).unwrap()],
            ),
            network: any_network(&mut dice),
            skews: any_skews(&mut dice),
            faults: any_faults(&mut dice, nodes as usize),
            seed,
            ..Scenario::default()
        };
        let mut world = world(&scenario);
        world.run_until(world.start().after(Nanos::from_millis(3_500)));
        world.end_demand();
        let place = format!("{}, {:?}", algorithm.name(), scenario.faults);
        settle(&mut world);
        // A cell that knows no better may send its first caller away until it has asked.
        let end = world.now().after(scenario.window);
        for (node, key) in (0..nodes as usize).flat_map(|n| (0..keys).map(move |key| (n, key))) {
            loop {
                let (outcome, left) = world.check(node, key, Cost::ONE).unwrap();
                if outcome.is_allowed() {
                    assert!(left < scenario.limit, "{}, {place}", world.place());
                    break;
                }
                assert!(
                    world.now() < end,
                    "{}, {place}: node {node} answers {outcome:?} for key {key}",
                    world.place()
                );
                world.run_until(world.now().after(Nanos::from_millis(5)));
            }
        }
    });
}

#[test]
fn whatever_happens_what_was_lent_and_not_spent_goes_back() {
    for algorithm in [
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
    ] {
        each_seed(30, |seed| {
            let mut dice = Dice::new(seed + 8_000);
            let mut faults = any_faults(&mut dice, 3);
            // A lease dies with its node.
            faults.retain(|fault| {
                let trouble = &fault.trouble;
                !matches!(
                    trouble,
                    Trouble::NodeCrashes { .. } | Trouble::NodeLeaves { .. }
                )
            });
            let scenario = Scenario {
                network: any_network(&mut dice),
                faults,
                keys: 10,
                limit: 50 + dice.below(200),
                ..quiet(seed, algorithm)
            };
            let mut world = world(&scenario);
            world.remember_admissions();
            world.run_until(world.now().after(Nanos::from_secs(1)));
            traffic_for(&mut world, &mut dice, 3, 10, Nanos::from_millis(2_500));
            settle_up(&mut world);
            let place = format!("{}, {}", algorithm.name(), world.place());
            assert_eq!(
                counted(&world, &world.limits()[0], 10),
                admitted(&world),
                "{place}, {:?}",
                scenario.faults
            );
        });
    }
}
