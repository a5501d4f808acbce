use std::fmt;
use std::time::Duration;

/// A moment: nanoseconds since the Unix epoch, on the clock that the fleet
/// agrees on (the store's where there is a store, else this machine's).
///
/// Held in 64 bits, it ends in the year 2554; arithmetic saturates there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Timestamp = Timestamp(0);

    /// The moment `nanos` after the epoch.
    pub const fn from_nanos(nanos: u64) -> Timestamp {
        Timestamp(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded up: the form of `X-RateLimit-Reset`.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(Nanos::PER_SECOND)
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub const fn since(self, earlier: Timestamp) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment `span` later, or the end of time.
    pub const fn after(self, span: Nanos) -> Timestamp {
        Timestamp(self.0.saturating_add(span.0))
    }

    /// The moment `span` earlier, or the epoch.
    pub const fn before(self, span: Nanos) -> Timestamp {
        Timestamp(self.0.saturating_sub(span.0))
    }

    /// The window of length `period` that this moment lies in, windows being
    /// aligned to the epoch. A zero period counts as one nanosecond.
    pub const fn window(self, period: Nanos) -> WindowId {
        let period = if period.0 == 0 { 1 } else { period.0 };
        WindowId(self.0 / period)
    }
}

/// A span of time in nanoseconds, up to 584 years; arithmetic saturates there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u64);

impl Nanos {
    /// No time.
    pub const ZERO: Nanos = Nanos(0);
    /// The longest span.
    pub const MAX: Nanos = Nanos(u64::MAX);
    const PER_SECOND: u64 = 1_000_000_000;

    /// A span of `nanos` nanoseconds.
    pub const fn new(nanos: u64) -> Nanos {
        Nanos(nanos)
    }

    /// A span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis.saturating_mul(1_000_000))
    }

    /// A span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs.saturating_mul(Nanos::PER_SECOND))
    }

    /// The number of nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whole milliseconds, rounded up.
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// Whole seconds, rounded up.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(Nanos::PER_SECOND)
    }

    /// Seconds as a floating-point number, for metrics.
    #[allow(clippy::cast_precision_loss)]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, or the longest span.
    pub const fn plus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// What is left after taking `other` off, or nothing.
    pub const fn minus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// `factor` times as long, or the longest span.
    pub const fn times(self, factor: u64) -> Nanos {
        Nanos(self.0.saturating_mul(factor))
    }

    /// The `divisor`-th part, rounded down; a zero divisor counts as one.
    pub const fn divided_by(self, divisor: u64) -> Nanos {
        Nanos(self.0 / if divisor == 0 { 1 } else { divisor })
    }

    /// The same to two units, rounded up: for people who would not read more.
    pub fn rounded(self) -> Nanos {
        let largest = UNITS.iter().position(|(unit, _)| self.0 >= *unit);
        let Some((unit, _)) = largest.and_then(|place| UNITS.get(place + 1)) else {
            return self;
        };
        let up = self.0.div_ceil(*unit).checked_mul(*unit);
        Nanos(up.unwrap_or(self.0 - self.0 % unit))
    }
}

impl From<Duration> for Nanos {
    fn from(span: Duration) -> Nanos {
        Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Duration {
        Duration::from_nanos(span.0)
    }
}

/// The units that spans are written in, longest first.
const UNITS: [(u64, &str); 7] = [
    (86_400_000_000_000, "d"),
    (3_600_000_000_000, "h"),
    (60_000_000_000, "m"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
    (1, "ns"),
];

/// Written the way rule files write durations, in the largest units that are
/// exact: `90s` is `1m30s`, 1,500 µs is `1500us`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (unit, name) in UNITS {
            if rest >= unit {
                write!(f, "{}{name}", rest / unit)?;
                rest %= unit;
            }
        }
        Ok(())
    }
}

/// The number of a window counted from the epoch, for one window length: absolute,
/// so that no two windows of that length ever share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowId(u64);

impl WindowId {
    /// The window numbered `id`.
    pub const fn new(id: u64) -> WindowId {
        WindowId(id)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The window after this one.
    pub const fn next(self) -> WindowId {
        WindowId(self.0.saturating_add(1))
    }

    /// The window before this one; the first has none and answers itself.
    pub const fn previous(self) -> WindowId {
        WindowId(self.0.saturating_sub(1))
    }

    /// The moment the window of length `period` begins.
    pub const fn start(self, period: Nanos) -> Timestamp {
        Timestamp(self.0.saturating_mul(period.0))
    }

    /// The moment the window of length `period` ends: the next one's start.
    pub const fn end(self, period: Nanos) -> Timestamp {
        self.next().start(period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_in_the_largest_exact_units() {
        assert_eq!(Nanos::from_secs(90).to_string(), "1m30s");
        assert_eq!(Nanos::from_millis(250).to_string(), "250ms");
        assert_eq!(Nanos::from_secs(86_400 * 30).to_string(), "30d");
        assert_eq!(Nanos::ZERO.to_string(), "0s");
        assert_eq!(Nanos::new(1_500_000).to_string(), "1ms500us");
    }

    #[test]
    fn rounded_spans_have_two_units_and_are_never_shorter_unless_they_are_the_longest() {
        let rounded = |nanos| Nanos::new(nanos).rounded().to_string();
        assert_eq!(rounded(90_000_000_000), "1m30s");
        assert_eq!(rounded(90_000_000_001), "1m31s");
        assert_eq!(rounded(999_999_999_000_000_000), "11574d2h");
        assert_eq!(rounded(3_599_999_999_999), "1h");
        assert_eq!(rounded(u64::MAX), "213503d23h");
        assert_eq!(rounded(7), "7ns");
        assert_eq!(rounded(0), "0s");
    }

    #[test]
    fn seconds_and_milliseconds_round_up() {
        assert_eq!(Nanos::new(1).as_secs_ceil(), 1);
        assert_eq!(Nanos::from_millis(1_200).as_secs_ceil(), 2);
        assert_eq!(Nanos::new(1_000_001).as_millis_ceil(), 2);
        assert_eq!(Timestamp::from_nanos(1_000_000_001).as_secs_ceil(), 2);
    }

    #[test]
    fn windows_are_absolute_and_aligned_to_the_epoch() {
        let minute = Nanos::from_secs(60);
        let id = Timestamp::from_nanos(125_000_000_000).window(minute);
        assert_eq!(id, WindowId::new(2));
        assert_eq!(id.start(minute), Timestamp::from_nanos(120_000_000_000));
        assert_eq!(id.end(minute), Timestamp::from_nanos(180_000_000_000));
    }

    #[test]
    fn arithmetic_saturates_at_both_ends_of_time() {
        assert_eq!(Timestamp::EPOCH.before(Nanos::MAX), Timestamp::EPOCH);
        let end = Timestamp::from_nanos(u64::MAX);
        assert_eq!(end.after(Nanos::new(1)), end);
        assert_eq!(Timestamp::EPOCH.since(end), Nanos::ZERO);
    }
}
