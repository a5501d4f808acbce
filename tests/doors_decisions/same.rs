//! One decision: whichever way a check comes in, the answer is the same.

use std::collections::BTreeSet;

use serde_json::json;
use tidegate::units::Nanos;

use super::random::Random;
use super::support::{Doors, algorithms, every_algorithm, headers, serve};
use crate::kit::http::Reply;
use crate::kit::resp::Client;

/// What any door tells of a decision: with waits in milliseconds, −1 for none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    allowed: bool,
    limit: i64,
    remaining: i64,
    wait: i64,
    reset: i64,
}

/// What an HTTP reply tells, if its status, headers and body agree.
fn by_http(doors: &Doors, reply: &Reply) -> Told {
    let body = reply.json();
    let figure = |name: &str| body.get(name).and_then(|it| it.as_i64()).unwrap_or(-1);
    let told = Told {
        allowed: body["allowed"].as_bool().unwrap(),
        limit: figure("limit"),
        remaining: figure("remaining"),
        wait: figure("retry_after_ms").max(figure("delay_ms")),
        reset: figure("reset_after_ms"),
    };
    assert_eq!(reply.status, if told.allowed { 200 } else { 429 });
    let [limit, remaining, reset] = headers(reply).unwrap();
    assert_eq!(
        (limit.cast_signed(), remaining.cast_signed()),
        (told.limit, told.remaining)
    );
    // One moment, which the body rounds up to a millisecond and the header to a second.
    let latest = doors.clock.now().as_nanos() + told.reset.cast_unsigned() * 1_000_000;
    let seconds = |nanos: u64| nanos.div_ceil(1_000_000_000);
    assert!(
        (seconds(latest - 999_999)..=seconds(latest)).contains(&reset),
        "{reset} s for {latest} ns"
    );
    let seconds = figure("retry_after_ms");
    let seconds = (seconds >= 0).then(|| ((seconds + 999) / 1_000).max(1).to_string());
    assert_eq!(reply.header("retry-after"), seconds.as_deref());
    told
}

fn by_resp(client: &mut Client, rule: &str, cost: u64) -> Told {
    by_command(
        client,
        &["TG.CHECK", rule, "alice", &cost.to_string(), "pro"],
    )
}

fn by_command(client: &mut Client, command: &[&str]) -> Told {
    let said = client.command(command);
    let [limited, limit, remaining, wait, reset] = said.ints()[..] else {
        panic!("{said:?}");
    };
    Told {
        allowed: limited == 0,
        limit,
        remaining,
        wait,
        reset,
    }
}

#[test]
fn the_same_checks_are_told_the_same_by_every_door_at_every_step() {
    let mut random = Random::seeded("doors");
    let seed = random.seed();
    let rules = every_algorithm("{requests: 10, window: 10s}")
        + "- {name: stacked, endpoint: /stacked, key: attribute:user, algorithm: token_bucket, limits: {\
             free: {requests: 1, window: 1m}, pro: [{requests: 10, window: 10s}, {requests: 40, window: 1m}]}}\n";
    let doors = [(); 4].map(|()| serve(&rules));
    let mut client = doors[2].client();
    let mut matching = doors[3].client();
    for rule in algorithms().chain(["stacked"]) {
        let mut seen = BTreeSet::new();
        for step in 0..150 {
            let cost = random.one_of(&[0, 1, 1, 1, 2, 3, 7, 10, 11]);
            let nanos = random.one_of(&[
                0,
                0,
                0,
                1,
                999_999,
                1_000_000,
                137_000_000,
                1_000_000_001,
                2_500_000_000,
                10_000_000_000,
                21_000_000_000,
            ]);
            for doors in &doors {
                doors.clock.advance(Nanos::new(nanos));
            }
            let named = json!({"rule": rule, "key": "alice", "tier": "pro", "cost": cost});
            let described = json!({
                "request": {"method": "POST", "path": format!("/{rule}?step={step}"), "ip": "203.0.113.9"},
                "attributes": {"user": "alice", "tier": "pro"}, "cost": cost,
            });
            let named = by_http(&doors[0], &doors[0].ask(&named.to_string()));
            let described = by_http(&doors[1], &doors[1].ask(&described.to_string()));
            let by_resp = by_resp(&mut client, rule, cost);
            let (path, stated) = (format!("//{rule}/?{step}"), cost.to_string());
            let command = [
                "TG.MATCH",
                "post",
                &path,
                "ATTR",
                "Tier",
                "pro",
                "IP",
                "203.0.113.9",
                "COST",
                &stated,
                "ATTR",
                "user",
                "alice",
            ];
            let by_match = by_command(&mut matching, &command);
            let place = format!("{rule}, step {step}, cost {cost}, seed {seed}");
            assert_eq!(named, described, "{place}");
            assert_eq!(named, by_resp, "{place}");
            assert_eq!(named, by_match, "{place}");
            assert!(
                (0..=named.limit).contains(&named.remaining),
                "{place}: {named:?}"
            );
            seen.insert((named.allowed, named.wait >= 0));
        }
        // Admitted, refused for now, and refused for good.
        for kind in [(true, false), (false, true), (false, false)] {
            assert!(seen.contains(&kind), "{rule}: never {kind:?}, seed {seed}");
        }
    }
}
