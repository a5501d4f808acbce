//! The RESP parser and replies against an independent implementation of the protocol,
//! and against arbitrary bytes.

// Tests assert by panicking, and their helpers are not in test functions.
#![allow(clippy::unwrap_used, clippy::panic)]

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use redis_protocol::resp2::decode::decode as decode2;
use redis_protocol::resp2::encode::extend_encode;
use redis_protocol::resp2::types::{BytesFrame, OwnedFrame};
use redis_protocol::resp3::decode::complete::decode as decode3;
use tidegate::engine::{Decision, DescribedLimit, Outcome};
use tidegate::protocol::resp::{After, Ask, MAX_FRAME, Parser, Session};
use tidegate::units::{Answers, Nanos, Series, Timestamp};

type Command = Vec<Vec<u8>>;

/// A command as the other implementation writes it.
fn written(command: &Command) -> Vec<u8> {
    let args = command
        .iter()
        .map(|arg| BytesFrame::BulkString(Bytes::copy_from_slice(arg)));
    let mut out = BytesMut::new();
    extend_encode(&mut out, &BytesFrame::Array(args.collect()), false).unwrap();
    out.to_vec()
}

/// How reading ended: all commands found, what is left, and whether it broke.
type Read = (Vec<Command>, usize, Option<String>);

/// Reads `input`, which arrives in pieces that end at `cuts`.
fn read(input: &[u8], cuts: &[usize]) -> Read {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (input.len() + 1)).collect();
    ends.push(input.len());
    ends.sort_unstable();
    let (mut parser, mut commands, mut start) = (Parser::default(), Vec::new(), 0);
    for end in ends {
        loop {
            let piece = &input[start..end];
            match parser.next(piece) {
                Ok(Some(frame)) => {
                    assert!(frame.size() <= piece.len() && !piece.is_empty());
                    let args = (0..frame.count()).map(|index| frame.arg(index).unwrap().to_vec());
                    commands.push(args.collect());
                    start += frame.size();
                }
                Ok(None) => {
                    assert!(piece.len() <= MAX_FRAME + 64, "it waits for more and more");
                    break;
                }
                Err(error) => return (commands, input.len() - start, Some(error.to_string())),
            }
        }
    }
    (commands, input.len() - start, None)
}

/// Bytes that look like the protocol often enough to get deep into it.
fn nearly_resp() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(b"\r\n".to_vec()),
        Just(b"*3\r\n".to_vec()),
        Just(b"$4\r\n".to_vec()),
        Just(b"$0\r\n\r\n".to_vec()),
        Just(b"PING".to_vec()),
        Just(b"\"'\\x".to_vec()),
        Just(b"-1".to_vec()),
        vec(any::<u8>(), 0..6),
    ];
    vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any::<u64>().prop_map(|delay| Outcome::Allowed {
            delay: Nanos::new(delay)
        }),
        any::<u64>().prop_map(|wait| Outcome::Refused {
            retry_after: Nanos::new(wait)
        }),
        Just(Outcome::Unlimited),
        Just(Outcome::Bypassed),
        Just(Outcome::Impossible),
        Just(Outcome::Banned),
        Just(Outcome::Unavailable),
        Just(Outcome::UnknownRule),
        Just(Outcome::Unidentified),
    ]
}

proptest! {
    #[test]
    fn what_the_other_writes_is_read_however_it_is_cut(
        commands in vec(vec(vec(any::<u8>(), 0..200), 1..12), 1..8),
        cuts in vec(any::<usize>(), 0..12),
    ) {
        let wire: Vec<u8> = commands.iter().flat_map(written).collect();
        prop_assert_eq!(read(&wire, &cuts), (commands, 0, None));
    }

    #[test]
    fn any_bytes_are_read_the_same_however_they_are_cut(
        bytes in prop_oneof![nearly_resp(), vec(any::<u8>(), 0..300)],
        cuts in vec(any::<usize>(), 0..12),
    ) {
        let (commands, left, error) = read(&bytes, &[]);
        let cut = read(&bytes, &cuts);
        prop_assert_eq!(&cut.0, &commands);
        prop_assert_eq!(cut.2.is_some(), error.is_some());
        if error.is_none() {
            prop_assert_eq!(cut.1, left);
        }
    }

    #[test]
    fn every_decision_is_five_integers_or_one_error(
        outcome in outcome(),
        limit in any::<Option<(u64, u64, u64)>>(),
        throttle in any::<bool>(),
    ) {
        let decision = Decision {
            outcome,
            limit: limit.map(|(limit, remaining, reset)| DescribedLimit {
                rule: "r",
                name: "n",
                series: Series(0),
                limit,
                remaining,
                reset_after: Nanos::new(reset),
                amount: limit,
period: Nanos::from_secs(1),
 answers: Answers::of_no_rule(),
            }),
            stale: None,
            now: Timestamp::EPOCH,
            besides: None,
        };
        let asked = if throttle { "CL.THROTTLE k 1 1 1\r\n" } else { "TG.CHECK r k\r\n" };
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        let frame = parser.next(asked.as_bytes()).unwrap().unwrap();
        let ask = Ask::decode(&frame, &mut out).unwrap().unwrap();
        ask.write(&mut out, &decision);
        let (reply, len) = decode2(&out).unwrap().unwrap();
        prop_assert_eq!(len, out.len());
        match reply {
            OwnedFrame::Array(figures) => {
                prop_assert_eq!(figures.len(), 5);
                for (index, figure) in figures.iter().enumerate() {
                    match figure {
                        OwnedFrame::Integer(figure) => prop_assert!(*figure >= -1),
                        other => prop_assert!(false, "{index}: {other:?}"),
                    }
                }
                let limited = i64::from(!outcome.is_allowed());
                prop_assert_eq!(&figures[0], &OwnedFrame::Integer(limited));
            }
            OwnedFrame::Error(_) => prop_assert!(matches!(
                outcome,
                Outcome::Unavailable | Outcome::UnknownRule | Outcome::Unidentified
            )),
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn every_command_gets_one_whole_reply(
        name in prop_oneof![
            Just("PING"), Just("echo"), Just("HELLO"), Just("CLIENT"), Just("INFO"),
            Just("COMMAND"), Just("CONFIG"), Just("AUTH"), Just("SELECT"), Just("QUIT"),
            Just("RESET"), Just("GET"), Just("CL.THROTTLE"), Just("TG.CHECK"),
            Just("TG.MATCH"),
        ],
        first in prop_oneof![
            Just(None),
            prop_oneof![
                Just("2"), Just("3"), Just("SETNAME"), Just("GETNAME"), Just("LIST"), Just("GET"),
                Just("DOCS"), Just("COUNT"), Just("0"),
            ].prop_map(|word| Some(word.as_bytes().to_vec())),
        ],
        rest in vec(vec(any::<u8>(), 0..20), 0..5),
        third in any::<bool>(),
    ) {
        let mut session = Session::new(1);
        let mut command = vec![name.as_bytes().to_vec()];
        command.extend(first);
        command.extend(rest);
        let mut greeting = Vec::new();
        if third {
            let mut parser = Parser::default();
            let frame = parser.next(b"HELLO 3\r\n").unwrap().unwrap();
            session.answer(&frame, &mut greeting);
        }
        let wire = written(&command);
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        let frame = parser.next(&wire).unwrap().unwrap();
        match Ask::decode(&frame, &mut out) {
            // The engine's to answer.
            Ok(Some(_)) => return Ok(()),
            Ok(None) => {
                session.answer(&frame, &mut out);
            }
            Err(after) => prop_assert_eq!(after, After::Malformed),
        }
        // The null of version 2 is no reply of version 3, and the map of version 3 none of 2;
        // `HELLO` may have changed the version, and answers in the new one.
        let whole2 = || decode2(&out).ok().flatten().map(|(_, len)| len);
        let whole3 = || decode3(&out).ok().flatten().map(|(_, len)| len);
        let len = match (name, third) {
            ("HELLO", _) => whole3().or_else(whole2),
            (_, true) => whole3(),
            (_, false) => whole2(),
        };
        prop_assert_eq!(len, Some(out.len()), "{}", out.escape_ascii());
    }
}
