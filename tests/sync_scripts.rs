//! The sync's scripts on a real Redis, one call at a time.

// Tests assert by panicking, and their helpers are not in test functions.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use kit::Redis;
use redis::{Connection, RedisError, Value};

const WINDOW: &str = include_str!("../lua/sync_window.lua");
const BUCKET: &str = include_str!("../lua/sync_bucket.lua");
const HELLO: &str = include_str!("../lua/sync_hello.lua");
const LANE: &str = "lane:0000000000000001:0";
const A: &[u8; 16] = b"aaaaaaaaaaaaaaa\0";
const B: &[u8; 16] = b"bbbbbbbbbbbbbb\r\n";
const SECOND: i64 = 1_000_000_000;

/// What a script answers: the stored token, and the totals.
#[derive(Debug, PartialEq)]
struct Told(Option<String>, Vec<i64>);

struct Call<'a> {
    keys: &'a [&'a str],
    lane: &'a str,
    previous: Option<&'a str>,
    new: &'a str,
    deltas: &'a [(&'a [u8], i64)],
    /// For buckets: the length of a slice in microseconds.
    slice: Option<u64>,
}

impl Call<'_> {
    fn run(&self, connection: &mut Connection) -> Result<Told, RedisError> {
        let mut packed = Vec::new();
        let header = 4 + usize::from(self.slice.is_some());
        let length = u32::try_from(header + self.deltas.len()).unwrap();
        rmp::encode::write_array_len(&mut packed, length).unwrap();
        rmp::encode::write_str(&mut packed, self.previous.unwrap_or("")).unwrap();
        rmp::encode::write_str(&mut packed, self.new).unwrap();
        rmp::encode::write_uint(&mut packed, 60_000).unwrap();
        rmp::encode::write_uint(&mut packed, u64::from(self.previous.is_none())).unwrap();
        if let Some(slice) = self.slice {
            rmp::encode::write_uint(&mut packed, slice).unwrap();
        }
        let script = if self.slice.is_some() { BUCKET } else { WINDOW };
        let mut command = redis::cmd("EVAL");
        command
            .arg(script)
            .arg(self.keys.len())
            .arg(self.keys)
            .arg(self.lane);
        for (field, delta) in self.deltas {
            command.arg(*field);
            rmp::encode::write_sint(&mut packed, *delta).unwrap();
        }
        let items: Vec<Value> = command.arg(packed).query(connection)?;
        let token = match &items[0] {
            Value::BulkString(text) => Some(String::from_utf8(text.clone()).unwrap()),
            _ => None,
        };
        let number = |value: &Value| match value {
            Value::Int(number) => *number,
            other => panic!("{other:?}"),
        };
        Ok(Told(token, items[3..].iter().map(number).collect()))
    }
}

fn window<'a>(previous: Option<&'a str>, new: &'a str, deltas: &'a [(&'a [u8], i64)]) -> Call<'a> {
    Call {
        keys: &["h"],
        lane: LANE,
        previous,
        new,
        deltas,
        slice: None,
    }
}

fn bucket<'a>(previous: Option<&'a str>, new: &'a str, deltas: &'a [(&'a [u8], i64)]) -> Call<'a> {
    let keys = &["now", "before", "after"];
    Call {
        keys,
        lane: LANE,
        previous,
        new,
        deltas,
        slice: Some(64_000_000),
    }
}

fn told(token: &str, totals: &[i64]) -> Told {
    Told(Some(token.to_owned()), totals.to_vec())
}

#[test]
fn a_batch_is_applied_once_however_often_it_comes() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let first = window(None, "0.1", &[(A, 5), (B, 7)]);
    let second = window(Some("0.1"), "0.2", &[(A, 1)]);
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
    assert_eq!(
        window(Some("0.1"), "0.2", &[(A, 1)]).run(&mut c).unwrap(),
        Told(None, vec![0])
    );
    assert_eq!(redis.cli(&["DBSIZE"]), "0");
}

#[test]
fn lanes_of_two_nodes_add_up_in_one_hash() {
    let redis = Redis::start();
    let mut c = redis.connect();
    window(None, "0.1", &[(A, 5)]).run(&mut c).unwrap();
    let other = Call {
        lane: "lane:0000000000000002:0",
        ..window(None, "0.1", &[(A, 3)])
    };
    assert_eq!(other.run(&mut c).unwrap(), told("0.1", &[8]));
    assert_eq!(
        window(Some("0.1"), "0.2", &[(A, -2)]).run(&mut c).unwrap(),
        told("0.2", &[6])
    );
}

#[test]
fn a_question_alone_makes_no_field_and_every_hash_has_a_time_to_live() {
    let redis = Redis::start();
    let mut c = redis.connect();
    assert_eq!(
        window(None, "0.1", &[(A, 0)]).run(&mut c).unwrap(),
        told("0.1", &[0])
    );
    assert_eq!(redis.cli(&["HLEN", "h"]), "1", "the lane alone");
    let left: i64 = redis.cli(&["PTTL", "h"]).parse().unwrap();
    assert!((1..=60_000).contains(&left), "{left}");
}

#[test]
fn counts_stop_where_they_would_no_longer_be_exact() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let most = 1 << 53;
    window(None, "0.1", &[(A, most - 1)]).run(&mut c).unwrap();
    assert_eq!(
        window(Some("0.1"), "0.2", &[(A, 7)]).run(&mut c).unwrap(),
        told("0.2", &[most])
    );
    assert_eq!(
        window(Some("0.2"), "0.3", &[(A, i64::MAX)])
            .run(&mut c)
            .unwrap()
            .1,
        [most]
    );
}

#[test]
fn a_key_that_holds_something_else_is_an_error_and_stays() {
    let redis = Redis::start();
    let mut c = redis.connect();
    redis.cli(&["RPUSH", "h", "x"]);
    let error = window(None, "0.1", &[(A, 1)]).run(&mut c).unwrap_err();
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    assert_eq!(redis.cli(&["LRANGE", "h", "0", "-1"]), "x");
}

#[test]
fn a_debt_is_added_once_and_drains_with_the_stores_clock() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let first = bucket(None, "0.1", &[(A, 30 * SECOND)]);
    assert_eq!(first.run(&mut c).unwrap(), told("0.1", &[30 * SECOND]));
    let Told(token, totals) = first.run(&mut c).unwrap();
    assert_eq!(token.as_deref(), Some("0.1"));
    assert!(
        (20 * SECOND..30 * SECOND).contains(&totals[0]),
        "{totals:?}"
    );
    let Told(_, later) = bucket(Some("0.1"), "0.2", &[(A, SECOND)])
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
    bucket(None, "0.1", &[(A, 30 * SECOND), (B, 20 * SECOND)])
        .run(&mut c)
        .unwrap();
    let turned = ["after", "now", "later"];
    let next = Call {
        keys: &turned,
        ..bucket(None, "0.1", &[(A, SECOND)])
    };
    let Told(_, debt) = next.run(&mut c).unwrap();
    assert!((29 * SECOND..=31 * SECOND).contains(&debt[0]), "{debt:?}");
    // A late batch of the slice before reaches the cell in its new place.
    bucket(Some("0.1"), "0.2", &[(A, 5 * SECOND), (B, SECOND)])
        .run(&mut c)
        .unwrap();
    let ask = Call {
        keys: &turned,
        ..bucket(Some("0.1"), "0.2", &[(A, 0), (B, 0)])
    };
    let Told(_, debts) = ask.run(&mut c).unwrap();
    assert!((33 * SECOND..=36 * SECOND).contains(&debts[0]), "{debts:?}");
    assert!((19 * SECOND..=21 * SECOND).contains(&debts[1]), "{debts:?}");
}

#[test]
fn a_record_from_far_ahead_starts_afresh() {
    let redis = Redis::start();
    let mut c = redis.connect();
    let make = "return redis.call('HSET', 'now', ARGV[1], struct.pack('>dd', 5e9, 4e15))";
    redis::cmd("EVAL")
        .arg(make)
        .arg(0)
        .arg(A)
        .query::<i64>(&mut c)
        .unwrap();
    assert_eq!(
        bucket(None, "0.1", &[(A, SECOND)]).run(&mut c).unwrap(),
        told("0.1", &[SECOND])
    );
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
