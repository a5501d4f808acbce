use std::fmt;
use std::time::Duration;

use super::Address;
use crate::protocol::grpc::Telling;

/// The descriptors left to everything but connections of the data doors: admin
/// connections, refusals, the store, files.
const RESERVED: usize = 64;
/// The most admin connections at once, whatever happens at the other doors.
pub(super) const ADMIN_PLACES: usize = 32;

/// The most connections that are refused, and read from until they close, at once.
pub(super) const FAREWELLS: usize = 16;
/// How many bodies longer than a single check's may be under way at once.
pub(super) const LONG_BODIES: usize = 64;

/// Where and how to serve. The default serves nowhere, with sensible limits.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where HTTP is spoken.
    pub http: Vec<Address>,
    /// Where the Redis protocol is spoken.
    pub resp: Vec<Address>,
    /// Where gateways ask by gRPC.
    pub grpc: Vec<Address>,
    /// Where metrics and probes are.
    pub admin: Vec<Address>,
    /// What admin requests must show; needed where other machines reach them.
    pub admin_token: Option<AdminToken>,
    /// The permissions of the Unix sockets of `http`, `resp` and `grpc`.
    pub socket_mode: u32,
    /// The permissions of the Unix sockets of `admin`, which are their only guard.
    pub admin_socket_mode: u32,
    /// The most connections at once over all `http`, `resp` and `grpc` addresses; it is
    /// lowered to what the limit of open files allows.
    pub max_connections: usize,
    /// How long a RESP command may take from its first byte to its last (it may be found
    /// out half as long again), and an answer at any door until the peer has taken it.
    pub request_timeout: Duration,
    /// How long an HTTP client may get nothing done: send a request's head, then its
    /// body, then begin the next (it may be found out half as long again).
    pub http_timeout: Duration,
    /// How long a RESP connection may say nothing, at least.
    pub resp_idle_timeout: Duration,
    /// How long draining may take, before connections are cut.
    pub drain_timeout: Duration,
    /// How old a connection of `grpc` may grow, a tenth more or less, before its client is
    /// asked to open another; `None` for any age.
    pub max_connection_age: Option<Duration>,
    /// What gateways are told beside the decision.
    pub grpc_telling: Telling,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            http: Vec::new(),
            resp: Vec::new(),
            grpc: Vec::new(),
            admin: Vec::new(),
            admin_token: None,
            socket_mode: 0o660,
            admin_socket_mode: 0o600,
            max_connections: 10_000,
            request_timeout: Duration::from_secs(10),
            http_timeout: Duration::from_secs(30),
            resp_idle_timeout: Duration::from_secs(3_600),
            drain_timeout: Duration::from_secs(10),
            max_connection_age: None,
            grpc_telling: Telling::default(),
        }
    }
}

/// The secret of the admin addresses: `Authorization: Bearer` and this.
#[derive(Clone)]
pub struct AdminToken(Box<[u8]>);

impl AdminToken {
    /// A token; `None` if the text is empty but for blanks, which go.
    pub fn new(text: &str) -> Option<AdminToken> {
        let text = text.trim();
        (!text.is_empty()).then(|| AdminToken(text.as_bytes().into()))
    }

    /// Whether `shown` is the token, in a time that tells nothing but the length.
    pub(super) fn matches(&self, shown: &[u8]) -> bool {
        let differences = self
            .0
            .iter()
            .zip(shown)
            .fold(0, |differences, (a, b)| differences | (a ^ b));
        // Kept from being shortened to a comparison that stops early.
        std::hint::black_box(differences) == 0 && self.0.len() == shown.len()
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(***)")
    }
}

/// How many connections the data doors have room for: `wanted`, or what the limit of
/// open files leaves.
pub(super) fn places(wanted: usize) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = limit.map_or(usize::MAX, |files| {
        usize::try_from(files).unwrap_or(usize::MAX)
    });
    let places = within(wanted, files);
    if places < wanted {
        tracing::warn!(
            wanted,
            places,
            open_files = files,
            "fewer connections than wanted: the limit of open files is low"
        );
    }
    places
}

fn within(wanted: usize, files: usize) -> usize {
    let room = files.saturating_sub(RESERVED).max(1);
    wanted.min(room).min(tokio::sync::Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_stay_below_the_limit_of_open_files() {
        assert_eq!(within(10_000, 256), 192);
        assert_eq!(within(100, 256), 100);
        assert_eq!(within(10_000, 10), 1);
    }

    #[test]
    fn a_token_matches_itself_alone_and_is_not_shown() {
        let token = AdminToken::new(" secret\n").unwrap();
        assert!(token.matches(b"secret"));
        for other in [&b""[..], b"secre", b"secret ", b"Secret", b"secretsecret"] {
            assert!(!token.matches(other));
        }
        assert!(AdminToken::new(" \n").is_none());
        assert_eq!(format!("{token:?}"), "AdminToken(***)");
    }
}
