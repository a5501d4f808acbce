//! API keys: how a request presents one, and the table of those that are known.

use std::collections::HashMap;
use std::fmt;

use sha2::{Digest, Sha256};

use super::Pairs;

const AUTHORIZATION: &str = "authorization";
const DEFAULT_HEADERS: [&str; 2] = [AUTHORIZATION, "x-api-key"];
/// The schemes of `Authorization` that carry a key.
const SCHEMES: [&str; 2] = ["bearer", "apikey"];
/// No key is longer, in bytes.
const LONGEST: usize = 4_096;

/// The SHA-256 of a key: nothing else of it is kept.
pub(super) type Hash = [u8; 32];

/// Where keys are presented, and which are known.
pub(super) struct ApiKeys {
    /// In lower case.
    pub(super) headers: Vec<Box<str>>,
    /// `None` where no table is stated: then every key is known by itself.
    pub(super) table: Option<HashMap<Hash, Holder>>,
}

/// Whom a key was given to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) name: Option<Box<str>>,
    pub(super) tier: Option<Box<str>>,
    pub(super) tenant: Option<Box<str>>,
}

/// A key that is known.
#[derive(Clone, Copy)]
pub(super) struct Known<'k> {
    /// The key itself.
    pub(super) secret: &'k str,
    /// Its holder, where there is a table.
    pub(super) holder: Option<&'k Holder>,
}

impl Default for ApiKeys {
    fn default() -> ApiKeys {
        ApiKeys {
            headers: DEFAULT_HEADERS.map(Into::into).into(),
            table: None,
        }
    }
}

/// Shows how many keys there are, and none of them.
impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.table.as_ref().map(HashMap::len);
        write!(f, "ApiKeys({known:?} known)")
    }
}

pub(super) fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

impl ApiKeys {
    /// The key that `headers` present, if it is known. The same key in several headers or
    /// spellings is one; keys that differ are none.
    ///
    /// A bearer in the form of a token is a key only if the table has it: tokens change
    /// every few minutes, and their callers would be new each time.
    pub(super) fn presented<'k>(&'k self, headers: Pairs<'k>) -> Option<Known<'k>> {
        let mut presented = None;
        for (name, value) in headers {
            if !self.headers.iter().any(|header| **header == **name) {
                continue;
            }
            let Some(secret) = secret(name, value) else {
                continue;
            };
            if *name == AUTHORIZATION && is_token(secret) && self.holder(secret).is_none() {
                continue;
            }
            match presented {
                Some(other) if other != secret => return None,
                _ => presented = Some(secret),
            }
        }
        self.known(presented?)
    }

    fn known<'k>(&'k self, secret: &'k str) -> Option<Known<'k>> {
        let holder = match &self.table {
            None if secret.len() <= LONGEST => None,
            _ => Some(self.holder(secret)?),
        };
        Some(Known { secret, holder })
    }

    /// The holder of the key `secret`, if it is in the table.
    pub(super) fn holder(&self, secret: &str) -> Option<&Holder> {
        let table = self.table.as_ref().filter(|_| secret.len() <= LONGEST)?;
        table.get(&hash(secret))
    }
}

/// The key in a header's value; `None` if it is blank, or of a scheme that carries none.
fn secret<'k>(header: &str, value: &'k str) -> Option<&'k str> {
    let value = value.trim();
    let secret = match value.split_once([' ', '\t']) {
        Some((scheme, rest)) if SCHEMES.iter().any(|s| scheme.eq_ignore_ascii_case(s)) => {
            rest.trim()
        }
        _ if header == AUTHORIZATION => return None,
        _ => value,
    };
    (!secret.is_empty()).then_some(secret)
}

/// The bearer in the `Authorization` header; `None` if there is none, or several that
/// differ.
pub(super) fn bearer<'h>(headers: Pairs<'h>) -> Option<&'h str> {
    let mut all = headers.iter().filter(|(name, _)| *name == AUTHORIZATION);
    let first = secret(AUTHORIZATION, all.next()?.1)?;
    let same = all.all(|(_, value)| secret(AUTHORIZATION, value) == Some(first));
    same.then_some(first)
}

/// Whether `text` has the form of a signed token: three parts, the first of them JSON.
pub(super) fn is_token(text: &str) -> bool {
    text.starts_with("eyJ") && text.split('.').count() == 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presented<'k>(keys: &'k ApiKeys, headers: Pairs<'k>) -> Option<&'k str> {
        keys.presented(headers).map(|known| known.secret)
    }

    #[test]
    fn one_key_in_several_spellings_is_one() {
        let keys = ApiKeys::default();
        for headers in [
            &[("authorization", "Bearer abc")][..],
            &[("authorization", "bearer   abc")],
            &[("authorization", "APIKEY abc ")],
            &[("x-api-key", "abc")],
            &[("x-api-key", "  abc ")],
            &[("x-api-key", "Bearer abc")],
            &[
                ("x-api-key", "abc"),
                ("authorization", "Bearer abc"),
                ("x-api-key", ""),
            ],
            &[
                ("x-api-key", "abc"),
                ("authorization", "Basic dXNlcjpwYXNz"),
            ],
        ] {
            assert_eq!(presented(&keys, headers), Some("abc"), "{headers:?}");
        }
        assert_eq!(presented(&keys, &[("x-api-key", "ABC")]), Some("ABC"));
    }

    #[test]
    fn keys_that_differ_and_blank_ones_are_none() {
        let keys = ApiKeys::default();
        let long = "a".repeat(LONGEST + 1);
        for headers in [
            &[][..],
            &[("x-api-key", "abc"), ("x-api-key", "zzz")],
            &[("x-api-key", "zzz"), ("authorization", "Bearer abc")],
            &[("x-api-key", " \t")],
            &[("authorization", "Bearer ")],
            &[("authorization", "abc")],
            &[("authorization", "Basic abc")],
            &[("x-other", "abc")],
            &[("x-api-key", &long)],
        ] {
            assert_eq!(presented(&keys, headers), None);
        }
    }

    #[test]
    fn a_table_knows_its_own_keys_alone_and_shows_none() {
        let holder = Holder {
            tier: Some("pro".into()),
            ..Holder::default()
        };
        let keys = ApiKeys {
            table: Some([(hash("sk_live_1"), holder.clone())].into()),
            ..ApiKeys::default()
        };
        let known = keys.presented(&[("x-api-key", "sk_live_1")]).unwrap();
        assert_eq!(known.holder, Some(&holder));
        assert_eq!(presented(&keys, &[("x-api-key", "sk_live_2")]), None);
        assert_eq!(format!("{keys:?}"), "ApiKeys(Some(1) known)");
    }

    #[test]
    fn a_token_beside_a_key_is_not_a_second_key() {
        let token = "eyJhbGciOiJ9.eyJ9.c2ln";
        let bearing = format!("Bearer {token}");
        let headers: Pairs<'_> = &[("authorization", &bearing), ("x-api-key", "abc")];
        let mut keys = ApiKeys::default();
        assert_eq!(presented(&keys, headers), Some("abc"));
        assert_eq!(presented(&keys, &headers[..1]), None);
        assert_eq!(bearer(headers), Some(token));
        let two = [("authorization", "Bearer a"), ("authorization", "Bearer b")];
        assert_eq!(bearer(&two), None);
        // A key that looks like a token is one, where the table has it.
        keys.table = Some([(hash(token), Holder::default())].into());
        assert_eq!(presented(&keys, &headers[..1]), Some(token));
    }
}
