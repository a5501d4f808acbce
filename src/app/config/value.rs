//! The text of a setting, wherever it came from, read as what it should be.

use std::path::PathBuf;

use super::fault::{Place, nearest};
use crate::rules::{DurationError, parse_duration};
use crate::server::AddressError;
use crate::units::Nanos;

/// One scalar that somebody wrote: in a file, an environment variable or a flag.
///
/// It has no `Debug`, because the value may be a secret.
#[derive(Clone)]
pub(super) struct Scalar {
    pub(super) text: String,
    kind: Kind,
    pub(super) place: Place,
}

/// Whether a file's grammar may see something else in it than text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Certainly text, as all that flags and variables hold.
    Text,
    /// A number, a boolean or the like, as it is written.
    Bare,
}

/// Why a value cannot be used, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Not a duration.
    #[error("`{given}` {error}")]
    NotADuration {
        /// What was written.
        given: String,
        /// Why not, and what to write.
        error: DurationError,
    },
    /// A duration out of range.
    #[error("{given} is out of range; write a duration from {least} to {most}")]
    DurationOutOfRange {
        /// What was written.
        given: String,
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
    #[error("`{given}` is not an address: {error}")]
    NotAnAddress {
        /// What was written.
        given: String,
        /// Why not.
        error: AddressError,
    },
    /// Not permission bits.
    #[error("`{0}` is not a file mode; write three octal digits in quotes, such as \"0660\"")]
    NotAMode(String),
    /// Not the URL of a store. Says nothing of what was written: it may hold a password.
    #[error(
        "this is not a store; write none, or redis://, rediss:// or redis+unix:// and where it is"
    )]
    NotAStore,
    /// Not a log filter.
    #[error(
        "`{given}` is neither a level nor a target=level of {}{}; write error, warn, info, debug, \
         trace, off or a list such as info,tidegate::sync=debug",
        TARGETS.join(", "),
        .nearest.as_ref().map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"))
    )]
    NotAFilter {
        /// The part of it that is none.
        given: String,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// A list where one value was wanted.
    #[error("a list is too much here; write one value")]
    List,
    /// A map where a value was wanted.
    #[error("a map does not belong here; write {0}")]
    Map(&'static str),
    /// Reachable from elsewhere and open to everybody.
    #[error(
        "`{0}` can be reached from elsewhere, so it needs an admin_token_file; \
         or use a Unix socket or a loopback address"
    )]
    AdminWithoutToken(String),
    /// Rules from a store that there is not.
    #[error("there is no store that could say the rules; name one as `store`")]
    RulesWithoutStore,
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
    /// Certainly text.
    pub(super) fn text(text: impl Into<String>, place: Place) -> Scalar {
        Scalar {
            text: text.into(),
            kind: Kind::Text,
            place,
        }
    }

    /// A number, a boolean or the like, as it is written in a file.
    pub(super) fn bare(text: impl Into<String>, place: Place) -> Scalar {
        Scalar {
            kind: Kind::Bare,
            ..Scalar::text(text, place)
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
        filter.split(',').try_for_each(directive)?;
        Ok(filter)
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
        let out_of_range = || ValueError::DurationOutOfRange {
            given: self.text.clone(),
            least,
            most,
        };
        match parse_duration(&self.text) {
            Ok(given) if (least..=most).contains(&given) => Ok(given),
            Ok(_) | Err(DurationError::TooLong) => Err(out_of_range()),
            Err(_) => read_duration(&self.text),
        }
    }

    /// A whole number from `least` to `most`.
    pub(super) fn number<N: TryFrom<u64>>(&self, least: u64, most: u64) -> Result<N, ValueError> {
        read_number(&self.text, least, most)
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

/// What the log can be filtered by: the whole program, and its parts that log.
const TARGETS: [&str; 4] = [
    "tidegate",
    "tidegate::app",
    "tidegate::server",
    "tidegate::sync",
];
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Looks at one part of a log filter. The library takes any word for the target of some
/// program, so that a slip of the pen would silence everything.
fn directive(given: &str) -> Result<(), ValueError> {
    let is_level = |word: &str| LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level));
    let is_target = |word: &str| {
        let inside = |rest: &str| rest.starts_with("::");
        let target = |known: &&str| word.strip_prefix(*known).is_some_and(inside);
        TARGETS.contains(&word) || TARGETS[1..].iter().any(target)
    };
    let (target, level) = match given.split_once('=') {
        Some((target, level)) => (Some(target), level),
        None => (None, given),
    };
    if is_level(level) && target.is_none_or(is_target) {
        return Ok(());
    }
    let level = if is_level(level) {
        Some(level)
    } else {
        nearest(level, LEVELS)
    };
    let meant = match target {
        None if is_target(given) => Some(format!("{given}=debug")),
        None => level.map(str::to_owned),
        Some(target) if is_target(target) => level.map(|level| format!("{target}={level}")),
        Some(target) => {
            let target = nearest(target, TARGETS);
            let pair = target.zip(level);
            pair.map(|(target, level)| format!("{target}={level}"))
        }
    };
    Err(ValueError::NotAFilter {
        given: given.to_owned(),
        nearest: meant,
    })
}

/// Reads a whole number from `least` to `most`.
///
/// # Errors
/// [`ValueError::NotANumber`].
pub fn read_number<N: TryFrom<u64>>(text: &str, least: u64, most: u64) -> Result<N, ValueError> {
    Some(text)
        .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|text| text.parse::<u64>().ok())
        .filter(|number| (least..=most).contains(number))
        .and_then(|number| N::try_from(number).ok())
        .ok_or_else(|| ValueError::NotANumber {
            given: text.to_owned(),
            least,
            most,
        })
}

/// Reads a duration.
///
/// # Errors
/// [`ValueError::NotADuration`].
pub fn read_duration(text: &str) -> Result<Nanos, ValueError> {
    parse_duration(text).map_err(|error| ValueError::NotADuration {
        given: text.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Result<String, ValueError> {
        Scalar::text(text, Place::Default).log_filter()
    }

    #[test]
    fn a_log_filter_is_levels_of_the_program_and_of_its_parts() {
        for sound in [
            "info",
            "WARN",
            "off",
            "tidegate=debug",
            "warn,tidegate::sync=trace,tidegate::server::accept=error",
        ] {
            assert_eq!(filter(sound).as_deref(), Ok(sound));
            assert!(tracing_subscriber::EnvFilter::try_new(sound).is_ok());
        }
    }

    #[test]
    fn a_word_that_would_silence_the_log_is_refused_with_what_was_meant() {
        for (wrong, part, meant) in [
            ("wran", "wran", Some("warn")),
            ("inof", "inof", Some("info")),
            ("info,", "", None),
            ("tidegate", "tidegate", Some("tidegate=debug")),
            ("tidgate=debug", "tidgate=debug", Some("tidegate=debug")),
            ("tidegate=debgu", "tidegate=debgu", Some("tidegate=debug")),
            (
                "info,tidegate::snyc=debug",
                "tidegate::snyc=debug",
                Some("tidegate::sync=debug"),
            ),
            ("hyper=debug", "hyper=debug", None),
            ("tidegatex=debug", "tidegatex=debug", Some("tidegate=debug")),
            ("=", "=", None),
        ] {
            let error = ValueError::NotAFilter {
                given: part.to_owned(),
                nearest: meant.map(str::to_owned),
            };
            assert_eq!(filter(wrong), Err(error), "{wrong}");
        }
        let said = filter("wran").unwrap_err().to_string();
        assert!(
            said.starts_with("`wran` is neither a level") && said.contains("did you mean `warn`?"),
            "{said}"
        );
    }
}
