//! Checks of strict limits, put to the store one by one and answered under a deadline.
//!
//! A check has a connection of its own kind: what the sync sends does not hold it up. It
//! is sent at most once. One whose answer does not come in time may have been charged: that
//! admits less, never more. While the store fails, a [`breaker`](super::breaker) answers at
//! once, so that nothing queues.

mod keeper;
mod observe;
mod script;

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::breaker::{Breaker, Change, Fate, Ticket};
use super::config::SyncConfig;
use super::connect::{self, MOST_UNDER_WAY};
use super::error::{Failure, SyncError};
use super::seal::Told;
use super::wire::failure;
use crate::clock::Clock;
use crate::engine::{Answering, Authority, Question, Ruling, Unanswered};
use crate::units::{Nanos, Timestamp};
use keeper::{Link, Links, Sealing, keeper};
use observe::Observer;
use script::{Answer, Form};

/// Puts the checks of strict limits to the store.
pub struct Strict {
    form: Form,
    links: Links,
    sealing: Sealing,
    breaker: Mutex<Breaker>,
    under_way: Semaphore,
    /// How long a check waits whose limit does not say.
    patience: Nanos,
    clock: Clock,
    observer: Observer,
    keeping: JoinHandle<()>,
}

impl Strict {
    /// Connects when the first check is asked for, or by [`Strict::connect`]; a check waits
    /// for `patience` where its limit does not say for how long. `told` is what this node
    /// knows of the store's seal, which all that ask for it share. To be called on a runtime.
    ///
    /// # Errors
    /// [`SyncError::BadUrl`] if the address makes no sense.
    pub fn new(
        config: &SyncConfig,
        patience: Nanos,
        clock: Clock,
        told: Told,
    ) -> Result<Strict, SyncError> {
        let client = connect::client(&config.url)?;
        let fleet = config.fleet.clone();
        let sealing = Sealing { fleet, told };
        let (keeper, links) = keeper(client, Form::load(), sealing.clone());
        Ok(Strict {
            form: Form::new(config),
            links,
            sealing,
            breaker: Mutex::new(Breaker::new(connect::random())),
            under_way: Semaphore::new(MOST_UNDER_WAY),
            patience,
            clock,
            observer: Observer::new(),
            keeping: tokio::spawn(keeper.run()),
        })
    }

    /// Connects now, so that the first check need not wait for it.
    pub fn connect(&self) {
        self.links.want();
    }

    async fn decide(&self, question: &Question) -> Result<Ruling, Unanswered> {
        let Ok(_place) = self.under_way.try_acquire() else {
            self.observer.crowded_out();
            return Err(Unanswered);
        };
        let began = self.clock.local();
        let Some(mut asking) = Asking::begin(self, began) else {
            self.observer.broken_off();
            return Err(Unanswered);
        };
        let mut elsewhen = false;
        let exchange = self.exchange(question, &mut elsewhen);
        let answered = timeout(self.patience(question), exchange).await;
        let answered = answered.unwrap_or_else(|_| {
            // A store that answers, only ever of another window, is well.
            let fate = if elsewhen {
                Fate::Answered
            } else {
                Fate::Failed
            };
            Err((Failure::Timeout, fate))
        });
        let now = self.clock.local();
        let (failure, fate) = match &answered {
            Ok(_) => (None, Fate::Answered),
            Err((failure, fate)) => (Some(*failure), *fate),
        };
        if let Ok(None) = answered {
            self.observer.forgotten(question, now.since(began));
        } else {
            self.observer.asked(question, failure, now.since(began));
        }
        asking.end(fate, failure, now);
        answered.ok().flatten().ok_or(Unanswered)
    }

    /// The shortest time that any of the limits waits.
    fn patience(&self, question: &Question) -> Duration {
        let each = question.limits.iter();
        let each = each.map(|one| one.limit.strict_timeout.unwrap_or(self.patience));
        each.min().unwrap_or(self.patience).into()
    }

    /// One exchange. Today's stores take any keys in one call; where they do not, limits
    /// whose keys may share one must be asked together, and those that admitted be given
    /// back what they took when others refuse. `None` if the store may have forgotten what
    /// counts now. Notes whether the store has said that it is `elsewhen`.
    async fn exchange(
        &self,
        question: &Question,
        elsewhen: &mut bool,
    ) -> Result<Option<Ruling>, (Failure, Fate)> {
        let Some(mut link) = self.links.link().await else {
            return Err((Failure::Disconnected, Fate::Failed));
        };
        let answered = self.exchange_over(&mut link, question, elsewhen).await;
        answered.map_err(|failure| {
            let fate = match failure {
                // A key that holds something else is that key's trouble; the store is well.
                Failure::WrongType => Fate::Answered,
                Failure::Disconnected | Failure::ReadOnly if !self.links.is_broken(link.number) => {
                    Fate::Unclear
                }
                _ => Fate::Failed,
            };
            (failure, fate)
        })
    }

    async fn exchange_over(
        &self,
        link: &mut Link,
        question: &Question,
        elsewhen: &mut bool,
    ) -> Result<Option<Ruling>, Failure> {
        let mut now = self.clock.now();
        let mut taught = false;
        loop {
            let command = self.form.command(question, &link.seal(), now);
            let said = command.query_async::<Value>(&mut link.connection).await;
            match said.map_err(|error| failure(&error)) {
                Ok(said) => match self.form.answer(question, &said)? {
                    Answer::Ruling(ruling) => return Ok(Some(ruling)),
                    Answer::Forgotten => return Ok(None),
                    Answer::Resealed => link.reseal(&self.sealing).await?,
                    // Once more, with the keys of its own time. (Windows of milliseconds
                    // may pass on the way again; the deadline ends it.)
                    Answer::Elsewhen(at) => (now, *elsewhen) = (at, true),
                },
                // It was not run, so it may be sent again.
                Err(Failure::NoScript) if !taught => {
                    taught = true;
                    let load = Form::load();
                    let taught = load.query_async::<Value>(&mut link.connection).await;
                    taught.map_err(|error| failure(&error))?;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    fn breaker<T>(&self, ask: impl FnOnce(&mut Breaker) -> T) -> T {
        ask(&mut self.breaker.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn settle(&self, ticket: Ticket, fate: Fate, failure: Option<Failure>, now: Timestamp) {
        if let Some(change) = self.breaker(|breaker| breaker.settle(ticket, fate, now)) {
            self.observer.changed(change, failure);
            if change == Change::Opened {
                // A store that is stopped breaks no connection by itself.
                self.links.present_is_broken();
            }
        }
    }
}

impl Authority for Strict {
    fn ask<'a>(&'a self, question: &'a Question) -> Answering<'a> {
        Box::pin(self.decide(question))
    }
}

impl fmt::Debug for Strict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Strict").finish_non_exhaustive()
    }
}

impl Drop for Strict {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

/// A check that the breaker let through. It is told what came of it in any case.
struct Asking<'s> {
    strict: &'s Strict,
    ticket: Option<Ticket>,
}

impl<'s> Asking<'s> {
    fn begin(strict: &'s Strict, now: Timestamp) -> Option<Asking<'s>> {
        let (ticket, change) = strict.breaker(|breaker| breaker.ask(now));
        if let Some(change) = change {
            strict.observer.changed(change, None);
        }
        ticket.map(|ticket| Asking {
            strict,
            ticket: Some(ticket),
        })
    }

    fn end(&mut self, fate: Fate, failure: Option<Failure>, now: Timestamp) {
        if let Some(ticket) = self.ticket.take() {
            self.strict.settle(ticket, fate, failure, now);
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.strict.observer.abandoned();
            let now = self.strict.clock.local();
            self.strict.settle(ticket, Fate::Unclear, None, now);
        }
    }
}
