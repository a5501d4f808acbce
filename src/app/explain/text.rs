//! An explanation for people.

use std::fmt;

use crate::protocol::http::{CountedTold, Explanation, LimitTold, RuleTold};

/// Shows an explanation in lines: each rule, then the answer.
pub(super) struct Text<'e>(pub(super) &'e Explanation);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation {
            caller,
            rules,
            answer,
        } = self.0;
        let known = [
            ("address", &caller.address),
            ("api key of", &caller.api_key),
            ("tenant", &caller.tenant),
            ("subject", &caller.subject),
            ("tier", &caller.tier),
        ];
        let known: Vec<String> = known
            .iter()
            .filter_map(|(name, value)| Some(format!("{name} {}", shown(value.as_ref()?))))
            .collect();
        let known = match known.as_slice() {
            [] => "unknown".to_owned(),
            known => known.join(", "),
        };
        writeln!(f, "caller: {known}")?;
        for rule in rules {
            write_rule(rule, f)?;
        }
        writeln!(f, "answer: {}, status {}", answer.outcome, answer.status)?;
        for (name, value) in &answer.headers {
            writeln!(f, "  {name}: {}", value.as_str().unwrap_or_default())?;
        }
        Ok(())
    }
}

fn write_rule(rule: &RuleTold, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(why) = &rule.why_not {
        return writeln!(f, "{}: no, {}", rule.rule, reason(why, rule));
    }
    let counted: Vec<String> = rule.counted.iter().map(counted).collect();
    write!(f, "{}: applies, counts {}", rule.rule, counted.join(" + "))?;
    match &rule.tier {
        Some(tier) => writeln!(f, ", tier {tier}")?,
        None => writeln!(f)?,
    }
    if rule.limits.is_empty() {
        writeln!(f, "  unlimited")?;
    }
    rule.limits
        .iter()
        .try_for_each(|limit| write_limit(limit, f))
}

fn write_limit(limit: &LimitTold, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let LimitTold {
        limit: name,
        algorithm,
        amount,
        window,
        mode,
        consistency,
        cost,
        remaining,
        outcome,
        ..
    } = limit;
    write!(f, "  {name}: {amount} per {window}, {algorithm}")?;
    if let Some(burst) = limit.burst {
        write!(f, ", burst {burst}")?;
    }
    write!(f, ", {mode}, {consistency}; ")?;
    write!(f, "costs {cost} of {remaining} left: {outcome}")?;
    if limit.asks_store {
        write!(f, ", by this node's figures: the store is asked")?;
    }
    writeln!(f)
}

fn counted(counted: &CountedTold) -> String {
    match (&counted.value, &*counted.by) {
        (Some(value), _) => format!("{} {}", counted.name, shown(value)),
        (None, "hidden") => format!("{} (not shown)", counted.name),
        (None, "everybody") => "everybody together".to_owned(),
        (None, _) => format!("those without {}", counted.name),
    }
}

/// Nothing in it moves the cursor.
fn shown(text: &str) -> impl fmt::Display + '_ {
    text.escape_debug()
}

fn reason(why: &str, rule: &RuleTold) -> String {
    let first = rule.first.as_deref().unwrap_or_default();
    let told = match why {
        "not_enabled" => "it is not enabled",
        "endpoint" => "its endpoint is another path",
        "method" => "it is for another method",
        "when" => "its `when` does not hold",
        "preflight" => "it skips CORS preflights",
        "percent" => "the caller is not in its percent",
        "group" => return format!("`{first}` comes first in its group"),
        "caller_skipped" => "something is missing of the caller, whom it then skips",
        "caller_denied" => "something is missing of the caller, whom it then refuses",
        "caller_tolerated" => {
            "something is missing of the caller, but none of its limits may refuse"
        }
        "descriptor" => "it is for other descriptors",
        "domain" => "it is for descriptors of another domain",
        "fewer" => "another rule or an exemption for fewer of these descriptors comes first",
        "described" => "it is for requests, which a descriptor does not describe",
        other => other,
    };
    told.to_owned()
}
