//! Assignments as gateways are told of them.
//!
//! Envoy's token buckets (1.40, `rate_limit_quota` filter): the first one starts full and is
//! refilled continuously; the fill interval is cut to whole seconds; and one replaces
//! another only if its tokens or the nanoseconds of its fill interval differ. So the
//! nanoseconds, which mean nothing else, are a serial number: another one means another
//! bucket. That is filled as far as the one before was, in proportion; a lump is all there,
//! so whoever tells of one must have the gateway forget the other first.

use crate::units::Nanos;

/// What a gateway is to do with requests of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// Admit all.
    AllowAll,
    /// Refuse all.
    DenyAll,
    /// Admit from a token bucket.
    Bucket {
        /// Its capacity; at least 1.
        max_tokens: u32,
        /// What is added in each fill interval; at least 1.
        tokens_per_fill: u32,
        /// Whole seconds, at least one, and a serial number of nanoseconds.
        fill_interval: Nanos,
    },
}

/// What a gateway is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The assignment; `None` if it knows it already.
    pub assignment: Option<Assignment>,
    /// How long the assignment holds unless it is told again: whole seconds, at least two.
    pub time_to_live: Nanos,
    /// When to look again although it has not reported; `None` if there is no need to.
    pub look_again: Option<Nanos>,
}

/// How many serial numbers there are, beginning with 1: the nanoseconds of a second.
pub(super) const SERIALS: u32 = 999_999_999;
/// No bucket holds more.
pub(super) const MOST_TOKENS: u64 = u32::MAX as u64;
/// A lump is not refilled: not within so many seconds.
const NEVER: u64 = 365 * 86_400;
/// A refill is told in tokens by the thousand, so that no rate is rounded by more than a
/// thousandth,
const PRECISION: u128 = 1_000;
/// or in what comes in so many seconds.
const LONGEST_FILL: u128 = 1_000_000;
/// A rate is compared in tokens in so many seconds,
const PER_RATE: u64 = 1_000_000;
/// which have so many nanoseconds.
const NANOS: u128 = 1_000_000_000;
/// A change is worth telling when it comes to so many times what telling it gives away.
const WORTH: u128 = 2;
/// But not if it is a part of so many, or less.
const LITTLE: u64 = 50;
/// A bucket that is to hold more than so many times as much is told at once.
const ROOMIER: u32 = 2;

/// A bucket of `tokens` that is not refilled.
pub(super) fn lump(tokens: u64, serial: u32) -> Assignment {
    Assignment::Bucket {
        max_tokens: u32::try_from(tokens).unwrap_or(u32::MAX).max(1),
        tokens_per_fill: 1,
        fill_interval: Nanos::from_secs(NEVER).plus(serial_of(serial)),
    }
}

/// A bucket that is refilled at the rate of so many `tokens` in a `span`, and holds what
/// comes in `reserve`, or `least` tokens.
pub(super) fn refilled(
    tokens: u64,
    span: Nanos,
    reserve: Nanos,
    least: u64,
    serial: u32,
) -> Assignment {
    if tokens == 0 || span.is_zero() {
        return Assignment::DenyAll;
    }
    let per_second = u128::from(tokens) * u128::from(Nanos::from_secs(1).get());
    let span = u128::from(span.get());
    let secs = (PRECISION * span)
        .div_ceil(per_second)
        .clamp(1, LONGEST_FILL);
    let reserve = u128::from(tokens) * u128::from(reserve.get()) / span;
    let reserve = reserve.max(u128::from(least));
    Assignment::Bucket {
        max_tokens: at_least_one(reserve),
        tokens_per_fill: at_least_one(per_second.saturating_mul(secs) / span),
        fill_interval: Nanos::from_secs(u64::try_from(secs).unwrap_or(1)).plus(serial_of(serial)),
    }
}

fn serial_of(serial: u32) -> Nanos {
    Nanos::new(u64::from(serial))
}

fn at_least_one(tokens: u128) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX).max(1)
}

impl Assignment {
    /// Whether a gateway that was told this one `ago` need not be told the other.
    ///
    /// A change of a rate may fill the bucket, and then that much more is admitted. It is
    /// worth it when the difference has come to twice as much.
    pub(super) fn serves_for(self, other: Assignment, ago: Nanos) -> bool {
        let (Some(old), Some(new)) = (self.refill(), other.refill()) else {
            return self == other;
        };
        let difference = u128::from(new.rate.abs_diff(old.rate)) * u128::from(ago.get());
        let worth = u128::from(new.reserve) * WORTH * u128::from(PER_RATE) * NANOS;
        let little = new.rate.abs_diff(old.rate) <= old.rate / LITTLE;
        let roomy = new.reserve <= old.reserve.saturating_mul(ROOMIER);
        (little || difference < worth) && roomy
    }

    /// Whether it is a bucket that is not refilled.
    pub fn is_lump(self) -> bool {
        matches!(self, Assignment::Bucket { .. }) && self.refill().is_none()
    }

    /// How it is refilled; `None` of one that is not.
    fn refill(self) -> Option<Refill> {
        let Assignment::Bucket {
            max_tokens,
            tokens_per_fill,
            fill_interval,
        } = self
        else {
            return None;
        };
        let secs = fill_interval.get() / Nanos::from_secs(1).get();
        (secs < NEVER).then(|| Refill {
            rate: u64::from(tokens_per_fill) * PER_RATE / secs.max(1),
            reserve: max_tokens,
        })
    }
}

/// Tokens in a million seconds, and at once.
struct Refill {
    rate: u64,
    reserve: u32,
}
