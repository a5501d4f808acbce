use std::collections::BTreeSet;

use super::super::fault::{CallerProblem, Fault, Problem, quote};
use super::super::identity::{KeySource, field};
use super::super::networks::Networks;
use super::super::reader::{Fields, Report, Spot, entries, near, text, wrong_kind};
use super::super::tiers::{TierSource, Tiers};
use super::super::tokens::Tokens;
use super::super::tree::{Node, Value};
use super::callers::{each_network, trusted};
use super::{RuleSpec, Schema, descriptors, each, name, policies};

pub(super) const TIERS: [&str; 2] = ["from", "default"];
pub(super) const SOURCE: [&str; 3] = ["header", "from", "addresses"];
const WANT_SOURCE: &str = "a source of tiers; write api_key, claim:NAME, attribute:NAME, {header: NAME, \
                           from: [10.0.0.0/8]} or {addresses: {partner: [203.0.113.0/24]}}";

/// Reads where tiers come from.
pub(super) fn read(
    tokens: &mut Tokens,
    named: &mut Vec<Named>,
    node: &Node,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<Tiers> {
    let want = "a map; write {from: [api_key], default: free}";
    let fields = Fields::read(node, spot, &TIERS, want, report)?;
    let default = fields.with("default", spot, report, name);
    if let (Some(tier), Some(node)) = (&default, fields.get("default")) {
        named.push(Named::new(tier, &spot.field("default", node.at)));
    }
    let default = default.map(Into::into);
    let Some(node) = fields.get("from") else {
        return Some(Tiers {
            default,
            ..Tiers::default()
        });
    };
    let mut sources = Vec::new();
    each(node, &spot.field("from", node.at), |node, spot| {
        sources.extend(source(tokens, named, node, spot, report));
    });
    Some(Tiers { sources, default })
}

fn source(
    tokens: &mut Tokens,
    named: &mut Vec<Named>,
    node: &Node,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<TierSource> {
    if let Value::Map(_) = &node.value {
        return map(named, node, spot, report);
    }
    let found = text(node, spot, WANT_SOURCE, report)?;
    match KeySource::parse(found) {
        Some(KeySource::ApiKey) => return Some(TierSource::ApiKey),
        Some(KeySource::Attribute(name)) => return Some(TierSource::Attribute(name)),
        Some(KeySource::Claim(_)) if tokens.is_empty() => {
            report.fault(spot, CallerProblem::NoIssuer)
        }
        Some(KeySource::Claim(name)) => return Some(TierSource::Claim(tokens.claim(&name))),
        Some(KeySource::Header(_)) => report.fault(spot, CallerProblem::TierHeader),
        _ => report.fault(spot, CallerProblem::TierSource(quote(found))),
    }
    None
}

fn map(
    named: &mut Vec<Named>,
    node: &Node,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<TierSource> {
    let before = report.faults.len();
    let fields = Fields::read(node, spot, &SOURCE, WANT_SOURCE, report)?;
    match (fields.get("header"), fields.get("addresses")) {
        (Some(_), Some(node)) => {
            let problem = Problem::SaidTwice("addresses", "header");
            report.fault(&spot.field("addresses", node.at), problem);
            None
        }
        (Some(header), None) => {
            let Some(from) = fields.with("from", spot, report, trusted) else {
                if fields.get("from").is_none() {
                    report.fault(spot, CallerProblem::TierHeader);
                }
                return None;
            };
            let spot = spot.field("header", header.at);
            let found = text(header, &spot, "the name of a header; write X-Tier", report)?;
            let Some(name) = field(found) else {
                report.fault(&spot, CallerProblem::HeaderName(quote(found)));
                return None;
            };
            Some(TierSource::Header(name, from))
        }
        (None, Some(node)) => addresses(named, node, &spot.field("addresses", node.at), report),
        // A misspelt one is told already.
        (None, None) if report.faults.len() > before => None,
        (None, None) => wrong_kind(node, spot, WANT_SOURCE, report),
    }
}

fn addresses(
    named: &mut Vec<Named>,
    node: &Node,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<TierSource> {
    let want = "a map of tiers; write {partner: [203.0.113.0/24]}";
    let Value::Map(map) = &node.value else {
        return wrong_kind(node, spot, want, report);
    };
    let mut tiers: Networks<Box<str>> = Networks::default();
    for (tier, _, node) in entries(map, spot, report) {
        let spot = spot.field(tier, node.at);
        named.push(Named::new(tier, &spot));
        each_network(node, &spot, report, |network, spot, report| {
            if let Some(other) = tiers.insert(network, tier.into())
                && *other != *tier
            {
                let network = network.to_string();
                let tier = other.into();
                report.fault(spot, CallerProblem::TierOfNetwork { network, tier });
            }
        });
    }
    Some(TierSource::Addresses(tiers))
}

/// A tier that callers may have, and what is wrong if no rule knows it.
pub(in crate::rules) struct Named {
    tier: Box<str>,
    fault: Fault,
}

impl Named {
    pub(super) fn new(tier: &str, spot: &Spot<'_>) -> Named {
        let problem = CallerProblem::UnknownTier {
            tier: quote(tier),
            hint: String::new(),
        };
        Named {
            tier: tier.into(),
            fault: spot.fault(problem),
        }
    }
}

impl Schema<'_> {
    /// Checks what must go together with all rules, `specs`.
    pub(in crate::rules) fn check(&mut self, specs: &[RuleSpec], report: &mut Report) {
        // A rule with a fault may have the tiers that seem to be missing.
        if report.faults.is_empty() {
            self.check_tiers(specs, report);
        }
        policies::warn_of_unused(&self.policies, report);
        descriptors::warn_of_unnamed(specs, report);
    }

    /// Reports tiers that callers may have and no rule knows: a slip of the pen there would
    /// silently give them the default.
    fn check_tiers(&mut self, specs: &[RuleSpec], report: &mut Report) {
        let tiers = specs.iter().flat_map(|spec| {
            let overrides = spec.overrides.iter().flat_map(|one| &one.tiers);
            spec.tiers.iter().chain(overrides)
        });
        let known: BTreeSet<&str> = tiers.map(|tier| tier.name.as_str()).collect();
        if known.is_empty() {
            return;
        }
        let known: Vec<&str> = known.into_iter().collect();
        for Named { tier, mut fault } in self.named.drain(..) {
            if known.contains(&&*tier) {
                continue;
            }
            if let Problem::Caller(CallerProblem::UnknownTier { hint, .. }) = &mut fault.problem {
                *hint = match near(&tier, &known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("known are {}", known.join(", ")),
                };
            }
            report.faults.push(fault);
        }
    }
}
