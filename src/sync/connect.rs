//! Ways to the store.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, Value};
use tokio::time::timeout;

use super::error::{Failure, SyncError};
use super::pacing::{self, CONNECT_TIMEOUT, EXCHANGE_TIMEOUT};
use super::unreached;
use super::wire::failure;

/// So many exchanges of one connection may be under way before another must wait for its
/// turn: those that wait would no longer be sent in the order in which they were begun.
pub(super) const MOST_UNDER_WAY: usize = 16_384;

/// A client of the store at `url`; it is not connected yet.
///
/// # Errors
/// [`SyncError::BadUrl`] if the address makes no sense.
pub(super) fn client(url: &str) -> Result<Client, SyncError> {
    name_tls_provider();
    // Small exchanges must not wait for each other's acknowledgements.
    let tcp = TcpSettings::default().set_nodelay(true);
    let info = url.into_connection_info();
    info.and_then(|info| Client::open(info.set_tcp_settings(tcp)))
        .map_err(|_| SyncError::BadUrl)
}

/// The first to name a provider wins; it makes no difference which it was.
fn name_tls_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Connects, and teaches the store its scripts.
///
/// # Errors
/// [`Failure`] if either does not succeed in time.
pub(super) async fn connect(
    client: &Client,
    scripts: &[Cmd],
) -> Result<MultiplexedConnection, Failure> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_pipeline_buffer_size(MOST_UNDER_WAY)
        .set_response_timeout(None);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    let connected = timeout(2 * CONNECT_TIMEOUT, connecting).await;
    let mut connection = connected
        .map_err(|_| Failure::Timeout)?
        .map_err(|error| unreached::cause(&error))?;
    for command in scripts {
        let loading = timeout(
            EXCHANGE_TIMEOUT,
            command.query_async::<Value>(&mut connection),
        );
        loading
            .await
            .map_err(|_| Failure::Timeout)?
            .map_err(|error| failure(&error))?;
    }
    Ok(connection)
}

/// A number that no other start of any node has: the seed of the standard library's
/// hasher comes from the operating system.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// `pause`, and up to as much again.
pub(super) fn jittered(pause: Duration) -> Duration {
    pacing::jittered(pause, random())
}
