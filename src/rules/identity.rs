use std::cell::OnceCell;
use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};

use smallvec::SmallVec;

use super::{Described, Pairs};
use crate::units::{EncodedIdentity, Key, KeyHasher};

/// The component of an identity that comes in one piece: an explicit key, or the
/// one source of a rule. One name for both, so that they meet.
const WHOLE: &str = "key";
/// The component that stands in where a source has no value.
const CLIENT: &str = "client";
/// How many bits of an IPv6 address tell clients apart: a household or server has
/// the rest to itself.
const IPV6_PREFIX: u32 = 64;

/// What identifies the caller of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity(Vec<Component>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Component {
    name: Box<str>,
    source: KeySource,
}

/// Where a part of the identity comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeySource {
    Client,
    Header(Box<str>),
    Attribute(Box<str>),
}

impl KeySource {
    /// Reads `client`, `ip`, `header:NAME`, `attribute:NAME` or `NAME`.
    pub(super) fn parse(text: &str) -> Option<KeySource> {
        let name = |name: &str| -> Option<Box<str>> {
            let proper = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
            let sound = !name.is_empty() && name.len() <= 128 && name.bytes().all(proper);
            sound.then(|| name.to_ascii_lowercase().into())
        };
        match text.split_once(':') {
            None if text == CLIENT || text == "ip" => Some(KeySource::Client),
            None => name(text).map(KeySource::Attribute),
            Some(("header", rest)) => name(rest).map(KeySource::Header),
            Some(("attribute", rest)) => name(rest).map(KeySource::Attribute),
            Some(_) => None,
        }
    }

    /// The one spelling of this source.
    fn text(&self) -> Box<str> {
        match self {
            KeySource::Client => CLIENT.into(),
            KeySource::Header(name) => format!("header:{name}").into(),
            KeySource::Attribute(name) => format!("attribute:{name}").into(),
        }
    }
}

/// The key of an identity that was given in one piece.
pub(super) fn whole(hasher: &KeyHasher, key: &[u8]) -> Key {
    hasher.key_of(WHOLE, key)
}

impl Identity {
    /// The identity made of `sources`, in their order.
    pub(super) fn new(sources: &[KeySource]) -> Identity {
        let component = |source: &KeySource| Component {
            name: match sources.len() {
                1 => WHOLE.into(),
                _ => source.text(),
            },
            source: source.clone(),
        };
        Identity(sources.iter().map(component).collect())
    }

    /// The client's address.
    pub(super) fn client() -> Identity {
        Identity::new(&[KeySource::Client])
    }

    /// Who `request` comes from. A source without a value falls back to the client's
    /// address, under a name of its own: no caller can state another's address.
    pub(super) fn of(&self, request: &Described<'_>, address: &LazyAddress) -> EncodedIdentity {
        let mut identity = EncodedIdentity::default();
        for component in &self.0 {
            let stated = match &component.source {
                KeySource::Client => {
                    identity.component(&component.name, address.of(request));
                    continue;
                }
                KeySource::Header(header) => single(request.headers, header),
                KeySource::Attribute(attribute) => single(request.attributes, attribute),
            };
            let fallback = if stated.is_none() {
                address.of(request)
            } else {
                None
            };
            match (stated, fallback) {
                (Some(value), _) => identity.component(&component.name, Some(value.as_bytes())),
                (None, Some(address)) => identity.component(CLIENT, Some(address)),
                (None, None) => identity.component(&component.name, None),
            }
        }
        identity
    }
}

/// The value called `name`, without blanks around it. `None` if it is missing or
/// blank, or if it is there several times with different values: which of them is
/// meant would be a guess that callers could steer.
pub(super) fn single<'a>(pairs: Pairs<'a>, name: &str) -> Option<&'a str> {
    let mut values = pairs.iter().filter(|pair| pair.0 == name);
    let value = values.next()?.1.trim();
    let all_the_same = values.all(|pair| pair.1.trim() == value);
    (all_the_same && !value.is_empty()).then_some(value)
}

/// The client's address as a key's text, made once for each request that needs it.
#[derive(Default)]
pub(super) struct LazyAddress(OnceCell<Option<Address>>);

impl LazyAddress {
    fn of(&self, request: &Described<'_>) -> Option<&[u8]> {
        let address = || request.ip.or(request.peer).map(Address::new);
        self.0.get_or_init(address).as_ref().map(Address::as_bytes)
    }
}

/// An address as a key's text: `203.0.113.9`, or an IPv6 network `2001:db8:1:2::/64`.
struct Address(SmallVec<[u8; 48]>);

impl Address {
    fn new(ip: IpAddr) -> Address {
        let mut text = Address(SmallVec::new());
        // Writing to memory does not fail.
        let _ = match ip.to_canonical() {
            IpAddr::V4(ip) => write!(text, "{ip}"),
            IpAddr::V6(ip) => {
                let network = ip.to_bits() & (u128::MAX << (128 - IPV6_PREFIX));
                write!(text, "{}/{IPV6_PREFIX}", Ipv6Addr::from_bits(network))
            }
        };
        text
    }

    fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Write for Address {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(ip: &str) -> String {
        let address = Address::new(ip.parse().unwrap());
        String::from_utf8(address.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn addresses_are_grouped_as_their_owners_hold_them() {
        assert_eq!(address("203.0.113.9"), "203.0.113.9");
        assert_eq!(address("::ffff:203.0.113.9"), "203.0.113.9");
        assert_eq!(address("2001:db8:1:2::1"), "2001:db8:1:2::/64");
        assert_eq!(address("2001:db8:1:2:ffff::6"), "2001:db8:1:2::/64");
        assert_eq!(address("2001:db8:1:3::1"), "2001:db8:1:3::/64");
        assert_eq!(address("::1"), "::/64");
    }

    #[test]
    fn sources_are_read_in_all_spellings() {
        let parse = KeySource::parse;
        assert_eq!(parse("client"), Some(KeySource::Client));
        assert_eq!(parse("ip"), Some(KeySource::Client));
        assert_eq!(
            parse("header:X-API-Key"),
            Some(KeySource::Header("x-api-key".into()))
        );
        assert_eq!(parse("User"), Some(KeySource::Attribute("user".into())));
        assert_eq!(
            parse("attribute:ip"),
            Some(KeySource::Attribute("ip".into()))
        );
        for text in [
            "",
            "header:",
            "headr:x",
            "header:a b",
            "attribute:",
            "größe",
            "a:b:c",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_value_is_single_without_blanks_or_missing() {
        let pairs = [
            ("a", "  abc\t"),
            ("b", "\t "),
            ("c", "x"),
            ("c", " x "),
            ("d", "x"),
            ("d", "y"),
            ("e", "X"),
        ];
        assert_eq!(single(&pairs, "a"), Some("abc"));
        assert_eq!(single(&pairs, "b"), None);
        assert_eq!(single(&pairs, "c"), Some("x"));
        assert_eq!(single(&pairs, "d"), None);
        assert_eq!(single(&pairs, "e"), Some("X"));
        assert_eq!(single(&pairs, "f"), None);
    }
}
