use std::sync::Arc;

use super::Described;
use super::identity::single;

/// What a rule makes of a request's cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Weight {
    #[default]
    Once,
    /// So many times as much.
    Times(u64),
    /// As many times as an attribute says; once, where it says no whole number.
    Attribute(Arc<str>),
}

impl Weight {
    /// How many times the cost of `request` counts. Huge numbers of an asker saturate.
    pub(super) fn of(&self, request: &Described<'_>) -> u64 {
        match self {
            Weight::Once => 1,
            Weight::Times(factor) => *factor,
            Weight::Attribute(name) => single(request.attributes, name).map_or(1, whole),
        }
    }

    /// The attribute that says how many times the cost of a described request counts.
    pub(super) const fn measure(&self) -> Option<&Arc<str>> {
        match self {
            Weight::Attribute(name) => Some(name),
            Weight::Once | Weight::Times(_) => None,
        }
    }

    /// How many times the cost counts of a check that says nothing about its request.
    pub(super) fn of_named(&self) -> u64 {
        match self {
            Weight::Times(factor) => *factor,
            Weight::Once | Weight::Attribute(_) => 1,
        }
    }
}

fn whole(text: &str) -> u64 {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return 1;
    }
    text.parse().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_a_whole_number_or_one() {
        let weight = Weight::Attribute("tokens".into());
        for (text, cost) in [
            ("7", 7),
            (" 0 ", 0),
            ("18446744073709551615", u64::MAX),
            ("99999999999999999999", u64::MAX),
            ("-1", 1),
            ("1.5", 1),
            ("", 1),
            ("abc", 1),
        ] {
            let attributes: &[_] = &[("tokens", text)];
            let request = Described {
                attributes,
                ..Described::default()
            };
            assert_eq!(weight.of(&request), cost, "{text}");
        }
        assert_eq!(weight.of(&Described::default()), 1);
        assert_eq!((Weight::Times(5).of_named(), weight.of_named()), (5, 1));
    }
}
