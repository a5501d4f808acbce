use super::check::{AskError, cost, id, utf8};
use super::{After, Frame, number, reply};
use crate::engine::{CheckId, Effect, Settled, Settlement, Total};
use crate::protocol::text::Shown;
use crate::units::Cost;

/// `TG.SETTLE id cost`, or `TG.SETTLE id ATTR name amount…`: what a check came to in all.
#[derive(Clone, Debug)]
pub struct Settle<'a> {
    /// The id of the check.
    pub id: CheckId<'a>,
    total: Stated,
}

#[derive(Clone, Debug)]
enum Stated {
    Cost(Cost),
    /// Attributes, their names in lower case.
    Measured(Vec<(String, u64)>),
}

impl<'a> Settle<'a> {
    /// The settlement that `frame` says; `None` if it is any other command. Where it cannot
    /// be understood, the error is written to `out`.
    ///
    /// # Errors
    /// [`After::Malformed`]: the reply is in `out` already.
    pub fn decode(frame: &Frame<'a>, out: &mut Vec<u8>) -> Result<Option<Settle<'a>>, After> {
        let name = frame.arg(0).unwrap_or_default();
        if !name.eq_ignore_ascii_case(b"TG.SETTLE") {
            return Ok(None);
        }
        read(frame).map(Some).map_err(|error| {
            reply::error(out, format_args!("ERR {error}"));
            After::Malformed
        })
    }

    /// Hands what the check came to in all to `settle`.
    pub fn total<R>(&self, settle: impl FnOnce(Total<'_>) -> R) -> R {
        match &self.total {
            Stated::Cost(cost) => settle(Total::Cost(*cost)),
            Stated::Measured(stated) => {
                let pairs = stated.iter().map(|(name, amount)| (&**name, *amount));
                settle(Total::Measured(&pairs.collect::<Vec<_>>()))
            }
        }
    }

    /// Writes the answer to `out`: 1, or 0 where it was settled before; what was charged, and
    /// given back; and at how many limits that went nowhere.
    pub fn write(out: &mut Vec<u8>, settlement: &Settlement) {
        let message = match settlement.outcome {
            Settled::Unknown => {
                "ERR UNKNOWN no check with this id was admitted here, or it was too long ago"
            }
            Settled::Forgotten => "ERR FORGOTTEN the check was forgotten before it was settled",
            Settled::Unconcerned => {
                "ERR no limit of the check counts any of these attributes; nothing is settled"
            }
            Settled::Now | Settled::Late | Settled::Before => {
                let figure = |value| i64::try_from(value).unwrap_or(i64::MAX);
                let figures = [
                    i64::from(settlement.outcome != Settled::Before),
                    figure(settlement.most(Effect::Charged).get()),
                    figure(settlement.most(Effect::Refunded).get()),
                    i64::try_from(settlement.late()).unwrap_or(i64::MAX),
                ];
                reply::integers(out, figures);
                return;
            }
        };
        reply::error(out, format_args!("{message}"));
    }
}

fn read<'a>(frame: &Frame<'a>) -> Result<Settle<'a>, AskError<'a>> {
    let (Some(name), Some(first)) = (frame.arg(1), frame.arg(2)) else {
        return Err(AskError::Arity("tg.settle"));
    };
    let id = id(name)?;
    if frame.count() == 3 {
        let total = Stated::Cost(cost(Some(first))?);
        return Ok(Settle { id, total });
    }
    let mut stated: Vec<(String, u64)> = Vec::new();
    let mut at = 2;
    while let Some(option) = frame.arg(at) {
        let (Some(name), Some(amount)) = (frame.arg(at + 1), frame.arg(at + 2)) else {
            return Err(AskError::Arity("tg.settle"));
        };
        if !option.eq_ignore_ascii_case(b"ATTR") {
            return Err(AskError::Arity("tg.settle"));
        }
        let lower = utf8(name, "attribute")?.to_ascii_lowercase();
        if stated.iter().any(|(known, _)| *known == lower) {
            return Err(AskError::Again(Shown(name)));
        }
        let amount = number::natural(amount).ok_or(AskError::Number("an amount"))?;
        stated.push((lower, amount));
        at += 3;
    }
    let total = Stated::Measured(stated);
    Ok(Settle { id, total })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::resp::Parser;
    use crate::units::{Algorithm, KeySecret, Limit, LimitId, Nanos, Quota};
    use smallvec::smallvec;

    fn decode(wire: &str) -> Result<Option<(bool, String)>, String> {
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        let frame = parser.next(wire.as_bytes()).unwrap().unwrap();
        let said = Settle::decode(&frame, &mut out);
        let said = said.map(|said| {
            said.map(|said| {
                let id = CheckId::new(b"a").unwrap();
                (said.id == id, said.total(|total| format!("{total:?}")))
            })
        });
        said.map_err(|_| String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_settlement_is_an_id_and_a_cost() {
        let said = |total: Total<'_>| Ok(Some((true, format!("{total:?}"))));
        let cost = |cost| said(Total::Cost(Cost::new(cost)));
        assert_eq!(decode("TG.SETTLE a 1500\r\n"), cost(1_500));
        assert_eq!(decode("tg.settle a 0\r\n"), cost(0));
        assert_eq!(
            decode("TG.SETTLE a ATTR Tokens 7 attr x 0\r\n"),
            said(Total::Measured(&[("tokens", 7), ("x", 0)]))
        );
        assert_eq!(decode("TG.SETTLED a 0\r\n"), Ok(None));
        for (wire, error) in [
            (
                "TG.SETTLE a\r\n",
                "wrong number of arguments for 'tg.settle'",
            ),
            ("TG.SETTLE a 1 2\r\n", "wrong number of arguments"),
            ("TG.SETTLE a -1\r\n", "cost must be a whole number"),
            ("TG.SETTLE a ATTR x\r\n", "wrong number of arguments"),
            ("TG.SETTLE a 5 ATTR x 1\r\n", "wrong number of arguments"),
            (
                "TG.SETTLE a ATTR x y\r\n",
                "an amount must be a whole number",
            ),
            ("TG.SETTLE a ATTR x 1 ATTR X 2\r\n", "'X' is there twice"),
        ] {
            let said = decode(wire).unwrap_err();
            assert!(said.contains(error), "{said}");
        }
    }

    #[test]
    fn answers_are_four_figures_or_an_error_of_its_own() {
        let quota = Quota::new(Algorithm::FixedWindow, 1, Nanos::from_secs(1), None).unwrap();
        let id = LimitId::new("r", "t", &quota);
        let limit = Limit::new(id, "r", "t", quota, &KeySecret::public());
        let limit = std::sync::Arc::new(limit);
        let written = |outcome, charged| {
            let mut out = Vec::new();
            let part = (limit.clone(), Effect::Charged, Cost::new(charged));
            let settlement = Settlement {
                outcome,
                parts: smallvec![part],
            };
            Settle::write(&mut out, &settlement);
            String::from_utf8(out).unwrap().replace("\r\n", " ")
        };
        assert_eq!(written(Settled::Now, 5), "*4 :1 :5 :0 :0 ");
        let most = "*4 :1 :9223372036854775807 :0 :0 ";
        assert_eq!(written(Settled::Now, u64::MAX), most);
        assert_eq!(written(Settled::Before, 0), "*4 :0 :0 :0 :0 ");
        assert!(written(Settled::Unknown, 0).starts_with("-ERR UNKNOWN "));
        assert!(written(Settled::Forgotten, 0).starts_with("-ERR FORGOTTEN "));
    }
}
