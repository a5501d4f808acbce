use serde::{Deserialize, Serialize};

use super::ask::{Whole, checked};
use super::pairs::{PairsText, Text};
use super::{BadRequest, MAX_BODY, Reply};
use crate::engine::{CheckId, Effect, Settled, Settlement, Total};
use crate::protocol::text::Shown;
use crate::units::Cost;

/// What the body of `POST /v1/settle` says: what a check has cost in all.
#[derive(Debug)]
pub struct Settle<'a> {
    id: Text<'a>,
    total: Stated<'a>,
}

#[derive(Debug)]
enum Stated<'a> {
    Cost(Cost),
    /// Attributes, each of a whole number.
    Measured(PairsText<'a>, Vec<u64>),
}

impl<'a> Settle<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// [`BadRequest`], if it cannot be understood.
    pub fn decode(body: &'a [u8]) -> Result<Settle<'a>, BadRequest> {
        #[derive(Deserialize)]
        #[serde(
            deny_unknown_fields,
            expecting = "a settlement, such as {\"id\": …, \"cost\": …}"
        )]
        struct SettleJson<'a> {
            #[serde(borrow)]
            id: Text<'a>,
            cost: Option<Whole>,
            attributes: Option<PairsText<'a>>,
        }
        if body.len() > MAX_BODY {
            return Err(BadRequest::TooLarge(MAX_BODY));
        }
        let json: SettleJson<'_> = serde_json::from_slice(body).map_err(BadRequest::Json)?;
        let total = match (json.cost, json.attributes) {
            (Some(_), Some(_)) => return Err(BadRequest::Mixed("cost", "attributes")),
            (Some(Whole(cost)), None) => Stated::Cost(Cost::new(cost)),
            (None, Some(attributes)) => {
                let amounts = attributes.iter().map(|(name, value)| {
                    let whole = value.bytes().all(|byte| byte.is_ascii_digit());
                    let amount = whole.then(|| value.parse().ok()).flatten();
                    amount.ok_or_else(|| BadRequest::Amount(Shown(name.as_bytes()).to_string()))
                });
                let amounts = amounts.collect::<Result<_, _>>()?;
                Stated::Measured(attributes, amounts)
            }
            (None, None) => return Err(BadRequest::Missing("cost")),
        };
        Ok(Settle {
            id: checked(json.id)?,
            total,
        })
    }

    /// The id of the check.
    pub fn id(&self) -> Option<CheckId<'_>> {
        CheckId::new(self.id.0.as_bytes())
    }

    /// Hands what the check came to in all to `settle`.
    pub fn total<R>(&self, settle: impl FnOnce(Total<'_>) -> R) -> R {
        match &self.total {
            Stated::Cost(cost) => settle(Total::Cost(*cost)),
            Stated::Measured(attributes, amounts) => {
                let names = attributes.iter().map(|(name, _)| name);
                let measured: Vec<(&str, u64)> = names.zip(amounts.iter().copied()).collect();
                settle(Total::Measured(&measured))
            }
        }
    }
}

impl Reply {
    /// The answer to a settlement.
    pub fn settled(settlement: &Settlement) -> Reply {
        #[derive(Serialize)]
        struct Answer {
            outcome: &'static str,
            charged: u64,
            refunded: u64,
            late: usize,
        }
        match settlement.outcome {
            Settled::Now | Settled::Late | Settled::Before => Reply::ok(&Answer {
                outcome: settlement.outcome.name(),
                charged: settlement.most(Effect::Charged).get(),
                refunded: settlement.most(Effect::Refunded).get(),
                late: settlement.late(),
            }),
            Settled::Unknown => {
                let message = "no check with this id was admitted here, or it was too long ago";
                Reply::error(404, "unknown_id", message)
            }
            Settled::Unconcerned => {
                let message = "no limit of this check counts any of these attributes; nothing is \
                               settled";
                Reply::error(400, "bad_request", message)
            }
            Settled::Forgotten => {
                let message = "the check with this id was forgotten before it was settled: its \
                               up-front cost stays";
                Reply::error(410, "forgotten_id", message)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settlement_is_an_id_and_a_cost() {
        let settle = Settle::decode(br#"{"id":"a\u0062","cost":18446744073709551615}"#).unwrap();
        assert_eq!(settle.id(), CheckId::new(b"ab"));
        let total = settle.total(|total| format!("{total:?}"));
        assert_eq!(total, format!("{:?}", Total::Cost(Cost::new(u64::MAX))));
        let settle = Settle::decode(br#"{"id":"a","attributes":{"Tokens":"7","x":"0"}}"#).unwrap();
        let total = settle.total(|total| format!("{total:?}"));
        let wanted = Total::Measured(&[("tokens", 7), ("x", 0)]);
        assert_eq!(total, format!("{wanted:?}"));
    }

    #[test]
    fn what_is_wrong_is_refused_and_named() {
        for (body, named) in [
            ("", "EOF"),
            (r#"{"id":"a"}"#, "missing field `cost`"),
            (r#"{"cost":1}"#, "missing field `id`"),
            (
                r#"{"id":"a","cost":1,"attributes":{}}"#,
                "`cost` does not go with `attributes`",
            ),
            (
                r#"{"id":"a","attributes":{"tokens":"-5"}}"#,
                "`attributes.tokens` must be a whole number",
            ),
            (
                r#"{"id":"a","attributes":{"tokens":""}}"#,
                "`attributes.tokens` must be a whole number",
            ),
            (r#"{"id":"","cost":1}"#, "`id` must have 1 to 128 bytes"),
            (r#"{"id":"a","cost":-1}"#, "a whole number, 0 or more"),
            (r#"{"id":"a","cost":1,"rule":"r"}"#, "unknown field `rule`"),
            ("[]", "expected a settlement, such as {"),
        ] {
            let error = Settle::decode(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(named), "{body}: {error}");
        }
        let long = vec![b' '; MAX_BODY + 1];
        assert!(matches!(
            Settle::decode(&long),
            Err(BadRequest::TooLarge(_))
        ));
    }
}
