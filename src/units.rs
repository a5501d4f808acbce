//! The words of the project as types: time, cost, keys, quotas and limits.
//!
//! Nothing here reads a clock or decides anything, and nothing allocates on a request's
//! way but the text that a rule has for its refusals.

mod answers;
mod calendar;
mod key;
mod limit;
mod quota;
mod time;
mod windows;

pub use answers::{
    Answers, Escape, Refusal, RefusalBody, ResetStyle, Template, TemplateValue, UnknownValue,
};
pub use calendar::{Calendar, CalendarUnit, UnknownZone};
pub use key::{
    EncodedIdentity, Key, KeyHasher, KeySecret, KeySecretError, MapHasher, Partition, Partitions,
};
pub use limit::{Consistency, Limit, LimitId, Mode, Pace, STRICT_TIMEOUTS, Series, StoreLoss};
pub use quota::{Algorithm, MAX_LOG_AMOUNT, Quota, QuotaError};
pub use time::{Nanos, Timestamp, WindowId};
pub use windows::Windows;

/// What one check consumes, in the unit of the limit's amount (requests, bytes,
/// tokens: whatever the rule counts). Zero is a peek: it consumes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

impl Cost {
    /// A peek.
    pub const ZERO: Cost = Cost(0);
    /// The cost of a check that does not say what it costs.
    pub const ONE: Cost = Cost(1);

    /// A cost of `units`.
    pub const fn new(units: u64) -> Cost {
        Cost(units)
    }

    /// The number of units.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// So many times as much, at most the largest number.
    pub const fn times(self, factor: u64) -> Cost {
        Cost(self.0.saturating_mul(factor))
    }

    /// Whether this is a peek.
    pub const fn is_peek(self) -> bool {
        self.0 == 0
    }
}
