//! The modes of consistency that can be simulated, and their names.

use super::values::BadValue;
use crate::units::Consistency;

/// Each with its name in rule files.
const MODES: [(&str, Consistency); 2] = [
    ("approximate", Consistency::Approximate),
    ("local", Consistency::Local),
];

/// The name of a mode.
pub(super) fn mode_name(mode: Consistency) -> &'static str {
    let found = MODES.iter().find(|(_, known)| *known == mode);
    found.map_or("strict", |(name, _)| name)
}

/// Whether it can be simulated.
pub(super) fn is_simulated(mode: Consistency) -> bool {
    MODES.iter().any(|(_, known)| *known == mode)
}

/// Reads the name of one.
pub(super) fn read_mode(text: &str) -> Result<Consistency, BadValue> {
    if text == "strict" {
        return Err(BadValue::Strict);
    }
    let found = MODES.iter().find(|(name, _)| *name == text);
    let words = || MODES.map(|(name, _)| name).join(", ");
    found
        .map(|(_, mode)| *mode)
        .ok_or_else(|| BadValue::NotOneOf(words()))
}
