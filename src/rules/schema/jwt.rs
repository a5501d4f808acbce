use jsonwebtoken::Algorithm;

use super::super::fault::{CallerProblem, Problem, quote};
use super::super::reader::{Fields, Report, Spot, text};
use super::super::tokens::{ALGORITHMS, Issuer, Keys, Tokens, algorithm, is_shared};
use super::super::tree::Node;
use super::callers::Beside;
use super::each;

pub(super) const ISSUER: [&str; 6] = [
    "issuer",
    "audience",
    "algorithms",
    "jwks_file",
    "key_file",
    "secret_file",
];
const KEYS: [&str; 3] = ["jwks_file", "key_file", "secret_file"];
const WANT: &str = "an issuer; write {issuer: https://id.example, audience: api, algorithms: [RS256], \
                    jwks_file: jwks.json}";

/// Takes the issuers whose tokens are believed.
pub(super) fn read(
    tokens: &mut Tokens,
    node: &Node,
    spot: &Spot<'_>,
    beside: &mut Beside<'_>,
    report: &mut Report,
) {
    each(node, spot, |node, spot| {
        if let Some(issuer) = issuer(node, spot, beside, report) {
            tokens.add(issuer);
        }
    });
}

fn issuer(
    node: &Node,
    spot: &Spot<'_>,
    beside: &mut Beside<'_>,
    report: &mut Report,
) -> Option<Issuer> {
    let fields = Fields::read(node, spot, &ISSUER, WANT, report)?;
    for (field, example) in [
        ("issuer", "issuer: https://id.example"),
        ("audience", "audience: api"),
        ("algorithms", "algorithms: [RS256]"),
    ] {
        if fields.get(field).is_none() {
            report.fault(spot, Problem::Missing(field, example));
        }
    }
    let name = fields.with("issuer", spot, report, name);
    let audience = fields.with("audience", spot, report, names);
    let algorithms = fields.with("algorithms", spot, report, algorithms);
    let mut stated = KEYS.into_iter().filter(|field| fields.get(field).is_some());
    let keys = match (stated.next(), stated.next()) {
        (None, _) => {
            let example = "`jwks_file`, `key_file` or `secret_file`";
            report.fault(spot, Problem::Missing("jwks_file", example));
            None
        }
        (Some(first), Some(second)) => {
            let at = fields.get(second).map_or(spot.at, |node| node.at);
            report.fault(&spot.field(second, at), Problem::SaidTwice(second, first));
            None
        }
        (Some(field), None) => fields.with(field, spot, report, |node, spot, report| {
            keys(field, algorithms.as_deref()?, node, spot, beside, report)
        }),
    };
    Some(Issuer {
        name: name?,
        audience: audience?,
        algorithms: algorithms?,
        keys: keys?,
    })
}

fn keys(
    field: &str,
    algorithms: &[Algorithm],
    node: &Node,
    spot: &Spot<'_>,
    beside: &mut Beside<'_>,
    report: &mut Report,
) -> Option<Keys> {
    let named = text(node, spot, "the name of a file", report)?;
    // A public key is no secret: used as one, anybody could sign.
    let wants_shared = field == "secret_file";
    if algorithms
        .iter()
        .any(|algorithm| is_shared(*algorithm) != wants_shared)
    {
        report.fault(spot, CallerProblem::KeyForAlgorithms);
        return None;
    }
    let (path, bytes) = beside.read(named, spot, report)?;
    let keys = match field {
        "jwks_file" => Keys::jwks(&bytes, algorithms),
        "key_file" => Keys::pem(&bytes, algorithms),
        _ => Keys::secret(&bytes),
    };
    match keys {
        Ok(keys) => Some(keys),
        Err(error) => {
            let file = quote(&path.display().to_string());
            report.fault(spot, CallerProblem::VerifyingKey { file, error });
            None
        }
    }
}

fn algorithms(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Vec<Algorithm>> {
    let before = report.faults.len();
    let mut all = Vec::new();
    each(node, spot, |node, spot| {
        let Some(found) = text(node, spot, "an algorithm; write RS256", report) else {
            return;
        };
        match algorithm(found) {
            Some(known) => all.push(known),
            None => {
                let upper = found.to_ascii_uppercase();
                // One letter too many, too few or wrong, or two exchanged.
                let near = |name: &&&str| strsim::osa_distance(&upper, name) <= 1;
                let hint = match ALGORITHMS.iter().find(near) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("write one of {}", ALGORITHMS.join(", ")),
                };
                let found = quote(found);
                report.fault(spot, CallerProblem::TokenAlgorithm { found, hint });
            }
        }
    });
    if all.is_empty() && report.faults.len() == before {
        report.fault(spot, Problem::Missing("algorithms", "algorithms: [RS256]"));
    }
    (report.faults.len() == before).then_some(all)
}

/// A name that tokens carry: blanks would make it ambiguous in a key.
fn name(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Box<str>> {
    let name = text(node, spot, "a name; write text", report)?;
    if name.is_empty() || name.contains(char::is_whitespace) {
        report.fault(spot, CallerProblem::NameInToken(quote(name)));
        return None;
    }
    Some(name.into())
}

fn names(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Vec<String>> {
    let before = report.faults.len();
    let mut all = Vec::new();
    each(node, spot, |node, spot| {
        all.extend(name(node, spot, report).map(String::from));
    });
    if all.is_empty() && report.faults.len() == before {
        report.fault(spot, Problem::Missing("audience", "audience: api"));
    }
    (report.faults.len() == before).then_some(all)
}
