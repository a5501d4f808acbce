use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};

use siphasher::sip128::{Hasher128, SipHasher13};
use smallvec::SmallVec;

/// Who is being counted by which limit: a keyed 128-bit fingerprint of the limit's
/// id and the identity's components.
///
/// It is the cell's key in memory and the field's name in the store. It is made
/// with a secret, so no caller can choose where it falls, and no identity can be
/// read back from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key([u64; 2]);

impl Key {
    /// The key with these bytes, as they came from a store.
    pub fn from_bytes(bytes: [u8; 16]) -> Key {
        let [high, low] = u128_halves(u128::from_be_bytes(bytes));
        Key([high, low])
    }

    /// The bytes that name the key's field in the store.
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.0[0]) << 64 | u128::from(self.0[1])).to_be_bytes()
    }

    /// A number below `count` (zero if `count` is zero) that spreads keys evenly: the
    /// remainder of the same bits as [`Key::partition`], and of others than
    /// [`MapHasher`] passes on.
    #[inline]
    pub fn spread(self, count: usize) -> usize {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        usize::try_from(self.0[1].checked_rem(count).unwrap_or(0)).unwrap_or(0)
    }

    /// The partition that the key's cell lies in: the same on every node that
    /// agrees on the number of partitions and the secret.
    pub fn partition(self, of: Partitions) -> Partition {
        Partition(u16::try_from(self.0[1] % u64::from(of.0)).unwrap_or(0))
    }
}

const fn u128_halves(value: u128) -> [u64; 2] {
    #[allow(clippy::cast_possible_truncation)]
    [(value >> 64) as u64, value as u64]
}

/// Shows a prefix only: enough to tell keys apart in a log.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:08x}…)", self.0[0] >> 32)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0]);
    }
}

/// The hasher of maps of [`Key`]s, which are hashes already: it passes 64 of
/// their bits through.
#[derive(Clone, Copy, Debug, Default)]
pub struct MapHasher(u64);

impl Hasher for MapHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only `Key` is hashed with this, through `write_u64`; anything else still spreads.
        for byte in bytes {
            self.0 = (self.0.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

impl BuildHasher for MapHasher {
    type Hasher = MapHasher;

    fn build_hasher(&self) -> MapHasher {
        MapHasher(0)
    }
}

/// One of the parts that the fleet's cells are spread over in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(u16);

impl Partition {
    /// The partition numbered `number`.
    pub const fn new(number: u16) -> Partition {
        Partition(number)
    }

    /// The number, from 0.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// How many partitions the fleet's cells are spread over. The whole fleet must
/// agree on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitions(u16);

impl Partitions {
    /// `count` partitions; `None` for zero.
    pub const fn new(count: u16) -> Option<Partitions> {
        if count == 0 {
            None
        } else {
            Some(Partitions(count))
        }
    }

    /// How many.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl Default for Partitions {
    fn default() -> Partitions {
        Partitions(256)
    }
}

/// The secret that keys are made with. The whole fleet must share it.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySecret([u8; 16]);

/// Why a secret cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySecretError {
    /// Too little to be a secret.
    #[error("the key secret has {0} bytes; at least 16 are needed")]
    TooShort(usize),
}

impl KeySecret {
    /// The secret of a fleet that was given none. It is public, so callers can
    /// compute their fingerprints: fine for one node, not for a shared store.
    pub fn public() -> KeySecret {
        KeySecret::digest(b"tidegate without a key secret")
    }

    /// The secret made from the text of a secret file, blanks around it removed.
    ///
    /// # Errors
    /// [`KeySecretError::TooShort`] below 16 bytes.
    pub fn from_text(text: &[u8]) -> Result<KeySecret, KeySecretError> {
        let text = text.trim_ascii();
        if text.len() < 16 {
            return Err(KeySecretError::TooShort(text.len()));
        }
        Ok(KeySecret::digest(text))
    }

    /// Four bytes by which nodes find out whether they share the secret, without
    /// showing it.
    pub fn check_value(&self) -> [u8; 4] {
        let bytes = self
            .hasher(b"check value")
            .key(&EncodedIdentity::default())
            .to_bytes();
        [bytes[0], bytes[1], bytes[2], bytes[3]]
    }

    /// A hasher for one counter space: the limit's id goes in first.
    pub fn hasher(&self, limit: &[u8]) -> KeyHasher {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write_u64(limit.len() as u64);
        hasher.write(limit);
        // Filled up to a whole word, so that identities need not be shifted into place.
        let rest = limit.len().next_multiple_of(8) - limit.len();
        hasher.write(&[0; 8][..rest]);
        KeyHasher(hasher)
    }

    fn digest(text: &[u8]) -> KeySecret {
        let mut hasher = SipHasher13::new_with_key(b"tidegate.secret1");
        hasher.write(text);
        KeySecret(hasher.finish128().as_bytes())
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecret(***)")
    }
}

/// Makes the keys of one limit: it already holds the limit's id.
#[derive(Clone)]
pub struct KeyHasher(SipHasher13);

/// Hashers are equal that make the same keys.
impl PartialEq for KeyHasher {
    fn eq(&self, other: &KeyHasher) -> bool {
        self.0.finish128() == other.0.finish128()
    }
}

impl Eq for KeyHasher {}

impl KeyHasher {
    /// The key of `identity`.
    pub fn key(&self, identity: &EncodedIdentity) -> Key {
        let hash = self.0.hash(&identity.0);
        Key([hash.h1, hash.h2])
    }

    /// The key of an identity of one component: the same as by [`KeyHasher::key`],
    /// without a buffer between where the name is short.
    // Names are constants: inlined, their words are known.
    #[inline(always)]
    pub fn key_of(&self, name: &str, value: &[u8]) -> Key {
        let mut word = [0; 8];
        match word.get_mut(..name.len()) {
            Some(place) if !name.is_empty() => place.copy_from_slice(name.as_bytes()),
            _ => return self.key(&EncodedIdentity::of(name, Some(value))),
        }
        let head = u128::from(u64::from_le_bytes(word)) << 64;
        let head = head | u128::from(lengths(name, Some(value)));
        let mut hasher = self.0;
        hasher.write(&head.to_le_bytes());
        let hash = hasher.hash(value);
        Key([hash.h1, hash.h2])
    }
}

/// The lengths of a component's name and value, which go before them. A value's is
/// one more than it is: zero stands for absence, which so cannot be spelt.
fn lengths(name: &str, value: Option<&[u8]>) -> u64 {
    let length = |bytes: &[u8]| u64::try_from(bytes.len()).map_or(u64::MAX, |n| n.min(0xffff_fffe));
    let value = value.map_or(0, |value| length(value) + 1);
    length(name.as_bytes()) | value << 32
}

/// The bytes of `name`, filled up with zeros to whole words.
fn words(name: &str) -> impl Iterator<Item = u64> {
    name.as_bytes().chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    })
}

/// The components of an identity, encoded without ambiguity: name, presence and
/// length go in with each value, so that no two identities meet, and each component
/// begins at a whole word, since words are hashed fastest. Encoded once, it is hashed by
/// each limit that applies.
#[derive(Clone, Debug, Default)]
pub struct EncodedIdentity(SmallVec<[u8; 64]>);

impl EncodedIdentity {
    /// The identity of one component.
    pub fn of(name: &str, value: Option<&[u8]>) -> EncodedIdentity {
        let mut identity = EncodedIdentity::default();
        identity.component(name, value);
        identity
    }

    /// Adds one component.
    pub fn component(&mut self, name: &str, value: Option<&[u8]>) {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        for word in std::iter::once(lengths(name, value)).chain(words(name)) {
            self.0.extend_from_slice(&word.to_le_bytes());
        }
        self.0.extend_from_slice(value.unwrap_or_default());
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(components: &[(&str, Option<&[u8]>)]) -> Key {
        let mut identity = EncodedIdentity::default();
        for (name, value) in components {
            identity.component(name, *value);
        }
        KeySecret::public().hasher(b"limit").key(&identity)
    }

    #[test]
    fn no_two_identities_meet() {
        let all = [
            key(&[("a", Some(b"b")), ("c", Some(b"d"))]),
            key(&[("a", Some(b"bc")), ("", Some(b"d"))]),
            key(&[("ab", Some(b"")), ("c", Some(b"d"))]),
            key(&[("a", None), ("c", Some(b"d"))]),
            key(&[("a", Some(b"")), ("c", Some(b"d"))]),
            key(&[("c", Some(b"d")), ("a", Some(b"b"))]),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(
                all.iter().skip(i + 1).all(|b| a != b),
                "identity {i} met another"
            );
        }
    }

    #[test]
    fn another_secret_makes_other_keys() {
        let secret = KeySecret::from_text(b"sixteen bytes or more\n").unwrap();
        let other = secret
            .hasher(b"limit")
            .key(&EncodedIdentity::of("a", Some(b"b")));
        assert_ne!(other, key(&[("a", Some(b"b"))]));
        assert_ne!(secret.check_value(), KeySecret::public().check_value());
        assert_eq!(format!("{secret:?}"), "KeySecret(***)");
    }

    #[test]
    fn a_trailing_newline_is_not_part_of_the_secret() {
        assert_eq!(
            KeySecret::from_text(b"sixteen bytes or more\n"),
            KeySecret::from_text(b"sixteen bytes or more")
        );
        assert_eq!(
            KeySecret::from_text(b" short \n"),
            Err(KeySecretError::TooShort(5))
        );
    }

    #[test]
    fn one_component_makes_the_same_key_however_long_it_is() {
        let hasher = KeySecret::public().hasher(b"limit");
        for name in ["", "key", "nameless", "nine long", &"long".repeat(40)] {
            for length in 0..100 {
                let value = vec![7; length];
                let identity = EncodedIdentity::of(name, Some(&value));
                assert_eq!(hasher.key_of(name, &value), hasher.key(&identity));
            }
        }
    }

    #[test]
    fn bytes_and_key_are_one_to_one() {
        let key = key(&[("a", Some(b"b"))]);
        assert_eq!(Key::from_bytes(key.to_bytes()), key);
    }
}
