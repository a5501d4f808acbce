//! The rules in force: the one place that puts others in their stead, and tells of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::config::rule_names;
use super::digest::Digest;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::names;
use crate::rules::RuleSet;
use crate::server::Observer;
use crate::sync::Strict;

/// A rule set that is sound, and where it is from.
pub(super) struct Candidate {
    pub(super) rules: RuleSet,
    /// Where it is written, for people.
    pub(super) from: String,
    pub(super) digest: Digest,
    /// Its version in the store, if it is from there.
    pub(super) version: Option<u64>,
    /// What its author may not have meant.
    pub(super) warnings: Vec<String>,
}

/// The rules in force, and all that must follow them.
pub(super) struct Force {
    pub(super) engine: Arc<Engine>,
    pub(super) observer: Arc<Observer>,
    /// Where there is a store.
    pub(super) strict: Option<Arc<Strict>>,
    pub(super) clock: Clock,
    status: Mutex<Status>,
}

/// What is told of the rules.
struct Status {
    rules: Value,
    generation: u64,
    /// What came of the last attempt to put others in force.
    last: Value,
    /// Settings that were changed, and have no effect before the next start.
    restart: Vec<&'static str>,
}

impl Force {
    /// The rules that `engine` began with, which are from `from`.
    pub(super) fn begin(
        engine: Arc<Engine>,
        observer: Arc<Observer>,
        strict: Option<Arc<Strict>>,
        clock: Clock,
        from: &str,
        digest: Digest,
    ) -> Force {
        let rules = described(engine.snapshot().rules(), from, digest, 1);
        let force = Force {
            engine,
            observer,
            strict,
            clock,
            status: Mutex::new(Status {
                rules,
                generation: 1,
                last: Value::Null,
                restart: Vec::new(),
            }),
        };
        for outcome in ["applied", "refused"] {
            metrics::counter!(names::CONFIG_RELOADS, "outcome" => outcome).increment(0);
        }
        force.ask_the_store_early();
        force.succeeded(1, digest, None);
        force
    }

    /// Puts `candidate` in force, because of what `by` says. Answers what is told of it.
    pub(super) fn apply(&self, candidate: Candidate, by: &str) -> Value {
        let Candidate {
            mut rules,
            from,
            digest,
            version,
            warnings,
        } = candidate;
        // One at a time, so that each follows the one before.
        let mut status = self.status();
        rules.follow(self.engine.snapshot().rules());
        // Before the first decision by them.
        self.observer.follow(&rules);
        self.engine.replace(rules);
        let snapshot = self.engine.snapshot();
        let limits = snapshot.rules().limits();
        let counters = self.engine.counters();
        counters.keep_only(limits.iter().map(|limit| &limit.id));
        self.ask_the_store_early();

        status.generation += 1;
        let generation = status.generation;
        status.rules = described(snapshot.rules(), &from, digest, generation);
        status.last = json!({"outcome": "applied", "by": by, "at": self.seconds()});
        let told = status.rules.clone();
        drop(status);
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        let (rules, limits) = (rule_names(snapshot.rules()).len(), limits.len());
        tracing::info!(by, from, generation, %digest, rules, limits, "the rules were read anew");
        metrics::counter!(names::CONFIG_RELOADS, "outcome" => "applied").increment(1);
        self.succeeded(generation, digest, version);
        json!({"reloaded": true, "rules": told, "warnings": warnings})
    }

    /// Tells why no others are put in force. Answers what is told of it.
    pub(super) fn refuse(&self, faults: &[String], by: &str) -> Value {
        let told = json!(faults);
        self.status().last = json!({
            "outcome": "refused", "by": by, "at": self.seconds(), "faults": told,
        });
        // One line, however much is wrong.
        const SHOWN: usize = 20;
        let mut shown = faults.get(..SHOWN).unwrap_or(faults).join(" | ");
        if faults.len() > SHOWN {
            shown.push_str(" | …");
        }
        tracing::error!(
            by,
            faults = faults.len(),
            "the rules stay as they were, the new ones cannot be used: {shown}"
        );
        metrics::counter!(names::CONFIG_RELOADS, "outcome" => "refused").increment(1);
        metrics::gauge!(names::CONFIG_RELOADED).set(0.0);
        json!({"reloaded": false, "faults": told})
    }

    /// Tells which settings have changed since the start, and have no effect: once for
    /// every change.
    pub(super) fn await_restart(&self, settings: Vec<&'static str>) {
        let mut status = self.status();
        if status.restart == settings {
            return;
        }
        if !settings.is_empty() {
            let settings = settings.join(", ");
            tracing::warn!("changed, with no effect before a restart: {settings}");
        }
        status.restart = settings;
    }

    /// The whole of it, for the page.
    pub(super) fn page(&self) -> Value {
        let status = self.status();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "rules": status.rules,
            "last_reload": status.last,
            "restart_for": status.restart,
        })
    }

    /// Connects for strict limits, so that their first check need not wait for it.
    fn ask_the_store_early(&self) {
        let snapshot = self.engine.snapshot();
        let mut limits = snapshot.rules().limits().iter();
        if let Some(strict) = &self.strict
            && limits.any(|limit| limit.consistency.may_ask())
        {
            strict.connect();
        }
    }

    fn succeeded(&self, generation: u64, digest: Digest, version: Option<u64>) {
        let figure = |number| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
        metrics::gauge!(names::CONFIG_RELOADED).set(1.0);
        metrics::gauge!(names::CONFIG_LAST_SUCCESS_SECONDS).set(self.seconds());
        metrics::gauge!(names::RULES_GENERATION).set(figure(generation));
        metrics::gauge!(names::RULES_STORE_VERSION).set(figure(version.unwrap_or(0)));
        metrics::gauge!(names::RULES_DIGEST).set(digest.as_figure());
    }

    fn seconds(&self) -> f64 {
        let now = self.clock.local();
        crate::units::Nanos::new(now.as_nanos()).as_secs_f64()
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn described(rules: &RuleSet, from: &str, digest: Digest, generation: u64) -> Value {
    json!({
        "generation": generation,
        "digest": digest.to_string(),
        "from": from,
        "rules": rule_names(rules).len(),
        "limits": rules.limits().len(),
    })
}
