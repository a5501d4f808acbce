use super::super::fault::Problem;
use super::super::reader::{Fields, Report, Spot, flag};
use super::super::tiers::DEFAULT_TIER;
use super::limit::{Scope, Tier};

/// Reads what a rule or override grants: `limits`, or instead `unlimited` (no tier) or
/// `ban`. `None` if there is any fault in it, or nothing is granted.
pub(super) fn grant(
    fields: &Fields<'_>,
    scope: &Scope<'_>,
    spot: &Spot<'_>,
    report: &mut Report,
) -> Option<Vec<Tier>> {
    let before = report.faults.len();
    let unlimited = fields.with("unlimited", spot, report, flag);
    let ban = fields.with("ban", spot, report, flag);
    let mut said = Vec::new();
    for (field, is_said) in [
        ("limits", fields.get("limits").is_some()),
        ("unlimited", unlimited == Some(true)),
        ("ban", ban == Some(true)),
    ] {
        if is_said {
            said.push(field);
        }
    }
    if let [first, second, ..] = said[..] {
        let at = fields.get(second).map_or(spot.at, |node| node.at);
        report.fault(
            &spot.field(second, at),
            Problem::Contradiction(second, first),
        );
        return None;
    }
    match said.first() {
        Some(&"unlimited") => Some(Vec::new()),
        Some(&"ban") => {
            let at = fields.get("ban").map_or(spot.at, |node| node.at);
            Some(vec![scope.ban(DEFAULT_TIER, at.line)])
        }
        Some(_) => {
            let limits = fields.get("limits")?;
            scope.tiers(limits, &spot.field("limits", limits.at), report)
        }
        None if report.faults.len() > before => None,
        None => {
            let example = "limits: {default: {requests: 10, window: 1m}}";
            report.fault(spot, Problem::Missing("limits", example));
            None
        }
    }
}
