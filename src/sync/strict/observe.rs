use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::engine::{Counted, Question};
use crate::names;
use crate::sync::breaker::Change;
use crate::sync::error::Failure;
use crate::units::{LimitId, Nanos};

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
    /// The limits of which the store may have forgotten something, and whether there are any.
    doubted: Mutex<HashSet<LimitId>>,
    any_doubted: AtomicBool,
    /// One line a minute for each limit that is exact again.
    exact: DefaultKeyedRateLimiter<LimitId>,
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
            doubted: Mutex::default(),
            any_doubted: AtomicBool::new(false),
            exact: RateLimiter::keyed(Quota::per_minute(NonZeroU32::MIN)),
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
    pub(super) fn forgotten(&self, question: &Question, took: Nanos) {
        self.seconds.record(took.as_secs_f64());
        self.forgotten.increment(1);
        let limits = question.limits.iter();
        self.doubted()
            .extend(limits.map(|one| one.limit.id.clone()));
        self.any_doubted.store(true, Ordering::Relaxed);
        if self.lines.check().is_ok() {
            tracing::warn!(
                "the store has lost its memory, or may have: until the windows that had begun \
                 are over, strict limits follow their on_store_loss, and bounded ones lend nothing; \
                 what is exact again is told"
            );
        }
    }

    /// The store has ruled: of what counts in these limits now it has forgotten nothing.
    fn is_exact(&self, question: &Question) {
        if !self.any_doubted.load(Ordering::Relaxed) {
            return;
        }
        let mut doubted = self.doubted();
        for Counted { limit, .. } in &question.limits {
            if doubted.contains(&limit.id) && self.exact.check_key(&limit.id).is_ok() {
                doubted.remove(&limit.id);
                tracing::info!(
                    rule = %limit.rule,
                    limit = %limit.name,
                    "exact again: all that counts now was counted since the store lost its memory"
                );
            }
        }
        self.any_doubted
            .store(!doubted.is_empty(), Ordering::Relaxed);
    }

    fn doubted(&self) -> MutexGuard<'_, HashSet<LimitId>> {
        self.doubted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store was asked, and this came of it after `took`.
    pub(super) fn asked(&self, question: &Question, failure: Option<Failure>, took: Nanos) {
        self.seconds.record(took.as_secs_f64());
        match failure {
            None => {
                self.answered.increment(1);
                self.is_exact(question);
            }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::units::{Algorithm, Cost, EncodedIdentity, KeySecret, Limit, Quota as LimitQuota};

    fn question(name: &str) -> Question {
        let minute = Nanos::from_secs(60);
        let quota = LimitQuota::new(Algorithm::FixedWindow, 5, minute, None).unwrap();
        let id = LimitId::new(name, "default", &quota);
        let limit = Limit::new(id, name, "default/1m", quota, &KeySecret::public());
        let key = limit.hasher.key(&EncodedIdentity::of("key", None));
        let limit = Arc::new(limit);
        Question {
            limits: [Counted {
                limit,
                key,
                weight: 1,
            }]
            .into_iter()
            .collect(),
            cost: Cost::ONE,
            purpose: crate::engine::Purpose::Check,
        }
    }

    #[test]
    fn a_limit_is_doubted_until_the_store_rules_on_it_again() {
        let observer = Observer::new();
        let (pay, login) = (question("pay"), question("login"));
        observer.forgotten(&pay, Nanos::ZERO);
        observer.forgotten(&login, Nanos::ZERO);
        observer.asked(&pay, None, Nanos::ZERO);
        let left: Vec<LimitId> = observer.doubted().iter().cloned().collect();
        assert_eq!(left, [login.limits[0].limit.id.clone()]);
        observer.asked(&login, Some(Failure::Timeout), Nanos::ZERO);
        assert!(observer.any_doubted.load(Ordering::Relaxed));
        observer.asked(&login, None, Nanos::ZERO);
        assert!(!observer.any_doubted.load(Ordering::Relaxed));
    }
}
