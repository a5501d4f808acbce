/// Reads a whole number as Redis does: digits alone, no sign but one minus, no blanks, no
/// leading zeros, within 64 bits. `None` is everything else.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    if digits.len() > MOST_DIGITS {
        return None;
    }
    let mut value = 0_u64;
    for byte in digits {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        value = value * 10 + u64::from(digit);
    }
    if negative {
        0_i64.checked_sub_unsigned(value)
    } else {
        i64::try_from(value).ok()
    }
}

/// So many digits has the largest number of 63 bits, and any number of so many fits into 64.
const MOST_DIGITS: usize = 19;

/// Reads a whole number that is not negative.
pub(super) fn natural(text: &[u8]) -> Option<u64> {
    integer(text).and_then(|value| u64::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_over_their_whole_range() {
        assert_eq!(integer(b"0"), Some(0));
        assert_eq!(integer(b"-1"), Some(-1));
        assert_eq!(integer(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(natural(b"60"), Some(60));
        assert_eq!(natural(b"-1"), None);
    }

    #[test]
    fn nothing_else_is_a_number() {
        let others: [&[u8]; 16] = [
            b"",
            b"-",
            b"-0",
            b"+5",
            b" 5",
            b"5 ",
            b"05",
            b"1.0",
            b"1e3",
            b"0x1",
            b"abc",
            b"5\0",
            b"9223372036854775808",
            b"-9223372036854775809",
            b"9999999999999999999",
            b"100000000000000000000000000000",
        ];
        for text in others {
            assert_eq!(integer(text), None, "{}", text.escape_ascii());
        }
    }
}
