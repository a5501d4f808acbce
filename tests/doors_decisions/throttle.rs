//! `CL.THROTTLE` field for field: limited, limit, remaining, retry after, reset after.

use super::support::{Doors, error, serve};
use crate::kit::resp::Client;

/// The figures that answer a command of words.
fn figures(client: &mut Client, command: &str) -> Vec<i64> {
    let words: Vec<&str> = command.split(' ').collect();
    client.command(&words).ints()
}

/// A server without rules, and a connection to each kind of its addresses.
fn both() -> impl Iterator<Item = (Doors, Client)> {
    (0..2).map(|kind| {
        let doors = serve("rules: []");
        let client = Client::connect(&doors.resp[kind]);
        (doors, client)
    })
}

#[test]
fn a_frozen_clock_gives_the_table_of_redis_cell() {
    for (doors, mut client) in both() {
        let mut hit = || figures(&mut client, "CL.THROTTLE u 15 30 60 1");
        for nth in 1..=16 {
            assert_eq!(hit(), [0, 16, 16 - nth, -1, 2 * nth], "hit {nth}");
        }
        assert_eq!(hit(), [1, 16, 0, 2, 32]);
        // What was refused changed nothing.
        assert_eq!(hit(), [1, 16, 0, 2, 32]);
        let peek =
            |client: &mut Client, key| figures(client, &format!("CL.THROTTLE {key} 15 30 60 0"));
        assert_eq!(peek(&mut client, "fresh"), [0, 16, 16, -1, 0]);
        assert_eq!(peek(&mut client, "u"), [0, 16, 0, -1, 32]);

        doors.wait(1_999);
        let mut hit = || figures(&mut client, "CL.THROTTLE u 15 30 60 1");
        assert_eq!(hit(), [1, 16, 0, 1, 31]);
        doors.wait(1);
        assert_eq!(hit(), [0, 16, 0, -1, 32]);
        assert_eq!(hit(), [1, 16, 0, 2, 32]);
        doors.wait(40_000);
        assert_eq!(peek(&mut client, "u"), [0, 16, 16, -1, 0]);
    }
}

#[test]
fn waits_are_rounded_up_while_the_clock_runs() {
    let doors = serve("rules: []");
    let mut client = doors.client();
    let mut hit = || figures(&mut client, "CL.THROTTLE u 0 30 60");
    assert_eq!(hit(), [0, 1, 0, -1, 2]);
    for (waited, left) in [(1, 2), (998, 2), (1, 1), (999, 1)] {
        doors.wait(waited);
        assert_eq!(hit(), [1, 1, 0, left, left], "after {waited} ms more");
    }
    doors.wait(1);
    assert_eq!(hit(), [0, 1, 0, -1, 2]);
}

#[test]
fn remaining_is_never_above_the_limit() {
    for (_doors, mut client) in both() {
        for remaining in [1_000, 999, 998] {
            let said = figures(&mut client, "CL.THROTTLE k 1000 1000 60");
            assert_eq!(said[..3], [0, 1_001, remaining]);
        }
    }
}

#[test]
fn a_cost_above_the_capacity_is_limited_with_nothing_to_wait_for() {
    for (_doors, mut client) in both() {
        let mut ask = |cost: &str| figures(&mut client, &format!("CL.THROTTLE k 9 10 1 {cost}"));
        assert_eq!(ask("11"), [1, 10, 10, -1, 0]);
        assert_eq!(ask("9223372036854775807"), [1, 10, 10, -1, 0]);
        assert_eq!(ask("0"), [0, 10, 10, -1, 0]);
        assert_eq!(ask("1"), [0, 10, 9, -1, 1]);
        // The whole capacity from a bucket in use is a wait like any other.
        assert_eq!(ask("10"), [1, 10, 9, 1, 1]);
    }
}

#[test]
fn what_is_no_quantity_is_an_error_and_changes_nothing() {
    for (_doors, mut client) in both() {
        for quantity in ["-1", "1.5", "abc", "", "+1", "18446744073709551616"] {
            let said = client.command(&["CL.THROTTLE", "k", "9", "10", "60", quantity]);
            let text = error(&said).unwrap_or_else(|| panic!("{quantity}: {said:?}"));
            assert!(text.starts_with("ERR "), "{quantity}: {text}");
        }
        for quota in ["9 10 0", "9 0 60", "-1 10 60", "9 10 999999999999"] {
            let command = format!("CL.THROTTLE k {quota}");
            let words: Vec<&str> = command.split(' ').collect();
            let said = client.command(&words);
            assert!(error(&said).is_some(), "{quota}: {said:?}");
        }
        let said = figures(&mut client, "CL.THROTTLE k 9 10 60 0");
        assert_eq!(said, [0, 10, 10, -1, 0]);
    }
}

#[test]
fn the_state_belongs_to_the_key_and_the_quota_may_change_from_call_to_call() {
    let doors = serve("rules: []");
    let mut client = doors.client();
    let mut ask = |words: &str| figures(&mut client, &format!("CL.THROTTLE k {words}"));
    // Half of the bucket: 30 s of debt, at 6 s a hit.
    assert_eq!(ask("9 10 60 5"), [0, 10, 5, -1, 30]);
    // Twice as many a minute: the same 30 s and 3 s more, of a capacity of 60 s.
    assert_eq!(ask("19 20 60 1"), [0, 20, 9, -1, 33]);
    // Half the burst at 6 s a hit: 33 s are more than its 30 s.
    assert_eq!(ask("4 10 60 1"), [1, 5, 0, 9, 33]);
    assert_eq!(ask("19 20 60 0"), [0, 20, 9, -1, 33]);
    doors.wait(9_000);
    assert_eq!(ask("4 10 60 1"), [0, 5, 0, -1, 30]);
    // Another key has seen nothing of it.
    let other = figures(&mut client, "CL.THROTTLE other 4 10 60 0");
    assert_eq!(other, [0, 5, 5, -1, 0]);
}
