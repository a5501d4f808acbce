//! Reading the rules anew, without a restart: when files change, on SIGHUP, and when the
//! operator asks.
//!
//! Only rules change. Settings are those of the start; that others were written meanwhile
//! is told. A set in which anything is wrong is refused as a whole.

mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::config::{Config, Fault, Origin, Reading, WrittenSettings};
use super::force::{Candidate, Force};
use crate::rules::Defaults;
use crate::server::{AskedReload, Reloaded};
use watch::Watch;

/// How often files are looked at that nobody has told of: there are file systems that
/// cannot be watched.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Files that were changed are read when they have not changed for so long: half a file
/// is not what its author meant.
const REST: Duration = Duration::from_millis(50);
/// Files that never rest are read all the same after so many looks.
const MOST_LOOKS: usize = 40;

/// What the daemon was started with, and keeps.
pub(super) struct Started {
    pub(super) defaults: Defaults,
    pub(super) written: WrittenSettings,
}

/// Reads the rules anew, and puts them in force.
pub(super) struct Reloader {
    origin: Origin,
    started: Started,
    force: Arc<Force>,
    watch: Watch,
}

/// Files that are not what they were.
struct Changing {
    /// What they were at the last look.
    now: Reading,
    looks: usize,
}

impl Reloader {
    /// Reads from `origin`, which the daemon was started from.
    pub(super) fn new(origin: Origin, started: Started, force: Arc<Force>) -> Reloader {
        Reloader {
            origin,
            started,
            force,
            watch: Watch::new(),
        }
    }

    /// Reads whenever there is reason to; for ever.
    pub(super) async fn run(mut self, mut asked: mpsc::Receiver<AskedReload>, mut hangup: Signal) {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.watch.only(self.directories());
        let mut changing: Option<Changing> = None;
        loop {
            tokio::select! {
                Some(AskedReload { by, answer }) = asked.recv() => {
                    let told = self.reload(&by).await;
                    // Whoever asked may have gone.
                    let _gone = answer.send(told);
                }
                Some(()) = hangup.recv() => {
                    self.reload("SIGHUP").await;
                }
                () = self.watch.changed(), if changing.is_none() => changing = self.look(None).await,
                _ = look.tick(), if changing.is_none() => changing = self.look(None).await,
                () = sleep(REST), if changing.is_some() => changing = self.look(changing).await,
            }
        }
    }

    /// Looks at the files, and reads them if there is something else in them than there was,
    /// and they are not `changing`. Answers whether they are.
    async fn look(&mut self, changing: Option<Changing>) -> Option<Changing> {
        let now = self.again().await;
        if now == *self.origin.reading() {
            return None;
        }
        let (before, looks) = changing.map_or((None, 0), |it| (Some(it.now), it.looks + 1));
        if before.as_ref() == Some(&now) || looks >= MOST_LOOKS {
            self.reload("change of files").await;
            return None;
        }
        Some(Changing { now, looks })
    }

    async fn again(&self) -> Reading {
        let before = self.origin.reading().clone();
        let looking = spawn_blocking(move || before.again());
        // It only fails when the daemon ends.
        looking
            .await
            .unwrap_or_else(|_| self.origin.reading().clone())
    }

    /// Reads the files, and puts the rules in force if nothing is wrong with them.
    async fn reload(&mut self, by: &str) -> Reloaded {
        let (mut origin, defaults) = (self.origin.clone(), self.started.defaults.clone());
        let reading = spawn_blocking(move || {
            let loaded = origin.reload(&defaults);
            (origin, loaded)
        });
        let loaded = match reading.await {
            Ok((origin, loaded)) => {
                self.origin = origin;
                loaded.map_err(|faults| faults.iter().map(Fault::to_string).collect())
            }
            // The log has told of the panic.
            Err(error) => Err(vec![format!("reading them broke down: {error}")]),
        };
        self.watch.only(self.directories());
        match loaded {
            Ok(config) => Reloaded::Applied(self.apply(config, by)),
            Err(faults) => Reloaded::Refused(self.force.refuse(&faults, by)),
        }
    }

    fn apply(&self, config: Config, by: &str) -> serde_json::Value {
        self.force.await_restart(self.changed(&config.written));
        let warnings = config.warnings.iter().map(ToString::to_string);
        let candidate = Candidate {
            rules: config.rules,
            from: config.rules_from,
            digest: config.digest,
            warnings: warnings.collect(),
        };
        self.force.apply(candidate, by)
    }

    /// The settings that are not as they were at the start.
    fn changed(&self, written: &WrittenSettings) -> Vec<&'static str> {
        let is_new = |setting: &&(&'static str, Vec<String>)| {
            // Which files there are, may change.
            setting.0 != "rules_files" && !self.started.written.contains(setting)
        };
        let mut changed: Vec<_> = written.iter().filter(is_new).map(|s| s.0).collect();
        changed.dedup();
        changed
    }

    fn directories(&self) -> Vec<PathBuf> {
        self.origin.reading().directories()
    }
}
