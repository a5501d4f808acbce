//! The settings, read and checked.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::value::{Scalar, ValueError};
use crate::app::store_url::StoreUrl;
use crate::engine::ReceiptBounds;
use crate::protocol::grpc::Telling;
use crate::server::Address;
use crate::units::{Nanos, Pace, Partitions};

/// What the daemon was told to do. What each means is in [`super::keys::KEYS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where `{runtime}` in addresses points to.
    pub runtime_dir: RuntimeDir,
    /// Where to serve HTTP.
    pub http: Vec<Address>,
    /// Where to serve the Redis protocol.
    pub resp: Vec<Address>,
    /// Where to serve gateways by gRPC.
    pub grpc: Vec<Address>,
    /// Where to serve the operator.
    pub admin: Vec<Address>,
    /// The file with the admin's token.
    pub admin_token_file: Option<PathBuf>,
    /// Permissions of the Unix sockets of `http`, `resp` and `grpc`.
    pub socket_mode: u32,
    /// Permissions of the Unix sockets of `admin`.
    pub admin_socket_mode: u32,
    /// Most connections at once.
    pub max_connections: usize,
    /// What gateways are told beside the decision.
    pub grpc_telling: Telling,
    /// How old a connection of gRPC may grow; `None` for any age.
    pub max_connection_age: Option<Duration>,
    /// Rule files and directories of them.
    pub rules_files: Vec<PathBuf>,
    /// Who says the rules: the first of these that has some.
    pub rules_from: Vec<RulesFrom>,
    /// The fleet's store; `None` for this node alone.
    pub store: Option<StoreUrl>,
    /// The nodes that count together.
    pub fleet: String,
    /// This node.
    pub node: String,
    /// Parts that cells are spread over in the store.
    pub partitions: Partitions,
    /// The file with the secret that keys are hashed with.
    pub key_secret_file: Option<PathBuf>,
    /// When costs are sent, where a rule does not say.
    pub pace: Pace,
    /// How long a strict check waits for the store, where a rule does not say.
    pub strict_timeout: Nanos,
    /// Most cells in memory.
    pub max_keys: usize,
    /// How many checks with an id are remembered, and how long.
    pub receipts: ReceiptBounds,
    /// How long to go on serving after SIGTERM.
    pub drain_delay: Duration,
    /// How long open connections may take to finish.
    pub drain_timeout: Duration,
    /// How long the last sync may take.
    pub final_sync_timeout: Duration,
    /// What to log.
    pub log: String,
    /// How to log.
    pub log_format: LogFormat,
}

/// Who says the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesFrom {
    /// The files of this node.
    File,
    /// The store, to the whole fleet.
    Store,
}

/// How to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The directory of sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeDir {
    /// Nobody named one: it is made for this user alone, and its owner checked.
    Automatic(PathBuf),
    /// Somebody named it, and answers for it.
    Given(PathBuf),
}

impl RuntimeDir {
    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            RuntimeDir::Automatic(path) | RuntimeDir::Given(path) => path,
        }
    }
}

/// What the machine says, for the defaults that depend on it.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The runtime directory where nobody names one.
    pub runtime_dir: PathBuf,
    /// The host's name.
    pub host: String,
}

impl Settings {
    /// Settings with nothing in them, to be filled from the table of keys.
    pub(super) fn blank(surroundings: &Surroundings) -> Settings {
        Settings {
            runtime_dir: RuntimeDir::Automatic(surroundings.runtime_dir.clone()),
            http: Vec::new(),
            resp: Vec::new(),
            grpc: Vec::new(),
            admin: Vec::new(),
            admin_token_file: None,
            socket_mode: 0,
            admin_socket_mode: 0,
            max_connections: 0,
            grpc_telling: Telling::default(),
            max_connection_age: None,
            rules_files: Vec::new(),
            rules_from: Vec::new(),
            store: None,
            fleet: String::new(),
            node: surroundings.host.clone(),
            partitions: Partitions::default(),
            key_secret_file: None,
            pace: Pace::default(),
            strict_timeout: Nanos::ZERO,
            max_keys: 0,
            receipts: ReceiptBounds::default(),
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::ZERO,
            final_sync_timeout: Duration::ZERO,
            log: String::new(),
            log_format: LogFormat::Text,
        }
    }

    /// Reads an address, with `{runtime}` replaced by the runtime directory.
    pub(super) fn address(&self, scalar: &Scalar) -> Result<Address, ValueError> {
        // However a file's grammar sees `127.0.0.1:80`, no address is ambiguous.
        let given = scalar.text.clone();
        let runtime = self.runtime_dir.path().to_string_lossy();
        given
            .replace("{runtime}", &runtime)
            .parse()
            .map_err(|error| ValueError::NotAnAddress { given, error })
    }
}
