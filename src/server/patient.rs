use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{self, Interval, MissedTickBehavior, Sleep};

/// How long a peer has to read the last answer and hang up.
const FAREWELL: Duration = Duration::from_secs(1);
/// How many bytes that it still sends are thrown away meanwhile.
const UNREAD: usize = 4 * 1_024 * 1_024;
/// How many ticks make a limit: one more is between once and one and a half times it.
pub(super) const TICKS: u32 = 2;

/// A stream with manners and without endless patience.
///
/// What is written must be taken within a time: without it, a peer that asks and never
/// reads would keep its connection for ever. Where progress is told, what is read must
/// make some. And shutting down waits a little for the peer to hang up: where input is
/// left unread, TCP would reset the connection and with it what the peer has not read yet.
#[derive(Debug)]
pub(super) struct Patient<S> {
    inner: S,
    patience: Duration,
    /// Runs from the first write that had to wait until all is written.
    waiting: Option<Pin<Box<Sleep>>>,
    progress: Option<Watched>,
    leaving: Leaving,
}

/// Counts what a peer gets done, such as whole requests: bytes alone are no progress.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress(Arc<AtomicU64>);

impl Progress {
    pub(super) fn made(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Looks at the progress by a slow tick: a timer of its own for each request would
/// cost more than many an answer.
#[derive(Debug)]
struct Watched {
    progress: Progress,
    ticks: Interval,
    seen: u64,
    without: u32,
}

#[derive(Debug)]
enum Leaving {
    No,
    Unread { left: usize, until: Pin<Box<Sleep>> },
    Gone,
}

impl<S> Patient<S> {
    pub(super) fn new(inner: S, patience: Duration) -> Patient<S> {
        Patient {
            inner,
            patience,
            waiting: None,
            progress: None,
            leaving: Leaving::No,
        }
    }

    /// Gives up reading when `progress` makes none for `limit`; it may be found out half
    /// as long again.
    pub(super) fn watching(self, progress: Progress, limit: Duration) -> Patient<S> {
        let watched = Watched {
            progress,
            ticks: ticks(limit),
            seen: 0,
            without: 0,
        };
        Patient {
            progress: Some(watched),
            ..self
        }
    }

    /// Turns a wait that is too long into an error.
    fn bounded<T>(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            return wrote;
        }
        let patience = self.patience;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(time::sleep(patience)));
        waiting
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        match &mut self.progress {
            Some(watched) if read.is_pending() => watched.poll_given_up(cx).map(Err),
            _ => read,
        }
    }
}

impl Watched {
    /// Done with an error once there was no progress for too long.
    fn poll_given_up(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            ready!(self.ticks.poll_tick(cx));
            let made = self.progress.0.load(Ordering::Relaxed);
            if made != self.seen {
                self.seen = made;
                self.without = 0;
            }
            self.without += 1;
            if self.without > TICKS {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

/// Ticks of which [`TICKS`] make `limit`.
pub(super) fn ticks(limit: Duration) -> Interval {
    let period = (limit / TICKS).max(Duration::from_millis(1));
    let mut ticks = time::interval_at(time::Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.bounded(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.bounded(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        if flushed.is_ready() {
            self.waiting = None;
        }
        self.bounded(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            match &mut this.leaving {
                Leaving::No => {
                    let ended = Pin::new(&mut this.inner).poll_shutdown(cx);
                    ready!(this.bounded(cx, ended))?;
                    this.leaving = Leaving::Unread {
                        left: UNREAD,
                        until: Box::pin(time::sleep(FAREWELL)),
                    };
                }
                Leaving::Unread { left, until } => {
                    let mut piece = [0; 4_096];
                    let mut piece = ReadBuf::new(&mut piece);
                    let read = Pin::new(&mut this.inner).poll_read(cx, &mut piece);
                    let late = until.as_mut().poll(cx).is_ready();
                    let read = match read {
                        Poll::Pending if !late => return Poll::Pending,
                        Poll::Ready(Ok(())) if !late => piece.filled().len(),
                        _ => 0,
                    };
                    *left = left.saturating_sub(read);
                    if read == 0 || *left == 0 {
                        this.leaving = Leaving::Gone;
                    }
                }
                Leaving::Gone => return Poll::Ready(Ok(())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_or_too_slowly_is_given_up() {
        let (mut peer, ours) = tokio::io::duplex(1);
        let mut patient = Patient::new(ours, PATIENCE);
        let before = time::Instant::now();
        tokio::spawn(async move {
            let mut piece = [0];
            loop {
                time::sleep(PATIENCE / 3).await;
                peer.read_exact(&mut piece).await.unwrap();
            }
        });
        let error = patient.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(before.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn patience_begins_anew_once_all_is_written() {
        let (mut peer, ours) = tokio::io::duplex(1);
        let mut patient = Patient::new(ours, PATIENCE);
        let reading = tokio::spawn(async move {
            let mut piece = [0];
            for _ in 0..6 {
                time::sleep(PATIENCE * 2 / 3).await;
                peer.read_exact(&mut piece).await.unwrap();
            }
        });
        for _ in 0..6 {
            patient.write_all(&[0]).await.unwrap();
            patient.flush().await.unwrap();
        }
        reading.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_without_progress_are_read_for_a_while_only() {
        let (mut peer, ours) = tokio::io::duplex(16);
        let progress = Progress::default();
        let mut patient = Patient::new(ours, PATIENCE).watching(progress.clone(), PATIENCE);
        tokio::spawn(async move {
            for round in 0.. {
                time::sleep(PATIENCE / 3).await;
                if round < 9 {
                    progress.made();
                }
                if peer.write_all(&[0]).await.is_err() {
                    break;
                }
            }
        });
        let before = time::Instant::now();
        let mut read = Vec::new();
        let error = patient.read_to_end(&mut read).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // The last progress was made at three times the patience.
        let took = before.elapsed();
        assert!(took > PATIENCE * 4 && took <= PATIENCE * 9 / 2, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn leaving_waits_for_the_peer_to_hang_up_but_not_for_long() {
        let (mut peer, ours) = tokio::io::duplex(16);
        let mut patient = Patient::new(ours, PATIENCE);
        peer.write_all(b"unread").await.unwrap();
        patient.write_all(b"bye").await.unwrap();
        let before = time::Instant::now();
        patient.shutdown().await.unwrap();
        assert_eq!(before.elapsed(), FAREWELL);
        let mut last = Vec::new();
        peer.read_to_end(&mut last).await.unwrap();
        assert_eq!(last, b"bye");
        drop(peer);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_hangs_up_is_not_waited_for() {
        let (peer, ours) = tokio::io::duplex(16);
        let mut patient = Patient::new(ours, PATIENCE);
        drop(peer);
        let before = time::Instant::now();
        patient.shutdown().await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);
    }
}
