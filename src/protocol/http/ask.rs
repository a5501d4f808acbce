use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use smallvec::SmallVec;

use super::BadRequest;
use super::pairs::{PairsText, Text};
use crate::engine::{CheckId, Request, Subject};
use crate::protocol::text::Shown;
use crate::rules::{Described, Descriptor};
use crate::units::Cost;

/// The longest body of one check, in bytes.
pub const MAX_BODY: usize = 64 * 1_024;
/// The longest body of a batch, in bytes.
pub const MAX_BATCH_BODY: usize = 512 * 1_024;
/// The most checks of one batch.
pub const MAX_BATCH: usize = 1_000;

/// What the body of `POST /v1/check` asks for.
#[derive(Debug)]
pub enum Asked<'a> {
    /// One check.
    One(Box<Check<'a>>),
    /// Several checks, each on its own, answered in their order.
    Batch(Vec<Check<'a>>),
}

/// One check, as stated.
#[derive(Debug)]
pub struct Check<'a> {
    subject: Stated<'a>,
    cost: Cost,
    response: bool,
    id: Option<Text<'a>>,
}

#[derive(Debug)]
enum Stated<'a> {
    Rule {
        rule: Text<'a>,
        key: Text<'a>,
        tier: Option<Text<'a>>,
    },
    Request {
        request: RequestJson<'a>,
        ip: Option<IpAddr>,
        attributes: PairsText<'a>,
    },
    Descriptor {
        domain: Text<'a>,
        entries: Vec<EntryJson<'a>>,
    },
}

impl<'a> Asked<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// [`BadRequest`], if any check of it cannot be understood.
    pub fn decode(body: &'a [u8]) -> Result<Asked<'a>, BadRequest> {
        if body.len() > MAX_BATCH_BODY {
            return Err(BadRequest::TooLarge(MAX_BATCH_BODY));
        }
        if body.is_empty() {
            return Err(BadRequest::Empty);
        }
        let mut json: CheckJson<'a, Checks<'a>> =
            serde_json::from_slice(body).map_err(BadRequest::Json)?;
        if let Some(Checks(checks)) = json.checks.take() {
            if let Some(name) = json.any() {
                return Err(BadRequest::Mixed(name, "checks"));
            }
            let response = json.response;
            let checks = checks.into_iter().enumerate().map(|(place, mut check)| {
                check.response = check.response.or(response);
                Check::new(check).map_err(|error| BadRequest::InBatch(place, Box::new(error)))
            });
            return Ok(Asked::Batch(checks.collect::<Result<_, _>>()?));
        }
        if body.len() > MAX_BODY {
            return Err(BadRequest::TooLarge(MAX_BODY));
        }
        Ok(Asked::One(Box::new(Check::new(json)?)))
    }

    /// Reads the body of a report: the same form, without what only checks have.
    ///
    /// # Errors
    /// [`BadRequest`], if any report of it cannot be understood.
    pub fn decode_report(body: &'a [u8]) -> Result<Asked<'a>, BadRequest> {
        let asked = Asked::decode(body)?;
        match &asked {
            Asked::One(check) => check.reports()?,
            Asked::Batch(checks) => {
                for (place, check) in checks.iter().enumerate() {
                    let in_batch = |error| BadRequest::InBatch(place, Box::new(error));
                    check.reports().map_err(in_batch)?;
                }
            }
        }
        Ok(asked)
    }
}

impl<'a> Check<'a> {
    fn new<C>(json: CheckJson<'a, C>) -> Result<Check<'a>, BadRequest> {
        let cost = json.cost.map_or(Cost::ONE, |Whole(cost)| Cost::new(cost));
        if let Some(domain) = json.domain {
            let beside = [
                ("rule", json.rule.is_some()),
                ("key", json.key.is_some()),
                ("tier", json.tier.is_some()),
                ("request", json.request.is_some()),
                ("attributes", json.attributes.is_some()),
            ];
            if let Some((name, _)) = beside.into_iter().find(|(_, given)| *given) {
                return Err(BadRequest::Mixed(name, "domain"));
            }
            let entries = json.entries.ok_or(BadRequest::Missing("entries"))?;
            return Ok(Check {
                subject: Stated::Descriptor { domain, entries },
                cost,
                response: json.response.unwrap_or(false),
                id: json.id.map(checked).transpose()?,
            });
        }
        if json.entries.is_some() {
            return Err(BadRequest::Missing("domain"));
        }
        let subject = match (json.rule, json.request) {
            (Some(_), Some(_)) => return Err(BadRequest::Mixed("rule", "request")),
            (Some(rule), None) => {
                if json.attributes.is_some() {
                    return Err(BadRequest::Attributes);
                }
                Stated::Rule {
                    rule,
                    key: json.key.ok_or(BadRequest::Missing("key"))?,
                    tier: json.tier,
                }
            }
            (None, Some(request)) => {
                if json.key.is_some() || json.tier.is_some() {
                    let name = if json.key.is_some() { "key" } else { "tier" };
                    return Err(BadRequest::Mixed(name, "request"));
                }
                Stated::Request {
                    ip: request.ip.as_ref().map(address).transpose()?,
                    request,
                    attributes: json.attributes.unwrap_or_default(),
                }
            }
            (None, None) if json.key.is_some() => return Err(BadRequest::Missing("rule")),
            (None, None) => return Err(BadRequest::Nothing),
        };
        Ok(Check {
            subject,
            cost,
            response: json.response.unwrap_or(false),
            id: json.id.map(checked).transpose()?,
        })
    }

    /// A check of a described request; the names of `headers` are in lower case, and
    /// several may be the same.
    pub(super) fn described(
        method: Cow<'a, str>,
        path: Cow<'a, str>,
        ip: Option<IpAddr>,
        headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
        cost: Cost,
    ) -> Check<'a> {
        Check {
            subject: Stated::Request {
                request: RequestJson {
                    method: Text(method),
                    path: Text(path),
                    ip: None,
                    headers: PairsText::of_lines(headers),
                },
                ip,
                attributes: PairsText::default(),
            },
            cost,
            response: false,
            id: None,
        }
    }

    /// The id that the check will be settled by.
    pub fn id(&self) -> Option<CheckId<'_>> {
        CheckId::new(self.id.as_ref()?.0.as_bytes())
    }

    /// Whether it is a report too.
    fn reports(&self) -> Result<(), BadRequest> {
        match self {
            Check { id: Some(_), .. } => Err(BadRequest::InReport("id")),
            Check { response: true, .. } => Err(BadRequest::InReport("response")),
            _ => Ok(()),
        }
    }

    /// Hands the check to `decide` as the engine's request. `peer` is the address of
    /// the asker itself.
    pub fn ask<R>(&self, peer: Option<IpAddr>, decide: impl FnOnce(&Request<'_>) -> R) -> R {
        match &self.subject {
            Stated::Rule { rule, key, tier } => decide(&Request {
                subject: Subject::Rule {
                    rule: &rule.0,
                    key: key.0.as_bytes(),
                    tier: tier.as_ref().map(|tier| &*tier.0),
                },
                cost: self.cost,
            }),
            Stated::Request {
                request,
                ip,
                attributes,
            } => {
                let headers: SmallVec<[(&str, &str); 16]> = request.headers.iter().collect();
                let attributes: SmallVec<[(&str, &str); 8]> = attributes.iter().collect();
                decide(&Request {
                    subject: Subject::Described(Described {
                        method: &request.method.0,
                        path: &request.path.0,
                        ip: *ip,
                        peer,
                        headers: &headers,
                        attributes: &attributes,
                    }),
                    cost: self.cost,
                })
            }
            Stated::Descriptor { domain, entries } => {
                let entries: SmallVec<[(&str, &str); 8]> = entries
                    .iter()
                    .map(|entry| {
                        (
                            &*entry.key.0,
                            entry.value.as_ref().map_or("", |text| &*text.0),
                        )
                    })
                    .collect();
                decide(&Request {
                    subject: Subject::Descriptor(Descriptor {
                        domain: &domain.0,
                        entries: &entries,
                        stated: None,
                    }),
                    cost: self.cost,
                })
            }
        }
    }

    /// Whether the answer is to hold the response that the caller is to be given.
    pub fn wants_response(&self) -> bool {
        self.response
    }

    /// What is asked for by name, a rule or a domain, in a word, and the name.
    pub(super) fn asked(&self) -> (&'static str, &str) {
        match &self.subject {
            Stated::Rule { rule, .. } => ("rule", &rule.0),
            Stated::Descriptor { domain, .. } => ("domain", &domain.0),
            Stated::Request { .. } => ("rule", ""),
        }
    }
}

/// An id of a fitting length.
pub(super) fn checked(id: Text<'_>) -> Result<Text<'_>, BadRequest> {
    match CheckId::new(id.0.as_bytes()) {
        Some(_) => Ok(id),
        None => Err(BadRequest::Id),
    }
}

fn address(text: &Text<'_>) -> Result<IpAddr, BadRequest> {
    let address: IpAddr = text
        .0
        .parse()
        .map_err(|_| BadRequest::Ip(Shown(text.0.as_bytes()).to_string()))?;
    Ok(address.to_canonical())
}

/// The fields of one check and, at the top of a body, `checks`.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a check, such as {\"rule\": …, \"key\": …}"
)]
struct CheckJson<'a, C> {
    #[serde(borrow)]
    rule: Option<Text<'a>>,
    key: Option<Text<'a>>,
    tier: Option<Text<'a>>,
    request: Option<RequestJson<'a>>,
    attributes: Option<PairsText<'a>>,
    cost: Option<Whole>,
    response: Option<bool>,
    id: Option<Text<'a>>,
    checks: Option<C>,
    domain: Option<Text<'a>>,
    entries: Option<Vec<EntryJson<'a>>>,
}

/// One entry of a descriptor.
#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an entry, such as {\"key\": …, \"value\": …}"
)]
struct EntryJson<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    value: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a request, such as {\"method\": …, \"path\": …}"
)]
struct RequestJson<'a> {
    #[serde(borrow)]
    method: Text<'a>,
    path: Text<'a>,
    ip: Option<Text<'a>>,
    #[serde(default)]
    headers: PairsText<'a>,
}

impl<C> CheckJson<'_, C> {
    /// The name of any field that is given beside `checks`.
    fn any(&self) -> Option<&'static str> {
        [
            ("rule", self.rule.is_some()),
            ("key", self.key.is_some()),
            ("tier", self.tier.is_some()),
            ("request", self.request.is_some()),
            ("attributes", self.attributes.is_some()),
            ("cost", self.cost.is_some()),
            ("domain", self.domain.is_some()),
            ("entries", self.entries.is_some()),
            ("id", self.id.is_some()),
        ]
        .into_iter()
        .find_map(|(name, given)| given.then_some(name))
    }
}

/// A cost, whose faults are told in plain words.
pub(super) struct Whole(pub(super) u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Whole, D::Error> {
        struct WholeVisitor;

        impl Visitor<'_> for WholeVisitor {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, 0 or more")
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(number))
            }
        }

        deserializer.deserialize_u64(WholeVisitor)
    }
}

/// What `checks` may hold within a check: nothing.
struct Nested;

impl<'de> Deserialize<'de> for Nested {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Nested, D::Error> {
        Err(D::Error::custom("a batch within a batch"))
    }
}

/// A bounded list of checks: it stops reading at the first one too many.
struct Checks<'a>(Vec<CheckJson<'a, Nested>>);

impl<'de: 'a, 'a> Deserialize<'de> for Checks<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Checks<'a>, D::Error> {
        struct ChecksVisitor;

        impl<'de> Visitor<'de> for ChecksVisitor {
            type Value = Checks<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of checks")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Checks<'de>, S::Error> {
                let mut checks = Vec::new();
                while let Some(check) = seq.next_element()? {
                    if checks.len() == MAX_BATCH {
                        return Err(S::Error::custom(format_args!(
                            "more than {MAX_BATCH} checks"
                        )));
                    }
                    checks.push(check);
                }
                Ok(Checks(checks))
            }
        }

        deserializer.deserialize_seq(ChecksVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

    fn one(body: &str) -> Result<String, String> {
        match Asked::decode(body.as_bytes()) {
            Ok(Asked::One(check)) => Ok(check.ask(PEER, |request| format!("{request:?}"))),
            Ok(Asked::Batch(_)) => panic!("a batch"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_rule_and_a_key_are_a_check() {
        let wanted = |tier, cost| {
            let subject = Subject::Rule {
                rule: "orders",
                key: b"alice",
                tier,
            };
            let cost = Cost::new(cost);
            Ok(format!("{:?}", Request { subject, cost }))
        };
        let body = r#"{"rule":"orders","key":"alice","cost":1}"#;
        assert_eq!(one(body), wanted(None, 1));
        let body = r#" {"key":"\u0061lice","rule":"orders","tier":"pro","cost":0} "#;
        assert_eq!(one(body), wanted(Some("pro"), 0));
        let body = r#"{"rule":"orders","key":"alice","cost":18446744073709551615}"#;
        assert_eq!(one(body), wanted(None, u64::MAX));
        assert_eq!(
            one(r#"{"rule":"orders","key":"alice","cost":null}"#),
            wanted(None, 1)
        );
    }

    #[test]
    fn a_described_request_is_a_check_with_names_in_lower_case_and_its_address_unmapped() {
        let body = r#"{"request":{"method":"POST","path":"/a?b","ip":"::ffff:203.0.113.9",
            "headers":{"X-Tier":"A","b":""}},"attributes":{"user":"al"},"cost":2}"#;
        let described = Described {
            method: "POST",
            path: "/a?b",
            ip: "203.0.113.9".parse().ok(),
            peer: PEER,
            headers: &[("x-tier", "A"), ("b", "")],
            attributes: &[("user", "al")],
        };
        let wanted = Request {
            subject: Subject::Described(described),
            cost: Cost::new(2),
        };
        assert_eq!(one(body), Ok(format!("{wanted:?}")));
        assert!(one(r#"{"request":{"method":"GET","path":"/"}}"#).is_ok());
    }

    #[test]
    fn a_domain_and_entries_are_a_check_in_their_order() {
        let wanted = |entries, cost| {
            let descriptor = Descriptor {
                domain: "shop",
                entries,
                stated: None,
            };
            let subject = Subject::Descriptor(descriptor);
            let cost = Cost::new(cost);
            Ok(format!("{:?}", Request { subject, cost }))
        };
        let body =
            r#"{"domain":"shop","entries":[{"key":"Path","value":"/a"},{"key":"k"}],"cost":2}"#;
        assert_eq!(one(body), wanted(&[("Path", "/a"), ("k", "")], 2));
        assert_eq!(one(r#"{"domain":"shop","entries":[]}"#), wanted(&[], 1));
        for (body, told) in [
            (r#"{"domain":"shop"}"#, "missing field `entries`"),
            (r#"{"entries":[]}"#, "missing field `domain`"),
            (
                r#"{"domain":"shop","entries":[],"rule":"r"}"#,
                "`rule` does not go with `domain`",
            ),
            (
                r#"{"domain":"shop","entries":[{"value":"x"}]}"#,
                "missing field `key`",
            ),
        ] {
            let said = one(body).unwrap_err();
            assert!(said.contains(told), "{body}: {said}");
        }
    }

    #[test]
    fn what_is_wrong_is_refused_and_named() {
        for (body, named) in [
            ("", "the body is empty"),
            ("{}", "nothing is asked"),
            ("{", "EOF"),
            ("[]", "expected"),
            (r#"{"rule":"r","key":"k"}x"#, "trailing"),
            (r#"{"rule":"r","key":"k","extra":1}"#, "extra"),
            (
                r#"{"rule":"r","key":"k","key":"l"}"#,
                "duplicate field `key`",
            ),
            (
                r#"{"rule":"r","key":"k","id":""}"#,
                "`id` must have 1 to 128",
            ),
            (r#"{"id":"a","checks":[]}"#, "`id` does not go"),
            (r#"{"rule":"r"}"#, "missing field `key`"),
            (r#"{"key":"k"}"#, "missing field `rule`"),
            (r#"{"rule":"r","key":null}"#, "missing field `key`"),
            (r#"{"rule":"r","key":7}"#, "expected a string"),
            ("[]", "expected a check, such as {"),
            (r#"{"checks":[1]}"#, "expected a check, such as {"),
            (r#"{"request":1}"#, "expected a request, such as {"),
            (
                r#"{"rule":"r","key":"k","cost":-1}"#,
                "`-1`, expected a whole number, 0 or more",
            ),
            (r#"{"rule":"r","key":"k","cost":1.5}"#, "1.5"),
            (r#"{"rule":"r","key":"k","cost":1.0}"#, "1.0"),
            (r#"{"rule":"r","key":"k","cost":"1"}"#, "string"),
            (
                r#"{"rule":"r","key":"k","cost":18446744073709551616}"#,
                "invalid",
            ),
            (
                r#"{"rule":"r","key":"k","attributes":{}}"#,
                "`attributes` does not go with `rule`; write `tier`",
            ),
            (
                r#"{"rule":"r","request":{"method":"G","path":"/"}}"#,
                "`rule` does not go",
            ),
            (
                r#"{"key":"k","request":{"method":"G","path":"/"}}"#,
                "`key` does not go",
            ),
            (r#"{"request":{"path":"/"}}"#, "missing field `method`"),
            (
                r#"{"request":{"method":"G","path":"/","ip":"1.2.3.4.5"}}"#,
                "1.2.3.4.5",
            ),
            (
                r#"{"request":{"method":"G","path":"/","ip":""}}"#,
                "not an IP address",
            ),
            (
                r#"{"request":{"method":"G","path":"/","ip":"1.2.3.4","x":1}}"#,
                "x",
            ),
            (
                r#"{"request":{"method":"G","path":"/","headers":{"a":"","A":""}}}"#,
                "duplicate name",
            ),
            (
                r#"{"request":{"method":"G","path":"/","headers":{"a":["b"]}}}"#,
                "string",
            ),
            (
                r#"{"request":{"method":"G","path":"/"},"attributes":{"a":"","a":""}}"#,
                "duplicate",
            ),
            (
                r#"{"rule":"r","key":"k","checks":[]}"#,
                "`rule` does not go with `checks`",
            ),
            (
                r#"{"checks":[{"rule":"r","key":"k"},{"rule":"r"}]}"#,
                "checks[1]: missing field `key`",
            ),
            (r#"{"checks":[{"checks":[]}]}"#, "a batch within a batch"),
        ] {
            let error = Asked::decode(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(named), "{body}: {error}");
        }
        assert!(Asked::decode(b"{\"rule\":\"\xff\",\"key\":\"k\"}").is_err());
    }

    #[test]
    fn an_id_goes_with_a_check_and_not_with_a_report() {
        let body = r#"{"checks":[{"rule":"r","key":"k","id":"\u00e9"},{"rule":"r","key":"k"}]}"#;
        let Ok(Asked::Batch(checks)) = Asked::decode(body.as_bytes()) else {
            panic!("no batch");
        };
        assert_eq!(checks[0].id(), CheckId::new("é".as_bytes()));
        assert_eq!(checks[1].id(), None);
        for (body, error) in [
            (body, "checks[0]: `id` does not go with a report"),
            (
                r#"{"rule":"r","key":"k","response":true}"#,
                "`response` does not go with a report",
            ),
        ] {
            let said = Asked::decode_report(body.as_bytes())
                .unwrap_err()
                .to_string();
            assert!(said.starts_with(error), "{said}");
        }
        assert!(Asked::decode_report(br#"{"rule":"r","key":"k","cost":9}"#).is_ok());
        let long = format!(r#"{{"rule":"r","key":"k","id":"{}"}}"#, "x".repeat(129));
        assert!(matches!(
            Asked::decode(long.as_bytes()),
            Err(BadRequest::Id)
        ));
    }

    #[test]
    fn a_message_shows_no_control_characters_of_the_client() {
        let error = one(r#"{"a\r\nb\u0000":1}"#).unwrap_err();
        assert!(error.contains(r"a\x0d\x0ab\x00"), "{error}");
    }

    #[test]
    fn deep_nesting_and_many_pairs_are_refused() {
        assert!(one(&"[".repeat(100_000)).is_err());
        let deep = format!(r#"{{"rule":"r","key":{}"#, "[".repeat(50_000));
        assert!(one(&deep).is_err());
        let many: Vec<String> = (0..129).map(|n| format!(r#""h{n}":"""#)).collect();
        let many = many.join(",");
        let body = format!(r#"{{"request":{{"method":"G","path":"/","headers":{{{many}}}}}}}"#);
        assert!(one(&body).unwrap_err().contains("more than 128"));
    }

    #[test]
    fn a_batch_is_bounded_in_checks_and_a_single_check_in_bytes() {
        let batch = |n| {
            let checks = vec![r#"{"rule":"r","key":"k"}"#; n].join(",");
            format!(r#"{{"checks":[{checks}]}}"#)
        };
        for n in [0, 1, 1_000] {
            match Asked::decode(batch(n).as_bytes()) {
                Ok(Asked::Batch(checks)) => assert_eq!(checks.len(), n),
                other => panic!("{other:?}"),
            }
        }
        let error = Asked::decode(batch(1_001).as_bytes()).unwrap_err();
        assert!(error.to_string().contains("more than 1000 checks"));
        let long = |n| format!(r#"{{"rule":"r","key":"{}"}}"#, "k".repeat(n));
        assert!(one(&long(60_000)).is_ok());
        let too_long = |body: &str| match Asked::decode(body.as_bytes()) {
            Err(BadRequest::TooLarge(limit)) => Some(limit),
            _ => None,
        };
        assert_eq!(too_long(&long(65_536)), Some(MAX_BODY));
        assert_eq!(too_long(&" ".repeat(524_289)), Some(MAX_BATCH_BODY));
    }
}
