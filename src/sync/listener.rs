//! Hears what the store announces to all nodes. What is missed costs accuracy only.

use std::future::Future;

use futures_util::StreamExt;
use redis::{Client, RedisError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::announcement;
use super::error::{Failure, Remedy};
use super::pacing::{CONNECT_TIMEOUT, LISTENING_PATIENCE, LISTENING_PAUSE};
use super::wire::failure;
use crate::counters::Announcement;

/// So many wait to be taken in; the others are missed.
const WAITING: usize = 4_096;

/// Listens on a connection of its own, until it is dropped.
pub(super) struct Listener {
    heard: mpsc::Receiver<Announcement>,
    task: JoinHandle<()>,
}

impl Listener {
    pub(super) fn new(client: Client, channel: String) -> Listener {
        let (tell, heard) = mpsc::channel(WAITING);
        let task = tokio::spawn(async move {
            let mut told = None;
            while !tell.is_closed() {
                let failure = listen(&client, &channel, &tell).await;
                // What may well pass the exchange reports; what stands only in the way of
                // listening is told here, once.
                if failure.remedy() != Remedy::Again && told.replace(failure) != Some(failure) {
                    tracing::warn!(
                        class = failure.class(),
                        "the store's announcements cannot be heard, limits are less exact: {failure}"
                    );
                }
                sleep(LISTENING_PAUSE).await;
            }
        });
        Listener { heard, task }
    }

    /// The next announcements, as many as wait.
    pub(super) async fn next(&mut self, into: &mut Vec<Announcement>) {
        if self.heard.recv_many(into, 256).await == 0 {
            // It never ends by itself: whoever waits has something else to wait for.
            std::future::pending().await
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens for as long as the store can be heard. Answers why it no longer can.
async fn listen(client: &Client, channel: &str, tell: &mpsc::Sender<Announcement>) -> Failure {
    let connecting = async {
        let (mut sink, messages) = client.get_async_pubsub().await?.split();
        sink.subscribe(channel).await?;
        Ok((sink, messages))
    };
    let (mut sink, mut messages) = match soon(connecting).await {
        Ok(connected) => connected,
        Err(failure) => return failure,
    };
    loop {
        match timeout(LISTENING_PATIENCE, messages.next()).await {
            Ok(Some(message)) => {
                if let Some(announced) = announcement::read(message.get_payload_bytes()) {
                    let _full = tell.try_send(announced);
                }
            }
            Ok(None) => return Failure::Disconnected,
            // A host that is gone breaks no connection. Listening again changes nothing, but
            // must be answered.
            Err(_) => {
                if let Err(failure) = soon(sink.subscribe(channel)).await {
                    return failure;
                }
            }
        }
    }
}

/// What comes of it, if that is known soon.
async fn soon<T>(it: impl Future<Output = Result<T, RedisError>>) -> Result<T, Failure> {
    let answered = timeout(2 * CONNECT_TIMEOUT, it).await;
    let answered = answered.map_err(|_| Failure::Timeout)?;
    answered.map_err(|error| failure(&error))
}
