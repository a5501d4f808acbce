use std::sync::Arc;

use tokio::sync::Semaphore;

use super::{Observer, Readiness, ServerConfig, Services, Shared};
use crate::clock::Clock;
use crate::counters::{Counters, Fleet};
use crate::engine::Engine;
use crate::rules::RuleSet;
use crate::units::{KeySecret, Timestamp};

/// A server's insides, without a server: no rules, and a clock that stands still.
pub(super) fn shared() -> Shared {
    let engine = Engine::new(
        RuleSet::default(),
        Arc::new(Counters::new(1_000, Fleet::alone())),
        &KeySecret::public(),
    );
    let observer = Observer::new(engine.snapshot().rules());
    Shared {
        services: Services {
            engine: Arc::new(engine),
            authority: None,
            clock: Clock::manual(Timestamp::from_nanos(1_700_000_000_000_000_000)),
            observer: Arc::new(observer),
            readiness: Readiness::default(),
            metrics: Arc::new(|| "# none\n".to_owned()),
        },
        config: ServerConfig::default(),
        farewells: Arc::new(Semaphore::new(1)),
        long_bodies: Semaphore::new(1),
    }
}
