use std::fmt;

use jsonwebtoken::jwk::{AlgorithmParameters, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Header, crypto};

/// The algorithms that may be pinned, by their names (RFC 7518, RFC 8037). Unsigned tokens
/// are none.
const ALGORITHMS: [(&str, Algorithm); 12] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
    ("HS256", Algorithm::HS256),
    ("HS384", Algorithm::HS384),
    ("HS512", Algorithm::HS512),
];
/// A shared secret is at least as long as the hash it is used with (RFC 7518, section 3.2).
const SHORTEST_SECRET: usize = 32;

/// The algorithms that may be pinned, in words.
pub(in crate::rules) const NAMES: [&str; 12] = {
    let mut names = [""; 12];
    let mut at = 0;
    while at < 12 {
        names[at] = ALGORITHMS[at].0;
        at += 1;
    }
    names
};

/// The algorithm called `name`.
pub(in crate::rules) fn algorithm(name: &str) -> Option<Algorithm> {
    let found = ALGORITHMS.iter().find(|(known, _)| *known == name)?;
    Some(found.1)
}

/// Whether `algorithm` works with a shared secret rather than with a public key: one key
/// must never serve for both.
pub(in crate::rules) fn is_shared(algorithm: Algorithm) -> bool {
    algorithm.family() == AlgorithmFamily::Hmac
}

/// Why a file holds no keys to verify with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A shared secret that can be guessed.
    #[error("has a secret of {0} bytes; at least 32 are needed")]
    ShortSecret(usize),
    /// A key that signs.
    #[error("holds a private key; write the file of the public key")]
    Private,
    /// Not PEM, or of another kind than the algorithms need.
    #[error("holds no public key in PEM for these algorithms")]
    NoPem,
    /// Algorithms that need keys of different kinds.
    #[error("holds one key, and these algorithms need several kinds; write algorithms of one kind")]
    SeveralKinds,
    /// No JSON Web Key Set.
    #[error("is no JSON Web Key Set: {{\"keys\": [...]}}")]
    NoKeySet,
    /// A key set without a usable key.
    #[error("has no key for these algorithms")]
    NoKey,
}

/// The keys of one issuer.
pub(in crate::rules) struct Keys(Vec<Key>);

struct Key {
    id: Option<String>,
    key: DecodingKey,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

impl Keys {
    /// A shared secret, blanks around it removed.
    pub(in crate::rules) fn secret(text: &[u8]) -> Result<Keys, KeyError> {
        let secret = text.trim_ascii();
        let short = KeyError::ShortSecret(secret.len());
        if secret.len() < SHORTEST_SECRET {
            return Err(short);
        }
        let key = DecodingKey::from_secret(secret).map_err(|_| short)?;
        Ok(Keys(vec![Key { id: None, key }]))
    }

    /// The public key in the PEM `text`, for `algorithms`.
    pub(in crate::rules) fn pem(text: &[u8], algorithms: &[Algorithm]) -> Result<Keys, KeyError> {
        let private = b"PRIVATE KEY-----";
        if text.windows(private.len()).any(|part| part == private) {
            return Err(KeyError::Private);
        }
        let family = algorithms.first().ok_or(KeyError::NoPem)?.family();
        if algorithms.iter().any(|other| other.family() != family) {
            return Err(KeyError::SeveralKinds);
        }
        let key = match family {
            AlgorithmFamily::Rsa => DecodingKey::from_rsa_pem(text),
            AlgorithmFamily::Ec => DecodingKey::from_ec_pem(text),
            AlgorithmFamily::Ed => DecodingKey::from_ed_pem(text),
            AlgorithmFamily::Hmac => return Err(KeyError::NoPem),
        };
        let key = key.map_err(|_| KeyError::NoPem)?;
        if !algorithms.iter().all(|algorithm| fits(&key, *algorithm)) {
            return Err(KeyError::NoPem);
        }
        Ok(Keys(vec![Key { id: None, key }]))
    }

    /// The public keys of a JSON Web Key Set that are for any of `algorithms`; the others
    /// are passed over, and so are shared secrets.
    pub(in crate::rules) fn jwks(text: &[u8], algorithms: &[Algorithm]) -> Result<Keys, KeyError> {
        let set: JwkSet = serde_json::from_slice(text).map_err(|_| KeyError::NoKeySet)?;
        let mut keys = Vec::new();
        for jwk in &set.keys {
            let is_secret = matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_));
            let encrypts = jwk.common.public_key_use == Some(PublicKeyUse::Encryption);
            if is_secret || encrypts {
                continue;
            }
            let Ok(key) = DecodingKey::from_jwk(jwk) else {
                continue;
            };
            if algorithms.iter().any(|algorithm| fits(&key, *algorithm)) {
                let id = jwk.common.key_id.clone();
                keys.push(Key { id, key });
            }
        }
        if keys.is_empty() {
            return Err(KeyError::NoKey);
        }
        Ok(Keys(keys))
    }

    /// The keys that may have signed a token with this `header`.
    pub(super) fn for_token(&self, header: &Header) -> impl Iterator<Item = &DecodingKey> {
        let named = |key: &&Key| match (&key.id, &header.kid) {
            (Some(id), Some(wanted)) => id == wanted,
            _ => true,
        };
        let fits = |key: &&Key| key.key.family() == header.alg.family();
        self.0.iter().filter(named).filter(fits).map(|key| &key.key)
    }
}

/// Whether `key` is of the kind that `algorithm` needs.
fn fits(key: &DecodingKey, algorithm: Algorithm) -> bool {
    // A key of another kind fails before anything is verified.
    key.family() == algorithm.family() && crypto::verify("", b"", key, algorithm).is_ok()
}
