use std::num::NonZeroU32;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::names;
use crate::sync::breaker::Change;
use crate::sync::error::Failure;
use crate::units::Nanos;

/// The log lines and metrics of strict checks.
pub(super) struct Observer {
    answered: Counter,
    failed: Counter,
    timed_out: Counter,
    broken_off: Counter,
    crowded_out: Counter,
    abandoned: Counter,
    forgotten: Counter,
    seconds: Histogram,
    open: Gauge,
    /// One line a minute.
    lines: DefaultDirectRateLimiter,
}

impl Observer {
    pub(super) fn new() -> Observer {
        let checks = |outcome: &'static str| counter!(names::STRICT_CHECKS, "outcome" => outcome);
        let open = gauge!(names::BREAKER_OPEN);
        open.set(0.0);
        Observer {
            answered: checks("answered"),
            failed: checks("failed"),
            timed_out: checks("timeout"),
            broken_off: checks("open"),
            crowded_out: checks("busy"),
            abandoned: checks("abandoned"),
            forgotten: checks("forgotten"),
            seconds: histogram!(names::STRICT_SECONDS),
            open,
            lines: RateLimiter::direct(Quota::per_minute(NonZeroU32::MIN)),
        }
    }

    /// The store was not asked, because the breaker is open.
    pub(super) fn broken_off(&self) {
        self.broken_off.increment(1);
    }

    /// The store was not asked, because too many checks are under way.
    pub(super) fn crowded_out(&self) {
        self.crowded_out.increment(1);
    }

    /// Nobody waited for the answer.
    pub(super) fn abandoned(&self) {
        self.abandoned.increment(1);
    }

    /// The store was asked, and may have forgotten what counts now.
    pub(super) fn forgotten(&self, took: Nanos) {
        self.seconds.record(took.as_secs_f64());
        self.forgotten.increment(1);
        if self.lines.check().is_ok() {
            tracing::warn!(
                "the store has lost its memory, or may have: until the windows that had begun \
                 are over, strict limits follow their on_store_loss, and bounded ones lend nothing"
            );
        }
    }

    /// The store was asked, and this came of it after `took`.
    pub(super) fn asked(&self, failure: Option<Failure>, took: Nanos) {
        self.seconds.record(took.as_secs_f64());
        match failure {
            None => self.answered.increment(1),
            Some(Failure::Timeout) => self.timed_out.increment(1),
            Some(_) => self.failed.increment(1),
        }
        if let Some(failure) = failure {
            counter!(names::SYNC_ERRORS, "class" => failure.class()).increment(1);
        }
    }

    /// The breaker changed; `failure` is what opened it, if one did.
    pub(super) fn changed(&self, change: Change, failure: Option<Failure>) {
        let to = match change {
            Change::Opened => {
                self.open.set(1.0);
                let reason = failure.map(tracing::field::display);
                tracing::warn!(
                    reason,
                    "the breaker is open: strict limits follow their on_store_loss"
                );
                "open"
            }
            Change::Probing => {
                tracing::info!("the breaker lets one strict check through, as a probe");
                "probing"
            }
            Change::Closed => {
                self.open.set(0.0);
                tracing::info!("the breaker is closed: strict limits ask the store");
                "closed"
            }
        };
        counter!(names::BREAKER_CHANGES, "to" => to).increment(1);
    }
}
