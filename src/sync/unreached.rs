//! Why there is no connection.

use std::error::Error;
use std::io;
use std::sync::Arc;

use redis::RedisError;

use super::error::Failure;
use super::wire::failure;

/// What an error means that came instead of a connection.
pub(super) fn cause(error: &RedisError) -> Failure {
    let inner = error.source().and_then(<dyn Error>::downcast_ref);
    let inner = inner.and_then(|inner: &Arc<dyn Error + Send + Sync>| inner.downcast_ref());
    inner.and_then(of_io).unwrap_or_else(|| failure(error))
}

fn of_io(error: &io::Error) -> Option<Failure> {
    if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        return Some(match tls {
            rustls::Error::InvalidCertificate(_) => Failure::Certificate,
            _ => Failure::Tls,
        });
    }
    Some(match error.kind() {
        io::ErrorKind::ConnectionRefused => Failure::Refused,
        io::ErrorKind::NotFound => Failure::NoSocket,
        io::ErrorKind::PermissionDenied => Failure::Forbidden,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Failure::Unreachable,
        io::ErrorKind::TimedOut => Failure::Timeout,
        // The standard library has no kind for it.
        _ if error.to_string().starts_with(UNRESOLVED) => Failure::UnknownHost,
        _ => return None,
    })
}

const UNRESOLVED: &str = "failed to lookup address information";
