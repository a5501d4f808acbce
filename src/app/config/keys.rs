//! Every setting, in one table: its config key, flag, environment variable,
//! default and reader. The command line's help and the config file's check are
//! made from it.

use super::settings::{LogFormat, RulesFrom, Settings};
use super::value::{ANY_DURATION, Scalar, ValueError};
use crate::app::store_url::StoreUrl;
use crate::protocol::grpc::Headers;
use crate::units::{Nanos, Partitions, STRICT_TIMEOUTS};

/// One setting.
pub struct Key {
    /// The key in a config file.
    pub name: &'static str,
    /// The flag, without its dashes.
    pub flag: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// What kind of value it takes, for the help.
    pub value: &'static str,
    /// The default, as it would be written; nothing for "not set".
    pub default: &'static [&'static str],
    /// What it is, for the help.
    pub help: &'static str,
    pub(super) set: Set,
}

/// Puts a value into the settings.
#[derive(Clone, Copy)]
pub(super) enum Set {
    /// A setting of one value.
    One(fn(&mut Settings, &Scalar) -> Result<(), ValueError>),
    /// A setting of any number of values: called once for each.
    Each(fn(&mut Settings, &Scalar) -> Result<(), ValueError>),
}

impl Key {
    /// Whether it takes any number of values.
    pub fn is_list(&self) -> bool {
        matches!(self.set, Set::Each(_))
    }

    /// The setting whose config key is `name`.
    pub fn named(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }
}

const RULES_FROM: &[&str] = &["file", "store"];
const GRPC_HEADERS: &[&str] = &["none", "retry-after", "all"];
const OFF_OR_ON: &[&str] = &["off", "on"];
const LOG_FORMATS: &[&str] = &["text", "json"];
const PACE: (Nanos, Nanos) = (Nanos::from_millis(1), Nanos::from_secs(3_600));
/// How long a receipt may be kept.
const RECEIPT_TIMES: (Nanos, Nanos) = (Nanos::from_secs(1), Nanos::from_secs(86_400));

/// Every setting. `runtime_dir` comes first: addresses refer to it.
pub const KEYS: &[Key] = &[
    Key {
        name: "runtime_dir",
        flag: "runtime-dir",
        variable: "TIDEGATE_RUNTIME_DIR",
        value: "DIR",
        default: &[],
        help: "Where `{runtime}` in addresses points to \
               [default: $RUNTIME_DIRECTORY, else ${XDG_RUNTIME_DIR:-/tmp}/tidegate-UID]",
        set: Set::One(|s, v| {
            s.runtime_dir = super::settings::RuntimeDir::Given(v.path()?);
            Ok(())
        }),
    },
    Key {
        name: "http",
        flag: "http",
        variable: "TIDEGATE_HTTP",
        value: "ADDR",
        default: &["unix:{runtime}/http.sock"],
        help: "Where to serve HTTP and JSON",
        set: Set::Each(|s, v| {
            let address = s.address(v)?;
            s.http.push(address);
            Ok(())
        }),
    },
    Key {
        name: "resp",
        flag: "resp",
        variable: "TIDEGATE_RESP",
        value: "ADDR",
        default: &["unix:{runtime}/resp.sock"],
        help: "Where to serve the Redis protocol",
        set: Set::Each(|s, v| {
            let address = s.address(v)?;
            s.resp.push(address);
            Ok(())
        }),
    },
    Key {
        name: "grpc",
        flag: "grpc",
        variable: "TIDEGATE_GRPC",
        value: "ADDR",
        default: &[],
        help: "Where to serve Envoy's rate limit service (gRPC), such as unix:{runtime}/grpc.sock",
        set: Set::Each(|s, v| {
            let address = s.address(v)?;
            s.grpc.push(address);
            Ok(())
        }),
    },
    Key {
        name: "admin",
        flag: "admin",
        variable: "TIDEGATE_ADMIN",
        value: "ADDR",
        default: &["unix:{runtime}/admin.sock"],
        help: "Where to serve /metrics, /status, /reload, /livez and /readyz; beyond this machine only with a token, which probes need not show",
        set: Set::Each(|s, v| {
            let address = s.address(v)?;
            s.admin.push(address);
            Ok(())
        }),
    },
    Key {
        name: "admin_token_file",
        flag: "admin-token-file",
        variable: "TIDEGATE_ADMIN_TOKEN_FILE",
        value: "FILE",
        default: &[],
        help: "File with the token that `Authorization: Bearer` must show on admin addresses of TCP",
        set: Set::One(|s, v| {
            s.admin_token_file = Some(v.path()?);
            Ok(())
        }),
    },
    Key {
        name: "socket_mode",
        flag: "socket-mode",
        variable: "TIDEGATE_SOCKET_MODE",
        value: "OCTAL",
        default: &["0600"],
        help: "Permissions of the Unix sockets of http, resp and grpc",
        set: Set::One(|s, v| {
            s.socket_mode = v.mode()?;
            Ok(())
        }),
    },
    Key {
        name: "admin_socket_mode",
        flag: "admin-socket-mode",
        variable: "TIDEGATE_ADMIN_SOCKET_MODE",
        value: "OCTAL",
        default: &["0600"],
        help: "Permissions of the Unix sockets of admin",
        set: Set::One(|s, v| {
            s.admin_socket_mode = v.mode()?;
            Ok(())
        }),
    },
    Key {
        name: "max_connections",
        flag: "max-connections",
        variable: "TIDEGATE_MAX_CONNECTIONS",
        value: "NUMBER",
        default: &["10000"],
        help: "Most connections at once, over all http, resp and grpc addresses",
        set: Set::One(|s, v| {
            s.max_connections = v.number(1, 1_000_000)?;
            Ok(())
        }),
    },
    Key {
        name: "grpc_headers",
        flag: "grpc-headers",
        variable: "TIDEGATE_GRPC_HEADERS",
        value: "none|retry-after|all",
        default: &["retry-after"],
        help: "What a gateway is to add to its responses: nothing, Retry-After where it helps, or all fields that http tells",
        set: Set::One(|s, v| {
            s.grpc_telling.headers = match v.one_of(GRPC_HEADERS)? {
                0 => Headers::None,
                1 => Headers::RetryAfter,
                _ => Headers::All,
            };
            Ok(())
        }),
    },
    Key {
        name: "grpc_metadata",
        flag: "grpc-metadata",
        variable: "TIDEGATE_GRPC_METADATA",
        value: "off|on",
        default: &["off"],
        help: "Whether a gateway's other filters are told of the decision, as dynamic metadata",
        set: Set::One(|s, v| {
            s.grpc_telling.dynamic_metadata = v.one_of(OFF_OR_ON)? == 1;
            Ok(())
        }),
    },
    Key {
        name: "max_connection_age",
        flag: "max-connection-age",
        variable: "TIDEGATE_MAX_CONNECTION_AGE",
        value: "DURATION",
        default: &["0s"],
        help: "How old a connection of grpc grows before its client is asked to open another, so that new nodes get their part; 0s for any age",
        set: Set::One(|s, v| {
            let age = v.duration(ANY_DURATION)?;
            s.max_connection_age = (!age.is_zero()).then(|| age.into());
            Ok(())
        }),
    },
    Key {
        name: "rules_files",
        flag: "rules",
        variable: "TIDEGATE_RULES",
        value: "FILE|DIR",
        default: &[],
        help: "Rule files, or directories of them; as a flag or variable, they replace all rules of the config file",
        set: Set::Each(|s, v| {
            let path = v.path()?;
            s.rules_files.push(path);
            Ok(())
        }),
    },
    Key {
        name: "rules_from",
        flag: "rules-from",
        variable: "TIDEGATE_RULES_FROM",
        value: "file|store",
        default: &["file"],
        help: "Who says the rules, the first that has some: the files of this node, or the store to the whole fleet (`tidegate rules push`)",
        set: Set::Each(|s, v| {
            s.rules_from.push(match v.one_of(RULES_FROM)? {
                0 => RulesFrom::File,
                _ => RulesFrom::Store,
            });
            Ok(())
        }),
    },
    Key {
        name: "store",
        flag: "store",
        variable: "TIDEGATE_STORE",
        value: "URL|none",
        default: &["none"],
        help: "The Redis that the fleet counts in: redis://, rediss:// (TLS) or redis+unix://; none for this node alone",
        set: Set::One(|s, v| {
            s.store = StoreUrl::parse(&v.word()?)?;
            Ok(())
        }),
    },
    Key {
        name: "fleet",
        flag: "fleet",
        variable: "TIDEGATE_FLEET",
        value: "NAME",
        default: &["default"],
        help: "The nodes that count together, where a store is shared by several fleets",
        set: Set::One(|s, v| {
            s.fleet = v.name()?;
            Ok(())
        }),
    },
    Key {
        name: "node",
        flag: "node",
        variable: "TIDEGATE_NODE",
        value: "NAME",
        default: &[],
        help: "This node's name [default: the host's name]",
        set: Set::One(|s, v| {
            s.node = v.name()?;
            Ok(())
        }),
    },
    Key {
        name: "partitions",
        flag: "partitions",
        variable: "TIDEGATE_PARTITIONS",
        value: "NUMBER",
        default: &["256"],
        help: "Parts that the fleet's cells are spread over in the store; the fleet must agree",
        set: Set::One(|s, v| {
            s.partitions = Partitions::new(v.number(1, 16_384)?).unwrap_or_default();
            Ok(())
        }),
    },
    Key {
        name: "key_secret_file",
        flag: "key-secret-file",
        variable: "TIDEGATE_KEY_SECRET_FILE",
        value: "FILE",
        default: &[],
        help: "File with the secret, 16 bytes or more, that callers' keys are hashed with; the fleet must agree",
        set: Set::One(|s, v| {
            s.key_secret_file = Some(v.path()?);
            Ok(())
        }),
    },
    Key {
        name: "sync_interval",
        flag: "sync-interval",
        variable: "TIDEGATE_SYNC_INTERVAL",
        value: "DURATION",
        default: &["100ms"],
        help: "Longest that an admitted cost stays unsent",
        set: Set::One(|s, v| {
            s.pace.interval = v.duration(PACE)?;
            Ok(())
        }),
    },
    Key {
        name: "sync_min_interval",
        flag: "sync-min-interval",
        variable: "TIDEGATE_SYNC_MIN_INTERVAL",
        value: "DURATION",
        default: &["5ms"],
        help: "How long urgent costs are gathered before they are sent",
        set: Set::One(|s, v| {
            s.pace.min_interval = v.duration((Nanos::ZERO, PACE.1))?;
            Ok(())
        }),
    },
    Key {
        name: "sync_max_interval",
        flag: "sync-max-interval",
        variable: "TIDEGATE_SYNC_MAX_INTERVAL",
        value: "DURATION",
        default: &["5s"],
        help: "How long the costs of a cell far from its limit may wait",
        set: Set::One(|s, v| {
            s.pace.max_interval = v.duration(PACE)?;
            Ok(())
        }),
    },
    Key {
        name: "strict_timeout",
        flag: "strict-timeout",
        variable: "TIDEGATE_STRICT_TIMEOUT",
        value: "DURATION",
        default: &["50ms"],
        help: "How long a check of a strict limit waits for the store; then on_store_loss answers it",
        set: Set::One(|s, v| {
            s.strict_timeout = v.duration(STRICT_TIMEOUTS)?;
            Ok(())
        }),
    },
    Key {
        name: "max_keys",
        flag: "max-keys",
        variable: "TIDEGATE_MAX_KEYS",
        value: "NUMBER",
        default: &["1000000"],
        help: "Most cells in memory, about 130 bytes each; beyond, newcomers share one cell a limit",
        set: Set::One(|s, v| {
            s.max_keys = v.number(1, 1_000_000_000)?;
            Ok(())
        }),
    },
    Key {
        name: "max_receipts",
        flag: "max-receipts",
        variable: "TIDEGATE_MAX_RECEIPTS",
        value: "NUMBER",
        default: &["100000"],
        help: "Most checks with an id that are remembered, to be settled; beyond, the oldest are forgotten",
        set: Set::One(|s, v| {
            s.receipts.most = v.number(1, 100_000_000)?;
            Ok(())
        }),
    },
    Key {
        name: "receipt_time",
        flag: "receipt-time",
        variable: "TIDEGATE_RECEIPT_TIME",
        value: "DURATION",
        default: &["10m"],
        help: "How long a check with an id is remembered, to be settled",
        set: Set::One(|s, v| {
            s.receipts.time = v.duration(RECEIPT_TIMES)?;
            Ok(())
        }),
    },
    Key {
        name: "drain_delay",
        flag: "drain-delay",
        variable: "TIDEGATE_DRAIN_DELAY",
        value: "DURATION",
        default: &["0s"],
        help: "How long to go on serving after SIGTERM, not ready",
        set: Set::One(|s, v| {
            s.drain_delay = v.duration(ANY_DURATION)?.into();
            Ok(())
        }),
    },
    Key {
        name: "drain_timeout",
        flag: "drain-timeout",
        variable: "TIDEGATE_DRAIN_TIMEOUT",
        value: "DURATION",
        default: &["10s"],
        help: "How long open connections may take to finish after that",
        set: Set::One(|s, v| {
            s.drain_timeout = v.duration(ANY_DURATION)?.into();
            Ok(())
        }),
    },
    Key {
        name: "final_sync_timeout",
        flag: "final-sync-timeout",
        variable: "TIDEGATE_FINAL_SYNC_TIMEOUT",
        value: "DURATION",
        default: &["2s"],
        help: "How long the last exchange with the store may take at the end",
        set: Set::One(|s, v| {
            s.final_sync_timeout = v.duration(ANY_DURATION)?.into();
            Ok(())
        }),
    },
    Key {
        name: "log",
        flag: "log",
        variable: "TIDEGATE_LOG",
        value: "FILTER",
        default: &["info"],
        help: "What to log: error, warn, info, debug, trace, off or tidegate::PART=level,…",
        set: Set::One(|s, v| {
            s.log = v.log_filter()?;
            Ok(())
        }),
    },
    Key {
        name: "log_format",
        flag: "log-format",
        variable: "TIDEGATE_LOG_FORMAT",
        value: "text|json",
        default: &["text"],
        help: "How to log",
        set: Set::One(|s, v| {
            s.log_format = match v.one_of(LOG_FORMATS)? {
                0 => LogFormat::Text,
                _ => LogFormat::Json,
            };
            Ok(())
        }),
    },
];
