//! Decisions that are counted together.

use std::sync::Arc;

use arc_swap::Guard;

use super::{Door, Observed, Observer, Table, index};
use crate::engine::{Decision, Outcome};

impl Observer {
    /// The counters as they are now. Have them after the rules' snapshot that decides, so
    /// that they are of no earlier rules; do not keep them across a wait.
    pub(in crate::server) fn counters(&self) -> Counters {
        Counters(self.table.load())
    }
}

/// The counters of the rules in force.
pub(in crate::server) struct Counters(Guard<Arc<Table>>);

impl Counters {
    /// Counts decisions at `door`: each once, until the answer is dropped at the latest.
    pub(in crate::server) fn counting(&self, door: Door) -> Counting<'_> {
        Counting {
            table: &self.0,
            door,
            alike: None,
        }
    }
}

/// Counts decisions, and adds those in a row that are alike at once: a counter that all
/// threads share costs more than most of a check.
pub(in crate::server) struct Counting<'t> {
    table: &'t Table,
    door: Door,
    /// The counter of the last ones, and how many they are.
    alike: Option<(&'t Observed, Outcome, u64)>,
}

impl Counting<'_> {
    /// Counts one decision.
    #[inline]
    pub(in crate::server) fn decided(&mut self, decision: &Decision<'_>) {
        let limit = decision.limit.as_ref();
        let observed = limit.and_then(|limit| self.table.of_limit(limit));
        let observed = observed.map_or(&*self.table.none, |observed| observed);
        match &mut self.alike {
            Some((last, outcome, count))
                if std::ptr::eq(*last, observed) && index(*outcome) == index(decision.outcome) =>
            {
                *count += 1;
            }
            _ => {
                self.add();
                self.alike = Some((observed, decision.outcome, 1));
            }
        }
        for said in decision.advised() {
            let observed = self.table.of_series(said.limit.series);
            if let Some(advice) = observed.and_then(|observed| observed.advice.as_ref()) {
                advice.said(said);
            }
        }
    }

    /// Adds what is not added yet.
    fn add(&mut self) {
        if let Some((observed, outcome, count)) = self.alike.take() {
            observed.count(self.door, outcome, count);
        }
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.add();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::DescribedLimit;
    use crate::rules::RuleSet;
    use crate::units::{Answers, Nanos, Series, Timestamp};
    use metrics_exporter_prometheus::PrometheusBuilder;

    fn decision(outcome: Outcome, name: &'static str) -> Decision<'static> {
        Decision {
            outcome,
            limit: Some(DescribedLimit {
                rule: "",
                name,
                series: Series::PER_CALL,
                limit: 1,
                remaining: 0,
                reset_after: Nanos::ZERO,
                amount: 1,
                period: Nanos::ZERO,
                answers: Answers::of_no_rule(),
            }),
            stale: None,
            now: Timestamp::EPOCH,
            besides: None,
        }
    }

    #[test]
    fn of_decisions_in_any_order_each_is_counted_once_by_its_limit_and_outcome() {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            let observer = Observer::new(&RuleSet::default());
            let refused = |nanos| Outcome::Refused {
                retry_after: Nanos::new(nanos),
            };
            let counters = observer.counters();
            let mut counting = counters.counting(Door::Resp);
            for (outcome, name) in [
                (refused(1), "throttle"),
                (refused(2), "throttle"),
                (Outcome::Banned, "throttle"),
                (refused(3), "throttle"),
                (refused(3), "stated"),
            ] {
                counting.decided(&decision(outcome, name));
            }
            drop(counting);
            observer.decided(Door::Http, &decision(Outcome::Banned, "throttle"));
        });
        let page = recorder.handle().render();
        let count = |limit: &str, outcome: &str, door: &str| {
            let labels = [limit, outcome, door].map(|value| format!("\"{value}\""));
            let is = |line: &&str| labels.iter().all(|label| line.contains(label));
            let line = page.lines().find(is)?;
            line.rsplit(' ').next()?.parse::<u64>().ok()
        };
        assert_eq!(count("throttle", "refused", "resp"), Some(3), "{page}");
        assert_eq!(count("throttle", "banned", "resp"), Some(1), "{page}");
        assert_eq!(count("stated", "refused", "resp"), Some(1), "{page}");
        assert_eq!(count("throttle", "banned", "http"), Some(1), "{page}");
    }
}
