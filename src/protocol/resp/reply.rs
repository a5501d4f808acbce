//! Writing replies. RESP3 differs from RESP2 in maps and in null only.

use std::fmt;
use std::io::Write as _;

/// The two versions of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Resp2,
    Resp3,
}

pub(super) fn integer(out: &mut Vec<u8>, value: i64) {
    let mut reply = Backwards::new();
    reply.integer(value);
    out.extend_from_slice(reply.written());
}

/// An array of a few whole numbers.
pub(super) fn integers<const N: usize>(out: &mut Vec<u8>, values: [i64; N]) {
    const {
        assert!((N + 1) * LINE <= ROOM, "so many may not fit");
    }
    let mut reply = Backwards::new();
    for value in values.into_iter().rev() {
        reply.integer(value);
    }
    reply.line(b'*', N as u64);
    out.extend_from_slice(reply.written());
}

pub(super) fn array(out: &mut Vec<u8>, items: usize) {
    prefixed(out, b'*', items);
}

/// The head of a map of `pairs`: in RESP2, an array of twice as many.
pub(super) fn map(out: &mut Vec<u8>, version: Version, pairs: usize) {
    match version {
        Version::Resp2 => array(out, pairs * 2),
        Version::Resp3 => prefixed(out, b'%', pairs),
    }
}

pub(super) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    prefixed(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn null(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(match version {
        Version::Resp2 => b"$-1\r\n",
        Version::Resp3 => b"_\r\n",
    });
}

pub(super) fn ok(out: &mut Vec<u8>) {
    out.extend_from_slice(b"+OK\r\n");
}

/// An error line. What comes from a client goes into `message` as
/// [`Shown`](crate::protocol::text::Shown) only: a line end would forge a reply.
pub(super) fn error(out: &mut Vec<u8>, message: fmt::Arguments<'_>) {
    // Writing to a `Vec` does not fail.
    let _ = write!(out, "-{message}\r\n");
}

fn prefixed(out: &mut Vec<u8>, kind: u8, size: usize) {
    let mut reply = Backwards::new();
    reply.line(kind, size as u64);
    out.extend_from_slice(reply.written());
}

/// The longest line with a number: its kind, a sign, digits, line end.
const LINE: usize = 1 + 1 + 20 + 2;
/// Room for six of them.
const ROOM: usize = 6 * LINE;

/// Lines with numbers, written from the last byte to the first, as the digits of a number
/// come: so nothing is moved, and what is written is copied into the output at once.
struct Backwards {
    bytes: [u8; ROOM],
    /// Where what is written starts.
    at: usize,
}

impl Backwards {
    #[inline]
    fn new() -> Backwards {
        Backwards {
            bytes: [0; ROOM],
            at: ROOM,
        }
    }

    #[inline]
    fn written(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline]
    fn integer(&mut self, value: i64) {
        match u64::try_from(value) {
            Ok(value) => self.line(b':', value),
            // A figure that does not exist.
            Err(_) if value == -1 => self.put(*b":-1\r\n"),
            Err(_) => {
                self.number(value.unsigned_abs());
                self.put(*b":-");
            }
        }
    }

    #[inline]
    fn line(&mut self, kind: u8, value: u64) {
        self.number(value);
        self.put([kind]);
    }

    /// A number and a line end.
    #[inline]
    fn number(&mut self, mut value: u64) {
        self.put(*b"\r\n");
        while value >= 10_000 {
            let four = value % 10_000;
            let ([a, b], [c, d]) = (pair(four / 100), pair(four));
            self.put([a, b, c, d]);
            value /= 10_000;
        }
        if value >= 100 {
            self.put(pair(value));
            value /= 100;
        }
        match pair(value) {
            [b'0', digit] => self.put([digit]),
            both => self.put(both),
        }
    }

    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.at = self.at.wrapping_sub(N);
        let place = self.bytes.get_mut(self.at..);
        if let Some(place) = place.and_then(<[u8]>::first_chunk_mut) {
            *place = bytes;
        }
    }
}

/// The last two digits of a number.
#[inline]
fn pair(value: u64) -> [u8; 2] {
    PAIRS[(value % 100) as usize]
}

/// The digits of the numbers below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [*b"00"; 100];
    let (mut tens, mut at) = (b'0', 0);
    while at < 100 {
        let mut ones = b'0';
        while ones <= b'9' {
            pairs[at] = [tens, ones];
            at += 1;
            ones += 1;
        }
        tens += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_everywhere() {
        let mut numbers = vec![0, i64::MAX, i64::MIN, -1, -10, -100];
        let mut power = 1_i64;
        for _ in 0..18 {
            power *= 10;
            numbers.extend([power - 1, power, power + 1, -power, power / 2]);
        }
        for number in numbers {
            let mut out = b"before".to_vec();
            integer(&mut out, number);
            assert_eq!(out, format!("before:{number}\r\n").into_bytes());
        }
    }

    #[test]
    fn the_longest_figures_have_room() {
        let mut out = Vec::new();
        integers(&mut out, [i64::MIN; 5]);
        let figure = format!(":{}\r\n", i64::MIN);
        assert_eq!(out, format!("*5\r\n{}", figure.repeat(5)).into_bytes());
    }
}
