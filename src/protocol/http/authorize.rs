//! Forward auth: a gateway asks with the head of its client's request and no body.
//!
//! The query is written by the gateway's configuration, and so is believed. The fields come
//! from the client too, wherever the gateway does not overwrite them: they describe the
//! request, and nothing else is taken from them.

use std::borrow::Cow;
use std::net::IpAddr;

use percent_encoding::percent_decode_str;

use super::BadRequest;
use super::{Check, Reply};
use crate::protocol::headers::{Field, FieldName};
use crate::protocol::text::Shown;
use crate::units::Cost;

/// The longest body that is repeated in a field: gateways take heads of a page or two.
const MOST_IN_FIELD: usize = 2_048;
const HOST: &str = "host";

/// The fields of one family that describe a request.
#[derive(Debug)]
struct Family {
    method: &'static str,
    uris: &'static [&'static str],
    host: &'static str,
}

const FORWARDED: Family = Family {
    method: "x-forwarded-method",
    uris: &["x-forwarded-uri"],
    host: "x-forwarded-host",
};
const ORIGINAL: Family = Family {
    method: "x-original-method",
    uris: &["x-original-uri", "x-original-url"],
    host: "x-original-host",
};

/// How a gateway that cannot pass on every status is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deny {
    /// With the status itself.
    Plainly,
    /// With 403 for every status but 401, which are the two that `auth_request` of nginx
    /// knows; the true status and the body are in fields.
    As403,
}

/// What the query asks for.
#[derive(Debug, Default)]
struct Wanted {
    ip: Option<IpAddr>,
    cost: Option<Cost>,
    family: Option<&'static Family>,
    deny: bool,
    slashes: bool,
}

impl Deny {
    /// The one that a query asks for, whatever else is wrong with it.
    pub fn of(query: Option<&str>) -> Deny {
        let mut pairs = query.unwrap_or_default().split('&');
        if pairs.any(|pair| pair == "deny=403") {
            Deny::As403
        } else {
            Deny::Plainly
        }
    }

    /// The same answer, as the gateway can use it.
    pub fn answer(self, mut reply: Reply) -> Reply {
        if reply.status < 400 {
            // Nobody reads it.
            reply.body.clear();
            return reply;
        }
        if self == Deny::Plainly {
            return reply;
        }
        let mut tell = |name, value| reply.fields.push(Field { name, value });
        tell(FieldName::Status, reply.status.to_string());
        let fits = reply.body.len() <= MOST_IN_FIELD
            && reply.body.iter().all(|byte| (b' '..=b'~').contains(byte));
        if fits {
            let body = String::from_utf8_lossy(&reply.body).into_owned();
            tell(FieldName::Body, body);
        }
        if reply.status != 401 {
            reply.status = 403;
        }
        reply
    }
}

impl<'a> Check<'a> {
    /// The check that a gateway asks for with this query and these lines of fields, their
    /// names in lower case.
    ///
    /// # Errors
    /// [`BadRequest`], if the query cannot be understood, or the fields do not say which
    /// request is meant: none says it, or two contradict each other.
    pub fn authorize(
        query: Option<&str>,
        lines: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Check<'a>, BadRequest> {
        let wanted = Wanted::read(query)?;
        let mut lines: Vec<(Cow<'a, str>, Cow<'a, str>)> = lines
            .into_iter()
            .map(|(name, value)| (Cow::Borrowed(name), text(value)))
            .collect();
        let families = match &wanted.family {
            Some(family) => std::slice::from_ref(family),
            None => &[&FORWARDED, &ORIGINAL][..],
        };
        let one = |names: &mut dyn Iterator<Item = &'static str>| said(&lines, names);
        let method = one(&mut families.iter().map(|family| family.method))?;
        let uri = one(&mut families.iter().flat_map(|family| family.uris).copied())?;
        let host = one(&mut families.iter().map(|family| family.host))?;
        let (method, path) = match (method, uri) {
            (Some(method), Some(uri)) => (method, uri),
            (None, _) => return Err(BadRequest::Undescribed("X-Forwarded-Method")),
            (_, None) => return Err(BadRequest::Undescribed("X-Forwarded-Uri")),
        };
        if let Some(host) = host {
            // The line that is there is about the way to this door.
            lines.retain(|(name, _)| name != HOST);
            lines.push((Cow::Borrowed(HOST), named(host)));
        }
        let path = if wanted.slashes { slashed(path) } else { path };
        let cost = wanted.cost.unwrap_or(Cost::ONE);
        Ok(Check::described(method, path, wanted.ip, lines, cost))
    }
}

impl Wanted {
    fn read(query: Option<&str>) -> Result<Wanted, BadRequest> {
        let mut wanted = Wanted::default();
        let pairs = query.unwrap_or_default().split('&');
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            let wrong = || BadRequest::Query(Shown(pair.as_bytes()).to_string());
            let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
            let value = percent_decode_str(value)
                .decode_utf8()
                .map_err(|_| wrong())?;
            let twice = match (name, &*value) {
                ("ip", ip) => {
                    let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
                    wanted.ip.replace(ip.to_canonical()).is_some()
                }
                ("cost", cost) => {
                    let cost: u64 = cost.parse().map_err(|_| wrong())?;
                    wanted.cost.replace(Cost::new(cost)).is_some()
                }
                ("from", "forwarded") => wanted.family.replace(&FORWARDED).is_some(),
                ("from", "original") => wanted.family.replace(&ORIGINAL).is_some(),
                ("deny", "403") => std::mem::replace(&mut wanted.deny, true),
                ("slashes", "decoded") => std::mem::replace(&mut wanted.slashes, true),
                _ => return Err(wrong()),
            };
            if twice {
                return Err(wrong());
            }
        }
        Ok(wanted)
    }
}

/// What all lines with one of `names` say; `None` where there are none, or blank ones.
/// One of two that contradict each other may be the client's own.
fn said<'a>(
    lines: &[(Cow<'a, str>, Cow<'a, str>)],
    names: &mut dyn Iterator<Item = &'static str>,
) -> Result<Option<Cow<'a, str>>, BadRequest> {
    let mut found: Option<(&'static str, &Cow<'a, str>)> = None;
    for name in names {
        for (_, value) in lines.iter().filter(|(line, _)| line == name) {
            match found {
                None => found = Some((name, value)),
                Some((_, other)) if target(other) == target(value) => {}
                Some((other, _)) => return Err(BadRequest::Contradiction(other, name)),
            }
        }
    }
    let value = found.map(|(_, value)| value.clone());
    Ok(value.filter(|value| !value.trim().is_empty()))
}

/// A URI without its scheme and authority.
fn target(uri: &str) -> &str {
    let uri = uri.trim();
    match uri.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            rest.find('/').map_or("/", |slash| &rest[slash..])
        }
        _ => uri,
    }
}

/// The same URI with the slashes of its path decoded, as many applications read it: else such
/// a spelling would evade the rules for the path without it.
fn slashed(uri: Cow<'_, str>) -> Cow<'_, str> {
    let end = uri.find(['?', '#']).unwrap_or(uri.len());
    let (path, rest) = uri.split_at(end);
    if !path.contains("%2f") && !path.contains("%2F") {
        return uri;
    }
    let path = path.replace("%2f", "/").replace("%2F", "/");
    Cow::Owned(path + rest)
}

/// The one spelling of a host, whatever the letters' case, the port and a dot at its end:
/// applications know it by any.
fn named(host: Cow<'_, str>) -> Cow<'_, str> {
    let trimmed = host.trim();
    let end = match trimmed.find(']') {
        Some(bracket) if trimmed.starts_with('[') => bracket + 1,
        _ => trimmed.find(':').unwrap_or(trimmed.len()),
    };
    let name = trimmed[..end].trim_end_matches('.');
    if name == &*host && !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return host;
    }
    Cow::Owned(name.to_ascii_lowercase())
}

/// The text of a value: bytes that are not UTF-8 are Latin-1, as HTTP had it. What a client
/// sends cannot make its field disappear so.
fn text(value: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(value) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => value.iter().map(|byte| char::from(*byte)).collect(),
    }
}

#[cfg(test)]
mod tests;
