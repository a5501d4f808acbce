//! A document that the fleet shares: bytes that mean nothing here, with a version.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, Value};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::connect::{self, jittered};
use super::error::{Failure, Remedy, SyncError};
use super::pacing::EXCHANGE_TIMEOUT;
use super::wire::{failure, number, text};

const PUSH: &str = include_str!("../../lua/rules_push.lua");

/// How often the store is asked for another version; some hundred milliseconds more by
/// luck, so that a fleet does not ask all at once.
const LOOK_EVERY: Duration = Duration::from_millis(800);
/// No document is longer, in bytes.
pub const MOST_BYTES: usize = 16 * 1_024 * 1_024;

/// A document, as it lies in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shelved {
    /// Grows by one with every other that is put in its place.
    pub version: u64,
    /// What its author says of its bytes.
    pub hash: String,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// What is known of the document.
#[derive(Clone, Debug, Default)]
pub enum Heard {
    /// The store has not been asked yet.
    #[default]
    NotYet,
    /// There is none, or the store cannot be asked.
    Nothing,
    /// This was the last one.
    Document(Arc<Shelved>),
}

/// What became of a wish to put another document in the place of the one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is there, as this version.
    Done(u64),
    /// This version is there, and not the one that was to be replaced.
    Other(u64),
}

/// The way to the document of one fleet.
pub struct Shelf {
    client: Client,
    connection: Option<MultiplexedConnection>,
    key: String,
}

impl Shelf {
    /// The document of `fleet` in the store at `url`; it is not connected yet.
    ///
    /// # Errors
    /// [`SyncError::BadUrl`] if the address makes no sense.
    pub fn new(url: &str, fleet: &str) -> Result<Shelf, SyncError> {
        Ok(Shelf {
            client: connect::client(url)?,
            connection: None,
            key: format!("{fleet}:rules"),
        })
    }

    /// The document; `None` if there is none.
    ///
    /// # Errors
    /// [`Failure`] if the store does not answer in time, or not what it should.
    pub async fn take(&mut self) -> Result<Option<Shelved>, Failure> {
        let mut length = redis::cmd("HSTRLEN");
        length.arg(&self.key).arg("body");
        let length = number(&self.ask(&length).await?).ok_or(Failure::BadReply)?;
        if usize::try_from(length).map_or(true, |length| length > MOST_BYTES) {
            return Err(Failure::BadReply);
        }
        let mut read = redis::cmd("HMGET");
        read.arg(&self.key).arg("version").arg("hash").arg("body");
        match list(self.ask(&read).await?)?.as_slice() {
            [Value::Nil, ..] => Ok(None),
            [version, hash, Value::BulkString(body)] => Ok(Some(Shelved {
                version: parsed(version)?,
                hash: text(hash).ok_or(Failure::BadReply)?,
                body: body.clone(),
            })),
            _ => Err(Failure::BadReply),
        }
    }

    /// Puts another document in the place of version `over`, which is 0 where there is none.
    ///
    /// # Errors
    /// [`Failure`] if the store does not answer in time, or refuses: it may be done all the
    /// same.
    pub async fn put(&mut self, over: u64, hash: &str, body: &[u8]) -> Result<Put, Failure> {
        let mut command = redis::cmd("EVAL");
        command.arg(PUSH).arg(1).arg(&self.key);
        command.arg(over).arg(hash).arg(body);
        let answer = list(self.ask(&command).await?)?;
        match answer.as_slice() {
            [Value::Int(done), version] => {
                let version = number(version).ok_or(Failure::BadReply)?;
                Ok(match done {
                    1 => Put::Done(version),
                    _ => Put::Other(version),
                })
            }
            _ => Err(Failure::BadReply),
        }
    }

    /// Looks again and again, on a task of its own, for as long as somebody listens. What
    /// was heard stays when the store is lost, or has no document any more.
    pub fn watch(mut self) -> watch::Receiver<Heard> {
        let (tell, heard) = watch::channel(Heard::NotYet);
        tokio::spawn(async move {
            let mut known = None;
            let mut told = None;
            while !tell.is_closed() {
                match self.look(&mut known).await {
                    Ok(Some(document)) => {
                        tell.send_replace(Heard::Document(Arc::new(document)));
                    }
                    Ok(None) => still_nothing(&tell),
                    Err(failure) => {
                        still_nothing(&tell);
                        // What may pass by itself the exchange reports.
                        let new = told.replace(failure) != Some(failure);
                        if failure.remedy() == Remedy::MuchLater && new {
                            let class = failure.class();
                            tracing::warn!(class, "the store's rules cannot be read: {failure}");
                        }
                    }
                }
                sleep(jittered(LOOK_EVERY / 2) + LOOK_EVERY / 2).await;
            }
        });
        heard
    }

    /// The document, if it is not the `known` one.
    async fn look(
        &mut self,
        known: &mut Option<(u64, String)>,
    ) -> Result<Option<Shelved>, Failure> {
        let mut read = redis::cmd("HMGET");
        read.arg(&self.key).arg("version").arg("hash");
        let label = match list(self.ask(&read).await?)?.as_slice() {
            [Value::Nil, ..] => None,
            [version, hash] => {
                let hash = text(hash).ok_or(Failure::BadReply)?;
                Some((parsed(version)?, hash))
            }
            _ => return Err(Failure::BadReply),
        };
        if label == *known {
            return Ok(None);
        }
        if label.is_none() {
            tracing::warn!("the store has rules no more; those that were read stay in force");
        }
        let document = self.take().await?;
        *known = document
            .as_ref()
            .map(|document| (document.version, document.hash.clone()));
        Ok(document)
    }

    /// The answer to one command, on the connection there is or a new one.
    async fn ask(&mut self, command: &Cmd) -> Result<Value, Failure> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect::connect(&self.client, &[]).await?,
        };
        let answer = timeout(EXCHANGE_TIMEOUT, command.query_async(&mut connection)).await;
        let answer = answer
            .map_err(|_| Failure::Timeout)?
            .map_err(|error| failure(&error))?;
        // A connection that has failed is not used again.
        self.connection = Some(connection);
        Ok(answer)
    }
}

/// Says that nothing was heard, unless something was.
fn still_nothing(tell: &watch::Sender<Heard>) {
    tell.send_if_modified(|heard| match heard {
        Heard::NotYet => {
            *heard = Heard::Nothing;
            true
        }
        _ => false,
    });
}

fn list(value: Value) -> Result<Vec<Value>, Failure> {
    match value {
        Value::Array(items) => Ok(items),
        _ => Err(Failure::BadReply),
    }
}

fn parsed(value: &Value) -> Result<u64, Failure> {
    let parsed = text(value).and_then(|text| text.parse().ok());
    parsed.ok_or(Failure::BadReply)
}
