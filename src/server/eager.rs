use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// How often in a row a future may wake itself before others have their turn.
const ROUNDS: usize = 8;

const IDLE: u8 = 0;
const POLLED: u8 = 1;
const WOKEN: u8 = 2;

/// Polls a future again at once when it wakes itself while it is polled.
///
/// The two halves of an HTTP connection, the reader and the one who answers, do that for
/// every body. By way of the scheduler each time would wake another thread, which finds
/// nothing to do or carries the connection off to another core.
pub(super) struct Eager<F> {
    future: F,
    waker: Waker,
    shared: Arc<Shared>,
}

struct Shared {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let order = Ordering::SeqCst;
        let before = self.state.compare_exchange(POLLED, WOKEN, order, order);
        if before == Err(IDLE) {
            self.task.wake();
        }
    }
}

impl<F: Future + Unpin> Eager<F> {
    pub(super) fn new(future: F) -> Eager<F> {
        let shared = Arc::new(Shared {
            state: AtomicU8::new(IDLE),
            task: AtomicWaker::new(),
        });
        Eager {
            future,
            waker: Waker::from(Arc::clone(&shared)),
            shared,
        }
    }
}

impl<F: Future + Unpin> Future for Eager<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.shared.task.register(cx.waker());
        for _ in 0..ROUNDS {
            this.shared.state.store(POLLED, Ordering::SeqCst);
            let polled = Pin::new(&mut this.future).poll(&mut Context::from_waker(&this.waker));
            let state = this.shared.state.swap(IDLE, Ordering::SeqCst);
            if polled.is_ready() || state == POLLED {
                return polled;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How a future that wakes itself `times` times ends its first poll, how often it was
    /// polled, and how often the task was woken.
    fn first_poll(times: usize) -> (bool, usize, usize) {
        let (count, mut polls) = (Arc::new(Count::default()), 0);
        let waker = Waker::from(Arc::clone(&count));
        let done = Eager::new(poll_fn(|cx| {
            polls += 1;
            if polls > times {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }));
        let mut done = done;
        let ready = Pin::new(&mut done).poll(&mut Context::from_waker(&waker));
        drop(done);
        (ready.is_ready(), polls, count.0.load(Ordering::SeqCst))
    }

    #[test]
    fn what_wakes_itself_is_polled_again_without_the_scheduler() {
        assert_eq!(first_poll(0), (true, 1, 0));
        assert_eq!(first_poll(3), (true, 4, 0));
    }

    #[test]
    fn what_never_rests_gives_way_to_others() {
        assert_eq!(first_poll(100), (false, ROUNDS, 1));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn wakes_from_outside_are_not_lost() {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let sending = tokio::spawn(async move {
            for number in 0..10_000_u32 {
                sender.send(number).unwrap();
                if number % 7 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
        let mut received = 0;
        Eager::new(Box::pin(async {
            while let Some(number) = receiver.recv().await {
                assert_eq!(number, received);
                received += 1;
            }
        }))
        .await;
        assert_eq!(received, 10_000);
        sending.await.unwrap();
    }
}
