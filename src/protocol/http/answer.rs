use std::borrow::Cow;

use serde::Serialize;

use super::refusal::{self, Refused};
use super::{BadRequest, Check};
use crate::engine::{Decision, Outcome};
use crate::protocol::headers::{self, Field, FieldName};
use crate::units::Nanos;

/// The media type of what is not the operator's own.
const JSON: &str = "application/json";

/// What the HTTP door answers: all but HTTP itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The fields that tell of the decision.
    pub fields: Vec<Field>,
    /// The value of `Content-Type`.
    pub content_type: Cow<'static, str>,
    /// The body.
    pub body: Vec<u8>,
}

/// The figures and words of one decision, as the JSON body tells them.
#[derive(Clone, Debug, Serialize)]
pub struct Answer<'a> {
    /// Of a check.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<bool>,
    /// Of a report: always true, but where there is nowhere to record it.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<bool>,
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
    /// The name of the limit that decided, within its rule.
    limit_name: Option<Cow<'a, str>>,
    /// What the caller is to be told, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Response>,
}

/// The HTTP response that an application passes on to its caller.
#[derive(Clone, Debug, Serialize)]
struct Response {
    /// What is allowed has the application's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(serialize_with = "as_map")]
    headers: Vec<(&'static str, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

fn as_map<S: serde::Serializer>(
    headers: &[(&'static str, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.iter().map(|(name, value)| (name, value)))
}

impl<'a> Answer<'a> {
    /// What `decision` says to `check`.
    pub fn new(decision: &Decision<'a>, check: &Check<'_>) -> Answer<'a> {
        let refused = Refused::of(decision, check);
        let response = (check.wants_response() && decision.outcome != Outcome::UnknownRule)
            .then(|| Response::new(decision, refused.as_ref()));
        Answer::told(decision, refused, response)
    }

    /// What `decision` says to a report: the figures after it, and how long a check would
    /// have to wait now.
    pub fn recorded(decision: &Decision<'a>, report: &Check<'_>) -> Answer<'a> {
        let refused = Refused::of(decision, report).filter(|_| !is_recorded(decision));
        Answer {
            allowed: None,
            recorded: Some(is_recorded(decision)),
            delay_ms: None,
            ..Answer::told(decision, refused, None)
        }
    }

    fn told(
        decision: &Decision<'a>,
        refused: Option<Refused>,
        response: Option<Response>,
    ) -> Answer<'a> {
        let decided = decision.limit.as_ref();
        let limit = decision.figures();
        let (error, message) = match refused {
            Some(refused) => (Some(refused.error), Some(refused.message)),
            None => (None, None),
        };
        let delay = match decision.outcome {
            Outcome::Allowed { delay } if !delay.is_zero() => Some(delay),
            _ => None,
        };
        Answer {
            allowed: Some(decision.outcome.is_allowed()),
            recorded: None,
            error,
            message,
            rule: decided.map(|limit| Cow::Borrowed(limit.rule)),
            limit: limit.map(|limit| limit.limit),
            remaining: limit.map(|limit| limit.remaining),
            reset_after_ms: limit.map(|limit| limit.reset_after.as_millis_ceil()),
            retry_after_ms: decision.outcome.retry_after().map(Nanos::as_millis_ceil),
            delay_ms: delay.map(Nanos::as_millis_ceil),
            stale_ms: decision.stale.map(Nanos::as_millis_ceil),
            limit_name: decided.map(|limit| Cow::Borrowed(limit.name)),
            response,
        }
    }
}

impl Answer<'_> {
    /// The same, to be kept when the rules are let go.
    pub fn into_owned(self) -> Answer<'static> {
        let owned = |name: Option<Cow<'_, str>>| name.map(|name| Cow::Owned(name.into_owned()));
        Answer {
            rule: owned(self.rule),
            limit_name: owned(self.limit_name),
            ..self
        }
    }
}

impl Response {
    fn new(decision: &Decision<'_>, refused: Option<&Refused>) -> Response {
        let told = headers::fields(decision);
        let mut headers: Vec<_> = told
            .into_iter()
            .map(|field| (field.name.text(), field.value))
            .collect();
        let Some(refused) = refused else {
            return Response {
                status: None,
                headers,
                body: None,
            };
        };
        let (content_type, body) = match refusal::body(decision, refused) {
            Some((content_type, body)) => (content_type.to_owned(), body),
            None => (JSON.to_owned(), refused.json()),
        };
        headers.push(("Content-Type", content_type));
        Response {
            status: Some(refusal::status(decision)),
            headers,
            body: Some(body),
        }
    }
}

impl Reply {
    /// The answer to a single check.
    pub fn one(decision: &Decision<'_>, check: &Check<'_>) -> Reply {
        let fields = headers::fields(decision);
        let refused = Refused::of(decision, check);
        // Whoever asks for the response wants to pass it on, not to be given it.
        let own = refused
            .as_ref()
            .filter(|_| !check.wants_response())
            .and_then(|refused| refusal::body(decision, refused));
        let (content_type, body) = match own {
            Some((content_type, body)) => (content_type.to_owned().into(), body.into_bytes()),
            None => (JSON.into(), json(&Answer::new(decision, check))),
        };
        Reply {
            status: refusal::status(decision),
            fields,
            content_type,
            body,
        }
    }

    /// The answer to a single report.
    pub fn recorded(decision: &Decision<'_>, report: &Check<'_>) -> Reply {
        let mut fields = headers::fields(decision);
        // Nothing was refused.
        fields.retain(|field| field.name != FieldName::RetryAfter);
        Reply {
            status: if is_recorded(decision) {
                200
            } else {
                refusal::status(decision)
            },
            fields,
            content_type: JSON.into(),
            body: json(&Answer::recorded(decision, report)),
        }
    }

    /// An answer that is no error.
    pub(super) fn ok(answer: &impl Serialize) -> Reply {
        Reply::plain(200, json(answer))
    }

    /// The answers to a batch, in the order of its checks.
    pub fn batch(answers: &[Answer<'_>]) -> Reply {
        #[derive(Serialize)]
        struct Batch<'a> {
            results: &'a [Answer<'a>],
        }
        Reply::plain(200, json(&Batch { results: answers }))
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
        Reply::plain(status, refusal::json(error, message).into_bytes())
    }

    fn plain(status: u16, body: Vec<u8>) -> Reply {
        Reply {
            status,
            fields: Vec::new(),
            content_type: JSON.into(),
            body,
        }
    }
}

/// Whether what was reported is recorded: there is a rule, and a caller if it insists.
const fn is_recorded(decision: &Decision<'_>) -> bool {
    !matches!(
        decision.outcome,
        Outcome::UnknownRule | Outcome::Unidentified | Outcome::IdInUse
    )
}

fn json(value: &impl Serialize) -> Vec<u8> {
    let mut body = Vec::with_capacity(256);
    // Strings and numbers into a `Vec`: nothing can fail.
    let _ = serde_json::to_writer(&mut body, value);
    body
}

#[cfg(test)]
mod tests;
