//! The HTTP fields that tell of a decision, for every door that answers with fields:
//!
//! - `X-RateLimit-Limit`, `-Remaining` and `-Reset`, of the limit that decided;
//! - `RateLimit-Policy` and `RateLimit`, structured fields (RFC 9651) as
//!   draft-ietf-httpapi-ratelimit-headers has them since its version 08;
//! - `Retry-After` (RFC 9110), in seconds, on refusals that waiting can cure;
//! - `X-RateLimit-Warning`, the soft limit that an admitted request is over, as the name of a
//!   policy;
//! - `Access-Control-Expose-Headers`, so that scripts of other origins may read them.

use std::fmt::Write as _;

use crate::engine::{Decision, DescribedLimit, Outcome};
use crate::units::{Nanos, ResetStyle};

/// The largest integer of a structured field.
const SF_MAX: u64 = 999_999_999_999_999;
/// So many limits are listed; where more apply, only the one that decided is told of.
const MOST_POLICIES: usize = 16;
/// The wait that is told while the store is lost: soon, but not at once.
const STORE_LOST: u64 = 1;

/// One HTTP field. Its value is printable ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name.
    pub name: FieldName,
    /// The value.
    pub value: String,
}

/// The names of the fields, in the order in which they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldName {
    /// The most that can be admitted at once.
    XLimit,
    /// What is left.
    XRemaining,
    /// When everything is available again.
    XReset,
    /// The quotas that apply.
    Policy,
    /// What is left of them.
    RateLimit,
    /// How long to wait.
    RetryAfter,
    /// The soft limit that would have refused.
    Warning,
    /// What scripts of other origins may read.
    Expose,
    /// The status that a gateway is to answer with, where it was told another.
    Status,
    /// The body of that answer.
    Body,
}

impl FieldName {
    /// The name as people write it.
    pub const fn text(self) -> &'static str {
        match self {
            FieldName::XLimit => "X-RateLimit-Limit",
            FieldName::XRemaining => "X-RateLimit-Remaining",
            FieldName::XReset => "X-RateLimit-Reset",
            FieldName::Policy => "RateLimit-Policy",
            FieldName::RateLimit => "RateLimit",
            FieldName::RetryAfter => "Retry-After",
            FieldName::Warning => "X-RateLimit-Warning",
            FieldName::Expose => "Access-Control-Expose-Headers",
            FieldName::Status => "X-RateLimit-Status",
            FieldName::Body => "X-RateLimit-Body",
        }
    }
}

/// How many whole seconds to wait before the same check may succeed, at least one.
/// `None` where it was allowed, or where waiting never helps.
pub fn retry_after(outcome: Outcome) -> Option<u64> {
    match outcome {
        Outcome::Unavailable => Some(STORE_LOST),
        _ => outcome.retry_after().map(whole_seconds),
    }
}

/// The fields that tell of `decision`: none where no limit applied.
pub fn fields(decision: &Decision<'_>) -> Vec<Field> {
    let mut fields = Vec::with_capacity(8);
    let mut tell = |name, value| fields.push(Field { name, value });
    let figures = decision.figures();
    if let Some(limit) = figures.filter(|limit| limit.answers.x_ratelimit) {
        tell(FieldName::XLimit, limit.limit.to_string());
        tell(FieldName::XRemaining, limit.remaining.to_string());
        let reset = match limit.answers.reset {
            ResetStyle::Epoch => decision.now.after(limit.reset_after).as_secs_ceil(),
            ResetStyle::Delta => limit.reset_after.as_secs_ceil(),
        };
        tell(FieldName::XReset, reset.to_string());
    }
    if let Some(limit) = figures {
        let all = match decision.all().len() {
            1..=MOST_POLICIES => decision.all(),
            _ => std::slice::from_ref(limit),
        };
        let mut told = all.iter().filter(|limit| limit.answers.ietf).peekable();
        if told.peek().is_some() {
            let (mut policy, mut left) = (String::new(), String::new());
            for (place, limit) in told.enumerate() {
                if place > 0 {
                    policy.push_str(", ");
                    left.push_str(", ");
                }
                write_policy(limit, &mut policy);
                write_left(limit, &mut left);
            }
            tell(FieldName::Policy, policy);
            tell(FieldName::RateLimit, left);
        }
    }
    if let Some(seconds) = retry_after(decision.outcome) {
        tell(FieldName::RetryAfter, seconds.to_string());
    }
    let warning = decision.warning().map(|said| &said.limit);
    if let Some(limit) = warning.filter(|limit| limit.answers.x_ratelimit) {
        let mut name = String::new();
        write_name(limit, &mut name);
        tell(FieldName::Warning, name);
    }
    if figures
        .or(warning)
        .is_some_and(|limit| limit.answers.expose)
    {
        let names: Vec<&str> = fields.iter().map(|field| field.name.text()).collect();
        let value = names.join(", ");
        fields.push(Field {
            name: FieldName::Expose,
            value,
        });
    }
    fields
}

/// `"rule/limit";q=10;w=60`. The window of a bucket is the time in which it refills
/// from empty, so that `q` per `w` is its rate and `q` its burst.
fn write_policy(limit: &DescribedLimit<'_>, out: &mut String) {
    write_name(limit, out);
    let quota = limit.limit.min(SF_MAX);
    let window = whole_seconds(limit.refill_time()).min(SF_MAX);
    // Into a `String`: nothing can fail.
    let _ = write!(out, ";q={quota};w={window}");
}

/// `"rule/limit";r=9;t=42`; no `t` where nothing comes back by waiting.
fn write_left(limit: &DescribedLimit<'_>, out: &mut String) {
    write_name(limit, out);
    let left = limit.remaining.min(SF_MAX);
    let _ = write!(out, ";r={left}");
    if !limit.reset_after.is_zero() {
        let reset = limit.reset_after.as_secs_ceil().min(SF_MAX);
        let _ = write!(out, ";t={reset}");
    }
}

/// The limit's name in quotes, with its rule: limits are called alike in many rules.
fn write_name(limit: &DescribedLimit<'_>, out: &mut String) {
    out.push('"');
    for c in [limit.rule, "/", limit.name]
        .into_iter()
        .flat_map(str::chars)
    {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            // Rule files admit no others.
            _ => out.push('?'),
        }
    }
    out.push('"');
}

fn whole_seconds(span: Nanos) -> u64 {
    span.as_secs_ceil().max(1)
}

#[cfg(test)]
mod tests;
