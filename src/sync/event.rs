//! What the core hears, and what it wants done.

use std::sync::Arc;

use super::batch::{Agreement, Batch, BatchReply, Hello, HelloReply};
use super::error::Failure;
use super::lane::Fate;
use super::offset::Offset;
use crate::counters::HashId;
use crate::units::{Nanos, Timestamp};

/// The number of one exchange with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub(super) u64);

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a batch; its reply or failure comes back under the same number.
    Batch(CallId, Arc<Batch>),
    /// Send a hello; its reply or failure comes back under the same number.
    Hello(CallId, Hello),
    /// The store's clock was measured: set the offset to it.
    SetOffset(Offset),
    /// Something that people want to know.
    Report(Report),
}

/// Something that people want to know: each is a line in the log or a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The store answers again, or for the first time.
    StoreUp,
    /// The store was lost, after so many failures.
    StoreLost(Failure),
    /// This node may not count with the others.
    Disagreement(Agreement),
    /// A batch came to this end, with so many deltas in it.
    Batch(Fate, usize),
    /// A batch is sent again, because its fate is unknown.
    Resent,
    /// An exchange failed.
    Failed(Failure),
    /// A key of the fleet holds something else.
    Spoilt(HashId),
    /// The age of the oldest cost that the store has not acknowledged.
    Lag(Nanos),
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is a connection.
    Connected,
    /// The connection is gone, or could not be made. Every exchange under way has
    /// failed with it.
    Disconnected(Failure),
    /// The answer to a batch.
    Batch(CallId, BatchReply, RoundTrip),
    /// The answer to a hello.
    Hello(CallId, HelloReply, RoundTrip),
    /// An exchange failed; whether the store has carried it out is not known.
    Failed(CallId, Failure),
}

/// When an exchange began and ended, on this machine's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// Before it was sent.
    pub sent: Timestamp,
    /// After it was answered.
    pub received: Timestamp,
}
