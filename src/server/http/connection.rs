use std::error::Error;
use std::io;
use std::pin::pin;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::server::config::ServerConfig;
use crate::server::eager::Eager;
use crate::server::observer::BadKind;
use crate::server::patient::{Patient, Progress};

/// The longest head of a request, in bytes. Gateways pass on those of their clients, which
/// may have 32 KiB by the defaults of nginx.
const MAX_HEAD: usize = 40 * 1_024;
/// The most that is buffered of what comes in or goes out.
const MAX_BUFFER: usize = 64 * 1_024;

/// Lets `service` answer the HTTP/1.1 requests of `stream` until it ends, or until
/// `stop` is done and the request in hand is answered.
///
/// # Errors
/// What was wrong with a request that could not be understood; the client was told.
pub(in crate::server) async fn drive<I, S, B>(
    stream: I,
    service: S,
    config: &ServerConfig,
    stop: impl Future<Output = ()>,
) -> Result<(), BadKind>
where
    I: AsyncRead + AsyncWrite + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let progress = Progress::default();
    let stream = Patient::new(stream, config.request_timeout)
        .watching(progress.clone(), config.http_timeout);
    let service = service_fn(|request| {
        // The head is here.
        progress.made();
        let answering = service.call(request);
        let progress = progress.clone();
        async move {
            let answer = answering.await;
            // And now the body is.
            progress.made();
            answer
        }
    });
    let connection = http1::Builder::new()
        // `Patient` sees to it, for head and body alike.
        .header_read_timeout(None)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let (mut connection, mut stop) = (pin!(connection), pin!(stop));
    let serving = pin!(async {
        tokio::select! {
            biased;
            ended = &mut connection => ended,
            () = &mut stop => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    });
    match Eager::new(serving).await {
        Err(error) if is_timeout(&error) => Err(BadKind::Slow),
        Err(error) if error.is_parse_too_large() => Err(BadKind::Size),
        Err(error) if error.is_parse() || error.is_incomplete_message() => Err(BadKind::Framing),
        // Gone, or asked to stop.
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether the stream gave up waiting for the peer.
pub(super) fn is_timeout(error: &hyper::Error) -> bool {
    error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
}
