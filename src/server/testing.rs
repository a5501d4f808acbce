use std::sync::Arc;

use tokio::sync::Semaphore;

use super::{Observer, Readiness, ServerConfig, Services, Shared};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::units::Timestamp;

/// A server's insides, without a server: no rules, and a clock that stands still.
pub(super) fn shared() -> Shared {
    let engine = Engine::default();
    let observer = Observer::new(engine.snapshot().rules());
    Shared {
        services: Services {
            engine: Arc::new(engine),
            clock: Clock::manual(Timestamp::from_nanos(1_700_000_000_000_000_000)),
            observer: Arc::new(observer),
            readiness: Readiness::default(),
            metrics: Arc::new(|| "# none\n".to_owned()),
        },
        config: ServerConfig::default(),
        farewells: Arc::new(Semaphore::new(1)),
    }
}
