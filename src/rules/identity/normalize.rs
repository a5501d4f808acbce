use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::rules::path;

/// Which spellings of a value are one. Blanks around it never count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::rules) struct Normalize {
    /// A path, without its query, as rules compare paths.
    pub(in crate::rules) path: bool,
    /// Every letter in lower case, by Unicode, whatever the language and its neighbours.
    pub(in crate::rules) lower: bool,
    /// Letters with their marks in one form (NFC).
    pub(in crate::rules) nfc: bool,
}

impl Normalize {
    /// The one spelling of `value`; not copied where nothing is to be changed.
    pub(super) fn apply(self, value: &str) -> Cow<'_, str> {
        let mut value = Cow::Borrowed(value);
        if self.path {
            value = path::normalise(&value).into_owned().into();
        }
        if self.lower
            && !value
                .bytes()
                .all(|b| b.is_ascii() && !b.is_ascii_uppercase())
        {
            value = value
                .chars()
                .flat_map(char::to_lowercase)
                .collect::<String>()
                .into();
        }
        if self.nfc && !is_nfc(&value) {
            value = value.nfc().collect::<String>().into();
        }
        value
    }

    /// The bytes of the one spelling of `value`; not copied where nothing is to be changed.
    pub(super) fn bytes(self, value: Cow<'_, str>) -> Cow<'_, [u8]> {
        let normal = match value {
            _ if self == Normalize::default() => value,
            Cow::Borrowed(text) => self.apply(text),
            Cow::Owned(text) => self.apply(&text).into_owned().into(),
        };
        match normal {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_changed_only_as_far_as_was_asked() {
        let (none, lower, nfc, path) = (
            Normalize::default(),
            Normalize {
                lower: true,
                ..Normalize::default()
            },
            Normalize {
                nfc: true,
                ..Normalize::default()
            },
            Normalize {
                path: true,
                ..Normalize::default()
            },
        );
        assert_eq!(none.apply("BOB@x.example"), "BOB@x.example");
        assert_eq!(lower.apply("BOB@x.example"), "bob@x.example");
        assert!(matches!(lower.apply("bob"), Cow::Borrowed("bob")));
        assert_eq!(lower.apply("ÄRGER ΟΔΟΣ"), "ärger οδοσ");
        assert_eq!(none.apply("e\u{301}"), "e\u{301}");
        assert_eq!(nfc.apply("e\u{301}"), "\u{e9}");
        assert_eq!(lower.apply("e\u{301}"), "e\u{301}");
        assert_eq!(path.apply("//X/./y?n=1"), "/X/y");
    }
}
