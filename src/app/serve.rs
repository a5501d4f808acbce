//! The daemon's life: everything wired together, served, and put down in order.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::banner::{self, Banner};
use super::config::{self, Config, Fault, LogFormat, Origin, Settings};
use super::digest::Digest;
use super::exit::Exit;
use super::force::Force;
use super::reload::{Reloader, Started};
use super::upkeep::Upkeep;
use super::{noticed, secrets, surroundings, telemetry};
use crate::clock::Clock;
use crate::counters::{Counters, Fleet, Unsent};
use crate::engine::{Authority, Engine};
use crate::rules::RuleSet;
use crate::server::{
    Address, Bound, Door, Observer, Readiness, Reason, Server, ServerConfig, ServerError, Services,
};
use crate::sync::seal::Told;
use crate::sync::{Finished, Shelf, Strict, Sync, SyncConfig, SyncError};
use crate::units::Nanos;

/// Why the daemon does not serve, or not to the end.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("{0}")]
    Fault(#[from] Fault),
    #[error("{0}")]
    RuntimeDir(#[from] surroundings::RuntimeDirError),
    #[error("{0}")]
    Bind(#[from] ServerError),
    #[error("{0}")]
    Sync(#[from] SyncError),
    #[error("cannot record metrics: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

impl ServeError {
    fn exit(&self) -> Exit {
        match self {
            ServeError::Fault(_) | ServeError::Sync(_) => Exit::Usage,
            ServeError::RuntimeDir(_) | ServeError::Bind(_) => Exit::Unavailable,
            ServeError::Metrics(_) | ServeError::Start(_) => Exit::Internal,
        }
    }
}

/// So many may wait for the rules to be read anew.
const WAITING_RELOADS: usize = 8;

/// Serves until a signal ends it. `misspelt` is what is to be said of the environment.
pub(super) fn serve(config: Config, origin: Origin, misspelt: &[String]) -> Exit {
    telemetry::logs(&config.settings.log, config.settings.log_format);
    for warning in misspelt {
        tracing::warn!("{warning}");
    }
    match run(config, origin) {
        Ok(exit) => exit,
        Err(error) => {
            eprintln!("tidegate: {error}");
            error.exit()
        }
    }
}

fn run(config: Config, origin: Origin) -> Result<Exit, ServeError> {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    if config.settings.store.is_some() && config.settings.key_secret_file.is_none() {
        tracing::warn!(
            "no key_secret_file: callers can compute where in the store they are counted; give \
             the whole fleet the same secret"
        );
    }
    warn_of_open_doors(&config.settings);
    let metrics = telemetry::metrics()?;
    surroundings::raise_open_files();
    let bound = bind(&config.settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let exit = runtime.block_on(live(config, origin, bound, metrics));
    // Sockets go with their tasks.
    runtime.shutdown_timeout(Duration::from_secs(1));
    exit
}

/// The doors for checks ask nobody who they are.
fn warn_of_open_doors(settings: &Settings) {
    let doors = settings.http.iter().chain(&settings.resp);
    let doors = doors.chain(&settings.grpc);
    for address in doors.filter(|address| !address.is_local()) {
        tracing::warn!(
            %address,
            "other machines may reach this door, which asks for no password"
        );
    }
}

fn bind(settings: &Settings) -> Result<Bound, ServeError> {
    let directory = &settings.runtime_dir;
    let all = settings
        .http
        .iter()
        .chain(&settings.resp)
        .chain(&settings.grpc)
        .chain(&settings.admin);
    let within = |address: &Address| match address {
        Address::Unix(path) => path.starts_with(directory.path()),
        Address::Tcp { .. } => false,
    };
    if all.into_iter().any(within) {
        surroundings::make(directory)?;
    }
    Ok(Server::bind(ServerConfig {
        http: settings.http.clone(),
        resp: settings.resp.clone(),
        grpc: settings.grpc.clone(),
        admin: settings.admin.clone(),
        admin_token: secrets::admin_token(settings)?,
        socket_mode: settings.socket_mode,
        admin_socket_mode: settings.admin_socket_mode,
        max_connections: settings.max_connections,
        drain_timeout: settings.drain_timeout,
        max_connection_age: settings.max_connection_age,
        grpc_telling: settings.grpc_telling,
        ..ServerConfig::default()
    })?)
}

async fn live(
    config: Config,
    origin: Origin,
    bound: Bound,
    metrics: PrometheusHandle,
) -> Result<Exit, ServeError> {
    let Config {
        settings,
        rules,
        defaults,
        file,
        rules_from,
        digest,
        written,
        ..
    } = config;
    let started = Started {
        defaults,
        written,
        rules_from: settings.rules_from.clone(),
        files_have_rules: !rules.is_empty(),
    };
    let (rules, rules_from, digest) = if started.listens_to_files() {
        (rules, rules_from, digest)
    } else {
        let from = "the store, which is yet to say them".to_owned();
        (RuleSet::default(), from, Digest::of([]))
    };
    // Before anything is answered, so that none is missed.
    let mut signals = Signals::new()?;
    let hangup = signal(SignalKind::hangup())?;
    let clock = Clock::system();
    let fleet = match settings.store {
        Some(_) => Fleet::with_store(),
        None => Fleet::alone(),
    };
    let counters = Arc::new(Counters::new(settings.max_keys, fleet));
    let observer = Arc::new(Observer::new(&rules));
    announce(&settings, &file, &rules_from, &rules, &bound);
    let secret = &started.defaults.secret;
    let engine = Engine::new(rules, Arc::clone(&counters), secret)
        .paced(settings.pace)
        .keeping(settings.receipts, secret);
    let engine = Arc::new(engine);
    let (mut sync, mut strict, mut heard) = (None, None, None);
    if let Some(store) = &settings.store {
        let config = SyncConfig {
            url: store.expose().to_owned(),
            node: settings.node.clone(),
            fleet: settings.fleet.clone(),
            partitions: settings.partitions,
            secret: secret.clone(),
            pace: settings.pace,
        };
        let told = Told::default();
        sync = Some(Sync::spawn(
            &config,
            Arc::clone(&counters),
            clock.clone(),
            told.clone(),
        )?);
        let asker = Strict::new(&config, settings.strict_timeout, clock.clone(), told)?;
        strict = Some(Arc::new(asker));
        if started.listens_to_store() {
            heard = Some(Shelf::new(store.expose(), &settings.fleet)?.watch());
        }
    }
    let authority = strict.clone().map(|strict| strict as Arc<dyn Authority>);
    let force = Arc::new(Force::begin(
        Arc::clone(&engine),
        Arc::clone(&observer),
        strict,
        clock.clone(),
        &rules_from,
        digest,
    ));
    let (reloads, asked) = mpsc::channel(WAITING_RELOADS);
    let readiness = Readiness::default();
    let standing = sync.as_ref().map(Sync::standing);
    if started.listens_to_store() && !started.files_win() {
        readiness.raise(Reason::Rules);
    }
    let reloader = Reloader::new(
        origin,
        started,
        Arc::clone(&force),
        heard,
        readiness.clone(),
    );
    let reloader = tokio::spawn(reloader.run(asked, hangup));
    let upkeep = Upkeep {
        engine: Arc::clone(&engine),
        clock: clock.clone(),
        metrics: metrics.clone(),
        readiness: readiness.clone(),
        standing,
    };
    let upkeep = tokio::spawn(upkeep.run());
    let watch = tokio::spawn(noticed::watch(Arc::clone(&engine), clock.clone()));
    let (cells, metered) = (Arc::clone(&counters), Arc::clone(&engine));
    let services = Services {
        engine,
        authority,
        clock,
        observer,
        readiness: readiness.clone(),
        metrics: Arc::new(move || {
            telemetry::publish(&metered);
            metrics.render()
        }),
        status: Arc::new(move || force.page()),
        reloads: Some(reloads),
    };
    // Nobody need be listening for it.
    let _told = sd_notify::notify(&[NotifyState::Ready]);

    let (ask, asked) = oneshot::channel();
    let drain = async {
        // Nobody left to ask is as good as being asked.
        let _ = asked.await;
        readiness.raise(Reason::Draining);
        let _told = sd_notify::notify(&[NotifyState::Stopping]);
        let delay_ms = Nanos::from(settings.drain_delay).as_millis_ceil();
        tracing::info!(delay_ms, "asked to end");
        sleep(settings.drain_delay).await;
    };
    let life = async {
        let drained = bound.serve(services, drain).await?;
        upkeep.abort();
        reloader.abort();
        watch.abort();
        let synced = match sync {
            Some(sync) => Some(sync.finish(settings.final_sync_timeout).await),
            None => None,
        };
        let connections_cut = drained.cut;
        if synced == Some(Finished::Incomplete) {
            let Unsent { cells, cost } = cells.unsent();
            tracing::warn!(
                connections_cut,
                all_sent = false,
                unsent_cost = cost,
                unsent_callers = cells,
                "ended before all was sent: the fleet will not count what was not"
            );
        } else {
            tracing::info!(connections_cut, all_sent = true, "ended");
        }
        Ok(Exit::Done)
    };
    let impatience = async {
        signals.next().await;
        let _ = ask.send(());
        signals.next().await;
    };
    tokio::select! {
        ended = life => ended,
        () = impatience => {
            tracing::warn!("asked twice to end: ending at once");
            Ok(Exit::Refused)
        }
    }
}

/// Says what is served and where: one line of log, and for people the banner.
fn announce(settings: &Settings, file: &str, rules_from: &str, rules: &RuleSet, bound: &Bound) {
    let doors: Vec<(Door, Address)> = bound
        .addresses()
        .map(|(door, address)| (door, address.clone()))
        .collect();
    let listening: Vec<String> = doors
        .iter()
        .map(|(door, address)| format!("{}={address}", door.name()))
        .collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        config = file,
        rules = rules.names().count(),
        listening = listening.join(" "),
        store = settings.store.as_ref().map(tracing::field::display),
        fleet = settings.fleet,
        node = settings.node,
        "serving"
    );
    if settings.log_format == LogFormat::Text {
        let banner = Banner {
            rules: &config::rule_names(rules),
            question: banner::question(rules),
            rules_from,
            store: settings
                .store
                .as_ref()
                .map(|store| (store, settings.fleet.as_str())),
            doors: &doors,
        };
        // Where nobody reads it, nobody misses it.
        let _closed = write!(io::stdout(), "{banner}");
    }
}

/// The signals that ask the daemon to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next one that asks the daemon to end.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
