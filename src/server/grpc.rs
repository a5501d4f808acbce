//! One connection of the gRPC door, and whom its calls go to.

mod codec;
mod connection;
mod gateway;
mod health;
mod quota;
mod rate_limit;
mod streams;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic::{Code, Status};
use tonic_health::pb::health_server::{HealthServer, SERVICE_NAME as HEALTH};

use super::Shared;
use super::observer::{BadKind, Door};
use crate::protocol::grpc::SHOULD_RATE_LIMIT;
use crate::protocol::grpc::quota::STREAM_QUOTAS;
use health::OwnHealth;

pub(super) use gateway::Gateway;

/// What a client is told that comes when all places are taken: settings, as HTTP/2 wants
/// them first, and GOAWAY because of too many.
pub(super) const TOO_MANY_CLIENTS: &[u8] = &[
    0, 0, 0, 4, 0, 0, 0, 0, 0, // SETTINGS, empty
    0, 0, 8, 7, 0, 0, 0, 0, 0, // GOAWAY
    0, 0, 0, 0, 0, 0, 0, 11, // no stream was seen; ENHANCE_YOUR_CALM
];

/// A response under way.
type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Answers the calls of `stream` until it ends or `stop` is done and the calls in hand are
/// answered.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    shared: Arc<Shared>,
    stop: impl Future<Output = ()>,
) {
    // Calls without an end of their own learn of it here.
    let (ending, ended) = watch::channel(false);
    let called = Arc::clone(&shared);
    let service = move |request: Request<Incoming>| {
        let answering = respond(request, Arc::clone(&called), ended.clone());
        async move { Ok::<_, Infallible>(answering.await) }
    };
    let served = connection::drive(stream, service, &shared, &ending, stop).await;
    if let Err(kind) = served {
        shared.services.observer.bad_request(Door::Grpc, kind);
    }
}

async fn respond(
    request: Request<Incoming>,
    shared: Arc<Shared>,
    ended: watch::Receiver<bool>,
) -> Response<Body> {
    let patience = shared.config.request_timeout;
    if request.uri().path() == SHOULD_RATE_LIMIT {
        let answering = rate_limit::respond(request, Arc::clone(&shared));
        return match timeout(patience, answering).await {
            Ok(response) => judged(response, &shared),
            Err(_) => {
                shared
                    .services
                    .observer
                    .bad_request(Door::Grpc, BadKind::Slow);
                Status::deadline_exceeded("the message did not come in time").into_http()
            }
        };
    }
    if request.uri().path() == STREAM_QUOTAS {
        return quota::respond(request, shared, ended).await;
    }
    let Some(answering) = beside(request, &shared, ended) else {
        return Status::unimplemented("there is no such method").into_http();
    };
    match timeout(patience, answering).await {
        Ok(response) => response,
        Err(_) => Status::deadline_exceeded("the message did not come in time").into_http(),
    }
}

/// The services beside the one that counts.
fn beside(
    request: Request<Incoming>,
    shared: &Arc<Shared>,
    ended: watch::Receiver<bool>,
) -> Option<Answering> {
    let (service, _) = request.uri().path().strip_prefix('/')?.split_once('/')?;
    if service == HEALTH {
        let mut health = HealthServer::new(OwnHealth {
            readiness: shared.services.readiness.clone(),
            ended,
        });
        return Some(Box::pin(async move {
            health
                .call(request)
                .await
                .unwrap_or_else(|never| match never {})
        }));
    }
    shared
        .gateway
        .reflection(service)
        .map(|reflect| reflect(request))
}

/// The response, whose status is put right and observed.
fn judged(mut response: Response<Body>, shared: &Shared) -> Response<Body> {
    // What is answered with a message has its status behind that.
    let Some(status) = Status::from_header_map(response.headers()) else {
        return response;
    };
    let kind = match status.code() {
        // gRPC's own word for too long a message is another one than everybody expects.
        Code::OutOfRange => {
            let too_large = Status::resource_exhausted(status.message());
            response = too_large.into_http();
            BadKind::Size
        }
        Code::InvalidArgument => BadKind::Content,
        Code::Internal => BadKind::Framing,
        _ => return response,
    };
    shared.services.observer.bad_request(Door::Grpc, kind);
    response
}
