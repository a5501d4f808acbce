use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crossbeam::queue::SegQueue;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hyper::rt::Executor;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes the streams of an HTTP/2 connection as they begin, for [`Together`].
#[derive(Clone, Default)]
pub(super) struct Begun(Arc<SegQueue<Task>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Begun {
    fn execute(&self, stream: F) {
        self.0.push(Box::pin(stream));
    }
}

/// A connection and its streams, all in one task: they end together, and most calls are
/// answered where they arrive, without waking another thread.
pub(super) struct Together<'c, C> {
    connection: Pin<&'c mut C>,
    begun: Begun,
    open: FuturesUnordered<Task>,
}

impl<'c, C> Together<'c, C> {
    /// `connection` must give its streams to `begun`.
    pub(super) fn new(connection: Pin<&'c mut C>, begun: Begun) -> Together<'c, C> {
        Together {
            connection,
            begun,
            open: FuturesUnordered::new(),
        }
    }

    pub(super) fn connection(&mut self) -> Pin<&mut C> {
        self.connection.as_mut()
    }
}

impl<C: Future> Future for Together<'_, C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let this = &mut *self;
        loop {
            if let Poll::Ready(ended) = this.connection.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
            let mut moved = false;
            while let Some(mut stream) = this.begun.0.pop() {
                moved = true;
                if stream.as_mut().poll(cx).is_pending() {
                    this.open.push(stream);
                }
            }
            while let Poll::Ready(Some(())) = this.open.poll_next_unpin(cx) {
                moved = true;
            }
            if !moved {
                return Poll::Pending;
            }
            // What they have to say is to be sent.
        }
    }
}
