//! The text of a setting, wherever it came from, read as what it should be.

use std::path::PathBuf;

use super::fault::Place;
use crate::units::Nanos;

/// One scalar that somebody wrote: in a file, an environment variable or a flag.
///
/// It has no `Debug`, because the value may be a secret.
#[derive(Clone)]
pub struct Scalar {
    pub(super) text: String,
    pub(super) kind: Kind,
    pub(super) place: Place,
}

/// What a file's own grammar made of a scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A string, or anything from a flag or an environment variable.
    Text,
    /// A whole number.
    Integer,
    /// A fraction, a boolean or anything else whose text is ambiguous.
    Ambiguous,
}

/// Why a value cannot be used, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Not a duration.
    #[error("`{0}` is not a duration; write a number and a unit, such as 250ms, 1s, 1m30s or 1h")]
    NotADuration(String),
    /// A duration out of range.
    #[error("{given} is out of range; write a duration from {least} to {most}")]
    DurationOutOfRange {
        /// What was written.
        given: Nanos,
        /// The shortest.
        least: Nanos,
        /// The longest.
        most: Nanos,
    },
    /// Not a whole number, or out of range.
    #[error("`{given}` is not a whole number from {least} to {most}")]
    NotANumber {
        /// What was written.
        given: String,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A number or boolean where a text was wanted.
    #[error("`{0}` is not a text; put it in quotes")]
    NotText(String),
    /// Nothing was written.
    #[error("it is empty; leave it out to have the default")]
    Empty,
    /// Not a name.
    #[error("`{0}` is not a name; write up to 64 letters, digits, dots, dashes and underscores")]
    NotAName(String),
    /// Not one of the words.
    #[error("`{given}` is none of {}", .words.join(", "))]
    NotOneOf {
        /// What was written.
        given: String,
        /// The words.
        words: &'static [&'static str],
    },
    /// Not an address.
    #[error("`{given}` is not an address; write unix:PATH or HOST:PORT")]
    NotAnAddress {
        /// What was written.
        given: String,
    },
    /// Probes are for the kubelet, which speaks TCP alone.
    #[error("`{0}` is not a TCP address; write HOST:PORT")]
    NotTcp(String),
    /// Not permission bits.
    #[error("`{0}` is not a file mode; write three octal digits in quotes, such as \"0660\"")]
    NotAMode(String),
    /// Not the URL of a store. Says nothing of what was written: it may hold a password.
    #[error(
        "this is not a store; write none, or redis://, rediss:// or redis+unix:// and where it is"
    )]
    NotAStore,
    /// Not a log filter.
    #[error("`{0}` is not a log filter; write error, warn, info, debug, trace or target=level,…")]
    NotAFilter(String),
    /// A list where one value was wanted.
    #[error("a list is too much here; write one value")]
    List,
    /// A map where a value was wanted.
    #[error("a map does not belong here; write {0}")]
    Map(&'static str),
    /// Reachable from elsewhere and open to everybody.
    #[error(
        "`{0}` can be reached from elsewhere, so it needs an admin_token_file; \
         or use a Unix socket, a loopback address, or `probes` for probes"
    )]
    AdminWithoutToken(String),
    /// Two paces contradict each other.
    #[error("{given} contradicts the {other} of {limit}; an interval lies between its min and max")]
    PaceOrder {
        /// What was written.
        given: Nanos,
        /// The other setting.
        other: &'static str,
        /// Its value.
        limit: Nanos,
    },
}

/// The shortest and the longest of most durations.
pub(super) const ANY_DURATION: (Nanos, Nanos) = (Nanos::ZERO, Nanos::from_secs(3_600));

impl Scalar {
    /// A scalar without a grammar of its own.
    pub(super) fn text(text: impl Into<String>, place: Place) -> Scalar {
        Scalar {
            text: text.into(),
            kind: Kind::Text,
            place,
        }
    }

    /// A name or another free text.
    pub(super) fn word(&self) -> Result<String, ValueError> {
        if self.kind != Kind::Text {
            return Err(ValueError::NotText(self.text.clone()));
        }
        if self.text.trim().is_empty() {
            return Err(ValueError::Empty);
        }
        Ok(self.text.clone())
    }

    /// A name that is safe in keys, labels and logs.
    pub(super) fn name(&self) -> Result<String, ValueError> {
        let name = self.word()?;
        let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        if name.len() > 64 || !name.bytes().all(safe) {
            return Err(ValueError::NotAName(name));
        }
        Ok(name)
    }

    /// A filter of log lines.
    pub(super) fn log_filter(&self) -> Result<String, ValueError> {
        let filter = self.word()?;
        match tracing_subscriber::EnvFilter::try_new(&filter) {
            Ok(_) => Ok(filter),
            Err(_) => Err(ValueError::NotAFilter(filter)),
        }
    }

    /// A path; a relative one is relative to the file it is written in.
    pub(super) fn path(&self) -> Result<PathBuf, ValueError> {
        let path = PathBuf::from(self.word()?);
        Ok(match self.place.directory() {
            Some(directory) => directory.join(path),
            None => path,
        })
    }

    /// A duration within `range`, both ends included.
    pub(super) fn duration(&self, (least, most): (Nanos, Nanos)) -> Result<Nanos, ValueError> {
        let given = read_duration(&self.text)?;
        if given < least || given > most {
            return Err(ValueError::DurationOutOfRange { given, least, most });
        }
        Ok(given)
    }

    /// A whole number from `least` to `most`.
    pub(super) fn number<N: TryFrom<u64>>(&self, least: u64, most: u64) -> Result<N, ValueError> {
        let digits = self.kind != Kind::Ambiguous && self.text.bytes().all(|b| b.is_ascii_digit());
        Some(&self.text)
            .filter(|_| digits)
            .and_then(|text| text.parse::<u64>().ok())
            .filter(|number| (least..=most).contains(number))
            .and_then(|number| N::try_from(number).ok())
            .ok_or_else(|| ValueError::NotANumber {
                given: self.text.clone(),
                least,
                most,
            })
    }

    /// One of `words`; answers its place among them.
    pub(super) fn one_of(&self, words: &'static [&'static str]) -> Result<usize, ValueError> {
        words
            .iter()
            .position(|word| *word == self.text)
            .ok_or_else(|| ValueError::NotOneOf {
                given: self.text.clone(),
                words,
            })
    }

    /// The permission bits of a socket.
    pub(super) fn mode(&self) -> Result<u32, ValueError> {
        u32::from_str_radix(&self.text, 8)
            .ok()
            .filter(|mode| *mode <= 0o777 && self.text.bytes().all(|b| b.is_ascii_digit()))
            .ok_or_else(|| ValueError::NotAMode(self.text.clone()))
    }
}

/// Reads a duration.
///
/// # Errors
/// [`ValueError::NotADuration`].
pub fn read_duration(text: &str) -> Result<Nanos, ValueError> {
    duration(text).ok_or_else(|| ValueError::NotADuration(text.to_owned()))
}

/// A stand-in until the rules' own.
fn duration(text: &str) -> Option<Nanos> {
    let (mut rest, mut sum) = (text, Nanos::ZERO);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
        let unit = match rest.get(..letters)? {
            "ms" => Nanos::from_millis(1),
            "s" => Nanos::from_secs(1),
            "m" => Nanos::from_secs(60),
            "h" => Nanos::from_secs(3_600),
            "d" => Nanos::from_secs(86_400),
            _ => return None,
        };
        rest = rest.get(letters..)?;
        sum = sum.plus(unit.times(number));
    }
    Some(sum)
}
