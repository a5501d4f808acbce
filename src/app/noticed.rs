//! What rules notice about who asks, told to those who can put it right.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::clock::Clock;
use crate::engine::Engine;
use crate::names;
use crate::rules::{Noticed, RuleSet};
use crate::units::{Nanos, Timestamp};

/// How often it is looked at.
const PAUSE: Duration = Duration::from_secs(1);
/// A warning is not repeated sooner.
const QUIET: Nanos = Nanos::from_secs(600);

/// Counts what was noticed, and warns of it now and then; for ever.
pub(super) async fn watch(engine: Arc<Engine>, clock: Clock) {
    let mut warnings = Warnings::default();
    let mut many = ManyPaths::default();
    let mut ticker = interval(PAUSE);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticker.tick().await;
        many.look(engine.snapshot().rules());
        let noticed = engine.snapshot().rules().noticed();
        metrics::counter!(names::FORWARDING_UNREADABLE).increment(noticed.unreadable);
        metrics::counter!(names::FORWARDING_IGNORED).increment(noticed.ignored);
        if warnings.are_due(&noticed, clock.now()) {
            tracing::warn!(
                from = noticed.ignored_from.map(tracing::field::display),
                "forwarding headers are ignored, since they come from an address that is not in \
                 clients.trusted_proxies: if it is a proxy of yours, all clients behind it are \
                 counted as one"
            );
        }
    }
}

/// The rules that were warned of for the many paths that they count.
#[derive(Debug, Default)]
struct ManyPaths {
    told: HashSet<String>,
}

impl ManyPaths {
    /// Warns once of each rule of `rules` that counts many paths with queries, and says how
    /// many there are.
    fn look(&mut self, rules: &RuleSet) {
        let mut count = 0_u32;
        for rule in rules.with_many_paths() {
            count += 1;
            if self.is_news(rule) {
                tracing::warn!(
                    rule,
                    "counts a thousand and more paths with queries, each on its own: whoever adds \
                     a query evades it; `normalize: path` at the entry counts them without"
                );
            }
        }
        metrics::gauge!(names::RULES_OF_MANY_PATHS).set(count);
        if self.told.len() > rules.names().count() {
            // Of rules that are no more nothing need be remembered.
            let named: HashSet<&str> = rules.names().collect();
            self.told.retain(|rule| named.contains(&**rule));
        }
    }

    fn is_news(&mut self, rule: &str) -> bool {
        !self.told.contains(rule) && self.told.insert(rule.to_owned())
    }
}

#[derive(Debug, Default)]
struct Warnings {
    last: Option<Timestamp>,
}

impl Warnings {
    /// Whether somebody is to be warned at `now` of headers that were ignored.
    fn are_due(&mut self, noticed: &Noticed, now: Timestamp) -> bool {
        let quiet = self.last.is_some_and(|last| now.since(last) < QUIET);
        if noticed.ignored == 0 || quiet {
            return false;
        }
        self.last = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_of_many_paths_is_told_once() {
        let mut many = ManyPaths::default();
        assert!(many.is_news("a") && many.is_news("b"));
        assert!(!many.is_news("a"));
        many.look(&RuleSet::default());
        assert!(many.is_news("a"));
    }

    #[test]
    fn a_warning_comes_at_once_and_again_only_after_a_while() {
        let noticed = |ignored| Noticed {
            ignored,
            ..Noticed::default()
        };
        let at = |secs| Timestamp::EPOCH.after(Nanos::from_secs(secs));
        let mut warnings = Warnings::default();
        assert!(!warnings.are_due(&noticed(0), at(0)));
        assert!(warnings.are_due(&noticed(1), at(1)));
        assert!(!warnings.are_due(&noticed(50), at(2)));
        assert!(!warnings.are_due(&noticed(50), at(600)));
        assert!(!warnings.are_due(&noticed(0), at(601)));
        assert!(warnings.are_due(&noticed(1), at(602)));
        assert!(!warnings.are_due(&noticed(1), at(603)));
    }
}
