use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, join};
use hyper::body::Incoming;
use hyper::{Request, Response};
use smallvec::SmallVec;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Request as Call, Response as Answer, Status};

use super::codec::Messages;
use crate::engine::{Begun, Decision, Entry, Pending, Request as Ask, Snapshot, Subject};
use crate::protocol::grpc::messages::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse,
};
use crate::protocol::grpc::{Answers, Asked, Check, Entries, Headers, Hits, MAX_MESSAGE, timeout};
use crate::rules::Descriptor;
use crate::server::observer::Door;
use crate::server::waiting::{ask_all_until, tell_all};
use crate::server::{Services, Shared};
use crate::units::{Cost, Timestamp};

/// The part of its caller's patience that a call does not spend on the store, and the most of
/// it: the answer must still find its way back.
const MARGIN: (u32, Duration) = (5, Duration::from_millis(5));

/// Answers one call of `ShouldRateLimit`.
pub(super) async fn respond(request: Request<Incoming>, shared: Arc<Shared>) -> Response<Body> {
    let mut grpc = Grpc::new(Messages::new()).max_decoding_message_size(MAX_MESSAGE);
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
            Ok((answers, waiting)) if waiting.is_empty() => Either::Left(ready(finish(answers))),
            Ok((answers, waiting)) => {
                let deadline = patience.map(|patience| Instant::now() + patience);
                let shared = Arc::clone(&self.0);
                let later = settle(request, answers, waiting, shared, deadline);
                Either::Right(Box::pin(later))
            }
        }
    }
}

/// How long the store may be waited for; `None` where the caller waits for ever, or longer
/// than anything here takes.
fn patience(call: &Call<RateLimitRequest>) -> Option<Duration> {
    const EVER: Duration = Duration::from_secs(3_600);
    let stated = call.metadata().get("grpc-timeout")?.to_str().ok()?;
    let stated = timeout(stated).filter(|stated| *stated < EVER)?;
    let (part, most) = MARGIN;
    Some(stated.saturating_sub(most.min(stated / part)))
}

/// What waits for the store.
struct Unsettled {
    /// Of which descriptor.
    place: usize,
    pending: Box<Pending>,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    /// A check; what it was used for is counted if it is refused.
    Check { used: Option<Cost> },
    /// What comes back.
    Refund,
    /// What was used already, and is not asked about any more.
    Beyond,
}

/// What one call works with.
struct Deciding<'s> {
    services: &'s Services,
    snapshot: Snapshot<'s>,
    now: Timestamp,
}

impl Deciding<'_> {
    /// Decides one descriptor, or begins to: what must ask the store goes to `waiting`.
    fn decide(
        &self,
        (place, check): (usize, Check<'_>),
        descriptor: Descriptor<'_>,
        answers: &mut Answers,
        waiting: &mut Vec<Unsettled>,
    ) {
        let ask = |cost| Ask {
            subject: Subject::Descriptor(descriptor),
            cost,
        };
        let (begun, what) = match check.hits() {
            Hits::Asked(cost) => {
                let begun = self.snapshot.begin(&ask(cost), self.now);
                (begun, What::Check { used: None })
            }
            Hits::Used(cost) => {
                let begun = self.snapshot.begin(&ask(cost), self.now);
                (begun, What::Check { used: Some(cost) })
            }
            Hits::Returned(cost) => {
                let begun = self.snapshot.report(&ask(cost), Entry::Refund, self.now);
                (begun, What::Refund)
            }
        };
        match begun {
            Begun::Decided(decision) => {
                let beyond = said(self.services, place, what, &decision, answers);
                waiting.extend(beyond.and_then(|cost| self.beyond(place, descriptor, cost)));
            }
            Begun::Pending(pending) => waiting.push(Unsettled {
                place,
                pending,
                what,
            }),
        }
    }

    /// Counts what was used although it was refused: there is no way to undo it.
    fn beyond(&self, place: usize, descriptor: Descriptor<'_>, cost: Cost) -> Option<Unsettled> {
        let ask = Ask {
            subject: Subject::Descriptor(descriptor),
            cost,
        };
        match self.snapshot.report(&ask, Entry::Charge, self.now) {
            Begun::Decided(decision) => {
                self.services.observer.reported(Door::Grpc, &decision);
                None
            }
            Begun::Pending(pending) => Some(Unsettled {
                place,
                pending,
                what: What::Beyond,
            }),
        }
    }
}

/// Observes a decision, and sets the answer. Answers what is to be counted all the same.
fn said(
    services: &Services,
    place: usize,
    what: What,
    decision: &Decision<'_>,
    answers: &mut Answers,
) -> Option<Cost> {
    match what {
        What::Check { used } => {
            services.observer.decided(Door::Grpc, decision);
            answers.set(place, decision);
            used.filter(|_| !decision.outcome.is_allowed())
        }
        What::Refund => {
            services.observer.reported(Door::Grpc, decision);
            answers.set(place, decision);
            None
        }
        What::Beyond => {
            services.observer.reported(Door::Grpc, decision);
            None
        }
    }
}

/// Decides what can be decided here: one reading of the clock, one snapshot of the rules.
fn begin(request: &RateLimitRequest, shared: &Shared) -> Result<(Answers, Vec<Unsettled>), Status> {
    let services = &shared.services;
    let asked = asked(request)?;
    let began = services.clock.local();
    let mut deciding = Deciding {
        services,
        snapshot: services.engine.snapshot(),
        now: services.clock.to_fleet(began),
    };
    if !deciding.snapshot.rules().has_domain(asked.domain()) {
        shared.gateway.unknown(asked.domain());
        services.observer.unknown_domain();
        if deciding.snapshot.rules().strict_domains() {
            return Err(Status::not_found("no rule is for this domain"));
        }
    }
    let telling = shared.config.grpc_telling;
    if telling.headers == Headers::All {
        deciding.snapshot = deciding.snapshot.telling_all();
    }
    let checks: SmallVec<[Check<'_>; 4]> = asked.checks().collect();
    let entries: SmallVec<[Entries<'_>; 4]> = checks.iter().map(Check::entries).collect();
    let described = checks.iter().zip(&entries);
    let descriptors: SmallVec<[Descriptor<'_>; 4]> = described
        .map(|(check, entries)| check.descriptor(entries))
        .collect();
    let rules = deciding.snapshot.rules();
    let replaced = rules.replaced(&descriptors);
    let mut answers = Answers::new(checks.len(), telling);
    let mut waiting = Vec::new();
    for (place, (check, descriptor)) in checks.iter().zip(&descriptors).enumerate() {
        if replaced.contains(&place) {
            continue;
        }
        if let Some(rule) = rules.matched(descriptor) {
            answers.matched(place, &rule);
        }
        deciding.decide((place, *check), *descriptor, &mut answers, &mut waiting);
    }
    let span = services.clock.local().since(began);
    let decided = checks.len().saturating_sub(waiting.len());
    services.observer.timed(Door::Grpc, span, decided as u64);
    Ok((answers, waiting))
}

/// Waits for the store, as long as the caller does, and decides the rest.
async fn settle(
    request: RateLimitRequest,
    mut answers: Answers,
    waiting: Vec<Unsettled>,
    shared: Arc<Shared>,
    deadline: Option<Instant>,
) -> Decided {
    let services = &shared.services;
    // Dropped with this future, where the caller does not wait for the end.
    let under_way = services.observer.under_way();
    let beyond = ask(services, &mut answers, waiting, deadline).await;
    if !beyond.is_empty() {
        let more = still_counted(&request, services, &beyond)?;
        ask(services, &mut answers, more, deadline).await;
    }
    under_way.answered();
    finish(answers)
}

/// Asks the store, and sets the answers. Answers what is to be counted all the same: of which
/// descriptors, and how much.
async fn ask(
    services: &Services,
    answers: &mut Answers,
    waiting: Vec<Unsettled>,
    deadline: Option<Instant>,
) -> Vec<(usize, Cost)> {
    let is_check = |one: &Unsettled| matches!(one.what, What::Check { .. });
    let (mut checks, mut records): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_check);
    let questions = checks.iter().map(|one| one.pending.question());
    let asking = ask_all_until(services, questions, deadline);
    let questions = records.iter().map(|one| one.pending.question().clone());
    let telling = tell_all(services, questions.collect());
    let (ruled, recorded) = join(asking, telling).await;
    let now = services.clock.now();
    let mut beyond = Vec::new();
    let ruled = checks.iter_mut().zip(ruled);
    for (one, ruling) in ruled.chain(records.iter_mut().zip(recorded)) {
        let decision = one.pending.settle(&services.engine, ruling, now);
        let counted = said(services, one.place, one.what, &decision, answers);
        beyond.extend(counted.map(|cost| (one.place, cost)));
    }
    beyond
}

/// Counts what was used of the descriptors at these places, or begins to.
fn still_counted(
    request: &RateLimitRequest,
    services: &Services,
    beyond: &[(usize, Cost)],
) -> Result<Vec<Unsettled>, Status> {
    let deciding = Deciding {
        services,
        snapshot: services.engine.snapshot(),
        now: services.clock.now(),
    };
    let asked = asked(request)?;
    let counted = beyond.iter().filter_map(|(place, cost)| {
        let check = asked.checks().nth(*place)?;
        let entries = check.entries();
        deciding.beyond(*place, check.descriptor(&entries), *cost)
    });
    Ok(counted.collect())
}

fn asked(request: &RateLimitRequest) -> Result<Asked<'_>, Status> {
    Asked::read(request).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn finish(answers: Answers) -> Decided {
    match answers.finish() {
        Ok(response) => Ok(Answer::new(response)),
        Err(lost) => Err(Status::unavailable(lost.to_string())),
    }
}

#[cfg(test)]
mod tests;
