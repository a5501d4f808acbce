mod answers;
mod calendar;
mod callers;
mod descriptors;
mod envoy;
mod explaining;
mod faults;
mod hostile;
mod identity;
mod loading;
mod matching;
mod places;
mod policies;
mod target_faults;
mod targets;
mod tiers;
mod unordered;

use std::net::IpAddr;

use super::{
    Applied, AppliedLimits, Compiled, Defaults, Described, Format, NotFound, Pairs, RuleSet, Source,
};
use crate::units::{Key, KeySecret, Pace, Timestamp};

fn defaults() -> Defaults {
    Defaults {
        pace: Pace::default(),
        secret: KeySecret::public(),
    }
}

fn source(name: &str, text: &str) -> Source {
    Source {
        name: name.to_owned(),
        text: text.to_owned(),
        format: Format::of(name.as_ref()).unwrap(),
    }
}

fn compile(files: &[(&str, &str)]) -> Result<Compiled, Vec<String>> {
    let sources: Vec<Source> = files
        .iter()
        .map(|(name, text)| source(name, text))
        .collect();
    RuleSet::compile(&sources, &defaults())
        .map_err(|faults| faults.to_string().lines().map(str::to_owned).collect())
}

/// The rules of a YAML file without faults.
fn rules(yaml: &str) -> RuleSet {
    match compile(&[("rules.yaml", yaml)]) {
        Ok(compiled) => compiled.rules,
        Err(faults) => panic!("{}", faults.join("\n")),
    }
}

/// The faults of a YAML file called `r.yaml`.
fn faults(yaml: &str) -> Vec<String> {
    match compile(&[("r.yaml", yaml)]) {
        Ok(_) => Vec::new(),
        Err(faults) => faults,
    }
}

fn warnings(yaml: &str) -> Vec<String> {
    let compiled = compile(&[("r.yaml", yaml)]).unwrap();
    compiled.warnings.iter().map(ToString::to_string).collect()
}

fn described<'a>(method: &'a str, path: &'a str) -> Described<'a> {
    Described {
        method,
        path,
        ip: Some(IpAddr::from([203, 0, 113, 9])),
        ..Described::default()
    }
}

fn matching<'r>(rules: &'r RuleSet, request: &Described<'_>) -> AppliedLimits<'r> {
    let mut applied = AppliedLimits::new();
    rules
        .matching(request, Timestamp::EPOCH, &mut applied)
        .unwrap();
    applied
}

/// `rule limit` of each limit that applies.
fn names(applied: &[Applied<'_>]) -> Vec<String> {
    applied
        .iter()
        .map(|applied| format!("{} {}", applied.limit.rule, applied.limit.name))
        .collect()
}

fn matching_names(rules: &RuleSet, method: &str, path: &str) -> Vec<String> {
    names(&matching(rules, &described(method, path)))
}

/// The one key that `request` counts by.
fn key_of(rules: &RuleSet, request: &Described<'_>) -> Key {
    let applied = matching(rules, request);
    assert_eq!(applied.len(), 1);
    applied[0].key
}

fn named<'r>(rules: &'r RuleSet, rule: &str, key: &str, tier: Option<&str>) -> AppliedLimits<'r> {
    let mut applied = AppliedLimits::new();
    rules
        .named(rule, key.as_bytes(), tier, &mut applied)
        .unwrap();
    applied
}
