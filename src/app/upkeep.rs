//! What must be done now and then, while the doors are served.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::telemetry;
use crate::clock::Clock;
use crate::counters::StoreHealth;
use crate::engine::Engine;
use crate::rules::RuleSet;
use crate::server::{Note, Readiness, Reason};
use crate::sync::Standing;
use crate::units::{Consistency, StoreLoss};

/// How long the sweep takes to look at every cell.
const SWEEP_ROUND: Duration = Duration::from_secs(10);

/// The daemon's housekeeping.
pub(super) struct Upkeep {
    pub(super) engine: Arc<Engine>,
    pub(super) clock: Clock,
    pub(super) metrics: PrometheusHandle,
    pub(super) readiness: Readiness,
    /// How this node stands with its store, if it has one.
    pub(super) standing: Option<watch::Receiver<Standing>>,
}

impl Upkeep {
    /// Forgets cells that nobody needs, keeps the metrics' memory small, and tells
    /// the readiness of the store; for ever.
    pub(super) async fn run(self) {
        let counters = self.engine.counters();
        let turns = counters.sweeps_per_round().max(1);
        let pause = SWEEP_ROUND / u32::try_from(turns).unwrap_or(u32::MAX);
        let mut ticker = interval(pause);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut table = FullTable::default();
        loop {
            for turn in 0..turns {
                ticker.tick().await;
                let now = self.clock.now();
                counters.sweep(turn, now);
                self.engine.sweep_receipts(now);
                self.mind_store();
                table.mind(counters.totals().overflowed);
                telemetry::publish_settled(counters);
            }
            self.metrics.run_upkeep();
        }
    }

    fn mind_store(&self) {
        let is_lost = self.engine.counters().fleet().health() == StoreHealth::Lost;
        if is_lost && needs_store(self.engine.snapshot().rules()) {
            self.readiness.raise(Reason::Store);
        } else {
            self.readiness.clear(Reason::Store);
        }
        let standing = self.standing.as_ref().map(|standing| *standing.borrow());
        self.readiness.note(match standing {
            Some(Standing::OtherPartitions) => Some(Note::OtherPartitions),
            Some(Standing::OtherSecret) => Some(Note::OtherSecret),
            _ => is_lost.then_some(Note::StoreLost),
        });
    }
}

/// Tells that the table of cells is full, once a minute while newcomers find it so.
struct FullTable {
    told: u64,
    lines: DefaultDirectRateLimiter,
}

impl Default for FullTable {
    fn default() -> FullTable {
        FullTable {
            told: 0,
            lines: RateLimiter::direct(Quota::per_minute(NonZeroU32::MIN)),
        }
    }
}

impl FullTable {
    /// So many checks have found the table full since the start.
    fn mind(&mut self, overflowed: u64) {
        if overflowed > self.told && self.lines.check().is_ok() {
            tracing::warn!(
                checks = overflowed - self.told,
                "there are as many callers in memory as max_keys allows: newcomers share a cell \
                 for each limit, of ten times the limit"
            );
            self.told = overflowed;
        }
    }
}

/// Whether every limit refuses without the store. One limit that still answers is
/// reason enough to stay: a fleet that is not ready as a whole serves nobody.
fn needs_store(rules: &RuleSet) -> bool {
    let refuses =
        |consistency, loss| consistency != Consistency::Local && loss == StoreLoss::Closed;
    let mut limits = rules.limits().iter().peekable();
    limits.peek().is_some() && limits.all(|limit| refuses(limit.consistency, limit.on_store_loss))
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;
    use crate::counters::{Counters, Fleet};
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
        let (stands, standing) = watch::channel(Standing::Up);
        let upkeep = |on_loss| {
            let readiness = Readiness::default();
            readiness.clear(Reason::Starting);
            let limits = "limits: {default: {requests: 1, window: 1m}}";
            let text = format!("rules: [{{endpoint: /a, on_store_loss: {on_loss}, {limits}}}]");
            let counters = Arc::new(Counters::new(10, Fleet::with_store()));
            let engine = Engine::new(rules(&text), counters, &KeySecret::public());
            Upkeep {
                engine: Arc::new(engine),
                clock: Clock::manual(Timestamp::EPOCH),
                metrics: PrometheusBuilder::new().build_recorder().handle(),
                readiness,
                standing: Some(standing.clone()),
            }
        };
        let (needing, other) = (upkeep("closed"), upkeep("open"));
        let ready = |upkeep: &Upkeep, health| {
            upkeep.engine.counters().fleet().set_health(health);
            upkeep.mind_store();
            upkeep.readiness.is_ready()
        };
        assert!(ready(&needing, StoreHealth::Up));
        assert!(!ready(&needing, StoreHealth::Lost));
        assert!(ready(&needing, StoreHealth::Up));
        assert!(ready(&other, StoreHealth::Lost));
        assert_eq!(
            other.readiness.notes().collect::<Vec<_>>(),
            [Note::StoreLost]
        );
        stands.send_replace(Standing::OtherSecret);
        assert!(!ready(&needing, StoreHealth::Lost));
        let notes: Vec<_> = needing.readiness.notes().collect();
        assert_eq!(notes, [Note::OtherSecret]);
        // It follows the rules in force.
        needing.engine.replace(RuleSet::default());
        assert!(ready(&needing, StoreHealth::Lost));
    }

    #[test]
    fn a_full_table_is_told_once_a_minute_with_all_that_found_it_so() {
        let mut table = FullTable::default();
        table.mind(0);
        assert!(table.lines.check().is_ok(), "nothing was told");
        let mut table = FullTable::default();
        table.mind(3);
        table.mind(5);
        assert_eq!(table.told, 3);
    }
}
