//! Signed tokens (JWT) that callers present: which are believed, and what they claim.

mod cache;
mod keys;

use std::fmt;
use std::sync::Arc;

use jsonwebtoken::{Validation, dangerous, decode, decode_header};
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

use crate::units::Timestamp;
use cache::Cache;

pub use keys::KeyError;
pub(super) use keys::{Keys, NAMES as ALGORITHMS, algorithm, is_shared};

/// No token is longer, in bytes.
const LONGEST: usize = 8_192;
/// How far an issuer's clock may be ahead of ours, in seconds, before a token that is not
/// valid yet is refused.
const EARLY: u64 = 60;
/// A token that does not name its key is tried with so many.
const MOST_TRIED: usize = 4;

/// The issuers that are believed.
#[derive(Default)]
pub(super) struct Tokens {
    issuers: Vec<Issuer>,
    /// The claims that rules ask for, by their number.
    names: Vec<Box<str>>,
    cache: Cache,
}

/// One issuer, for one audience.
pub(super) struct Issuer {
    pub(super) name: Box<str>,
    pub(super) audience: Vec<String>,
    pub(super) algorithms: Vec<jsonwebtoken::Algorithm>,
    pub(super) keys: Keys,
}

/// What a verified token claims, as far as rules ask.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// In seconds since the epoch; no longer valid then.
    expires: u64,
    /// Issuer and subject, with a blank between: issuers have none.
    pub(super) subject: Option<Box<str>>,
    values: Vec<Option<Box<str>>>,
}

/// The number of a claim that rules ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClaimId(usize);

impl Claims {
    pub(super) fn get(&self, claim: ClaimId) -> Option<&str> {
        self.values.get(claim.0)?.as_deref()
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.issuers.iter().map(|issuer| &*issuer.name).collect();
        write!(f, "Tokens({names:?})")
    }
}

/// What a token says of itself before it is verified: enough to refuse most at little cost.
#[derive(Deserialize)]
struct Unverified {
    iss: String,
    exp: Number,
}

impl Tokens {
    pub(super) fn add(&mut self, issuer: Issuer) {
        self.issuers.push(issuer);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.issuers.is_empty()
    }

    /// The number of the claim `name`, which will be asked for.
    pub(super) fn claim(&mut self, name: &str) -> ClaimId {
        let at = self.names.iter().position(|known| **known == *name);
        ClaimId(at.unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        }))
    }

    /// What `token` claims, if it is believed at `now`; `None` for every other.
    pub(super) fn verified(&self, token: &str, now: Timestamp) -> Option<Arc<Claims>> {
        if token.len() > LONGEST || self.issuers.is_empty() {
            return None;
        }
        let now = now.as_nanos() / 1_000_000_000;
        let hash = Sha256::digest(token.as_bytes()).into();
        if let Some(claims) = self.cache.get(&hash, now) {
            return Some(claims);
        }
        let claims = Arc::new(self.verify(token, now)?);
        self.cache.insert(hash, Arc::clone(&claims));
        Some(claims)
    }

    /// How many tokens are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.cache.len()
    }

    #[cold]
    fn verify(&self, token: &str, now: u64) -> Option<Claims> {
        let unverified: Unverified = dangerous::insecure_decode_claims(token).ok()?;
        let expires = seconds(&unverified.exp)?;
        if expires <= now {
            return None;
        }
        let header = decode_header(token).ok()?;
        let mut tried = 0;
        for issuer in &self.issuers {
            if *issuer.name != *unverified.iss || !issuer.algorithms.contains(&header.alg) {
                continue;
            }
            let mut validation = Validation::new(header.alg);
            validation.set_issuer(&[&issuer.name]);
            validation.set_audience(&issuer.audience);
            validation.set_required_spec_claims(&["exp", "iss", "aud"]);
            // Time is told here, not read there.
            validation.validate_exp = false;
            for key in issuer.keys.for_token(&header) {
                if tried == MOST_TRIED {
                    return None;
                }
                tried += 1;
                if let Ok(verified) = decode::<Map<String, Value>>(token, key, &validation) {
                    return self.claims(&issuer.name, &verified.claims, expires, now);
                }
            }
        }
        None
    }

    fn claims(
        &self,
        issuer: &str,
        all: &Map<String, Value>,
        expires: u64,
        now: u64,
    ) -> Option<Claims> {
        match all.get("nbf") {
            None => {}
            Some(Value::Number(begin)) if seconds(begin)? <= now.saturating_add(EARLY) => {}
            Some(_) => return None,
        }
        let subject = all.get("sub").and_then(value);
        Some(Claims {
            expires,
            subject: subject.map(|subject| format!("{issuer} {subject}").into()),
            values: self
                .names
                .iter()
                .map(|name| value(all.get(&**name)?))
                .collect(),
        })
    }
}

/// A claim as text: of what is neither text, number nor boolean, and of blanks, there is none.
fn value(claim: &Value) -> Option<Box<str>> {
    let text: Box<str> = match claim {
        Value::String(text) => text.trim().into(),
        Value::Number(number) => number.to_string().into(),
        Value::Bool(flag) => flag.to_string().into(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// A time in whole seconds since the epoch, what is beyond them cut off; `None` for one
/// that is written with an exponent, for it is none of this age.
fn seconds(time: &Number) -> Option<u64> {
    let text = time.to_string();
    if text.contains('e') {
        return None;
    }
    text.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests;
