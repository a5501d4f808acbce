//! Reading the rules anew, without a restart: when files change, on SIGHUP, when the
//! operator asks, and when the store has others for the fleet.
//!
//! Only rules change. Settings are those of the start; that others were written meanwhile
//! is told. A set in which anything is wrong is refused as a whole.

mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tokio::sync::watch::Receiver;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::config::{Config, Fault, Origin, Reading, RulesFrom, WrittenSettings};
use super::digest::Digest;
use super::fleet_rules::FleetRules;
use super::force::{Candidate, Force};
use crate::rules::{Defaults, RuleSet};
use crate::server::{AskedReload, Readiness, Reason, Reloaded};
use crate::sync::{Heard, Shelved};
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
    /// Who says the rules: the first that has some.
    pub(super) rules_from: Vec<RulesFrom>,
    /// Whether there are rules in the files.
    pub(super) files_have_rules: bool,
}

impl Started {
    /// Whether the rules of files go before those of the store, if that has some.
    pub(super) fn files_win(&self) -> bool {
        let mut from = self.rules_from.iter();
        from.find(|from| **from == RulesFrom::Store || self.files_have_rules)
            == Some(&RulesFrom::File)
    }

    /// Whether the store may say the rules.
    pub(super) fn listens_to_store(&self) -> bool {
        self.rules_from.contains(&RulesFrom::Store)
    }

    /// Whether files may say the rules.
    pub(super) fn listens_to_files(&self) -> bool {
        self.rules_from.contains(&RulesFrom::File)
    }
}

/// Reads the rules anew, and puts them in force.
pub(super) struct Reloader {
    origin: Origin,
    started: Started,
    force: Arc<Force>,
    watch: Watch,
    /// What the store says, where it is listened to.
    heard: Option<Receiver<Heard>>,
    /// The last of it that was sound.
    fleet: Option<FleetRules>,
    /// A later one that was refused: what is wrong may be a file here that it names.
    refused: Option<FleetRules>,
    /// The files that these name.
    named: Vec<PathBuf>,
    beside: Reading,
    readiness: Readiness,
}

/// Files that are not what they were.
struct Changing {
    /// What they were at the last look.
    now: [Reading; 2],
    looks: usize,
}

impl Reloader {
    /// Reads from `origin`, which the daemon was started from.
    /// `heard` is what the store says, if it is to be listened to; `readiness` is told when
    /// it has said its first word.
    pub(super) fn new(
        origin: Origin,
        started: Started,
        force: Arc<Force>,
        heard: Option<Receiver<Heard>>,
        readiness: Readiness,
    ) -> Reloader {
        Reloader {
            origin,
            started,
            force,
            watch: Watch::new(),
            heard,
            fleet: None,
            refused: None,
            named: Vec::new(),
            beside: Reading::default(),
            readiness,
        }
    }

    /// Reads whenever there is reason to; for ever.
    pub(super) async fn run(mut self, mut asked: mpsc::Receiver<AskedReload>, mut hangup: Signal) {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.watch.only(self.directories());
        let (mut stirred, mut changing) = (false, None);
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
                heard = next(&mut self.heard) => self.listen(&heard).await,
                () = self.watch.changed(), if !stirred => stirred = true,
                _ = look.tick(), if !stirred => stirred = true,
                // No sooner, so that what stirs all the time beside them costs little.
                () = sleep(REST), if stirred => {
                    changing = self.look(changing).await;
                    stirred = changing.is_some();
                }
            }
        }
    }

    /// Looks at the files, and reads them if there is something else in them than there was,
    /// and they are not `changing`. Answers whether they are.
    async fn look(&mut self, changing: Option<Changing>) -> Option<Changing> {
        let now = self.again().await;
        if now.each_ref() == self.readings() {
            return None;
        }
        let (before, looks) = changing.map_or((None, 0), |it| (Some(it.now), it.looks + 1));
        if before.as_ref() == Some(&now) || looks >= MOST_LOOKS {
            self.reload("change of files").await;
            return None;
        }
        Some(Changing { now, looks })
    }

    /// What was read of the files here, and of those that the store's rules name.
    fn readings(&self) -> [&Reading; 2] {
        [self.origin.reading(), &self.beside]
    }

    async fn again(&self) -> [Reading; 2] {
        let before = self.readings().map(Reading::clone);
        let looking = spawn_blocking(move || before.map(|reading| reading.again()));
        // It only fails when the daemon ends.
        looking
            .await
            .unwrap_or_else(|_| self.readings().map(Reading::clone))
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
            Err(error) => Err(vec![broke_down(&error)]),
        };
        self.watch.only(self.directories());
        let config = match loaded {
            Ok(config) => config,
            Err(faults) => return Reloaded::Refused(self.force.refuse(&faults, by)),
        };
        self.force.await_restart(self.changed(&config.written));
        self.started.files_have_rules = !config.rules.is_empty();
        let files_win = self.started.files_win();
        let told = match self.fleet.clone() {
            Some(fleet) if !files_win => self.apply_fleet(fleet, by).await,
            _ => Reloaded::Applied(self.force.apply(self.of_files(config), by)),
        };
        match self.refused.take() {
            Some(fleet) if !files_win => match self.prefer(fleet, by).await {
                Reloaded::Refused(_) => told,
                applied => applied,
            },
            refused => {
                self.refused = refused;
                told
            }
        }
    }

    /// What the files say, as far as they are listened to.
    fn of_files(&self, config: Config) -> Candidate {
        if !self.started.listens_to_files() {
            return Candidate {
                rules: RuleSet::default(),
                from: "the store, which has none yet".to_owned(),
                digest: Digest::of([]),
                version: None,
                warnings: Vec::new(),
            };
        }
        let warnings = config.warnings.iter().map(ToString::to_string);
        Candidate {
            rules: config.rules,
            from: config.rules_from,
            digest: config.digest,
            version: None,
            warnings: warnings.collect(),
        }
    }

    /// Takes in what the store says.
    async fn listen(&mut self, heard: &Heard) {
        let has_rules = match heard {
            Heard::NotYet => return,
            Heard::Nothing => false,
            Heard::Document(shelved) => self.take_in(shelved).await,
        };
        if has_rules || self.started.listens_to_files() {
            self.readiness.clear(Reason::Rules);
        }
    }

    /// Puts the rules in force that the store has, unless files win. Answers whether they
    /// are sound.
    async fn take_in(&mut self, shelved: &Shelved) -> bool {
        let by = format!("store, version {}", shelved.version);
        self.refused = None;
        let fleet = match FleetRules::read(shelved) {
            Ok(fleet) => fleet,
            Err(error) => {
                self.force.refuse(&[error.to_string()], &by);
                return false;
            }
        };
        if self.started.files_win() {
            tracing::info!(by, "the rules of files override the store's");
            self.fleet = Some(fleet);
            return true;
        }
        matches!(self.prefer(fleet, &by).await, Reloaded::Applied(_))
    }

    /// Puts `fleet` in force instead of what the store said before, if it is sound.
    async fn prefer(&mut self, fleet: FleetRules, by: &str) -> Reloaded {
        let told = self.apply_fleet(fleet.clone(), by).await;
        (self.fleet, self.refused) = match told {
            Reloaded::Applied(_) => (Some(fleet), None),
            Reloaded::Refused(_) => (self.fleet.take(), Some(fleet)),
        };
        told
    }

    async fn apply_fleet(&mut self, fleet: FleetRules, by: &str) -> Reloaded {
        let (version, digest) = (fleet.version, fleet.digest());
        let defaults = self.started.defaults.clone();
        let before = std::mem::take(&mut self.named);
        let compiling = spawn_blocking(move || {
            let (mut named, mut beside) = (Vec::new(), Reading::default());
            let compiled = fleet.compile(&defaults, &mut named);
            if compiled.is_err() {
                // Those of the rules that stay.
                named.extend(before);
            }
            beside.beside(&named);
            (compiled, named, beside)
        });
        let compiled = compiling.await.map(|(compiled, named, beside)| {
            (self.named, self.beside) = (named, beside);
            compiled
        });
        self.watch.only(self.directories());
        let compiled = match compiled {
            Ok(Ok(compiled)) => compiled,
            Ok(Err(faults)) => {
                let faults: Vec<_> = faults.0.iter().map(ToString::to_string).collect();
                return Reloaded::Refused(self.force.refuse(&faults, by));
            }
            Err(error) => return Reloaded::Refused(self.force.refuse(&[broke_down(&error)], by)),
        };
        let (rules, warnings) = compiled;
        let candidate = Candidate {
            rules,
            from: format!("the store, version {version}"),
            digest,
            version: Some(version),
            warnings,
        };
        Reloaded::Applied(self.force.apply(candidate, by))
    }

    /// The settings that are not as they were at the start.
    fn changed(&self, written: &WrittenSettings) -> Vec<&'static str> {
        let is_new = |setting: &&(&'static str, Vec<String>)| {
            // Which files there are, may change.
            setting.0 != "rules_files" && !self.started.written.contains(setting)
        };
        written.iter().filter(is_new).map(|s| s.0).collect()
    }

    fn directories(&self) -> Vec<PathBuf> {
        let readings = self.readings().into_iter();
        readings.flat_map(Reading::directories).collect()
    }
}

/// The next that the store says; never, if it is not listened to.
async fn next(heard: &mut Option<Receiver<Heard>>) -> Heard {
    if let Some(heard) = heard
        && heard.changed().await.is_ok()
    {
        return heard.borrow_and_update().clone();
    }
    std::future::pending().await
}

/// The log has told of the panic.
fn broke_down(error: &JoinError) -> String {
    format!("reading them broke down: {error}")
}
