use std::net::IpAddr;

use super::matched::Matched;
use super::{After, Frame, number, reply};
use crate::engine::{CheckId, Decision, Outcome, Request, Subject};
use crate::protocol::text::Shown;
use crate::units::{Algorithm, Cost, Nanos, Quota, QuotaError};

/// A check as one of the three commands asks for it.
#[derive(Clone, Debug)]
pub enum Ask<'a> {
    /// `CL.THROTTLE`, answered as redis-cell does: waits in seconds. A peek is never
    /// limited and has nothing to wait for.
    Throttle(Request<'a>),
    /// `TG.CHECK`: the same five figures, with waits in milliseconds. A check admitted
    /// by a leaky bucket with a delay answers the delay as the wait.
    Check(Request<'a>, Option<CheckId<'a>>),
    /// `TG.REPORT`: recorded whatever the limits say, and answered as a `TG.CHECK` of
    /// cost 1 would be after it.
    Report(Request<'a>),
    /// `TG.MATCH`: a described request, answered as `TG.CHECK` is.
    Match(Box<Matched<'a>>),
}

/// Why a command that asks for a check cannot be understood. The connection goes on.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum AskError<'a> {
    #[error("wrong number of arguments for '{0}' command")]
    Arity(&'static str),
    #[error("{0} must be a whole number from 0 to 9223372036854775807")]
    Number(&'static str),
    #[error("the quota cannot be represented: {0}")]
    Quota(QuotaError),
    #[error("{0} must be UTF-8")]
    Text(&'static str),
    #[error("the id must have 1 to {} bytes", CheckId::MAX)]
    Id,
    #[error(
        "unknown option '{0}'; write COST n, IP addr, ID id, HEADER name value or ATTR name value"
    )]
    Option(Shown<'a>),
    #[error("'{0}' is there twice")]
    Again(Shown<'a>),
    #[error("'{0}' is not an IP address")]
    Address(Shown<'a>),
}

impl<'a> Ask<'a> {
    /// The check that `frame` asks for; `None` if it is any other command. Where it
    /// is a check that cannot be understood, the error is written to `out`.
    ///
    /// # Errors
    /// [`After::Malformed`]: the reply is in `out` already.
    #[inline]
    pub fn decode(frame: &Frame<'a>, out: &mut Vec<u8>) -> Result<Option<Ask<'a>>, After> {
        let name = frame.arg(0).unwrap_or_default();
        // Each answer is made in its place, at the end: moving it would cost as much.
        if is(name, b"TG.CHECK") {
            match check(frame) {
                Ok((stated, id)) => Ok(Some(Ask::Check(stated.request(), id))),
                Err(error) => Err(malformed(error, out)),
            }
        } else if is(name, b"CL.THROTTLE") {
            match throttle(frame) {
                Ok((key, quota, cost)) => {
                    let subject = Subject::Throttle { key, quota };
                    Ok(Some(Ask::Throttle(Request { subject, cost })))
                }
                Err(error) => Err(malformed(error, out)),
            }
        } else if is(name, b"TG.REPORT") {
            match Stated::read(frame, "tg.report", frame.count()) {
                Ok(stated) => Ok(Some(Ask::Report(stated.request()))),
                Err(error) => Err(malformed(error, out)),
            }
        } else if is(name, b"TG.MATCH") {
            match Matched::read(frame) {
                Ok(matched) => Ok(Some(Ask::Match(Box::new(matched)))),
                Err(error) => Err(malformed(error, out)),
            }
        } else {
            Ok(None)
        }
    }

    /// Hands what the engine is to decide to `decide`. `peer` is the address of the asker
    /// itself.
    #[inline]
    pub fn ask<R>(&self, peer: Option<IpAddr>, decide: impl FnOnce(&Request<'_>) -> R) -> R {
        match self {
            Ask::Throttle(request) | Ask::Check(request, _) | Ask::Report(request) => {
                decide(request)
            }
            Ask::Match(matched) => matched.ask(peer, decide),
        }
    }

    /// The id that the check will be settled by.
    #[inline]
    pub fn id(&self) -> Option<CheckId<'a>> {
        match self {
            Ask::Check(_, id) => *id,
            Ask::Match(matched) => matched.id(),
            Ask::Throttle(_) | Ask::Report(_) => None,
        }
    }

    /// Writes the answer to a `TG.CHECK` or a `TG.REPORT` whose rule exists, or to a
    /// `TG.MATCH`: the command itself need not be kept for it.
    pub fn write_check(out: &mut Vec<u8>, decision: &Decision<'_>) {
        write_check(out, decision, "");
    }

    /// Writes the answer to `out`.
    pub fn write(&self, out: &mut Vec<u8>, decision: &Decision<'_>) {
        match self {
            Ask::Throttle(request) => write_throttle(out, decision, request.cost),
            Ask::Check(request, _) | Ask::Report(request) => {
                let rule = match request.subject {
                    Subject::Rule { rule, .. } => rule,
                    Subject::Described(_) | Subject::Throttle { .. } | Subject::Descriptor(_) => "",
                };
                write_check(out, decision, rule);
            }
            Ask::Match(_) => write_check(out, decision, ""),
        }
    }
}

/// Whether a command's `name` is `word`, in any case. Where `word` is known, which takes
/// inlining, all letters are compared at once.
#[inline(always)]
fn is<const N: usize>(name: &[u8], word: &[u8; N]) -> bool {
    let Ok(name) = <&[u8; N]>::try_from(name) else {
        return false;
    };
    let mut differs = 0;
    for (theirs, ours) in name.iter().zip(word) {
        let case = if ours.is_ascii_alphabetic() { 0x20 } else { 0 };
        differs |= (theirs ^ ours) & !case;
    }
    differs == 0
}

#[cold]
fn malformed(error: AskError<'_>, out: &mut Vec<u8>) -> After {
    reply::error(out, format_args!("ERR {error}"));
    After::Malformed
}

/// `CL.THROTTLE key max_burst count period [cost]`.
fn throttle<'a>(frame: &Frame<'a>) -> Result<(&'a [u8], Quota, Cost), AskError<'a>> {
    let (Some(key), Some(max_burst), Some(count), Some(period), 5..=6) = (
        frame.arg(1),
        frame.arg(2),
        frame.arg(3),
        frame.arg(4),
        frame.count(),
    ) else {
        return Err(AskError::Arity("cl.throttle"));
    };
    let max_burst = number::natural(max_burst).ok_or(AskError::Number("max_burst"))?;
    let count = number::natural(count).ok_or(AskError::Number("count"))?;
    let period = number::natural(period).ok_or(AskError::Number("period"))?;
    let cost = cost(frame.arg(5))?;
    // The first hit comes on top of the burst: so redis-cell has it.
    let capacity = max_burst.saturating_add(1);
    let quota = Quota::new(
        Algorithm::TokenBucket,
        count,
        Nanos::from_secs(period),
        Some(capacity),
    )
    .map_err(AskError::Quota)?;
    Ok((key, quota, cost))
}

/// `TG.CHECK rule key [cost [tier]] [ID id]`.
#[inline]
fn check<'a>(frame: &Frame<'a>) -> Result<(Stated<'a>, Option<CheckId<'a>>), AskError<'a>> {
    let count = frame.count();
    // A cost is a number, so where one may stand, `ID` is the option.
    let is_option = |word: &[u8]| word.eq_ignore_ascii_case(b"ID");
    let named = matches!(count, 5..=7) && frame.arg(count - 2).is_some_and(is_option);
    let id = frame.arg(count - 1).filter(|_| named).map(id).transpose()?;
    let end = if named { count - 2 } else { count };
    Ok((Stated::read(frame, "tg.check", end)?, id))
}

/// A check of a rule, as its command states it.
struct Stated<'a> {
    rule: &'a str,
    key: &'a [u8],
    cost: Cost,
    tier: Option<&'a str>,
}

impl<'a> Stated<'a> {
    /// `rule key [cost [tier]]` behind the name of the command, up to the argument `end`.
    #[inline]
    fn read(
        frame: &Frame<'a>,
        command: &'static str,
        end: usize,
    ) -> Result<Stated<'a>, AskError<'a>> {
        let (Some(rule), Some(key), 3..=5) = (frame.arg(1), frame.arg(2), end) else {
            return Err(AskError::Arity(command));
        };
        let rule = utf8(rule, "rule")?;
        let (mut cost, mut tier) = (Cost::ONE, None);
        if end > 3 {
            cost = self::cost(frame.arg(3))?;
        }
        if let (5, Some(said)) = (end, frame.arg(4)) {
            tier = Some(utf8(said, "tier")?);
        }
        Ok(Stated {
            rule,
            key,
            cost,
            tier,
        })
    }

    #[inline]
    fn request(self) -> Request<'a> {
        let Stated {
            rule,
            key,
            cost,
            tier,
        } = self;
        Request {
            subject: Subject::Rule { rule, key, tier },
            cost,
        }
    }
}

pub(super) fn id(text: &[u8]) -> Result<CheckId<'_>, AskError<'static>> {
    CheckId::new(text).ok_or(AskError::Id)
}

#[inline]
pub(super) fn utf8<'a>(text: &'a [u8], what: &'static str) -> Result<&'a str, AskError<'a>> {
    std::str::from_utf8(text).map_err(|_| AskError::Text(what))
}

pub(super) fn cost(arg: Option<&[u8]>) -> Result<Cost, AskError<'static>> {
    match arg {
        None => Ok(Cost::ONE),
        Some(text) => number::natural(text)
            .map(Cost::new)
            .ok_or(AskError::Number("cost")),
    }
}

fn write_throttle(out: &mut Vec<u8>, decision: &Decision<'_>, cost: Cost) {
    if decision.outcome == Outcome::Unavailable {
        return unavailable(out);
    }
    let limited = !decision.outcome.is_allowed() && !cost.is_peek();
    let retry = decision.outcome.retry_after().filter(|_| limited);
    five(out, decision, limited, retry, Nanos::as_secs_ceil);
}

fn write_check(out: &mut Vec<u8>, decision: &Decision<'_>, rule: &str) {
    let retry = match decision.outcome {
        Outcome::Unavailable => return unavailable(out),
        Outcome::UnknownRule => {
            let rule = Shown(rule.as_bytes());
            return reply::error(out, format_args!("ERR unknown rule '{rule}'"));
        }
        Outcome::Unidentified => {
            let message = "ERR UNIDENTIFIED the rule insists on knowing the caller";
            return reply::error(out, format_args!("{message}"));
        }
        Outcome::IdInUse => {
            let message = "ERR IN_USE the id is that of another check, or of this one, whose \
                           answer is still to come";
            return reply::error(out, format_args!("{message}"));
        }
        Outcome::Allowed { delay } if !delay.is_zero() => Some(delay),
        outcome => outcome.retry_after(),
    };
    let limited = !decision.outcome.is_allowed();
    five(out, decision, limited, retry, Nanos::as_millis_ceil);
}

fn five(
    out: &mut Vec<u8>,
    decision: &Decision<'_>,
    limited: bool,
    retry: Option<Nanos>,
    unit: fn(Nanos) -> u64,
) {
    let limit = decision.figures();
    let figures = [
        i64::from(limited),
        figure(limit.map(|limit| limit.limit)),
        figure(limit.map(|limit| limit.remaining)),
        figure(retry.map(unit)),
        figure(limit.map(|limit| unit(limit.reset_after))),
    ];
    reply::integers(out, figures);
}

/// −1 for what does not exist; the largest number for what is larger.
fn figure(value: Option<u64>) -> i64 {
    value.map_or(-1, |value| i64::try_from(value).unwrap_or(i64::MAX))
}

fn unavailable(out: &mut Vec<u8>) {
    reply::error(
        out,
        format_args!(
            "UNAVAILABLE the limit does not admit this without the store, which is lost, late or has forgotten"
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::DescribedLimit;
    use crate::protocol::resp::Parser;
    use crate::units::{Answers, Series, Timestamp};

    fn ask(words: &[&str]) -> Result<String, String> {
        let mut input = format!("*{}\r\n", words.len());
        for word in words {
            input += &format!("${}\r\n{word}\r\n", word.len());
        }
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        let frame = parser.next(input.as_bytes()).unwrap().unwrap();
        match Ask::decode(&frame, &mut out) {
            Ok(ask) => {
                let peer = Some([192, 0, 2, 1].into());
                Ok(ask.unwrap().ask(peer, |request| format!("{request:?}")))
            }
            Err(After::Malformed) => Err(String::from_utf8(out).unwrap()),
            Err(after) => panic!("{after:?}"),
        }
    }

    fn decision(outcome: Outcome, limit: u64, remaining: u64, reset: Nanos) -> Decision<'static> {
        Decision {
            outcome,
            limit: Some(DescribedLimit {
                rule: "orders",
                name: "free/1m",
                series: Series(1),
                limit,
                remaining,
                reset_after: reset,
                amount: limit,
                period: Nanos::from_secs(60),
                answers: Answers::of_no_rule(),
            }),
            stale: None,
            now: Timestamp::EPOCH,
            besides: None,
        }
    }

    const ALLOWED: Outcome = Outcome::Allowed { delay: Nanos::ZERO };

    fn refused(retry_after: Nanos) -> Outcome {
        Outcome::Refused { retry_after }
    }

    fn throttled(decision: &Decision<'_>, cost: u64) -> String {
        let mut out = Vec::new();
        write_throttle(&mut out, decision, Cost::new(cost));
        flat(&out)
    }

    fn checked(decision: &Decision<'_>) -> String {
        let mut out = Vec::new();
        write_check(&mut out, decision, "no\nsuch");
        flat(&out)
    }

    fn flat(out: &[u8]) -> String {
        String::from_utf8(out.to_vec())
            .unwrap()
            .replace("\r\n", " ")
    }

    #[test]
    fn a_throttle_is_a_token_bucket_with_one_more_than_the_burst() {
        let quota = Quota::new(Algorithm::TokenBucket, 30, Nanos::from_secs(60), Some(16));
        let request = |cost| Request {
            subject: Subject::Throttle {
                key: b"u",
                quota: quota.unwrap(),
            },
            cost: Cost::new(cost),
        };
        let said = ask(&["CL.THROTTLE", "u", "15", "30", "60"]);
        assert_eq!(said, Ok(format!("{:?}", request(1))));
        let said = ask(&["cl.throttle", "u", "15", "30", "60", "0"]);
        assert_eq!(said, Ok(format!("{:?}", request(0))));
    }

    #[test]
    fn a_check_may_leave_out_its_cost_and_its_tier() {
        let request = |cost, tier| Request {
            subject: Subject::Rule {
                rule: "orders",
                key: b"alice",
                tier,
            },
            cost: Cost::new(cost),
        };
        let said = ask(&["tg.check", "orders", "alice"]);
        assert_eq!(said, Ok(format!("{:?}", request(1, None))));
        let said = ask(&["TG.CHECK", "orders", "alice", "3", "pro"]);
        assert_eq!(said, Ok(format!("{:?}", request(3, Some("pro")))));
    }

    #[test]
    fn an_id_stands_behind_what_a_check_says() {
        let read = |words: &[&str]| {
            let frame = format!(
                "*{}\r\n{}",
                words.len(),
                words
                    .iter()
                    .map(|word| format!("${}\r\n{word}\r\n", word.len()))
                    .collect::<String>()
            );
            let (mut parser, mut out) = (Parser::default(), Vec::new());
            let frame = parser.next(frame.as_bytes()).unwrap().unwrap();
            let ask = Ask::decode(&frame, &mut out).map(|ask| {
                let ask = ask.unwrap();
                let id = format!("{:?}", ask.id().map(|id| id == CheckId::new(b"a").unwrap()));
                ask.ask(None, |request| format!("{id} {request:?}"))
            });
            ask.map_err(|_| String::from_utf8(out).unwrap())
        };
        let said = |id: Option<bool>, cost, tier| {
            let subject = Subject::Rule {
                rule: "r",
                key: b"k",
                tier,
            };
            let cost = Cost::new(cost);
            Ok(format!("{id:?} {:?}", Request { subject, cost }))
        };
        let named = Some(true);
        assert_eq!(
            read(&["TG.CHECK", "r", "k", "id", "a"]),
            said(named, 1, None)
        );
        assert_eq!(
            read(&["TG.CHECK", "r", "k", "5", "ID", "a"]),
            said(named, 5, None)
        );
        let all = ["TG.CHECK", "r", "k", "5", "ID", "ID", "a"];
        assert_eq!(read(&all), said(named, 5, Some("ID")));
        assert_eq!(
            read(&all[..5]),
            said(None, 5, Some("ID")),
            "a tier of that name"
        );
        assert_eq!(
            read(&["TG.REPORT", "r", "k", "5", "t"]),
            said(None, 5, Some("t"))
        );
        let matched = read(&["TG.MATCH", "GET", "/", "ID", "a", "COST", "3"]);
        assert!(matched.unwrap().starts_with("Some(true) "));
        let arity = |name| {
            let message = format!("-ERR wrong number of arguments for '{name}' command\r\n");
            Err(message)
        };
        assert_eq!(
            read(&["TG.CHECK", "r", "k", "5", "t", "a"]),
            arity("tg.check")
        );
        assert_eq!(
            read(&["TG.CHECK", "r", "k", "5", "t", "ID"]),
            arity("tg.check")
        );
        assert_eq!(
            read(&["TG.REPORT", "r", "k", "5", "ID", "a"]),
            arity("tg.report")
        );
        assert_eq!(read(&["TG.MATCH", "GET", "/", "ID"]), arity("tg.match"));
        let long = "x".repeat(129);
        let error = Err("-ERR the id must have 1 to 128 bytes\r\n".to_owned());
        assert_eq!(read(&["TG.CHECK", "r", "k", "ID", &long]), error);
        assert_eq!(read(&["TG.MATCH", "GET", "/", "ID", ""]), error);
        let twice = read(&["TG.MATCH", "GET", "/", "ID", "a", "id", "a"]);
        assert_eq!(twice, Err("-ERR 'id' is there twice\r\n".to_owned()));
    }

    #[test]
    fn a_match_describes_the_request_by_options_in_any_order() {
        use crate::rules::Described;
        let request = |described, cost| {
            let subject = Subject::Described(described);
            let cost = Cost::new(cost);
            Ok(format!("{:?}", Request { subject, cost }))
        };
        let plain = Described {
            method: "POST",
            path: "/a?b",
            peer: Some([192, 0, 2, 1].into()),
            ..Described::default()
        };
        assert_eq!(ask(&["TG.MATCH", "POST", "/a?b"]), request(plain, 1));
        let full = Described {
            ip: Some([203, 0, 113, 9].into()),
            headers: &[("x-key", " K "), ("accept", "")],
            attributes: &[("tier", "pro")],
            ..plain
        };
        let words = [
            "tg.match",
            "POST",
            "/a?b",
            "header",
            "X-Key",
            " K ",
            "ATTR",
            "Tier",
            "pro",
            "IP",
            "::ffff:203.0.113.9",
            "HEADER",
            "accept",
            "",
            "cost",
            "0",
        ];
        assert_eq!(ask(&words), request(full, 0));
    }

    #[test]
    fn a_match_that_cannot_be_understood_is_an_error_that_says_why() {
        for (words, error) in [
            (
                &["GET"] as &[&str],
                "wrong number of arguments for 'tg.match' command",
            ),
            (
                &["GET", "/", "COST"],
                "wrong number of arguments for 'tg.match' command",
            ),
            (
                &["GET", "/", "HEADER", "a"],
                "wrong number of arguments for 'tg.match' command",
            ),
            (
                &["GET", "/", "COST", "x"],
                "cost must be a whole number from 0 to 9223372036854775807",
            ),
            (
                &["GET", "/", "IP", "here\n"],
                "'here\\x0a' is not an IP address",
            ),
            (
                &["GET", "/", "5"],
                "unknown option '5'; write COST n, IP addr, ID id, HEADER name value or ATTR name value",
            ),
            (
                &["GET", "/", "COST", "1", "cost", "1"],
                "'cost' is there twice",
            ),
            (
                &["GET", "/", "IP", "::1", "IP", "::1"],
                "'IP' is there twice",
            ),
            (
                &["GET", "/", "HEADER", "a", "b", "HEADER", "A", "b"],
                "'A' is there twice",
            ),
        ] {
            let all: Vec<&str> = ["TG.MATCH"].iter().chain(words).copied().collect();
            assert_eq!(ask(&all), Err(format!("-ERR {error}\r\n")), "{words:?}");
        }
        let one = ["HEADER", "n", "v", "ATTR", "n", "v"];
        let all: Vec<&str> = ["TG.MATCH", "GET", "/"]
            .iter()
            .chain(&one)
            .copied()
            .collect();
        assert!(
            ask(&all).is_ok(),
            "a header and an attribute may share a name"
        );
    }

    #[test]
    fn what_is_no_whole_number_is_an_error_that_names_the_argument() {
        let thirty = "1".repeat(30);
        for bad in ["-1", "+5", " 5", "5 ", "1.5", "abc", "", "007", &thirty] {
            for (at, name) in [(2, "max_burst"), (3, "count"), (4, "period"), (5, "cost")] {
                let mut words = ["CL.THROTTLE", "u", "15", "30", "60", "1"];
                words[at] = bad;
                let error =
                    format!("-ERR {name} must be a whole number from 0 to 9223372036854775807\r\n");
                assert_eq!(ask(&words), Err(error), "{bad:?} as {name}");
            }
            assert!(ask(&["TG.CHECK", "r", "k", bad]).is_err_and(|error| error.contains("cost")));
        }
    }

    #[test]
    fn wrong_arity_and_quotas_that_cannot_be_represented_are_errors() {
        let arity = |name| {
            Err(format!(
                "-ERR wrong number of arguments for '{name}' command\r\n"
            ))
        };
        assert_eq!(ask(&["CL.THROTTLE", "u", "15", "30"]), arity("cl.throttle"));
        assert_eq!(
            ask(&["CL.THROTTLE", "u", "1", "1", "1", "1", "1"]),
            arity("cl.throttle")
        );
        assert_eq!(ask(&["TG.CHECK", "r"]), arity("tg.check"));
        assert_eq!(
            ask(&["TG.CHECK", "r", "k", "1", "t", "x"]),
            arity("tg.check")
        );
        let max = i64::MAX.to_string();
        for (count, period) in [("0", "60"), ("30", "0"), ("30", &*max)] {
            let error = ask(&["CL.THROTTLE", "u", "15", count, period]).unwrap_err();
            assert!(
                error.starts_with("-ERR the quota cannot be represented: "),
                "{error}"
            );
            assert_eq!(error.matches("\r\n").count(), 1);
        }
        assert!(ask(&["CL.THROTTLE", "u", &max, &max, "1"]).is_ok());
    }

    #[test]
    fn throttle_answers_field_for_field_as_redis_cell() {
        let secs = Nanos::from_secs;
        let first = decision(ALLOWED, 16, 15, secs(2));
        assert_eq!(throttled(&first, 1), "*5 :0 :16 :15 :-1 :2 ");
        let sixteenth = decision(ALLOWED, 16, 0, secs(32));
        assert_eq!(throttled(&sixteenth, 1), "*5 :0 :16 :0 :-1 :32 ");
        let seventeenth = decision(refused(secs(2)), 16, 0, secs(32));
        assert_eq!(throttled(&seventeenth, 1), "*5 :1 :16 :0 :2 :32 ");
        let peek = decision(ALLOWED, 16, 16, Nanos::ZERO);
        assert_eq!(throttled(&peek, 0), "*5 :0 :16 :16 :-1 :0 ");
        let peek = decision(refused(secs(2)), 16, 0, secs(32));
        assert_eq!(throttled(&peek, 0), "*5 :0 :16 :0 :-1 :32 ");
        // A running clock is a little later than the whole second: rounded up.
        let running = decision(
            refused(Nanos::new(1_000_000_001)),
            16,
            0,
            Nanos::new(31_200_000_000),
        );
        assert_eq!(throttled(&running, 1), "*5 :1 :16 :0 :2 :32 ");
        let impossible = decision(Outcome::Impossible, 10, 10, Nanos::ZERO);
        assert_eq!(throttled(&impossible, 11), "*5 :1 :10 :10 :-1 :0 ");
    }

    #[test]
    fn check_answers_milliseconds_and_what_does_not_exist_is_minus_one() {
        let ms = Nanos::from_millis;
        assert_eq!(
            checked(&decision(ALLOWED, 10, 9, ms(60_000))),
            "*5 :0 :10 :9 :-1 :60000 "
        );
        let wait = decision(refused(Nanos::new(1_000_001)), 10, 0, ms(5));
        assert_eq!(checked(&wait), "*5 :1 :10 :0 :2 :5 ");
        let delayed = decision(Outcome::Allowed { delay: ms(250) }, 10, 9, ms(500));
        assert_eq!(checked(&delayed), "*5 :0 :10 :9 :250 :500 ");
        let banned = decision(Outcome::Banned, 0, 0, Nanos::ZERO);
        assert_eq!(checked(&banned), "*5 :1 :0 :0 :-1 :0 ");
        let huge = decision(ALLOWED, u64::MAX, u64::MAX, Nanos::MAX);
        assert_eq!(
            checked(&huge),
            "*5 :0 :9223372036854775807 :9223372036854775807 :-1 :18446744073710 "
        );
        let unlimited = Decision {
            limit: None,
            ..decision(Outcome::Unlimited, 0, 0, Nanos::ZERO)
        };
        assert_eq!(checked(&unlimited), "*5 :0 :-1 :-1 :-1 :-1 ");
    }

    #[test]
    fn a_lost_store_and_an_unknown_rule_are_errors_and_never_limits() {
        let lost = decision(Outcome::Unavailable, 10, 0, Nanos::ZERO);
        let said = "-UNAVAILABLE the limit does not admit this without the store, which is lost, late or has forgotten ";
        assert_eq!(checked(&lost), said);
        assert_eq!(throttled(&lost, 0), said);
        let unknown = decision(Outcome::UnknownRule, 0, 0, Nanos::ZERO);
        assert_eq!(checked(&unknown), "-ERR unknown rule 'no\\x0asuch' ");
        let nobody = decision(Outcome::Unidentified, 0, 0, Nanos::ZERO);
        let said = "-ERR UNIDENTIFIED the rule insists on knowing the caller ";
        assert_eq!(checked(&nobody), said);
    }
}
