use std::fmt;
use std::path::Path;

use crate::units::{KeySecret, Pace};

/// The text of one rule file.
#[derive(Clone)]
pub struct Source {
    /// What faults call the file: its path.
    pub name: String,
    /// What is in it.
    pub text: String,
    /// How to read it.
    pub format: Format,
}

/// Shows the name alone: the text may have keys in it.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({:?})", self.name)
    }
}

/// How a rule file is written. The schema is the same in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// YAML 1.2, without tags.
    Yaml,
    /// TOML 1.
    Toml,
    /// JSON, without comments.
    Json,
}

impl Format {
    /// The format that a file's extension says: `yaml`, `yml`, `toml` or `json`, in
    /// any case; `None` for any other.
    pub fn of(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "yaml" | "yml" => Some(Format::Yaml),
            "toml" => Some(Format::Toml),
            "json" => Some(Format::Json),
            _ => None,
        }
    }
}

/// What holds where rule files say nothing, and what they never say.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// When costs are sent to the store.
    pub pace: Pace,
    /// What keys are made with.
    pub secret: KeySecret,
}
