//! `answers:` of a file or a rule.

use super::super::fault::{Problem, quote};
use super::super::reader::{Fields, Report, Spot, flag, near, number, text, word};
use super::super::tree::Node;
use crate::units::{Answers, Escape, Refusal, RefusalBody, ResetStyle, Template, TemplateValue};

pub(super) const ANSWERS: [&str; 5] = ["x_ratelimit", "reset", "ietf", "expose", "refusal"];
pub(super) const REFUSAL: [&str; 3] = ["status", "body", "content_type"];
const JSON: &str = "application/json";
/// The longest body of a refusal, in bytes.
const MAX_BODY: usize = 16 * 1_024;
/// The longest media type, in bytes.
const MAX_TYPE: usize = 128;

/// What one `answers:` states.
#[derive(Clone, Debug, Default)]
pub(super) struct AnswersSpec {
    x_ratelimit: Option<bool>,
    reset: Option<ResetStyle>,
    ietf: Option<bool>,
    expose: Option<bool>,
    status: Option<u16>,
    body: Option<RefusalBody>,
}

impl AnswersSpec {
    /// Reads `answers`; null states nothing.
    pub(super) fn read(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<AnswersSpec> {
        if node.is_null() {
            return None;
        }
        let want = "a map; write {reset: delta, ietf: false, refusal: {status: 429}}";
        let fields = Fields::read(node, spot, &ANSWERS, want, report)?;
        let styles = [("epoch", ResetStyle::Epoch), ("delta", ResetStyle::Delta)];
        let (status, body) = fields
            .with("refusal", spot, report, refusal)
            .unwrap_or_default();
        Some(AnswersSpec {
            x_ratelimit: fields.with("x_ratelimit", spot, report, flag),
            reset: fields.with("reset", spot, report, |node, spot, report| {
                word(node, spot, &styles, report)
            }),
            ietf: fields.with("ietf", spot, report, flag),
            expose: fields.with("expose", spot, report, flag),
            status,
            body,
        })
    }

    /// These, and where they say nothing, those of `wider`.
    pub(super) fn over(&self, wider: &AnswersSpec) -> AnswersSpec {
        AnswersSpec {
            x_ratelimit: self.x_ratelimit.or(wider.x_ratelimit),
            reset: self.reset.or(wider.reset),
            ietf: self.ietf.or(wider.ietf),
            expose: self.expose.or(wider.expose),
            status: self.status.or(wider.status),
            body: self.body.clone().or_else(|| wider.body.clone()),
        }
    }

    /// The answers, with every default filled in.
    pub(super) fn answers(&self) -> Answers {
        let defaults = Answers::default();
        let has_refusal = self.status.is_some() || self.body.is_some();
        Answers {
            x_ratelimit: self.x_ratelimit.unwrap_or(defaults.x_ratelimit),
            reset: self.reset.unwrap_or(defaults.reset),
            ietf: self.ietf.unwrap_or(defaults.ietf),
            expose: self.expose.unwrap_or(defaults.expose),
            refusal: has_refusal.then(|| Refusal {
                status: self.status.unwrap_or(Refusal::STATUS),
                body: self.body.clone(),
            }),
        }
    }
}

type RefusalSpec = (Option<u16>, Option<RefusalBody>);

fn refusal(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<RefusalSpec> {
    if node.is_null() {
        return None;
    }
    let want = "a map; write {status: 429, body: \"{message}\", content_type: text/plain}";
    let fields = Fields::read(node, spot, &REFUSAL, want, report)?;
    let status = fields.with("status", spot, report, status);
    let stated = fields.with("content_type", spot, report, content_type);
    if let Some(node) = fields.get("content_type")
        && fields.get("body").is_none()
    {
        let spot = spot.field("content_type", node.at);
        let problem = Problem::Missing("body", "the text that the content_type is of");
        report.fault(&spot, problem);
    }
    let content_type: Box<str> = match (stated, fields.get("content_type")) {
        (Some(stated), _) => stated,
        // One fault is enough: any text will do.
        (None, Some(_)) => "text/plain".into(),
        (None, None) => JSON.into(),
    };
    let text = fields.with("body", spot, report, |node, spot, report| {
        body(node, &content_type, spot, report)
    });
    let body = text.map(|text| RefusalBody { content_type, text });
    Some((status, body))
}

fn status(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<u16> {
    let given = number(node, spot, report)?;
    let status = u16::try_from(given)
        .ok()
        .filter(|status| (400..=599).contains(status) && *status != Refusal::STATUS_WITHOUT_STORE);
    if status.is_none() {
        report.fault(spot, Problem::RefusalStatus(given));
    }
    status
}

fn content_type(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Box<str>> {
    let found = text(node, spot, "a media type; write text/plain", report)?;
    let printable = found.bytes().all(|b| (b' '..=b'~').contains(&b));
    let kind = found.split(';').next().unwrap_or_default().trim_end();
    let token = |part: &str| {
        let proper = |b: u8| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b);
        !part.is_empty() && part.bytes().all(proper)
    };
    let sound = kind
        .split_once('/')
        .is_some_and(|(kind, subtype)| token(kind) && token(subtype));
    if !printable || !sound || found.len() > MAX_TYPE {
        report.fault(spot, Problem::MediaType(quote(found)));
        return None;
    }
    Some(found.into())
}

fn body(node: &Node, content_type: &str, spot: &Spot<'_>, report: &mut Report) -> Option<Template> {
    let found = text(node, spot, "a text; write \"{message}\"", report)?;
    if found.len() > MAX_BODY {
        report.fault(spot, Problem::LongBody(MAX_BODY));
        return None;
    }
    let template = match Template::parse(found) {
        Ok(template) => template,
        Err(error) => {
            let names = TemplateValue::ALL.map(TemplateValue::name);
            let hint = match near(&error.0, &names) {
                Some(near) => format!("did you mean {{{near}}}?"),
                None => format!("known are {}", names.join(", ")),
            };
            report.fault(spot, Problem::TemplateValue { error, hint });
            return None;
        }
    };
    if Escape::of(content_type) == Escape::Json {
        for (number, wait) in [("1", "1"), ("0", "null")] {
            let text = template.render(Escape::Json, |value| sample(value, number, wait).into());
            if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&text) {
                report.fault(spot, Problem::BodyNotJson(error.to_string()));
                return None;
            }
        }
    }
    Some(template)
}

/// What may stand for `value`: texts begin with what no escape ends with.
fn sample<'a>(value: TemplateValue, number: &'a str, wait: &'a str) -> &'a str {
    match value {
        TemplateValue::Error
        | TemplateValue::Message
        | TemplateValue::Rule
        | TemplateValue::LimitName => "x",
        TemplateValue::Limit | TemplateValue::Remaining | TemplateValue::ResetAfter => number,
        TemplateValue::RetryAfter | TemplateValue::RetryAfterMs => wait,
    }
}
