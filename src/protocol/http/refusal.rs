//! How what is not allowed is answered.

use serde::Serialize;

use super::Check;
use crate::engine::{Decision, Outcome};
use crate::protocol::headers::retry_after;
use crate::protocol::text::Shown;
use crate::units::{Escape, Nanos, Refusal, TemplateValue};

/// The word and the sentence for what is not allowed.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) error: &'static str,
    pub(super) message: String,
}

impl Refused {
    /// Why `decision` does not allow `check`; `None` if it does.
    pub(super) fn of(decision: &Decision<'_>, check: &Check<'_>) -> Option<Refused> {
        let rule = decision.limit.as_ref().map_or("", |limit| limit.rule);
        let (error, message) = match decision.outcome {
            Outcome::Allowed { .. } | Outcome::Unlimited | Outcome::Bypassed => return None,
            Outcome::Refused { .. } => (
                "rate_limit_exceeded",
                format!(
                    "rate limit of rule '{rule}' exceeded; retry after {} s",
                    retry_after(decision.outcome).unwrap_or(1)
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
                let (kind, asked) = check.asked();
                let asked = Shown(asked.as_bytes());
                ("unknown_rule", format!("there is no {kind} '{asked}'"))
            }
            Outcome::Unidentified => (
                "unidentified",
                "a rule insists on knowing the caller: send the API key, token or other field \
                 that it counts by"
                    .to_owned(),
            ),
            Outcome::IdInUse => (
                "id_in_use",
                "the id is that of another check, which was admitted and is remembered, or of this \
                 one, whose answer is still to come"
                    .to_owned(),
            ),
        };
        Some(Refused { error, message })
    }

    /// The word and the sentence alone, as JSON.
    pub(super) fn json(&self) -> String {
        json(self.error, &self.message)
    }
}

/// An error and its message, as JSON.
pub(super) fn json(error: &str, message: &str) -> String {
    #[derive(Serialize)]
    struct Error<'a> {
        error: &'a str,
        message: &'a str,
    }
    // Strings: nothing can fail.
    serde_json::to_string(&Error { error, message }).unwrap_or_default()
}

/// The status code that tells of `decision`.
pub(super) fn status(decision: &Decision<'_>) -> u16 {
    match decision.outcome {
        Outcome::Allowed { .. } | Outcome::Unlimited | Outcome::Bypassed => 200,
        Outcome::Refused { .. } | Outcome::Impossible | Outcome::Banned => {
            of_rule(decision).map_or(Refusal::STATUS, |refusal| refusal.status)
        }
        Outcome::Unavailable => Refusal::STATUS_WITHOUT_STORE,
        Outcome::UnknownRule => 404,
        Outcome::Unidentified => 401,
        Outcome::IdInUse => 409,
    }
}

/// The media type and the text of the body that the rule has for a refusal, if it has one.
/// A lost store is not the caller's doing, and told in our own words.
pub(super) fn body<'d>(decision: &Decision<'d>, refused: &Refused) -> Option<(&'d str, String)> {
    let limit = decision.figures()?;
    let body = of_rule(decision)?.body.as_ref()?;
    let wait = decision.outcome.retry_after();
    let escape = Escape::of(&body.content_type);
    let or_never = |wait: Option<u64>| match (wait, escape) {
        (Some(wait), _) => wait.to_string(),
        (None, Escape::Json) => "null".to_owned(),
        (None, _) => "never".to_owned(),
    };
    let text = body.text.render(escape, |value| match value {
        TemplateValue::Error => refused.error.to_owned(),
        TemplateValue::Message => refused.message.clone(),
        TemplateValue::Rule => limit.rule.to_owned(),
        TemplateValue::LimitName => limit.name.to_owned(),
        TemplateValue::Limit => limit.limit.to_string(),
        TemplateValue::Remaining => limit.remaining.to_string(),
        TemplateValue::ResetAfter => limit.reset_after.as_secs_ceil().to_string(),
        TemplateValue::RetryAfter => or_never(retry_after(decision.outcome)),
        TemplateValue::RetryAfterMs => or_never(wait.map(Nanos::as_millis_ceil)),
    });
    Some((&body.content_type, text))
}

fn of_rule<'d>(decision: &Decision<'d>) -> Option<&'d Refusal> {
    decision.limit.as_ref()?.answers.refusal.as_ref()
}
