//! The sync against a real Redis, with the faults that a store and a network have:
//! what is counted there at the end is what was admitted, to the unit.

// Tests assert by panicking, and their traffic runs on the real clock.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

mod kit;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kit::{Proxy, Redis};
use tidegate::algorithms::Verdict;
use tidegate::clock::Clock;
use tidegate::counters::{Counters, Fleet, StoreHealth};
use tidegate::sync::{Finished, Sync, SyncConfig};
use tidegate::units::{
    Algorithm, Cost, EncodedIdentity, Key, KeySecret, Limit, LimitId, Nanos, Pace, Partitions,
    Quota,
};
use tokio::runtime::Runtime;

struct Node {
    counters: Arc<Counters>,
    clock: Clock,
    sync: Sync,
    admitted: u64,
}

struct World {
    runtime: Runtime,
    limit: Arc<Limit>,
    nodes: Vec<Node>,
    turn: u64,
}

fn config(url: &str) -> SyncConfig {
    SyncConfig {
        url: url.to_owned(),
        node: "node".into(),
        fleet: "test".into(),
        partitions: Partitions::new(16).unwrap(),
        secret: KeySecret::public(),
        pace: Pace {
            interval: Nanos::from_millis(20),
            ..Pace::default()
        },
    }
}

impl World {
    fn new(urls: &[&str], quota: Quota) -> World {
        let runtime = Runtime::new().unwrap();
        let secret = KeySecret::public();
        let mut limit = Limit::new(LimitId::of_space("t"), "t", "t", quota, &secret);
        limit.pace = Pace {
            interval: Nanos::from_millis(20),
            ..Pace::default()
        };
        let nodes = urls.iter().map(|url| {
            let counters = Arc::new(Counters::new(10_000, Fleet::with_store()));
            let clock = Clock::system();
            let sync = runtime.block_on(async {
                Sync::spawn(&config(url), Arc::clone(&counters), clock.clone()).unwrap()
            });
            Node {
                counters,
                clock,
                sync,
                admitted: 0,
            }
        });
        let nodes = nodes.collect();
        World {
            runtime,
            limit: Arc::new(limit),
            nodes,
            turn: 0,
        }
    }

    fn key(&self, identity: u64) -> Key {
        self.limit
            .hasher
            .key(&EncodedIdentity::of("key", Some(&identity.to_be_bytes())))
    }

    /// Checks on every node, some hundred a second, until `done`.
    fn traffic_until(&mut self, done: impl Fn(&World) -> bool) {
        let began = Instant::now();
        while !done(self) {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "this was never done"
            );
            for node in 0..self.nodes.len() {
                self.turn += 1;
                let key = self.key(self.turn % 97);
                let node = &mut self.nodes[node];
                let cost = Cost::new(1 + self.turn % 3);
                let now = node.clock.now();
                let taken = node
                    .counters
                    .take(&self.limit, &self.limit.quota, key, cost, now);
                if matches!(taken.outcome.verdict, Verdict::Admitted { .. }) {
                    node.admitted += cost.get();
                }
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    fn traffic_for(&mut self, span: Duration) {
        let began = Instant::now();
        self.traffic_until(|_| began.elapsed() >= span);
    }

    /// Ends all nodes and answers what they have admitted.
    fn finish(self) -> u64 {
        let World { runtime, nodes, .. } = self;
        let mut admitted = 0;
        for node in nodes {
            admitted += node.admitted;
            let finished = runtime.block_on(node.sync.finish(Duration::from_secs(30)));
            assert_eq!(finished, Finished::Complete);
        }
        admitted
    }
}

/// The sum of all counts in the store.
fn counted(redis: &Redis) -> u64 {
    let mut connection = redis.connect();
    let names: Vec<String> = ::redis::cmd("KEYS")
        .arg("test:{p*")
        .query(&mut connection)
        .unwrap();
    let mut sum = 0;
    for name in names {
        assert!(
            ::redis::cmd("PTTL")
                .arg(&name)
                .query::<i64>(&mut connection)
                .unwrap()
                > 0,
            "{name}"
        );
        let fields: Vec<(Vec<u8>, Vec<u8>)> = ::redis::cmd("HGETALL")
            .arg(&name)
            .query(&mut connection)
            .unwrap();
        for (field, value) in fields {
            if field.len() == 16 {
                sum += String::from_utf8(value).unwrap().parse::<u64>().unwrap();
            }
        }
    }
    sum
}

fn hour() -> Quota {
    Quota::new(
        Algorithm::FixedWindow,
        100_000_000,
        Nanos::from_secs(360_000),
        None,
    )
    .unwrap()
}

#[test]
fn what_is_admitted_is_counted_in_the_store_to_the_unit() {
    let redis = Redis::start();
    let (tcp, unix) = (redis.url(), redis.unix_url());
    let mut world = World::new(&[&tcp, &unix], hour());
    world.traffic_for(Duration::from_millis(500));
    assert_eq!(world.finish(), counted(&redis));
}

#[test]
fn a_killed_store_that_forgot_everything_is_filled_again() {
    let mut redis = Redis::start();
    let url = redis.url();
    let mut world = World::new(&[&url, &url], hour());
    world.traffic_until(|_| counted(&redis) > 500);
    redis.kill();
    world.traffic_until(|world| {
        world
            .nodes
            .iter()
            .all(|node| node.counters.fleet().health() == StoreHealth::Lost)
    });
    redis.restart();
    world.traffic_until(|world| {
        world
            .nodes
            .iter()
            .all(|node| node.counters.fleet().health() == StoreHealth::Up)
    });
    world.traffic_for(Duration::from_millis(300));
    assert_eq!(world.finish(), counted(&redis));
}

#[test]
fn a_store_that_stood_still_counts_nothing_twice() {
    let redis = Redis::start();
    let url = redis.url();
    let mut world = World::new(&[&url, &url], hour());
    world.traffic_until(|_| counted(&redis) > 500);
    redis.pause();
    world.traffic_for(Duration::from_secs(6));
    redis.resume();
    world.traffic_for(Duration::from_secs(1));
    assert_eq!(world.finish(), counted(&redis));
}

#[test]
fn forgotten_scripts_are_taught_again() {
    let redis = Redis::start();
    let url = redis.url();
    let mut world = World::new(&[&url, &url], hour());
    for _ in 0..3 {
        world.traffic_for(Duration::from_millis(200));
        redis.cli(&["SCRIPT", "FLUSH"]);
    }
    world.traffic_for(Duration::from_millis(500));
    assert_eq!(world.finish(), counted(&redis));
}

#[test]
fn a_flushed_store_is_filled_again() {
    let redis = Redis::start();
    let url = redis.url();
    let mut world = World::new(&[&url, &url], hour());
    for _ in 0..3 {
        world.traffic_until(|_| counted(&redis) > 500);
        redis.cli(&["FLUSHALL"]);
    }
    world.traffic_for(Duration::from_millis(500));
    assert_eq!(world.finish(), counted(&redis));
}

#[test]
fn a_batch_whose_reply_was_lost_is_counted_once() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.addr());
    let (direct, faulty) = (redis.url(), proxy.url());
    let mut world = World::new(&[&direct, &faulty], hour());
    for _ in 0..10 {
        let before = proxy.dropped();
        world.traffic_for(Duration::from_millis(100));
        proxy.drop_replies_to("EVALSHA", 1);
        world.traffic_until(|_| proxy.dropped() > before);
    }
    world.traffic_for(Duration::from_millis(300));
    proxy.cut();
    world.traffic_for(Duration::from_millis(300));
    assert_eq!(world.finish(), counted(&redis));
}

#[test]
fn nodes_learn_what_the_others_have_used() {
    for algorithm in Algorithm::ALL {
        let redis = Redis::start();
        let url = redis.url();
        let quota = Quota::new(algorithm, 1_000, Nanos::from_secs(360_000), None).unwrap();
        let mut world = World::new(&[&url, &url], quota);
        let key = world.key(1_000);
        let remaining = |world: &World, node: usize, cost: u64| {
            let Node {
                counters, clock, ..
            } = &world.nodes[node];
            let cost = Cost::new(cost);
            counters
                .take(&world.limit, &world.limit.quota, key, cost, clock.now())
                .outcome
                .remaining
        };
        assert_eq!(remaining(&world, 0, 300), 700, "{}", algorithm.name());
        assert_eq!(remaining(&world, 1, 1), 999);
        // Each learns of the other with its next exchange after the other's.
        world.traffic_until(|world| remaining(world, 1, 0) <= 699);
        assert_eq!(remaining(&world, 1, 0), 699, "{}", algorithm.name());
        world.traffic_until(|world| world.nodes[1].counters.fleet().nodes() == 2);
        world.finish();
    }
}

#[test]
fn a_node_that_disagrees_with_the_fleet_does_not_sync() {
    let redis = Redis::start();
    let url = redis.url();
    let mut world = World::new(&[&url], hour());
    world.traffic_until(|_| counted(&redis) > 0);
    let other = Arc::new(Counters::new(10, Fleet::with_store()));
    let config = SyncConfig {
        partitions: Partitions::new(32).unwrap(),
        ..config(&url)
    };
    let sync = world
        .runtime
        .block_on(async { Sync::spawn(&config, Arc::clone(&other), Clock::system()).unwrap() });
    world.traffic_until(|_| other.fleet().health() == StoreHealth::Lost);
    drop(sync);
    assert_eq!(world.finish(), counted(&redis));
}

#[test]
fn a_hash_that_somebody_spoilt_harms_no_other() {
    let redis = Redis::start();
    let url = redis.url();
    let mut world = World::new(&[&url], hour());
    let window = world.nodes[0]
        .clock
        .now()
        .window(Nanos::from_secs(360_000))
        .get();
    let name = format!("test:{{p3}}:4d4h:{window}");
    redis.cli(&["RPUSH", &name, "x"]);
    redis.cli(&["EXPIRE", &name, "1000"]);
    world.traffic_for(Duration::from_millis(500));
    assert_eq!(world.nodes[0].counters.fleet().health(), StoreHealth::Up);
    redis.cli(&["DEL", &name]);
    assert!(counted(&redis) > 100);
}

#[test]
fn a_store_that_only_says_hello_is_lost() {
    let redis = Redis::start();
    redis.cli(&[
        "ACL",
        "SETUSER",
        "tg",
        "on",
        ">secret",
        "~test:{fleet}:*",
        "+@all",
    ]);
    let url = format!("redis://tg:secret@{}", redis.addr());
    let mut world = World::new(&[&url], hour());
    let fleet = |world: &World| world.nodes[0].counters.fleet().health();
    // It answers the hello, and then no batch.
    world.traffic_until(|world| fleet(world) == StoreHealth::Up);
    world.traffic_until(|world| fleet(world) == StoreHealth::Lost);
    world.traffic_for(Duration::from_millis(2_500));
    assert_eq!(
        fleet(&world),
        StoreHealth::Lost,
        "hellos alone bring nothing back"
    );
    redis.cli(&["ACL", "SETUSER", "tg", "~*"]);
    world.traffic_until(|world| fleet(world) == StoreHealth::Up);
    assert_eq!(world.finish(), counted(&redis));
}

#[test]
fn a_store_where_nobody_can_be_alive_is_lost() {
    let redis = Redis::start();
    redis.cli(&["SET", "test:{fleet}:nodes", "x"]);
    let mut world = World::new(&[&redis.url()], hour());
    assert_eq!(
        world.nodes[0].counters.fleet().health(),
        StoreHealth::Lost,
        "not yet met"
    );
    world.traffic_for(Duration::from_secs(2));
    assert_eq!(world.nodes[0].counters.fleet().health(), StoreHealth::Lost);
    redis.cli(&["DEL", "test:{fleet}:nodes"]);
    world.traffic_until(|w| w.nodes[0].counters.fleet().health() == StoreHealth::Up);
    assert_eq!(world.finish(), counted(&redis));
}
