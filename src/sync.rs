//! The exchange with the store: deltas out, totals back. No check waits for it, but those
//! of strict limits, which [`Strict`] puts to the store one by one.
//!
//! [`core`] decides what to send and what the answers mean: events and the time go
//! in, actions come out, and nothing in it touches a socket, so it can be
//! simulated. Its unit is the lane: this node's way into one hash of the store,
//! one [`batch`](batch::Batch) after the other, each applied at most once. [`Sync`] is the other
//! half: the only user of the Redis client.

pub mod announcement;
pub mod batch;
mod breaker;
mod config;
mod connect;
pub mod core;
mod driver;
mod error;
pub mod event;
mod lane;
mod listener;
mod memory;
mod observe;
mod offset;
pub mod pacing;
pub mod seal;
mod shelf;
mod standing;
mod strict;
mod unreached;
pub mod wire;

use crate::units::Timestamp;

pub use config::SyncConfig;
pub use core::Core;
pub use driver::{Finished, Sync, check_url};
pub use error::{Failure, Remedy, SyncError};
pub use lane::Fate;
pub use offset::Offset;
pub use shelf::{Heard, MOST_BYTES, Put, Shelf, Shelved};
pub use standing::Standing;
pub use strict::Strict;

/// The time, twice: durations run on this machine's clock, which nothing steps;
/// windows are read on the fleet's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// On this machine's own clock.
    pub local: Timestamp,
    /// On the clock that the fleet agrees on.
    pub fleet: Timestamp,
}
