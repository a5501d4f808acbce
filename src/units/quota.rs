use super::{Calendar, Nanos, Timestamp, Windows};

/// The largest amount of a sliding log: it remembers every admitted hit, so its
/// amount bounds its memory (16 bytes a hit).
pub const MAX_LOG_AMOUNT: u64 = 100_000;

/// How a limit counts. What each one promises, and its worst case, is said in
/// [`crate::algorithms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// Windows aligned to the epoch, each counted from zero.
    FixedWindow,
    /// The previous window's count weighted by what is left of it, plus this one's.
    SlidingWindow,
    /// The exact trailing window: every admitted hit remembered.
    SlidingLog,
    /// A bucket of `burst` tokens, refilled continuously (GCRA).
    TokenBucket,
    /// A queue of `burst` slots, emptied at an even pace: admitted with a delay.
    LeakyBucket,
}

impl Algorithm {
    /// Every algorithm, in the order of the documentation.
    pub const ALL: [Algorithm; 5] = [
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
    ];

    /// The name in rule files, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::FixedWindow => "fixed_window",
            Algorithm::SlidingWindow => "sliding_window",
            Algorithm::SlidingLog => "sliding_log",
            Algorithm::TokenBucket => "token_bucket",
            Algorithm::LeakyBucket => "leaky_bucket",
        }
    }

    /// Whether the state is a debt that drains, and `burst` its capacity.
    pub const fn is_bucket(self) -> bool {
        matches!(self, Algorithm::TokenBucket | Algorithm::LeakyBucket)
    }
}

/// How much, in how long, counted how: `amount` per `period`.
///
/// A quota that exists can be computed with: [`Quota::new`] refuses what cannot
/// be represented exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    algorithm: Algorithm,
    amount: u64,
    period: Nanos,
    burst: u64,
    calendar: Option<Calendar>,
}

/// Why a quota cannot be computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    /// The period is shorter than a millisecond.
    #[error("a window of {} is too short; the shortest is 1ms", .0.rounded())]
    PeriodTooShort(Nanos),
    /// The period is longer than ten years.
    #[error("a window of {} is too long; the longest is 3660d", .0.rounded())]
    PeriodTooLong(Nanos),
    /// Buckets alone have a burst.
    #[error("only token_bucket and leaky_bucket have a burst, not {}", .0.name())]
    BurstNotABucket(Algorithm),
    /// A bucket that holds something and never refills.
    #[error("a burst of {0} with an amount of 0 never refills; use an amount of 0 alone to ban")]
    NeverRefills(u64),
    /// A bucket without room for one token although it refills.
    #[error("a burst of 0 admits nothing; leave it out, or use an amount of 0 to ban")]
    BurstZero,
    /// A sliding log remembers every hit, so its amount is bounded.
    #[error(
        "sliding_log remembers every hit, at most {MAX_LOG_AMOUNT}, not {0}; use sliding_window"
    )]
    LogTooLarge(u64),
}

impl Quota {
    /// The shortest period.
    pub const MIN_PERIOD: Nanos = Nanos::from_millis(1);
    /// The longest period: ten years and a little.
    pub const MAX_PERIOD: Nanos = Nanos::from_secs(3_660 * 86_400);

    /// A bucket that admits nothing.
    pub const BAN: Quota = Quota {
        algorithm: Algorithm::TokenBucket,
        amount: 0,
        period: Nanos::from_secs(1),
        burst: 0,
        calendar: None,
    };

    /// `amount` per `period`, counted by `algorithm`. `burst` is the capacity of
    /// a bucket and defaults to `amount`. An amount of 0 is a ban.
    ///
    /// # Errors
    /// [`QuotaError`] says what cannot be represented.
    pub fn new(
        algorithm: Algorithm,
        amount: u64,
        period: Nanos,
        burst: Option<u64>,
    ) -> Result<Quota, QuotaError> {
        if period < Quota::MIN_PERIOD {
            return Err(QuotaError::PeriodTooShort(period));
        }
        if period > Quota::MAX_PERIOD {
            return Err(QuotaError::PeriodTooLong(period));
        }
        if algorithm == Algorithm::SlidingLog && amount > MAX_LOG_AMOUNT {
            return Err(QuotaError::LogTooLarge(amount));
        }
        match burst {
            Some(_) if !algorithm.is_bucket() => {
                return Err(QuotaError::BurstNotABucket(algorithm));
            }
            Some(burst) if amount == 0 && burst > 0 => return Err(QuotaError::NeverRefills(burst)),
            Some(0) if amount > 0 => return Err(QuotaError::BurstZero),
            _ => {}
        }
        Ok(Quota {
            algorithm,
            amount,
            period,
            burst: burst.unwrap_or(amount),
            calendar: None,
        })
    }

    /// `amount` in each window of the `calendar`, counted by fixed windows. An amount of 0
    /// is a ban.
    pub const fn calendar(amount: u64, calendar: Calendar) -> Quota {
        Quota {
            algorithm: Algorithm::FixedWindow,
            amount,
            period: calendar.unit().usual_length(),
            burst: amount,
            calendar: Some(calendar),
        }
    }

    /// How it counts.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// What is admitted per period; 0 is a ban.
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// The windows that it counts in; of a bucket or a log, which have none, such as are as
    /// long as its period.
    pub const fn windows(&self) -> Windows {
        match self.calendar {
            None => Windows::Even(self.period),
            Some(calendar) => Windows::Calendar(calendar),
        }
    }

    /// The window, or the time in which a bucket refills by `amount`. Of the windows of a
    /// calendar this is the usual length ([`CalendarUnit`](super::CalendarUnit)), which
    /// none need have.
    pub const fn period(&self) -> Nanos {
        self.period
    }

    /// The same at `now`: of the windows of a calendar the length of that one.
    pub fn period_at(&self, now: Timestamp) -> Nanos {
        let windows = self.windows();
        match windows {
            Windows::Even(length) => length,
            Windows::Calendar(_) => windows.length(windows.at(now)),
        }
    }

    /// The most that can be admitted at once: a bucket's capacity, else the amount.
    pub const fn capacity(&self) -> u64 {
        self.burst
    }

    /// Whether nothing is ever admitted.
    pub const fn is_ban(&self) -> bool {
        self.amount == 0
    }

    /// The part of this quota that one of `nodes` nodes may admit by itself: the
    /// amount and the burst divided and rounded up, so that it is never nothing.
    pub fn share(&self, nodes: u32) -> Quota {
        let nodes = u64::from(nodes.max(1));
        let (amount, burst) = (self.amount.div_ceil(nodes), self.burst.div_ceil(nodes));
        Quota {
            amount,
            burst,
            ..*self
        }
    }

    /// This quota `factor` times over, as far as it can be computed with.
    pub fn generous(&self, factor: u64) -> Quota {
        let most = if self.algorithm == Algorithm::SlidingLog {
            MAX_LOG_AMOUNT
        } else {
            u64::MAX
        };
        let times = |value: u64| value.saturating_mul(factor).min(most).max(value);
        Quota {
            amount: times(self.amount),
            burst: times(self.burst),
            ..*self
        }
    }

    /// In which time how many tokens drain, in lowest terms of whole microseconds: the
    /// unit that the store counts buckets in.
    pub const fn drain_rate(&self) -> (u64, u64) {
        // Periods are of whole milliseconds wherever rules are read.
        let (micros, amount) = (self.period.get().div_ceil(1_000), self.amount);
        let (mut divisor, mut rest) = (micros, amount);
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        // A period is never nothing, so neither is the divisor.
        (micros / divisor, amount / divisor)
    }

    /// How long a full bucket takes to drain (capacity · period / amount, rounded
    /// up); for windows, the period.
    pub fn drain_time(&self) -> Nanos {
        if self.amount == 0 || !self.algorithm.is_bucket() {
            return self.period;
        }
        let debt = u128::from(self.burst) * u128::from(self.period.get());
        let drain = debt.div_ceil(u128::from(self.amount));
        Nanos::new(u64::try_from(drain).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(
        algorithm: Algorithm,
        amount: u64,
        period: Nanos,
        burst: Option<u64>,
    ) -> Result<Quota, QuotaError> {
        Quota::new(algorithm, amount, period, burst)
    }

    #[test]
    fn what_cannot_be_computed_with_is_refused() {
        use Algorithm::*;
        let second = Nanos::from_secs(1);
        assert_eq!(
            quota(FixedWindow, 1, Nanos::new(999_999), None),
            Err(QuotaError::PeriodTooShort(Nanos::new(999_999)))
        );
        assert!(matches!(
            quota(FixedWindow, 1, Nanos::MAX, None),
            Err(QuotaError::PeriodTooLong(_))
        ));
        assert_eq!(
            quota(SlidingWindow, 5, second, Some(5)),
            Err(QuotaError::BurstNotABucket(SlidingWindow))
        );
        assert_eq!(
            quota(TokenBucket, 0, second, Some(5)),
            Err(QuotaError::NeverRefills(5))
        );
        assert_eq!(
            quota(TokenBucket, 5, second, Some(0)),
            Err(QuotaError::BurstZero)
        );
        assert_eq!(
            quota(SlidingLog, 100_001, second, None),
            Err(QuotaError::LogTooLarge(100_001))
        );
        assert!(quota(TokenBucket, 0, second, None).is_ok_and(|q| q.is_ban()));
        assert!(quota(FixedWindow, u64::MAX, Quota::MAX_PERIOD, None).is_ok());
    }

    #[test]
    fn the_burst_defaults_to_the_amount() {
        let q = quota(Algorithm::TokenBucket, 6, Nanos::from_secs(60), None);
        assert!(q.is_ok_and(|q| q.capacity() == 6));
    }

    #[test]
    fn the_drain_rate_is_in_lowest_terms() {
        let rate = |amount, period| {
            quota(Algorithm::TokenBucket, amount, period, None).map(|q| q.drain_rate())
        };
        assert_eq!(rate(7, Nanos::from_secs(3_600)), Ok((3_600_000_000, 7)));
        assert_eq!(rate(700_000_000, Nanos::from_secs(1)), Ok((1, 700)));
        assert_eq!(rate(1_000, Nanos::from_secs(60)), Ok((60_000, 1)));
        assert_eq!(rate(0, Nanos::from_secs(1)), Ok((1, 0)));
    }

    #[test]
    fn drain_time_is_exact_or_rounded_up() {
        let q = quota(Algorithm::TokenBucket, 7, Nanos::from_secs(3_600), Some(1));
        assert_eq!(q.map(|q| q.drain_time()), Ok(Nanos::new(514_285_714_286)));
        let q = quota(Algorithm::TokenBucket, 1, Quota::MAX_PERIOD, Some(u64::MAX));
        assert_eq!(q.map(|q| q.drain_time()), Ok(Nanos::MAX));
    }
}
