use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::parked::Parked;
use crate::policy::assignment::Peers;
use crate::server::observer::QuotaGauges;
use crate::units::{Cost, Key, MapHasher, Timestamp};

/// The most streams at once: a gateway has one.
const MAX_STREAMS: usize = 256;
/// The most subscribers: buckets that have assignments, of all streams and parked.
const MAX_SUBSCRIBERS: usize = 16_384;

/// What all streams share: who draws on which counter, and how much.
pub(in crate::server) struct Quotas {
    counters: Mutex<Counters>,
    streams: Arc<Semaphore>,
    sessions: Mutex<JoinSet<()>>,
    parked: Parked,
    gauges: QuotaGauges,
    /// Whether the log says that there are too many.
    told_of_too_many: AtomicBool,
}

#[derive(Default)]
struct Counters {
    drawn_on: HashMap<Key, Drawn, MapHasher>,
    subscribers: usize,
    held: u64,
}

/// How it is with the subscribers of one counter together.
#[derive(Default)]
struct Drawn {
    subscribers: u32,
    /// In thousandths of a request per second: whole numbers add up to nothing again.
    demand: u64,
    left: u64,
    /// The demand of each by the millisecond of the epoch since which it waits: so what all
    /// wait for by now is known without asking each.
    since: u128,
}

/// The place of one subscriber, until it is dropped.
pub(super) struct Seat {
    quotas: Arc<Quotas>,
    counter: Option<Key>,
    demand: u64,
    held: u64,
    left: u64,
    since: u128,
}

/// What one subscriber says to the others.
#[derive(Clone, Copy)]
pub(super) struct Saying {
    /// The counter that it draws on, if there is one.
    pub(super) counter: Option<Key>,
    /// What is asked of it, per second.
    pub(super) demand: f64,
    pub(super) held: Cost,
    /// What is left of it, as far as is known.
    pub(super) left: Cost,
    /// What was asked of it since it last had what it needed.
    pub(super) waits: f64,
    pub(super) now: Timestamp,
}

impl Saying {
    /// Since when it waits, in milliseconds of the epoch.
    fn since(&self) -> u64 {
        let waits = if self.demand > 0.0 {
            self.waits / self.demand
        } else {
            0.0
        };
        // Thousandths of a second are milliseconds.
        millis(self.now).saturating_sub(thousandths(waits))
    }
}

fn millis(moment: Timestamp) -> u64 {
    moment.as_nanos() / 1_000_000
}

impl Quotas {
    pub(in crate::server) fn new() -> Quotas {
        Quotas {
            counters: Mutex::default(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            sessions: Mutex::default(),
            parked: Parked::default(),
            gauges: QuotaGauges::new(),
            told_of_too_many: AtomicBool::new(false),
        }
    }

    /// A place for a stream; `None` if there are too many.
    pub(super) fn stream(&self) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.streams).try_acquire_owned().ok();
        if place.is_none() {
            self.too_many();
        }
        place
    }

    /// A place for a subscriber; `None` if there are too many.
    pub(super) fn seat(self: &Arc<Quotas>) -> Option<Seat> {
        let mut counters = self.lock();
        if counters.subscribers >= MAX_SUBSCRIBERS {
            return None;
        }
        counters.subscribers += 1;
        self.show(&counters);
        drop(counters);
        Some(Seat {
            quotas: Arc::clone(self),
            counter: None,
            demand: 0,
            held: 0,
            left: 0,
            since: 0,
        })
    }

    /// Says in the log, once, that some get no assignment.
    pub(super) fn too_many(&self) {
        if !self.told_of_too_many.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "gateways report of more buckets, or on more streams, than there may be: what is \
                 beyond is counted and gets no assignment"
            );
        }
    }

    /// Lets a stream live in a task of its own.
    pub(super) fn spawn(&self, session: impl Future<Output = ()> + Send + 'static) {
        let mut sessions = self.sessions();
        while sessions.try_join_next().is_some() {}
        sessions.spawn(session);
    }

    /// What streams that are over have left.
    pub(super) fn parked(&self) -> &Parked {
        &self.parked
    }

    /// From now on what a stream leaves goes back at once, and what is parked too.
    pub(in crate::server) fn close(&self) {
        self.parked.close();
    }

    /// Waits for the end of all streams, after which, once [closed](Quotas::close), nobody
    /// holds anything.
    pub(in crate::server) async fn ended(&self) {
        let mut sessions = std::mem::take(&mut *self.sessions());
        while sessions.join_next().await.is_some() {}
    }

    fn sessions(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, counters: &Counters) {
        let drawn_on = counters.drawn_on.len();
        self.gauges
            .set(counters.subscribers, drawn_on, counters.held);
    }
}

impl Seat {
    /// Says how it is with the subscriber. Answers how it is with all that draw on the same
    /// counter, in a fleet of so many `nodes`.
    pub(super) fn says(&mut self, saying: Saying, nodes: u32) -> Peers {
        let quotas = Arc::clone(&self.quotas);
        let mut counters = quotas.lock();
        self.leave(&mut counters);
        self.counter = saying.counter;
        self.demand = thousandths(saying.demand);
        self.held = saying.held.get();
        self.left = saying.left.get();
        self.since = u128::from(self.demand) * u128::from(saying.since());
        counters.held = counters.held.saturating_add(self.held);
        let mut alone = Drawn::default();
        let drawn = match saying.counter {
            Some(counter) => counters.drawn_on.entry(counter).or_default(),
            None => &mut alone,
        };
        drawn.subscribers += 1;
        drawn.demand = drawn.demand.saturating_add(self.demand);
        drawn.left = drawn.left.saturating_add(self.left);
        drawn.since = drawn.since.saturating_add(self.since);
        let all = u128::from(drawn.demand) * u128::from(millis(saying.now));
        #[allow(clippy::cast_precision_loss)]
        let peers = Peers {
            subscribers: drawn.subscribers,
            demand: drawn.demand as f64 / 1e3,
            left: Cost::new(drawn.left),
            waiting: all.saturating_sub(drawn.since) as f64 / 1e6,
            nodes,
        };
        quotas.show(&counters);
        peers
    }

    fn leave(&mut self, counters: &mut Counters) {
        counters.held = counters.held.saturating_sub(self.held);
        let Some(counter) = self.counter.take() else {
            return;
        };
        if let Some(drawn) = counters.drawn_on.get_mut(&counter) {
            drawn.subscribers = drawn.subscribers.saturating_sub(1);
            drawn.demand = drawn.demand.saturating_sub(self.demand);
            drawn.left = drawn.left.saturating_sub(self.left);
            drawn.since = drawn.since.saturating_sub(self.since);
            if drawn.subscribers == 0 {
                counters.drawn_on.remove(&counter);
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let quotas = Arc::clone(&self.quotas);
        let mut counters = quotas.lock();
        self.leave(&mut counters);
        counters.subscribers = counters.subscribers.saturating_sub(1);
        quotas.show(&counters);
    }
}

/// A number that is not negative, in thousandths; nothing real is beyond.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn thousandths(number: f64) -> u64 {
    (number * 1e3).clamp(0.0, 1e15) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nanos;

    fn key(number: u8) -> Key {
        Key::from_bytes([number; 16])
    }

    fn saying(counter: Option<Key>, demand: f64, held: u64) -> Saying {
        Saying {
            counter,
            demand,
            held: Cost::new(held + 1),
            left: Cost::new(held),
            waits: 0.0,
            now: NOW,
        }
    }

    const NOW: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);

    #[test]
    fn subscribers_of_one_counter_know_of_each_other_until_they_leave() {
        let quotas = Arc::new(Quotas::new());
        let [mut one, mut other, mut apart] = [(); 3].map(|()| quotas.seat().unwrap());
        let say = |seat: &mut Seat, counter, demand, held| {
            let saying = saying(Some(key(counter)), demand, held);
            let peers = seat.says(saying, 2);
            assert_eq!(peers.nodes, 2);
            (peers.subscribers, peers.demand, peers.left.get())
        };
        assert_eq!(say(&mut one, 1, 1.5, 3), (1, 1.5, 3));
        assert_eq!(say(&mut other, 1, 0.25, 4), (2, 1.75, 7));
        assert_eq!(say(&mut apart, 2, 9.0, 9), (1, 9.0, 9));
        assert_eq!(say(&mut one, 1, 1.0, 5), (2, 1.25, 9));
        // It draws on another counter, by new rules.
        assert_eq!(say(&mut other, 2, 0.25, 0), (2, 9.25, 9));
        assert_eq!(say(&mut one, 1, 1.0, 5), (1, 1.0, 5));
        drop((one, other, apart));
        let counters = quotas.lock();
        assert!(counters.drawn_on.is_empty());
        assert_eq!((counters.subscribers, counters.held), (0, 0));
    }

    #[test]
    fn what_all_wait_for_grows_with_time() {
        let quotas = Arc::new(Quotas::new());
        let [mut one, mut other] = [(); 2].map(|()| quotas.seat().unwrap());
        let say = |seat: &mut Seat, demand, waits, later| {
            let saying = Saying {
                waits,
                now: NOW.after(Nanos::from_secs(later)),
                ..saying(Some(key(1)), demand, 0)
            };
            seat.says(saying, 1).waiting
        };
        assert_eq!(say(&mut one, 3.0, 6.0, 0), 6.0);
        assert_eq!(say(&mut other, 1.0, 0.0, 1), 9.0);
        assert_eq!(say(&mut one, 3.0, 0.0, 2), 1.0);
        assert_eq!(say(&mut other, 0.0, 0.0, 3), 3.0);
    }

    #[test]
    fn who_draws_on_no_counter_is_alone() {
        let quotas = Arc::new(Quotas::new());
        let [mut one, mut other] = [(); 2].map(|()| quotas.seat().unwrap());
        one.says(saying(None, 1.0, 0), 1);
        let peers = other.says(saying(None, 2.0, 0), 1);
        assert_eq!((peers.subscribers, peers.demand), (1, 2.0));
    }

    #[test]
    fn there_are_no_more_seats_than_there_may_be() {
        let quotas = Arc::new(Quotas::new());
        let mut seats: Vec<Seat> = (0..MAX_SUBSCRIBERS).map_while(|_| quotas.seat()).collect();
        assert_eq!(seats.len(), MAX_SUBSCRIBERS);
        assert!(quotas.seat().is_none());
        seats.pop();
        assert!(quotas.seat().is_some());
    }
}
