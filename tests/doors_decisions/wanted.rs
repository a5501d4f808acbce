//! What a decision of the engine must be told as, by each door.

use std::collections::BTreeMap;

use prost_types::value::Kind as Value;
use serde_json::{Value as Json, json};
use tidegate::engine::{Decision, Outcome};
use tidegate::protocol::grpc::messages::envoy::service::ratelimit::v3::RateLimitResponse;
use tidegate::protocol::grpc::messages::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus,
};
use tidegate::units::{Nanos, ResetStyle, Timestamp};

use super::support::error;
use crate::kit::resp;

/// What the engine decided, as far as any door tells of it.
pub(crate) struct Wanted {
    pub(crate) outcome: Outcome,
    rule: Option<(String, String)>,
    /// What gateways are told the rule for a descriptor is called.
    pub(crate) called: String,
    figures: Option<Figures>,
    stale: Option<Nanos>,
    now: Timestamp,
    /// The status of a refusal, and whether it has a body of the rule's own.
    refusal: u16,
    pub(crate) own_body: bool,
    /// How `X-RateLimit-Reset` tells time, if it is told.
    reset: Option<ResetStyle>,
    /// For a failure to tell.
    pub(crate) place: String,
}

#[derive(Clone, Copy)]
struct Figures {
    limit: u64,
    remaining: u64,
    reset: Nanos,
}

impl Wanted {
    pub(crate) fn of(decision: &Decision<'_>, place: String) -> Wanted {
        let limit = decision.limit.as_ref();
        let answers = limit.map(|limit| limit.answers);
        let refusal = answers.and_then(|answers| answers.refusal.as_ref());
        let figures = decision.figures().map(|limit| Figures {
            limit: limit.limit,
            remaining: limit.remaining,
            reset: limit.reset_after,
        });
        Wanted {
            outcome: decision.outcome,
            rule: limit.map(|limit| (limit.rule.to_owned(), limit.name.to_owned())),
            called: String::new(),
            figures,
            stale: decision.stale,
            now: decision.now,
            refusal: refusal.map_or(429, |refusal| refusal.status),
            own_body: !decision.outcome.is_allowed()
                && refusal.is_some_and(|refusal| refusal.body.is_some()),
            reset: answers
                .filter(|answers| answers.x_ratelimit && figures.is_some())
                .map(|answers| answers.reset),
            place: format!("{place}, {:?}", decision.outcome),
        }
    }

    /// The word of a check by JSON that is not allowed.
    fn error(&self) -> Option<&'static str> {
        match self.outcome {
            Outcome::Allowed { .. } | Outcome::Unlimited => None,
            Outcome::Refused { .. } => Some("rate_limit_exceeded"),
            Outcome::Impossible => Some("cost_above_limit"),
            Outcome::Banned => Some("banned"),
            Outcome::Unidentified => Some("unidentified"),
            Outcome::UnknownRule => Some("unknown_rule"),
            Outcome::IdInUse => Some("id_in_use"),
            other => panic!("{}: {other:?} without a store", self.place),
        }
    }

    pub(crate) fn status(&self) -> u16 {
        match self.error() {
            None => 200,
            Some("unidentified") => 401,
            Some("unknown_rule") => 404,
            Some("id_in_use") => 409,
            Some(_) => self.refusal,
        }
    }

    fn retry(&self) -> Option<Nanos> {
        match self.outcome {
            Outcome::Refused { retry_after } => Some(retry_after),
            _ => None,
        }
    }

    fn delay(&self) -> Option<Nanos> {
        match self.outcome {
            Outcome::Allowed { delay } if !delay.is_zero() => Some(delay),
            _ => None,
        }
    }

    pub(crate) fn by_json(&self, said: &Json) {
        let place = &self.place;
        let millis = |span: Option<Nanos>| span.map(Nanos::as_millis_ceil);
        let wanted = [
            ("allowed", json!(self.error().is_none())),
            ("error", json!(self.error())),
            ("rule", json!(self.rule.as_ref().map(|rule| &rule.0))),
            ("limit_name", json!(self.rule.as_ref().map(|rule| &rule.1))),
            ("limit", json!(self.figures.map(|it| it.limit))),
            ("remaining", json!(self.figures.map(|it| it.remaining))),
            (
                "reset_after_ms",
                json!(millis(self.figures.map(|it| it.reset))),
            ),
            ("retry_after_ms", json!(millis(self.retry()))),
            ("delay_ms", json!(millis(self.delay()))),
            ("stale_ms", json!(millis(self.stale))),
        ];
        for (name, value) in wanted {
            assert_eq!(
                said.get(name).unwrap_or(&Json::Null),
                &value,
                "{name}: {place}"
            );
        }
    }

    pub(crate) fn by_fields(&self, fields: &BTreeMap<String, String>) {
        let place = &self.place;
        let number = |name: &str| -> Option<u64> { Some(fields.get(name)?.parse().unwrap()) };
        let told = self.reset.is_some();
        let figures = self.figures.filter(|_| told);
        assert_eq!(
            number("x-ratelimit-limit"),
            figures.map(|it| it.limit),
            "{place}"
        );
        assert_eq!(
            number("x-ratelimit-remaining"),
            figures.map(|it| it.remaining),
            "{place}"
        );
        let reset = figures.map(|it| match self.reset {
            Some(ResetStyle::Delta) => it.reset.as_secs_ceil(),
            _ => self.now.after(it.reset).as_secs_ceil(),
        });
        assert_eq!(number("x-ratelimit-reset"), reset, "{place}");
        let retry = self.retry().map(|wait| wait.as_secs_ceil().max(1));
        assert_eq!(number("retry-after"), retry, "{place}");
    }

    pub(crate) fn by_resp(&self, said: &resp::Value) {
        let place = &self.place;
        let wrong = match self.outcome {
            Outcome::UnknownRule => "ERR unknown rule ",
            Outcome::Unidentified => "ERR UNIDENTIFIED ",
            Outcome::IdInUse => "ERR IN_USE ",
            _ => "",
        };
        if let Some(text) = error(said) {
            assert!(
                !wrong.is_empty() && text.starts_with(wrong),
                "{text}: {place}"
            );
            return;
        }
        let number = |value: Option<u64>| value.map_or(-1, |value| i64::try_from(value).unwrap());
        let millis = |span: Option<Nanos>| number(span.map(Nanos::as_millis_ceil));
        let wanted = [
            i64::from(self.error().is_some()),
            number(self.figures.map(|it| it.limit)),
            number(self.figures.map(|it| it.remaining)),
            millis(self.retry().or(self.delay())),
            millis(self.figures.map(|it| it.reset)),
        ];
        assert_eq!((said.ints(), wrong), (wanted.to_vec(), ""), "{place}");
    }

    pub(crate) fn by_status(&self, said: &DescriptorStatus) {
        let place = &self.place;
        let over = !matches!(self.outcome, Outcome::UnknownRule) && self.error().is_some();
        let code = if over { Code::OverLimit } else { Code::Ok };
        assert_eq!(said.code(), code, "{place}");
        let limit = said.current_limit.as_ref();
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        assert_eq!(
            limit.map(|limit| (limit.requests_per_unit, &*limit.name)),
            self.figures.map(|it| (small(it.limit), &*self.called)),
            "{place}"
        );
        let reset = said
            .duration_until_reset
            .as_ref()
            .map(|it| (it.seconds, it.nanos));
        let whole = |reset: Nanos| i64::try_from(reset.get().div_ceil(1_000_000_000)).unwrap();
        assert_eq!(
            reset,
            self.figures.map(|it| (whole(it.reset), 0)),
            "{place}"
        );
        if let Some(figures) = self.figures {
            assert_eq!(said.limit_remaining, small(figures.remaining), "{place}");
        }
    }

    /// Of a call about this alone.
    pub(crate) fn by_response(&self, said: &RateLimitResponse, fields: &BTreeMap<String, String>) {
        let place = &self.place;
        self.by_status(&said.statuses[0]);
        assert_eq!(said.overall_code, said.statuses[0].code, "{place}");
        let told = said.response_headers_to_add.iter();
        let told = told.map(|it| (it.key.clone(), it.value.clone()));
        assert_eq!(&told.collect::<BTreeMap<_, _>>(), fields, "{place}");
        let Some(figures) = self.figures else {
            return;
        };
        let metadata = said.dynamic_metadata.as_ref().unwrap();
        let told = |name: &str| metadata.fields[name].kind.clone().unwrap();
        // Far below what a number of 64 bits holds exactly.
        #[allow(clippy::cast_precision_loss)]
        let number = |value: u64| Value::NumberValue(value as f64);
        let rule = self.rule.as_ref().unwrap().0.clone();
        assert_eq!(
            told("outcome"),
            Value::StringValue(self.outcome.name().to_owned()),
            "{place}"
        );
        assert_eq!(told("rule"), Value::StringValue(rule), "{place}");
        assert_eq!(told("limit"), number(figures.limit), "{place}");
        assert_eq!(told("remaining"), number(figures.remaining), "{place}");
        assert_eq!(
            told("reset_seconds"),
            number(figures.reset.as_secs_ceil()),
            "{place}"
        );
    }
}
