use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{OptionFuture, pending};
use futures_util::stream::FuturesUnordered;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, Value};
use tokio::sync::{oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::Now;
use super::announcement;
use super::batch::{Batch, Boot, Hello};
use super::config::SyncConfig;
use super::connect::{self, jittered, random};
use super::core::{Core, CoreConfig};
use super::error::{Failure, SyncError};
use super::event::{Action, CallId, Event, RoundTrip};
use super::listener::Listener;
use super::memory::{self, Memory};
use super::observe::Observer;
use super::pacing::{
    Backoff, EXCHANGE_TIMEOUT, EXCHANGES_PER_SECOND, pause_before_reconnecting, poll,
};
use super::seal::{self, Seal, Told};
use super::standing::Standing;
use super::wire::{Wire, failure};
use crate::clock::Clock;
use crate::counters::{Counters, StoreHealth};

/// Whether `url` can be the address of a store.
///
/// # Errors
/// [`SyncError::BadUrl`] if it makes no sense.
pub fn check_url(url: &str) -> Result<(), SyncError> {
    connect::client(url).map(drop)
}

/// The running exchange with the store.
#[derive(Debug)]
pub struct Sync {
    finish: oneshot::Sender<Duration>,
    standing: watch::Receiver<Standing>,
    task: tokio::task::JoinHandle<Finished>,
}

/// How the exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Everything was sent and acknowledged.
    Complete,
    /// The deadline passed first: some costs may not have been counted.
    Incomplete,
}

impl Sync {
    /// Begins to exchange `counters` with the store, on a task of its own. A store
    /// that cannot be reached is tried again for as long as it takes. `told` is what this
    /// node knows of the store's seal, which all that ask for it share.
    ///
    /// # Errors
    /// [`SyncError::BadUrl`] if the address makes no sense; nothing was begun.
    pub fn spawn(
        config: &SyncConfig,
        counters: Arc<Counters>,
        clock: Clock,
        told: Told,
    ) -> Result<Sync, SyncError> {
        let client = connect::client(&config.url)?;
        let boot = Boot::new(random());
        let poll = poll(config.pace);
        let core = Core::new(CoreConfig {
            boot,
            partitions: config.partitions,
            poll,
        });
        let wire = Arc::new(Wire::new(config, boot));
        let (finish, finished) = oneshot::channel();
        let (stands, standing) = watch::channel(Standing::Lost);
        let observer = Observer::new(client.get_connection_info().addr().to_string(), stands);
        let listener = Listener::new(client.clone(), announcement::channel(&config.fleet));
        let driver = Driver {
            client,
            wire,
            core,
            counters: Arc::clone(&counters),
            clock,
            poll: poll.into(),
            connection: None,
            seal: None,
            told,
            under_way: FuturesUnordered::new(),
            backlog: VecDeque::new(),
            limiter: RateLimiter::direct(Quota::per_second(EXCHANGES_PER_SECOND)),
            observer,
            listener,
        };
        // Until the store has answered, limits follow their policy for its loss.
        counters.fleet().set_health(StoreHealth::Lost);
        let watched = async move {
            let running = tokio::spawn(driver.run(finished));
            running.await.unwrap_or_else(|error| {
                counters.fleet().set_health(StoreHealth::Lost);
                tracing::error!(%error, "the exchange with the store broke down; restart this node");
                Finished::Incomplete
            })
        };
        Ok(Sync {
            finish,
            standing,
            task: tokio::spawn(watched),
        })
    }

    /// How this node stands with the store, now and later.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// Sends what is pending, waits until it is acknowledged or `deadline` has
    /// passed, and takes leave of the fleet.
    pub async fn finish(self, deadline: Duration) -> Finished {
        if self.finish.send(deadline).is_err() {
            return Finished::Incomplete;
        }
        self.task.await.unwrap_or(Finished::Incomplete)
    }
}

type Exchange = Pin<Box<dyn Future<Output = (Event, Option<Seal>)> + Send>>;
type Attempt = Pin<Box<dyn Future<Output = Result<Made, Failure>> + Send>>;
/// A connection, and what its server says of its memory.
type Made = (MultiplexedConnection, Option<Memory>);

struct Driver {
    client: Client,
    wire: Arc<Wire>,
    core: Core,
    counters: Arc<Counters>,
    clock: Clock,
    poll: Duration,
    connection: Option<MultiplexedConnection>,
    /// The seal, as it was last told on this connection.
    seal: Option<Seal>,
    told: Told,
    under_way: FuturesUnordered<Exchange>,
    /// What the pacing holds back.
    backlog: VecDeque<(CallId, Arc<Batch>)>,
    limiter: DefaultDirectRateLimiter,
    observer: Observer,
    listener: Listener,
}

impl Driver {
    async fn run(mut self, mut finish: oneshot::Receiver<Duration>) -> Finished {
        let mut ticker = interval(self.poll);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut backoff = Backoff::new();
        let mut attempt: Option<Attempt> = Some(self.connect(Duration::ZERO));
        let mut deadline: OptionFuture<Pin<Box<dyn Future<Output = ()> + Send>>> = None.into();
        let mut finishing = false;
        let mut announced = Vec::new();
        loop {
            tokio::select! {
                _ = ticker.tick() => self.core.tick(&self.counters, now(&self.clock)),
                Some((event, seal)) = self.under_way.next() => {
                    if let Some(seal) = seal {
                        self.told.note(&seal);
                        self.seal = Some(seal);
                    }
                    let failure = match event {
                        Event::Failed(_, failure) => Some(failure),
                        _ => None,
                    };
                    let greeted = self.seal.is_some();
                    let pause = failure.and_then(|failure| pause_before_reconnecting(failure, greeted));
                    if let Some((failure, pause)) = failure.zip(pause) {
                        // Whatever was under way has failed with it.
                        self.disconnect(failure);
                        backoff = Backoff::new();
                        attempt = Some(self.connect(jittered(pause)));
                    } else {
                        self.core.handle(event, &self.counters, now(&self.clock));
                    }
                }
                made = async { match attempt.as_mut() { Some(attempt) => attempt.await, None => pending().await } } => {
                    attempt = None;
                    match made {
                        Ok((connection, memory)) => {
                            self.observer.memory(memory.as_ref());
                            self.connection = Some(connection);
                            backoff = Backoff::new();
                            self.core.handle(Event::Connected, &self.counters, now(&self.clock));
                        }
                        Err(failure) => {
                            self.core.handle(Event::Disconnected(failure), &self.counters, now(&self.clock));
                            attempt = Some(self.connect(jittered(backoff.pause())));
                        }
                    }
                }
                () = self.listener.next(&mut announced) => {
                    let now = now(&self.clock);
                    for announcement in announced.drain(..) {
                        self.core.announced(announcement, &self.counters, now);
                    }
                }
                asked = &mut finish, if !finishing => {
                    finishing = true;
                    // The handle is gone without a word: end at once.
                    let within = asked.unwrap_or(Duration::ZERO);
                    deadline = Some(Box::pin(sleep(within)) as Pin<Box<dyn Future<Output = ()> + Send>>).into();
                    self.core.finish(&self.counters, now(&self.clock));
                }
                Some(()) = &mut deadline, if finishing => return Finished::Incomplete,
            }
            self.perform();
            if finishing && self.core.is_idle() && self.backlog.is_empty() {
                self.take_leave().await;
                return Finished::Complete;
            }
        }
    }

    /// Does what the core wants done.
    fn perform(&mut self) {
        while let Some(action) = self.core.next_action() {
            match action {
                Action::Batch(call, batch) => self.backlog.push_back((call, batch)),
                Action::Hello(call, hello) => self.say(call, hello),
                Action::SetOffset(offset) => {
                    self.clock.set_offset(offset.nanos);
                    self.observer.offset(offset);
                }
                Action::Report(report) => self.observer.report(&report),
            }
        }
        while !self.backlog.is_empty() && self.limiter.check().is_ok() {
            if let Some((call, batch)) = self.backlog.pop_front() {
                self.send(call, batch);
            }
        }
        self.observer.cells(&self.counters);
    }

    fn send(&mut self, call: CallId, batch: Arc<Batch>) {
        let (wire, clock) = (Arc::clone(&self.wire), self.clock.clone());
        let command = wire.batch(&batch, self.seal.as_ref());
        let seconds = self.observer.exchange_seconds();
        self.exchange(call, move |mut connection| async move {
            let (value, trip) = put(&command, &mut connection, &clock).await?;
            seconds.record(trip.received.since(trip.sent).as_secs_f64());
            let reply = wire.batch_reply(&batch, value)?;
            Ok((Event::Batch(call, reply, trip), None))
        });
    }

    fn say(&mut self, call: CallId, hello: Hello) {
        let (wire, clock) = (Arc::clone(&self.wire), self.clock.clone());
        let (seal, hello) = (wire.seal(&self.told), wire.hello(hello));
        self.exchange(call, move |mut connection| async move {
            let (value, _) = put(&seal, &mut connection, &clock).await?;
            let seal = seal::read(&value)?;
            let (value, trip) = put(&hello, &mut connection, &clock).await?;
            let reply = wire.hello_reply(value)?;
            Ok((Event::Hello(call, reply, trip), Some(seal)))
        });
    }

    fn exchange<F>(
        &mut self,
        call: CallId,
        act: impl FnOnce(MultiplexedConnection) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<(Event, Option<Seal>), Failure>> + Send,
    {
        let connection = self.connection.clone();
        self.under_way.push(Box::pin(async move {
            let outcome = match connection {
                Some(connection) => act(connection).await,
                None => Err(Failure::Disconnected),
            };
            outcome.unwrap_or_else(|failure| (Event::Failed(call, failure), None))
        }));
    }

    fn disconnect(&mut self, failure: Failure) {
        (self.connection, self.seal) = (None, None);
        self.under_way.clear();
        self.backlog.clear();
        self.core.handle(
            Event::Disconnected(failure),
            &self.counters,
            now(&self.clock),
        );
    }

    /// Connects after a `pause`, and teaches the store the scripts.
    fn connect(&self, pause: Duration) -> Attempt {
        let client = self.client.clone();
        Box::pin(async move {
            sleep(pause).await;
            let mut connection = connect::connect(&client, &Wire::load()).await?;
            let memory = memory::ask(&mut connection).await;
            Ok((connection, memory))
        })
    }

    async fn take_leave(&mut self) {
        self.core.leave();
        self.perform();
        // Whether the store hears it matters little: a silent node is dropped anyway.
        let _ = timeout(EXCHANGE_TIMEOUT, self.under_way.next()).await;
    }
}

/// One command, and how long its answer took.
async fn put(
    command: &Cmd,
    connection: &mut MultiplexedConnection,
    clock: &Clock,
) -> Result<(Value, RoundTrip), Failure> {
    let sent = clock.local();
    let answer = timeout(EXCHANGE_TIMEOUT, command.query_async(connection)).await;
    let value: Value = answer
        .map_err(|_| Failure::Timeout)?
        .map_err(|error| failure(&error))?;
    let received = clock.local();
    Ok((value, RoundTrip { sent, received }))
}

fn now(clock: &Clock) -> Now {
    let local = clock.local();
    Now {
        local,
        fleet: clock.to_fleet(local),
    }
}
