//! The sync without its socket: events and the time go in, actions come out.

mod next;

use std::collections::{BTreeMap, VecDeque};

use super::Now;
use super::batch::{Agreement, BatchReply, Boot, Hello};
use super::error::{Failure, Remedy};
use super::event::{Action, CallId, Event, Report, RoundTrip};
use super::lane::Lane;
use super::offset::Estimator;
use crate::counters::{Announcement, Counters, HashId, Route, StoreHealth};
use crate::units::{Key, Nanos, Partitions, Timestamp};

/// What the fleet's nodes must agree on, and how often they are heard.
#[derive(Clone, Copy, Debug)]
pub struct CoreConfig {
    /// This start of this node.
    pub boot: Boot,
    /// The parts that the cells are spread over in the store.
    pub partitions: Partitions,
    /// How often the core is polled.
    pub poll: Nanos,
}

/// Exchanges under way at once, at most.
const MAX_CALLS: usize = 256;
/// So many failures in a row, and the store counts as lost.
const FAILURES_TO_LOSE: u32 = 3;
const HELLO_EVERY: Nanos = Nanos::from_secs(1);
/// How long after the store has come back the other nodes are waited for that have not
/// said hello to it yet: longer than the longest pause between their attempts to connect.
const REGROUPING: Nanos = Nanos::from_secs(6);
const HOUSEKEEPING_EVERY: Nanos = Nanos::from_millis(250);
/// How long to wait after a failure that will not pass by itself at once.
const LATER: Nanos = Nanos::from_millis(500);
/// How long to wait after one that somebody must mend.
const MUCH_LATER: Nanos = Nanos::from_secs(10);

/// The state of the exchange with the store.
///
/// What is walked through is ordered, so that the same events lead to the same actions.
#[derive(Debug)]
pub struct Core {
    config: CoreConfig,
    lanes: BTreeMap<HashId, Lane>,
    /// Lanes that can send.
    ready: VecDeque<HashId>,
    /// Lanes that wait until some moment before they send again.
    parked: BTreeMap<Timestamp, Vec<HashId>>,
    /// Cells that are held back until some moment.
    held: BTreeMap<Timestamp, Vec<Key>>,
    calls: BTreeMap<CallId, Call>,
    next_call: u64,
    link: Link,
    /// What was last told of the store.
    told: Option<StoreHealth>,
    /// Failures in a row: of batches, and of everything else. A store that only says
    /// hello is lost all the same.
    failed_batches: u32,
    failures: u32,
    /// Until when the others are waited for, since the store was lost.
    regrouping: Option<Timestamp>,
    estimator: Estimator,
    next_hello: Timestamp,
    next_housekeeping: Timestamp,
    actions: VecDeque<Action>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Batch(HashId),
    Hello,
}

/// How far the conversation with the store has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Link {
    Down,
    /// Connected; the store has not yet said whether this node agrees with the fleet.
    Greeting,
    Open,
    /// This node disagrees with the fleet: nothing is sent but hellos.
    Barred(Agreement),
}

impl Core {
    /// A core that is not connected yet.
    pub fn new(config: CoreConfig) -> Core {
        Core {
            config,
            lanes: BTreeMap::new(),
            ready: VecDeque::new(),
            parked: BTreeMap::new(),
            held: BTreeMap::new(),
            calls: BTreeMap::new(),
            next_call: 0,
            link: Link::Down,
            told: None,
            failed_batches: 0,
            failures: 0,
            regrouping: None,
            estimator: Estimator::default(),
            next_hello: Timestamp::EPOCH,
            next_housekeeping: Timestamp::EPOCH,
            actions: VecDeque::new(),
        }
    }

    /// The next thing to do; `None` until more happens.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether nothing is under way and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.lanes.values().all(Lane::is_idle)
    }

    /// Lets time pass; to be called every [`CoreConfig::poll`].
    pub fn tick(&mut self, cells: &Counters, now: Now) {
        self.hold_dirty(cells, now);
        let due = take_until(&mut self.held, now.local);
        self.route(due, cells, now);
        self.ready.extend(take_until(&mut self.parked, now.local));
        if now.local >= self.next_hello && self.link != Link::Down {
            self.next_hello = now.local.after(HELLO_EVERY);
            self.say_hello(Hello::Alive);
        }
        if now.local >= self.next_housekeeping {
            self.next_housekeeping = now.local.after(HOUSEKEEPING_EVERY);
            self.keep_house(cells, now);
        }
        self.pump(cells, now);
    }

    /// Takes in what the store announces to all nodes.
    pub fn announced(&mut self, announced: Announcement, cells: &Counters, now: Now) {
        cells.announce(announced, now.fleet);
        self.hold_dirty(cells, now);
    }

    /// Takes in what has happened.
    pub fn handle(&mut self, event: Event, cells: &Counters, now: Now) {
        match event {
            Event::Connected => {
                self.link = Link::Greeting;
                self.next_hello = now.local.after(HELLO_EVERY);
                self.say_hello(Hello::Alive);
            }
            Event::Disconnected(failure) => {
                self.link = Link::Down;
                // What was about to be sent is tried again with the rest.
                self.actions
                    .retain(|action| !matches!(action, Action::Batch(..) | Action::Hello(..)));
                self.failed(failure, cells);
                for call in std::mem::take(&mut self.calls).into_values() {
                    self.retry(call, failure, now);
                }
            }
            Event::Hello(call, reply, trip) => {
                self.calls.remove(&call);
                let link = match reply.agreement {
                    Agreement::Agreed => Link::Open,
                    other => Link::Barred(other),
                };
                if let Link::Barred(other) = &link
                    && self.link != link
                {
                    self.told = None;
                    cells.fleet().set_health(StoreHealth::Lost);
                    self.actions
                        .push_back(Action::Report(Report::Disagreement(other.clone())));
                }
                self.link = link;
                self.answered(reply.time, trip, cells, now);
                self.regroup(reply.nodes, cells, now);
            }
            Event::Batch(call, reply, trip) => {
                self.failed_batches = 0;
                self.answered(reply.time, trip, cells, now);
                if let Some(Call::Batch(id)) = self.calls.remove(&call) {
                    self.batch_answered(id, &reply, cells, now);
                }
            }
            Event::Failed(call, failure) => {
                let call = self.calls.remove(&call);
                match call {
                    Some(Call::Batch(id)) if failure == Failure::WrongType => {
                        // One hash is spoilt; the store is well.
                        self.actions.push_back(Action::Report(Report::Spoilt(id)));
                        self.actions
                            .push_back(Action::Report(Report::Failed(failure)));
                    }
                    Some(Call::Batch(_)) => {
                        self.failed_batches = self.failed_batches.saturating_add(1);
                        self.failed(failure, cells);
                    }
                    Some(Call::Hello) | None => self.failed(failure, cells),
                }
                if let Some(call) = call {
                    self.retry(call, failure, now);
                }
            }
        }
        self.pump(cells, now);
    }

    /// Sends everything that is pending, without further patience, and looks once
    /// more at every hash, whose loss nobody would notice later.
    pub fn flush(&mut self, cells: &Counters, now: Now) {
        while cells.next_dirty().is_some() {}
        self.held.clear();
        self.route(cells.settle_up(), cells, now);
        for id in std::mem::take(&mut self.parked).into_values().flatten() {
            self.ready.push_back(id);
        }
        for (id, lane) in &mut self.lanes {
            if lane.enqueue_known() {
                self.ready.push_back(*id);
            }
        }
        self.pump(cells, now);
    }

    /// The same for the end: no lease is asked for any more, and none is kept.
    pub fn finish(&mut self, cells: &Counters, now: Now) {
        cells.leave();
        self.flush(cells, now);
    }

    /// Says goodbye.
    pub fn leave(&mut self) {
        if self.link != Link::Down {
            self.say_hello(Hello::Leaving);
        }
    }

    fn hold_dirty(&mut self, cells: &Counters, now: Now) {
        // Costs came in up to one poll ago, and are sent at the poll before they are due.
        let gathered = self.config.poll;
        let mut hold = |key: Key| {
            if let Some(patience) = cells.patience(key, now.fleet) {
                put(
                    &mut self.held,
                    now.local.after(patience.minus(gathered)),
                    key,
                );
            }
        };
        for _ in 0..cells.dirty() {
            let Some(key) = cells.next_dirty() else { break };
            hold(key);
        }
        if cells.take_missed() {
            cells.queued().into_iter().for_each(hold);
        }
    }

    /// Puts cells into the lanes of the slots that they have something for.
    fn route(&mut self, keys: impl IntoIterator<Item = Key>, cells: &Counters, now: Now) {
        let (boot, partitions) = (self.config.boot, self.config.partitions);
        for key in keys {
            let Route { slots, again } = cells.route(key, now.fleet);
            if let Some(wait) = again {
                put(&mut self.held, now.local.after(wait), key);
            }
            for slot in slots {
                let id = HashId {
                    partition: key.partition(partitions),
                    slot,
                };
                let lane = self
                    .lanes
                    .entry(id)
                    .or_insert_with(|| Lane::new(id, boot, now));
                lane.push(key, now);
                if lane.enqueue() {
                    self.ready.push_back(id);
                }
            }
        }
    }

    /// Sends what can be sent.
    fn pump(&mut self, cells: &Counters, now: Now) {
        if self.link != Link::Open {
            return;
        }
        let mut rest = Vec::new();
        while self.calls.len() < MAX_CALLS {
            let Some(id) = self.ready.pop_front() else {
                break;
            };
            let Some(lane) = self.lanes.get_mut(&id) else {
                continue;
            };
            let batch = lane.next(cells, now, &mut rest);
            let call = self.call(Call::Batch(id));
            self.actions.push_back(Action::Batch(call, batch));
        }
        // They are looked at again when what they wait for now has been sent.
        let next = now.local.after(self.config.poll);
        if !rest.is_empty() {
            self.held.entry(next).or_default().extend(rest);
        }
    }

    fn batch_answered(&mut self, id: HashId, reply: &BatchReply, cells: &Counters, now: Now) {
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        let deltas = reply.totals.len();
        let mut again = Vec::new();
        let fate = lane.answer(reply, cells, self.config.partitions, now, &mut again);
        for (wait, key) in again {
            put(&mut self.held, now.local.after(wait), key);
        }
        if let Some(fate) = fate {
            if lane.is_lost_again() {
                // A store that keeps nothing is not asked in a hot loop.
                lane.failed();
                put(&mut self.parked, now.local.after(LATER), id);
            }
            self.actions
                .push_back(Action::Report(Report::Batch(fate, deltas)));
        }
        if lane.enqueue() {
            self.ready.push_back(id);
        }
    }

    /// The fate of the call's batch is unknown: the same batch again.
    fn retry(&mut self, call: Call, failure: Failure, now: Now) {
        let Call::Batch(id) = call else { return };
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        lane.failed();
        let wait = match failure.remedy() {
            Remedy::Again => self.config.poll,
            Remedy::Later => LATER,
            Remedy::MuchLater => MUCH_LATER,
        };
        put(&mut self.parked, now.local.after(wait), id);
        self.actions.push_back(Action::Report(Report::Resent));
    }

    fn keep_house(&mut self, cells: &Counters, now: Now) {
        let over: Vec<HashId> = self
            .lanes
            .keys()
            .filter(|id| !id.slot.matters(now.fleet))
            .copied()
            .collect();
        for id in over {
            if let Some(lane) = self.lanes.remove(&id) {
                // What they still have belongs elsewhere, or nowhere.
                self.route(lane.into_waiting(), cells, now);
            }
        }
        let mut lag = Nanos::ZERO;
        for (id, lane) in &mut self.lanes {
            lag = lag.max(lane.lag(now));
            if lane.enqueue_overdue(now) {
                self.ready.push_back(*id);
            }
        }
        self.actions.push_back(Action::Report(Report::Lag(lag)));
    }

    fn say_hello(&mut self, hello: Hello) {
        let call = self.call(Call::Hello);
        self.actions.push_back(Action::Hello(call, hello));
    }

    fn call(&mut self, call: Call) -> CallId {
        let id = CallId(self.next_call);
        self.next_call += 1;
        self.calls.insert(id, call);
        id
    }

    fn answered(&mut self, time: Timestamp, trip: RoundTrip, cells: &Counters, now: Now) {
        self.failures = 0;
        cells.fleet().observe_trip(trip.received.since(trip.sent));
        let offset = self.estimator.observe(trip.sent, trip.received, time);
        self.actions.push_back(Action::SetOffset(offset));
        let well = self.failed_batches < FAILURES_TO_LOSE && !matches!(self.link, Link::Barred(_));
        if well && self.told != Some(StoreHealth::Up) {
            self.told = Some(StoreHealth::Up);
            // What waited for somebody to mend it need not wait any longer.
            let parked = std::mem::take(&mut self.parked);
            self.ready.extend(parked.into_values().flatten());
            self.regrouping = self.regrouping.map(|_| now.local.after(REGROUPING));
            cells.fleet().set_health(StoreHealth::Up);
            self.actions.push_back(Action::Report(Report::StoreUp));
        }
    }

    /// The store counts so many nodes. One that has lost its memory has heard of few, and
    /// knows nothing of what the others have admitted: they are waited for.
    fn regroup(&mut self, nodes: u32, cells: &Counters, now: Now) {
        let fleet = cells.fleet();
        if let Some(until) = self.regrouping {
            if nodes < fleet.nodes() && now.local < until {
                return;
            }
            self.regrouping = None;
            fleet.set_scattered(false);
        }
        fleet.set_nodes(nodes);
    }

    fn failed(&mut self, failure: Failure, cells: &Counters) {
        self.actions
            .push_back(Action::Report(Report::Failed(failure)));
        self.failures = self.failures.saturating_add(1);
        let lost = self.failures.max(self.failed_batches) >= FAILURES_TO_LOSE;
        if lost && self.told != Some(StoreHealth::Lost) {
            self.told = Some(StoreHealth::Lost);
            self.regrouping = Some(Timestamp::EPOCH.after(Nanos::MAX));
            cells.fleet().set_scattered(true);
            cells.fleet().set_health(StoreHealth::Lost);
            self.actions
                .push_back(Action::Report(Report::StoreLost(failure)));
        }
    }
}

/// Puts in what is due at `at`.
fn put<T>(due: &mut BTreeMap<Timestamp, Vec<T>>, at: Timestamp, what: T) {
    due.entry(at).or_default().push(what);
}

/// Takes out what was due by `now`.
fn take_until<T>(due: &mut BTreeMap<Timestamp, Vec<T>>, now: Timestamp) -> Vec<T> {
    let later = due.split_off(&now.after(Nanos::new(1)));
    std::mem::replace(due, later)
        .into_values()
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests;
