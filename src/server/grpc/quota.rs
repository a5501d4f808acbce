//! The streams of gateways that decide by assignments.

mod bucket;
mod counted;
mod parked;
mod registry;
mod session;

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tonic::body::Body;
use tonic::server::{Grpc, StreamingService};
use tonic::{Request as Call, Response as Answer, Status, Streaming};

use super::codec::Messages;
use crate::protocol::grpc::messages::envoy::service::rate_limit_quota::v3::RateLimitQuotaResponse;
use crate::protocol::grpc::quota::{MAX_REPORTS, Reports};
use crate::server::Shared;
use crate::server::observer::LeftOut;
use crate::units::Nanos;
use session::Session;

pub(super) use registry::Quotas;

/// How long the looks of one turn wait for the store together. Limits that are not answered
/// go by their policy.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest sleep: the fleet's clock may be put forward meanwhile.
const LONGEST: Nanos = Nanos::from_secs(60);

/// Answers one call of `StreamRateLimitQuotas`, which lasts until the gateway ends it or
/// `ended` says so.
pub(super) async fn respond(
    request: Request<Incoming>,
    shared: Arc<Shared>,
    ended: watch::Receiver<bool>,
) -> Response<Body> {
    let Some(place) = shared.gateway.quotas().stream() else {
        shared.services.observer.left_out(LeftOut::Streams, 1);
        return Status::resource_exhausted("there are too many streams of reports").into_http();
    };
    let stream = StreamQuotas {
        shared,
        ended,
        place: Some(place),
    };
    let mut grpc = Grpc::new(Messages::new()).max_decoding_message_size(MAX_REPORTS);
    grpc.streaming(stream, request).await
}

struct StreamQuotas {
    shared: Arc<Shared>,
    ended: watch::Receiver<bool>,
    /// For the one call.
    place: Option<OwnedSemaphorePermit>,
}

type Told = Result<RateLimitQuotaResponse, Status>;
type Answers = Pin<Box<dyn Stream<Item = Told> + Send>>;

impl StreamingService<Reports> for StreamQuotas {
    type Response = RateLimitQuotaResponse;
    type ResponseStream = Answers;
    type Future = Ready<Result<Answer<Answers>, Status>>;

    fn call(&mut self, call: Call<Streaming<Reports>>) -> Self::Future {
        let (sender, receiver) = mpsc::channel(1);
        let session = Session::new(Arc::clone(&self.shared), sender);
        let (ended, place) = (self.ended.clone(), self.place.take());
        let shared = Arc::clone(&self.shared);
        // In a task of its own: what is held goes back although the connection is gone.
        self.shared.gateway.quotas().spawn(async move {
            session.run(call.into_inner(), ended).await;
            drop(place);
            let quotas = shared.gateway.quotas();
            quotas.parked().keep(&shared.services).await;
        });
        let answers = stream::unfold(receiver, |mut receiver| async move {
            let told = receiver.recv().await?;
            Some((told, receiver))
        });
        ready(Ok(Answer::new(Box::pin(answers))))
    }
}
