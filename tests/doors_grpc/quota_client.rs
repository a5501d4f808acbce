//! A gateway that decides by assignments, as far as its stream goes.

use std::path::Path;
use std::time::Duration;

use futures_util::stream;
use tidegate::protocol::grpc::messages::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::BucketAction;
use tidegate::protocol::grpc::messages::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::bucket_action::BucketAction as Action;
use tidegate::protocol::grpc::messages::envoy::service::rate_limit_quota::v3::rate_limit_quota_usage_reports::BucketQuotaUsage;
use tidegate::protocol::grpc::messages::envoy::service::rate_limit_quota::v3::{
    BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports,
};
use tidegate::protocol::grpc::messages::envoy::r#type::v3::rate_limit_strategy::Strategy;
use tidegate::protocol::grpc::quota::STREAM_QUOTAS;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::client::{Client, Gate};
use crate::kit::wait_until;

/// Nothing that is waited for takes so long, on however busy a machine.
const EVER: Duration = Duration::from_secs(120);

/// A stream on a connection of its own.
pub(crate) struct Stream {
    client: Client,
    reports: UnboundedSender<RateLimitQuotaUsageReports>,
    answers: Streaming<RateLimitQuotaResponse>,
    /// What was told and not looked at.
    told: Vec<(Vec<(String, String)>, Told)>,
}

/// What the gateway is told of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    AllowAll,
    DenyAll,
    /// Capacity, tokens of a fill, and its seconds and nanoseconds.
    Bucket(u32, u32, i64, i32),
    Abandoned,
}

impl Told {
    /// The tokens of a lump: what may be used until the next word.
    pub(crate) fn lump(self) -> u64 {
        match self {
            Told::DenyAll => 0,
            Told::Bucket(tokens, 1, seconds, nanos) if seconds > 86_400 && nanos > 0 => {
                u64::from(tokens)
            }
            other => panic!("{other:?} is no lump"),
        }
    }
}

impl Stream {
    pub(crate) fn open(socket: &Path) -> Stream {
        // With a thread of its own: what is sent goes on its way although nobody waits here.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let client = Client::on(runtime, socket);
        let (reports, receiver) = unbounded_channel();
        let sent = stream::unfold(receiver, |mut receiver| async move {
            let report = receiver.recv().await?;
            // Each in a frame of its own, as Envoy sends them.
            tokio::task::yield_now().await;
            Some((report, receiver))
        });
        let mut grpc = tonic::client::Grpc::new(client.channel.clone());
        let answers = client.runtime.block_on(async {
            grpc.ready().await.unwrap();
            let codec = ProstCodec::<RateLimitQuotaUsageReports, RateLimitQuotaResponse>::default();
            let path = PathAndQuery::from_static(STREAM_QUOTAS);
            grpc.streaming(Request::new(sent), path, codec).await
        });
        Stream {
            answers: answers.unwrap().into_inner(),
            client,
            reports,
            told: Vec::new(),
        }
    }

    pub(crate) fn send(&self, reports: RateLimitQuotaUsageReports) {
        self.reports.send(reports).unwrap();
    }

    /// Reports of one bucket of the domain `shop`.
    pub(crate) fn report(&self, bucket: &[(&str, &str)], allowed: u64, denied: u64) {
        self.send(reports("shop", vec![usage(bucket, allowed, denied)]));
    }

    /// The next message.
    pub(crate) fn message(&mut self) -> Result<Option<RateLimitQuotaResponse>, Status> {
        let next = self.answers.message();
        let next = async { tokio::time::timeout(EVER, next).await };
        self.client.runtime.block_on(next).unwrap()
    }

    /// The next word of `bucket`; what is told of others is kept.
    pub(crate) fn told(&mut self, bucket: &[(&str, &str)]) -> Told {
        let wanted = id(bucket);
        loop {
            if let Some(at) = self.told.iter().position(|(bucket, _)| *bucket == wanted) {
                return self.told.remove(at).1;
            }
            let message = self.message().unwrap().unwrap();
            self.hear(message);
        }
    }

    /// Of several words of one bucket in a message the last one is the one that holds.
    fn hear(&mut self, message: RateLimitQuotaResponse) {
        let mut heard: Vec<(Vec<(String, String)>, Told)> = Vec::new();
        for (bucket, told) in message.bucket_action.into_iter().map(read) {
            heard.retain(|(other, _)| *other != bucket);
            heard.push((bucket, told));
        }
        self.told.extend(heard);
    }

    /// The last word of `bucket` that has come, if one has come since the last look.
    pub(crate) fn newest(&mut self, bucket: &[(&str, &str)]) -> Option<Told> {
        let wanted = id(bucket);
        let soon = Duration::from_millis(1);
        while let Ok(message) = self
            .client
            .runtime
            .block_on(async { tokio::time::timeout(soon, self.answers.message()).await })
        {
            self.hear(message.unwrap().unwrap());
        }
        let mut words = self.told.iter().rev();
        let newest = words.find(|(bucket, _)| *bucket == wanted);
        let newest = newest.map(|(_, told)| *told);
        self.told.retain(|(bucket, _)| *bucket != wanted);
        newest
    }

    /// Reports of one bucket, and the next word of it.
    pub(crate) fn ask(&mut self, bucket: &[(&str, &str)], allowed: u64, denied: u64) -> Told {
        self.report(bucket, allowed, denied);
        self.told(bucket)
    }

    /// Reports so often that the daemon knows how often: what it says then does not live for
    /// long.
    pub(crate) fn settle_in(&self, gate: &Gate, bucket: &[(&str, &str)]) {
        let reports = || gate.daemon.metric("tidegate_quota_reports_total", &[]);
        let before = reports();
        for _ in 0..3 {
            self.report(bucket, 0, 0);
        }
        wait_until("the reports to come", || reports() == before + 3.0);
    }

    /// Ends the stream from this side, and waits for the other one to have ended it.
    pub(crate) fn hang_up(mut self) {
        self.reports = unbounded_channel().0;
        assert_eq!(self.end(), None);
    }

    /// The code that the stream ends with.
    pub(crate) fn end(&mut self) -> Option<tonic::Code> {
        loop {
            match self.message() {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(status) => return Some(status.code()),
            }
        }
    }
}

fn id(bucket: &[(&str, &str)]) -> Vec<(String, String)> {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let mut id: Vec<_> = bucket.iter().map(pair).collect();
    id.sort();
    id
}

pub(crate) fn reports(domain: &str, usages: Vec<BucketQuotaUsage>) -> RateLimitQuotaUsageReports {
    RateLimitQuotaUsageReports {
        domain: domain.to_owned(),
        bucket_quota_usages: usages,
    }
}

pub(crate) fn usage(bucket: &[(&str, &str)], allowed: u64, denied: u64) -> BucketQuotaUsage {
    BucketQuotaUsage {
        bucket_id: Some(BucketId {
            bucket: id(bucket).into_iter().collect(),
        }),
        time_elapsed: None,
        num_requests_allowed: allowed,
        num_requests_denied: denied,
    }
}

fn read(action: BucketAction) -> (Vec<(String, String)>, Told) {
    let bucket = action.bucket_id.unwrap().bucket.into_iter().collect();
    let told = match action.bucket_action.unwrap() {
        Action::AbandonAction(_) => Told::Abandoned,
        Action::QuotaAssignmentAction(assigned) => {
            let lives = assigned.assignment_time_to_live.unwrap();
            assert!(lives.seconds >= 1 && lives.nanos == 0, "{lives:?}");
            match assigned.rate_limit_strategy.unwrap().strategy.unwrap() {
                Strategy::BlanketRule(0) => Told::AllowAll,
                Strategy::BlanketRule(_) => Told::DenyAll,
                Strategy::TokenBucket(bucket) => {
                    let fill = bucket.fill_interval.unwrap();
                    assert!(fill.seconds >= 1 && bucket.max_tokens >= 1);
                    let tokens = bucket.tokens_per_fill.unwrap();
                    Told::Bucket(bucket.max_tokens, tokens, fill.seconds, fill.nanos)
                }
            }
        }
    };
    (bucket, told)
}
