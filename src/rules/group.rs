use std::cmp::Reverse;
use std::collections::HashMap;

use super::fault::{Fault, Problem};
use super::matcher::Matches;
use super::rule::Rule;
use super::schema::RuleSpec;

/// A rule's place in its group: of the rules of one group only the first that matches
/// applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// The group's number.
    group: usize,
    /// The place, from 0.
    rank: usize,
}

/// In groups of more rules it would take long to find those that never apply.
const LARGE: usize = 1_000;

/// The standing of each of `specs` that is in a group, in their order; those with the
/// higher priority are first, then those that stand earlier in the files. Warns of rules
/// that never apply, because another always comes before them.
pub(super) fn standings(specs: &[RuleSpec], warnings: &mut Vec<Fault>) -> Vec<Option<Standing>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for (index, spec) in specs.iter().enumerate() {
        // What is not enabled takes nobody's place.
        if let Some(name) = spec.group.as_deref().filter(|_| spec.is_enabled) {
            let group = *numbers.entry(name).or_insert(groups.len());
            if group == groups.len() {
                groups.push(Vec::new());
            }
            groups[group].push(index);
        }
    }
    let mut standings = vec![None; specs.len()];
    for (group, mut members) in groups.into_iter().enumerate() {
        members.sort_by_key(|index| (Reverse(specs[*index].priority), *index));
        for (rank, index) in members.iter().enumerate() {
            standings[*index] = Some(Standing { group, rank });
            let earlier = members.iter().take(rank).map(|index| &specs[*index]);
            let spec = &specs[*index];
            let covers = |other: &&RuleSpec| {
                other.percent == 100
                    && !other.identity.may_skip()
                    && other.target.covers(&spec.target)
            };
            if members.len() <= LARGE
                && let Some(other) = earlier.into_iter().find(covers)
            {
                warnings.push(spec.warning("group", Problem::Unreachable(other.name.clone())));
            }
        }
    }
    standings
}

/// Keeps of the rules of each group the first.
pub(super) fn keep_first(rules: &[Rule], found: &mut Matches) {
    let standing = |index: &usize| rules[*index].standing();
    if !found.iter().any(|index| standing(index).is_some()) {
        return;
    }
    // A handful at most: rules that match one request.
    let all = found.clone();
    found.retain(|index| ahead(rules, *index, &all).is_none());
}

/// The first of those of `found` that come before the rule `index` in its group.
pub(super) fn ahead(rules: &[Rule], index: usize, found: &Matches) -> Option<usize> {
    let own = rules[index].standing()?;
    let standing = |index: &usize| Some((rules[*index].standing()?, *index));
    let others = found.iter().filter_map(standing);
    let before = others.filter(|(other, _)| other.group == own.group && other.rank < own.rank);
    before
        .min_by_key(|(other, _)| other.rank)
        .map(|(_, index)| index)
}
