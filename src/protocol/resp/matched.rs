use std::borrow::Cow;
use std::net::IpAddr;

use smallvec::SmallVec;

use super::Frame;
use super::check::{AskError, cost, id, utf8};
use crate::engine::{CheckId, Request, Subject};
use crate::protocol::text::Shown;
use crate::rules::Described;
use crate::units::Cost;

/// A request described by `TG.MATCH`, for all matching rules to judge.
#[derive(Clone, Debug)]
pub struct Matched<'a> {
    method: &'a str,
    path: &'a str,
    ip: Option<IpAddr>,
    headers: Stated<'a>,
    attributes: Stated<'a>,
    cost: Cost,
    id: Option<CheckId<'a>>,
}

/// Names in lower case, with their values; each name once.
type Stated<'a> = SmallVec<[(Cow<'a, str>, &'a str); 8]>;

impl<'a> Matched<'a> {
    /// Reads `TG.MATCH method path` and the options behind it, in any order and case.
    pub(super) fn read(frame: &Frame<'a>) -> Result<Matched<'a>, AskError<'a>> {
        let (Some(method), Some(path)) = (frame.arg(1), frame.arg(2)) else {
            return Err(AskError::Arity("tg.match"));
        };
        let mut matched = Matched {
            method: utf8(method, "method")?,
            path: utf8(path, "path")?,
            ip: None,
            headers: Stated::new(),
            attributes: Stated::new(),
            cost: Cost::ONE,
            id: None,
        };
        let mut has_cost = false;
        let mut at = 3;
        while let Some(option) = frame.arg(at) {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            let (pairs, what) = if is("COST") || is("IP") || is("ID") {
                let value = frame.arg(at + 1).ok_or(AskError::Arity("tg.match"))?;
                let again = if is("COST") {
                    has_cost
                } else if is("ID") {
                    matched.id.is_some()
                } else {
                    matched.ip.is_some()
                };
                if again {
                    return Err(AskError::Again(Shown(option)));
                }
                if is("COST") {
                    matched.cost = cost(Some(value))?;
                    has_cost = true;
                } else if is("ID") {
                    matched.id = Some(id(value)?);
                } else {
                    matched.ip = Some(address(value)?);
                }
                at += 2;
                continue;
            } else if is("HEADER") {
                (&mut matched.headers, "header")
            } else if is("ATTR") {
                (&mut matched.attributes, "attribute")
            } else {
                return Err(AskError::Option(Shown(option)));
            };
            let (Some(name), Some(value)) = (frame.arg(at + 1), frame.arg(at + 2)) else {
                return Err(AskError::Arity("tg.match"));
            };
            let stated = utf8(name, what)?;
            let lower = if stated.bytes().any(|byte| byte.is_ascii_uppercase()) {
                Cow::Owned(stated.to_ascii_lowercase())
            } else {
                Cow::Borrowed(stated)
            };
            // Which of two is meant would be a guess.
            if pairs.iter().any(|(known, _)| *known == lower) {
                return Err(AskError::Again(Shown(name)));
            }
            pairs.push((lower, utf8(value, what)?));
            at += 3;
        }
        Ok(matched)
    }

    /// The id that the check will be settled by.
    pub(super) const fn id(&self) -> Option<CheckId<'a>> {
        self.id
    }

    /// Hands the request to `decide`. `peer` is the address of the asker itself.
    pub(super) fn ask<R>(&self, peer: Option<IpAddr>, decide: impl FnOnce(&Request<'_>) -> R) -> R {
        fn pairs<'p>(stated: &'p Stated<'_>) -> SmallVec<[(&'p str, &'p str); 8]> {
            stated
                .iter()
                .map(|(name, value)| (&**name, *value))
                .collect()
        }
        decide(&Request {
            subject: Subject::Described(Described {
                method: self.method,
                path: self.path,
                ip: self.ip,
                peer,
                headers: &pairs(&self.headers),
                attributes: &pairs(&self.attributes),
            }),
            cost: self.cost,
        })
    }
}

fn address(text: &[u8]) -> Result<IpAddr, AskError<'_>> {
    let address = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok());
    let address: IpAddr = address.ok_or(AskError::Address(Shown(text)))?;
    Ok(address.to_canonical())
}
