//! What is observed of gateways that decide by assignments.

use metrics::{Gauge, counter, gauge};

use super::Observer;
use crate::engine::DescribedLimit;
use crate::names;
use crate::policy::assignment::Assignment;

/// Why a report or a stream gets no assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum LeftOut {
    /// There are as many buckets as there may be.
    Buckets,
    /// There are as many streams as there may be.
    Streams,
    /// The bucket is too long, or no text.
    Unusable,
}

impl LeftOut {
    const fn name(self) -> &'static str {
        match self {
            LeftOut::Buckets => "buckets",
            LeftOut::Streams => "streams",
            LeftOut::Unusable => "unusable",
        }
    }
}

impl Observer {
    /// Counts so many reports, or streams, without an assignment.
    pub(in crate::server) fn left_out(&self, why: LeftOut, how_many: usize) {
        if how_many > 0 {
            counter!(names::QUOTA_LEFT_OUT, "reason" => why.name()).increment(how_many as u64);
        }
    }

    /// Counts what became of requests of a bucket by the assignment of before; `limit` is the
    /// one that decides now.
    pub(in crate::server) fn quota_reported(
        &self,
        limit: Option<&DescribedLimit<'_>>,
        allowed: u64,
        denied: u64,
    ) {
        counter!(names::QUOTA_REPORTS).increment(1);
        for (outcome, requests) in [("allowed", allowed), ("denied", denied)] {
            if requests > 0 {
                counter!(
                    names::QUOTA_REQUESTS,
                    "rule" => limit.map_or("", |limit| limit.rule).to_owned(),
                    "limit" => limit.map_or("", |limit| limit.name).to_owned(),
                    "outcome" => outcome,
                )
                .increment(requests);
            }
        }
    }

    /// Counts an assignment that is sent; `None` is the word that there will be none.
    pub(in crate::server) fn assigned(&self, assignment: Option<Assignment>) {
        let kind = match assignment {
            None => "abandon",
            Some(Assignment::AllowAll) => "allow_all",
            Some(Assignment::DenyAll) => "deny_all",
            Some(Assignment::Bucket { .. }) => "token_bucket",
        };
        counter!(names::QUOTA_ASSIGNMENTS, "kind" => kind).increment(1);
    }
}

/// What there is now of subscribers.
#[derive(Clone)]
pub(in crate::server) struct QuotaGauges {
    subscribers: Gauge,
    counters: Gauge,
    held: Gauge,
}

impl QuotaGauges {
    /// The metrics recorder must be installed before.
    pub(in crate::server) fn new() -> QuotaGauges {
        QuotaGauges {
            subscribers: gauge!(names::QUOTA_SUBSCRIBERS),
            counters: gauge!(names::QUOTA_COUNTERS),
            held: gauge!(names::QUOTA_HELD),
        }
    }

    /// So many subscribers draw on so many counters, and hold so much together.
    #[allow(clippy::cast_precision_loss)]
    pub(in crate::server) fn set(&self, subscribers: usize, counters: usize, held: u64) {
        self.subscribers.set(subscribers as f64);
        self.counters.set(counters as f64);
        self.held.set(held as f64);
    }
}
