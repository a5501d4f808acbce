use super::check::{AskError, cost, id};
use super::{After, Frame, reply};
use crate::engine::{CheckId, Settled, Settlement};
use crate::units::Cost;

/// `TG.SETTLE id cost`: what a check has cost in all.
#[derive(Clone, Copy, Debug)]
pub struct Settle<'a> {
    /// The id of the check.
    pub id: CheckId<'a>,
    /// Its cost in all.
    pub cost: Cost,
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

    /// Writes the answer to `out`: 1, or 0 where it was settled before; what was charged, and
    /// given back; and at how many limits that went nowhere.
    pub fn write(out: &mut Vec<u8>, settlement: &Settlement) {
        let message = match settlement.outcome {
            Settled::Unknown => {
                "ERR UNKNOWN no check with this id was admitted here, or it was too long ago"
            }
            Settled::Forgotten => "ERR FORGOTTEN the check was forgotten before it was settled",
            Settled::Now | Settled::Late | Settled::Before => {
                let figure = |value| i64::try_from(value).unwrap_or(i64::MAX);
                reply::array(out, 4);
                reply::integer(out, i64::from(settlement.outcome != Settled::Before));
                reply::integer(out, figure(settlement.charged.get()));
                reply::integer(out, figure(settlement.refunded.get()));
                reply::integer(out, i64::try_from(settlement.late()).unwrap_or(i64::MAX));
                return;
            }
        };
        reply::error(out, format_args!("{message}"));
    }
}

fn read<'a>(frame: &Frame<'a>) -> Result<Settle<'a>, AskError<'a>> {
    let (Some(name), Some(total), 3) = (frame.arg(1), frame.arg(2), frame.count()) else {
        return Err(AskError::Arity("tg.settle"));
    };
    Ok(Settle {
        id: id(name)?,
        cost: cost(Some(total))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::resp::Parser;
    use smallvec::SmallVec;

    fn decode(wire: &str) -> Result<Option<(bool, u64)>, String> {
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        let frame = parser.next(wire.as_bytes()).unwrap().unwrap();
        let said = Settle::decode(&frame, &mut out);
        let said = said
            .map(|said| said.map(|said| (said.id == CheckId::new(b"a").unwrap(), said.cost.get())));
        said.map_err(|_| String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_settlement_is_an_id_and_a_cost() {
        assert_eq!(decode("TG.SETTLE a 1500\r\n"), Ok(Some((true, 1_500))));
        assert_eq!(decode("tg.settle a 0\r\n"), Ok(Some((true, 0))));
        assert_eq!(decode("TG.SETTLED a 0\r\n"), Ok(None));
        for (wire, error) in [
            (
                "TG.SETTLE a\r\n",
                "wrong number of arguments for 'tg.settle'",
            ),
            ("TG.SETTLE a 1 2\r\n", "wrong number of arguments"),
            ("TG.SETTLE a -1\r\n", "cost must be a whole number"),
        ] {
            let said = decode(wire).unwrap_err();
            assert!(said.contains(error), "{said}");
        }
    }

    #[test]
    fn answers_are_four_figures_or_an_error_of_its_own() {
        let written = |outcome, charged| {
            let mut out = Vec::new();
            let settlement = Settlement {
                outcome,
                charged: Cost::new(charged),
                refunded: Cost::ZERO,
                parts: SmallVec::new(),
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
