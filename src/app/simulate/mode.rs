//! The modes of consistency that can be simulated, and their names.

use super::values::BadValue;
use crate::units::Consistency;

/// Each with its name in rule files.
const MODES: [(&str, Consistency); 4] = [
    ("approximate", Consistency::Approximate),
    ("bounded", Consistency::Bounded),
    ("strict", Consistency::Strict),
    ("local", Consistency::Local),
];

/// The name of a mode.
pub(super) fn mode_name(mode: Consistency) -> &'static str {
    let found = MODES.iter().find(|(_, known)| *known == mode);
    found.map_or("unknown", |(name, _)| name)
}

/// Reads the name of one.
pub(super) fn read_mode(text: &str) -> Result<Consistency, BadValue> {
    let found = MODES.iter().find(|(name, _)| *name == text);
    found
        .map(|(_, mode)| *mode)
        .ok_or_else(|| BadValue::NotOneOf(MODES.map(|(name, _)| name).join(", ")))
}
