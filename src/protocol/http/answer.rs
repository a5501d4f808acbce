use std::borrow::Cow;

use serde::Serialize;

use crate::engine::{Decision, Outcome};
use crate::protocol::text::Shown;
use crate::units::{Nanos, Timestamp};

use super::{BadRequest, Check};

/// How `X-RateLimit-Reset` tells when everything is available again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetStyle {
    /// Seconds since the Unix epoch.
    #[default]
    Epoch,
    /// Seconds from now.
    Delta,
}

/// What the HTTP door answers: all but HTTP itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The `X-RateLimit-` headers, where a limit applied.
    pub limit: Option<LimitHeaders>,
    /// `Retry-After` in seconds, where waiting cures.
    pub retry_after: Option<u64>,
    /// The body: JSON.
    pub body: Vec<u8>,
}

/// The values of `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitHeaders {
    /// The most that can be admitted at once.
    pub limit: u64,
    /// What is left.
    pub remaining: u64,
    /// When everything is available again, in seconds, rounded up.
    pub reset: u64,
}

/// The figures and words of one decision, as the JSON body tells them.
#[derive(Clone, Debug, Serialize)]
pub struct Answer<'a> {
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    rule: Option<Cow<'a, str>>,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_after_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    /// How long the caller must wait before it acts: leaky buckets only.
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    stale_ms: Option<u64>,
}

impl<'a> Answer<'a> {
    /// What `decision` says to `check`.
    pub fn new(decision: &Decision<'a>, check: &Check<'_>) -> Answer<'a> {
        let rule = decision.limit.as_ref().map(|limit| limit.rule);
        let limit = decision.figures();
        let (error, message) = match refusal(decision.outcome, rule.unwrap_or_default(), check) {
            Some((error, message)) => (Some(error), Some(message)),
            None => (None, None),
        };
        let delay = match decision.outcome {
            Outcome::Allowed { delay } if !delay.is_zero() => Some(delay),
            _ => None,
        };
        Answer {
            allowed: decision.outcome.is_allowed(),
            error,
            message,
            rule: rule.map(Cow::Borrowed),
            limit: limit.map(|limit| limit.limit),
            remaining: limit.map(|limit| limit.remaining),
            reset_after_ms: limit.map(|limit| limit.reset_after.as_millis_ceil()),
            retry_after_ms: decision.outcome.retry_after().map(Nanos::as_millis_ceil),
            delay_ms: delay.map(Nanos::as_millis_ceil),
            stale_ms: decision.stale.map(Nanos::as_millis_ceil),
        }
    }
}

impl Answer<'_> {
    /// The same, to be kept when the rules are let go.
    pub fn into_owned(self) -> Answer<'static> {
        Answer {
            rule: self.rule.map(|rule| Cow::Owned(rule.into_owned())),
            ..self
        }
    }
}

/// The word and the sentence for what is not allowed.
fn refusal(outcome: Outcome, rule: &str, check: &Check<'_>) -> Option<(&'static str, String)> {
    Some(match outcome {
        Outcome::Allowed { .. } | Outcome::Unlimited | Outcome::Bypassed => return None,
        Outcome::Refused { retry_after } => (
            "rate_limit_exceeded",
            format!(
                "rate limit of rule '{rule}' exceeded; retry after {} s",
                wait(retry_after)
            ),
        ),
        Outcome::Impossible => (
            "cost_above_limit",
            format!("the cost is above the limit of rule '{rule}': waiting does not help"),
        ),
        Outcome::Banned => (
            "banned",
            format!("rule '{rule}' admits nothing: waiting does not help"),
        ),
        Outcome::Unavailable => (
            "store_unavailable",
            format!(
                "rule '{rule}' does not admit this without the store, which is lost, late or has forgotten"
            ),
        ),
        Outcome::UnknownRule => {
            let asked = Shown(check.rule().unwrap_or_default().as_bytes());
            ("unknown_rule", format!("there is no rule '{asked}'"))
        }
        Outcome::Unidentified => (
            "unidentified",
            "a rule insists on knowing the caller: send the API key, token or other field that it \
             counts by"
                .to_owned(),
        ),
    })
}

/// Whole seconds to wait, at least one: `Retry-After` has no smaller unit.
fn wait(span: Nanos) -> u64 {
    span.as_secs_ceil().max(1)
}

impl Reply {
    /// The answer to a single check.
    pub fn one(decision: &Decision<'_>, check: &Check<'_>, style: ResetStyle) -> Reply {
        let (status, retry_after) = match decision.outcome {
            Outcome::Allowed { .. } | Outcome::Unlimited | Outcome::Bypassed => (200, None),
            Outcome::Refused { retry_after } => (429, Some(wait(retry_after))),
            Outcome::Impossible | Outcome::Banned => (429, None),
            Outcome::Unavailable => (503, Some(1)),
            Outcome::UnknownRule => (404, None),
            Outcome::Unidentified => (401, None),
        };
        Reply {
            status,
            limit: decision.figures().map(|limit| LimitHeaders {
                limit: limit.limit,
                remaining: limit.remaining,
                reset: reset(decision.now, limit.reset_after, style),
            }),
            retry_after,
            body: json(&Answer::new(decision, check)),
        }
    }

    /// The answers to a batch, in the order of its checks.
    pub fn batch(answers: &[Answer<'_>]) -> Reply {
        #[derive(Serialize)]
        struct Batch<'a> {
            results: &'a [Answer<'a>],
        }
        Reply {
            status: 200,
            limit: None,
            retry_after: None,
            body: json(&Batch { results: answers }),
        }
    }

    /// The answer to a body that cannot be understood.
    pub fn bad_request(error: &BadRequest) -> Reply {
        match error {
            BadRequest::TooLarge(_) => Reply::error(413, "body_too_large", &error.to_string()),
            _ => Reply::error(400, "bad_request", &error.to_string()),
        }
    }

    /// An error that is no decision. `message` holds nothing of a client's unescaped.
    pub fn error(status: u16, error: &str, message: &str) -> Reply {
        #[derive(Serialize)]
        struct Error<'a> {
            error: &'a str,
            message: &'a str,
        }
        Reply {
            status,
            limit: None,
            retry_after: None,
            body: json(&Error { error, message }),
        }
    }
}

fn reset(now: Timestamp, reset_after: Nanos, style: ResetStyle) -> u64 {
    match style {
        ResetStyle::Epoch => now.after(reset_after).as_secs_ceil(),
        ResetStyle::Delta => reset_after.as_secs_ceil(),
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    let mut body = Vec::with_capacity(192);
    // Strings and numbers into a `Vec`: nothing can fail.
    let _ = serde_json::to_writer(&mut body, value);
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::DescribedLimit;
    use crate::protocol::http::Asked;
    use crate::units::Series;

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
                period: Nanos::from_secs(60),
            }),
            stale: Some(Nanos::from_millis(7)),
            now: NOW,
        }
    }

    fn reply(decision: &Decision<'_>, style: ResetStyle) -> Reply {
        match Asked::decode(br#"{"rule":"a\n'","key":"k"}"#) {
            Ok(Asked::One(check)) => Reply::one(decision, &check, style),
            other => panic!("{other:?}"),
        }
    }

    fn body(reply: &Reply) -> String {
        String::from_utf8(reply.body.clone()).unwrap()
    }

    const ALLOWED: Outcome = Outcome::Allowed { delay: Nanos::ZERO };

    fn refused(retry_after: Nanos) -> Outcome {
        Outcome::Refused { retry_after }
    }

    #[test]
    fn what_is_allowed_is_200_with_the_figures_of_its_limit() {
        let said = reply(
            &decision(ALLOWED, Nanos::from_millis(12_300)),
            ResetStyle::Epoch,
        );
        assert_eq!((said.status, said.retry_after), (200, None));
        assert_eq!(
            body(&said),
            r#"{"allowed":true,"rule":"orders","limit":10,"remaining":3,"reset_after_ms":12300,"retry_after_ms":null,"stale_ms":7}"#
        );
    }

    #[test]
    fn reset_is_an_epoch_or_a_delta_and_rounded_up_either_way() {
        // 12.3 s from 0.4 s past the second ends 0.7 s past the twelfth.
        let decision = decision(ALLOWED, Nanos::from_millis(12_300));
        let reset = |style| reply(&decision, style).limit.map(|limit| limit.reset);
        assert_eq!(reset(ResetStyle::Epoch), Some(1_700_000_013));
        assert_eq!(reset(ResetStyle::Delta), Some(13));
        assert_eq!(ResetStyle::default(), ResetStyle::Epoch);
    }

    #[test]
    fn retry_after_is_whole_seconds_rounded_up_and_at_least_one() {
        for (wait, seconds) in [
            (1, 1),
            (400, 1),
            (1_000, 1),
            (1_200, 2),
            (59_999, 60),
            (0, 1),
        ] {
            let refused = refused(Nanos::from_millis(wait));
            let said = reply(&decision(refused, Nanos::from_secs(60)), ResetStyle::Epoch);
            assert_eq!(
                (said.status, said.retry_after),
                (429, Some(seconds)),
                "{wait} ms"
            );
        }
    }

    #[test]
    fn a_refusal_carries_what_a_success_carries_and_the_wait() {
        let refused = decision(refused(Nanos::from_millis(1_200)), Nanos::from_secs(60));
        let said = reply(&refused, ResetStyle::Delta);
        let headers = LimitHeaders {
            limit: 10,
            remaining: 3,
            reset: 60,
        };
        assert_eq!(said.limit, Some(headers));
        assert_eq!(
            body(&said),
            r#"{"allowed":false,"error":"rate_limit_exceeded","message":"rate limit of rule 'orders' exceeded; retry after 2 s","rule":"orders","limit":10,"remaining":3,"reset_after_ms":60000,"retry_after_ms":1200,"stale_ms":7}"#
        );
    }

    #[test]
    fn where_waiting_never_helps_there_is_no_wait_and_a_word_of_its_own() {
        for (outcome, error) in [
            (Outcome::Impossible, "cost_above_limit"),
            (Outcome::Banned, "banned"),
        ] {
            let said = reply(&decision(outcome, Nanos::ZERO), ResetStyle::Epoch);
            assert_eq!((said.status, said.retry_after), (429, None));
            assert!(said.limit.is_some());
            let text = body(&said);
            assert!(text.contains(&format!(r#""error":"{error}""#)), "{text}");
            assert!(text.contains(r#""retry_after_ms":null"#), "{text}");
        }
    }

    #[test]
    fn a_lost_store_is_503_and_an_unknown_rule_404() {
        let said = reply(
            &decision(Outcome::Unavailable, Nanos::ZERO),
            ResetStyle::Epoch,
        );
        assert_eq!(
            (said.status, said.retry_after, said.limit),
            (503, Some(1), None)
        );
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
        let said = reply(&unknown, ResetStyle::Epoch);
        assert_eq!((said.status, said.limit), (404, None));
        assert!(
            body(&said).contains(r"there is no rule 'a\\x0a\\''"),
            "{}",
            body(&said)
        );
    }

    #[test]
    fn a_caller_who_is_nobody_is_a_401_and_no_limit() {
        let nobody = Decision {
            limit: None,
            ..decision(Outcome::Unidentified, Nanos::ZERO)
        };
        let said = reply(&nobody, ResetStyle::Epoch);
        assert_eq!(
            (said.status, said.limit, said.retry_after),
            (401, None, None)
        );
        let text = body(&said);
        assert!(
            text.starts_with(
                r#"{"allowed":false,"error":"unidentified","message":"a rule insists on"#
            ),
            "{text}"
        );
    }

    #[test]
    fn without_a_limit_there_are_nulls_and_no_headers() {
        let unlimited = Decision {
            limit: None,
            stale: None,
            ..decision(Outcome::Unlimited, Nanos::ZERO)
        };
        let said = reply(&unlimited, ResetStyle::Epoch);
        assert_eq!(
            (said.status, said.limit, said.retry_after),
            (200, None, None)
        );
        assert_eq!(
            body(&said),
            r#"{"allowed":true,"rule":null,"limit":null,"remaining":null,"reset_after_ms":null,"retry_after_ms":null,"stale_ms":null}"#
        );
    }

    #[test]
    fn a_leaky_bucket_tells_the_delay() {
        let delay = Nanos::new(250_000_001);
        let said = reply(
            &decision(Outcome::Allowed { delay }, Nanos::ZERO),
            ResetStyle::Epoch,
        );
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
        assert_eq!(
            (said.status, said.limit, said.retry_after),
            (200, None, None)
        );
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
}
