//! Hears what the store announces to all nodes. What is missed costs accuracy only.

use std::time::Duration;

use futures_util::StreamExt;
use redis::{Client, RedisError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::announcement;
use super::pacing::LISTENING_PAUSE;
use crate::counters::Announcement;

/// So many wait to be taken in; the others are missed.
const WAITING: usize = 4_096;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Listens on a connection of its own, until it is dropped.
pub(super) struct Listener {
    heard: mpsc::Receiver<Announcement>,
    task: JoinHandle<()>,
}

impl Listener {
    pub(super) fn new(client: Client, channel: String) -> Listener {
        let (tell, heard) = mpsc::channel(WAITING);
        let task = tokio::spawn(async move {
            while !tell.is_closed() {
                // Either way the connection is over; the exchange reports why.
                let _ended = listen(&client, &channel, &tell).await;
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

async fn listen(
    client: &Client,
    channel: &str,
    tell: &mpsc::Sender<Announcement>,
) -> Result<(), RedisError> {
    let connecting = async {
        let mut connection = client.get_async_pubsub().await?;
        connection.subscribe(channel).await?;
        Ok::<_, RedisError>(connection)
    };
    let Ok(connected) = timeout(CONNECT_TIMEOUT, connecting).await else {
        return Ok(());
    };
    let mut messages = connected?.into_on_message();
    while let Some(message) = messages.next().await {
        if let Some(announced) = announcement::read(message.get_payload_bytes()) {
            let _full = tell.try_send(announced);
        }
    }
    Ok(())
}
