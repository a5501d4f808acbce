use super::super::fault::{At, CallerProblem, Problem, quote};
use super::super::identity::{Identity, KeySource, Normalize, OnMissing, PREFIXES, Part};
use super::super::reader::{Fields, Report, Spot, near, text, word};
use super::super::target::{Case, Target};
use super::super::tokens::Tokens;
use super::super::tree::{Node, Value, whole_number};
use super::super::weight::Weight;
use super::{Tier, each};

const WANT_KEY: &str = "a source of identity; write client, header:NAME or attribute:NAME";

/// Who is counted, as far as a file's defaults or a rule state it.
#[derive(Clone, Debug, Default)]
pub(super) struct IdentitySpec {
    sources: Option<Vec<KeySource>>,
    on_missing: Option<OnMissing>,
    normalize: Option<Normalize>,
    weight: Option<Weight>,
}

impl IdentitySpec {
    pub(super) fn read(fields: &Fields<'_>, spot: &Spot<'_>, report: &mut Report) -> IdentitySpec {
        let missing = [
            ("skip", OnMissing::Skip),
            ("ip", OnMissing::Ip),
            ("deny", OnMissing::Deny),
            ("shared", OnMissing::Shared),
        ];
        IdentitySpec {
            sources: fields.with("key", spot, report, sources),
            on_missing: fields.with("on_missing", spot, report, |node, spot, report| {
                word(node, spot, &missing, report)
            }),
            normalize: fields.with("normalize", spot, report, normalize),
            weight: fields.with("cost", spot, report, weight),
        }
    }

    /// What this says, and where it says nothing, what `wider` does, for a rule with this
    /// `target`. `at` is where its key is stated.
    pub(super) fn identity(
        &self,
        wider: &IdentitySpec,
        target: &Target,
        tokens: &mut Tokens,
        spot: &Spot<'_>,
        at: At,
        report: &mut Report,
    ) -> Option<Identity> {
        let client = [KeySource::Client];
        let sources = self.sources.as_deref().or(wider.sources.as_deref());
        let mut parts = Vec::new();
        let spot = spot.field("key", at);
        for source in sources.unwrap_or(&client) {
            let part = part(source, target, tokens, &spot, report)?;
            parts.push((source.clone(), part));
        }
        let on_missing = self.on_missing.or(wider.on_missing).unwrap_or_default();
        let normalize = self.normalize.or(wider.normalize).unwrap_or_default();
        Some(Identity::new(&parts, on_missing, normalize))
    }

    /// What the rule makes of a request's cost. Warns of limits in `tiers` that cannot pay it.
    pub(super) fn weight(
        &self,
        tiers: &[Tier],
        fields: &Fields<'_>,
        spot: &Spot<'_>,
        report: &mut Report,
    ) -> Weight {
        let weight = self.weight.clone().unwrap_or_default();
        if let (Weight::Times(cost), Some(node)) = (&weight, fields.get("cost")) {
            let cost = *cost;
            let limits = tiers.iter().flat_map(|tier| &tier.limits);
            for limit in limits.filter(|l| !l.quota.is_ban() && l.quota.capacity() < cost) {
                let limit = limit.name.clone();
                let problem = CallerProblem::CostAboveLimit { cost, limit };
                report.warn(&spot.field("cost", node.at), problem);
            }
        }
        weight
    }
}

fn part(
    source: &KeySource,
    target: &Target,
    tokens: &mut Tokens,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<Part> {
    let needs_tokens = matches!(source, KeySource::Subject | KeySource::Claim(_));
    if needs_tokens && tokens.is_empty() {
        report.fault(spot, CallerProblem::NoIssuer);
        return None;
    }
    Some(match source {
        KeySource::Client => Part::Client,
        KeySource::Global => Part::Global,
        KeySource::ApiKey => Part::ApiKey,
        KeySource::Subject => Part::Subject,
        KeySource::Tenant => Part::Tenant,
        KeySource::Header(name) => Part::Header(name.clone()),
        KeySource::Attribute(name) => Part::Attribute(name.clone()),
        KeySource::Query(name) => Part::Query(name.clone()),
        KeySource::Claim(name) => Part::Claim(tokens.claim(name)),
        KeySource::Path(name) => {
            let parameters: Vec<(usize, &str)> = parameters(&target.pattern.text).collect();
            let found = parameters.iter().find(|(_, known)| *known == &**name);
            let Some((number, _)) = found else {
                let names: Vec<&str> = parameters.iter().map(|(_, name)| *name).collect();
                let hint = match near(name, &names) {
                    Some(near) => format!("did you mean `path:{near}`?"),
                    None => format!("write {{{name}}} for one of its segments"),
                };
                let found = quote(&format!("path:{name}"));
                let endpoint = quote(&target.pattern.text);
                let problem = CallerProblem::UnknownParameter {
                    found,
                    endpoint,
                    hint,
                };
                report.fault(spot, problem);
                return None;
            };
            match target.spelling.case {
                Case::Sensitive => Part::Segment(*number),
                Case::Insensitive => Part::Folded(*number),
            }
        }
    })
}

/// The parameters `{name}` and `:name` of a pattern, each with the number of its segment.
/// An expression has none.
fn parameters(pattern: &str) -> impl Iterator<Item = (usize, &str)> {
    let path = pattern.strip_prefix("prefix:").unwrap_or(pattern);
    let path = if path.starts_with('/') { path } else { "" };
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    segments.enumerate().filter_map(|(number, segment)| {
        let braced = segment.strip_prefix('{').and_then(|s| s.strip_suffix('}'));
        Some((number, braced.or_else(|| segment.strip_prefix(':'))?))
    })
}

/// What identifies the caller: one source or several; `None` where it is null.
fn sources(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Vec<KeySource>> {
    let mut sources: Vec<KeySource> = Vec::new();
    let mut sound = true;
    each(node, spot, |node, spot| {
        let Some(found) = text(node, spot, WANT_KEY, report) else {
            sound = false;
            return;
        };
        let problem = match KeySource::parse(found) {
            Some(source) if !sources.contains(&source) => {
                sources.push(source);
                return;
            }
            Some(_) => Problem::DuplicateKeySource(quote(found)),
            None => unknown(found),
        };
        report.fault(spot, problem);
        sound = false;
    });
    if sound && sources.is_empty() && !node.is_null() {
        report.fault(spot, Problem::NoKeySource);
    }
    if sources.len() > 1 && sources.contains(&KeySource::Global) {
        report.fault(spot, CallerProblem::GlobalNotAlone);
        return None;
    }
    (sound && !sources.is_empty()).then_some(sources)
}

fn unknown(found: &str) -> Problem {
    let hint = found.split_once(':').and_then(|(kind, name)| {
        let near = near(kind, &PREFIXES).filter(|near| *near != kind)?;
        Some(format!("; did you mean `{near}:{name}`?"))
    });
    Problem::KeySource {
        found: quote(found),
        hint: hint.unwrap_or_default().escape_debug().to_string(),
    }
}

/// One word or several.
fn normalize(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Normalize> {
    #[derive(Clone, Copy)]
    enum Word {
        None,
        Lower,
        Nfc,
        Path,
    }
    let words = [
        ("none", Word::None),
        ("lower", Word::Lower),
        ("nfc", Word::Nfc),
        ("path", Word::Path),
    ];
    if matches!(node.value, Value::Null) {
        return None;
    }
    let mut normalize = Normalize::default();
    each(node, spot, |node, spot| {
        match word(node, spot, &words, report) {
            Some(Word::Lower) => normalize.lower = true,
            Some(Word::Nfc) => normalize.nfc = true,
            Some(Word::Path) => normalize.path = true,
            Some(Word::None) | None => {}
        }
    });
    Some(normalize)
}

/// A whole number, or an attribute that has one.
fn weight(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Weight> {
    let problem = match &node.value {
        Value::Bare(digits) => match whole_number(digits) {
            Some(0) => CallerProblem::CostZero,
            Some(factor) => return Some(Weight::Times(factor)),
            None => CallerProblem::Cost(node.describe()),
        },
        Value::Text(text) if text.starts_with("attribute:") => match KeySource::parse(text) {
            Some(KeySource::Attribute(name)) => return Some(Weight::Attribute(name.into())),
            _ => CallerProblem::Cost(node.describe()),
        },
        _ => CallerProblem::Cost(node.describe()),
    };
    report.fault(spot, problem);
    None
}
