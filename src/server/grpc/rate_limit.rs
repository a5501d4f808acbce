use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either};
use hyper::body::Incoming;
use hyper::{Request, Response};
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Request as Call, Response as Answer, Status};

use super::codec::Messages;
use super::hits;
use crate::engine::{Begun, Pending};
use crate::protocol::grpc::messages::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse,
};
use crate::protocol::grpc::{Answers, Asked, Check, Headers, Hits, MAX_MESSAGE, timeout};
use crate::server::observer::{Door, Waiting};
use crate::server::waiting::ask_all_within;
use crate::server::{Services, Shared};
use crate::units::{Cost, Timestamp};

/// The part of its caller's patience that a call does not spend on the store, and the most of
/// it: the answer must still find its way back.
const MARGIN: (u32, Duration) = (5, Duration::from_millis(5));

/// Answers one call of `ShouldRateLimit`.
pub(super) async fn respond(request: Request<Incoming>, shared: Arc<Shared>) -> Response<Body> {
    let mut grpc = Grpc::new(Messages).max_decoding_message_size(MAX_MESSAGE);
    grpc.unary(ShouldRateLimit(shared), request).await
}

struct ShouldRateLimit(Arc<Shared>);

type Decided = Result<Answer<RateLimitResponse>, Status>;

impl UnaryService<RateLimitRequest> for ShouldRateLimit {
    type Response = RateLimitResponse;
    type Future = Either<Ready<Decided>, BoxFuture<'static, Decided>>;

    fn call(&mut self, call: Call<RateLimitRequest>) -> Self::Future {
        let patience = patience(&call);
        let request = call.into_inner();
        match begin(&request, &self.0) {
            Err(status) => Either::Left(ready(Err(status))),
            Ok((answers, waiting)) if waiting.is_empty() => {
                Either::Left(ready(finish(answers)))
            }
            Ok((answers, waiting)) => {
                let shared = Arc::clone(&self.0);
                let later = settle(request, answers, waiting, shared, patience);
                Either::Right(Box::pin(later))
            }
        }
    }
}

/// Checks that wait for the store, and their places.
type Unsettled = Vec<(usize, Box<Pending>)>;

/// How long the store may be waited for; `None` where the caller waits for ever.
fn patience(call: &Call<RateLimitRequest>) -> Option<Duration> {
    let stated = call.metadata().get("grpc-timeout")?.to_str().ok()?;
    let stated = timeout(stated)?;
    let (part, most) = MARGIN;
    Some(stated.saturating_sub(most.min(stated / part)))
}

/// Decides what can be decided here: one reading of the clock, one snapshot of the rules.
fn begin(request: &RateLimitRequest, shared: &Shared) -> Result<(Answers, Unsettled), Status> {
    let services = &shared.services;
    let asked = Asked::read(request).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let began = services.clock.local();
    let now = services.clock.to_fleet(began);
    let mut snapshot = services.engine.snapshot();
    if !snapshot.rules().has_domain(asked.domain()) {
        shared.gateway.unknown(asked.domain());
        services.observer.unknown_domain();
        if snapshot.rules().strict_domains() {
            return Err(Status::not_found("no rule is for this domain"));
        }
    }
    let telling = shared.config.grpc_telling;
    if telling.headers == Headers::All {
        snapshot = snapshot.telling_all();
    }
    let checks = asked.checks();
    let decided = checks.len();
    let mut answers = Answers::new(decided, telling);
    let mut waiting = Unsettled::new();
    for (place, check) in checks.enumerate() {
        let cost = first(check, services, now);
        match check.ask(cost, |request| snapshot.begin(request, now)) {
            Begun::Decided(decision) => {
                services.observer.decided(Door::Grpc, &decision);
                hits::beyond(&check, &decision, services, now);
                answers.set(place, &decision);
            }
            Begun::Pending(pending) => waiting.push((place, pending)),
        }
    }
    let span = services.clock.local().since(began);
    let decided = decided - waiting.len();
    services.observer.timed(Door::Grpc, span, decided as u64);
    Ok((answers, waiting))
}

/// What is asked of the check's limit, after what comes back has come back.
fn first(check: Check<'_>, services: &Services, now: Timestamp) -> Cost {
    match check.hits() {
        Hits::Asked(cost) | Hits::Used(cost) => cost,
        Hits::Returned(cost) => {
            hits::refund(&check, cost, services, now);
            Cost::ZERO
        }
    }
}

/// Waits for the store, as long as the caller does, and decides the rest.
async fn settle(
    request: RateLimitRequest,
    mut answers: Answers,
    mut waiting: Unsettled,
    shared: Arc<Shared>,
    patience: Option<Duration>,
) -> Decided {
    let services = &shared.services;
    // Dropped with this future, where the caller does not wait for the end.
    let counted = Waiting::new(&services.observer);
    let asked = Asked::read(&request).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let checks = waiting.iter().map(|(_, check)| &**check);
    let said = ask_all_within(services, checks, patience).await;
    counted.answered();
    let now = services.clock.now();
    for ((place, pending), said) in waiting.iter_mut().zip(said) {
        let decision = pending.settle(&services.engine, said, now);
        services.observer.decided(Door::Grpc, &decision);
        if let Some(check) = asked.checks().nth(*place) {
            hits::beyond(&check, &decision, services, now);
        }
        answers.set(*place, &decision);
    }
    finish(answers)
}

fn finish(answers: Answers) -> Decided {
    match answers.finish() {
        Ok(response) => Ok(Answer::new(response)),
        Err(lost) => Err(Status::unavailable(lost.to_string())),
    }
}
