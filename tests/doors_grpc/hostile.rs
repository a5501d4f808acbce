//! Clients that mean no good. Whatever they send, memory stays bounded and others are answered.

use std::io::{Read as _, Write};

use crate::client::{Client, Gate, request, somebody, told};
use crate::kit::Addr;
use crate::kit::frames::{
    CONTINUATION, DATA, END_HEADERS, HEADERS, RST_STREAM, SETTINGS, connect, fields, frame, goaway,
    read,
};
use tidegate::protocol::grpc::messages::envoy::service::ratelimit::v3::rate_limit_response::Code;

const RULES: &str = "
domain: shop
descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 10}}]
";
/// More than any of it may cost.
const MIB: u64 = 1_024 * 1_024;

/// The memory of a process, in bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1_024
}

/// Runs `attack` on a door, which then still answers and has not grown.
fn survive(attack: impl FnOnce(&Gate)) -> Gate {
    let gate = Gate::start(RULES, &[]);
    let ask = || {
        let client = Client::of(&gate.socket);
        told(&client.ask(request(&[somebody()])).unwrap())
    };
    assert_eq!(ask(), (Code::Ok, vec![(Code::Ok, 9)]));
    let before = resident(gate.daemon.pid());
    attack(&gate);
    assert_eq!(ask(), (Code::Ok, vec![(Code::Ok, 9)]));
    let after = resident(gate.daemon.pid());
    assert!(after < before + 48 * MIB, "{before} bytes became {after}");
    gate
}

#[test]
fn a_flood_of_calls_that_are_taken_back_at_once_ends_the_connection() {
    survive(|gate| {
        let mut stream = connect(&gate.socket);
        let fields = fields();
        let (mut sent, mut flood) = (0_u32, Vec::new());
        for number in 0..100_000_u32 {
            let id = 2 * number + 1;
            flood.extend(frame(HEADERS, END_HEADERS, id, &fields));
            flood.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
            if flood.len() > 64 * 1_024 {
                if stream.write_all(&flood).is_err() {
                    break;
                }
                sent = number;
                flood.clear();
            }
        }
        // ENHANCE_YOUR_CALM, unless the door was as fast as the flood or reset the socket.
        let ended = goaway(&mut stream);
        assert!(
            matches!(ended, Some(11) | None),
            "{ended:?} after {sent} calls"
        );
    });
}

#[test]
fn fields_without_an_end_are_not_gathered() {
    survive(|gate| {
        let mut stream = connect(&gate.socket);
        stream.write_all(&frame(HEADERS, 0, 1, &fields())).unwrap();
        // Literals that never end: 0 is a literal with a new name, here of 1 byte, of no value.
        let piece = frame(CONTINUATION, 0, 1, &[0, 1, b'x', 0].repeat(4_000));
        let most = 64 * MIB / piece.len() as u64;
        let cut = (0..most).any(|_| stream.write_all(&piece).is_err());
        assert!(cut, "{most} pieces were taken");
    });
}

#[test]
fn fields_that_are_too_long_are_refused_and_the_connection_lives() {
    survive(|gate| {
        let mut stream = connect(&gate.socket);
        let mut long = fields();
        // A field of 15,000 bytes, twice: 7 bits of its length are in the first byte.
        for _ in 0..2 {
            let length: usize = 15_000;
            long.extend([0, 1, b'x', 0x7f]);
            let mut rest = length - 127;
            while rest >= 128 {
                long.push(u8::try_from(rest % 128 + 128).unwrap());
                rest /= 128;
            }
            long.push(u8::try_from(rest).unwrap());
            long.extend(vec![b'y'; length]);
        }
        let (first, second) = long.split_at(16_000);
        stream.write_all(&frame(HEADERS, 0, 1, first)).unwrap();
        stream
            .write_all(&frame(CONTINUATION, END_HEADERS, 1, second))
            .unwrap();
        let answered = loop {
            let frame = read(&mut stream).unwrap();
            if frame.stream == 1 {
                break frame.kind;
            }
        };
        assert!(matches!(answered, HEADERS | RST_STREAM), "{answered}");
    });
}

#[test]
fn a_frame_that_is_too_long_ends_the_connection() {
    survive(|gate| {
        let mut stream = connect(&gate.socket);
        stream
            .write_all(&frame(HEADERS, END_HEADERS, 1, &fields()))
            .unwrap();
        stream.write_all(&frame(DATA, 0, 1, &[0; 17_000])).unwrap();
        // FRAME_SIZE_ERROR
        assert_eq!(goaway(&mut stream), Some(6));
    });
}

#[test]
fn what_is_no_http2_is_hung_up_on_and_counted() {
    let gate = survive(|gate| {
        for words in [
            "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n",
            "\0\u{1}\u{2}garbage",
        ] {
            let mut stream = Addr::from(gate.socket.as_path()).connect().unwrap();
            stream.write_all(words.repeat(3).as_bytes()).unwrap();
            let mut answer = Vec::new();
            // It may be a reset, for not all was read.
            let _ = stream.read_to_end(&mut answer);
            assert_eq!(answer, b"");
        }
        let mut stream = connect(&gate.socket);
        // An odd length: no settings. PROTOCOL_ERROR or FRAME_SIZE_ERROR.
        stream.write_all(&frame(SETTINGS, 0, 0, &[1])).unwrap();
        assert!(matches!(goaway(&mut stream), Some(1 | 6)));
    });
    let labels = [("door", "grpc"), ("reason", "framing")];
    assert_eq!(
        gate.daemon.metric("tidegate_bad_requests_total", &labels),
        3.0
    );
}
