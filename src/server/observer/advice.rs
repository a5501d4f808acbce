use std::num::NonZeroU32;
use std::sync::OnceLock;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use metrics::{Counter, counter};

use super::{OUTCOMES, index};
use crate::engine::Advised;
use crate::names;
use crate::units::{Limit, Mode};

/// The counters and log lines of a limit that never refuses.
pub(super) struct Advice {
    /// The limit's.
    pub(super) mode: Mode,
    /// By what it would have decided.
    counters: [OnceLock<Counter>; OUTCOMES],
    /// One line a minute.
    lines: DefaultDirectRateLimiter,
}

impl Advice {
    /// Those of `limit`; `None` if it may refuse, so that decisions tell of it themselves.
    pub(super) fn of(limit: &Limit) -> Option<Box<Advice>> {
        (!limit.mode.enforces()).then(|| {
            Box::new(Advice {
                mode: limit.mode,
                counters: Default::default(),
                lines: RateLimiter::direct(Quota::per_minute(NonZeroU32::MIN)),
            })
        })
    }

    /// Counts what the limit has said, and warns of it in the log where it is soft.
    pub(super) fn said(&self, said: &Advised<'_>) {
        let (rule, limit, outcome) = (said.limit.rule, said.limit.name, said.outcome.name());
        if let Some(counter) = self.counters.get(index(said.outcome)) {
            let count = || {
                counter!(
                    names::ADVISORY_CHECKS,
                    "rule" => rule.to_owned(),
                    "limit" => limit.to_owned(),
                    "mode" => said.mode.name(),
                    "outcome" => outcome,
                )
            };
            counter.get_or_init(count).increment(1);
        }
        if said.is_warning() && self.lines.check().is_ok() {
            tracing::warn!(
                rule,
                limit,
                "over a soft limit, and admitted; further ones within the minute are only counted"
            );
        }
    }
}
