use crate::units::Nanos;

/// Why a text is not a duration; its message continues the text: `"5x" is not …`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not numbers with units, in descending units.
    #[error("is not a duration; write 250ms, 1s, 1m, 1h, 1d or 1m30s")]
    Unreadable,
    /// A word for a stretch of the calendar.
    #[error("is not a duration; write {0} for that fixed length")]
    Calendar(&'static str),
    /// More than can be held.
    #[error("is too long for a duration; the longest window is 3660d")]
    TooLong,
}

/// The units, longest first, in nanoseconds.
const UNITS: [(&[u8], u64); 5] = [
    (b"d", 86_400_000_000_000),
    (b"h", 3_600_000_000_000),
    (b"m", 60_000_000_000),
    (b"s", 1_000_000_000),
    (b"ms", 1_000_000),
];

/// The fixed lengths to write instead of a word of the calendar.
const CALENDAR: [(&str, &str); 7] = [
    ("second", "1s"),
    ("minute", "1m"),
    ("hour", "1h"),
    ("day", "1d"),
    ("week", "7d"),
    ("month", "30d"),
    ("year", "365d"),
];

/// Reads a duration as configuration files write it: whole numbers, each with one
/// of the units `d`, `h`, `m`, `s`, `ms`, in descending order and without blanks:
/// `250ms`, `1s`, `1m30s`. Nothing else is one: no bare number, fraction, sign or
/// leading zero. `0s` is a duration; whether zero makes sense is for the caller.
///
/// # Errors
/// [`DurationError`] says what to write instead.
pub fn parse_duration(text: &str) -> Result<Nanos, DurationError> {
    if let Some((_, instead)) = CALENDAR.iter().find(|(word, _)| *word == text) {
        return Err(DurationError::Calendar(instead));
    }
    let mut rest = text.as_bytes();
    if rest.is_empty() {
        return Err(DurationError::Unreadable);
    }
    let mut total: u64 = 0;
    let mut units = UNITS.as_slice();
    let mut too_long = false;
    while !rest.is_empty() {
        let (number, after) = split(rest, u8::is_ascii_digit);
        let (unit, after) = split(after, u8::is_ascii_alphabetic);
        if number.is_empty() || (number.len() > 1 && number[0] == b'0') {
            return Err(DurationError::Unreadable);
        }
        // Only units shorter than the last one may follow it.
        let Some(place) = units.iter().position(|(name, _)| *name == unit) else {
            return Err(DurationError::Unreadable);
        };
        let span = number
            .iter()
            .try_fold(0_u64, |n, digit| {
                n.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
            })
            .and_then(|n| n.checked_mul(units[place].1))
            .and_then(|span| total.checked_add(span));
        // Read on: what is no duration at all should be told as such.
        match span {
            Some(sum) => total = sum,
            None => too_long = true,
        }
        units = &units[place + 1..];
        rest = after;
    }
    if too_long {
        return Err(DurationError::TooLong);
    }
    Ok(Nanos::new(total))
}

fn split(bytes: &[u8], belongs: fn(&u8) -> bool) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|b| !belongs(b));
    bytes.split_at(end.unwrap_or(bytes.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_and_their_descending_combinations_are_durations() {
        let millis = |text| parse_duration(text).map(|d| d.get() / 1_000_000);
        assert_eq!(millis("250ms"), Ok(250));
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("1s"), Ok(1_000));
        assert_eq!(millis("1m"), Ok(60_000));
        assert_eq!(millis("1h"), Ok(3_600_000));
        assert_eq!(millis("1d"), Ok(86_400_000));
        assert_eq!(millis("1m30s"), Ok(90_000));
        assert_eq!(millis("1d12h30m5s1ms"), Ok(131_405_001));
        assert_eq!(millis("30d"), Ok(2_592_000_000));
        assert_eq!(millis("0s"), Ok(0));
    }

    #[test]
    fn nothing_else_is_one_and_nothing_falls_back_to_another_unit() {
        for text in [
            "horu", "5x", "abch", "1 m", " 1m", "1m ", "1.5h", "-1s", "+1s", "", "1", "1M", "1mo",
            "٣s", "1e3s", "1sm", "1min", "1us", "1ns", "1w", "30s1m", "1m1m", "01m", "1m-1s", "s",
            "1S", "0x1s", "1_000s", "1m 30s", "1m\n",
        ] {
            assert_eq!(
                parse_duration(text),
                Err(DurationError::Unreadable),
                "{text:?}"
            );
        }
        assert_eq!(
            parse_duration("18446744073709551616s"),
            Err(DurationError::TooLong)
        );
        assert_eq!(
            parse_duration("18446744073s1ms"),
            Ok(Nanos::new(18_446_744_073_001_000_000))
        );
        assert_eq!(
            parse_duration("18446744073s999ms"),
            Err(DurationError::TooLong)
        );
    }

    #[test]
    fn a_word_of_the_calendar_is_answered_with_the_fixed_length() {
        assert_eq!(parse_duration("month"), Err(DurationError::Calendar("30d")));
        assert_eq!(parse_duration("week"), Err(DurationError::Calendar("7d")));
        assert_eq!(parse_duration("day"), Err(DurationError::Calendar("1d")));
    }

    proptest! {
        #[test]
        fn what_a_span_is_written_as_reads_as_itself(millis in 0..u64::MAX / 1_000_000) {
            let span = Nanos::from_millis(millis);
            prop_assert_eq!(parse_duration(&span.to_string()), Ok(span));
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = parse_duration(&text);
        }
    }
}
