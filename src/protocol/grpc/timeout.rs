use std::time::Duration;

/// Reads the value of `grpc-timeout`: at most 8 digits and a unit. `None` for anything
/// else, which is as good as no timeout.
pub fn timeout(value: &str) -> Option<Duration> {
    let unit = value.char_indices().next_back()?;
    let digits = value.get(..unit.0)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit.1 {
        'H' => Duration::from_secs(count * 3_600),
        'M' => Duration::from_secs(count * 60),
        'S' => Duration::from_secs(count),
        'm' => Duration::from_millis(count),
        'u' => Duration::from_micros(count),
        'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_number_and_a_unit() {
        for (text, nanos) in [
            ("20m", 20_000_000),
            ("0n", 0),
            ("7u", 7_000),
            ("3S", 3_000_000_000),
            ("1M", 60_000_000_000),
            ("99999999H", 99_999_999 * 3_600_000_000_000),
        ] {
            assert_eq!(timeout(text).map(|it| it.as_nanos()), Some(nanos), "{text}");
        }
    }

    #[test]
    fn what_is_no_timeout_is_none() {
        for text in [
            "",
            "m",
            "20",
            "+2m",
            "-2m",
            "2.5S",
            "123456789m",
            "20ms",
            "2ü",
            " 2m",
        ] {
            assert_eq!(timeout(text), None, "{text:?}");
        }
    }
}
