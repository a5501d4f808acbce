//! The sync's scripts on a real Redis, one call at a time.

// Tests assert by panicking, and their helpers are not in test functions.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use kit::Redis;
use redis::{Connection, PubSub, RedisError, Value};
use tidegate::counters::{Announcement, Level, Slot, Space};
use tidegate::sync::announcement;
use tidegate::units::{Key, Nanos, WindowId};

const WINDOW: &str = include_str!("../lua/sync_window.lua");
const BUCKET: &str = include_str!("../lua/sync_bucket.lua");
const HELLO: &str = include_str!("../lua/sync_hello.lua");
const LANE: &str = "lane:0000000000000001:0";
const OTHER_LANE: &str = "lane:0000000000000002:0";
const A: &[u8; 16] = b"aaaaaaaaaaaaaaa\0";
const B: &[u8; 16] = b"bbbbbbbbbbbbbb\r\n";
const SECOND: i64 = 1_000_000_000;
/// More than any test counts.
const ENDLESS: u64 = 1 << 53;
const CHANNEL: &str = "test:full";
const SLOT: &str = "w60000000000+1:7";

/// What a script answers: the stored token, the totals, and demand and grant of each ask.
#[derive(Debug, PartialEq)]
struct Told(Option<String>, Vec<i64>, Vec<(i64, i64)>);

/// One cell of a batch.
#[derive(Clone, Copy)]
struct Item<'a> {
    field: &'a [u8],
    delta: i64,
    room: u64,
    ask: Option<Ask>,
}

#[derive(Clone, Copy)]
struct Ask {
    want: u64,
    /// In millionths.
    portion: u32,
    unit: u64,
    demand: i64,
    announced_from: u64,
}

/// A delta of a cell far from its limit.
fn item(field: &[u8], delta: i64) -> Item<'_> {
    Item {
        field,
        delta,
        room: ENDLESS,
        ask: None,
    }
}

impl Item<'_> {
    fn room(self, room: u64) -> Self {
        Item { room, ..self }
    }

    /// Asks for so much in advance, with this part of the fleet's demand.
    fn ask(self, want: u64, portion: u32) -> Self {
        let ask = Ask {
            want,
            portion,
            unit: 1,
            demand: 0,
            announced_from: 0,
        };
        Item {
            ask: Some(ask),
            ..self
        }
    }

    fn unit(self, unit: u64) -> Self {
        let ask = self.ask.map(|ask| Ask { unit, ..ask });
        Item { ask, ..self }
    }

    fn announced_from(self, announced_from: u64) -> Self {
        let ask = self.ask.map(|ask| Ask {
            announced_from,
            ..ask
        });
        Item { ask, ..self }
    }

    fn demand(self, demand: i64) -> Self {
        let ask = self.ask.map(|ask| Ask { demand, ..ask });
        Item { ask, ..self }
    }
}

struct Call<'a> {
    keys: &'a [&'a str],
    lane: &'a str,
    previous: Option<&'a str>,
    new: &'a str,
    items: &'a [Item<'a>],
    /// When the window ends, in microseconds; 0 if it does not.
    end: u64,
    /// For buckets: the length of a slice in microseconds.
    slice: Option<u64>,
    /// The seal as the node knows it, the first moment at which anything is lent, in
    /// microseconds, and the numbers of the cells that this is for.
    sealed: Option<(&'a str, u64, &'a [u64])>,
}

impl Call<'_> {
    fn run(&self, connection: &mut Connection) -> Result<Told, RedisError> {
        let script = if self.slice.is_some() { BUCKET } else { WINDOW };
        let mut command = redis::cmd("EVAL");
        command
            .arg(script)
            .arg(self.keys.len())
            .arg(self.keys)
            .arg(self.lane);
        for item in self.items {
            command.arg(item.field);
        }
        let items: Vec<Value> = command.arg(self.packed()).query(connection)?;
        let token = match &items[0] {
            Value::BulkString(text) => Some(String::from_utf8(text.clone()).unwrap()),
            _ => None,
        };
        let number = |value: &Value| match value {
            Value::Int(number) => *number,
            other => panic!("{other:?}"),
        };
        let mut totals: Vec<i64> = items[3..].iter().map(number).collect();
        let told = totals.split_off(self.items.len());
        let told = told.chunks_exact(2).map(|told| (told[0], told[1]));
        Ok(Told(token, totals, told.collect()))
    }

    /// The last argument.
    fn packed(&self) -> Vec<u8> {
        let mut packed = Vec::new();
        let array = |into: &mut Vec<u8>, length: usize| {
            let length = u32::try_from(length).unwrap();
            rmp::encode::write_array_len(into, length).unwrap();
        };
        let text = |into: &mut Vec<u8>, text: &str| {
            rmp::encode::write_str(into, text).unwrap();
        };
        let number = |into: &mut Vec<u8>, number: u64| {
            rmp::encode::write_uint(into, number).unwrap();
        };
        let signed = |into: &mut Vec<u8>, number: i64| {
            rmp::encode::write_sint(into, number).unwrap();
        };
        let sealed = if self.sealed.is_some() { 3 } else { 0 };
        array(&mut packed, 10 + usize::from(self.slice.is_some()) + sealed);
        text(&mut packed, self.previous.unwrap_or(""));
        text(&mut packed, self.new);
        number(&mut packed, 60_000);
        number(&mut packed, u64::from(self.previous.is_none()));
        number(&mut packed, self.end);
        text(&mut packed, SLOT);
        text(&mut packed, CHANNEL);
        array(&mut packed, self.items.len());
        for item in self.items {
            signed(&mut packed, item.delta);
        }
        array(&mut packed, self.items.len());
        for item in self.items {
            number(&mut packed, item.room);
        }
        let asks = (1u64..).zip(self.items);
        let asks = asks.filter_map(|(number, item)| Some((number, item.ask?)));
        let asks: Vec<(u64, Ask)> = asks.collect();
        array(&mut packed, 6 * asks.len());
        for (cell, ask) in asks {
            number(&mut packed, cell);
            number(&mut packed, ask.want);
            number(&mut packed, u64::from(ask.portion));
            number(&mut packed, ask.unit);
            signed(&mut packed, ask.demand);
            number(&mut packed, ask.announced_from);
        }
        if let Some(slice) = self.slice {
            number(&mut packed, slice);
        }
        if let Some((seal, from, cells)) = self.sealed {
            text(&mut packed, seal);
            number(&mut packed, from);
            array(&mut packed, cells.len());
            for cell in cells {
                number(&mut packed, *cell);
            }
        }
        packed
    }
}

fn window<'a>(previous: Option<&'a str>, new: &'a str, items: &'a [Item<'a>]) -> Call<'a> {
    Call {
        keys: &["h"],
        lane: LANE,
        previous,
        new,
        items,
        end: 0,
        slice: None,
        sealed: None,
    }
}

fn bucket<'a>(previous: Option<&'a str>, new: &'a str, items: &'a [Item<'a>]) -> Call<'a> {
    let keys = &["now", "before", "after"];
    Call {
        keys,
        lane: LANE,
        previous,
        new,
        items,
        end: 0,
        slice: Some(64_000_000),
        sealed: None,
    }
}

/// An answer to a batch without asks.
fn told(token: &str, totals: &[i64]) -> Told {
    Told(Some(token.to_owned()), totals.to_vec(), Vec::new())
}

/// An answer to a batch with asks.
fn lent(token: &str, totals: &[i64], asks: &[(i64, i64)]) -> Told {
    Told(Some(token.to_owned()), totals.to_vec(), asks.to_vec())
}

/// The value of a cell's field in this hash, as text.
fn value(c: &mut Connection, hash: &str, field: &[u8]) -> Option<String> {
    let value: Option<Vec<u8>> = redis::cmd("HGET").arg(hash).arg(field).query(c).unwrap();
    value.map(|value| String::from_utf8(value).unwrap())
}

/// Writes a cell's field by hand.
fn set(c: &mut Connection, hash: &str, field: &[u8], value: &str) {
    let mut command = redis::cmd("HSET");
    command.arg(hash).arg(field).arg(value);
    command.query::<i64>(c).unwrap();
}

/// What was announced until now, as every node reads it.
fn heard(ear: &mut PubSub<'_>, c: &mut Connection) -> Vec<Announcement> {
    let mut end = redis::cmd("PUBLISH");
    end.arg(CHANNEL).arg("end").query::<i64>(c).unwrap();
    let mut heard = Vec::new();
    loop {
        let message = ear.get_message().unwrap();
        match message.get_payload_bytes() {
            b"end" => return heard,
            payload => heard.push(announcement::read(payload).unwrap()),
        }
    }
}

/// The store's time in microseconds.
fn time(c: &mut Connection) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(c).unwrap();
    seconds * 1_000_000 + micros
}

#[test]
fn a_batch_is_applied_once_however_often_it_comes() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let both = [item(A, 5), item(B, 7)];
    let first = window(None, "0.1", &both);
    let one = [item(A, 1)];
    let second = window(Some("0.1"), "0.2", &one);
    assert_eq!(first.run(&mut c).unwrap(), told("0.1", &[5, 7]));
    assert_eq!(first.run(&mut c).unwrap(), told("0.1", &[5, 7]));
    assert_eq!(second.run(&mut c).unwrap(), told("0.2", &[6]));
    assert_eq!(second.run(&mut c).unwrap(), told("0.2", &[6]));
    assert_eq!(
        first.run(&mut c).unwrap(),
        told("0.2", &[6, 7]),
        "late, and not applied"
    );
}

#[test]
fn a_batch_for_a_lost_hash_tells_so_and_leaves_nothing() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let asking = [item(A, 1).room(100).ask(10, 500_000).demand(70)];
    for batch in [
        window(Some("0.1"), "0.2", &asking),
        bucket(Some("0.1"), "0.2", &asking),
    ] {
        assert_eq!(
            batch.run(&mut c).unwrap(),
            Told(None, vec![0], vec![(0, 0)])
        );
        assert_eq!(redis.cli(&["DBSIZE"]), "0");
    }
}

#[test]
fn lanes_of_two_nodes_add_up_in_one_hash() {
    let redis = Redis::start();
    let mut c = redis.connect();
    window(None, "0.1", &[item(A, 5)]).run(&mut c).unwrap();
    let items = [item(A, 3)];
    let other = Call {
        lane: OTHER_LANE,
        ..window(None, "0.1", &items)
    };
    assert_eq!(other.run(&mut c).unwrap(), told("0.1", &[8]));
    assert_eq!(
        window(Some("0.1"), "0.2", &[item(A, -2)])
            .run(&mut c)
            .unwrap(),
        told("0.2", &[6])
    );
}

#[test]
fn a_question_alone_makes_no_field_and_every_hash_has_a_time_to_live() {
    let redis = Redis::start();
    let mut c = redis.connect();
    for (batch, hash) in [
        (window(None, "0.1", &[item(A, 0)]), "h"),
        (bucket(None, "0.1", &[item(A, 0)]), "now"),
    ] {
        assert_eq!(batch.run(&mut c).unwrap(), told("0.1", &[0]));
        assert_eq!(redis.cli(&["HLEN", hash]), "1", "the lane alone");
        let left: i64 = redis.cli(&["PTTL", hash]).parse().unwrap();
        assert!((1..=60_000).contains(&left), "{left}");
    }
}

#[test]
fn a_lanes_later_batches_leave_the_time_to_live_alone() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let asking = [item(A, 1).room(100).ask(10, 500_000).demand(70)];
    window(None, "0.1", &asking).run(&mut c).unwrap();
    bucket(None, "0.1", &asking).run(&mut c).unwrap();
    for hash in ["h", "now"] {
        redis.cli(&["PEXPIRE", hash, "30000"]);
    }
    window(Some("0.1"), "0.2", &asking).run(&mut c).unwrap();
    bucket(Some("0.1"), "0.2", &asking).run(&mut c).unwrap();
    for hash in ["h", "now"] {
        let left: i64 = redis.cli(&["PTTL", hash]).parse().unwrap();
        assert!((1..=30_000).contains(&left), "{hash}: {left}");
    }
    assert_eq!(redis.cli(&["DBSIZE"]), "2", "announcements leave no key");
}

#[test]
fn counts_stop_where_they_would_no_longer_be_exact() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let most = 1 << 53;
    window(None, "0.1", &[item(A, most - 1)])
        .run(&mut c)
        .unwrap();
    assert_eq!(
        window(Some("0.1"), "0.2", &[item(A, 7)])
            .run(&mut c)
            .unwrap(),
        told("0.2", &[most])
    );
    let asking = [item(A, i64::MAX).ask(u64::MAX, 950_000)];
    let Told(_, totals, asks) = window(Some("0.2"), "0.3", &asking).run(&mut c).unwrap();
    assert_eq!((totals, asks), (vec![most], vec![(0, 0)]));
    assert_eq!(value(&mut c, "h", A).unwrap(), format!("{most} 0 2"));
}

#[test]
fn a_key_that_holds_something_else_is_an_error_and_stays() {
    let redis = Redis::start();
    let mut c = redis.connect();
    redis.cli(&["RPUSH", "h", "x"]);
    let error = window(None, "0.1", &[item(A, 1)]).run(&mut c).unwrap_err();
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    assert_eq!(redis.cli(&["LRANGE", "h", "0", "-1"]), "x");
}

#[test]
fn a_window_cell_that_no_node_has_written_counts_as_full_and_harms_no_other() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let junk = [
        "",
        "x",
        "-5",
        "1.5",
        "nan",
        "inf",
        "-nan",
        "1e300",
        "12 many 1",
        "1 2",
        "1 2 3",
        "1 2 1 1",
        "9007199254740994",
        "5 99999999999999999999 1",
    ];
    for junk in junk {
        redis.cli(&["DEL", "h"]);
        set(&mut c, "h", A, junk);
        let look = window(Some("0.0"), "0.1", &[item(A, 0).room(70)]).run(&mut c);
        assert_eq!(look.unwrap(), Told(None, vec![70], vec![]), "{junk}");
        let batch = [item(B, 5), item(A, 1).room(70).ask(10, 1_000_000).demand(3)];
        let answer = window(None, "0.1", &batch).run(&mut c).unwrap();
        assert_eq!(answer, lent("0.1", &[5, 71], &[(3, 0)]), "{junk}");
        assert_eq!(value(&mut c, "h", A).unwrap(), "71 3 2", "{junk}");
    }
}

#[test]
fn a_bucket_that_no_node_has_written_counts_as_full_and_harms_no_other() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let forms = [
        "'>d', 1",
        "'>ddd', 1, 1, 1",
        "'>dd', 0/0, now",
        "'>dd', 1/0, now",
        "'>dd', -1e18, now",
        "'>dd', 1e300, now",
        "'>dd', 1, 0/0",
        "'>dd', 1, -1/0",
        "'>dddd', 1, now, 0/0, 0",
        "'>dddd', 1, now, 1/0, 0",
        "'>dddd', 1, now, 1, 0/0",
        "'>dddd', 1, now, 1, 3",
    ];
    for form in forms {
        redis.cli(&["DEL", "now"]);
        let make = format!(
            "local now = redis.call('TIME')[1] * 1e6
             return redis.call('HSET', 'now', ARGV[1], struct.pack({form}))"
        );
        let make = redis::cmd("EVAL").arg(make).arg(0).arg(A).to_owned();
        make.exec(&mut c).unwrap();
        let room = u64::try_from(40 * SECOND).unwrap();
        let wanted = u64::try_from(SECOND).unwrap();
        let batch = [
            item(B, 5),
            item(A, SECOND).room(room).ask(wanted, 1_000_000).demand(3),
        ];
        let answer = bucket(None, "0.1", &batch).run(&mut c).unwrap();
        assert_eq!(answer, lent("0.1", &[5, 41 * SECOND], &[(3, 0)]), "{form}");
    }
}

#[test]
fn no_cost_takes_a_debt_past_twice_its_room_and_none_is_lowered_by_that() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let hour = 3_600 * SECOND;
    let room = u64::try_from(hour).unwrap();
    let mut previous: Option<String> = None;
    let mut owes = |number: u32, delta: i64, room: u64| {
        let new = format!("0.{number}");
        let items = [item(A, delta).room(room)];
        let Told(_, totals, _) = bucket(previous.as_deref(), &new, &items)
            .run(&mut c)
            .unwrap();
        previous = Some(new);
        // In whole minutes: what has drained meanwhile is far less.
        (totals[0] + 30 * SECOND) / (60 * SECOND)
    };
    assert_eq!(owes(1, 90 * 60 * SECOND, room), 90);
    assert_eq!(owes(2, 900 * hour, room), 120);
    // Another node knows of a smaller limit.
    assert_eq!(owes(3, hour, room / 4), 120);
    assert_eq!(owes(4, -hour, room / 4), 60);
}

#[test]
fn demand_beyond_all_measure_is_as_much_as_is_exact() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let most = 1 << 53;
    let asking = [item(A, 1).room(70).ask(0, 0).demand(i64::MAX)];
    for batch in [window(None, "0.1", &asking), bucket(None, "0.1", &asking)] {
        assert_eq!(batch.run(&mut c).unwrap(), lent("0.1", &[1], &[(most, 0)]));
    }
}

#[test]
fn a_grant_is_the_portion_of_what_is_free_and_never_more_than_is_wanted() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let mut previous: Option<String> = None;
    for (number, (delta, want, portion, total, grant)) in [
        (20, 50, 250_000, 40, 20),
        (0, 5, 250_000, 45, 5),
        (0, 0, 950_000, 45, 0),
        (-5, 1_000, 500_000, 70, 30),
        (0, 1_000, 950_000, 98, 28),
        // However small the portion: one, if one is free.
        (0, 1_000, 0, 99, 1),
        (0, 1_000, 10_000, 100, 1),
        (0, 1_000, 950_000, 100, 0),
        (7, 1_000, 950_000, 107, 0),
    ]
    .into_iter()
    .enumerate()
    {
        let new = format!("0.{}", number + 1);
        let items = [item(A, delta).room(100).ask(want, portion)];
        let told = window(previous.as_deref(), &new, &items)
            .run(&mut c)
            .unwrap();
        assert_eq!(told, lent(&new, &[total], &[(0, grant)]), "{number}");
        previous = Some(new);
    }
}

#[test]
fn a_grant_is_a_multiple_of_its_unit() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let mut grant = |previous: Option<&str>, new: &str, delta, want, portion| {
        let items = [item(A, delta).room(100).ask(want, portion).unit(10)];
        let Told(_, totals, asks) = window(previous, new, &items).run(&mut c).unwrap();
        (totals[0], asks[0].1)
    };
    assert_eq!(
        grant(None, "0.1", 55, 30, 500_000),
        (75, 20),
        "22 are its part"
    );
    assert_eq!(
        grant(Some("0.1"), "0.2", 0, 30, 10_000),
        (85, 10),
        "one at least"
    );
    assert_eq!(
        grant(Some("0.2"), "0.3", 0, 30, 950_000),
        (95, 10),
        "15 are free"
    );
    assert_eq!(
        grant(Some("0.3"), "0.4", 0, 30, 950_000),
        (95, 0),
        "5 are free"
    );
}

#[test]
fn after_the_end_of_its_window_nothing_is_lent() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let asking = [item(A, 10).room(100).ask(20, 500_000)];
    let now = time(&mut c);
    let batch = |previous, new, end| Call {
        end,
        ..window(previous, new, &asking)
    };
    assert_eq!(
        batch(None, "0.1", now + 60_000_000).run(&mut c).unwrap(),
        lent("0.1", &[30], &[(0, 20)])
    );
    assert_eq!(
        batch(Some("0.1"), "0.2", now).run(&mut c).unwrap(),
        lent("0.2", &[40], &[(0, 0)]),
        "the delta still lands"
    );
}

#[test]
fn a_batch_that_comes_again_is_told_the_same_grants_until_the_next_one() {
    let redis = Redis::start();
    let mut c = redis.connect();
    // Some with an ask and some without, so that each grant has to find its own.
    let items = [
        item(B, 1).room(100).ask(0, 500_000).demand(40),
        item(b"cccccccccccccccc", 3),
        item(A, 20).room(100).ask(30, 500_000).demand(70),
        item(b"dddddddddddddddd", 0).room(50).ask(9, 500_000),
    ];
    let second = [item(A, 2).room(100)];
    for (hash, first, second) in [
        (
            "h",
            window(None, "0.1", &items),
            window(Some("0.1"), "0.2", &second),
        ),
        (
            "now",
            bucket(None, "0.1", &items),
            bucket(Some("0.1"), "0.2", &second),
        ),
    ] {
        let Told(token, totals, asks) = first.run(&mut c).unwrap();
        assert_eq!(token.as_deref(), Some("0.1"));
        assert_eq!(totals, [1, 3, 50, 9]);
        assert_eq!(asks, [(40, 0), (70, 30), (0, 9)]);
        for _ in 0..2 {
            let Told(token, _, again) = first.run(&mut c).unwrap();
            assert_eq!((token.as_deref(), again), (Some("0.1"), asks.clone()));
        }
        second.run(&mut c).unwrap();
        let Told(token, _, late) = first.run(&mut c).unwrap();
        assert_eq!(token.as_deref(), Some("0.2"));
        assert_eq!(late, [(40, 0), (70, 0), (0, 0)], "it was not this batch");
        assert_eq!(value(&mut c, hash, LANE.as_bytes()).unwrap(), "0.2");
        // What was lent is lent once.
        if hash == "h" {
            assert_eq!(value(&mut c, hash, A).unwrap(), "52 70 1");
        }
    }
}

#[test]
fn the_demands_of_all_nodes_add_up() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let mut told = |lane, previous: Option<&str>, new: &str, delta, demand| {
        let items = [item(A, delta).room(1_000).ask(0, 500_000).demand(demand)];
        let batch = Call {
            lane,
            ..window(previous, new, &items)
        };
        let Told(_, totals, asks) = batch.run(&mut c).unwrap();
        let value = value(&mut c, "h", A).unwrap();
        (totals[0], asks[0], value)
    };
    let value = |text: &str| text.to_owned();
    assert_eq!(
        told(LANE, None, "0.1", 4, 500),
        (4, (500, 0), value("4 500 0"))
    );
    assert_eq!(
        told(OTHER_LANE, None, "0.1", 6, 300),
        (10, (800, 0), value("10 800 0"))
    );
    assert_eq!(
        told(LANE, Some("0.1"), "0.2", 0, -450),
        (10, (350, 0), value("10 350 0"))
    );
    assert_eq!(
        told(LANE, Some("0.2"), "0.3", 0, -900),
        (10, (0, 0), value("10")),
        "no less than none"
    );
}

#[test]
fn a_batch_without_asks_keeps_what_is_known_of_the_demand() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let asking = [item(A, 4).room(1_000).ask(0, 500_000).demand(500)];
    window(None, "0.1", &asking).run(&mut c).unwrap();
    let batch = [item(A, 2).room(1_000)];
    assert_eq!(
        window(Some("0.1"), "0.2", &batch).run(&mut c).unwrap(),
        told("0.2", &[6])
    );
    assert_eq!(value(&mut c, "h", A).unwrap(), "6 500 0");
}

#[test]
fn a_count_alone_is_a_cell_without_demand_that_nothing_was_announced_of() {
    let redis = Redis::start();
    let mut c = redis.connect();
    set(&mut c, "h", A, "45");
    let asking = [item(A, 5).room(1_000).ask(10, 500_000).demand(70)];
    assert_eq!(
        window(None, "0.1", &asking).run(&mut c).unwrap(),
        lent("0.1", &[60], &[(70, 10)])
    );
    assert_eq!(value(&mut c, "h", A).unwrap(), "60 70 0");
}

#[test]
fn half_and_full_are_announced_once_each_until_less_than_half_is_used() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let mut ear = redis.connect();
    let mut ear = ear.as_pubsub();
    ear.subscribe(CHANNEL).unwrap();
    let began = time(&mut c);
    let mut number = 0;
    let mut previous: Option<String> = None;
    let mut announced = |item: Item<'_>| {
        number += 1;
        let new = format!("0.{number}");
        let items = [item];
        let batch = window(previous.as_deref(), &new, &items);
        batch.run(&mut c).unwrap();
        // A batch that comes again announces nothing again.
        batch.run(&mut c).unwrap();
        previous = Some(new);
        let heard = heard(&mut ear, &mut c);
        for announcement in &heard {
            assert_eq!(announcement.key, Key::from_bytes(*A));
            let space = Space::Windows {
                length: Nanos::from_secs(60),
                kept: 1,
            };
            let window = WindowId::new(7);
            assert_eq!(announcement.slot, Slot { space, window });
            let at = announcement.at.as_nanos() / 1_000;
            assert!((began..=time(&mut c)).contains(&at), "{at}");
        }
        let told = heard.iter().map(|a| (a.level, a.total, a.demand));
        told.collect::<Vec<_>>()
    };
    let ten = |delta| item(A, delta).room(10);
    assert_eq!(announced(ten(4)), []);
    assert_eq!(
        announced(ten(1).ask(0, 0).demand(70)),
        [(Level::Half, 5, 70)]
    );
    assert_eq!(announced(ten(1)), []);
    assert_eq!(announced(ten(0)), []);
    // What is lent counts.
    assert_eq!(
        announced(ten(1).ask(9, 1_000_000).demand(5)),
        [(Level::Full, 10, 75)]
    );
    assert_eq!(announced(ten(3)), []);
    assert_eq!(announced(ten(-5)), [], "it has been full");
    assert_eq!(announced(ten(5)), []);
    assert_eq!(announced(ten(-9)), []);
    assert_eq!(announced(ten(1)), [(Level::Half, 5, 75)]);
    assert_eq!(announced(ten(-5)), []);
    assert_eq!(announced(ten(20)), [(Level::Full, 20, 75)], "both at once");
    // A node may have its cost announced each time, from some total on.
    let loud = |delta| ten(delta).ask(0, 0).announced_from(8);
    assert_eq!(announced(ten(-14)), []);
    assert_eq!(announced(loud(1)), [], "it makes seven");
    assert_eq!(announced(loud(1)), [(Level::Half, 8, 75)]);
    assert_eq!(announced(loud(0)), []);
    assert_eq!(announced(loud(3)), [(Level::Full, 11, 75)]);
    assert_eq!(announced(loud(1)), [(Level::Full, 12, 75)], "once more");
    assert_eq!(announced(ten(1)), []);
}

#[test]
fn a_question_announces_what_it_finds_once() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let mut ear = redis.connect();
    let mut ear = ear.as_pubsub();
    ear.subscribe(CHANNEL).unwrap();
    set(&mut c, "h", A, "45");
    let question = [item(A, 0).room(50)];
    window(None, "0.1", &question).run(&mut c).unwrap();
    window(Some("0.1"), "0.2", &question).run(&mut c).unwrap();
    let heard = heard(&mut ear, &mut c);
    let told: Vec<_> = heard.iter().map(|a| (a.level, a.total)).collect();
    assert_eq!(told, [(Level::Half, 45)]);
    assert_eq!(value(&mut c, "h", A).unwrap(), "45 0 1");
}

#[test]
fn a_debt_is_added_once_and_drains_with_the_stores_clock() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let items = [item(A, 30 * SECOND)];
    let first = bucket(None, "0.1", &items);
    assert_eq!(first.run(&mut c).unwrap(), told("0.1", &[30 * SECOND]));
    let Told(token, totals, _) = first.run(&mut c).unwrap();
    assert_eq!(token.as_deref(), Some("0.1"));
    assert!(
        (20 * SECOND..30 * SECOND).contains(&totals[0]),
        "{totals:?}"
    );
    let Told(_, later, _) = bucket(Some("0.1"), "0.2", &[item(A, SECOND)])
        .run(&mut c)
        .unwrap();
    assert!(
        (totals[0] - 9 * SECOND..totals[0] + SECOND).contains(&later[0]),
        "{later:?}"
    );
}

#[test]
fn a_new_slice_takes_over_what_the_one_before_still_owes() {
    let redis = Redis::start();
    let mut c = redis.connect();
    bucket(None, "0.1", &[item(A, 30 * SECOND), item(B, 20 * SECOND)])
        .run(&mut c)
        .unwrap();
    let turned = ["after", "now", "later"];
    let items = [item(A, SECOND)];
    let next = Call {
        keys: &turned,
        ..bucket(None, "0.1", &items)
    };
    let Told(_, debt, _) = next.run(&mut c).unwrap();
    assert!((29 * SECOND..=31 * SECOND).contains(&debt[0]), "{debt:?}");
    // A late batch of the slice before reaches the cell in its new place.
    bucket(Some("0.1"), "0.2", &[item(A, 5 * SECOND), item(B, SECOND)])
        .run(&mut c)
        .unwrap();
    let items = [item(A, 0), item(B, 0)];
    let ask = Call {
        keys: &turned,
        ..bucket(Some("0.1"), "0.2", &items)
    };
    let Told(_, debts, _) = ask.run(&mut c).unwrap();
    assert!((33 * SECOND..=36 * SECOND).contains(&debts[0]), "{debts:?}");
    assert!((19 * SECOND..=21 * SECOND).contains(&debts[1]), "{debts:?}");
}

#[test]
fn a_late_batchs_grant_reaches_the_next_slice() {
    let redis = Redis::start();
    let mut c = redis.connect();
    bucket(None, "0.1", &[item(A, 30 * SECOND)])
        .run(&mut c)
        .unwrap();
    let turned = ["after", "now", "later"];
    let items = [item(A, SECOND)];
    let next = Call {
        keys: &turned,
        ..bucket(None, "0.1", &items)
    };
    next.run(&mut c).unwrap();
    let asking = [seconds(
        item(A, 0).room(60_000_000_000).ask(10_000_000_000, 950_000),
    )];
    let Told(_, _, asks) = bucket(Some("0.1"), "0.2", &asking).run(&mut c).unwrap();
    assert_eq!(asks, [(0, 10 * SECOND)]);
    let items = [item(A, 0)];
    let question = Call {
        keys: &turned,
        ..bucket(Some("0.1"), "0.2", &items)
    };
    let Told(_, debt, _) = question.run(&mut c).unwrap();
    assert!((39 * SECOND..=41 * SECOND).contains(&debt[0]), "{debt:?}");
}

/// In seconds of drain time: what an ask is a multiple of.
fn seconds(item: Item<'_>) -> Item<'_> {
    item.unit(1_000_000_000)
}

#[test]
fn a_buckets_grant_is_the_portion_of_what_is_free_in_whole_units() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let second = 1_000_000_000;
    let mut grant = |previous: Option<&str>, new: &str, delta, want, portion| {
        let ask = item(A, delta * SECOND).room(600 * second);
        let items = [seconds(ask.ask(want * second, portion))];
        let Told(_, totals, asks) = bucket(previous, new, &items).run(&mut c).unwrap();
        assert_eq!(asks[0].1 % SECOND, 0);
        // It has drained a little since; nothing here waits for a minute.
        (totals[0] / SECOND / 60 * 60, asks[0].1 / SECOND)
    };
    assert_eq!(grant(None, "0.1", 250, 100, 200_000), (300, 70));
    assert_eq!(grant(Some("0.1"), "0.2", 0, 5, 950_000), (300, 5));
    assert_eq!(grant(Some("0.2"), "0.3", 0, 0, 950_000), (300, 0));
    assert_eq!(grant(Some("0.3"), "0.4", 0, 5, 0), (300, 1), "one at least");
    assert_eq!(grant(Some("0.4"), "0.5", 400, 5, 950_000), (720, 0));
}

#[test]
fn less_than_a_unit_of_a_bucket_is_not_lent() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let ask = item(A, 20 * SECOND).room(20_900_000_000);
    let items = [ask.ask(50_000_000_000, 950_000).unit(50_000_000_000)];
    assert_eq!(
        bucket(None, "0.1", &items).run(&mut c).unwrap(),
        lent("0.1", &[20 * SECOND], &[(0, 0)])
    );
}

#[test]
fn a_bucket_near_its_limit_is_kept_with_demand_and_level_and_another_without() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let length = |c: &mut Connection, field: &[u8]| -> i64 {
        redis::cmd("HSTRLEN")
            .arg("now")
            .arg(field)
            .query(c)
            .unwrap()
    };
    let near = item(A, 20 * SECOND).room(600_000_000_000);
    let items = [seconds(near.ask(0, 0).demand(70)), item(B, 20 * SECOND)];
    bucket(None, "0.1", &items).run(&mut c).unwrap();
    assert_eq!((length(&mut c, A), length(&mut c, B)), (32, 16));
    let Told(_, _, asks) = bucket(
        Some("0.1"),
        "0.2",
        &[seconds(
            item(A, 0).room(600_000_000_000).ask(0, 0).demand(-70),
        )],
    )
    .run(&mut c)
    .unwrap();
    assert_eq!(asks, [(0, 0)]);
    assert_eq!(length(&mut c, A), 16);
}

#[test]
fn in_a_new_slice_demand_is_reported_anew_and_nothing_is_announced_again() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let mut ear = redis.connect();
    let mut ear = ear.as_pubsub();
    ear.subscribe(CHANNEL).unwrap();
    let near = |delta: i64, demand| {
        seconds(item(A, delta * SECOND).room(600_000_000_000).ask(0, 0)).demand(demand)
    };
    bucket(None, "0.1", &[near(400, 70)]).run(&mut c).unwrap();
    let told = |heard: Vec<Announcement>| -> Vec<_> {
        heard.iter().map(|a| (a.level, a.demand)).collect()
    };
    assert_eq!(told(heard(&mut ear, &mut c)), [(Level::Half, 70)]);
    let items = [near(1, 30)];
    let next = Call {
        keys: &["after", "now", "later"],
        ..bucket(None, "0.1", &items)
    };
    let Told(_, _, asks) = next.run(&mut c).unwrap();
    assert_eq!(asks, [(30, 0)]);
    assert_eq!(told(heard(&mut ear, &mut c)), []);
    let items = [near(199, 0)];
    let more = Call {
        keys: &["after", "now", "later"],
        ..bucket(Some("0.1"), "0.2", &items)
    };
    more.run(&mut c).unwrap();
    assert_eq!(told(heard(&mut ear, &mut c)), [(Level::Full, 30)],);
}

#[test]
fn a_bucket_is_announced_again_when_it_was_less_than_half_full() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let mut ear = redis.connect();
    let mut ear = ear.as_pubsub();
    ear.subscribe(CHANNEL).unwrap();
    let near = |seconds: i64| item(A, seconds * SECOND).room(600_000_000_000);
    let mut number = 0;
    let mut previous: Option<String> = None;
    let mut announced = |item: Item<'_>| {
        number += 1;
        let new = format!("0.{number}");
        bucket(previous.as_deref(), &new, &[item])
            .run(&mut c)
            .unwrap();
        previous = Some(new);
        let heard = heard(&mut ear, &mut c);
        let told = heard.iter().map(|a| (a.level, a.total / 60_000_000_000));
        told.collect::<Vec<_>>()
    };
    assert_eq!(announced(near(200)), []);
    assert_eq!(announced(near(270)), [(Level::Half, 7)]);
    assert_eq!(announced(near(200)), [(Level::Full, 11)]);
    let loud = near(30).ask(0, 0).announced_from(600_000_000_000);
    assert_eq!(announced(loud), [(Level::Full, 11)], "each time");
    assert_eq!(announced(near(-30)), []);
    assert_eq!(announced(near(-270)), []);
    assert_eq!(announced(near(-200)), []);
    assert_eq!(announced(near(270)), [(Level::Half, 7)]);
}

#[test]
fn a_record_from_far_ahead_starts_afresh() {
    let redis = Redis::start();
    let mut c = redis.connect();
    for form in ["'>dd', 5e9, 4e15", "'>dddd', 5e9, 4e15, 70, 2"] {
        let make = format!("return redis.call('HSET', 'now', ARGV[1], struct.pack({form}))");
        redis::cmd("EVAL")
            .arg(make)
            .arg(0)
            .arg(A)
            .query::<i64>(&mut c)
            .unwrap();
        let asking = [item(A, SECOND).ask(0, 0).demand(5)];
        assert_eq!(
            bucket(None, "0.1", &asking).run(&mut c).unwrap(),
            lent("0.1", &[SECOND], &[(5, 0)])
        );
        redis.cli(&["DEL", "now"]);
    }
}

#[test]
fn a_debt_and_its_time_alone_are_a_bucket_without_demand() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let now = time(&mut c);
    redis::cmd("EVAL")
        .arg("return redis.call('HSET', 'now', ARGV[1], struct.pack('>dd', 30e9, ARGV[2]))")
        .arg(0)
        .arg(A)
        .arg(now)
        .query::<i64>(&mut c)
        .unwrap();
    let asking = [item(A, SECOND).ask(0, 0).demand(5)];
    let Told(_, debts, asks) = bucket(None, "0.1", &asking).run(&mut c).unwrap();
    assert!((21 * SECOND..=31 * SECOND).contains(&debts[0]), "{debts:?}");
    assert_eq!(asks, [(5, 0)]);
}

#[test]
fn the_first_node_says_what_the_fleet_agrees_on() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let mut hello = |partitions: &str, node: &str, word: &str| {
        let mut command = redis::cmd("EVAL");
        command
            .arg(HELLO)
            .arg(2)
            .arg("f:{fleet}:agreed")
            .arg("f:{fleet}:nodes");
        command
            .arg(partitions)
            .arg("c0ffee")
            .arg(node)
            .arg(5_000)
            .arg(word);
        let (agreed, _, _, _, nodes): (String, String, u64, u64, i64) =
            command.query(&mut c).unwrap();
        (agreed, nodes)
    };
    let agreed = |partitions: &str, nodes| (partitions.to_owned(), nodes);
    assert_eq!(
        hello("256", "x:9", "leaving"),
        agreed("256", 0),
        "it sets nothing"
    );
    assert_eq!(hello("128", "a:1", "alive"), agreed("128", 1));
    assert_eq!(hello("128", "b:2", "alive"), agreed("128", 2));
    assert_eq!(
        hello("256", "c:3", "alive"),
        agreed("128", 2),
        "not counted"
    );
    assert_eq!(hello("128", "a:1", "leaving"), agreed("128", 1));
    assert_eq!(hello("128", "b:2", "leaving"), agreed("128", 0));
    // Nobody is left to disagree with.
    assert_eq!(hello("256", "c:3", "alive"), agreed("256", 1));
    assert!(
        redis
            .cli(&["PTTL", "f:{fleet}:nodes"])
            .parse::<i64>()
            .unwrap()
            > 0
    );
}

#[test]
fn nodes_of_a_time_that_the_stores_clock_has_left_again_are_forgotten() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let ahead = time(&mut c) / 1_000 + 3_600_000;
    redis.cli(&["ZADD", "nodes", &ahead.to_string(), "ghost:1"]);
    redis.cli(&["HSET", "agreed", "partitions", "256", "secret", "c0ffee"]);
    let mut hello = |partitions: u64| -> i64 {
        let mut command = redis::cmd("EVAL");
        command.arg(HELLO).arg(2).arg("agreed").arg("nodes");
        command.arg(partitions).arg("c0ffee").arg("a:1");
        command.arg(5_000).arg("alive");
        let answer: (String, String, u64, u64, i64) = command.query(&mut c).unwrap();
        answer.4
    };
    // Somebody who disagrees with the fleet empties it for nobody.
    assert_eq!(hello(128), 1);
    assert_eq!(hello(256), 1);
    assert_eq!(redis.cli(&["ZRANGE", "nodes", "0", "-1"]), "a:1");
}

const SEAL: &str = "r 0 1";

/// A store with this seal.
fn with_seal(seal: &str) -> (Redis, Connection) {
    let redis = Redis::start();
    redis.cli(&["SET", "seal", seal]);
    let connection = redis.connect();
    (redis, connection)
}

#[test]
fn sealed_cells_are_lent_nothing_by_a_store_with_another_seal_and_the_others_are() {
    let both = [
        item(A, 5).room(100).ask(10, 1_000_000),
        item(B, 7).room(100).ask(10, 1_000_000),
    ];
    for (known, granted) in [(SEAL, 10), ("", 0), ("r 0 2", 0)] {
        let (_redis, mut c) = with_seal(SEAL);
        let batch = Call {
            keys: &["h", "seal"],
            sealed: Some((known, 0, &[2])),
            ..window(None, "0.1", &both)
        };
        let answer = lent("0.1", &[15, 7 + granted], &[(0, 10), (0, granted)]);
        assert_eq!(batch.run(&mut c).unwrap(), answer, "{known}");
        // Sent again it is answered the same, whatever has become of the seal.
        set_text(&mut c, "seal", "r 5 9");
        assert_eq!(batch.run(&mut c).unwrap(), answer, "{known}");
    }
}

#[test]
fn a_store_without_a_seal_lends_nothing_of_sealed_cells_and_counts_on() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let one = [item(A, 5).room(100).ask(10, 1_000_000)];
    let batch = Call {
        keys: &["h", "seal"],
        sealed: Some((SEAL, 0, &[1])),
        ..window(None, "0.1", &one)
    };
    assert_eq!(batch.run(&mut c).unwrap(), lent("0.1", &[5], &[(0, 0)]));
    assert_eq!(
        redis.cli(&["DBSIZE"]),
        "1",
        "the seal is made by its own script alone"
    );
}

#[test]
fn nothing_is_lent_of_a_sealed_window_before_its_time() {
    let (_redis, mut c) = with_seal(SEAL);
    let one = [item(A, 0).room(100).ask(10, 1_000_000)];
    let at = |from: u64, new, previous| Call {
        keys: &["h", "seal"],
        sealed: Some((SEAL, from, &[1])),
        ..window(previous, new, &one)
    };
    let now = time(&mut c);
    let early = at(now + 60_000_000, "0.1", None);
    assert_eq!(early.run(&mut c).unwrap(), lent("0.1", &[0], &[(0, 0)]));
    let in_time = at(now, "0.2", Some("0.1"));
    assert_eq!(in_time.run(&mut c).unwrap(), lent("0.2", &[10], &[(0, 10)]));
}

/// Writes a key by hand.
fn set_text(c: &mut Connection, key: &str, text: &str) {
    redis::cmd("SET").arg(key).arg(text).exec(c).unwrap();
}
