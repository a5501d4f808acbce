use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all, poll_immediate};
use indexmap::IndexMap;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status, Streaming};

use super::bucket::{Looked, Subscribed};
use super::counted::{Act, act};
use super::{LONGEST, PATIENCE, Told};
use crate::protocol::grpc::messages::envoy::service::rate_limit_quota::v3::RateLimitQuotaResponse;
use crate::protocol::grpc::quota::{
    Bucket, Read, Reports, Word, abandoned, assigned, assigned_anew,
};
use crate::server::observer::{BadKind, Door, LeftOut};
use crate::server::{Shared, told};
use crate::units::{Cost, Timestamp};

/// The most buckets of one stream that have assignments.
const MAX_BUCKETS: usize = 4_096;
/// So many assignments go in one message.
const MAX_ACTIONS: usize = 128;

/// One stream of reports, and the assignments of its buckets.
pub(super) struct Session {
    shared: Arc<Shared>,
    answers: mpsc::Sender<Told>,
    domain: String,
    buckets: HashMap<Arc<Bucket>, Entry>,
    /// When each is to be looked at without a report.
    due: BTreeSet<(Timestamp, Arc<Bucket>)>,
}

struct Entry {
    subscribed: Subscribed,
    due: Timestamp,
}

/// A bucket that was looked at, and what came of it; `None` of one that has no assignments.
type Turn = Option<(Arc<Bucket>, Subscribed, Looked)>;

/// The gateway is gone, or does not take what it is told.
struct Gone;

impl Session {
    pub(super) fn new(shared: Arc<Shared>, answers: mpsc::Sender<Told>) -> Session {
        Session {
            shared,
            answers,
            domain: String::new(),
            buckets: HashMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// Lives until the gateway ends the stream, is gone, or `ended` says so. At the end it
    /// parks all buckets.
    pub(super) async fn run(
        mut self,
        mut reports: Streaming<Reports>,
        ended: watch::Receiver<bool>,
    ) {
        let mut end = std::pin::pin!(told(ended));
        // A stream that never says anything is nobody's.
        let mut silence = std::pin::pin!(sleep(self.shared.config.request_timeout));
        let mut is_silent = true;
        loop {
            // Only waiting is cut short: what a turn takes is known.
            let turn = tokio::select! {
                biased;
                () = &mut end => break,
                () = self.answers.closed() => break,
                () = &mut silence, if is_silent => {
                    let slow = Status::deadline_exceeded("no report came in time");
                    self.refuse(slow, BadKind::Slow).await
                }
                () = sleep(self.until_due()) => self.look_at_due().await,
                heard = reports.message() => {
                    is_silent = false;
                    self.heard(heard).await
                }
            };
            if turn.is_err() {
                break;
            }
        }
        self.park().await;
    }

    async fn heard(&mut self, heard: Result<Option<Reports>, Status>) -> Result<(), Gone> {
        let reports = match heard {
            Ok(Some(reports)) => reports,
            Ok(None) => return Err(Gone),
            Err(status) => {
                return match status.code() {
                    // gRPC's own word for too long a message is not the one that everybody
                    // expects.
                    Code::OutOfRange => {
                        let too_large = Status::resource_exhausted(status.message());
                        self.refuse(too_large, BadKind::Size).await
                    }
                    Code::InvalidArgument => self.refuse(status, BadKind::Content).await,
                    _ => Err(Gone),
                };
            }
        };
        match reports.read(&mut self.domain) {
            Ok(read) => self.report(read).await,
            Err(error) => {
                let status = Status::invalid_argument(error.to_string());
                self.refuse(status, BadKind::Content).await
            }
        }
    }

    /// Ends the stream with `status`.
    async fn refuse(&self, status: Status, kind: BadKind) -> Result<(), Gone> {
        self.shared.services.observer.bad_request(Door::Grpc, kind);
        // Gone or not, it is over.
        let _ = self.send(Err(status)).await;
        Err(Gone)
    }

    async fn report(&mut self, read: Read) -> Result<(), Gone> {
        let shared = Arc::clone(&self.shared);
        let services = &shared.services;
        let observer = &services.observer;
        observer.left_out(LeftOut::Unusable, read.unusable);
        if !services.engine.snapshot().rules().has_domain(&self.domain) {
            shared.gateway.unknown(&self.domain);
            observer.unknown_domain();
        }
        // Each once, in the order of the message.
        let mut usages: IndexMap<Arc<Bucket>, (u64, u64)> = IndexMap::new();
        for usage in read.usages {
            let (allowed, denied) = usages.entry(Arc::new(usage.bucket)).or_default();
            *allowed = allowed.saturating_add(usage.allowed);
            *denied = denied.saturating_add(usage.denied);
        }
        let deadline = Instant::now() + PATIENCE;
        let mut looks = Looks::default();
        let mut taken = 0;
        let mut words = Vec::new();
        for (bucket, reported) in usages {
            let look: BoxFuture<'_, Turn> = match self.taken_or_new(&bucket, taken, deadline).await
            {
                Some((bucket, subscribed)) => {
                    taken += 1;
                    let look = look(&shared, bucket, subscribed, Some(reported), deadline);
                    Box::pin(look)
                }
                None => {
                    observer.left_out(LeftOut::Buckets, 1);
                    if reported == (0, 0) {
                        // Else names without end would make its messages ever longer.
                        observer.assigned(None);
                        words.push(Word::from_iter([abandoned(&bucket)]));
                        continue;
                    }
                    let charge = Act::Charge(Cost::new(reported.0));
                    Box::pin(async move {
                        act(services, &bucket, charge, deadline).await;
                        None
                    })
                }
            };
            looks.add(look).await;
        }
        let turns = looks.all().await;
        self.tell(turns, words).await
    }

    async fn look_at_due(&mut self) -> Result<(), Gone> {
        let shared = Arc::clone(&self.shared);
        let now = shared.services.clock.now();
        let deadline = Instant::now() + PATIENCE;
        let mut looks = Looks::default();
        while let Some((due, _)) = self.due.first()
            && *due <= now
        {
            let Some((_, bucket)) = self.due.pop_first() else {
                break;
            };
            if let Some(entry) = self.buckets.remove(&bucket) {
                let look = look(&shared, bucket, entry.subscribed, None, deadline);
                looks.add(Box::pin(look)).await;
            }
        }
        let turns = looks.all().await;
        self.tell(turns, Vec::new()).await
    }

    /// Takes the bucket out, to be looked at, where so many are out already; or takes over
    /// what an earlier stream has left of it, or makes it. `None` if there are too many.
    async fn taken_or_new(
        &mut self,
        bucket: &Arc<Bucket>,
        taken: usize,
        deadline: Instant,
    ) -> Option<(Arc<Bucket>, Subscribed)> {
        if let Some((bucket, entry)) = self.buckets.remove_entry(bucket) {
            let due = (entry.due, bucket);
            self.due.remove(&due);
            return Some((due.1, entry.subscribed));
        }
        let quotas = self.shared.gateway.quotas();
        if self.buckets.len() + taken >= MAX_BUCKETS {
            quotas.too_many();
            return None;
        }
        let services = &self.shared.services;
        let parked = quotas.parked();
        if let Some(mut subscribed) = parked.taken_over(bucket) {
            subscribed.resume();
            return Some((Arc::clone(bucket), subscribed));
        }
        let mut seat = quotas.seat();
        // Where there is no room, what is parked makes it.
        while seat.is_none()
            && let Some((bucket, subscribed)) = parked.first()
        {
            subscribed.end(services, &bucket, deadline).await;
            seat = quotas.seat();
        }
        if seat.is_none() {
            quotas.too_many();
        }
        let subscribed = Subscribed::new(seat?, services.clock.now());
        Some((Arc::clone(bucket), subscribed))
    }

    /// Puts the buckets back that were looked at, and tells the gateway what is new, after
    /// these `words`.
    async fn tell(&mut self, turns: Vec<Turn>, mut words: Vec<Word>) -> Result<(), Gone> {
        self.put_back(turns, &mut words);
        let mut bucket_action = Vec::new();
        for word in words {
            // What is told of one bucket belongs together.
            if bucket_action.len() + word.len() > MAX_ACTIONS {
                let bucket_action = std::mem::take(&mut bucket_action);
                let response = RateLimitQuotaResponse { bucket_action };
                self.send(Ok(response)).await?;
            }
            bucket_action.extend(word);
        }
        if bucket_action.is_empty() {
            return Ok(());
        }
        self.send(Ok(RateLimitQuotaResponse { bucket_action }))
            .await
    }

    fn put_back(&mut self, turns: Vec<Turn>, words: &mut Vec<Word>) {
        let now = self.shared.services.clock.now();
        let observer = &self.shared.services.observer;
        for (bucket, subscribed, looked) in turns.into_iter().flatten() {
            let Looked::Told {
                assignment,
                is_new,
                time_to_live,
                again,
            } = looked
            else {
                observer.assigned(None);
                words.push(Word::from_iter([abandoned(&bucket)]));
                continue;
            };
            if let Some(assignment) = assignment {
                observer.assigned(Some(assignment));
                words.push(if is_new {
                    assigned_anew(&bucket, assignment, time_to_live)
                } else {
                    Word::from_iter([assigned(&bucket, assignment, time_to_live)])
                });
            }
            let due = now.after(again);
            self.due.insert((due, Arc::clone(&bucket)));
            self.buckets.insert(bucket, Entry { subscribed, due });
        }
    }

    async fn send(&self, told: Told) -> Result<(), Gone> {
        let patience = self.shared.config.request_timeout;
        match timeout(patience, self.answers.send(told)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Gone),
            Err(_) => {
                let observer = &self.shared.services.observer;
                observer.bad_request(Door::Grpc, BadKind::Slow);
                Err(Gone)
            }
        }
    }

    fn until_due(&self) -> Duration {
        let now = self.shared.services.clock.now();
        let due = self.due.first().map(|(due, _)| due.since(now));
        due.map_or(LONGEST, |due| due.min(LONGEST)).into()
    }

    /// Parks the buckets, and gives back what those hold that cannot be parked.
    async fn park(self) {
        let services = &self.shared.services;
        let parked = self.shared.gateway.quotas().parked();
        let deadline = Instant::now() + PATIENCE;
        let left = self.buckets.into_iter().filter_map(|(bucket, entry)| {
            let subscribed = entry.subscribed;
            match subscribed.spends_until() {
                Some(until) => parked.park(bucket, subscribed, until),
                None => Some((bucket, subscribed)),
            }
        });
        let ends = left.map(|(bucket, subscribed)| async move {
            subscribed.end(services, &bucket, deadline).await;
        });
        join_all(ends).await;
    }
}

async fn look(
    shared: &Shared,
    bucket: Arc<Bucket>,
    mut subscribed: Subscribed,
    reported: Option<(u64, u64)>,
    deadline: Instant,
) -> Turn {
    let services = &shared.services;
    let looked = subscribed.look(services, &bucket, reported, deadline).await;
    Some((bucket, subscribed, looked))
}

/// Looks at buckets one after the other, and lets those wait together that must ask the store.
#[derive(Default)]
struct Looks<'l> {
    done: Vec<Turn>,
    waiting: Vec<BoxFuture<'l, Turn>>,
}

impl<'l> Looks<'l> {
    async fn add(&mut self, mut look: BoxFuture<'l, Turn>) {
        match poll_immediate(&mut look).await {
            Some(turn) => self.done.push(turn),
            None => self.waiting.push(look),
        }
    }

    async fn all(mut self) -> Vec<Turn> {
        self.done.extend(join_all(self.waiting).await);
        self.done
    }
}
