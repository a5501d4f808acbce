//! Windows of a calendar, which are not all of one length, around their turns.

use std::collections::BTreeMap;

use tidegate::simulation::{Dice, Fault, Network, Scenario, Shape, Trouble, Value, World};
use tidegate::units::{
    Algorithm, Calendar, CalendarUnit, Consistency, Nanos, StoreLoss, Timestamp, Windows,
};

use crate::chaos::{any_faults, any_network, any_skews};
use crate::kit::{each_seed, noise, quiet, settle, settle_up, traffic_for, whole};

/// A turn from one window to a longer or shorter one.
struct Turn {
    unit: CalendarUnit,
    zone: &'static str,
    /// In seconds since the epoch.
    at: u64,
}

/// Into and out of the days in which the clock is put, the week of one, and February.
const TURNS: [Turn; 6] = [
    Turn {
        unit: CalendarUnit::Day,
        zone: "Europe/Berlin",
        at: 1_774_738_800,
    },
    Turn {
        unit: CalendarUnit::Day,
        zone: "Europe/Berlin",
        at: 1_774_821_600,
    },
    Turn {
        unit: CalendarUnit::Day,
        zone: "America/Havana",
        at: 1_730_606_400,
    },
    Turn {
        unit: CalendarUnit::Week,
        zone: "Europe/Berlin",
        at: 1_774_821_600,
    },
    Turn {
        unit: CalendarUnit::Month,
        zone: "UTC",
        at: 1_769_904_000,
    },
    Turn {
        unit: CalendarUnit::Month,
        zone: "Asia/Kathmandu",
        at: 1_772_302_500,
    },
];

impl Turn {
    fn of(seed: u64) -> &'static Turn {
        &TURNS[usize::try_from(seed % TURNS.len() as u64).unwrap()]
    }

    fn windows(&self) -> Windows {
        Windows::Calendar(Calendar::new(self.unit, self.zone).unwrap())
    }

    /// A world whose first check comes so long before.
    fn world(&self, scenario: &Scenario, before: Nanos) -> World {
        let (consistency, loss) = match scenario.consistency {
            Consistency::Bounded => ("bounded", "closed"),
            _ => ("approximate", "share"),
        };
        let rules = format!(
            "rules: [{{name: simulated, consistency: {consistency}, on_store_loss: {loss}, \
             limits: {{requests: {}, window: {}, time_zone: {}}}}}]",
            scenario.limit,
            self.unit.name(),
            self.zone,
        );
        let at = Timestamp::from_nanos(self.at * 1_000_000_000);
        let windows = self.windows();
        assert_eq!(
            windows.start(windows.at(at)),
            at,
            "no turn of {} in {}",
            self.unit.name(),
            self.zone
        );
        World::starting_at(scenario, &rules, at.before(before)).unwrap()
    }
}

/// What was admitted of each key in each window, by the number that `window` gives.
fn admitted(
    world: &World,
    window: impl Fn(Timestamp, Timestamp) -> u64,
) -> BTreeMap<(u64, u32), u64> {
    let mut admitted = BTreeMap::new();
    for one in world.admissions() {
        let window = window(one.at, one.counted_at);
        *admitted.entry((window, one.key)).or_default() += one.cost.get();
    }
    admitted
}

/// What the store has counted of each key in each window.
fn counted(world: &World, keys: u32) -> BTreeMap<(u64, u32), u64> {
    let limit = &world.limits()[0];
    let numbers: BTreeMap<_, u32> = (0..keys).map(|n| (World::key(limit, n), n)).collect();
    let mut counted = BTreeMap::new();
    for (id, _, cells) in world.store().contents(world.now()) {
        for (key, value) in cells {
            if let (Some(number), Value::Count(count)) = (numbers.get(&key), value) {
                counted.insert((id.slot.window.get(), *number), whole(count));
            }
        }
    }
    counted.retain(|_, count| *count > 0);
    counted
}

#[test]
fn every_cost_is_counted_once_in_the_window_that_it_was_admitted_in() {
    each_seed(60, |seed| {
        let turn = Turn::of(seed);
        let mut dice = Dice::new(seed + 21_000);
        let scenario = Scenario {
            network: noise(0.1, 0.1),
            ..quiet(seed, Algorithm::FixedWindow)
        };
        let mut world = turn.world(&scenario, Nanos::from_millis(1_200));
        world.remember_admissions();
        traffic_for(&mut world, &mut dice, 3, 20, Nanos::from_millis(2_000));
        settle_up(&mut world);
        let windows = turn.windows();
        let admitted = admitted(&world, |_, counted_at| windows.at(counted_at).get());
        let in_windows: std::collections::BTreeSet<u64> = admitted.keys().map(|of| of.0).collect();
        assert_eq!(in_windows.len(), 2, "{}", world.place());
        assert_eq!(counted(&world, 20), admitted, "{}", world.place());
    });
}

#[test]
fn whatever_happens_to_the_store_at_a_turn_the_new_window_counts_every_cost_once() {
    each_seed(60, |seed| {
        let turn = Turn::of(seed);
        let mut dice = Dice::new(seed + 22_000);
        let mut scenario = Scenario {
            network: any_network(&mut dice),
            faults: any_faults(&mut dice, 3),
            ..quiet(seed, Algorithm::FixedWindow)
        };
        // What was lent to a node that ends may stay lent until its window ends.
        let ends = |fault: &Fault| {
            let trouble = &fault.trouble;
            matches!(
                trouble,
                Trouble::NodeCrashes { .. } | Trouble::NodeLeaves { .. }
            )
        };
        scenario.faults.retain(|fault| !ends(fault));
        let mut world = turn.world(&scenario, Nanos::from_millis(2_200));
        world.remember_admissions();
        world.run_until(world.now().after(Nanos::from_secs(1)));
        traffic_for(&mut world, &mut dice, 3, 20, Nanos::from_millis(2_500));
        settle_up(&mut world);
        let windows = turn.windows();
        // Nobody reads the window that is over: what the store has lost of it since, and
        // what was lent when it ended, may stay so.
        let last = windows.at(world.now()).get();
        let mut counted = counted(&world, 20);
        counted.retain(|(window, _), _| *window >= last);
        let mut admitted = admitted(&world, |_, counted_at| windows.at(counted_at).get());
        admitted.retain(|(window, _), _| *window >= last);
        assert!(!admitted.is_empty(), "{}", world.place());
        assert_eq!(
            counted,
            admitted,
            "{}, {:?}",
            world.place(),
            scenario.faults
        );
    });
}

#[test]
fn a_bounded_window_of_a_calendar_is_never_over_and_is_lent_before_it_begins() {
    let lent_at_once = std::cell::Cell::new(0);
    each_seed(60, |seed| {
        let turn = Turn::of(seed);
        let mut dice = Dice::new(seed + 23_000);
        let faulty = seed % 3 > 0;
        let mut scenario = Scenario {
            nodes: 3,
            keys: 2,
            consistency: Consistency::Bounded,
            on_store_loss: StoreLoss::Closed,
            shape: [Shape::Even, Shape::Skewed(0.9)][usize::try_from(dice.below(2)).unwrap()],
            rate: 500.0 + f64::from(u32::try_from(dice.below(1_500)).unwrap()),
            limit: 300 + dice.below(400),
            seed,
            ..Scenario::default()
        };
        if faulty {
            scenario.network = any_network(&mut dice);
            scenario.skews = any_skews(&mut dice);
            scenario.faults = any_faults(&mut dice, 3);
            // A node that starts when the store has just been emptied cannot know.
            let lasts = |fault: &Fault| {
                matches!(
                    fault.trouble,
                    Trouble::StoreStalls(_) | Trouble::Partition { .. }
                )
            };
            scenario.faults.retain(lasts);
        }
        let before = Nanos::from_millis(2_500);
        let mut world = turn.world(&scenario, before);
        world.remember_admissions();
        let at = world.start().after(before);
        world.run_until(at.after(Nanos::from_secs(4)));
        let windows = turn.windows();
        for (of, used) in admitted(&world, |at, _| windows.at(at).get()) {
            assert!(
                used <= scenario.limit,
                "{}: {used} of {} in {of:?}",
                world.place(),
                scenario.limit
            );
        }
        let soon = at.after(Nanos::from_millis(20));
        let at_once = world
            .admissions()
            .iter()
            .filter(|one| one.at >= at && one.at < soon);
        if !faulty && at_once.count() > 0 {
            lent_at_once.set(lent_at_once.get() + 1);
        }
    });
    assert!(lent_at_once.get() >= 18, "{} of 20", lent_at_once.get());
}

#[test]
fn a_limit_of_a_calendar_is_kept_across_its_turn() {
    each_seed(18, |seed| {
        let turn = Turn::of(seed);
        let scenario = Scenario {
            nodes: 4,
            rate: 4_000.0,
            limit: 2_000,
            network: Network {
                round_trip: Nanos::from_millis(1),
                ..Network::default()
            },
            seed,
            ..Scenario::default()
        };
        let mut world = turn.world(&scenario, Nanos::from_millis(1_500));
        world.remember_admissions();
        world.run_until(world.start().after(Nanos::from_secs(4)));
        let windows = turn.windows();
        let used = admitted(&world, |at, _| windows.at(at).get());
        let used: Vec<u64> = used.into_values().collect();
        assert_eq!(used.len(), 2, "{}", world.place());
        // Of the first window, which has nearly passed, no node knows anything.
        for (used, percent) in used.into_iter().zip([110, 103]) {
            let most = scenario.limit * percent / 100;
            assert!(
                (scenario.limit..=most).contains(&used),
                "{}: {used}",
                world.place()
            );
        }
        world.end_demand();
        settle(&mut world);
    });
}
