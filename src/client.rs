//! A client of the daemon's RESP door: pooled, pipelining, and never late.
//!
//! ```no_run
//! use std::time::Duration;
//! use tidegate::client::{Check, Client, Error, FailMode};
//!
//! # async fn f() -> Result<(), Error> {
//! let client = Client::unix("/run/tidegate/resp.sock")
//!     .deadline(Duration::from_millis(20))
//!     .fail_mode(FailMode::Open)
//!     .start();
//! let answer = client.check(&Check::new("orders", "alice").cost(2)).await?;
//! if !answer.is_allowed() {
//!     println!("come back in {:?}", answer.retry_after());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A [`Client`] has a few connections, which all its clones and tasks share. Each
//! connection is a task of its own: it writes the questions one after the other, without
//! waiting for replies, and hands out the replies in the same order. A question has a
//! place on a connection until its reply is read, even if nobody waits for that any more;
//! there are so many places and no more, and who finds none waits for one. A question is
//! written once: where its reply is lost with the connection, the client cannot know
//! whether it was counted, and does not ask again.
//!
//! While there is no connection, checks are answered by the [`FailMode`] at once, except
//! before the first attempt to connect, or to connect anew, has failed: until then they
//! wait, as for everything, until their deadline at most. Connections are made anew after
//! random pauses, which become longer up to a second.

mod answer;
mod ask;
mod backoff;
mod lane;
mod reply;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub use answer::{Answer, Error, Missed, Settlement, Source, Verdict};
pub use ask::{Check, Question, Request, Total};
use lane::{Lane, Target};
use reply::{Reply, Wanted};

/// What a check is answered when the daemon does not answer it in time. There is no
/// default: what it costs to be wrong is the caller's to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailMode {
    /// It is admitted.
    Open,
    /// It is refused.
    Closed,
}

/// How a [`Client`] is to be; begun with [`Client::unix`] or [`Client::tcp`].
#[derive(Clone, Debug)]
#[must_use = "`start` makes the client"]
pub struct Builder {
    target: Target,
    connections: usize,
    places: usize,
    deadline: Duration,
    patience: Duration,
    fail_mode: FailMode,
}

impl Builder {
    fn new(target: Target) -> Builder {
        Builder {
            target,
            connections: 2,
            places: 1_024,
            deadline: Duration::from_millis(100),
            patience: Duration::from_secs(15),
            fail_mode: FailMode::Closed,
        }
    }

    /// How many connections there are: 1 to 64, default 2.
    pub fn connections(mut self, connections: usize) -> Builder {
        self.connections = connections.clamp(1, 64);
        self
    }

    /// How many questions one connection may have without a reply, those that are not
    /// written yet among them: 1 to 65,536, default 1,024.
    pub fn places(mut self, places: usize) -> Builder {
        self.places = places.clamp(1, 65_536);
        self
    }

    /// How long a check, a report or a settlement waits at most, for everything; default
    /// 100 ms. A check of a `strict` limit needs the limit's `strict_timeout` and more.
    pub fn deadline(mut self, deadline: Duration) -> Builder {
        self.deadline = deadline;
        self
    }

    /// After how long without any reply, while there are questions, a connection is given
    /// up for another: up to an hour, default 15 s. Shorter than a `strict_timeout` of the
    /// daemon's rules it would end connections that are sound.
    pub fn patience(mut self, patience: Duration) -> Builder {
        self.patience = patience.min(Duration::from_secs(3_600));
        self
    }

    /// What a check is answered when the daemon does not answer it in time; default
    /// [`FailMode::Closed`].
    pub fn fail_mode(mut self, fail_mode: FailMode) -> Builder {
        self.fail_mode = fail_mode;
        self
    }

    /// Starts the client, which begins to connect. It must be called within a Tokio
    /// runtime with I/O and time, which the connections' tasks belong to.
    pub fn start(self) -> Client {
        let lanes = (0..self.connections)
            .map(|_| Lane::start(self.target.clone(), self.places, self.patience))
            .collect();
        Client {
            pool: Arc::new(Pool {
                lanes,
                turn: AtomicUsize::new(0),
            }),
            deadline: self.deadline,
            fail_mode: self.fail_mode,
        }
    }
}

/// Asks a daemon. Clones share the connections, which end with the last clone.
#[derive(Clone, Debug)]
pub struct Client {
    pool: Arc<Pool>,
    deadline: Duration,
    fail_mode: FailMode,
}

#[derive(Debug)]
struct Pool {
    lanes: Vec<Lane>,
    /// Whose turn it is among equals.
    turn: AtomicUsize,
}

impl Client {
    /// A client of the daemon whose RESP door is this Unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Builder {
        Builder::new(Target::Unix(path.into()))
    }

    /// A client of the daemon whose RESP door is at this `HOST:PORT`. The name is looked
    /// up at each attempt to connect.
    pub fn tcp(address: impl Into<String>) -> Builder {
        Builder::new(Target::Tcp(address.into()))
    }

    /// The same client, with the same connections and another deadline.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Client {
        Client {
            deadline,
            ..self.clone()
        }
    }

    /// The same client, with the same connections and another fail mode.
    #[must_use]
    pub fn with_fail_mode(&self, fail_mode: FailMode) -> Client {
        Client {
            fail_mode,
            ..self.clone()
        }
    }

    /// Asks whether this may be done now, and consumes its cost if so. Where the daemon
    /// does not say within the deadline, the fail mode does; the answer's
    /// [`source`](Answer::source) tells. A late check may have been counted all the same.
    ///
    /// # Errors
    /// What the daemon says instead of an answer, and [`Error::TooLarge`], which is not sent.
    pub async fn check<'a>(&self, question: impl Into<Question<'a>>) -> Result<Answer, Error> {
        self.judge(question.into().check()?).await
    }

    /// As [`Client::check`] with a cost of 0 and no id: consumes nothing.
    ///
    /// # Errors
    /// Those of [`Client::check`].
    pub async fn peek<'a>(&self, question: impl Into<Question<'a>>) -> Result<Answer, Error> {
        self.judge(question.into().peek()?).await
    }

    /// Records a cost, whatever the limits say of it, and answers as a check of 1 would be
    /// answered after it. An id is not said.
    ///
    /// # Errors
    /// Those of [`Client::check`], and [`Error::Unanswered`]: it may be recorded or not.
    pub async fn report(&self, check: &Check<'_>) -> Result<Answer, Error> {
        match self.ask(check.report()?, Wanted::Check).await {
            Ok(reply) => Answer::read(reply),
            Err(missed) => Err(Error::Unanswered(missed)),
        }
    }

    /// Says what the check with this `id` came to in all. It may be said again: it is
    /// counted once.
    ///
    /// # Errors
    /// [`Error::UnknownId`], [`Error::ForgottenId`], [`Error::Rejected`],
    /// [`Error::TooLarge`], and [`Error::Unanswered`]: it may be counted or not.
    pub async fn settle(
        &self,
        id: impl AsRef<[u8]>,
        total: Total<'_>,
    ) -> Result<Settlement, Error> {
        let question = total.settle(id.as_ref())?;
        match self.ask(question, Wanted::Settlement).await {
            Ok(reply) => Settlement::read(reply),
            Err(missed) => Err(Error::Unanswered(missed)),
        }
    }

    async fn judge(&self, question: Vec<u8>) -> Result<Answer, Error> {
        match self.ask(question, Wanted::Check).await {
            Ok(reply) => Answer::read(reply),
            Err(missed) => Ok(Answer::instead(self.fail_mode, missed)),
        }
    }

    async fn ask(&self, question: Vec<u8>, wanted: Wanted) -> Result<Reply, Missed> {
        // What the deadline has cut short.
        let mut waits_for = Missed::Busy;
        let asking = async {
            let lane = self.pool.lane().ok_or(Missed::Unreachable)?;
            let place = lane.place().await.ok_or(Missed::Unreachable)?;
            waits_for = Missed::Late;
            let reply = lane.ask(place, question, wanted);
            reply.await.ok_or(Missed::Unreachable)
        };
        let in_time = tokio::time::timeout(self.deadline, asking).await;
        in_time.unwrap_or(Err(waits_for))
    }
}

impl Pool {
    /// The connection with the most places left, one that stands if there is one; `None`
    /// while all attempts to connect fail.
    fn lane(&self) -> Option<&Lane> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.lanes.len();
        let (before, from) = self.lanes.split_at(turn);
        let best = from.iter().chain(before).max_by_key(|lane| lane.rank());
        best.filter(|lane| !lane.is_down())
    }
}
