use std::cmp::Reverse;

use prost_types::{Duration, Struct};

use super::messages::envoy::config::core::v3::HeaderValue;
use super::messages::envoy::service::ratelimit::v3::RateLimitResponse;
use super::messages::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit as WireUnit;
use super::messages::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit,
};
use super::metadata::metadata;
use crate::engine::{Decision, DescribedLimit, Outcome};
use crate::protocol::headers::{self, FieldName};
use crate::rules::{Matched, Unit};
use crate::units::Nanos;

/// What callers are told beside the statuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telling {
    /// The fields that the gateway is to add to its response.
    pub headers: Headers,
    /// Whether the gateway's other filters are told of the decision.
    pub dynamic_metadata: bool,
}

/// Which fields the gateway is to add to its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Headers {
    /// None.
    None,
    /// `Retry-After`, where waiting helps.
    #[default]
    RetryAfter,
    /// All that the HTTP door tells.
    All,
}

/// A limit refuses because the store is lost: no answer about the caller is to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store is lost, and a limit refuses without it")]
pub struct StoreLost;

/// Gathers the decisions of one call.
#[derive(Clone, Debug)]
pub struct Answers {
    rows: Vec<Row>,
    telling: Telling,
    /// What is told beside the statuses where the request is admitted, or refused by a limit
    /// that refuses on its own; and what is told where quotas refuse it.
    told: [Option<Told>; 2],
    store_lost: bool,
}

#[derive(Clone, Debug, Default)]
struct Row {
    status: DescriptorStatus,
    /// What the rule calls its limit, if it does.
    name: Option<String>,
    /// Whether there is a rule for the descriptor.
    has_rule: bool,
    /// Whether it refuses the request only together with all other quotas.
    is_quota: bool,
}

#[derive(Clone, Debug)]
struct Told {
    rank: Rank,
    headers: Vec<HeaderValue>,
    metadata: Option<Struct>,
}

/// Which decision is told of: a refusal before all, of several the one with the longest
/// wait; else the one with least remaining.
type Rank = (bool, Nanos, Reverse<u64>);

impl Answers {
    /// Answers to so many descriptors, which are admitted until it is said otherwise.
    pub fn new(descriptors: usize, telling: Telling) -> Answers {
        let row = Row {
            status: status(Code::Ok),
            ..Row::default()
        };
        Answers {
            rows: vec![row; descriptors],
            telling,
            told: [None, None],
            store_lost: false,
        }
    }

    /// Says which rule is for the descriptor at `place`, from 0: before its answer is
    /// [set](Answers::set).
    pub fn matched(&mut self, place: usize, rule: &Matched<'_>) {
        if let Some(row) = self.rows.get_mut(place) {
            row.name = rule.name.map(str::to_owned);
            row.is_quota = rule.is_quota;
            row.has_rule = true;
        }
    }

    /// Sets the answer to the descriptor at `place`, from 0.
    pub fn set(&mut self, place: usize, decision: &Decision<'_>) {
        let allowed = match decision.outcome {
            // A descriptor without a rule has no limit.
            Outcome::UnknownRule => true,
            Outcome::Unavailable => {
                self.store_lost = true;
                return;
            }
            outcome => outcome.is_allowed(),
        };
        let Some(row) = self.rows.get_mut(place) else {
            return;
        };
        let code = if allowed { Code::Ok } else { Code::OverLimit };
        row.status.code = code.into();
        if let Some(limit) = decision.figures() {
            let name = row.name.take();
            row.status.current_limit = Some(current(limit, name));
            row.status.limit_remaining = saturated(limit.remaining);
            row.status.duration_until_reset = Some(whole_seconds(limit.reset_after));
        }
        if decision.outcome == Outcome::Unlimited && row.has_rule {
            row.status.limit_remaining = u32::MAX;
        }
        let apart = row.is_quota && !allowed;
        self.tell(decision, allowed, apart);
    }

    fn tell(&mut self, decision: &Decision<'_>, allowed: bool, apart: bool) {
        if self.telling.headers == Headers::None && !self.telling.dynamic_metadata {
            return;
        }
        let figures = decision.figures();
        if allowed && figures.is_none() && decision.warning().is_none() {
            return;
        }
        let wait = match decision.outcome.retry_after() {
            Some(wait) => wait,
            None if allowed => Nanos::ZERO,
            None => Nanos::MAX,
        };
        // A warning alone says less than any figures.
        let remaining = figures.map_or(u64::MAX, |limit| limit.remaining);
        let rank: Rank = (!allowed, wait, Reverse(remaining));
        let told = &mut self.told[usize::from(apart)];
        if told.as_ref().is_none_or(|told| told.rank < rank) {
            *told = Some(Told {
                rank,
                headers: fields(decision, self.telling.headers),
                metadata: self.telling.dynamic_metadata.then(|| metadata(decision)),
            });
        }
    }

    /// The response.
    ///
    /// # Errors
    /// [`StoreLost`], if any limit refuses for that: the gateway knows best what to do then.
    pub fn finish(self) -> Result<RateLimitResponse, StoreLost> {
        if self.store_lost {
            return Err(StoreLost);
        }
        let refuses = |row: &Row| row.status.code() == Code::OverLimit;
        let alone = self.rows.iter().any(|row| !row.is_quota && refuses(row));
        let mut quotas = self.rows.iter().filter(|row| row.is_quota).peekable();
        let together = quotas.peek().is_some() && quotas.all(refuses);
        let overall = if alone || together {
            Code::OverLimit
        } else {
            Code::Ok
        };
        let [told, by_quotas] = self.told;
        let told = if together && !alone { by_quotas } else { told };
        let (headers, metadata) =
            told.map_or((Vec::new(), None), |told| (told.headers, told.metadata));
        Ok(RateLimitResponse {
            overall_code: overall.into(),
            statuses: self.rows.into_iter().map(|row| row.status).collect(),
            response_headers_to_add: headers,
            dynamic_metadata: metadata,
        })
    }
}

fn status(code: Code) -> DescriptorStatus {
    DescriptorStatus {
        code: code.into(),
        ..DescriptorStatus::default()
    }
}

/// The limit as gateways have it: so many requests in a time, which of a bucket is the time in
/// which it refills. A time that is several of a unit is told with a multiplier.
fn current(limit: &DescribedLimit<'_>, name: Option<String>) -> RateLimit {
    let (unit, times) = unit(limit.refill_time());
    RateLimit {
        requests_per_unit: saturated(limit.limit),
        unit: unit.into(),
        name: name.unwrap_or_default(),
        unit_multiplier: (times > 1).then_some(times),
    }
}

fn unit(period: Nanos) -> (WireUnit, u32) {
    let units = [
        (Unit::Year, WireUnit::Year),
        (Unit::Month, WireUnit::Month),
        (Unit::Week, WireUnit::Week),
        (Unit::Day, WireUnit::Day),
        (Unit::Hour, WireUnit::Hour),
        (Unit::Minute, WireUnit::Minute),
        (Unit::Second, WireUnit::Second),
    ];
    let told = units.into_iter().find_map(|(unit, wire)| {
        let one = unit.period().get();
        let whole = period.get() / one;
        let exact = whole > 0 && period.get().is_multiple_of(one);
        Some((wire, u32::try_from(whole).ok()?)).filter(|_| exact)
    });
    told.unwrap_or((WireUnit::Unknown, 1))
}

/// Whole seconds, rounded up: Envoy cuts the rest off, and its clients would come too early.
fn whole_seconds(span: Nanos) -> Duration {
    let seconds = span.get().div_ceil(Nanos::from_secs(1).get());
    Duration {
        seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
        nanos: 0,
    }
}

fn saturated(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn fields(decision: &Decision<'_>, wanted: Headers) -> Vec<HeaderValue> {
    let header = |name: FieldName, value| HeaderValue {
        key: name.text().to_ascii_lowercase(),
        value,
    };
    match wanted {
        Headers::None => Vec::new(),
        Headers::RetryAfter => headers::retry_after(decision.outcome)
            .map(|seconds| header(FieldName::RetryAfter, seconds.to_string()))
            .into_iter()
            .collect(),
        Headers::All => headers::fields(decision)
            .into_iter()
            .map(|field| header(field.name, field.value))
            .collect(),
    }
}

#[cfg(test)]
mod tests;
