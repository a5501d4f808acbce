use std::convert::Infallible;
use std::error::Error;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tonic::body::Body;

use super::streams::{Begun, Together};
use crate::server::Shared;
use crate::server::eager::Eager;
use crate::server::observer::BadKind;
use crate::server::patient::Patient;

/// The first bytes of every HTTP/2 connection.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The most calls at once on one connection; a gateway waits with more.
const MAX_STREAMS: u32 = 256;
/// The longest fields of a request together, in bytes. No more continuation frames are taken
/// than that can need.
const MAX_FIELDS: u32 = 16 * 1_024;
/// The most calls that a client may have taken back before they were looked at, and the most
/// that it may spoil; then the connection is closed. An honest client with 2,000 calls a second
/// takes back so many where this process was kept from running for a quarter of one: to hang
/// up then would lose all that it asks afterwards, too.
const MAX_RESETS: usize = 512;
const MAX_SPOILT: usize = 256;
/// How much of one message, and of all of a connection, may be on its way unread, in bytes.
/// Short messages count as at least 256 bytes, and may take half of it: enough for all calls
/// that may be open or have been taken back, else the connection is closed. So what one stream
/// may have unread in messages of 20 bytes must not take all of that: a gateway that sends a
/// short report of each new bucket is to wait, not to be cut off.
const STREAM_WINDOW: u32 = 16 * 1_024;
const CONNECTION_WINDOW: u32 = 512 * 1_024;
const _: () = assert!(STREAM_WINDOW / 20 * (256 - 20) <= CONNECTION_WINDOW / 2);
/// The longest frame, in bytes.
const MAX_FRAME: u32 = 16 * 1_024;
/// The most of an answer that waits to be taken, in bytes.
const MAX_UNSENT: usize = 64 * 1_024;
/// A peer that says nothing for so long is asked whether it is there, and given so long to
/// say so.
const PING_AFTER: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);
/// How long calls may take that are in hand when their connection has grown old.
const AGE_GRACE: Duration = Duration::from_secs(5);

/// Lets `service` answer the calls of `stream` until it ends, or until it has grown old or
/// `stop` is done and the calls in hand are answered. Says on `ending` that no more come.
///
/// # Errors
/// What was wrong with what the peer sent; it was told as HTTP/2 has it.
pub(super) async fn drive<I, S, F>(
    stream: I,
    service: S,
    shared: &Shared,
    ending: &watch::Sender<bool>,
    stop: impl Future<Output = ()>,
) -> Result<(), BadKind>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Fn(Request<Incoming>) -> F + Send,
    F: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
{
    let config = &shared.config;
    let mut stream = Patient::new(stream, config.request_timeout);
    if let Err(kind) = greeted(&mut stream, config.request_timeout).await {
        // It is over either way.
        let _ = stream.shutdown().await;
        return kind.map_or(Ok(()), Err);
    }
    let begun = Begun::default();
    let connection = http2::Builder::new(begun.clone())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_FIELDS)
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_SPOILT)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME)
        .max_send_buf_size(MAX_UNSENT)
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_WITHIN)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(Greeted::new(stream)), service_fn(service));
    let connection = pin!(connection);
    let mut stop = pin!(stop);
    let mut old = pin!(grown_old(config.max_connection_age));
    let serving = pin!(async {
        let mut together = Together::new(connection, begun);
        let aged = tokio::select! {
            biased;
            ended = &mut together => return ended,
            () = &mut stop => false,
            () = &mut old => true,
        };
        together.connection().graceful_shutdown();
        // Whoever watches has gone already if nobody listens.
        let _ = ending.send(true);
        if aged {
            timeout(AGE_GRACE, together).await.unwrap_or(Ok(()))
        } else {
            together.await
        }
    });
    match Eager::new(serving).await {
        Ok(()) => Ok(()),
        Err(error) if is_timeout(&error) => Err(BadKind::Slow),
        Err(error) if is_broken(&error) => Err(BadKind::Framing),
        // Gone, or asked to stop.
        Err(_) => Ok(()),
    }
}

/// Waits for the connection's first bytes.
///
/// # Errors
/// What came instead; `None` where nothing did.
async fn greeted(
    stream: &mut (impl AsyncRead + Unpin),
    patience: Duration,
) -> Result<(), Option<BadKind>> {
    let mut first = [0; PREFACE.len()];
    match timeout(patience, stream.read_exact(&mut first)).await {
        Ok(Ok(_)) if first == *PREFACE => Ok(()),
        Ok(Ok(_)) => Err(Some(BadKind::Framing)),
        // Somebody only wanted to know whether anybody listens, or has gone.
        Ok(Err(_)) if first[0] == 0 => Err(None),
        Ok(Err(_)) => Err(Some(BadKind::Framing)),
        Err(_) => Err(Some(BadKind::Slow)),
    }
}

/// Done when a connection has reached the age, a tenth more or less so that not all come back
/// at once.
async fn grown_old(age: Option<Duration>) {
    let Some(age) = age else {
        return std::future::pending().await;
    };
    let millis = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    let spread = (millis / 5).max(1);
    let chance = RandomState::new().hash_one(0) % spread;
    let millis = (millis - millis / 10).saturating_add(chance);
    sleep(Duration::from_millis(millis)).await;
}

fn is_timeout(error: &hyper::Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.kind() == io::ErrorKind::TimedOut;
        }
        let h2 = error.downcast_ref::<h2::Error>();
        if let Some(error) = h2.and_then(h2::Error::get_io) {
            return error.kind() == io::ErrorKind::TimedOut;
        }
        source = error.source();
    }
    false
}

/// Whether the peer broke the rules of HTTP/2.
fn is_broken(error: &hyper::Error) -> bool {
    error
        .source()
        .and_then(|source| source.downcast_ref::<h2::Error>())
        .is_some_and(|error| error.is_library())
}

/// A stream whose preface has been read, and is to be read again.
struct Greeted<S> {
    inner: S,
    again: &'static [u8],
}

impl<S> Greeted<S> {
    fn new(inner: S) -> Greeted<S> {
        let again = PREFACE;
        Greeted { inner, again }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.again.is_empty() {
            return Pin::new(&mut self.inner).poll_read(cx, buf);
        }
        let (now, later) = self.again.split_at(self.again.len().min(buf.remaining()));
        buf.put_slice(now);
        self.again = later;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Greeted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a peer that sends `first` and then nothing, or hangs up.
    async fn greeting(first: &[u8], hangs_up: bool) -> Result<(), Option<BadKind>> {
        let (mut peer, mut stream) = tokio::io::duplex(64);
        peer.write_all(first).await.unwrap();
        if hangs_up {
            drop(peer);
            return greeted(&mut stream, Duration::from_secs(10)).await;
        }
        let said = greeted(&mut stream, Duration::from_secs(10)).await;
        drop(peer);
        said
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_begins_with_the_preface_in_time() {
        let bad = |kind| Err(Some(kind));
        assert_eq!(greeting(PREFACE, false).await, Ok(()));
        assert_eq!(greeting(&PREFACE[..20], false).await, bad(BadKind::Slow));
        assert_eq!(greeting(b"", false).await, bad(BadKind::Slow));
        assert_eq!(greeting(b"", true).await, Err(None));
        let half = greeting(&PREFACE[..20], true).await;
        assert_eq!(half, bad(BadKind::Framing));
        let other = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
        assert_eq!(greeting(other, false).await, bad(BadKind::Framing));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_grows_old_at_its_age_a_tenth_more_or_less() {
        let mut ages = Vec::new();
        for _ in 0..20 {
            let began = tokio::time::Instant::now();
            grown_old(Some(Duration::from_secs(100))).await;
            ages.push(began.elapsed().as_secs());
        }
        assert!(ages.iter().all(|age| (90..=110).contains(age)), "{ages:?}");
        assert!(ages.iter().any(|age| *age != ages[0]), "{ages:?}");
        let never = timeout(Duration::from_secs(1_000_000), grown_old(None));
        assert!(never.await.is_err());
    }

    #[tokio::test]
    async fn the_preface_is_read_again() {
        let (mut peer, stream) = tokio::io::duplex(64);
        peer.write_all(b"rest").await.unwrap();
        drop(peer);
        let mut all = Vec::new();
        Greeted::new(stream).read_to_end(&mut all).await.unwrap();
        assert_eq!(all, [&PREFACE[..], b"rest"].concat());
    }
}
