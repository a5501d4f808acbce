use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

use super::*;
use crate::units::Nanos;

const ISSUER: &str = "https://id.example";
const RSA: &[u8] = include_bytes!("fixtures/rsa.pem");
const RSA_PUBLIC: &[u8] = include_bytes!("fixtures/rsa.pub.pem");
const EC: &[u8] = include_bytes!("fixtures/ec.pem");
const EC_PUBLIC: &[u8] = include_bytes!("fixtures/ec.pub.pem");
const ED: &[u8] = include_bytes!("fixtures/ed.pem");
const ED_PUBLIC: &[u8] = include_bytes!("fixtures/ed.pub.pem");
const JWKS: &[u8] = include_bytes!("fixtures/jwks.json");
const SECRET: &[u8] = b"a shared secret of more than 32 bytes";

fn at(secs: u64) -> Timestamp {
    Timestamp::EPOCH.after(Nanos::from_secs(secs))
}

fn tokens(algorithms: &[Algorithm], keys: Keys) -> Tokens {
    let mut tokens = Tokens::default();
    tokens.add(Issuer {
        name: ISSUER.into(),
        audience: vec!["api".to_owned(), "other".to_owned()],
        algorithms: algorithms.to_vec(),
        keys,
    });
    tokens
}

fn shared() -> Tokens {
    tokens(&[Algorithm::HS256], Keys::secret(SECRET).unwrap())
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "api", "sub": "42", "exp": 1_000, "tier": "pro"})
}

fn with(changes: Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

fn signed(header: &Header, key: &EncodingKey, claims: &Value) -> String {
    encode(header, claims, key).unwrap()
}

fn by_secret(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET);
    signed(&Header::new(Algorithm::HS256), &key.unwrap(), claims)
}

fn subject(tokens: &Tokens, token: &str) -> Option<String> {
    let claims = tokens.verified(token, at(500))?;
    Some(claims.subject.as_deref()?.to_owned())
}

#[test]
fn a_token_is_believed_by_the_key_of_its_issuer_of_every_kind() {
    let rsa = EncodingKey::from_rsa_pem(RSA).unwrap();
    let ec = EncodingKey::from_ec_pem(EC).unwrap();
    let ed = EncodingKey::from_ed_pem(ED).unwrap();
    for (algorithm, signing, public) in [
        (Algorithm::RS256, &rsa, RSA_PUBLIC),
        (Algorithm::PS512, &rsa, RSA_PUBLIC),
        (Algorithm::ES256, &ec, EC_PUBLIC),
        (Algorithm::EdDSA, &ed, ED_PUBLIC),
    ] {
        let token = signed(&Header::new(algorithm), signing, &claims());
        for keys in [
            Keys::pem(public, &[algorithm]),
            Keys::jwks(JWKS, &[algorithm]),
        ] {
            let tokens = tokens(&[algorithm], keys.unwrap());
            let expected = Some("https://id.example 42".to_owned());
            assert_eq!(subject(&tokens, &token), expected, "{algorithm:?}");
            let mut broken = token.clone().into_bytes();
            let middle = broken.len() - 20;
            broken[middle] = if broken[middle] == b'A' { b'B' } else { b'A' };
            assert_eq!(
                subject(&tokens, std::str::from_utf8(&broken).unwrap()),
                None
            );
        }
    }
    assert_eq!(
        subject(&shared(), &by_secret(&claims())).as_deref(),
        Some("https://id.example 42")
    );
}

#[test]
fn only_pinned_algorithms_are_believed() {
    let rsa = EncodingKey::from_rsa_pem(RSA).unwrap();
    let believed = tokens(
        &[Algorithm::RS256],
        Keys::jwks(JWKS, &[Algorithm::RS256]).unwrap(),
    );
    let token = |algorithm| signed(&Header::new(algorithm), &rsa, &claims());
    assert!(subject(&believed, &token(Algorithm::RS256)).is_some());
    assert_eq!(subject(&believed, &token(Algorithm::RS384)), None);
    // The public key as a shared secret, and the shared secret that the key set shows.
    for secret in [RSA_PUBLIC, b"a secret that everybody may read"] {
        let key = EncodingKey::from_secret(secret).unwrap();
        for kid in [None, Some("shared".to_owned()), Some("rsa".to_owned())] {
            let header = Header {
                kid,
                ..Header::new(Algorithm::HS256)
            };
            assert_eq!(subject(&believed, &signed(&header, &key, &claims())), None);
        }
    }
    // `{"alg":"none"}`, with and without a signature.
    let token = token(Algorithm::RS256);
    let parts: Vec<&str> = token.split('.').collect();
    for none in ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJOb25lIn0"] {
        assert_eq!(subject(&believed, &format!("{none}.{}.", parts[1])), None);
        assert_eq!(
            subject(&believed, &format!("{none}.{}.{}", parts[1], parts[2])),
            None
        );
    }
}

#[test]
fn a_key_set_is_searched_by_the_name_of_the_key() {
    let rsa = EncodingKey::from_rsa_pem(RSA).unwrap();
    let all = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];
    let tokens = tokens(&all, Keys::jwks(JWKS, &all).unwrap());
    for (kid, believed) in [
        (Some("rsa"), true),
        (None, true),
        (Some("ec"), false),
        (Some("?"), false),
    ] {
        let header = Header {
            kid: kid.map(str::to_owned),
            ..Header::new(Algorithm::RS256)
        };
        let token = signed(&header, &rsa, &claims());
        assert_eq!(subject(&tokens, &token).is_some(), believed, "{kid:?}");
    }
}

#[test]
fn expired_foreign_and_broken_tokens_are_not_believed() {
    let tokens = shared();
    for (changes, believed) in [
        (json!({}), true),
        (json!({"aud": ["x", "other"]}), true),
        (json!({"exp": 501}), true),
        (json!({"exp": 500.9}), false),
        (json!({"exp": 500}), false),
        (json!({"exp": "1000"}), false),
        (json!({"exp": -1}), false),
        (json!({"exp": 1e300}), false),
        (json!({"exp": null}), false),
        (json!({"nbf": 560}), true),
        (json!({"nbf": 561}), false),
        (json!({"nbf": 1.5e20}), false),
        (json!({"nbf": "soon"}), false),
        (json!({"aud": "elsewhere"}), false),
        (json!({"aud": null}), false),
        (json!({"iss": "https://evil.example"}), false),
        (json!({"iss": null}), false),
    ] {
        let token = by_secret(&with(changes.clone()));
        assert_eq!(
            tokens.verified(&token, at(500)).is_some(),
            believed,
            "{changes}"
        );
    }
    let long = by_secret(&with(json!({"padding": "x".repeat(LONGEST)})));
    let deep = format!("eyJhbGciOiJIUzI1NiJ9.{}.x", "W1tb".repeat(1_000));
    for token in ["", ".", "..", "a.b", "a.b.c", "eyJ.eyJ.eyJ", &long, &deep] {
        assert!(tokens.verified(token, at(500)).is_none());
    }
}

#[test]
fn a_token_is_verified_once_and_believed_until_it_expires() {
    let tokens = shared();
    let token = by_secret(&claims());
    let first = tokens.verified(&token, at(500)).unwrap();
    let again = tokens.verified(&token, at(999)).unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    assert!(tokens.verified(&token, at(1_000)).is_none());
}

#[test]
fn tokens_without_a_subject_have_none() {
    for sub in [json!(null), json!(""), json!(" ")] {
        let token = by_secret(&with(json!({"sub": sub})));
        assert!(shared().verified(&token, at(1)).unwrap().subject.is_none());
    }
}

#[test]
fn claims_are_text_numbers_and_booleans() {
    let mut tokens = shared();
    let claims = ["tier", "level", "staff", "roles", "gone"].map(|name| tokens.claim(name));
    assert_eq!(tokens.claim("level"), claims[1]);
    let token = by_secret(&with(
        json!({"level": 7, "staff": true, "roles": ["a"], "tier": " pro "}),
    ));
    let verified = tokens.verified(&token, at(1)).unwrap();
    let values = claims.map(|claim| verified.get(claim));
    assert_eq!(values, [Some("pro"), Some("7"), Some("true"), None, None]);
}

#[test]
fn keys_that_cannot_verify_are_refused() {
    let rs = [Algorithm::RS256];
    let keys = |result: Result<Keys, KeyError>| result.map(|_| ());
    assert_eq!(
        keys(Keys::secret(b" short \n")),
        Err(KeyError::ShortSecret(5))
    );
    assert_eq!(keys(Keys::pem(RSA, &rs)), Err(KeyError::Private));
    assert_eq!(keys(Keys::pem(EC_PUBLIC, &rs)), Err(KeyError::NoPem));
    assert_eq!(keys(Keys::pem(b"junk", &rs)), Err(KeyError::NoPem));
    assert_eq!(
        keys(Keys::pem(EC_PUBLIC, &[Algorithm::ES384])),
        Err(KeyError::NoPem)
    );
    let several = [Algorithm::RS256, Algorithm::ES256];
    assert_eq!(
        keys(Keys::pem(RSA_PUBLIC, &several)),
        Err(KeyError::SeveralKinds)
    );
    assert_eq!(keys(Keys::jwks(b"{}", &rs)), Err(KeyError::NoKeySet));
    assert_eq!(
        keys(Keys::jwks(b"{\"keys\": []}", &rs)),
        Err(KeyError::NoKey)
    );
    assert_eq!(
        keys(Keys::jwks(JWKS, &[Algorithm::ES384])),
        Err(KeyError::NoKey)
    );
    assert_eq!(format!("{:?}", Keys::secret(SECRET).unwrap()), "Keys(1)");
    assert_eq!(
        format!("{:?}", shared()),
        "Tokens([\"https://id.example\"])"
    );
}
