//! The streams of gateways that decide by assignments.

mod bucket;
mod counted;
mod registry;
mod session;

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;

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
use session::Session;

pub(super) use registry::Quotas;

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
        // In a task of its own: what is held goes back although the connection is gone.
        self.shared.gateway.quotas().spawn(async move {
            let _place = place;
            session.run(call.into_inner(), ended).await;
        });
        let answers = stream::unfold(receiver, |mut receiver| async move {
            let told = receiver.recv().await?;
            Some((told, receiver))
        });
        ready(Ok(Answer::new(Box::pin(answers))))
    }
}
