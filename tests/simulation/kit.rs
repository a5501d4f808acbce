//! What the tests of simulated fleets share.

use std::collections::BTreeMap;

use tidegate::simulation::{Chaos, Count, Dice, Network, Scenario, Until, Value, World};
use tidegate::units::{Algorithm, Cost, Limit, Nanos, Pace, Partitions};

/// Makes a world. That of the one seed in `TIDEGATE_SEED` tells in its place what happened
/// last, up to the step in `TIDEGATE_UNTIL` if there is one.
pub(crate) fn world(scenario: &Scenario) -> World {
    traced(World::new(scenario).unwrap())
}

/// The same for a world that is made.
pub(crate) fn traced(mut world: World) -> World {
    let step = std::env::var("TIDEGATE_UNTIL").map(|step| step.parse().unwrap());
    if std::env::var_os("TIDEGATE_SEED").is_some() {
        world.trace(Until::Step(step.unwrap_or(u64::MAX)));
    }
    world
}

/// Runs `scene` for each seed, or for the one in `TIDEGATE_SEED`, and says which one
/// failed.
pub(crate) fn each_seed(count: u64, scene: impl Fn(u64)) {
    let seeds = match std::env::var("TIDEGATE_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => 0..count,
    };
    for seed in seeds {
        let told = Told(seed);
        scene(seed);
        std::mem::forget(told);
    }
}

/// Tells its seed when a test fails.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        eprintln!("replay it with TIDEGATE_SEED={}", self.0);
    }
}

/// A network that loses and doubles these parts of the messages, and delays some.
pub(crate) fn noise(lost: f64, doubled: f64) -> Network {
    Network {
        round_trip: Nanos::from_millis(10),
        jitter: Nanos::from_millis(5),
        chaos: Chaos {
            lost,
            doubled,
            late: 0.05,
        },
        ..Network::default()
    }
}

/// Three nodes, 20 keys, no demand of its own, and a limit that lasts longer than any
/// test: near enough that what is used of it is sent all the time, and so far that nothing
/// is refused or lent.
pub(crate) fn quiet(seed: u64, algorithm: Algorithm) -> Scenario {
    Scenario {
        nodes: 3,
        rate: 0.0,
        keys: 20,
        algorithm,
        limit: 600,
        window: Nanos::from_secs(if algorithm.is_bucket() { 86_400 } else { 3_600 }),
        pace: Pace {
            interval: Nanos::from_millis(20),
            min_interval: Nanos::from_millis(5),
            max_interval: Nanos::from_millis(20),
        },
        partitions: Partitions::new(4).unwrap(),
        seed,
        ..Scenario::default()
    }
}

/// Some checks on every node, of costs up to 3.
pub(crate) fn traffic(world: &mut World, dice: &mut Dice, nodes: usize, keys: u32) {
    for node in 0..nodes {
        for _ in 0..dice.below(4) {
            let key = u32::try_from(dice.below(u64::from(keys))).unwrap();
            world.check(node, key, Cost::new(1 + dice.below(3)));
        }
    }
}

/// That much time with such traffic every 5 ms.
pub(crate) fn traffic_for(
    world: &mut World,
    dice: &mut Dice,
    nodes: usize,
    keys: u32,
    span: Nanos,
) {
    let end = world.now().after(span);
    while world.now() < end {
        traffic(world, dice, nodes, keys);
        world.run_until(world.now().after(Nanos::from_millis(5)));
    }
}

/// Waits on a network that is well until all is sent and answered.
#[track_caller]
pub(crate) fn settle(world: &mut World) {
    world.set_network(Network::default());
    // What was lost or late before is given up first, a lost hash is noticed, what is
    // lent goes back, and the sweep has sent what is in no hurry.
    world.run_until(world.now().after(Nanos::from_secs(14)));
    let settled = world.settle(Nanos::from_secs(60));
    assert!(settled, "something is still under way: {}", world.place());
}

/// The same, and makes the nodes give back what they would keep for their next callers.
#[track_caller]
pub(crate) fn settle_up(world: &mut World) {
    world.set_network(Network::default());
    world.run_until(world.now().after(Nanos::from_secs(4)));
    world.flush();
    settle(world);
}

/// What the store has counted of each key of `limit`, by number; for windows.
pub(crate) fn counted(world: &World, limit: &Limit, keys: u32) -> BTreeMap<u32, u64> {
    let numbers: BTreeMap<_, u32> = (0..keys).map(|n| (World::key(limit, n), n)).collect();
    let mut counted = BTreeMap::new();
    for (_, _, cells) in world.store().contents(world.now()) {
        for (key, value) in cells {
            if let (Some(number), Value::Count(count)) = (numbers.get(&key), value) {
                *counted.entry(*number).or_default() += whole(count);
            }
        }
    }
    counted.retain(|_, count| *count > 0);
    counted
}

/// What a window's count says.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // It is in range.
pub(crate) fn whole(count: Count) -> u64 {
    count.total as u64
}

/// What was admitted of each key.
pub(crate) fn admitted(world: &World) -> BTreeMap<u32, u64> {
    let mut admitted = BTreeMap::new();
    for admission in world.admissions() {
        *admitted.entry(admission.key).or_default() += admission.cost.get();
    }
    admitted
}
