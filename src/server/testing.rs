use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::{Observer, Readiness, ServerConfig, Services, Shared};
use crate::algorithms::{Outcome, Verdict};
use crate::clock::Clock;
use crate::counters::{Counters, Fleet};
use crate::engine::{Answering, Authority, Engine, Question, Ruling};
use crate::rules::{Defaults, Format, RuleSet, Source};
use crate::units::{KeySecret, Nanos, Pace, Timestamp};

const NOW: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);

/// A server's insides, without a server: no rules, and a clock that stands still.
pub(super) fn shared() -> Shared {
    insides(RuleSet::default(), Fleet::alone(), None)
}

/// The same with two rules, `exact` and `here`, of which the first asks a store that
/// admits everything, each check after a `wait` of its own.
pub(super) fn shared_with_store(wait: Duration) -> Shared {
    let rules = "rules:
  - {name: exact, consistency: strict, limits: {requests: 9, window: 1m}}
  - {name: here, consistency: local, limits: {requests: 9, window: 1m}}
";
    shared_with_rules(rules, wait)
}

/// The same with other rules.
pub(super) fn shared_with_rules(rules: &str, wait: Duration) -> Shared {
    let source = Source {
        name: "t.yaml".to_owned(),
        text: rules.to_owned(),
        format: Format::Yaml,
    };
    let defaults = Defaults {
        pace: Pace::default(),
        secret: KeySecret::public(),
    };
    let rules = RuleSet::compile(&[source], &defaults).unwrap().rules;
    insides(rules, Fleet::with_store(), Some(Arc::new(SlowStore(wait))))
}

fn insides(rules: RuleSet, fleet: Fleet, authority: Option<Arc<dyn Authority>>) -> Shared {
    let counters = Arc::new(Counters::new(1_000, fleet));
    let engine = Engine::new(rules, counters, &KeySecret::public());
    let observer = Observer::new(engine.snapshot().rules());
    Shared {
        services: Services {
            engine: Arc::new(engine),
            authority,
            clock: Clock::manual(NOW),
            observer: Arc::new(observer),
            readiness: Readiness::default(),
            metrics: Arc::new(|| "# none\n".to_owned()),
            status: Arc::new(|| serde_json::Value::Null),
            reloads: None,
        },
        config: ServerConfig::default(),
        farewells: Arc::new(Semaphore::new(1)),
        long_bodies: Semaphore::new(1),
        gateway: super::grpc::Gateway::new(),
    }
}

/// Says that the cost of the question is what remains, so that answers can be told apart.
#[derive(Debug)]
struct SlowStore(Duration);

impl Authority for SlowStore {
    fn ask<'a>(&'a self, question: &'a Question) -> Answering<'a> {
        Box::pin(async move {
            sleep(self.0).await;
            let outcome = Outcome {
                verdict: Verdict::Admitted { delay: Nanos::ZERO },
                remaining: question.cost.get(),
                reset_after: Nanos::ZERO,
            };
            Ok(Ruling {
                at: NOW,
                outcomes: vec![outcome; question.limits.len()],
                dropped: Vec::new(),
            })
        })
    }
}
