//! Inline commands: words on a line, as people type them into a terminal. The
//! rules for quotes are those of Redis (`sdssplitargs`).

use super::FrameError;

/// Splits `line` into words. Their bytes go to `text`, and `word` is told where
/// each one starts and ends there; it answers whether it can take more.
pub(super) fn split(
    line: &[u8],
    text: &mut Vec<u8>,
    mut word: impl FnMut(usize, usize) -> bool,
) -> Result<(), FrameError> {
    let mut rest = line.trim_ascii();
    while !rest.is_empty() {
        let start = text.len();
        rest = one_word(rest, text)?.trim_ascii_start();
        if !word(start, text.len()) {
            return Err(FrameError::InlineTooLong);
        }
    }
    Ok(())
}

/// Moves the word that `rest` starts with to `text`; the rest is what follows it.
fn one_word<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], FrameError> {
    loop {
        rest = match rest {
            [] => return Ok(rest),
            [byte, ..] if byte.is_ascii_whitespace() => return Ok(rest),
            [b'"', quoted @ ..] => return closed(double_quoted(quoted, text)?),
            [b'\'', quoted @ ..] => return closed(single_quoted(quoted, text)?),
            [byte, after @ ..] => {
                text.push(*byte);
                after
            }
        }
    }
}

/// A closing quote ends its word: a blank or the end of the line follows.
fn closed(after: &[u8]) -> Result<&[u8], FrameError> {
    match after {
        [byte, ..] if !byte.is_ascii_whitespace() => Err(FrameError::Quotes),
        _ => Ok(after),
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], FrameError> {
    loop {
        let (byte, after) = match rest {
            [] => return Err(FrameError::Quotes),
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex(*high) << 4 | hex(*low), after)
            }
            [b'\\', escaped, after @ ..] => (
                match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                },
                after,
            ),
            [byte, after @ ..] => (*byte, after),
        };
        text.push(byte);
        rest = after;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], FrameError> {
    loop {
        let (byte, after) = match rest {
            [] => return Err(FrameError::Quotes),
            [b'\'', after @ ..] => return Ok(after),
            [b'\\', b'\'', after @ ..] => (b'\'', after),
            [byte, after @ ..] => (*byte, after),
        };
        text.push(byte);
        rest = after;
    }
}

const fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, FrameError> {
        let (mut text, mut spans) = (Vec::new(), Vec::new());
        split(line, &mut text, |start, end| {
            spans.push(start..end);
            true
        })?;
        Ok(spans.into_iter().map(|span| text[span].to_vec()).collect())
    }

    #[test]
    fn words_are_split_at_blanks_and_quotes_hold_them_together() {
        assert_eq!(
            words(b"  echo\t\"a b\\n\\x41\\q\" 'c\\'d' e\"f g\" \"\"\r"),
            Ok(vec![
                b"echo".to_vec(),
                b"a b\nAq".to_vec(),
                b"c'd".to_vec(),
                b"ef g".to_vec(),
                b"".to_vec(),
            ])
        );
        assert_eq!(words(b" \r"), Ok(vec![]));
    }

    #[test]
    fn an_open_quote_is_an_error() {
        for line in [&b"echo \"a"[..], b"echo 'a", b"echo \"a\"b", b"\"a\\"] {
            assert_eq!(
                words(line),
                Err(FrameError::Quotes),
                "{}",
                line.escape_ascii()
            );
        }
    }
}
