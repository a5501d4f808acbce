use serde::{Deserialize, Serialize};

use super::ask::{Whole, checked};
use super::pairs::Text;
use super::{BadRequest, MAX_BODY, Reply};
use crate::engine::{CheckId, Settled, Settlement};
use crate::units::Cost;

/// What the body of `POST /v1/settle` says: what a check has cost in all.
#[derive(Debug)]
pub struct Settle<'a> {
    id: Text<'a>,
    cost: Cost,
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
            cost: Whole,
        }
        if body.len() > MAX_BODY {
            return Err(BadRequest::TooLarge(MAX_BODY));
        }
        let json: SettleJson<'_> = serde_json::from_slice(body).map_err(BadRequest::Json)?;
        Ok(Settle {
            id: checked(json.id)?,
            cost: Cost::new(json.cost.0),
        })
    }

    /// The id of the check.
    pub fn id(&self) -> Option<CheckId<'_>> {
        CheckId::new(self.id.0.as_bytes())
    }

    /// Its cost in all.
    pub const fn cost(&self) -> Cost {
        self.cost
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
                charged: settlement.charged.get(),
                refunded: settlement.refunded.get(),
                late: settlement.late(),
            }),
            Settled::Unknown => {
                let message = "no check with this id was admitted here, or it was too long ago";
                Reply::error(404, "unknown_id", message)
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
        assert_eq!(settle.cost(), Cost::new(u64::MAX));
    }

    #[test]
    fn what_is_wrong_is_refused_and_named() {
        for (body, named) in [
            ("", "EOF"),
            (r#"{"id":"a"}"#, "missing field `cost`"),
            (r#"{"cost":1}"#, "missing field `id`"),
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
