//! The JSON that explains what becomes of a request.

use serde::{Deserialize, Serialize};

use super::{Asked, BadRequest, refusal};
use crate::engine::{Explained, Said, Snapshot, Subject};
use crate::protocol::headers;
use crate::rules::{Applied, Counted, CountedAs, RuleExplained, Why};
use crate::units::Timestamp;

/// What would become of a described request, and why; nothing secret is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Who it comes from.
    pub caller: CallerTold,
    /// What each rule makes of it.
    pub rules: Vec<RuleTold>,
    /// What the caller would be told.
    pub answer: AnswerTold,
}

/// Who a request comes from, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerTold {
    /// The client's address as it is counted.
    pub address: Option<String>,
    /// The name of the API key's holder.
    pub api_key: Option<String>,
    /// The tenant.
    pub tenant: Option<String>,
    /// Issuer and subject of the token.
    pub subject: Option<String>,
    /// The tier.
    pub tier: Option<String>,
}

/// What one rule makes of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleTold {
    /// The rule's name.
    pub rule: String,
    /// Whether it applies.
    pub applies: bool,
    /// A word for the first reason why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// The rule that comes before it in its group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// Who is counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<CountedTold>,
    /// The tier whose limits are chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// The limits that apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitTold>,
}

/// One component of an identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedTold {
    /// What rule files call it.
    pub name: String,
    /// `value`, or `hidden`, `nobody` or `everybody`, which have none.
    pub by: String,
    /// The value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// One limit that applies, and what it would say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitTold {
    /// Its name within the rule.
    pub limit: String,
    /// How it counts.
    pub algorithm: String,
    /// How much in each window.
    pub amount: u64,
    /// The window, as rule files write it.
    pub window: String,
    /// A bucket's capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// What its refusals mean.
    pub mode: String,
    /// How exact it is across the fleet.
    pub consistency: String,
    /// What it would be charged.
    pub cost: u64,
    /// What is left now, before that.
    pub remaining: u64,
    /// How long until everything is available again, if nothing is charged, in milliseconds.
    pub reset_after_ms: u64,
    /// What it would decide.
    pub outcome: String,
    /// Whether the store would be asked, and may decide otherwise.
    pub asks_store: bool,
}

/// What the caller would be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerTold {
    /// The word for it.
    pub outcome: String,
    /// The status code.
    pub status: u16,
    /// The fields, in their order, as a check would be told them.
    pub headers: serde_json::Map<String, serde_json::Value>,
}

impl Explanation {
    /// Explains what the described request, or the descriptor, in `body`, which has the form of a check, would
    /// be told at `now`. Nothing is taken.
    ///
    /// # Errors
    /// [`BadRequest`] if the body is no check of one of these.
    pub fn of(
        body: &[u8],
        snapshot: &Snapshot<'_>,
        now: Timestamp,
    ) -> Result<Explanation, BadRequest> {
        let Asked::One(check) = Asked::decode(body)? else {
            return Err(BadRequest::NotDescribed);
        };
        // The asker's address is the operator's: no gateway's.
        check.ask(None, |request| match &request.subject {
            Subject::Described(described) => {
                let explained = snapshot.explain(described, request.cost, now);
                Ok(Explanation::told(explained))
            }
            Subject::Descriptor(descriptor) => {
                let explained = snapshot.explain_descriptor(descriptor, request.cost, now);
                Ok(Explanation::told(explained))
            }
            Subject::Rule { .. } | Subject::Throttle { .. } => Err(BadRequest::NotDescribed),
        })
    }

    fn told(explained: Explained<'_>) -> Explanation {
        let Explained {
            caller,
            rules,
            said,
            decision,
        } = explained;
        let mut said = said.iter();
        let headers = headers::fields(&decision)
            .into_iter()
            .map(|field| (field.name.text().to_owned(), field.value.into()));
        Explanation {
            caller: CallerTold {
                address: caller.address,
                api_key: caller.api_key,
                tenant: caller.tenant,
                subject: caller.subject,
                tier: caller.tier,
            },
            rules: rules
                .iter()
                .map(|rule| rule_told(rule, &mut said))
                .collect(),
            answer: AnswerTold {
                outcome: decision.outcome.name().to_owned(),
                status: refusal::status(&decision),
                headers: headers.collect(),
            },
        }
    }
}

/// `rule`, whose limits have said what is next in `said`.
fn rule_told<'s>(rule: &RuleExplained<'_>, said: &mut impl Iterator<Item = &'s Said>) -> RuleTold {
    let limits = rule.limits.iter().zip(said);
    RuleTold {
        rule: rule.rule.to_owned(),
        applies: rule.why_not.is_none(),
        why_not: rule.why_not.map(|why| why.name().to_owned()),
        first: match rule.why_not {
            Some(Why::Group(first)) => Some(first.to_owned()),
            _ => None,
        },
        counted: rule.counted.iter().map(counted_told).collect(),
        tier: rule.tier.map(str::to_owned),
        limits: limits.map(|(one, said)| limit_told(one, said)).collect(),
    }
}

fn counted_told(counted: &Counted) -> CountedTold {
    let (by, value) = match &counted.value {
        CountedAs::Value(text) => ("value", Some(text.clone())),
        CountedAs::Hidden => ("hidden", None),
        CountedAs::Nobody => ("nobody", None),
        CountedAs::Everybody => ("everybody", None),
    };
    CountedTold {
        name: counted.name.clone(),
        by: by.to_owned(),
        value,
    }
}

fn limit_told(applied: &Applied<'_>, said: &Said) -> LimitTold {
    let limit = applied.limit;
    let quota = &limit.quota;
    LimitTold {
        limit: limit.name.to_string(),
        algorithm: quota.algorithm().name().to_owned(),
        amount: quota.amount(),
        window: quota.windows().to_string(),
        burst: quota.algorithm().is_bucket().then(|| quota.capacity()),
        mode: limit.mode.name().to_owned(),
        consistency: limit.consistency.name().to_owned(),
        cost: said.cost.get(),
        remaining: said.remaining,
        reset_after_ms: said.reset_after.as_millis_ceil(),
        outcome: said.outcome.name().to_owned(),
        asks_store: said.by_store,
    }
}
