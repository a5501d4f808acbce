//! The last slot, when many ask for it at once.

use std::io::{Read as _, Write as _};
use std::sync::Barrier;
use std::thread;

use super::support::{Doors, algorithms, every_algorithm, named, serve};
use crate::kit::Addr;
use crate::kit::resp::Client;

/// How many of `count` checks, sent in one write to the RESP door, are admitted.
fn by_resp(at: &Addr, command: &[&str], count: usize, ready: &Barrier) -> usize {
    let mut client = Client::connect(at);
    let commands = vec![command.to_vec(); count];
    ready.wait();
    let replies = client.pipeline(&commands);
    replies.iter().filter(|reply| reply.ints()[0] == 0).count()
}

/// How many of `count` checks, sent in one write to the HTTP door, are admitted.
fn by_http(at: &Addr, body: &str, count: usize, ready: &Barrier) -> usize {
    let mut stream = at.connect().unwrap();
    let length = body.len();
    let request = |connection: &str| {
        format!(
            "POST /v1/check HTTP/1.1\r\nHost: x\r\nConnection: {connection}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
    };
    let mut wire = request("keep-alive").repeat(count - 1);
    wire += &request("close");
    ready.wait();
    stream.write_all(wire.as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said.matches("HTTP/1.1 ").count(), count);
    let admitted = said.matches("HTTP/1.1 200 ").count();
    assert_eq!(admitted + said.matches("HTTP/1.1 429 ").count(), count);
    admitted
}

/// 500 checks over eight connections, two to each address of both doors.
fn flood(doors: &Doors, body: &str, command: &[&str]) -> usize {
    let ready = Barrier::new(8);
    let counts = [62, 63, 62, 63, 62, 63, 62, 63];
    assert_eq!(counts.iter().sum::<usize>(), 500);
    thread::scope(|scope| {
        let asking: Vec<_> = (0..8)
            .map(|nth| {
                let (ready, count, kind) = (&ready, counts[nth], nth / 2 % 2);
                scope.spawn(move || {
                    if nth < 4 {
                        by_http(&doors.http[kind], body, count, ready)
                    } else {
                        by_resp(&doors.resp[kind], command, count, ready)
                    }
                })
            })
            .collect();
        asking.into_iter().map(|one| one.join().unwrap()).sum()
    })
}

#[test]
fn five_hundred_at_once_are_admitted_to_the_last_slot_and_no_further() {
    let doors = serve(&every_algorithm("{requests: 50, window: 1m}"));
    for rule in algorithms() {
        for key in ["a", "b", "c", "d"] {
            let admitted = flood(&doors, &named(rule, key, 1), &["TG.CHECK", rule, key]);
            assert_eq!(admitted, 50, "{rule}");
        }
    }
}

#[test]
fn with_a_quota_of_their_own_too() {
    let doors = serve("rules: []");
    let ready = Barrier::new(8);
    let command = ["CL.THROTTLE", "k", "49", "50", "60"];
    let admitted: usize = thread::scope(|scope| {
        let asking: Vec<_> = (0..8)
            .map(|nth| {
                let (at, ready) = (&doors.resp[nth % 2], &ready);
                scope.spawn(move || by_resp(at, &command, 63, ready))
            })
            .collect();
        asking.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(admitted, 50);
}

#[test]
fn of_two_at_once_one_gets_the_only_slot() {
    let doors = serve(&every_algorithm("{requests: 1, window: 1h}"));
    for rule in algorithms() {
        for key in (0..20).map(|nth| nth.to_string()) {
            let (ready, body) = (Barrier::new(2), named(rule, &key, 1));
            let admitted = thread::scope(|scope| {
                let other = scope.spawn(|| by_http(&doors.http[0], &body, 1, &ready));
                let command = ["TG.CHECK", rule, &key];
                by_resp(&doors.resp[0], &command, 1, &ready) + other.join().unwrap()
            });
            assert_eq!(admitted, 1, "{rule}");
        }
    }
}
