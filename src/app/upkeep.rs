//! What must be done now and then, while the doors are served.

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::telemetry;
use crate::clock::Clock;
use crate::counters::{Counters, StoreHealth};
use crate::rules::RuleSet;
use crate::server::{Readiness, Reason};
use crate::units::{Consistency, StoreLoss};

/// How long the sweep takes to look at every cell.
const SWEEP_ROUND: Duration = Duration::from_secs(10);

/// The daemon's housekeeping.
pub(super) struct Upkeep {
    pub(super) counters: Arc<Counters>,
    pub(super) clock: Clock,
    pub(super) metrics: PrometheusHandle,
    pub(super) readiness: Readiness,
    /// Whether there is no use in this node while the store is lost.
    pub(super) needs_store: bool,
}

impl Upkeep {
    /// Forgets cells that nobody needs, keeps the metrics' memory small, and tells
    /// the readiness of the store; for ever.
    pub(super) async fn run(self) {
        let turns = self.counters.sweeps_per_round().max(1);
        let pause = SWEEP_ROUND / u32::try_from(turns).unwrap_or(u32::MAX);
        let mut ticker = interval(pause);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            for turn in 0..turns {
                ticker.tick().await;
                self.counters.sweep(turn, self.clock.now());
                self.mind_store();
                telemetry::publish_settled(&self.counters);
            }
            self.metrics.run_upkeep();
        }
    }

    fn mind_store(&self) {
        if self.needs_store && self.counters.fleet().health() == StoreHealth::Lost {
            self.readiness.raise(Reason::Store);
        } else {
            self.readiness.clear(Reason::Store);
        }
    }
}

/// Whether every limit refuses without the store. One limit that still answers is
/// reason enough to stay: a fleet that is not ready as a whole serves nobody.
pub(super) fn needs_store(rules: &RuleSet) -> bool {
    let refuses =
        |consistency, loss| consistency != Consistency::Local && loss == StoreLoss::Closed;
    let mut limits = rules.limits().iter().peekable();
    limits.peek().is_some() && limits.all(|limit| refuses(limit.consistency, limit.on_store_loss))
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;
    use crate::counters::Fleet;
    use crate::rules::{Defaults, Format, Source};
    use crate::units::{KeySecret, Pace, Timestamp};

    fn rules(text: &str) -> RuleSet {
        let source = Source {
            name: "t.yaml".to_owned(),
            text: text.to_owned(),
            format: Format::Yaml,
        };
        let defaults = Defaults {
            pace: Pace::default(),
            secret: KeySecret::public(),
        };
        RuleSet::compile(&[source], &defaults).unwrap().rules
    }

    #[test]
    fn a_node_needs_the_store_when_all_its_limits_do() {
        let closed = "on_store_loss: closed, limits: {default: {requests: 1, window: 1m}}";
        let share = "limits: {default: {requests: 1, window: 1m}}";
        let of = |list: &str| needs_store(&rules(&format!("rules: [{list}]")));
        assert!(of(&format!("{{endpoint: /a, {closed}}}")));
        assert!(!of(&format!(
            "{{endpoint: /a, {closed}}}, {{endpoint: /b, {share}}}"
        )));
        assert!(!of(&format!(
            "{{endpoint: /a, consistency: local, {closed}}}"
        )));
        assert!(!of(""));
    }

    #[test]
    fn readiness_follows_the_store_only_where_it_is_needed() {
        let upkeep = |needs_store| {
            let readiness = Readiness::default();
            readiness.clear(Reason::Starting);
            Upkeep {
                counters: Arc::new(Counters::new(10, Fleet::with_store())),
                clock: Clock::manual(Timestamp::EPOCH),
                metrics: PrometheusBuilder::new().build_recorder().handle(),
                readiness,
                needs_store,
            }
        };
        let (needing, other) = (upkeep(true), upkeep(false));
        let ready = |upkeep: &Upkeep, health| {
            upkeep.counters.fleet().set_health(health);
            upkeep.mind_store();
            upkeep.readiness.is_ready()
        };
        assert!(ready(&needing, StoreHealth::Up));
        assert!(!ready(&needing, StoreHealth::Lost));
        assert!(ready(&needing, StoreHealth::Up));
        assert!(ready(&other, StoreHealth::Lost));
    }
}
