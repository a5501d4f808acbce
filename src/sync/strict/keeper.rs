use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, Value};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::super::connect::{connect, jittered};
use super::super::error::Failure;
use super::super::pacing::{Backoff, EXCHANGE_TIMEOUT};
use super::super::seal::{self, Seal, Told};
use super::super::wire::failure;

/// So often the connection is looked after, whether or not it is used.
const LOOK_AFTER: Duration = Duration::from_secs(2);

/// A connection, and its number: each has a higher one than those before it.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) connection: MultiplexedConnection,
    pub(super) number: u64,
    /// The store's seal, as it was last told on this connection.
    seal: Arc<Mutex<Seal>>,
}

/// Who asks for the seal.
#[derive(Clone)]
pub(super) struct Sealing {
    pub(super) fleet: String,
    pub(super) told: Told,
}

impl Sealing {
    /// Has the store's seal told, and renewed if need be.
    ///
    /// # Errors
    /// [`Failure`] if it is not told in time.
    async fn ask(&self, connection: &mut MultiplexedConnection) -> Result<Seal, Failure> {
        let command = seal::ask(&self.fleet, &self.told);
        let asking = timeout(EXCHANGE_TIMEOUT, command.query_async::<Value>(connection));
        let said = asking.await.map_err(|_| Failure::Timeout)?;
        let seal = seal::read(&said.map_err(|error| failure(&error))?)?;
        self.told.note(&seal);
        Ok(seal)
    }
}

impl Link {
    pub(super) fn seal(&self) -> Seal {
        let seal = self.seal.lock().unwrap_or_else(PoisonError::into_inner);
        seal.clone()
    }

    /// The store's seal is another.
    ///
    /// # Errors
    /// [`Failure`] if it is not told in time.
    pub(super) async fn reseal(&mut self, sealing: &Sealing) -> Result<(), Failure> {
        let seal = sealing.ask(&mut self.connection).await?;
        *self.seal.lock().unwrap_or_else(PoisonError::into_inner) = seal;
        Ok(())
    }
}

/// Where the present connection is found, and where a broken one is reported.
pub(super) struct Links {
    present: watch::Receiver<Option<Link>>,
    /// The highest number of a connection that was found broken.
    broken: watch::Sender<u64>,
    wanted: Arc<Notify>,
}

/// Keeps a connection: makes one when it is first wanted, and another when it breaks.
pub(super) struct Keeper {
    client: Client,
    script: Cmd,
    sealing: Sealing,
    present: watch::Sender<Option<Link>>,
    broken: watch::Receiver<u64>,
    wanted: Arc<Notify>,
}

pub(super) fn keeper(client: Client, script: Cmd, sealing: Sealing) -> (Keeper, Links) {
    let (present, present_here) = watch::channel(None);
    let (broken, broken_there) = watch::channel(0);
    let wanted = Arc::new(Notify::new());
    let keeper = Keeper {
        client,
        script,
        sealing,
        present,
        broken: broken_there,
        wanted: Arc::clone(&wanted),
    };
    let links = Links {
        present: present_here,
        broken,
        wanted,
    };
    (keeper, links)
}

impl Links {
    /// Lets a connection be made, if there has not been any.
    pub(super) fn want(&self) {
        self.wanted.notify_one();
    }

    /// The connection; waits until there is one. `None` if there will be none.
    pub(super) async fn link(&self) -> Option<Link> {
        let is_whole = |link: &Option<Link>| {
            let broken = *self.broken.borrow();
            link.as_ref().is_some_and(|link| link.number > broken)
        };
        // The usual case, and the order of those who ask is kept.
        {
            let present = self.present.borrow();
            if is_whole(&present) {
                return present.clone();
            }
        }
        self.want();
        let mut present = self.present.clone();
        present.wait_for(is_whole).await.ok()?.clone()
    }

    /// The connection numbered `number` is of no more use. Answers whether that is news.
    pub(super) fn is_broken(&self, number: u64) -> bool {
        self.broken.send_if_modified(|highest| {
            let news = number > *highest;
            *highest = number.max(*highest);
            news
        })
    }

    /// The present connection is of no more use.
    pub(super) fn present_is_broken(&self) {
        let number = self.present.borrow().as_ref().map(|link| link.number);
        if let Some(number) = number {
            self.is_broken(number);
        }
    }
}

impl Keeper {
    /// Keeps a connection until nobody may want one any more.
    pub(super) async fn run(mut self) {
        self.wanted.notified().await;
        for number in 1.. {
            let (connection, seal) = self.connect().await;
            let link = Link {
                connection,
                number,
                seal: Arc::new(Mutex::new(seal)),
            };
            self.present.send_replace(Some(link.clone()));
            if self.watch(link).await.is_none() {
                return;
            }
            self.present.send_replace(None);
            sleep(jittered(Backoff::new().pause())).await;
        }
    }

    /// Waits until `link` is of no more use. While a breaker is open nobody finds out that
    /// it has become so, and its one probe would be lost on it. `None` if nobody may want
    /// a connection any more.
    async fn watch(&mut self, mut link: Link) -> Option<()> {
        loop {
            let broken = self.broken.wait_for(|broken| *broken >= link.number);
            let broken = async { broken.await.ok().map(drop) };
            match timeout(LOOK_AFTER, broken).await {
                Ok(broken) => return broken,
                Err(_) => {
                    if let Err(failure) = link.reseal(&self.sealing).await {
                        tracing::debug!(%failure, "the connection for strict checks is broken");
                        return Some(());
                    }
                }
            }
        }
    }

    /// Connects, however often it must be tried. What stands against it the sync tells.
    async fn connect(&self) -> (MultiplexedConnection, Seal) {
        let mut backoff = Backoff::new();
        loop {
            let attempt = async {
                let script = std::slice::from_ref(&self.script);
                let mut connection = connect(&self.client, script).await?;
                let seal = self.sealing.ask(&mut connection).await?;
                Ok::<_, Failure>((connection, seal))
            };
            match attempt.await {
                Ok(made) => return made,
                Err(failure) => tracing::debug!(%failure, "no connection for strict checks yet"),
            }
            sleep(jittered(backoff.pause())).await;
        }
    }
}
