//! The sync against a real Redis, with the faults that a store and a network have:
//! what is counted there at the end is what was admitted, to the unit.

// Tests assert by panicking, and their traffic runs on the real clock.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]
// Their figures are far from any edge.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]

mod kit;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kit::{Proxy, Redis, wait_until};
use tidegate::algorithms::Verdict;
use tidegate::clock::Clock;
use tidegate::counters::{Counters, Fleet, StoreHealth};
use tidegate::sync::seal::Told;
use tidegate::sync::{Finished, Sync, SyncConfig};
use tidegate::units::{
    Algorithm, Cost, EncodedIdentity, Key, KeySecret, Limit, LimitId, Nanos, Pace, Partitions,
    Quota,
};
use tokio::runtime::Runtime;

struct Node {
    counters: Arc<Counters>,
    clock: Clock,
    /// Until it is ended.
    sync: Option<Sync>,
    admitted: u64,
}

struct World {
    runtime: Runtime,
    limit: Arc<Limit>,
    nodes: Vec<Node>,
    turn: u64,
}

/// Costs far from their limit wait no longer than the others.
const PACE: Pace = Pace {
    interval: Nanos::from_millis(20),
    min_interval: Nanos::from_millis(5),
    max_interval: Nanos::from_millis(20),
};

fn config(url: &str) -> SyncConfig {
    SyncConfig {
        url: url.to_owned(),
        node: "node".into(),
        fleet: "test".into(),
        partitions: Partitions::new(16).unwrap(),
        secret: KeySecret::public(),
        pace: PACE,
    }
}

impl World {
    fn new(urls: &[&str], quota: Quota) -> World {
        let runtime = Runtime::new().unwrap();
        let secret = KeySecret::public();
        let mut limit = Limit::new(LimitId::of_space("t"), "t", "t", quota, &secret);
        limit.pace = PACE;
        let nodes = urls.iter().map(|url| {
            let counters = Arc::new(Counters::new(10_000, Fleet::with_store()));
            let clock = Clock::system();
            let sync = runtime.block_on(async {
                Sync::spawn(
                    &config(url),
                    Arc::clone(&counters),
                    clock.clone(),
                    Told::default(),
                )
                .unwrap()
            });
            let sync = Some(sync);
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
                self.check(node, self.turn % 97);
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    fn check(&mut self, node: usize, identity: u64) {
        self.turn += 1;
        let key = self.key(identity);
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

    /// Fills one cell after the other as fast as it can, until some of what the store
    /// counts is not used yet, but lent.
    fn traffic_until_lent(&mut self, redis: &Redis) {
        let began = Instant::now();
        for identity in 1_000.. {
            for turn in 0..300 {
                for node in 0..self.nodes.len() {
                    self.check(node, identity);
                }
                std::thread::park_timeout(Duration::from_micros(200));
                if turn % 20 == 0 && self.counted(redis) > self.admitted() {
                    return;
                }
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "nothing was ever lent"
            );
        }
    }

    fn admitted(&self) -> u64 {
        self.nodes.iter().map(|node| node.admitted).sum()
    }

    /// The cost that the store counts.
    fn counted(&self, redis: &Redis) -> u64 {
        let quota = &self.limit.quota;
        let unit = quota.period().get() as f64 / quota.amount() as f64;
        sum(redis, |value| match std::str::from_utf8(value) {
            Ok(value) => count(value),
            // What has drained since is far less than a cost of one.
            Err(_) => (debt(value) / unit).ceil() as u64,
        })
    }

    fn traffic_for(&mut self, span: Duration) {
        let began = Instant::now();
        self.traffic_until(|_| began.elapsed() >= span);
    }

    /// Ends all nodes: what the store counts is what they have admitted.
    fn end(mut self, redis: &Redis) {
        for node in &mut self.nodes {
            let finish = node.sync.take().unwrap().finish(Duration::from_secs(30));
            assert_eq!(self.runtime.block_on(finish), Finished::Complete);
        }
        let algorithm = self.limit.quota.algorithm().name();
        assert_eq!(self.counted(redis), self.admitted(), "{algorithm}");
    }
}

/// The count in a cell's value: near the limit, demand and level follow.
fn count(value: &str) -> u64 {
    value.split(' ').next().unwrap().parse().unwrap()
}

/// The debt in a cell's value, in nanoseconds; its time follows.
fn debt(value: &[u8]) -> f64 {
    f64::from_be_bytes(value[..8].try_into().unwrap())
}

/// The sum of all counts in the store.
fn counted(redis: &Redis) -> u64 {
    sum(redis, |value| count(std::str::from_utf8(value).unwrap()))
}

/// The sum of what `read` finds in all cells in the store.
fn sum(redis: &Redis, read: impl Fn(&[u8]) -> u64) -> u64 {
    let mut connection = redis.connect();
    let names: Vec<String> = ::redis::cmd("KEYS")
        .arg("test:{p*")
        .query(&mut connection)
        .unwrap();
    let mut sum = 0;
    for name in names {
        let fields = ::redis::pipe()
            .cmd("PTTL")
            .arg(&name)
            .cmd("HGETALL")
            .arg(&name)
            .query(&mut connection);
        let (life, fields): (i64, BTreeMap<Vec<u8>, Vec<u8>>) = fields.unwrap();
        assert!(life > 0, "{name}");
        let cells = fields.iter().filter(|(field, _)| field.len() == 16);
        sum += cells.map(|(_, value)| read(value)).sum::<u64>();
    }
    sum
}

/// A limit that no scene reaches, and so small that few of its costs are too few to be
/// sent.
fn ample() -> Quota {
    quota(Algorithm::FixedWindow, 2_000)
}

/// So much in a time that no scene sees the end of.
fn quota(algorithm: Algorithm, amount: u64) -> Quota {
    Quota::new(algorithm, amount, LONG, None).unwrap()
}

const LONG: Nanos = Nanos::from_secs(360_000);

#[test]
fn what_is_admitted_is_counted_in_the_store_to_the_unit() {
    let redis = Redis::start();
    let (tcp, unix) = (redis.url(), redis.unix_url());
    let mut world = World::new(&[&tcp, &unix], ample());
    world.traffic_for(Duration::from_millis(500));
    world.end(&redis);
}

#[test]
fn a_killed_store_that_forgot_everything_is_filled_again() {
    let mut redis = Redis::start();
    let url = redis.url();
    let mut world = World::new(&[&url, &url], ample());
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
    world.end(&redis);
}

#[test]
fn a_store_that_stood_still_counts_nothing_twice() {
    let redis = Redis::start();
    let url = redis.url();
    let mut world = World::new(&[&url, &url], ample());
    world.traffic_until(|_| counted(&redis) > 500);
    redis.pause();
    world.traffic_for(Duration::from_secs(6));
    redis.resume();
    world.traffic_for(Duration::from_secs(1));
    world.end(&redis);
}

#[test]
fn forgotten_scripts_are_taught_again() {
    let redis = Redis::start();
    let url = redis.url();
    let mut world = World::new(&[&url, &url], ample());
    for _ in 0..3 {
        world.traffic_for(Duration::from_millis(200));
        redis.cli(&["SCRIPT", "FLUSH"]);
    }
    world.traffic_for(Duration::from_millis(500));
    world.end(&redis);
}

#[test]
fn a_flushed_store_is_filled_again() {
    let redis = Redis::start();
    let url = redis.url();
    let mut world = World::new(&[&url, &url], ample());
    for _ in 0..3 {
        world.traffic_until(|_| counted(&redis) > 500);
        redis.cli(&["FLUSHALL"]);
    }
    world.traffic_for(Duration::from_millis(500));
    world.end(&redis);
}

#[test]
fn a_batch_whose_reply_was_lost_is_counted_once() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.addr());
    let (direct, faulty) = (redis.url(), proxy.url());
    let mut world = World::new(&[&direct, &faulty], ample());
    for _ in 0..10 {
        let before = proxy.dropped();
        world.traffic_for(Duration::from_millis(100));
        proxy.drop_replies_to("EVALSHA", 1);
        world.traffic_until(|_| proxy.dropped() > before);
    }
    world.traffic_for(Duration::from_millis(300));
    proxy.cut();
    world.traffic_for(Duration::from_millis(300));
    world.end(&redis);
}

#[test]
fn nodes_learn_what_the_others_have_used() {
    for algorithm in Algorithm::ALL {
        let redis = Redis::start();
        let url = redis.url();
        let mut world = World::new(&[&url, &url], quota(algorithm, 1_000));
        let key = world.key(1_000);
        let take = |world: &World, node: usize, cost: u64| {
            let Node {
                counters, clock, ..
            } = &world.nodes[node];
            let (cost, now) = (Cost::new(cost), clock.now());
            counters.take(&world.limit, &world.limit.quota, key, cost, now)
        };
        let remaining = |world: &World, node: usize| take(world, node, 0).outcome.remaining;
        world.traffic_until(|world| world.nodes[1].counters.fleet().nodes() == 2);
        assert_eq!(take(&world, 0, 200).outcome.remaining, 800);
        world.traffic_until(|world| take(world, 0, 0).stale.is_some());
        // It learns of the other with its next exchange, and that is when it has used
        // more than nobody misses.
        assert_eq!(take(&world, 1, 1).outcome.remaining, 999);
        assert_eq!(take(&world, 1, 99).outcome.remaining, 900);
        // What was lent to the first node counts until it goes back.
        world.traffic_until(|world| remaining(world, 1) < 900);
        let seen = remaining(&world, 1);
        assert!((690..=700).contains(&seen), "{}: {seen}", algorithm.name());
        if algorithm == Algorithm::SlidingLog {
            // It is told of in parts, to those who ask.
            continue;
        }
        // More than half is used: all are told at once, and what is lent counts.
        assert_eq!(take(&world, 1, 400).outcome.remaining, 300);
        world.traffic_until(|world| remaining(world, 0) <= 300);
    }
}

#[test]
fn leases_come_back_when_nothing_more_is_asked() {
    for algorithm in Algorithm::ALL {
        let redis = Redis::start();
        let url = redis.url();
        let mut world = World::new(&[&url, &url], quota(algorithm, 200));
        world.traffic_until_lent(&redis);
        wait_until("the leases to come back", || {
            world.counted(&redis) == world.admitted()
        });
        world.end(&redis);
    }
}

#[test]
fn leases_come_back_when_their_nodes_end() {
    for algorithm in Algorithm::ALL {
        let redis = Redis::start();
        let url = redis.url();
        let mut world = World::new(&[&url, &url], quota(algorithm, 200));
        world.traffic_until_lent(&redis);
        world.end(&redis);
    }
}

#[test]
fn leases_of_a_store_that_forgot_them_are_counted_again_and_come_back() {
    for algorithm in Algorithm::ALL {
        let redis = Redis::start();
        let url = redis.url();
        let mut world = World::new(&[&url, &url], quota(algorithm, 200));
        world.traffic_until_lent(&redis);
        redis.cli(&["FLUSHALL"]);
        world.end(&redis);
    }
}

#[test]
fn a_node_that_disagrees_with_the_fleet_does_not_sync() {
    let redis = Redis::start();
    let url = redis.url();
    let mut world = World::new(&[&url], ample());
    world.traffic_until(|_| counted(&redis) > 0);
    let other = Arc::new(Counters::new(10, Fleet::with_store()));
    let config = SyncConfig {
        partitions: Partitions::new(32).unwrap(),
        ..config(&url)
    };
    let sync = world.runtime.block_on(async {
        Sync::spawn(
            &config,
            Arc::clone(&other),
            Clock::system(),
            Told::default(),
        )
        .unwrap()
    });
    world.traffic_until(|_| other.fleet().health() == StoreHealth::Lost);
    drop(sync);
    world.end(&redis);
}

#[test]
fn a_hash_that_somebody_spoilt_harms_no_other() {
    let redis = Redis::start();
    let url = redis.url();
    let mut world = World::new(&[&url], ample());
    let window = world.nodes[0].clock.now().window(LONG).get();
    let name = format!("test:{{p3}}:4d4h:{window}");
    redis.cli(&["RPUSH", &name, "x"]);
    let lanes = || redis.cli(&["KEYS", "test:{p*"]).lines().count();
    // Every other hash has come, and is counted in. To ask Redis takes longer than a check.
    world.traffic_until(|world| world.turn % 97 == 0 && lanes() == 16);
    world.traffic_for(Duration::from_millis(500));
    assert_eq!(world.nodes[0].counters.fleet().health(), StoreHealth::Up);
    assert_eq!(redis.cli(&["LRANGE", &name, "0", "-1"]), "x");
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
    let mut world = World::new(&[&url], ample());
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
    world.end(&redis);
}

#[test]
fn a_store_where_nobody_can_be_alive_is_lost() {
    let redis = Redis::start();
    redis.cli(&["SET", "test:{fleet}:nodes", "x"]);
    let mut world = World::new(&[&redis.url()], ample());
    assert_eq!(
        world.nodes[0].counters.fleet().health(),
        StoreHealth::Lost,
        "not yet met"
    );
    world.traffic_for(Duration::from_secs(2));
    assert_eq!(world.nodes[0].counters.fleet().health(), StoreHealth::Lost);
    redis.cli(&["DEL", "test:{fleet}:nodes"]);
    world.traffic_until(|w| w.nodes[0].counters.fleet().health() == StoreHealth::Up);
    world.end(&redis);
}

#[test]
fn a_node_that_listens_to_a_host_that_is_gone_listens_anew() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.addr());
    let world = World::new(&[&proxy.url()], ample());
    let listening = |count: &str| {
        redis
            .cli(&["PUBSUB", "NUMSUB", "test:full"])
            .ends_with(count)
    };
    wait_until("the node to listen", || listening("1"));
    proxy.abandon();
    // The server does not know either that nobody hears the first any more.
    wait_until("it to listen anew", || listening("2"));
    drop(world);
}
