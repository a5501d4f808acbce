//! What is wrong with a configuration, said so that it can be put right.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::value::ValueError;
use crate::rules::{self, At};

/// Where somebody wrote something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file.
    File {
        /// The file, as it was named.
        file: Arc<str>,
        /// Where in it.
        at: At,
    },
    /// In the environment variable of this name.
    Variable(&'static str),
    /// In the flag of this name, without its dashes.
    Flag(&'static str),
    /// Nowhere: it is a default of the program.
    Default,
}

impl Place {
    /// The directory that relative paths written here start from; `None` for the
    /// working directory.
    pub(super) fn directory(&self) -> Option<&Path> {
        match self {
            Place::File { file, .. } => Path::new(&**file).parent(),
            _ => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { file, at } => write!(f, "{file}:{}:{}", at.line, at.column),
            Place::Variable(name) => f.write_str(name),
            Place::Flag(name) => write!(f, "--{name}"),
            Place::Default => f.write_str("default"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A file cannot be read.
    #[error("{}: cannot read it: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is longer than any of ours.
    #[error("{}: it is longer than 16 MiB", .0.display())]
    TooLong(PathBuf),
    /// A file did not appear in time.
    #[error("{}: it did not appear within {waited}", path.display())]
    NotThere {
        /// The file.
        path: PathBuf,
        /// How long it was waited for.
        waited: crate::units::Nanos,
    },
    /// What is neither a file nor a directory was read before.
    #[error("{}: it is no file, and can be read only once; restart to read it again", .0.display())]
    ReadOnce(PathBuf),
    /// A name ends in something other than the known formats.
    #[error("{}: what is it? Names of files end in .yaml, .yml, .toml or .json", .0.display())]
    UnknownFormat(PathBuf),
    /// A directory of rule files has none.
    #[error("{}: no file in it ends in .yaml, .yml, .toml or .json", .0.display())]
    NoRuleFiles(PathBuf),
    /// A file breaks its format, or a rule in it cannot be used.
    #[error("{0}")]
    File(Box<rules::Fault>),
    /// A key that does not exist.
    #[error("{place}: there is no key `{key}`{}", suggestion(*.nearest))]
    UnknownKey {
        /// Where.
        place: Place,
        /// The key.
        key: String,
        /// The key that may have been meant.
        nearest: Option<&'static str>,
    },
    /// A setting among rules for the whole fleet.
    #[error("{place}: `{key}` is a setting, for one node alone; only rules go into the store")]
    Setting {
        /// Where.
        place: Place,
        /// The setting.
        key: String,
    },
    /// A caller's secret among rules for the whole fleet.
    #[error(
        "{place}: a key in clear would be read by all who read the store; write its sha256, or \
         name a file that every node has"
    )]
    KeyInClear {
        /// Where.
        place: Place,
    },
    /// A value that cannot be used.
    #[error("{}{error}", field(place, key))]
    Value {
        /// Where.
        place: Place,
        /// The key.
        key: &'static str,
        /// Why, and what to write.
        error: ValueError,
    },
    /// A secret that cannot be used.
    #[error("{}: {error}", path.display())]
    Secret {
        /// Its file.
        path: PathBuf,
        /// Why.
        error: crate::units::KeySecretError,
    },
    /// An admin token that no header could carry.
    #[error("{}: the admin token must be one word of printable ASCII", .0.display())]
    Token(PathBuf),
}

impl From<rules::Fault> for Fault {
    fn from(fault: rules::Fault) -> Fault {
        Fault::File(Box::new(fault))
    }
}

impl Fault {
    /// Where in a file it is; `None` for what is in none.
    pub(super) fn at(&self) -> Option<At> {
        match self {
            Fault::File(fault) => Some(fault.at),
            Fault::UnknownKey { place, .. }
            | Fault::Setting { place, .. }
            | Fault::KeyInClear { place }
            | Fault::Value { place, .. } => match place {
                Place::File { at, .. } => Some(*at),
                _ => None,
            },
            _ => None,
        }
    }
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Flags and variables name their key; a file does not.
fn field(place: &Place, key: &str) -> String {
    match place {
        Place::File { .. } | Place::Default => format!("{place}: {key}: "),
        Place::Variable(_) | Place::Flag(_) => format!("{place}: "),
    }
}

/// The name among `names` that `given` was probably meant to be.
pub(in crate::app) fn nearest(
    given: &str,
    names: impl IntoIterator<Item = &'static str>,
) -> Option<&'static str> {
    // No name is longer, and long ones take long to compare.
    let given: String = given.chars().take(64).collect();
    let alike = |text: &str| text.to_ascii_lowercase().replace('-', "_");
    let given = alike(&given);
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&given, &alike(name)), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_finds_its_key_and_a_stranger_does_not() {
        let names = ["sync_interval", "sync_min_interval", "node", "http"];
        assert_eq!(nearest("sync_intervall", names), Some("sync_interval"));
        assert_eq!(nearest("sync-interval", names), Some("sync_interval"));
        assert_eq!(nearest("Node", names), Some("node"));
        assert_eq!(nearest("colour", names), None);
        let variables = ["TIDEGATE_NODE", "TIDEGATE_SYNC_INTERVAL"];
        let meant = nearest("TIDEGATE_SYNC_INTERVALL", variables);
        assert_eq!(meant, Some("TIDEGATE_SYNC_INTERVAL"));
    }
}
