//! What identifies the caller of a rule.

mod normalize;
mod query;
mod source;

use std::borrow::Cow;

use super::Pairs;
use super::caller::{Caller, Callers};
use super::explain::{Counted, CountedAs, may_be_secret};
use super::tokens::ClaimId;
use crate::units::{EncodedIdentity, Key, KeyHasher};

pub(super) use normalize::Normalize;
pub(super) use source::{KeySource, PREFIXES, field};

/// The component of an identity that comes in one piece: an explicit key, or the
/// one source of a rule. One name for both, so that they meet.
const WHOLE: &str = "key";
/// The component that stands in where a source has no value.
const CLIENT: &str = "client";
/// The component of an identity that all callers share.
const GLOBAL: &str = "global";

/// What identifies the caller of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    components: Vec<Component>,
    on_missing: OnMissing,
    normalize: Normalize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Component {
    /// What it is counted under.
    name: Box<str>,
    /// What rule files call it.
    called: Box<str>,
    part: Part,
}

/// A [`KeySource`] that was found in its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Client,
    Global,
    ApiKey,
    Subject,
    Tenant,
    Header(Box<str>),
    Attribute(Box<str>),
    Claim(ClaimId),
    Query(Box<str>),
    /// The number of a segment of the path.
    Segment(usize),
    /// The same in lower case (that of ASCII), where case does not count in paths.
    Folded(usize),
}

/// What becomes of a caller of whom something is missing that identifies it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OnMissing {
    /// The rule is not for it.
    Skip,
    /// The client's address stands in.
    #[default]
    Ip,
    /// It is refused, being nobody.
    Deny,
    /// It is counted together with all others of whom the same is missing.
    Shared,
}

/// What stands in for what is missing of a caller.
#[derive(Clone, Copy)]
enum StandIn {
    Address,
    Nobody,
}

/// Why a rule does not count a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uncounted {
    Skipped,
    Denied,
}

/// An identity that was given in one piece.
pub(super) enum Stated<'k> {
    Key(Cow<'k, [u8]>),
    /// That of all who give none.
    Nobody,
    /// That of all.
    Everybody,
}

impl Stated<'_> {
    #[inline]
    pub(super) fn key(&self, hasher: &KeyHasher) -> Key {
        match self {
            Stated::Key(key) => hasher.key_of(WHOLE, key),
            Stated::Nobody => hasher.key(&EncodedIdentity::of(WHOLE, None)),
            Stated::Everybody => hasher.key(&EncodedIdentity::of(GLOBAL, None)),
        }
    }
}

impl Identity {
    /// The identity made of `sources`, in their order, each with the part that it is.
    pub(super) fn new(
        sources: &[(KeySource, Part)],
        on_missing: OnMissing,
        normalize: Normalize,
    ) -> Identity {
        let component = |(source, part): &(KeySource, Part)| Component {
            name: match sources.len() {
                1 => WHOLE.into(),
                _ => source.text(),
            },
            called: source.text(),
            part: part.clone(),
        };
        Identity {
            components: sources.iter().map(component).collect(),
            on_missing,
            normalize,
        }
    }

    /// That of rules which do not look at callers.
    pub(super) fn of_nobody() -> Identity {
        Identity::new(&[], OnMissing::default(), Normalize::default())
    }

    /// Who `caller` is. The address that stands in for what is missing goes under a name of
    /// its own: no caller can state another's address.
    pub(super) fn of(&self, caller: &Caller<'_>) -> Result<EncodedIdentity, Uncounted> {
        let mut identity = EncodedIdentity::default();
        for Component { name, part, .. } in &self.components {
            if *part == Part::Global {
                identity.component(GLOBAL, None);
                continue;
            }
            if let Some(value) = part.value(caller, self.normalize) {
                identity.component(name, Some(&value));
                continue;
            }
            match (self.missing()?, caller.address()) {
                (StandIn::Address, Some(address)) => identity.component(CLIENT, Some(address)),
                _ => identity.component(name, None),
            }
        }
        Ok(identity)
    }

    /// Who `caller` is, for people: as [`Identity::of`], but with nothing secret in it.
    pub(super) fn told(&self, caller: &Caller<'_>) -> Result<Vec<Counted>, Uncounted> {
        let mut told = Vec::with_capacity(self.components.len());
        for Component { called, part, .. } in &self.components {
            let (called, value) = match part.value(caller, self.normalize) {
                _ if *part == Part::Global => (GLOBAL, CountedAs::Everybody),
                Some(value) => (&**called, part.told(caller, &value)),
                None => match (self.missing()?, caller.address()) {
                    (StandIn::Address, Some(address)) => (CLIENT, CountedAs::text(address)),
                    _ => (&**called, CountedAs::Nobody),
                },
            };
            told.push(Counted {
                name: called.to_owned(),
                value,
            });
        }
        Ok(told)
    }

    /// Whether it passes over some callers.
    pub(super) fn may_skip(&self) -> bool {
        self.on_missing == OnMissing::Skip
    }

    /// Whether it passes over `caller`.
    pub(super) fn skips(&self, caller: &Caller<'_>) -> bool {
        self.may_skip() && self.of(caller).is_err()
    }

    /// What stands in for what is missing.
    fn missing(&self) -> Result<StandIn, Uncounted> {
        match self.on_missing {
            OnMissing::Ip => Ok(StandIn::Address),
            OnMissing::Shared => Ok(StandIn::Nobody),
            OnMissing::Skip => Err(Uncounted::Skipped),
            OnMissing::Deny => Err(Uncounted::Denied),
        }
    }

    /// The identity of a caller that is stated as `key`. It is that of the same value from
    /// the rule's source, where there is one; so a key that is not in the table of API keys
    /// is missing, as blank ones are.
    pub(super) fn stated<'k>(
        &self,
        key: &'k [u8],
        callers: &Callers,
    ) -> Result<Stated<'k>, Uncounted> {
        let key = trimmed(key);
        let mut stated = Some(Cow::Borrowed(key)).filter(|key| !key.is_empty());
        if let [Component { part, .. }] = self.components.as_slice() {
            match part {
                Part::Global => return Ok(Stated::Everybody),
                Part::ApiKey if callers.keys.table.is_some() => {
                    let text = std::str::from_utf8(key).ok();
                    stated = stated.filter(|_| text.and_then(|k| callers.keys.holder(k)).is_some());
                }
                _ if part.is_secret() => {}
                Part::Folded(_) => {
                    if let Ok(text) = std::str::from_utf8(key) {
                        let folded = text.to_ascii_lowercase().into();
                        stated = stated.map(|_| self.normalize.bytes(folded));
                    }
                }
                _ if self.normalize == Normalize::default() => {}
                _ => {
                    if let Ok(text) = std::str::from_utf8(key) {
                        stated = stated.map(|_| self.normalize.bytes(text.into()));
                    }
                }
            }
        }
        match stated {
            Some(key) => Ok(Stated::Key(key)),
            None => self.missing().map(|_| Stated::Nobody),
        }
    }

    /// Whether the caller's API key alone identifies it.
    pub(super) fn is_api_key(&self) -> bool {
        matches!(self.components.as_slice(), [one] if one.part == Part::ApiKey)
    }
}

impl Part {
    fn value<'v>(&'v self, caller: &'v Caller<'_>, normalize: Normalize) -> Option<Cow<'v, [u8]>> {
        let request = caller.request;
        let text: Cow<'v, str> = match self {
            Part::Global => return None,
            Part::Client => return caller.address().map(Cow::Borrowed),
            Part::ApiKey => return Some(caller.key()?.secret.as_bytes().into()),
            Part::Subject => return Some(caller.claims()?.subject.as_deref()?.as_bytes().into()),
            Part::Query(name) => query::parameter(request.path, name)?,
            Part::Tenant => caller.tenant()?.into(),
            Part::Header(name) => single(request.headers, name)?.into(),
            Part::Attribute(name) => single(request.attributes, name)?.into(),
            Part::Claim(claim) => caller.claim(*claim)?.into(),
            Part::Segment(number) => caller.segment(*number)?.into(),
            Part::Folded(number) => caller.segment(*number)?.to_ascii_lowercase().into(),
        };
        Some(normalize.bytes(text))
    }

    /// The `value` of this part for people. What may be a secret is not told: the name of an
    /// API key's holder stands for it.
    fn told(&self, caller: &Caller<'_>, value: &[u8]) -> CountedAs {
        match self {
            Part::ApiKey => {
                let holder = caller.key().and_then(|known| known.holder);
                let name = holder.and_then(|holder| holder.name.as_deref());
                name.map_or(CountedAs::Hidden, |name| CountedAs::Value(name.to_owned()))
            }
            Part::Header(name) | Part::Attribute(name) | Part::Query(name)
                if may_be_secret(name) =>
            {
                CountedAs::Hidden
            }
            _ => CountedAs::text(value),
        }
    }

    /// Whether each spelling of the value is another one, whatever the rule says.
    fn is_secret(&self) -> bool {
        matches!(self, Part::Client | Part::ApiKey | Part::Subject)
    }
}

/// `key` without blanks around it, if it is text: in bytes that are none, nothing is blank.
fn trimmed(key: &[u8]) -> &[u8] {
    let short = key.trim_ascii();
    let is_text = |b: &u8| *b >= b' ' || b.is_ascii_whitespace();
    if short.len() == key.len() || !key.iter().all(is_text) {
        return key;
    }
    short
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_count_in_bytes_that_are_no_text() {
        assert_eq!(trimmed(b" alice\t\n"), b"alice");
        assert_eq!(trimmed("\u{20}größe ".as_bytes()), "größe".as_bytes());
        assert_eq!(trimmed(b" \t"), b"");
        assert_eq!(trimmed(&[0, 0, 0, b' ']), [0, 0, 0, b' ']);
        assert_eq!(trimmed(&[b'\n', 0, 7, 1]), [b'\n', 0, 7, 1]);
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
