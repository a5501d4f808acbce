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
    prefixed(out, b':', value);
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

fn prefixed(out: &mut Vec<u8>, kind: u8, value: impl itoa::Integer) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    out.extend_from_slice(b"\r\n");
}
