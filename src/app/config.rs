//! The configuration: defaults, a file, environment variables and flags, in
//! rising precedence, checked as one, with all faults at once.

mod fault;
mod file;
mod keys;
mod load;
mod origin;
mod patience;
mod reading;
mod resolve;
mod settings;
#[cfg(test)]
mod tests;
mod value;

pub use fault::Fault;
pub use keys::{KEYS, Key};
pub use load::{Config, FileKind, load, rule_names, rules_of, validate};
pub(super) use load::{read_bounded, shareable};
pub use origin::Origin;
pub use resolve::Given;
pub use settings::{LogFormat, RulesFrom, RuntimeDir, Settings, Surroundings};
pub use value::{ValueError, read_duration, read_number};

pub(super) use fault::nearest;
pub(super) use reading::Reading;
pub(super) use resolve::WrittenSettings;
