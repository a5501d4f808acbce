//! The JSON of the HTTP door against arbitrary bodies.

// Tests assert by panicking, and their helpers are not in test functions.
#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate::engine::Subject;
use tidegate::protocol::http::{Asked, Check, Deny, Reply};

/// JSON, and text that is nearly JSON, with the names that mean something.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\"rule\"",
            "\"key\"",
            "\"cost\"",
            "\"checks\"",
            "\"request\"",
            "\"headers\"",
            "\"ip\"",
            "\"a\\u0000\"",
            "null",
            "1",
            "-1",
            "1e400",
            "\"\\ud800\"",
        ])
        .prop_map(|token| token.as_bytes().to_vec()),
        vec(any::<u8>(), 0..4),
    ];
    vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

/// Queries and lines of fields, with the names and values that mean something.
fn nearly_a_head() -> impl Strategy<Value = (String, Vec<(&'static str, Vec<u8>)>)> {
    let word = prop_oneof![
        prop::sample::select(vec![
            "ip=",
            "::1",
            "203.0.113.9",
            "&",
            "cost=",
            "1",
            "deny=403",
            "from=forwarded",
            "from=original",
            "%",
            "%3A",
            "%ff",
            "=",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,3}",
    ];
    let name = prop::sample::select(vec![
        "x-forwarded-method",
        "x-forwarded-uri",
        "x-forwarded-host",
        "x-original-method",
        "x-original-uri",
        "x-original-url",
        "host",
        "x-forwarded-for",
    ]);
    let value = prop_oneof![
        prop::sample::select(vec!["GET", "/a", "http://a/a", "://", "http://", " ", ""])
            .prop_map(|value| value.as_bytes().to_vec()),
        vec(any::<u8>(), 0..8),
    ];
    let query = vec(word, 0..12).prop_map(|words| words.concat());
    (query, vec((name, value), 0..8))
}

proptest! {
    #[test]
    fn any_head_is_understood_or_refused_with_a_plain_message((query, lines) in nearly_a_head()) {
        let lines = lines.iter().map(|(name, value)| (*name, value.as_slice()));
        let asked = Check::authorize(Some(&query), lines.clone());
        let Err(error) = asked else {
            // A request is described by its own fields, and by one family of them.
            prop_assert!(lines.clone().any(|(name, _)| name.ends_with("-method")));
            prop_assert!(lines.clone().any(|(name, _)| name.contains("-ur")));
            return Ok(());
        };
        let reply = Reply::bad_request(&error);
        prop_assert_eq!(reply.status, 400);
        let said: Value = serde_json::from_slice(&reply.body).unwrap();
        let message = said["message"].as_str().unwrap();
        prop_assert!(message.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{message}");
        let told = Deny::of(Some("deny=403")).answer(reply);
        prop_assert_eq!((told.status, told.fields.len()), (403, 2));
    }

    #[test]
    fn any_body_is_understood_or_refused_with_a_plain_message(
        body in prop_oneof![nearly_json(), vec(any::<u8>(), 0..200)],
    ) {
        if let Err(error) = Asked::decode(&body) {
            let reply = Reply::bad_request(&error);
            prop_assert_eq!(reply.status, 400);
            let said: Value = serde_json::from_slice(&reply.body).unwrap();
            let message = said["message"].as_str().unwrap();
            prop_assert!(message.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{message}");
            prop_assert!(message.len() < 600);
        }
    }

    #[test]
    fn what_is_stated_is_what_is_asked(
        rule in any::<String>(),
        key in any::<String>(),
        tier in any::<Option<String>>(),
        cost in any::<Option<u64>>(),
    ) {
        let body = json!({"rule": rule, "key": key, "tier": tier, "cost": cost}).to_string();
        let Ok(Asked::One(check)) = Asked::decode(body.as_bytes()) else {
            return Err(TestCaseError::fail("not understood"));
        };
        check.ask(None, |request| {
            prop_assert_eq!(request.cost.get(), cost.unwrap_or(1));
            let Subject::Rule { rule: asked, key: of, tier: within } = request.subject else {
                return Err(TestCaseError::fail("another subject"));
            };
            prop_assert_eq!((asked, of, within), (&*rule, key.as_bytes(), tier.as_deref()));
            Ok(())
        })?;
    }
}
