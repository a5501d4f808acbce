use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time;

use super::listener::{Listener, Stream};
use super::observer::Door;
use super::patient::Patient;
use super::{Shared, admin, grpc, http, resp, told};
use crate::protocol::resp::TOO_MANY_CLIENTS;

/// How long accepting rests after an error, at first and at most.
const REST: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// How long what was sent before the end may take to arrive.
const GRACE: Duration = Duration::from_millis(100);

/// The loop of one listening socket.
pub(super) struct Accepting {
    pub(super) door: Door,
    pub(super) address: String,
    pub(super) listener: Listener,
    /// One for each connection that may be open.
    pub(super) places: Arc<Semaphore>,
    pub(super) shared: Arc<Shared>,
    pub(super) stopping: watch::Receiver<bool>,
}

impl Accepting {
    /// Accepts until it is told to stop, then drains; answers how many connections
    /// had to be cut.
    pub(super) async fn run(self) -> usize {
        let mut connections = JoinSet::new();
        let mut stop = pin!(told(self.stopping.clone()));
        let mut rest = REST.0;
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                Some(ended) = connections.join_next() => {
                    self.ended(ended);
                    continue;
                }
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    rest = REST.0;
                    self.welcome(stream, peer, &mut connections);
                }
                Err(error) if is_the_peers(&error) => {}
                Err(error) => {
                    self.shared.services.observer.accept_failed(self.door);
                    if rest == REST.0 {
                        tracing::warn!(address = %self.address, %error, "cannot accept connections");
                    }
                    // Such as "too many open files": trying at once would spin.
                    tokio::select! {
                        biased;
                        () = &mut stop => break,
                        () = time::sleep(rest) => {}
                    }
                    rest = (rest * 2).min(REST.1);
                }
            }
        }
        let Accepting {
            door,
            listener,
            shared,
            ..
        } = self;
        // New connections are refused from here on, and the socket's file is gone.
        drop(listener);
        let finish = async {
            while let Some(ended) = connections.join_next().await {
                report(&shared, door, ended);
            }
        };
        let _ = time::timeout(shared.config.drain_timeout, finish).await;
        let cut = connections.len();
        connections.shutdown().await;
        cut
    }

    /// Gives a connection a place and a task of its own, or a short refusal.
    fn welcome(&self, stream: Stream, peer: Option<IpAddr>, tasks: &mut JoinSet<()>) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let shared = Arc::clone(&self.shared);
        let door = self.door;
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            shared.services.observer.refused(door);
            stream.send_now(match door {
                Door::Resp => TOO_MANY_CLIENTS,
                Door::Grpc => grpc::TOO_MANY_CLIENTS,
                Door::Http | Door::Admin => http::TOO_MANY_CLIENTS,
            });
            // Under a flood there is no time for manners.
            if let Ok(farewell) = Arc::clone(&shared.farewells).try_acquire_owned() {
                tasks.spawn(async move {
                    let _farewell = farewell;
                    // It is over either way.
                    let _ = Patient::new(stream, REST.1).shutdown().await;
                });
            }
            return;
        };
        let stopping = self.stopping.clone();
        let stop = async move {
            told(stopping).await;
            time::sleep(GRACE).await;
        };
        tasks.spawn(async move {
            let _place = place;
            let _connected = shared.services.observer.connected(door);
            match door {
                Door::Resp => {
                    let id = NEXT.fetch_add(1, Ordering::Relaxed);
                    resp::serve(stream, peer, id, &shared, stop).await;
                }
                Door::Http => http::serve(stream, peer, shared, stop).await,
                Door::Grpc => grpc::serve(stream, shared, stop).await,
                Door::Admin => admin::serve(stream, peer, shared, stop).await,
            }
        });
    }

    fn ended(&self, ended: Result<(), JoinError>) {
        report(&self.shared, self.door, ended);
    }
}

/// A connection that ended in a panic took nothing with it but itself.
fn report(shared: &Shared, door: Door, ended: Result<(), JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        shared.services.observer.panicked(door);
        tracing::error!(door = door.name(), "a connection ended in a panic");
    }
}

/// Errors of one connection that was gone before it was accepted.
fn is_the_peers(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
            | io::ErrorKind::NotConnected
    )
}
