use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// The most headers or attributes that one check may state.
const MAX_PAIRS: usize = 128;

/// A string of the body, borrowed from it where it holds no escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<'a>, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

/// An object of strings in its own order, its names in lower case. Names that are
/// the same but for their case are the same name, and given twice an error.
#[derive(Clone, Debug, Default)]
pub(super) struct PairsText<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> PairsText<'a> {
    /// Lines of fields, of which several may have the same name.
    pub(super) fn of_lines(lines: Vec<(Cow<'a, str>, Cow<'a, str>)>) -> PairsText<'a> {
        PairsText(lines)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for PairsText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PairsText<'a>, D::Error> {
        struct PairsVisitor;

        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = PairsText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<PairsText<'de>, M::Error> {
                let mut pairs: Vec<(Cow<'de, str>, Cow<'de, str>)> = Vec::new();
                while let Some((Text(name), Text(value))) = map.next_entry()? {
                    if pairs.len() == MAX_PAIRS {
                        return Err(M::Error::custom(format_args!(
                            "more than {MAX_PAIRS} headers or attributes"
                        )));
                    }
                    let name = if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                        Cow::Owned(name.to_ascii_lowercase())
                    } else {
                        name
                    };
                    if pairs.iter().any(|(other, _)| *other == name) {
                        return Err(M::Error::custom(format_args!("duplicate name `{name}`")));
                    }
                    pairs.push((name, value));
                }
                Ok(PairsText(pairs))
            }
        }

        deserializer.deserialize_map(PairsVisitor)
    }
}
