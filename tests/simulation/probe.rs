use crate::kit::*;
use tidegate::simulation::{Dice, Network, Scenario, World};
use tidegate::units::{Algorithm, Cost, Nanos};
#[test]
fn probe_a() {
    for chaos in [0.0] {
        let mut bad = 0;
        for seed in 0..3 {
        let scenario = Scenario { network: if chaos > 0.0 { noise(0.1, 0.1) } else { Network::default() }, ..quiet(seed, Algorithm::FixedWindow) };
        let rules = "rules:\n- name: simulated\n  algorithm: fixed_window\n  limits:\n    default:\n    - { requests: 1000000, window: 1h }\n    - { requests: 30, window: 2h }\n";
        let mut world = World::with_rules(&scenario, rules).unwrap();
        world.remember_admissions();
        world.run_until(world.now().after(Nanos::from_secs(1)));
        let mut dice = Dice::new(seed + 1000);
        traffic_for(&mut world, &mut dice, 3, 20, Nanos::from_secs(1));
        settle(&mut world);
        let c = counted(&world, &world.limits()[1].clone(), 20);
        let a = admitted(&world);
        if c != a {
            bad += 1;
            let diff: Vec<_> = a.iter().filter(|(k, v)| c.get(k) != Some(v)).map(|(k, v)| (*k, *v, c.get(k).copied())).collect();
            println!("chaos {chaos} seed {seed}: {diff:?}");
            let busy = world.settle(Nanos::from_secs(10));
            println!(" settled {busy}");
        }
        }
        println!("chaos {chaos}: {bad} bad");
    }
}
#[test]
fn probe_b() {
    for algorithm in Algorithm::ALL {
        let scenario = Scenario { network: noise(0.1, 0.1), keys: 10, ..quiet(0, algorithm) };
        let mut world = World::new(&scenario).unwrap();
        world.run_until(world.now().after(Nanos::from_secs(1)));
        let mut dice = Dice::new(1000);
        traffic_for(&mut world, &mut dice, 3, 10, Nanos::from_secs(1));
        settle(&mut world);
        for cost in [Cost::ONE, Cost::ZERO, Cost::ZERO] {
            for (node, key) in (0..3).flat_map(|node| (0..10).map(move |key| (node, key))) { world.check(node, key, cost); }
            world.run_until(world.now().after(Nanos::from_secs(3)));
            for _ in 0..12 { println!("{} {cost:?} {} {}", algorithm.name(), world.settle(Nanos::from_millis(700)), world.place()); }
        }
    }
}

#[test]
fn probe_c() {
    for secs in [1, 5, 12, 30] {
    for flush in [false, true] {
    for seed in 0..3 {
        let scenario = Scenario { limit: 30, ..quiet(seed, Algorithm::FixedWindow) };
        let mut world = World::new(&scenario).unwrap();
        world.remember_admissions();
        world.run_until(world.now().after(Nanos::from_secs(1)));
        let mut dice = Dice::new(seed + 1000);
        traffic_for(&mut world, &mut dice, 3, 20, Nanos::from_secs(1));
        world.run_until(world.now().after(Nanos::from_secs(secs)));
        if flush { world.flush(); }
        world.settle(Nanos::from_secs(10));
        let c = counted(&world, &world.limits()[0].clone(), 20);
        let a = admitted(&world);
        let diff: Vec<_> = a.iter().filter(|(k, v)| c.get(k) != Some(v)).map(|(k, v)| (*k, *v, c.get(k).copied())).collect();
        println!("c: {secs} flush {flush} seed {seed}: {diff:?}");
    }}}
}
