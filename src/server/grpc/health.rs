use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tonic::{Request, Response, Status, async_trait};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::protocol::grpc::SERVICE;
use crate::protocol::grpc::quota::QUOTA_SERVICE;
use crate::server::{Readiness, told};

/// How often those who watch are told of changes, at most.
const TICK: Duration = Duration::from_millis(250);

/// gRPC's own health service: serving means ready.
pub(super) struct OwnHealth {
    pub(super) readiness: Readiness,
    /// Says that the connection ends.
    pub(super) ended: watch::Receiver<bool>,
}

fn status(service: &str, readiness: &Readiness) -> ServingStatus {
    match service {
        "" | SERVICE | QUOTA_SERVICE if readiness.is_ready() => ServingStatus::Serving,
        "" | SERVICE | QUOTA_SERVICE => ServingStatus::NotServing,
        _ => ServingStatus::ServiceUnknown,
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}

#[async_trait]
impl Health for OwnHealth {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match status(&request.get_ref().service, &self.readiness) {
            ServingStatus::ServiceUnknown => Err(Status::not_found("there is no such service")),
            status => Ok(Response::new(response(status))),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let service = request.into_inner().service;
        let (readiness, ended) = (self.readiness.clone(), self.ended.clone());
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let changes = stream::unfold((ticks, None), move |(mut ticks, said)| {
            let (service, readiness) = (service.clone(), readiness.clone());
            let ended = ended.clone();
            async move {
                let mut end = std::pin::pin!(told(ended));
                loop {
                    tokio::select! {
                        biased;
                        () = &mut end => return None,
                        _ = ticks.tick() => {}
                    }
                    let now = status(&service, &readiness);
                    if said != Some(now) {
                        return Some((Ok(response(now)), (ticks, Some(now))));
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }
}
