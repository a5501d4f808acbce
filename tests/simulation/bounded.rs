//! What bounded limits promise: never over, whatever goes wrong.

use std::collections::BTreeMap;

use tidegate::simulation::{Dice, Fault, Memory, Scenario, Shape, Trouble};
use tidegate::units::{Algorithm, Consistency, Nanos, StoreLoss};

use crate::chaos::{any_faults, any_network, any_skews};
use crate::kit::{each_seed, world};

fn bounded(seed: u64, dice: &mut Dice, algorithm: Algorithm) -> Scenario {
    let shapes = [Shape::Even, Shape::Skewed(0.9), Shape::Bursting(8)];
    let one_of = |dice: &mut Dice, choices: &[u64]| {
        choices[usize::try_from(dice.below(choices.len() as u64)).unwrap()]
    };
    Scenario {
        nodes: 3,
        keys: 2,
        zipf: 0.5,
        algorithm,
        consistency: Consistency::Bounded,
        on_store_loss: StoreLoss::Closed,
        shape: shapes[usize::try_from(dice.below(3)).unwrap()],
        rate: 500.0 + f64::from(u32::try_from(dice.below(2_000)).unwrap()),
        limit: 300 + dice.below(400),
        window: Nanos::from_millis(one_of(dice, &[700, 1_000, 2_000])),
        seed,
        ..Scenario::default()
    }
}

/// Runs it, and answers how many windows were used up.
fn nothing_is_over(scenario: &Scenario, span: Nanos) -> usize {
    let mut world = world(scenario);
    world.remember_admissions();
    world.run_until(world.start().after(span));
    let mut windows: BTreeMap<_, u64> = BTreeMap::new();
    for admission in world.admissions() {
        let window = admission.at.window(scenario.window);
        *windows.entry((window, admission.key)).or_default() += admission.cost.get();
    }
    for ((window, key), used) in &windows {
        assert!(
            *used <= scenario.limit,
            "{}: {used} of {} for key {key} in window {}, {:?}",
            world.place(),
            scenario.limit,
            window.get() - world.start().window(scenario.window).get(),
            scenario.faults
        );
    }
    let full = windows.values().filter(|used| **used == scenario.limit);
    full.count()
}

#[test]
fn whatever_happens_no_window_admits_more_than_the_limit() {
    let full = std::cell::Cell::new(0);
    each_seed(100, |seed| {
        let mut dice = Dice::new(seed + 11_000);
        let mut scenario = bounded(seed, &mut dice, Algorithm::FixedWindow);
        scenario.network = any_network(&mut dice);
        scenario.skews = any_skews(&mut dice);
        scenario.faults = any_faults(&mut dice, 3);
        // A node that starts when the store has just been emptied, and finds it before any
        // other does, cannot know.
        let forgets = |fault: &Fault| match fault.trouble {
            Trouble::StoreFlushed => true,
            Trouble::StoreStops { memory, .. } => memory == Memory::Lost,
            _ => false,
        };
        let starts = |fault: &Fault| {
            let trouble = &fault.trouble;
            matches!(
                trouble,
                Trouble::NodeCrashes { .. } | Trouble::NodeLeaves { .. }
            )
        };
        if scenario.faults.iter().any(forgets) {
            scenario.faults.retain(|fault| !starts(fault));
        }
        full.set(full.get() + nothing_is_over(&scenario, Nanos::from_secs(7)));
    });
    assert!(full.get() > 0, "no limit was ever reached");
}

#[test]
fn a_sliding_window_is_never_over_either() {
    each_seed(50, |seed| {
        let mut dice = Dice::new(seed + 12_000);
        let mut scenario = bounded(seed, &mut dice, Algorithm::SlidingWindow);
        scenario.network = any_network(&mut dice);
        let memory = [
            Memory::Lost,
            Memory::Kept,
            Memory::Older(Nanos::from_millis(400)),
        ];
        scenario.faults = vec![Fault {
            after: Nanos::from_millis(1_500 + dice.below(1_000)),
            trouble: Trouble::StoreStops {
                away: Nanos::from_millis(dice.below(500)),
                memory: memory[usize::try_from(dice.below(3)).unwrap()],
            },
        }];
        nothing_is_over(&scenario, Nanos::from_secs(6));
        let mut world = world(&scenario);
        world.run_until(world.start().after(Nanos::from_secs(6)));
        let place = world.place();
        let figures = world.figures();
        assert_eq!(
            (figures.over.worst, figures.cold.worst),
            (0.0, 0.0),
            "{place}, {:?}",
            scenario.faults
        );
    });
}

#[test]
fn a_store_that_has_forgotten_lends_again_when_its_windows_are_over() {
    each_seed(20, |seed| {
        let mut dice = Dice::new(seed + 13_000);
        let mut scenario = bounded(seed, &mut dice, Algorithm::FixedWindow);
        scenario.window = Nanos::from_secs(1);
        scenario.rate = 2_500.0;
        scenario.faults = vec![Fault {
            after: Nanos::from_millis(1_100 + dice.below(800)),
            trouble: Trouble::StoreFlushed,
        }];
        let mut world = world(&scenario);
        world.run_until(world.start().after(Nanos::from_secs(4)));
        world.remember_admissions();
        world.run_until(world.now().after(scenario.window));
        let admitted = world.admissions().len() as u64;
        // Two keys, both used up or nearly.
        assert!(
            admitted * 10 >= scenario.limit * 2 * 9,
            "{}: {admitted} of {}",
            world.place(),
            scenario.limit * 2
        );
    });
}
