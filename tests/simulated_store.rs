//! The simulated store against the scripts on a real Redis: the same batches and
//! hellos, the same answers, the same contents.

// Tests assert by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::collections::BTreeMap;

use kit::Redis;
use redis::{Connection, Value};
use tidegate::counters::{Delta, HashId, Slot, Space};
use tidegate::simulation::{Dice, SimStore, Terms, Value as Stored};
use tidegate::sync::SyncConfig;
use tidegate::sync::batch::{Batch, BatchReply, Boot, Hello, HelloReply, LaneName, Token};
use tidegate::sync::wire::Wire;
use tidegate::units::{
    Algorithm, Key, KeySecret, Nanos, Pace, Partition, Partitions, Quota, Timestamp, WindowId,
};

/// Replayed by its seed: `TIDEGATE_SEED=17 cargo test --test simulated_store`.
fn seeds(count: u64) -> std::ops::Range<u64> {
    match std::env::var("TIDEGATE_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => 0..count,
    }
}

fn config(partitions: u16, secret: KeySecret) -> SyncConfig {
    SyncConfig {
        url: String::new(),
        node: "node".into(),
        fleet: "sim".into(),
        partitions: Partitions::new(partitions).unwrap(),
        secret,
        pace: Pace::default(),
    }
}

/// A real store and a simulated one, which are told the same.
struct Both {
    redis: Redis,
    connection: Connection,
    simulated: SimStore,
    wire: Wire,
    dice: Dice,
    /// When the real one last answered.
    time: Timestamp,
    place: String,
}

impl Both {
    fn new() -> Both {
        let redis = Redis::start();
        let mut connection = redis.connect();
        for command in Wire::load() {
            command.exec(&mut connection).unwrap();
        }
        Both {
            redis,
            connection,
            simulated: SimStore::default(),
            wire: Wire::new(&config(16, KeySecret::public()), Boot::new(1)),
            dice: Dice::new(0),
            time: Timestamp::EPOCH,
            place: String::new(),
        }
    }

    fn flush(&mut self) {
        self.redis.cli(&["FLUSHALL"]);
        self.simulated.flush();
    }

    fn batch(&mut self, batch: &Batch) -> BatchReply {
        let value: Value = self.wire.batch(batch).query(&mut self.connection).unwrap();
        let real = self.wire.batch_reply(batch, value).unwrap();
        self.time = real.time;
        let simulated = self.simulated.batch(batch, real.time);
        assert_eq!(simulated, real, "{}: {batch:?}", self.place);
        real
    }

    fn hello(&mut self, wire: &Wire, node: Boot, terms: Terms, hello: Hello) -> HelloReply {
        let value: Value = wire.hello(hello).query(&mut self.connection).unwrap();
        let real = wire.hello_reply(value).unwrap();
        self.time = real.time;
        let simulated = self.simulated.hello(node, terms, hello, real.time);
        assert_eq!(simulated, real, "{}: {hello:?} of {node}", self.place);
        real
    }

    fn compare_contents(&mut self) {
        let mut hashes = 0;
        for (id, expires, cells) in self.simulated.contents(self.time) {
            hashes += 1;
            let name = self.wire.key(id.partition, id.slot);
            let fields: BTreeMap<Vec<u8>, Vec<u8>> = redis::cmd("HGETALL")
                .arg(&name)
                .query(&mut self.connection)
                .unwrap();
            let is_cell = |field: &[u8]| field.len() == 16;
            let real: BTreeMap<_, _> = fields.iter().filter(|(f, _)| is_cell(f)).collect();
            let simulated: BTreeMap<Vec<u8>, Vec<u8>> = cells
                .map(|(key, value)| (key.to_bytes().to_vec(), bytes(value)))
                .collect();
            let simulated: BTreeMap<_, _> = simulated.iter().collect();
            assert_eq!(simulated, real, "{}: {name}", self.place);
            let real_expiry: u64 = self.redis.cli(&["PEXPIRETIME", &name]).parse().unwrap();
            // The script reads the time before it sets the expiry.
            assert!(
                (expires..expires + 2_000).contains(&real_expiry),
                "{}: {name} expires at {real_expiry}, not at {expires}",
                self.place
            );
        }
        let names = self.redis.cli(&["KEYS", "sim:{p*"]);
        assert_eq!(
            names.lines().filter(|name| !name.is_empty()).count(),
            hashes
        );
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.dice.below(count as u64)).unwrap()
    }

    fn cost(&mut self) -> i64 {
        let small = i64::try_from(self.dice.below(2_000)).unwrap();
        match self.dice.below(20) {
            0 => 0,
            1..=4 => -small,
            5 => small * 1_000_000_007,
            6 => i64::MAX,
            7 => i64::MIN,
            8 => 1 << 53,
            _ => small,
        }
    }
}

/// What the store holds for a cell.
fn bytes(value: Stored) -> Vec<u8> {
    match value {
        Stored::Count(count) => count.to_string().into_bytes(),
        Stored::Debt { debt, last } => [debt.to_be_bytes(), last.to_be_bytes()].concat(),
    }
}

fn space(algorithm: Algorithm, period: Nanos) -> Space {
    Space::of(&Quota::new(algorithm, 1_000, period, None).unwrap())
}

#[test]
fn the_scripts_and_the_simulated_store_do_the_same() {
    let mut both = Both::new();
    let hasher = KeySecret::public().hasher(b"limit");
    let keys: Vec<Key> = (0u8..12).map(|n| hasher.key_of("key", &[n])).collect();
    let spaces = [
        space(Algorithm::FixedWindow, Nanos::from_secs(1)),
        space(Algorithm::SlidingLog, Nanos::from_secs(60)),
        space(Algorithm::TokenBucket, Nanos::from_secs(1)),
        space(Algorithm::LeakyBucket, Nanos::from_secs(3_600)),
    ];
    for seed in seeds(40) {
        both.flush();
        both.dice = Dice::new(seed);
        let mut sent: Vec<Batch> = Vec::new();
        let mut tokens: BTreeMap<(HashId, u64), Token> = BTreeMap::new();
        for step in 0..120 {
            both.place = format!("seed {seed}, step {step}");
            if both.dice.below(60) == 0 {
                both.flush();
            }
            // Now and then one comes again, or late.
            if !sent.is_empty() && both.dice.below(6) == 0 {
                let again = both.below(sent.len());
                both.batch(&sent[again].clone());
                continue;
            }
            let id = HashId {
                partition: Partition::new(3),
                slot: Slot {
                    space: both.one_of(&spaces),
                    window: WindowId::new(1_000 + both.dice.below(3)),
                },
            };
            let boot = both.dice.below(3);
            let lane = LaneName {
                boot: Boot::new(boot),
                number: 0,
            };
            let known = tokens.get(&(id, boot)).copied();
            let previous = match both.dice.below(12) {
                0 => None,
                1 => Some(Token {
                    generation: 9,
                    number: 9,
                }),
                _ => known,
            };
            let new = Token {
                generation: 0,
                number: step + 1,
            };
            let mut cells: Vec<(Key, Delta)> = Vec::new();
            for key in &keys {
                if both.dice.below(3) == 0 {
                    let cost = both.cost();
                    cells.push((*key, Delta { cost, upto: 0 }));
                }
            }
            let batch = Batch {
                id,
                lane,
                previous,
                new,
                cells,
            };
            let reply = both.batch(&batch);
            match reply.token {
                tidegate::sync::batch::Stored::Token(token) => {
                    tokens.insert((id, boot), token);
                }
                _ => {
                    tokens.remove(&(id, boot));
                }
            }
            sent.push(batch);
        }
        both.compare_contents();
    }
}

#[test]
fn hellos_are_answered_the_same() {
    let mut both = Both::new();
    let other = KeySecret::from_text(b"sixteen bytes or more").unwrap();
    let fleets = [
        (16, KeySecret::public()),
        (32, KeySecret::public()),
        (16, other),
    ];
    for seed in seeds(20) {
        both.flush();
        both.dice = Dice::new(seed);
        for step in 0..60 {
            both.place = format!("seed {seed}, step {step}");
            if both.dice.below(30) == 0 {
                both.flush();
            }
            let boot = both.dice.below(5);
            // Most nodes agree.
            let (partitions, secret) = match both.dice.below(10) {
                0 => &fleets[1],
                1 => &fleets[2],
                _ => &fleets[0],
            };
            let wire = Wire::new(&config(*partitions, secret.clone()), Boot::new(boot));
            let terms = Terms {
                partitions: *partitions,
                check_value: secret.check_value(),
            };
            let hello = both.one_of(&[Hello::Alive, Hello::Alive, Hello::Leaving]);
            both.hello(&wire, Boot::new(boot), terms, hello);
        }
    }
}
