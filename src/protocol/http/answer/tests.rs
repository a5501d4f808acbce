use super::*;
use crate::engine::DescribedLimit;
use crate::protocol::headers::FieldName;
use crate::protocol::http::Asked;
use crate::units::{Answers, Refusal, RefusalBody, Series, Template, Timestamp};

const NOW: Timestamp = Timestamp::from_nanos(1_700_000_000_400_000_000);

fn decision(outcome: Outcome, reset_after: Nanos) -> Decision<'static> {
    Decision {
        outcome,
        limit: Some(DescribedLimit {
            rule: "orders",
            name: "free/1m",
            series: Series(1),
            limit: 10,
            remaining: 3,
            reset_after,
            amount: 10,
            period: Nanos::from_secs(60),
            answers: Answers::of_no_rule(),
        }),
        stale: Some(Nanos::from_millis(7)),
        now: NOW,
        besides: None,
    }
}

fn reply(decision: &Decision<'_>) -> Reply {
    match Asked::decode(br#"{"rule":"a\n'","key":"k"}"#) {
        Ok(Asked::One(check)) => Reply::one(decision, &check),
        other => panic!("{other:?}"),
    }
}

/// The answer to a check that asks for the response to pass on, as JSON.
fn with_response(decision: &Decision<'_>) -> (Reply, serde_json::Value) {
    let Ok(Asked::One(check)) = Asked::decode(br#"{"rule":"r","key":"k","response":true}"#) else {
        panic!("no check");
    };
    let reply = Reply::one(decision, &check);
    let json = serde_json::from_slice(&reply.body).unwrap();
    (reply, json)
}

fn body(reply: &Reply) -> String {
    String::from_utf8(reply.body.clone()).unwrap()
}

fn field(reply: &Reply, name: FieldName) -> Option<&str> {
    let found = reply.fields.iter().find(|field| field.name == name);
    found.map(|field| &*field.value)
}

fn retry_after(reply: &Reply) -> Option<&str> {
    field(reply, FieldName::RetryAfter)
}

/// Answers whose refusals have `status` and, as `content_type`, `text`.
fn refusing(status: u16, own: Option<(&str, &str)>) -> Answers {
    let body = own.map(|(content_type, text)| RefusalBody {
        content_type: content_type.into(),
        text: Template::parse(text).unwrap(),
    });
    Answers {
        refusal: Some(Refusal { status, body }),
        ..Answers::default()
    }
}

/// `decision`, of a limit that is answered by `answers`.
fn answered<'a>(decision: &Decision<'a>, answers: &'a Answers) -> Decision<'a> {
    Decision {
        limit: decision
            .limit
            .map(|limit| DescribedLimit { answers, ..limit }),
        ..decision.clone()
    }
}

const ALLOWED: Outcome = Outcome::Allowed { delay: Nanos::ZERO };

fn refused(retry_after: Nanos) -> Outcome {
    Outcome::Refused { retry_after }
}

#[test]
fn what_is_allowed_is_200_with_the_figures_of_its_limit() {
    let said = reply(&decision(ALLOWED, Nanos::from_millis(12_300)));
    assert_eq!((said.status, retry_after(&said)), (200, None));
    assert_eq!(said.content_type, "application/json");
    assert_eq!(
        body(&said),
        r#"{"allowed":true,"rule":"orders","limit":10,"remaining":3,"reset_after_ms":12300,"retry_after_ms":null,"stale_ms":7,"limit_name":"free/1m"}"#
    );
}

#[test]
fn a_refusal_carries_what_a_success_carries_and_the_wait() {
    let refused = decision(refused(Nanos::from_millis(1_200)), Nanos::from_secs(60));
    let said = reply(&refused);
    assert_eq!(retry_after(&said), Some("2"));
    assert_eq!(field(&said, FieldName::XLimit), Some("10"));
    assert_eq!(field(&said, FieldName::XRemaining), Some("3"));
    assert_eq!(field(&said, FieldName::XReset), Some("1700000061"));
    assert_eq!(
        body(&said),
        r#"{"allowed":false,"error":"rate_limit_exceeded","message":"rate limit of rule 'orders' exceeded; retry after 2 s","rule":"orders","limit":10,"remaining":3,"reset_after_ms":60000,"retry_after_ms":1200,"stale_ms":7,"limit_name":"free/1m"}"#
    );
}

#[test]
fn where_waiting_never_helps_there_is_no_wait_and_a_word_of_its_own() {
    for (outcome, error) in [
        (Outcome::Impossible, "cost_above_limit"),
        (Outcome::Banned, "banned"),
    ] {
        let said = reply(&decision(outcome, Nanos::ZERO));
        assert_eq!((said.status, retry_after(&said)), (429, None));
        assert_eq!(field(&said, FieldName::XLimit), Some("10"));
        let text = body(&said);
        assert!(text.contains(&format!(r#""error":"{error}""#)), "{text}");
        assert!(text.contains(r#""retry_after_ms":null"#), "{text}");
    }
}

#[test]
fn a_lost_store_is_503_and_an_unknown_rule_404() {
    let said = reply(&decision(Outcome::Unavailable, Nanos::ZERO));
    assert_eq!((said.status, retry_after(&said)), (503, Some("1")));
    assert_eq!(field(&said, FieldName::XLimit), None);
    let text = body(&said);
    assert!(text.contains(r#""error":"store_unavailable""#), "{text}");
    assert!(
        text.contains(
            r#""rule":"orders","limit":null,"remaining":null,"reset_after_ms":null,"retry_after_ms":null"#
        ),
        "{text}"
    );
    let unknown = Decision {
        limit: None,
        ..decision(Outcome::UnknownRule, Nanos::ZERO)
    };
    let said = reply(&unknown);
    assert_eq!((said.status, said.fields.len()), (404, 0));
    assert!(
        body(&said).contains(r"there is no rule 'a\\x0a\\''"),
        "{}",
        body(&said)
    );
}

#[test]
fn without_a_limit_there_are_nulls_and_no_headers() {
    let unlimited = Decision {
        limit: None,
        stale: None,
        ..decision(Outcome::Unlimited, Nanos::ZERO)
    };
    let said = reply(&unlimited);
    assert_eq!((said.status, said.fields.len()), (200, 0));
    assert_eq!(
        body(&said),
        r#"{"allowed":true,"rule":null,"limit":null,"remaining":null,"reset_after_ms":null,"retry_after_ms":null,"stale_ms":null,"limit_name":null}"#
    );
}

#[test]
fn a_leaky_bucket_tells_the_delay() {
    let delay = Nanos::new(250_000_001);
    let said = reply(&decision(Outcome::Allowed { delay }, Nanos::ZERO));
    assert_eq!(said.status, 200);
    assert!(body(&said).contains(r#""delay_ms":251"#));
}

#[test]
fn a_batch_is_200_with_one_result_each_in_order() {
    let Ok(Asked::Batch(checks)) =
        Asked::decode(br#"{"checks":[{"rule":"a","key":"k"},{"rule":"b","key":"k"}]}"#)
    else {
        panic!("no batch");
    };
    let answers = [
        Answer::new(&decision(ALLOWED, Nanos::ZERO), &checks[0]),
        Answer::new(&decision(Outcome::Banned, Nanos::ZERO), &checks[1]),
    ];
    let said = Reply::batch(&answers);
    assert_eq!((said.status, said.fields.len()), (200, 0));
    let text = body(&said);
    assert!(
        text.starts_with(r#"{"results":[{"allowed":true,"#),
        "{text}"
    );
    assert!(
        text.contains(r#"},{"allowed":false,"error":"banned","#),
        "{text}"
    );
}

#[test]
fn a_refusal_has_the_status_that_its_rule_wants_and_a_lost_store_its_own() {
    let answers = refusing(403, None);
    for (outcome, status) in [
        (ALLOWED, 200),
        (refused(Nanos::from_secs(1)), 403),
        (Outcome::Impossible, 403),
        (Outcome::Banned, 403),
        (Outcome::Unavailable, 503),
    ] {
        let said = reply(&answered(&decision(outcome, Nanos::ZERO), &answers));
        assert_eq!(said.status, status, "{outcome:?}");
        let json: serde_json::Value = serde_json::from_slice(&said.body).unwrap();
        assert_eq!(json["allowed"], status == 200);
    }
}

#[test]
fn a_refusal_has_the_body_that_its_rule_wants_with_its_values() {
    let text = "{error}: {message}; {rule} {limit_name} {limit} {remaining} {reset_after} \
                {retry_after} {retry_after_ms}";
    let answers = refusing(429, Some(("text/plain; charset=utf-8", text)));
    let curable = decision(
        refused(Nanos::from_millis(1_200)),
        Nanos::from_millis(59_001),
    );
    let said = reply(&answered(&curable, &answers));
    assert_eq!(said.content_type, "text/plain; charset=utf-8");
    assert_eq!(
        body(&said),
        "rate_limit_exceeded: rate limit of rule 'orders' exceeded; retry after 2 s; \
         orders free/1m 10 3 60 2 1200"
    );
    let never = decision(Outcome::Banned, Nanos::ZERO);
    let said = reply(&answered(&never, &answers));
    assert!(body(&said).ends_with("orders free/1m 10 3 0 never never"));
    // What is allowed, and what the store is at fault for, is told as ever.
    for outcome in [ALLOWED, Outcome::Unavailable] {
        let said = reply(&answered(&decision(outcome, Nanos::ZERO), &answers));
        assert_eq!(said.content_type, "application/json", "{outcome:?}");
    }
}

#[test]
fn a_body_of_json_stays_json_whatever_a_rule_is_called_and_however_long_the_wait() {
    let text = r#"{"rule":"{rule}","wait":{retry_after},"of":{"limit":{limit}}}"#;
    let answers = refusing(429, Some(("application/problem+json", text)));
    let named = |outcome| {
        let mut decision = answered(&decision(outcome, Nanos::ZERO), &answers);
        if let Some(limit) = &mut decision.limit {
            limit.rule = r#"day "max" \"#;
        }
        serde_json::from_slice::<serde_json::Value>(&reply(&decision).body).unwrap()
    };
    let wanted =
        |wait| serde_json::json!({"rule": r#"day "max" \"#, "wait": wait, "of": {"limit": 10}});
    assert_eq!(named(refused(Nanos::from_secs(9))), wanted(Some(9)));
    assert_eq!(named(Outcome::Impossible), wanted(None));
}

#[test]
fn whoever_asks_for_the_response_is_told_the_headers_and_of_a_refusal_status_and_body() {
    let (_, json) = with_response(&decision(ALLOWED, Nanos::from_secs(60)));
    let headers = serde_json::json!({
        "X-RateLimit-Limit": "10",
        "X-RateLimit-Remaining": "3",
        "X-RateLimit-Reset": "1700000061",
        "RateLimit-Policy": "\"orders/free/1m\";q=10;w=60",
        "RateLimit": "\"orders/free/1m\";r=3;t=60",
    });
    assert_eq!(json["response"], serde_json::json!({"headers": headers}));

    let refused = decision(refused(Nanos::from_secs(9)), Nanos::from_secs(60));
    let (reply, json) = with_response(&refused);
    let response = &json["response"];
    assert_eq!((reply.status, &response["status"]), (429, &429.into()));
    assert_eq!(response["headers"]["Retry-After"], "9");
    assert_eq!(response["headers"]["Content-Type"], "application/json");
    assert_eq!(
        response["body"],
        r#"{"error":"rate_limit_exceeded","message":"rate limit of rule 'orders' exceeded; retry after 9 s"}"#
    );

    let answers = refusing(403, Some(("text/html", "<p>{limit}</p>")));
    let (reply, json) = with_response(&answered(&refused, &answers));
    let response = &json["response"];
    assert_eq!((reply.status, &response["status"]), (403, &403.into()));
    assert_eq!(reply.content_type, "application/json");
    assert_eq!(json["error"], "rate_limit_exceeded");
    assert_eq!(response["headers"]["Content-Type"], "text/html");
    assert_eq!(response["body"], "<p>10</p>");
}

#[test]
fn a_batch_holds_the_responses_of_the_checks_that_want_them() {
    let Ok(Asked::Batch(checks)) = Asked::decode(
        br#"{"response":true,"checks":[{"rule":"a","key":"k"},{"rule":"b","key":"k","response":false}]}"#,
    ) else {
        panic!("no batch");
    };
    let wants: Vec<bool> = checks.iter().map(Check::wants_response).collect();
    assert_eq!(wants, [true, false]);
    let unknown = Decision {
        limit: None,
        ..decision(Outcome::UnknownRule, Nanos::ZERO)
    };
    // That a rule is missing is the asker's business and not its caller's.
    let answer = serde_json::to_value(Answer::new(&unknown, &checks[0])).unwrap();
    assert_eq!(answer.get("response"), None);
}
