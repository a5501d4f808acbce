use std::pin::pin;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::server::config::ServerConfig;
use crate::server::observer::BadKind;
use crate::server::patient::Patient;

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 16 * 1_024;
/// The most that is buffered of what comes in or goes out.
const MAX_BUFFER: usize = 64 * 1_024;

/// How long a peer may take.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct Limits {
    /// Between requests, and for the head of the next.
    idle: Duration,
    /// To take what is written.
    write: Duration,
}

impl Limits {
    pub(in crate::server) fn of(config: &ServerConfig) -> Limits {
        Limits {
            idle: config.http_idle_timeout,
            write: config.request_timeout,
        }
    }
}

/// Lets `service` answer the HTTP/1.1 requests of `stream` until it ends, or until
/// `stop` is done and the request in hand is answered.
///
/// # Errors
/// What was wrong with a request that could not be understood; the client was told.
pub(in crate::server) async fn drive<I, S, B>(
    stream: I,
    service: S,
    limits: Limits,
    stop: impl Future<Output = ()>,
) -> Result<(), BadKind>
where
    I: AsyncRead + AsyncWrite + Unpin + 'static,
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = TokioIo::new(Patient::new(stream, limits.write));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(stream, service);
    let (mut connection, mut stop) = (pin!(connection), pin!(stop));
    let ended = tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = &mut stop => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    match ended {
        Err(error) if error.is_timeout() => Err(BadKind::Slow),
        Err(error) if error.is_parse_too_large() => Err(BadKind::Size),
        Err(error) if error.is_parse() || error.is_incomplete_message() => Err(BadKind::Framing),
        // Gone, or asked to stop.
        Ok(()) | Err(_) => Ok(()),
    }
}
