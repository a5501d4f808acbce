use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::bucket::Subscribed;
use super::{LONGEST, PATIENCE};
use crate::protocol::grpc::quota::Bucket;
use crate::server::Services;
use crate::units::{Nanos, Timestamp};

/// Buckets of streams that are over. Their gateways go on with what they were assigned, and
/// report it on their next stream: until then, or until the assignment is over, what they
/// hold stays taken.
#[derive(Default)]
pub(super) struct Parked {
    places: Mutex<Places>,
    /// One that ends sooner than all others has come, or all end now.
    sooner: Notify,
}

#[derive(Default)]
struct Places {
    /// By their buckets, and those of one bucket in the order in which they came.
    buckets: BTreeMap<(Arc<Bucket>, u64), (Timestamp, Subscribed)>,
    /// By when their assignments are over.
    ends: BTreeSet<(Timestamp, u64, Arc<Bucket>)>,
    came: u64,
    /// Whether a task waits for the ends.
    is_kept: bool,
    is_closed: bool,
}

/// A subscriber and its bucket.
pub(super) type Parting = (Arc<Bucket>, Subscribed);

impl Parked {
    /// Parks the subscriber until its assignment is over; answers it at the daemon's end, when
    /// nothing is parked.
    pub(super) fn park(
        &self,
        bucket: Arc<Bucket>,
        subscribed: Subscribed,
        until: Timestamp,
    ) -> Option<Parting> {
        let mut places = self.lock();
        if places.is_closed {
            return Some((bucket, subscribed));
        }
        places.came += 1;
        let came = places.came;
        places.ends.insert((until, came, Arc::clone(&bucket)));
        places.buckets.insert((bucket, came), (until, subscribed));
        if places.ends.first().is_some_and(|first| first.1 == came) {
            self.sooner.notify_one();
        }
        None
    }

    /// The subscriber of `bucket` that has been parked for the longest time.
    pub(super) fn taken_over(&self, bucket: &Arc<Bucket>) -> Option<Subscribed> {
        let mut places = self.lock();
        let from = (Arc::clone(bucket), 0);
        let (place, (until, _)) = places.buckets.range(from..).next()?;
        if place.0 != *bucket {
            return None;
        }
        let (until, place) = (*until, place.clone());
        let (_, subscribed) = places.buckets.remove(&place)?;
        places.ends.remove(&(until, place.1, place.0));
        Some(subscribed)
    }

    /// The one whose assignment is over first.
    pub(super) fn first(&self) -> Option<Parting> {
        self.lock().first()
    }

    /// At the daemon's end nothing is parked any more, and what is has its end.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.sooner.notify_one();
    }

    /// Gives back what is parked when its assignment is over, until nothing is parked.
    /// Another call meanwhile has nothing to do.
    pub(super) async fn keep(&self, services: &Services) {
        if std::mem::replace(&mut self.lock().is_kept, true) {
            return;
        }
        while let Some((over, next)) = self.over(services.clock.now()) {
            let deadline = Instant::now() + PATIENCE;
            let ends = over.into_iter().map(|(bucket, subscribed)| async move {
                subscribed.end(services, &bucket, deadline).await;
            });
            join_all(ends).await;
            tokio::select! {
                () = sleep(next.into()) => {}
                () = self.sooner.notified() => {}
            }
        }
    }

    /// Those whose assignments are over at `now`, and how long until the next one's is; `None`
    /// if nothing is parked, and nobody keeps it.
    fn over(&self, now: Timestamp) -> Option<(Vec<Parting>, Nanos)> {
        let mut places = self.lock();
        if places.ends.is_empty() {
            places.is_kept = false;
            return None;
        }
        let mut over = Vec::new();
        while places.is_closed || places.ends.first().is_some_and(|first| first.0 <= now) {
            let Some(parting) = places.first() else {
                break;
            };
            over.push(parting);
        }
        let next = places.ends.first().map(|first| first.0.since(now));
        Some((over, next.unwrap_or(Nanos::ZERO).min(LONGEST)))
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn first(&mut self) -> Option<Parting> {
        let (_, came, bucket) = self.ends.pop_first()?;
        let place = (bucket, came);
        let (_, subscribed) = self.buckets.remove(&place)?;
        Some((place.0, subscribed))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Quotas;
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::EPOCH.after(Nanos::from_secs(secs))
    }

    /// Parks one that was reported at a moment, until another one.
    fn park(quotas: &Arc<Quotas>, user: &str, reported: u64, until: u64) -> bool {
        let bucket = Arc::new(Bucket::of("shop", &[("user", user)]));
        let subscribed = Subscribed::new(quotas.seat().unwrap(), at(reported));
        quotas
            .parked()
            .park(bucket, subscribed, at(until))
            .is_none()
    }

    fn taken_over(quotas: &Quotas, user: &str) -> Option<Timestamp> {
        let bucket = Arc::new(Bucket::of("shop", &[("user", user)]));
        let subscribed = quotas.parked().taken_over(&bucket);
        subscribed.map(|subscribed| subscribed.reported)
    }

    /// When those were reported whose time is over, and how long until the next one's is.
    fn over(quotas: &Quotas, now: u64) -> Option<(Vec<Timestamp>, Nanos)> {
        let (over, next) = quotas.parked().over(at(now))?;
        let reported = over.into_iter().map(|(_, subscribed)| subscribed.reported);
        Some((reported.collect(), next))
    }

    #[test]
    fn each_one_of_a_bucket_is_taken_over_once_in_the_order_in_which_they_came() {
        let quotas = Arc::new(Quotas::new());
        for (user, reported, until) in [("b", 1, 9), ("a", 2, 9), ("a", 3, 8), ("c", 4, 9)] {
            assert!(park(&quotas, user, reported, until));
        }
        let all = ["a", "a", "a", "b", "b", "d"].map(|user| taken_over(&quotas, user));
        let [first, second, of_b] = [2, 3, 1].map(|secs| Some(at(secs)));
        assert_eq!(all, [first, second, None, of_b, None, None]);
        assert_eq!(over(&quotas, 9), Some((vec![at(4)], Nanos::ZERO)));
        assert_eq!(over(&quotas, 9), None);
    }

    #[test]
    fn each_is_parked_until_its_own_end() {
        let quotas = Arc::new(Quotas::new());
        for (user, reported, until) in [("a", 1, 20), ("a", 2, 10), ("b", 3, 200)] {
            assert!(park(&quotas, user, reported, until));
        }
        assert_eq!(over(&quotas, 9), Some((vec![], Nanos::from_secs(1))));
        assert_eq!(over(&quotas, 10), Some((vec![at(2)], Nanos::from_secs(10))));
        assert_eq!(over(&quotas, 21), Some((vec![at(1)], LONGEST)));
        assert_eq!(taken_over(&quotas, "a"), None);
        let first = quotas.parked().first();
        assert_eq!(first.map(|(_, first)| first.reported), Some(at(3)));
        assert_eq!(over(&quotas, 22), None);
    }

    #[test]
    fn at_the_end_all_is_over_and_nothing_is_parked() {
        let quotas = Arc::new(Quotas::new());
        assert!(park(&quotas, "a", 1, 20));
        assert!(park(&quotas, "b", 2, 10));
        quotas.close();
        assert_eq!(over(&quotas, 0), Some((vec![at(2), at(1)], Nanos::ZERO)));
        assert!(!park(&quotas, "a", 3, 20));
        assert_eq!(over(&quotas, 0), None);
    }
}
