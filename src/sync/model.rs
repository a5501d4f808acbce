//! The core against a model of the store and of a bad network, from seeds.

use std::collections::HashMap;
use std::sync::Arc;

use super::Now;
use super::batch::{
    Agreement, Batch, BatchReply, Boot, Granted, HelloReply, LaneName, Stored, Token,
};
use super::core::{Core, CoreConfig};
use super::error::Failure;
use super::event::{Action, CallId, Event, Report, RoundTrip};
use crate::counters::{Counters, Fleet, HashId};
use crate::units::{
    Algorithm, Cost, EncodedIdentity, Key, KeySecret, Limit, LimitId, Nanos, Partitions, Quota,
    Timestamp,
};

/// What the scripts do, in memory.
#[derive(Clone, Default)]
struct Store {
    hashes: HashMap<HashId, Hash>,
}

#[derive(Clone, Default)]
struct Hash {
    /// The token, and what its batch was granted.
    lanes: HashMap<LaneName, (Token, Vec<u64>)>,
    counts: HashMap<Key, i64>,
    demands: HashMap<Key, i64>,
    /// All that was ever granted.
    lent: u64,
}

impl Store {
    fn apply(&mut self, batch: &Batch, time: Timestamp) -> BatchReply {
        let hash = self.hashes.entry(batch.id).or_default();
        let stored = hash.lanes.get(&batch.lane).map(|(token, _)| *token);
        if stored == batch.previous {
            let mut granted = Vec::new();
            for (key, delta) in &batch.cells {
                let count = hash.counts.entry(*key).or_default();
                *count += delta.cost;
                let Some(ask) = delta.ask else { continue };
                *hash.demands.entry(*key).or_default() += ask.demand;
                let room = i64::try_from(delta.room).unwrap();
                let free = u64::try_from(room - *count).unwrap_or(0);
                let part = (free * u64::from(ask.portion) / 1_000_000).max(1);
                let grant = ask.want.min(part).min(free);
                *count += i64::try_from(grant).unwrap();
                hash.lent += grant;
                granted.push(grant);
            }
            hash.lanes.insert(batch.lane, (batch.new, granted));
        }
        let (token, granted) = match hash.lanes.get(&batch.lane) {
            None => (Stored::Nothing, &[][..]),
            Some((token, granted)) => (Stored::Token(*token), &granted[..]),
        };
        let asks = batch.cells.iter().filter(|(_, delta)| delta.ask.is_some());
        let told = asks
            .enumerate()
            .map(|(number, (key, _))| Granted {
                demand: u64::try_from(hash.demands.get(key).copied().unwrap_or(0)).unwrap_or(0),
                grant: match token == Stored::Token(batch.new) {
                    true => granted[number],
                    false => 0,
                },
            })
            .collect();
        let total = |key| u64::try_from(hash.counts.get(key).copied().unwrap_or(0)).unwrap();
        let totals = batch.cells.iter().map(|(key, _)| total(key)).collect();
        BatchReply {
            token,
            totals,
            told,
            time,
        }
    }

    fn total(&self) -> i64 {
        self.hashes
            .values()
            .flat_map(|hash| hash.counts.values())
            .sum()
    }
}

/// A small generator of numbers, replayable from its seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

struct Node {
    core: Core,
    counters: Counters,
    admitted: u64,
}

enum Packet {
    ToStore {
        node: usize,
        call: CallId,
        batch: Arc<Batch>,
        sent: Timestamp,
    },
    ToNode {
        node: usize,
        event: Event,
    },
}

struct World {
    dice: Dice,
    now: Timestamp,
    nodes: Vec<Node>,
    store: Store,
    /// What is under way, with the time of its arrival.
    network: Vec<(Timestamp, Packet)>,
    keys: Vec<Key>,
    limit: Arc<Limit>,
    reports: Vec<Report>,
    /// Out of 100 packets, how many get lost, and how many come twice.
    lost: u64,
    doubled: u64,
}

const TICK: Nanos = Nanos::from_millis(5);

impl World {
    fn new(seed: u64, nodes: u64, quota: Quota) -> World {
        let secret = KeySecret::public();
        let limit = Arc::new(Limit::new(
            LimitId::of_space("test"),
            "test",
            "test",
            quota,
            &secret,
        ));
        let keys = (0u8..20).map(|n| limit.hasher.key(&EncodedIdentity::of("key", Some(&[n]))));
        let partitions = Partitions::new(4).unwrap();
        let node = |number| Node {
            core: Core::new(CoreConfig {
                boot: Boot::new(number),
                partitions,
                poll: TICK,
            }),
            counters: Counters::new(1_000, Fleet::with_store()),
            admitted: 0,
        };
        let mut world = World {
            dice: Dice(seed),
            now: Timestamp::from_nanos(1_000_000_000_000_000),
            nodes: (0..nodes).map(node).collect(),
            store: Store::default(),
            network: Vec::new(),
            keys: keys.collect(),
            limit,
            reports: Vec::new(),
            lost: 0,
            doubled: 0,
        };
        for node in 0..world.nodes.len() {
            world.give(node, Event::Connected);
        }
        world
    }

    fn clock(&self) -> Now {
        Now {
            local: self.now,
            fleet: self.now,
        }
    }

    fn give(&mut self, node: usize, event: Event) {
        let now = self.clock();
        let Node { core, counters, .. } = &mut self.nodes[node];
        core.handle(event, counters, now);
        self.carry_out(node);
    }

    fn carry_out(&mut self, node: usize) {
        while let Some(action) = self.nodes[node].core.next_action() {
            match action {
                Action::Batch(call, batch) => {
                    let sent = self.now;
                    let copies = 1 + u64::from(self.dice.roll(100) < self.doubled);
                    for _ in 0..copies {
                        let packet = Packet::ToStore {
                            node,
                            call,
                            batch: Arc::clone(&batch),
                            sent,
                        };
                        self.post(packet);
                    }
                    // The driver's timeout; after an answer it means nothing any more.
                    let event = Event::Failed(call, Failure::Timeout);
                    let late = self.now.after(Nanos::from_millis(300));
                    self.network.push((late, Packet::ToNode { node, event }));
                }
                Action::Hello(call, _) => {
                    let trip = RoundTrip {
                        sent: self.now,
                        received: self.now,
                    };
                    let nodes = u32::try_from(self.nodes.len()).unwrap();
                    let agreement = Agreement::Agreed;
                    let reply = HelloReply {
                        agreement,
                        nodes,
                        time: self.now,
                    };
                    let event = Event::Hello(call, reply, trip);
                    self.network
                        .push((self.now.after(TICK), Packet::ToNode { node, event }));
                }
                Action::Report(report) => self.reports.push(report),
                Action::SetOffset(_) => {}
            }
        }
    }

    fn post(&mut self, packet: Packet) {
        if self.dice.roll(100) >= self.lost {
            // Now and then a packet is late by longer than the timeout.
            let most = if self.dice.roll(20) == 0 { 900 } else { 20 };
            let delay = Nanos::from_millis(1 + self.dice.roll(most));
            self.network.push((self.now.after(delay), packet));
        }
    }

    fn step(&mut self) {
        self.now = self.now.after(TICK);
        let now = self.now;
        let (mut due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.network)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.network = later;
        due.sort_by_key(|(at, _)| *at);
        for (_, packet) in due {
            match packet {
                Packet::ToStore {
                    node,
                    call,
                    batch,
                    sent,
                } => {
                    let reply = self.store.apply(&batch, now);
                    let trip = RoundTrip {
                        sent,
                        received: now,
                    };
                    self.post(Packet::ToNode {
                        node,
                        event: Event::Batch(call, reply, trip),
                    });
                }
                Packet::ToNode { node, event } => self.give(node, event),
            }
        }
        for node in 0..self.nodes.len() {
            let clock = self.clock();
            let Node { core, counters, .. } = &mut self.nodes[node];
            core.tick(counters, clock);
            self.carry_out(node);
        }
    }

    fn traffic(&mut self) {
        for node in 0..self.nodes.len() {
            for _ in 0..self.dice.roll(4) {
                let key = self.keys[usize::try_from(self.dice.roll(20)).unwrap()];
                let cost = Cost::new(1 + self.dice.roll(3));
                let Node {
                    counters, admitted, ..
                } = &mut self.nodes[node];
                let taken = counters.take(&self.limit, &self.limit.quota, key, cost, self.now);
                if matches!(
                    taken.outcome.verdict,
                    crate::algorithms::Verdict::Admitted { .. }
                ) {
                    if self.dice.roll(10) == 0 {
                        counters.give_back(key, cost, self.now, self.now);
                    } else {
                        *admitted += cost.get();
                    }
                }
            }
        }
    }

    /// Has everything sent that nobody is in a hurry to send.
    fn sweep(&mut self) {
        for node in &self.nodes {
            for turn in 0..node.counters.sweeps_per_round() {
                node.counters.sweep(turn, self.now);
            }
        }
    }

    /// Ends all nodes.
    fn finish(&mut self) {
        (self.lost, self.doubled) = (0, 0);
        for node in 0..self.nodes.len() {
            let now = self.clock();
            let Node { core, counters, .. } = &mut self.nodes[node];
            core.flush(counters, now);
            self.carry_out(node);
        }
        for _ in 0..3_000 {
            if self.nodes.iter().all(|node| node.core.is_idle()) {
                return;
            }
            self.step();
        }
        panic!("something is still under way");
    }

    /// What was lent in the hashes that are there.
    fn lent(&self) -> u64 {
        self.store.hashes.values().map(|hash| hash.lent).sum()
    }

    fn settle(&mut self) {
        (self.lost, self.doubled) = (0, 0);
        for turn in 0..3_000 {
            if turn % 300 == 0 {
                self.sweep();
            }
            self.step();
            let idle = self.nodes.iter().all(|node| node.core.is_idle());
            if idle && turn > 600 {
                return;
            }
        }
        panic!("something is still under way");
    }

    fn admitted(&self) -> i64 {
        i64::try_from(self.nodes.iter().map(|node| node.admitted).sum::<u64>()).unwrap()
    }
}

fn window() -> Quota {
    Quota::new(
        Algorithm::FixedWindow,
        1_000_000,
        Nanos::from_secs(3_600),
        None,
    )
    .unwrap()
}

fn log() -> Quota {
    Quota::new(
        Algorithm::SlidingLog,
        100_000,
        Nanos::from_secs(3_600),
        None,
    )
    .unwrap()
}

/// A limit that all nodes reach together, where their leases are out.
fn near(algorithm: Algorithm) -> Quota {
    Quota::new(algorithm, 150, Nanos::from_secs(3_600), None).unwrap()
}

/// Those that count units: the model's time drains no debts.
const COUNTING: [Algorithm; 3] = [
    Algorithm::FixedWindow,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
];

/// What nodes near their limits have counted, after noise and `fault` in the middle of
/// their traffic, and an `end`.
fn near_the_limit(fault: impl Fn(&mut World, u64), end: impl Fn(&mut World)) {
    for algorithm in COUNTING {
        let mut lent = 0;
        for seed in seeds() {
            let mut world = World::new(seed, 3, near(algorithm));
            (world.lost, world.doubled) = (5, 5);
            for turn in 0..200 {
                world.traffic();
                world.step();
                fault(&mut world, turn);
            }
            lent += world.lent();
            end(&mut world);
            assert_eq!(
                world.store.total(),
                world.admitted(),
                "seed {seed}, {}",
                algorithm.name()
            );
        }
        assert!(lent > 1_000, "leases were out: {lent}");
    }
}

#[test]
fn leases_that_nobody_needs_any_more_come_back_to_the_unit() {
    near_the_limit(|_, _| {}, World::settle);
}

#[test]
fn leases_of_nodes_that_end_come_back_to_the_unit() {
    near_the_limit(|_, _| {}, World::finish);
}

#[test]
fn leases_of_a_lost_hash_are_counted_again_and_come_back() {
    let flush = |world: &mut World, turn| {
        if turn == 100 {
            world.store = Store::default();
        }
    };
    near_the_limit(flush, World::settle);
    near_the_limit(flush, World::finish);
}

#[test]
fn leases_of_a_window_that_slides_on_come_back_to_the_unit() {
    for algorithm in [Algorithm::SlidingWindow, Algorithm::SlidingLog] {
        let quota = Quota::new(algorithm, 100, Nanos::from_secs(2), None).unwrap();
        let mut lent = 0;
        for seed in seeds() {
            let mut world = World::new(seed, 3, quota);
            for turn in 0..1_000 {
                if turn % 400 < 200 {
                    world.traffic();
                }
                world.step();
            }
            lent += world.lent();
            world.settle();
            assert_eq!(
                world.store.total(),
                world.admitted(),
                "seed {seed}, {}",
                algorithm.name()
            );
        }
        assert!(lent > 1_000, "leases were out: {lent}");
    }
}

#[test]
fn leases_in_advance_come_back_when_their_nodes_end() {
    let second = Nanos::from_secs(1);
    let quota = Quota::new(Algorithm::FixedWindow, 60, second, None).unwrap();
    let mut lent = 0;
    for seed in seeds() {
        let mut world = World::new(seed, 3, quota);
        // Until shortly before the second window's end.
        for _ in 0..396 - seed % 10 {
            world.traffic();
            world.step();
        }
        let next = world.now.window(second).next();
        let of_next = |world: &World| -> (u64, i64) {
            let hashes = world.store.hashes.iter();
            let next = hashes.filter(|(id, _)| id.slot.window == next);
            let sums = next.map(|(_, hash)| (hash.lent, hash.counts.values().sum::<i64>()));
            sums.fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
        };
        lent += of_next(&world).0;
        world.finish();
        assert_eq!(of_next(&world).1, 0, "seed {seed}");
    }
    assert!(lent > 100, "leases were out: {lent}");
}

fn seeds() -> std::ops::Range<u64> {
    0..60
}

#[test]
fn a_network_that_loses_delays_and_doubles_changes_no_count() {
    for quota in [window(), log()] {
        for seed in seeds() {
            let mut world = World::new(seed, 3, quota);
            (world.lost, world.doubled) = (10, 10);
            for _ in 0..200 {
                world.traffic();
                world.step();
            }
            world.settle();
            let algorithm = quota.algorithm().name();
            assert_eq!(
                world.store.total(),
                world.admitted(),
                "seed {seed}, {algorithm}"
            );
        }
    }
}

#[test]
fn after_the_noise_every_node_sees_what_the_fleet_has_used() {
    for seed in seeds() {
        let mut world = World::new(seed, 3, window());
        (world.lost, world.doubled) = (10, 10);
        for _ in 0..100 {
            world.traffic();
            world.step();
        }
        world.settle();
        // One more check on each node asks the store about every cell.
        for node in 0..3 {
            for key in world.keys.clone() {
                let counters = &world.nodes[node].counters;
                counters.take(&world.limit, &world.limit.quota, key, Cost::ONE, world.now);
                world.nodes[node].admitted += 1;
            }
            world.settle();
        }
        let mut used = 0;
        for key in &world.keys {
            let counters = &world.nodes[2].counters;
            let taken = counters.take(
                &world.limit,
                &world.limit.quota,
                *key,
                Cost::ZERO,
                world.now,
            );
            used += 1_000_000 - i64::try_from(taken.outcome.remaining).unwrap();
        }
        assert_eq!(used, world.admitted(), "seed {seed}");
    }
}

#[test]
fn a_flushed_store_is_filled_again_to_the_unit() {
    for seed in seeds() {
        let mut world = World::new(seed, 3, window());
        (world.lost, world.doubled) = (5, 5);
        for turn in 0..200 {
            world.traffic();
            world.step();
            if turn == 100 {
                world.store = Store::default();
            }
        }
        world.settle();
        assert_eq!(world.store.total(), world.admitted(), "seed {seed}");
    }
}

#[test]
fn a_store_that_was_flushed_unnoticed_is_filled_again_at_the_end() {
    for seed in seeds() {
        let mut world = World::new(seed, 3, window());
        for _ in 0..200 {
            world.traffic();
            world.step();
        }
        world.settle();
        world.store = Store::default();
        for node in 0..world.nodes.len() {
            let now = world.clock();
            let Node { core, counters, .. } = &mut world.nodes[node];
            core.flush(counters, now);
            assert!(!core.is_idle(), "it has yet to look");
            world.carry_out(node);
        }
        while !world.nodes.iter().all(|node| node.core.is_idle()) {
            world.step();
        }
        assert_eq!(world.store.total(), world.admitted(), "seed {seed}");
    }
}

#[test]
fn a_failover_that_forgets_the_last_batches_is_healed_to_the_unit() {
    for seed in seeds() {
        let mut world = World::new(seed, 3, window());
        (world.lost, world.doubled) = (5, 5);
        let mut replica = Store::default();
        for turn in 0..200 {
            world.traffic();
            world.step();
            match turn {
                90 => replica = world.store.clone(),
                100 => world.store = replica.clone(),
                _ => {}
            }
        }
        world.settle();
        assert_eq!(world.store.total(), world.admitted(), "seed {seed}");
    }
}

#[test]
fn a_store_that_was_away_hears_everything_that_still_matters() {
    for seed in seeds() {
        let mut world = World::new(seed, 2, window());
        for turn in 0..200 {
            world.traffic();
            world.step();
            if (50..150).contains(&turn) {
                world
                    .network
                    .retain(|(_, p)| !matches!(p, Packet::ToStore { .. }));
            }
        }
        world.settle();
        assert_eq!(world.store.total(), world.admitted(), "seed {seed}");
    }
}

#[test]
fn a_late_batch_lands_in_its_own_window() {
    let second = Quota::new(Algorithm::FixedWindow, 1_000, Nanos::from_secs(1), None).unwrap();
    for seed in seeds() {
        let mut world = World::new(seed, 2, second);
        (world.lost, world.doubled) = (20, 0);
        let mut admitted: HashMap<u64, u64> = HashMap::new();
        for _ in 0..400 {
            let before = world.admitted();
            world.traffic();
            let window = world.now.window(Nanos::from_secs(1)).get();
            *admitted.entry(window).or_default() +=
                u64::try_from(world.admitted() - before).unwrap();
            world.step();
        }
        world.settle();
        for (window, admitted) in admitted {
            let counted: i64 = world
                .store
                .hashes
                .iter()
                .filter(|(id, _)| id.slot.window.get() == window)
                .flat_map(|(_, hash)| hash.counts.values())
                .sum();
            assert!(
                counted <= i64::try_from(admitted).unwrap(),
                "seed {seed}, window {window}"
            );
        }
    }
}

#[test]
fn the_stores_first_answer_is_reported_and_then_only_news() {
    let mut world = World::new(1, 1, window());
    let news = |world: &mut World| -> Vec<Report> {
        let news = |report: &Report| matches!(report, Report::StoreUp | Report::StoreLost(_));
        world.reports.drain(..).filter(news).collect()
    };
    world.settle();
    assert_eq!(news(&mut world), [Report::StoreUp]);
    let gone = Failure::Disconnected;
    for _ in 0..5 {
        world.give(0, Event::Disconnected(gone));
    }
    assert_eq!(news(&mut world), [Report::StoreLost(gone)]);
    world.give(0, Event::Connected);
    world.settle();
    assert_eq!(news(&mut world), [Report::StoreUp]);
}

#[test]
fn nothing_is_sent_into_a_connection_that_broke_meanwhile() {
    let mut world = World::new(1, 1, window());
    let secret = KeySecret::public();
    world.nodes[0].core = Core::new(CoreConfig {
        boot: Boot::new(1),
        partitions: Partitions::new(16_384).unwrap(),
        poll: TICK,
    });
    world.give(0, Event::Connected);
    world.step();
    // Cells of more hashes than can be under way at once.
    let hasher = secret.hasher(b"many");
    for number in 0u16..1_000 {
        let identity = EncodedIdentity::of("key", Some(&number.to_be_bytes()));
        let (key, now) = (hasher.key(&identity), world.now);
        let counters = &world.nodes[0].counters;
        counters.take(
            &world.limit,
            &world.limit.quota,
            key,
            Cost::new(130_000),
            now,
        );
    }
    let now = world.clock();
    let Node { core, counters, .. } = &mut world.nodes[0];
    core.tick(counters, now);
    let is_batch = |action: &Action| matches!(action, Action::Batch(..));
    let mut sent: Vec<Action> = std::iter::from_fn(|| core.next_action()).collect();
    sent.retain(is_batch);
    let Action::Batch(first, _) = sent[0] else {
        unreachable!("only batches were kept")
    };
    let gone = Failure::Disconnected;
    // Its place is taken by the next one in the queue.
    core.handle(Event::Failed(first, gone), counters, now);
    core.handle(Event::Disconnected(gone), counters, now);
    let left: Vec<Action> = std::iter::from_fn(|| core.next_action()).collect();
    assert!(!left.iter().any(is_batch), "{left:?}");
    world.give(0, Event::Connected);
    world.settle();
    assert_eq!(world.store.total(), 130_000_000);
}
