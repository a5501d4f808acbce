use std::num::NonZeroU32;

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use tokio::sync::watch;

use super::batch::Agreement;

use super::error::{Failure, Remedy};
use super::event::Report;
use super::lane::Fate;
use super::memory::Memory;
use super::offset::Offset;
use super::standing::Standing;
use crate::counters::{Counters, HashId, Totals};
use crate::names;

/// The log lines and metrics of the sync, in one place.
pub(super) struct Observer {
    applied: Counter,
    reopened: Counter,
    replaying: Counter,
    renamed: Counter,
    deltas: Counter,
    resends: Counter,
    reopens: Counter,
    replays: Counter,
    expired: Counter,
    seconds: Histogram,
    lag: Gauge,
    up: Gauge,
    other_partitions: Gauge,
    other_secret: Gauge,
    evicts: Gauge,
    offset: Gauge,
    offset_error: Gauge,
    dirty: Gauge,
    totals: Totals,
    /// One line a minute for each class of failure.
    lines: DefaultKeyedRateLimiter<Failure>,
    /// And one of what the store evicts.
    evictions: DefaultDirectRateLimiter,
    /// Where the store is; without a password.
    address: String,
    stands: watch::Sender<Standing>,
}

impl Observer {
    /// An observer of the exchange with the store at `address`, which tells by `stands` how
    /// this node stands with it.
    pub(super) fn new(address: String, stands: watch::Sender<Standing>) -> Observer {
        let batches = |outcome: &'static str| counter!(names::SYNC_BATCHES, "outcome" => outcome);
        Observer {
            applied: batches("applied"),
            reopened: batches("reopened"),
            replaying: batches("replaying"),
            renamed: batches("renamed"),
            deltas: counter!(names::SYNC_DELTAS),
            resends: counter!(names::SYNC_RESENDS),
            reopens: counter!(names::SYNC_REOPENS),
            replays: counter!(names::SYNC_REPLAYS),
            expired: counter!(names::SYNC_EXPIRED),
            seconds: histogram!(names::SYNC_SECONDS),
            lag: gauge!(names::SYNC_LAG_SECONDS),
            up: gauge!(names::STORE_UP),
            other_partitions: gauge!(names::DISAGREEMENT, "about" => "partitions"),
            other_secret: gauge!(names::DISAGREEMENT, "about" => "key_secret"),
            evicts: gauge!(names::STORE_EVICTS),
            offset: gauge!(names::CLOCK_OFFSET_SECONDS),
            offset_error: gauge!(names::CLOCK_ERROR_SECONDS),
            dirty: gauge!(names::DIRTY),
            totals: Totals::default(),
            lines: RateLimiter::keyed(Quota::per_minute(NonZeroU32::MIN)),
            evictions: RateLimiter::direct(Quota::per_minute(NonZeroU32::MIN)),
            address,
            stands,
        }
    }

    /// There is a connection, to a server that says this of its memory.
    pub(super) fn memory(&self, memory: Option<&Memory>) {
        let policy = memory.and_then(Memory::evicting);
        self.evicts.set(if policy.is_some() { 1.0 } else { 0.0 });
        if let Some(policy) = policy
            && self.evictions.check().is_ok()
        {
            tracing::warn!(
                address = self.address,
                policy,
                "the store evicts keys when its memory is full, and with them what was counted, \
                 unnoticed; set its maxmemory-policy to noeviction"
            );
        }
    }

    fn stands(&self, standing: Standing) {
        let one_if = |is: Standing| if standing == is { 1.0 } else { 0.0 };
        self.up.set(one_if(Standing::Up));
        self.other_partitions.set(one_if(Standing::OtherPartitions));
        self.other_secret.set(one_if(Standing::OtherSecret));
        self.stands.send_replace(standing);
    }

    pub(super) fn exchange_seconds(&self) -> Histogram {
        self.seconds.clone()
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn offset(&self, offset: Offset) {
        self.offset.set(offset.nanos as f64 / 1e9);
        self.offset_error.set(offset.error.as_secs_f64());
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn cells(&mut self, counters: &Counters) {
        self.dirty.set(counters.dirty() as f64);
        let totals = counters.totals();
        self.expired
            .increment(totals.expired.saturating_sub(self.totals.expired));
        self.totals = totals;
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn report(&self, report: &Report) {
        match report {
            Report::StoreUp => {
                // Whoever has seen the metric finds the line.
                tracing::info!(address = self.address, "the store answers");
                self.stands(Standing::Up);
            }
            Report::StoreLost(failure) => {
                self.stands(Standing::Lost);
                tracing::warn!(
                    address = self.address,
                    reason = %failure,
                    "the store is lost; limits follow their on_store_loss"
                );
            }
            Report::Disagreement(Agreement::OtherPartitions(theirs)) => {
                self.stands(Standing::OtherPartitions);
                tracing::error!(
                    %theirs,
                    "this node has another number of partitions than the fleet and does not sync; \
                     limits follow their on_store_loss"
                );
            }
            Report::Disagreement(_) => {
                self.stands(Standing::OtherSecret);
                tracing::error!(
                    "this node has another key secret than the fleet and does not sync; limits \
                     follow their on_store_loss"
                );
            }
            Report::Batch(fate, deltas) => match fate {
                Fate::Applied => {
                    self.applied.increment(1);
                    self.deltas.increment(*deltas as u64);
                }
                Fate::Reopened => {
                    self.reopened.increment(1);
                    self.reopens.increment(1);
                }
                Fate::Replaying => {
                    self.replaying.increment(1);
                    self.replays.increment(1);
                }
                Fate::Renamed => self.renamed.increment(1),
            },
            Report::Resent => self.resends.increment(1),
            Report::Failed(failure) => {
                counter!(names::SYNC_ERRORS, "class" => failure.class()).increment(1);
                // What may well pass is told once, when the store is lost.
                let passes = failure.remedy() == Remedy::Again;
                if !passes && self.lines.check_key(failure).is_ok() {
                    tracing::warn!(class = failure.class(), "an exchange failed: {failure}");
                }
            }
            // There may be many.
            Report::Spoilt(HashId { partition, slot }) => {
                if self.lines.check_key(&Failure::WrongType).is_ok() {
                    tracing::warn!(
                        partition = partition.get(),
                        space = %slot.space,
                        window = slot.window.get(),
                        "a key of the fleet holds something else; its cells are counted here alone"
                    );
                }
            }
            Report::Lag(lag) => self.lag.set(lag.as_secs_f64()),
        }
    }
}
