//! One node: the real engine and the real sync core, and what [`crate::sync::Sync`]
//! does around the core, without its socket.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::dice::Dice;
use crate::algorithms::{State, Verdict};
use crate::clock::Clock;
use crate::counters::{Announcement, StoreHealth};
use crate::engine::Engine;
use crate::sync::batch::{Batch, BatchReply, Boot, Hello, HelloReply};
use crate::sync::core::{Core, CoreConfig};
use crate::sync::event::{Action, CallId, Event, Report, RoundTrip};
use crate::sync::pacing::{Backoff, EXCHANGES_PER_SECOND, jittered, pause_before_reconnecting};
use crate::sync::seal::{Seal, Told};
use crate::sync::{Failure, Fate, Now};
use crate::units::{Algorithm, Cost, Nanos, Partitions, Quota, QuotaError, Timestamp};

/// How a node's own clock runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Skew {
    /// Nanoseconds that it is ahead of the store's at the start.
    pub ahead: i64,
    /// Millionths that it runs faster.
    pub drift: i32,
}

/// What a node says to the store.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// A batch, and the store's seal as the node knows it.
    Batch(Arc<Batch>, Option<Seal>),
    /// A hello, and the highest number of a seal that the node was told.
    Hello(Boot, Hello, u64),
}

/// What it hears.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Batch(BatchReply),
    Hello(HelloReply, Seal),
    Failed(Failure),
}

/// What a node wants of the world.
#[derive(Debug)]
pub(super) enum Want {
    Send(CallId, Message),
    /// Connect after a pause, in the attempt of this number.
    Connect(Nanos, u64),
    /// Nothing more: it has taken leave.
    End,
}

/// What a node is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Making {
    pub(super) boot: Boot,
    pub(super) partitions: Partitions,
    pub(super) poll: Nanos,
    pub(super) skew: Skew,
    /// When the skew was as it says, on the store's clock.
    pub(super) since: Timestamp,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) engine: Engine,
    pub(super) core: Core,
    pub(super) clock: Clock,
    making: Making,
    /// The number of the connection, while there is one.
    connection: Option<u64>,
    /// The store's seal, as it was last told on this connection.
    seal: Option<Seal>,
    pub(super) told: Told,
    attempts: u64,
    backoff: Backoff,
    under_way: BTreeSet<CallId>,
    /// What the pacing holds back.
    backlog: VecDeque<(CallId, Arc<Batch>)>,
    pacing: State,
    exchanges: Quota,
    luck: Dice,
    leaving: bool,
    news: Vec<Report>,
}

impl Node {
    /// A node that starts at `now`, on the store's clock.
    pub(super) fn start(
        engine: Engine,
        making: Making,
        now: Timestamp,
        luck: Dice,
        wants: &mut Vec<Want>,
    ) -> Result<Node, QuotaError> {
        let core = Core::new(CoreConfig {
            boot: making.boot,
            partitions: making.partitions,
            poll: making.poll,
        });
        let second = Nanos::from_secs(1);
        let most = u64::from(EXCHANGES_PER_SECOND.get());
        let exchanges = Quota::new(Algorithm::TokenBucket, most, second, None)?;
        // Until the store has answered, limits follow their policy for its loss.
        engine.counters().fleet().set_health(StoreHealth::Lost);
        let mut node = Node {
            engine,
            core,
            clock: Clock::manual(making.local(now)),
            making,
            connection: None,
            seal: None,
            told: Told::default(),
            attempts: 0,
            backoff: Backoff::new(),
            under_way: BTreeSet::new(),
            backlog: VecDeque::new(),
            pacing: State::fresh(&exchanges),
            exchanges,
            luck,
            leaving: false,
            news: Vec::new(),
        };
        node.connect(Nanos::ZERO, wants);
        Ok(node)
    }

    /// Moves the node's clock to `now` on the store's.
    pub(super) fn set_time(&self, now: Timestamp) {
        let local = self.making.local(now);
        self.clock.advance(local.since(self.clock.local()));
    }

    /// The number of the connection, while there is one.
    pub(super) fn connection(&self) -> Option<u64> {
        self.connection
    }

    /// An exchange that is under way.
    pub(super) fn any_call(&self) -> Option<CallId> {
        self.under_way.first().copied()
    }

    /// Whether this exchange is under way.
    pub(super) fn waits_for(&self, call: CallId) -> bool {
        self.under_way.contains(&call)
    }

    /// How many exchanges are under way.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Whether nothing waits to be sent or answered.
    pub(super) fn is_idle(&self) -> bool {
        self.core.is_idle() && self.backlog.is_empty()
    }

    /// What of the store's health was reported since the last time.
    pub(super) fn take_news(&mut self) -> impl Iterator<Item = Report> {
        self.news.drain(..)
    }

    /// The first moment, on the store's clock, at which a tick would find anything to do,
    /// as things are now.
    pub(super) fn next_tick(&self) -> Timestamp {
        if self.making.skew.drift != 0 || !self.backlog.is_empty() {
            // A clock that drifts is looked at each time.
            return Timestamp::EPOCH;
        }
        let due = self.core.next_tick(self.engine.counters());
        let ahead = self.making.skew.ahead;
        Timestamp::from_nanos(due.as_nanos().saturating_add_signed(ahead.saturating_neg()))
    }

    pub(super) fn tick(&mut self, wants: &mut Vec<Want>) {
        let now = self.now();
        self.core.tick(self.engine.counters(), now);
        self.perform(wants);
    }

    /// An exchange of the present connection has ended, which began at `sent` on this
    /// node's clock. One that has ended already means nothing.
    pub(super) fn hear(
        &mut self,
        call: CallId,
        reply: Reply,
        sent: Timestamp,
        wants: &mut Vec<Want>,
    ) {
        if !self.under_way.remove(&call) {
            return;
        }
        let now = self.now();
        let trip = RoundTrip {
            sent,
            received: now.local,
        };
        let event = match reply {
            Reply::Batch(reply) => Event::Batch(call, reply, trip),
            Reply::Hello(reply, seal) => {
                self.told.note(&seal);
                self.seal = Some(seal);
                Event::Hello(call, reply, trip)
            }
            Reply::Failed(failure) => match pause_before_reconnecting(failure, self.seal.is_some())
            {
                Some(pause) => {
                    // Whatever was under way has failed with it.
                    (self.connection, self.seal) = (None, None);
                    self.under_way.clear();
                    self.backlog.clear();
                    self.backoff = Backoff::new();
                    let pause = jittered(pause, self.luck.number());
                    self.connect(pause.into(), wants);
                    Event::Disconnected(failure)
                }
                None => Event::Failed(call, failure),
            },
        };
        self.core.handle(event, self.engine.counters(), now);
        self.perform(wants);
    }

    /// The store announces something to all nodes.
    pub(super) fn announced(&mut self, announced: Announcement, wants: &mut Vec<Want>) {
        let now = self.now();
        self.core.announced(announced, self.engine.counters(), now);
        self.perform(wants);
    }

    /// An attempt to connect has ended: there is a connection of this number, or none.
    pub(super) fn connected(
        &mut self,
        attempt: u64,
        made: Result<u64, Failure>,
        wants: &mut Vec<Want>,
    ) {
        if attempt != self.attempts || self.connection.is_some() {
            return;
        }
        let event = match made {
            Ok(number) => {
                self.connection = Some(number);
                self.backoff = Backoff::new();
                Event::Connected
            }
            Err(failure) => {
                let pause = jittered(self.backoff.pause(), self.luck.number());
                self.connect(pause.into(), wants);
                Event::Disconnected(failure)
            }
        };
        let now = self.now();
        self.core.handle(event, self.engine.counters(), now);
        self.perform(wants);
    }

    /// Sends what is pending, and then takes leave.
    pub(super) fn leave(&mut self, wants: &mut Vec<Want>) {
        self.leaving = true;
        let now = self.now();
        self.core.finish(self.engine.counters(), now);
        self.perform(wants);
    }

    /// Sends what is pending without further patience, and looks at every hash.
    pub(super) fn flush(&mut self, wants: &mut Vec<Want>) {
        let now = self.now();
        self.core.flush(self.engine.counters(), now);
        self.perform(wants);
    }

    /// Forgets cells that nobody needs, as the daemon's upkeep does.
    pub(super) fn sweep(&self, turn: usize) {
        self.engine.counters().sweep(turn, self.clock.now());
    }

    /// How many turns of [`Node::sweep`] look at every cell once.
    pub(super) fn sweeps_per_round(&self) -> usize {
        self.engine.counters().sweeps_per_round().max(1)
    }

    fn now(&self) -> Now {
        let local = self.clock.local();
        Now {
            local,
            fleet: self.clock.to_fleet(local),
        }
    }

    fn connect(&mut self, pause: Nanos, wants: &mut Vec<Want>) {
        self.attempts += 1;
        wants.push(Want::Connect(pause, self.attempts));
    }

    /// Does what the core wants done.
    fn perform(&mut self, wants: &mut Vec<Want>) {
        self.carry_out(wants);
        if self.leaving && self.is_idle() {
            self.core.leave();
            self.carry_out(wants);
            wants.push(Want::End);
        }
    }

    fn carry_out(&mut self, wants: &mut Vec<Want>) {
        while let Some(action) = self.core.next_action() {
            match action {
                Action::Batch(call, batch) => self.backlog.push_back((call, batch)),
                Action::Hello(call, hello) => {
                    self.under_way.insert(call);
                    let message = Message::Hello(self.making.boot, hello, self.told.number());
                    wants.push(Want::Send(call, message));
                }
                Action::SetOffset(offset) => self.clock.set_offset(offset.nanos),
                Action::Report(report) if is_news(&report) => self.news.push(report),
                Action::Report(_) => {}
            }
        }
        let now = self.clock.local();
        while !self.backlog.is_empty() {
            let taken = self.pacing.take(&self.exchanges, Cost::ONE, now);
            if !matches!(taken.verdict, Verdict::Admitted { .. }) {
                break;
            }
            if let Some((call, batch)) = self.backlog.pop_front() {
                self.under_way.insert(call);
                let message = Message::Batch(batch, self.seal.clone());
                wants.push(Want::Send(call, message));
            }
        }
    }
}

fn is_news(report: &Report) -> bool {
    match report {
        Report::StoreUp | Report::StoreLost(_) | Report::Disagreement(_) => true,
        Report::Batch(fate, _) => *fate != Fate::Applied,
        _ => false,
    }
}

impl Making {
    /// What the node's own clock shows at `now` on the store's.
    fn local(&self, now: Timestamp) -> Timestamp {
        let passed = now.since(self.since).get();
        let ahead = match self.skew.drift {
            0 => self.skew.ahead,
            drift => {
                let drift = i128::from(passed) * i128::from(drift) / 1_000_000;
                i64::try_from(i128::from(self.skew.ahead) + drift).unwrap_or(0)
            }
        };
        Timestamp::from_nanos(now.as_nanos().saturating_add_signed(ahead))
    }
}
