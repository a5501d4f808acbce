//! The simulated store against the scripts on a real Redis: the same batches and
//! hellos, the same answers, the same contents.

// Tests assert by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::collections::BTreeMap;

use kit::Redis;
use redis::{Connection, PubSub, Value};
use tidegate::counters::{Announcement, Ask, Delta, HashId, Slot, Space};
use tidegate::simulation::{Bucket, Count, Dice, SimStore, Terms, Value as Stored};
use tidegate::sync::batch::{Batch, BatchReply, Boot, Hello, HelloReply, LaneName, Token};
use tidegate::sync::seal::{self, Seal, Told};
use tidegate::sync::wire::Wire;
use tidegate::sync::{SyncConfig, announcement};
use tidegate::units::{
    Algorithm, Calendar, CalendarUnit, Consistency, Key, KeySecret, Nanos, Pace, Partition,
    Partitions, Quota, Timestamp, WindowId,
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

/// A window that is not over.
const OPEN: u64 = 1 << 33;
const CHANNEL: &str = "sim:full";
const END: &str = "that is all";

/// A real store and a simulated one, which are told the same.
struct Both {
    redis: Redis,
    connection: Connection,
    announced: Vec<Announcement>,
    simulated: SimStore,
    /// What the batches say that they know of it.
    seal: Option<Seal>,
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
            announced: Vec::new(),
            redis,
            connection,
            simulated: SimStore::default(),
            seal: None,
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
        let seal = self.seal.clone();
        let command = self.wire.batch(batch, seal.as_ref());
        let value: Value = command.query(&mut self.connection).unwrap();
        let real = self.wire.batch_reply(batch, value).unwrap();
        self.time = real.time;
        let mut announced = Vec::new();
        let simulated = self
            .simulated
            .batch(batch, seal.as_ref(), real.time, &mut announced);
        assert_eq!(simulated, real, "{}: {batch:?}", self.place);
        self.announced.append(&mut announced);
        real
    }

    /// Does something, and compares what was announced meanwhile.
    fn listening_to(&mut self, act: impl FnOnce(&mut Both)) {
        let mut connection = self.redis.connect();
        let mut listener: PubSub<'_> = connection.as_pubsub();
        listener.subscribe(CHANNEL).unwrap();
        act(self);
        self.redis.cli(&["PUBLISH", CHANNEL, END]);
        let mut real: Vec<Announcement> = Vec::new();
        loop {
            let message = listener.get_message().unwrap();
            if message.get_payload_bytes() == END.as_bytes() {
                break;
            }
            let payload = message.get_payload_bytes();
            let read = announcement::read(payload);
            real.push(read.unwrap_or_else(|| panic!("{}: {payload:?}", self.place)));
        }
        assert_eq!(std::mem::take(&mut self.announced), real, "{}", self.place);
    }

    fn hello(&mut self, wire: &Wire, node: Boot, terms: Terms, hello: Hello) -> HelloReply {
        let value: Value = wire.hello(hello).query(&mut self.connection).unwrap();
        let real = wire.hello_reply(value).unwrap();
        self.time = real.time;
        let simulated = self.simulated.hello(node, terms, hello, real.time);
        assert_eq!(simulated, real, "{}: {hello:?} of {node}", self.place);
        real
    }

    fn now(&mut self) -> Timestamp {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut self.connection).unwrap();
        Timestamp::from_nanos(seconds * 1_000_000_000 + micros * 1_000)
    }

    /// Asks for the seal as a node does that was told `told`, or by accident nothing.
    fn ask_for_seal(&mut self, told: &Told) {
        let value: Value = seal::ask("sim", told).query(&mut self.connection).unwrap();
        let real = seal::read(&value).unwrap();
        let (run, number) = (real.text().split(' ').next().unwrap(), told.number());
        // The store's time is in the seal alone, and close to that of the last answer.
        let at = Timestamp::from_nanos(
            real.text()
                .rsplit(' ')
                .next()
                .unwrap()
                .parse::<u64>()
                .unwrap()
                * 1_000,
        );
        let simulated = self.simulated.seal(run, number, at);
        assert_eq!(simulated, real, "{}: told {number}", self.place);
        told.note(&real);
        self.seal = Some(real);
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

    fn delta(&mut self, space: Space) -> Delta {
        // Of a bucket the numbers are times.
        let unit = match space {
            Space::Windows { .. } | Space::Calendar(_) => 1,
            Space::Buckets { .. } => 1_000_003,
        };
        let ask = (self.dice.below(2) == 0).then(|| Ask {
            want: self.one_of(&[0, 1, 7, 300, 1 << 40]) * unit,
            portion: self.one_of(&[0, 1, 250_000, 333_333, 950_000, 1_000_000]),
            unit,
            promise: self.one_of(&[Consistency::Approximate, Consistency::Bounded]),
            demand: i64::try_from(self.dice.below(2_000_000)).unwrap() - 900_000,
            announced_from: self.one_of(&[0, 0, 1, 9, 2_500]) * unit,
        });
        Delta {
            cost: self.cost(),
            upto: 0,
            room: self.one_of(&[0, 10, 1_000, 3_000, 1 << 42]) * unit,
            ask,
        }
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
        Stored::Count(Count {
            total,
            demand,
            level,
        }) => {
            if demand + f64::from(level) == 0.0 {
                format!("{total:.0}").into_bytes()
            } else {
                format!("{total:.0} {demand:.0} {level}").into_bytes()
            }
        }
        Stored::Debt(Bucket {
            debt,
            last,
            demand,
            level,
        }) => {
            let level = f64::from(level);
            if demand + level == 0.0 {
                [debt, last].map(f64::to_be_bytes).concat()
            } else {
                [debt, last, demand, level].map(f64::to_be_bytes).concat()
            }
        }
    }
}

fn space(algorithm: Algorithm, period: Nanos) -> Space {
    Space::of(&Quota::new(algorithm, 1_000, period, None).unwrap())
}

fn calendar(unit: CalendarUnit, zone: &str) -> Space {
    Space::Calendar(Calendar::new(unit, zone).unwrap())
}

/// Random batches: new ones, late ones, and some again.
fn batches(both: &mut Both, seed: u64, keys: &[Key], spaces: &[Space]) {
    let told = Told::default();
    let mut sent: Vec<Batch> = Vec::new();
    let mut tokens: BTreeMap<(HashId, u64), Token> = BTreeMap::new();
    for step in 0..300 {
        both.place = format!("seed {seed}, step {step}");
        if both.dice.below(60) == 0 {
            both.flush();
        }
        match both.dice.below(20) {
            0 => both.ask_for_seal(&told),
            1 => both.ask_for_seal(&Told::default()),
            2 => both.seal = None,
            _ => {}
        }
        // Now and then one comes again, or late.
        if !sent.is_empty() && both.dice.below(6) == 0 {
            let again = both.below(sent.len());
            both.batch(&sent[again].clone());
            continue;
        }
        let space = both.one_of(spaces);
        let present = space.window(both.now()).get();
        let window = both.one_of(&[1_000, OPEN - 1, OPEN, present, present]);
        let window = WindowId::new(window + both.dice.below(2));
        let id = HashId {
            partition: Partition::new(3),
            slot: Slot { space, window },
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
        for key in keys {
            if both.dice.below(3) == 0 {
                cells.push((*key, both.delta(id.slot.space)));
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
}

#[test]
fn the_scripts_and_the_simulated_store_do_the_same() {
    let mut both = Both::new();
    let hasher = KeySecret::public().hasher(b"limit");
    let keys: Vec<Key> = (0u8..12).map(|n| hasher.key_of("key", &[n])).collect();
    let spaces = [
        space(Algorithm::FixedWindow, Nanos::from_secs(1)),
        space(Algorithm::FixedWindow, Nanos::from_secs(3_600)),
        space(Algorithm::SlidingLog, Nanos::from_secs(60)),
        calendar(CalendarUnit::Day, "Europe/Berlin"),
        calendar(CalendarUnit::Month, "UTC"),
        space(Algorithm::TokenBucket, Nanos::from_secs(1)),
        space(Algorithm::LeakyBucket, Nanos::from_secs(3_600)),
    ];
    for seed in seeds(25) {
        both.flush();
        both.dice = Dice::new(seed);
        both.listening_to(|both| batches(both, seed, &keys, &spaces));
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
