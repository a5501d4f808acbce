//! The gRPC door: a client that sends HTTP/2 frames by hand, so that it costs little more
//! than the ones of the other doors.
#![allow(clippy::cast_possible_truncation, reason = "all is short")]

use std::io::{self, BufReader, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use prost::Message as _;
use tidegate::protocol::grpc::SHOULD_RATE_LIMIT;
use tidegate::protocol::grpc::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use tidegate::protocol::grpc::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use tidegate::protocol::grpc::messages::envoy::service::ratelimit::v3::RateLimitRequest;

use super::{Load, Measured, Place, ROUND, ROUNDS, command, report};

pub(super) const SOCKET: &str = "grpc.sock";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// How many bytes an answer has: the fields, the message and the trailers.
const ANSWER: usize = 130;

/// The row of this door.
pub(super) fn compare(place: &Place<'_>) -> io::Result<()> {
    let socket = place.directory.join(SOCKET);
    let daemon = place.daemon(&socket, true)?;
    // The floor answers as many bytes as the daemon, of which the last is a line's end.
    let load = Load {
        connections: 1,
        depth: 1,
        end: b'\n',
        ends: 1,
        request: "x".repeat(call(1, &fields(), &message()).len()),
    };
    let answer = format!("{}\n", "x".repeat(ANSWER - 1));
    let floor = place.echo("echo-threads", &load, &answer, true)?;
    let mut measured = Measured::default();
    for round in 0..=ROUNDS {
        let below = floor.round(&floor.socket, &load, true)?;
        let mut client = command(std::env::current_exe()?, true);
        client.arg("grpc-client").arg(&socket);
        let above = daemon.asked_by(client)?;
        if round > 0 {
            measured.rounds.push((below, above));
        }
    }
    measured.print_latency(
        "ShouldRateLimit, alone on one core, p50",
        Some(4.5),
        Some(20.0),
    );
    Ok(())
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The fields of a call, as HPACK has them without its tables.
fn fields() -> Vec<u8> {
    let mut fields = vec![0x83, 0x86];
    let mut literal = |name: &[u8], value: &str| {
        fields.extend(name);
        fields.push(value.len() as u8);
        fields.extend(value.as_bytes());
    };
    literal(&[0x04], SHOULD_RATE_LIMIT);
    literal(&[0x01], "tidegate");
    literal(&[0x0f, 0x10], "application/grpc");
    literal(b"\x00\x02te", "trailers");
    literal(b"\x00\x0cgrpc-timeout", "20m");
    fields
}

/// What Envoy asks by the configuration that is shipped, of one descriptor.
fn message() -> Vec<u8> {
    let entry = |key: &str, value: &str| Entry {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let request = RateLimitRequest {
        domain: "shop".to_owned(),
        descriptors: vec![RateLimitDescriptor {
            entries: vec![
                entry("path", "/api/v1/orders"),
                entry("remote_address", "203.0.113.10"),
            ],
            ..RateLimitDescriptor::default()
        }],
        hits_addend: 0,
    };
    let encoded = request.encode_to_vec();
    let mut message = vec![0];
    message.extend((encoded.len() as u32).to_be_bytes());
    message.extend(encoded);
    message
}

fn call(stream: u32, fields: &[u8], message: &[u8]) -> Vec<u8> {
    let mut call = frame(HEADERS, END_HEADERS, stream, fields);
    call.extend(frame(DATA, END_STREAM, stream, message));
    call
}

/// Prints how many calls a second were answered, and their p50 in µs.
pub(super) fn client(socket: &str) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    let mut answers = BufReader::with_capacity(16_384, stream.try_clone()?);
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    // As much as there may be: this client takes everything at once.
    let window = (i32::MAX as u32 - 65_535).to_be_bytes();
    stream.write_all(&frame(WINDOW_UPDATE, 0, 0, &window))?;
    let (fields, message) = (fields(), message());
    let mut spans: Vec<Duration> = Vec::with_capacity(1 << 20);
    let (started, mut last) = (Instant::now(), Instant::now());
    let mut id = 1;
    while last.duration_since(started) < ROUND {
        stream.write_all(&call(id, &fields, &message))?;
        until_answered(&mut answers, id)?;
        id += 2;
        let now = Instant::now();
        spans.push(now.duration_since(last));
        last = now;
    }
    report(spans.len(), &mut spans);
    Ok(())
}

/// Reads to the end of the answer on `stream`, which must be one of a message.
fn until_answered(answers: &mut impl Read, stream: u32) -> io::Result<()> {
    let mut messages = 0;
    loop {
        let mut head = [0; 9];
        answers.read_exact(&mut head)?;
        let [a, b, c, kind, flags, on @ ..] = head;
        let mut payload = [0; 16_384];
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let payload = payload
            .get_mut(..length)
            .ok_or(io::ErrorKind::InvalidData)?;
        answers.read_exact(payload)?;
        messages += usize::from(kind == DATA);
        let ends = flags & END_STREAM != 0 && matches!(kind, DATA | HEADERS);
        if u32::from_be_bytes(on) == stream && ends {
            return match messages {
                0 => Err(io::Error::other("a call was answered without a message")),
                _ => Ok(()),
            };
        }
    }
}
