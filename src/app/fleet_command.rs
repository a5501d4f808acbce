//! The fleet's rules in the store, put there, fetched and compared by hand.

mod difference;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::cli::tell;
use super::config::{Fault, shareable};
use super::digest::Digest;
use super::exit::Exit;
use super::fleet_rules::{self, FleetRules, NotRules, file_name};
use super::store_url::StoreUrl;
use crate::rules::{Format, Source};
use crate::sync::{Failure, MOST_BYTES, Put, Shelf, SyncError};

/// The arguments of `tidegate rules`.
#[derive(clap::Args)]
pub(super) struct RulesArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Check rule files, and put them into the store for the whole fleet
    Push {
        /// A rule file, or a directory of them
        #[arg(value_name = "FILE|DIR")]
        path: PathBuf,
        /// Only over this version; 0 for none
        #[arg(long, value_name = "VERSION")]
        over: Option<u64>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Fetch the rules from the store
    Pull {
        /// Where to write them: a file, a directory if there are several, or - to print
        #[arg(value_name = "FILE|DIR|-")]
        path: PathBuf,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Show what would change if these files were pushed; the exit code is 1 if anything would
    Diff {
        /// A rule file, or a directory of them
        #[arg(value_name = "FILE|DIR")]
        path: PathBuf,
        #[command(flatten)]
        store: StoreArgs,
    },
}

#[derive(clap::Args)]
struct StoreArgs {
    /// The fleet's store: redis://, rediss:// (TLS) or redis+unix://
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEGATE_STORE",
        hide_env_values = true,
        default_value = "none",
        hide_default_value = true
    )]
    store: String,
    /// The fleet's name
    #[arg(
        long,
        value_name = "NAME",
        env = "TIDEGATE_FLEET",
        hide_env_values = true,
        default_value = "default"
    )]
    fleet: String,
}

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
enum RulesError {
    #[error("these rules cannot be used")]
    Faults(Vec<Fault>),
    #[error("--store: {0}")]
    Store(#[from] super::config::ValueError),
    #[error("--store: name the store that the fleet counts in")]
    NoStore,
    #[error("--store: {0}")]
    Url(#[from] SyncError),
    #[error("the store: {0}")]
    Failure(Failure),
    #[error("the store has no rules of the fleet {0}")]
    Nothing(String),
    #[error("{0}")]
    NotRules(#[from] NotRules),
    #[error("the rules are longer than 16 MiB")]
    TooLong,
    #[error("somebody was faster: the store has version {0} now; nothing was changed")]
    Other(u64),
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{}: the rules are in {name}; name a file that ends like it", path.display())]
    OtherFormat { path: PathBuf, name: String },
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
    #[error("cannot write them down: {0}")]
    Encode(#[from] serde_json::Error),
}

impl RulesError {
    fn exit(&self) -> Exit {
        match self {
            RulesError::Failure(_) => Exit::Unavailable,
            RulesError::Nothing(_) | RulesError::Other(_) => Exit::Refused,
            RulesError::Start(_) | RulesError::Encode(_) => Exit::Internal,
            _ => Exit::Usage,
        }
    }
}

/// Does what was asked, and tells what came of it.
pub(super) fn rules(args: RulesArgs) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = runtime.map_err(RulesError::from).and_then(|runtime| {
        runtime.block_on(async {
            match args.action {
                Action::Push { path, over, store } => push(&path, over, &store).await,
                Action::Pull { path, store } => pull(&path, &store).await,
                Action::Diff { path, store } => diff(&path, &store).await,
            }
        })
    });
    match done {
        Ok(exit) => exit,
        Err(RulesError::Faults(faults)) => tell(&faults),
        Err(error) => {
            eprintln!("tidegate: {error}");
            error.exit()
        }
    }
}

async fn push(path: &Path, over: Option<u64>, args: &StoreArgs) -> Result<Exit, RulesError> {
    let sound = shareable(path).map_err(RulesError::Faults)?;
    for warning in &sound.warnings {
        eprintln!("tidegate: {warning} (a warning)");
    }
    let body = fleet_rules::encode(&sound.sources)?;
    if body.len() > MOST_BYTES {
        return Err(RulesError::TooLong);
    }
    let digest = Digest::of(&sound.sources);
    let mut shelf = args.shelf()?;
    let there = shelf.take().await.map_err(RulesError::Failure)?;
    let version = there.as_ref().map_or(0, |there| there.version);
    if there.is_some_and(|there| there.body == body) && over.is_none_or(|over| over == version) {
        println!("unchanged: version {version} ({digest})");
        return Ok(Exit::Done);
    }
    let put = shelf
        .put(over.unwrap_or(version), &digest.to_string(), &body)
        .await;
    match put.map_err(RulesError::Failure)? {
        Put::Done(version) => {
            let plural = if sound.rules == 1 { "" } else { "s" };
            println!(
                "pushed: version {version} ({digest}), {} rule{plural}",
                sound.rules
            );
            Ok(Exit::Done)
        }
        Put::Other(version) => Err(RulesError::Other(version)),
    }
}

async fn pull(path: &Path, args: &StoreArgs) -> Result<Exit, RulesError> {
    let there = args.shelf()?.take().await.map_err(RulesError::Failure)?;
    let there = there.ok_or_else(|| RulesError::Nothing(args.fleet.clone()))?;
    let rules = FleetRules::read(&there)?;
    if path == Path::new("-") {
        for source in &rules.sources {
            print!("{}", source.text);
        }
        return Ok(Exit::Done);
    }
    match rules.sources.as_slice() {
        [one] if !path.is_dir() => {
            if Format::of(path) != Some(one.format) {
                return Err(RulesError::OtherFormat {
                    path: path.to_owned(),
                    name: file_name(&one.name),
                });
            }
            write(path, one)?;
        }
        several => {
            let failed = |source| RulesError::Write {
                path: path.to_owned(),
                source,
            };
            fs::create_dir_all(path).map_err(failed)?;
            for source in several {
                write(&path.join(file_name(&source.name)), source)?;
            }
        }
    }
    println!("pulled: version {} ({})", rules.version, rules.digest());
    Ok(Exit::Done)
}

/// Puts the text in its place at once, for whoever watches the file.
fn write(path: &Path, source: &Source) -> Result<(), RulesError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.new"));
    let written = fs::write(&new, &source.text).and_then(|()| fs::rename(&new, path));
    written.map_err(|source| RulesError::Write {
        path: path.to_owned(),
        source,
    })
}

async fn diff(path: &Path, args: &StoreArgs) -> Result<Exit, RulesError> {
    let sound = shareable(path).map_err(RulesError::Faults)?;
    let there = args.shelf()?.take().await.map_err(RulesError::Failure)?;
    let there = there.as_ref().map(FleetRules::read).transpose()?;
    let (version, old) = match &there {
        Some(there) => (there.version, there.sources.as_slice()),
        None => (0, &[][..]),
    };
    let lines = difference::between(old, &sound.sources);
    if lines.is_empty() {
        println!("the same as version {version} in the store");
        return Ok(Exit::Done);
    }
    println!("from version {version} in the store to {}", path.display());
    for line in lines {
        println!("{line}");
    }
    Ok(Exit::Refused)
}

impl StoreArgs {
    fn shelf(&self) -> Result<Shelf, RulesError> {
        let url = StoreUrl::parse(&self.store)?.ok_or(RulesError::NoStore)?;
        Ok(Shelf::new(url.expose(), &self.fleet)?)
    }
}
