//! What stays when one set of rules follows another.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::RuleSet;
use crate::units::{Limit, LimitId, Series};

impl RuleSet {
    /// Makes this the set that follows `before`. A limit that has not changed is the very
    /// one that `before` has, so that no cell need be told; one of the same counter space
    /// and name keeps its [`Series`]. No other limit is given a series that `before` has:
    /// what was decided by that set, and is yet to be observed, is not taken for this one's.
    pub fn follow(&mut self, before: &RuleSet) {
        let mut known: HashMap<(&LimitId, &str), &Arc<Limit>> = before
            .limits
            .iter()
            .map(|limit| ((&limit.id, &*limit.name), limit))
            .collect();
        let taken: HashSet<Series> = before.limits.iter().map(|limit| limit.series).collect();
        let mut free = (1..).map(Series).filter(|series| !taken.contains(series));
        let followed = self.limits.iter().map(|limit| {
            let old = known.remove(&(&limit.id, &*limit.name));
            let series = old.map(|old| old.series).or_else(|| free.next());
            let renumbered = Limit {
                series: series.unwrap_or(limit.series),
                ..Limit::clone(limit)
            };
            match old {
                Some(old) if **old == renumbered => Arc::clone(old),
                _ => Arc::new(renumbered),
            }
        });
        self.limits = followed.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Defaults, Format, Source};
    use crate::units::{KeySecret, Pace};

    fn rules(list: &[(&str, u64)]) -> RuleSet {
        let rule = |(name, requests): &(&str, u64)| {
            format!("- {{name: {name}, limits: {{requests: {requests}, window: 1m}}}}\n")
        };
        let source = Source {
            name: "t.yaml".to_owned(),
            text: format!("rules:\n{}", list.iter().map(rule).collect::<String>()),
            format: Format::Yaml,
        };
        let defaults = Defaults {
            pace: Pace::default(),
            secret: KeySecret::public(),
        };
        RuleSet::compile(&[source], &defaults).unwrap().rules
    }

    fn series(rules: &RuleSet) -> Vec<(&str, u32)> {
        let each = rules.limits.iter();
        each.map(|limit| (&*limit.rule, limit.series.0)).collect()
    }

    #[test]
    fn an_unchanged_limit_is_the_same_one_wherever_it_stands_now() {
        let before = rules(&[("a", 1), ("b", 2)]);
        let mut after = rules(&[("new", 9), ("b", 2), ("a", 1)]);
        after.follow(&before);
        assert!(Arc::ptr_eq(&after.limits[1], &before.limits[1]));
        assert!(Arc::ptr_eq(&after.limits[2], &before.limits[0]));
        assert_eq!(series(&after), [("new", 3), ("b", 2), ("a", 1)]);
    }

    #[test]
    fn a_limit_whose_amount_changed_keeps_its_series_and_its_counter_space() {
        let before = rules(&[("a", 1), ("b", 2)]);
        let mut after = rules(&[("b", 3)]);
        after.follow(&before);
        assert_eq!(series(&after), [("b", 2)]);
        assert_eq!(after.limits[0].quota.amount(), 3);
        assert_eq!(after.limits[0].id, before.limits[1].id);
    }

    #[test]
    fn a_series_is_given_to_another_limit_only_by_the_set_after_the_next() {
        let first = rules(&[("a", 1), ("b", 1)]);
        let mut second = rules(&[("c", 1)]);
        second.follow(&first);
        assert_eq!(series(&second), [("c", 3)]);
        let mut third = rules(&[("c", 1), ("d", 1)]);
        third.follow(&second);
        assert_eq!(series(&third), [("c", 3), ("d", 1)]);
    }
}
