//! RESP, the Redis protocol: so that every language already has a fast client.
//!
//! | command | answer |
//! |---|---|
//! | `CL.THROTTLE key max_burst count period [cost]` | limited, limit, remaining, retry after (s), reset after (s), as redis-cell |
//! | `TG.CHECK rule key [cost [tier]] [ID id]` | limited, limit, remaining, retry after (ms), reset after (ms) |
//! | `TG.MATCH method path [COST n] [IP addr] [ID id] [HEADER name value]… [ATTR name value]…` | the same, of all rules that match |
//! | `TG.REPORT rule key [cost [tier]]` | the same, for a check of 1 after it |
//! | `TG.SETTLE id cost`, `TG.SETTLE id ATTR name amount…` | 1 (0: it was settled before), charged, given back, limits where that went nowhere |
//!
//! `limited` is 0 or 1; a figure that does not exist (nothing to wait for, no limit
//! applies) is −1; figures above 2^63−1 are answered as that. Waits are rounded up.
//! Beside these, the commands with which clients greet a server are answered politely.
//!
//! A connection's life, without I/O: [`Parser`] finds frames in what was received,
//! [`Ask::decode`] reads a check out of a frame, [`Ask::write`] answers it with the
//! decision, and [`Session`] answers everything else.

mod check;
mod frame;
mod inline;
mod matched;
mod number;
mod reply;
mod session;
mod settle;

pub use check::Ask;
pub use frame::{Frame, FrameError, MAX_ARGS, MAX_BULK, MAX_FRAME, Parser};
pub use matched::Matched;
pub use session::{After, Session};
pub use settle::Settle;

/// What a client is told whose framing cannot be followed; the connection ends after it.
pub fn write_frame_error(out: &mut Vec<u8>, error: FrameError) {
    reply::error(out, format_args!("ERR Protocol error: {error}"));
}

/// What a client is told that comes when all places are taken.
pub const TOO_MANY_CLIENTS: &[u8] = b"-ERR max number of clients reached\r\n";
