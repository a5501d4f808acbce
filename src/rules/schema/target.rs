use super::super::expression::Expression;
use super::super::fault::{Problem, quote};
use super::super::path::ends_with_slash;
use super::super::pattern::{End, Pattern, split_method};
use super::super::reader::{Fields, Report, Spot, text, word};
use super::super::target::{Case, Slash, Spelling, Target};
use super::super::tree::Node;
use super::each;
use super::when::when;

const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE",
];
const WANT_METHOD: &str = "a method; write GET, POST or a list of methods";

/// An endpoint, and the methods that stand before it.
struct Endpoint {
    methods: Option<Vec<Box<str>>>,
    pattern: Pattern,
    expression: Option<Expression>,
    /// Whether its path ends with a slash.
    slash: bool,
}

/// Reads which requests a rule, or an override, is for. Without `case` and
/// `trailing_slash` of its own it has those of `wider`.
pub(super) fn target(
    fields: &Fields<'_>,
    wider: Spelling,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<Target> {
    let cases = [
        ("sensitive", Case::Sensitive),
        ("insensitive", Case::Insensitive),
    ];
    let case = fields.with("case", spot, report, |node, spot, report| {
        word(node, spot, &cases, report)
    });
    let case = case.unwrap_or(wider.case);
    let endpoint = match fields.get("endpoint") {
        None => Some(Endpoint {
            methods: None,
            pattern: Pattern::every(),
            expression: None,
            slash: false,
        }),
        Some(node) => endpoint(node, case, &spot.field("endpoint", node.at), report),
    };
    let slashes = [("equal", Slash::Equal), ("distinct", Slash::Without)];
    let stated = fields.with("trailing_slash", spot, report, |node, spot, report| {
        let slash = word(node, spot, &slashes, report)?;
        let open = endpoint
            .as_ref()
            .is_some_and(|it| it.pattern.end != End::Here);
        if slash != Slash::Equal && open {
            report.fault(spot, Problem::NoTrailingSlash);
        }
        Some(slash)
    });
    let stated_methods = match fields.get("method") {
        None => Some(Vec::new()),
        Some(node) => methods(node, &spot.field("method", node.at), report),
    };
    let when = match fields.get("when") {
        None => Some(None),
        Some(node) => when(node, &spot.field("when", node.at), report).map(Some),
    };
    let endpoint = endpoint?;
    if endpoint.methods.is_some()
        && let Some(node) = fields.get("method")
    {
        let problem = Problem::SaidTwice("method", "endpoint");
        report.fault(&spot.field("method", node.at), problem);
    }
    let is_root = endpoint.pattern.segments.is_empty();
    let trailing_slash = match stated.unwrap_or(wider.trailing_slash) {
        Slash::Equal => Slash::Equal,
        // The root has no other spelling.
        _ if is_root || endpoint.pattern.end != End::Here => Slash::Equal,
        _ if endpoint.slash => Slash::With,
        _ => Slash::Without,
    };
    Some(Target {
        methods: endpoint.methods.or(stated_methods)?,
        pattern: endpoint.pattern,
        expression: endpoint.expression,
        when: when?,
        spelling: Spelling {
            case,
            trailing_slash,
        },
    })
}

fn endpoint(node: &Node, case: Case, spot: &Spot<'_>, report: &mut Report) -> Option<Endpoint> {
    let whole = text(node, spot, "an endpoint; write /api/v1/orders", report)?;
    let found = quote(whole);
    let (method, expression) = split_expression(whole);
    let (method, path) = match expression {
        Some(_) => (method, ""),
        None => split_method(whole),
    };
    let (method, is_prefix) = match method.and_then(|method| method.strip_suffix("prefix")) {
        // `split_method` has taken the colon away, and blanks.
        Some(before) if before.is_empty() || before.ends_with(char::is_whitespace) => (
            Some(before.trim()).filter(|before| !before.is_empty()),
            true,
        ),
        _ => (method, false),
    };
    let methods = match method {
        None => None,
        Some("*") => Some(Vec::new()),
        Some(method) => Some(vec![one_method(method, spot, report)?]),
    };
    if let Some(expression) = expression {
        let (pattern, expression) = expression_of(expression, case, found, spot, report)?;
        return Some(Endpoint {
            methods,
            pattern,
            expression: Some(expression),
            slash: false,
        });
    }
    let pattern = if is_prefix {
        Pattern::parse_prefix(path)
    } else {
        Pattern::parse(path)
    };
    match pattern {
        Ok(pattern) => Some(Endpoint {
            methods,
            pattern,
            expression: None,
            slash: ends_with_slash(path),
        }),
        Err(error) => {
            report.fault(spot, Problem::Endpoint { found, error });
            None
        }
    }
}

/// Splits `GET regex:^/a$` into method and expression, if there is one.
fn split_expression(whole: &str) -> (Option<&str>, Option<&str>) {
    let Some((before, expression)) = whole.split_once("regex:") else {
        return (None, None);
    };
    // Amid a path it is a part of it.
    if before.contains('/') || !(before.is_empty() || before.ends_with([' ', '\t', ':'])) {
        return (None, None);
    }
    let method = before.trim().trim_end_matches(':').trim_end();
    (
        Some(method).filter(|method| !method.is_empty()),
        Some(expression),
    )
}

fn expression_of(
    text: &str,
    case: Case,
    found: String,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<(Pattern, Expression)> {
    let expression = match Expression::parse(text, case == Case::Insensitive) {
        Ok(expression) => expression,
        Err(error) => {
            report.fault(spot, Problem::Expression { found, error });
            return None;
        }
    };
    let Some(pattern) = Pattern::of_expression(&format!("regex:{text}"), expression.start()) else {
        report.fault(spot, Problem::NoPath(found));
        return None;
    };
    Some((pattern, expression))
}

/// One method or several; none, and `*`, for all.
fn methods(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Vec<Box<str>>> {
    let mut methods: Vec<Box<str>> = Vec::new();
    let (mut every, mut sound) = (false, true);
    each(node, spot, |node, spot| {
        let Some(found) = text(node, spot, WANT_METHOD, report) else {
            sound = false;
            return;
        };
        if found == "*" {
            every = true;
            return;
        }
        match one_method(found, spot, report) {
            Some(method) if !methods.contains(&method) => methods.push(method),
            Some(_) => {}
            None => sound = false,
        }
    });
    if every {
        methods.clear();
    }
    sound.then_some(methods)
}

/// A method in upper case.
fn one_method(text: &str, spot: &Spot<'_>, report: &mut Report) -> Option<Box<str>> {
    let proper = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !(1..=32).contains(&text.len()) || !text.bytes().all(proper) {
        report.fault(spot, Problem::Method(quote(text)));
        return None;
    }
    let method = text.to_ascii_uppercase();
    if !METHODS.contains(&method.as_str()) {
        // One letter too many, too few or wrong, or two exchanged.
        let meant = METHODS
            .iter()
            .find(|m| strsim::osa_distance(&method, m) <= 1);
        let hint = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "check its spelling".to_owned(),
        };
        let found = quote(text);
        report.warn(spot, Problem::UnusualMethod { found, hint });
    }
    Some(method.into())
}
