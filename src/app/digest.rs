//! A number by which people and programs see whether two nodes have the same rules.

use std::fmt;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use crate::rules::Source;

/// The hash of the texts that a rule set was compiled from, wherever they lay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// The digest of these texts, in this order.
    pub fn of<'s>(sources: impl IntoIterator<Item = &'s Source>) -> Digest {
        let mut hasher = SipHasher13::new();
        for source in sources {
            // The length first, so that no two lists of texts run together into one.
            hasher.write_u64(source.text.len() as u64);
            hasher.write(source.text.as_bytes());
        }
        Digest(hasher.finish())
    }

    /// As many of its bits as a figure of Prometheus can carry.
    #[allow(clippy::cast_precision_loss)] // None is lost.
    pub fn as_figure(self) -> f64 {
        (self.0 >> 11) as f64
    }
}

/// Sixteen hexadecimal digits.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Format;

    #[test]
    fn the_texts_and_their_order_count_and_their_names_do_not() {
        let source = |name: &str, text: &str| Source {
            name: name.to_owned(),
            text: text.to_owned(),
            format: Format::Yaml,
        };
        let digest = |texts: &[&str]| {
            let named = texts.iter().map(|text| source(text, text));
            Digest::of(&named.collect::<Vec<_>>())
        };
        assert_eq!(Digest::of([&source("x", "a")]), digest(&["a"]));
        assert_ne!(digest(&["a", "b"]), digest(&["b", "a"]));
        assert_ne!(digest(&["ab"]), digest(&["a", "b"]));
        assert_eq!(digest(&["a"]).to_string().len(), 16);
    }
}
