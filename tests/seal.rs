//! The seal of the store's memory, on a real Redis: who is told what, after which loss.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use kit::Redis;
use redis::Value;
use tidegate::sync::Failure;
use tidegate::sync::seal::{self, Seal, Told};

const KEY: &str = "f:{fleet}:seal";

/// Asks as a node that was told `told`, and is told the answer.
fn ask(redis: &Redis, told: &Told) -> Seal {
    let value: Value = seal::ask("f", told).query(&mut redis.connect()).unwrap();
    let seal = seal::read(&value).unwrap();
    assert_eq!(seal.text(), redis.cli(&["GET", KEY]));
    told.note(&seal);
    seal
}

/// Run, since and number.
fn words(seal: &Seal) -> (String, u64, u64) {
    let words: Vec<&str> = seal.text().split(' ').collect();
    (
        words[0].into(),
        words[1].parse().unwrap(),
        words[2].parse().unwrap(),
    )
}

fn run_id(redis: &Redis) -> String {
    let info = redis.cli(&["INFO", "server"]);
    let line = info.lines().find_map(|line| line.strip_prefix("run_id:"));
    line.unwrap().trim().to_owned()
}

/// In microseconds.
fn now(redis: &Redis) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut redis.connect()).unwrap();
    seconds * 1_000_000 + micros
}

#[test]
fn a_store_that_no_node_knows_remembers_all_there_ever_was() {
    let redis = Redis::start();
    let (one, other) = (Told::default(), Told::default());
    let seal = ask(&redis, &one);
    assert_eq!(words(&seal), (run_id(&redis), 0, one.number()));
    assert_eq!(ask(&redis, &one), seal);
    assert_eq!(ask(&redis, &other), seal);
    assert_eq!(redis.cli(&["TTL", KEY]), "-1");
}

#[test]
fn a_store_that_was_emptied_remembers_from_then_on() {
    let redis = Redis::start();
    let (one, other) = (Told::default(), Told::default());
    ask(&redis, &one);
    let first = words(&ask(&redis, &other)).2;
    let before = now(&redis);
    redis.cli(&["FLUSHALL"]);
    let seal = ask(&redis, &one);
    let (run, since, number) = words(&seal);
    assert_eq!(run, run_id(&redis));
    assert!((before..=now(&redis)).contains(&since), "{since}");
    assert!(number > first);
    // The others take it as it stands.
    assert_eq!(ask(&redis, &other), seal);
    assert_eq!(ask(&redis, &Told::default()), seal);
}

#[test]
fn a_node_that_knows_better_corrects_one_that_took_an_emptied_store_for_new() {
    let redis = Redis::start();
    let old = Told::default();
    ask(&redis, &old);
    redis.cli(&["FLUSHALL"]);
    let before = now(&redis);
    let starting = Told::default();
    assert_eq!(words(&ask(&redis, &starting)).1, 0);
    let seal = ask(&redis, &old);
    assert!(words(&seal).1 >= before);
    assert_eq!(ask(&redis, &starting), seal);
}

#[test]
fn a_store_that_started_again_is_not_trusted_with_what_it_kept() {
    let mut redis = Redis::start_with(&[("appendonly", "yes")]);
    let told = Told::default();
    let first = ask(&redis, &told);
    let before = now(&redis);
    redis.restart();
    assert_eq!(redis.cli(&["GET", KEY]), first.text());
    // Not even by a node that has never seen it.
    let (run, since, number) = words(&ask(&redis, &Told::default()));
    assert_eq!(run, run_id(&redis));
    assert!(since >= before);
    assert!(number > words(&first).2);
}

#[test]
fn a_replica_that_takes_over_remembers_from_then_on() {
    let (one, other) = (Redis::start(), Redis::start());
    let told = Told::default();
    let first = ask(&one, &told);
    other.follow(&one);
    // A replica is not written to, and so tells no seal.
    let refused = seal::ask("f", &told).query::<Value>(&mut other.connect());
    let error = refused.unwrap_err();
    let failure = Failure::from_error_line(error.code().unwrap(), error.detail().unwrap());
    assert_eq!(failure, Failure::ReadOnly);
    let before = now(&other);
    other.promote();
    let (run, since, number) = words(&ask(&other, &told));
    assert_eq!(run, run_id(&other));
    assert!(since >= before);
    // The one that was left behind is not taken up where it was, although it is the same
    // run and has its seal.
    assert_eq!(one.cli(&["GET", KEY]), first.text());
    let back = words(&ask(&one, &told));
    assert_eq!(back.0, words(&first).0);
    assert!(back.1 >= since);
    assert!(back.2 > number);
}

#[test]
fn numbers_grow_even_if_the_clock_of_the_store_does_not() {
    let redis = Redis::start();
    let ahead = u64::MAX >> 12;
    redis.cli(&["SET", KEY, &format!("elsewhere 7 {ahead}")]);
    assert_eq!(words(&ask(&redis, &Told::default())).2, ahead + 1);
}

#[test]
fn what_is_no_seal_is_replaced_by_one_since_now() {
    let redis = Redis::start();
    let told = Told::default();
    let first = ask(&redis, &told);
    let run = run_id(&redis);
    let huge = "99999999999999999999999999";
    for junk in [
        "junk".into(),
        format!("{run} 0 {huge}"),
        format!("{run} {huge} 9"),
        format!("{run} 0 {}", u64::MAX),
    ] {
        let before = now(&redis);
        redis.cli(&["SET", KEY, &junk]);
        let (run_then, since, number) = words(&ask(&redis, &told));
        assert_eq!(run_then, run);
        assert!((before..=now(&redis)).contains(&since), "{junk}");
        assert!(number > words(&first).2 && number < 1 << 53, "{junk}");
    }
    redis.cli(&["DEL", KEY]);
    redis.cli(&["RPUSH", KEY, "x"]);
    let before = now(&redis);
    assert!(words(&ask(&redis, &Told::default())).1 >= before);
}

#[test]
fn a_seal_since_a_moment_that_is_still_to_come_is_renewed() {
    let redis = Redis::start();
    let told = Told::default();
    let (run, _, number) = words(&ask(&redis, &told));
    // The clock of the store was a day ahead.
    let ahead = now(&redis) + 86_400_000_000;
    redis.cli(&["SET", KEY, &format!("{run} {ahead} {}", number + 1)]);
    let (_, since, renewed) = words(&ask(&redis, &told));
    assert!(since <= now(&redis) && since > 0);
    assert!(renewed > number + 1);
}
