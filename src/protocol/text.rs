//! Text from outside, made fit for messages and logs.

use std::fmt::{self, Write as _};

/// How many characters of a client's text a message repeats.
const SHOWN: usize = 128;

/// Shows the start of a client's text in printable ASCII: everything else is
/// escaped, so that no reply or log line can be split or forged with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.get(..SHOWN).unwrap_or(self.0);
        for byte in shown {
            match byte {
                b'\'' | b'\\' => write!(f, "\\{}", char::from(*byte))?,
                b' '..=b'~' => f.write_char(char::from(*byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        if shown.len() < self.0.len() {
            f.write_str("...")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_printable_is_escaped() {
        assert_eq!(
            Shown(b"a\r\n'\\\xff\0").to_string(),
            r"a\x0d\x0a\'\\\xff\x00"
        );
    }

    #[test]
    fn long_text_is_cut() {
        let shown = Shown(&[b'a'; 1_000]).to_string();
        assert_eq!(shown, format!("{}...", "a".repeat(128)));
    }
}
