//! How many bytes an exchange takes, about: what [`crate::sync::wire`] writes and the
//! store answers, without the headers of TCP. (A test holds it against both.)

use crate::sync::batch::{Batch, BatchReply};

/// The command of a batch without its cells: the script's name, key, lane and tokens.
const BATCH: u64 = 180;
/// A cell's field, 16 bytes and their frame, and its delta.
const CELL: u64 = 25;
/// The answer without its totals: token and time.
const BATCH_REPLY: u64 = 45;
/// A hello.
pub(super) const HELLO: u64 = 230;
/// What is answered to one.
pub(super) const HELLO_REPLY: u64 = 60;

/// The bytes of a batch's command.
pub(super) fn batch(batch: &Batch) -> u64 {
    BATCH + CELL * batch.cells.len() as u64
}

/// The bytes of its answer.
pub(super) fn batch_reply(reply: &BatchReply) -> u64 {
    let digits = |total: &u64| u64::from(total.checked_ilog10().unwrap_or(0)) + 4;
    BATCH_REPLY + reply.totals.iter().map(digits).sum::<u64>()
}
