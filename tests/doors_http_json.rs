//! The JSON of the HTTP door against arbitrary bodies.

// Tests assert by panicking, and their helpers are not in test functions.
#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate::engine::Subject;
use tidegate::protocol::http::{Asked, Reply};

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

proptest! {
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
