//! One connection of the HTTP door, and what it answers.

mod connection;

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use super::observer::{BadKind, Door};
use super::waiting::{ask, ask_all, tell_all};
use super::{Services, Shared};
use crate::engine::{Begun, Decision, Entry, Settling, Snapshot, Unanswered};
use crate::protocol::headers::FieldName;
use crate::protocol::http::{
    Answer, Asked, BadRequest, Check, Deny, MAX_BATCH_BODY, MAX_BODY, Reply, Settle,
};
use crate::units::Timestamp;

use connection::is_timeout;

pub(super) use connection::drive;

/// What a client is told that comes when all places are taken.
pub(super) const TOO_MANY_CLIENTS: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/json\r\ncontent-length: 83\r\nretry-after: 1\r\n\
    connection: close\r\n\r\n\
    {\"error\":\"too_many_connections\",\"message\":\"all connections are taken; retry later\"}";

/// The name of a field as HTTP has it.
const fn header_name(name: FieldName) -> HeaderName {
    match name {
        FieldName::XLimit => HeaderName::from_static("x-ratelimit-limit"),
        FieldName::XRemaining => HeaderName::from_static("x-ratelimit-remaining"),
        FieldName::XReset => HeaderName::from_static("x-ratelimit-reset"),
        FieldName::Policy => HeaderName::from_static("ratelimit-policy"),
        FieldName::RateLimit => HeaderName::from_static("ratelimit"),
        FieldName::RetryAfter => header::RETRY_AFTER,
        FieldName::Warning => HeaderName::from_static("x-ratelimit-warning"),
        FieldName::Expose => header::ACCESS_CONTROL_EXPOSE_HEADERS,
        FieldName::Status => HeaderName::from_static("x-ratelimit-status"),
        FieldName::Body => HeaderName::from_static("x-ratelimit-body"),
    }
}

/// Answers the requests of `stream`, from a peer with the address `peer`, until it
/// ends or `stop` is done and the request in hand is answered.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Option<IpAddr>,
    shared: Arc<Shared>,
    stop: impl Future<Output = ()>,
) {
    let service = service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(respond(request, peer, &shared).await) }
    });
    if let Err(kind) = drive(stream, service, &shared.config, stop).await {
        shared.services.observer.bad_request(Door::Http, kind);
    }
}

async fn respond(
    request: Request<Incoming>,
    peer: Option<IpAddr>,
    shared: &Shared,
) -> Response<Full<Bytes>> {
    let asks = match request.uri().path() {
        "/v1/check" => Asks::Check,
        "/v1/report" => Asks::Report,
        "/v1/settle" => Asks::Settle,
        "/v1/authorize" => return authorize(&request, peer, shared).await,
        _ => {
            let message = "ask with POST /v1/check, /v1/report or /v1/settle, or by /v1/authorize";
            return response(Reply::error(404, "not_found", message));
        }
    };
    if request.method() != Method::POST {
        let reply = Reply::error(405, "method_not_allowed", "ask with POST");
        let mut response = response(reply);
        let allow = HeaderValue::from_static("POST");
        response.headers_mut().insert(header::ALLOW, allow);
        return response;
    }
    match body(request.into_body(), shared).await {
        Ok(body) => response(match asks {
            Asks::Check => check(&body, Kind::Check, peer, shared).await,
            Asks::Report => check(&body, Kind::Report, peer, shared).await,
            Asks::Settle => settle(&body, shared).await,
        }),
        Err((kind, reply)) => {
            shared.services.observer.bad_request(Door::Http, kind);
            // What is left of the body is not worth reading.
            let mut response = response(reply);
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
            response
        }
    }
}

/// Decides what the head of a request describes; a gateway sends nothing else.
async fn authorize(
    request: &Request<Incoming>,
    peer: Option<IpAddr>,
    shared: &Shared,
) -> Response<Full<Bytes>> {
    let query = request.uri().query();
    let headers = request.headers().iter();
    let lines = headers.map(|(name, value)| (name.as_str(), value.as_bytes()));
    let reply = match Check::authorize(query, lines) {
        Ok(check) => one(&check, Kind::Check, peer, shared).await,
        Err(error) => malformed(&error, shared),
    };
    let mut response = response(Deny::of(query).answer(reply));
    if !request.body().is_end_stream() {
        // A length that came along from the client; its body is not waited for.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

/// The whole body, if it is not too long and does not take too long.
async fn body(body: Incoming, shared: &Shared) -> Result<Bytes, (BadKind, Reply)> {
    let too_large = || {
        let error = BadRequest::TooLarge(MAX_BATCH_BODY);
        (BadKind::Size, Reply::bad_request(&error))
    };
    if body.size_hint().lower() > MAX_BATCH_BODY as u64 {
        return Err(too_large());
    }
    // Only so many may be long at once, lest many slow callers fill the memory.
    let is_long = body
        .size_hint()
        .upper()
        .is_none_or(|most| most > MAX_BODY as u64);
    let place = is_long
        .then(|| shared.long_bodies.try_acquire())
        .transpose();
    let Ok(_place) = place else {
        let reply = Reply::error(503, "busy", "too many long bodies at once; try again");
        return Err((BadKind::Size, reply));
    };
    let error = match Limited::new(body, MAX_BATCH_BODY).collect().await {
        Ok(body) => return Ok(body.to_bytes()),
        Err(error) => error,
    };
    if error.is::<LengthLimitError>() {
        return Err(too_large());
    }
    Err(if error.downcast_ref().is_some_and(is_timeout) {
        let reply = Reply::error(408, "request_timeout", "the body did not come in time");
        (BadKind::Slow, reply)
    } else {
        let reply = Reply::error(400, "bad_request", "the body cannot be read");
        (BadKind::Framing, reply)
    })
}

/// What a body is for.
#[derive(Clone, Copy)]
enum Asks {
    Check,
    Report,
    Settle,
}

/// What the checks of a body are: such that may be refused, or reports.
#[derive(Clone, Copy)]
enum Kind {
    Check,
    Report,
}

impl Kind {
    fn decode(self, body: &[u8]) -> Result<Asked<'_>, BadRequest> {
        match self {
            Kind::Check => Asked::decode(body),
            Kind::Report => Asked::decode_report(body),
        }
    }

    fn begin<'s>(
        self,
        check: &Check<'_>,
        snapshot: &'s Snapshot<'_>,
        peer: Option<IpAddr>,
        now: Timestamp,
    ) -> Begun<'s> {
        check.ask(peer, |request| match (self, check.id()) {
            (Kind::Report, _) => snapshot.report(request, Entry::Charge, now),
            (Kind::Check, Some(id)) => snapshot.begin_as(request, id, now),
            (Kind::Check, None) => snapshot.begin(request, now),
        })
    }

    fn observe(self, services: &Services, decision: &Decision<'_>) {
        match self {
            Kind::Check => services.observer.decided(Door::Http, decision),
            Kind::Report => services.observer.reported(Door::Http, decision),
        }
    }

    fn reply(self, decision: &Decision<'_>, check: &Check<'_>) -> Reply {
        match self {
            Kind::Check => Reply::one(decision, check),
            Kind::Report => Reply::recorded(decision, check),
        }
    }

    fn answer<'d>(self, decision: &Decision<'d>, check: &Check<'_>) -> Answer<'d> {
        match self {
            Kind::Check => Answer::new(decision, check),
            Kind::Report => Answer::recorded(decision, check),
        }
    }
}

fn malformed(error: &BadRequest, shared: &Shared) -> Reply {
    let kind = match error {
        BadRequest::TooLarge(_) => BadKind::Size,
        _ => BadKind::Content,
    };
    shared.services.observer.bad_request(Door::Http, kind);
    Reply::bad_request(error)
}

/// Settles one check.
async fn settle(body: &[u8], shared: &Shared) -> Reply {
    let services = &shared.services;
    let said = match Settle::decode(body) {
        Ok(said) => said,
        Err(error) => return malformed(&error, shared),
    };
    let Some(id) = said.id() else {
        return malformed(&BadRequest::Id, shared);
    };
    let now = services.clock.now();
    let settling = said.total(|total| services.engine.settle(id, total, now));
    let settlement = match settling {
        Settling::Done(settlement) => settlement,
        Settling::Pending(waiting) => {
            let questions = waiting.questions().to_vec();
            let answers = tell_all(services, questions).await;
            waiting.settle(&services.engine, answers, services.clock.now())
        }
    };
    services.observer.settled(Door::Http, &settlement);
    Reply::settled(&settlement)
}

/// Decides the checks of one body: one reading of the clock, one snapshot of the rules. It
/// waits only where a check must ask the store.
async fn check(body: &[u8], kind: Kind, peer: Option<IpAddr>, shared: &Shared) -> Reply {
    match kind.decode(body) {
        Ok(Asked::One(check)) => one(&check, kind, peer, shared).await,
        Ok(Asked::Batch(checks)) => batch(&checks, kind, peer, shared).await,
        Err(error) => malformed(&error, shared),
    }
}

async fn one(check: &Check<'_>, kind: Kind, peer: Option<IpAddr>, shared: &Shared) -> Reply {
    let services = &shared.services;
    let mut waiting = {
        let began = services.clock.local();
        let now = services.clock.to_fleet(began);
        let snapshot = services.engine.snapshot().telling_all();
        match kind.begin(check, &snapshot, peer, now) {
            Begun::Decided(decision) => {
                timed(services, began, 1);
                kind.observe(services, &decision);
                return kind.reply(&decision, check);
            }
            Begun::Pending(waiting) => waiting,
        }
    };
    let answer = match kind {
        Kind::Check => ask(services, waiting.question()).await,
        Kind::Report => {
            let told = tell_all(services, vec![waiting.question().clone()]).await;
            told.into_iter().next().unwrap_or(Err(Unanswered))
        }
    };
    let decision = waiting.settle(&services.engine, answer, services.clock.now());
    kind.observe(services, &decision);
    kind.reply(&decision, check)
}

async fn batch(checks: &[Check<'_>], kind: Kind, peer: Option<IpAddr>, shared: &Shared) -> Reply {
    let services = &shared.services;
    let mut waiting = Vec::new();
    let early: Vec<Answer<'static>> = {
        let began = services.clock.local();
        let now = services.clock.to_fleet(began);
        let mut snapshot = services.engine.snapshot();
        if checks.iter().any(Check::wants_response) {
            snapshot = snapshot.telling_all();
        }
        let mut answers = Vec::with_capacity(checks.len());
        for (place, check) in checks.iter().enumerate() {
            match kind.begin(check, &snapshot, peer, now) {
                Begun::Decided(decision) => {
                    kind.observe(services, &decision);
                    answers.push(kind.answer(&decision, check));
                }
                Begun::Pending(check) => waiting.push((place, check)),
            }
        }
        timed(services, began, answers.len());
        if waiting.is_empty() {
            return Reply::batch(&answers);
        }
        answers.into_iter().map(Answer::into_owned).collect()
    };
    let questions = waiting.iter().map(|(_, check)| check.question());
    let said = match kind {
        Kind::Check => ask_all(services, questions).await,
        Kind::Report => tell_all(services, questions.cloned().collect()).await,
    };
    let now = services.clock.now();
    let mut early = early.into_iter();
    let mut answers = Vec::with_capacity(checks.len());
    for ((place, pending), said) in waiting.iter_mut().zip(said) {
        answers.extend(early.by_ref().take(place.saturating_sub(answers.len())));
        let decision = pending.settle(&services.engine, said, now);
        kind.observe(services, &decision);
        answers.extend(
            checks
                .get(*place)
                .map(|check| kind.answer(&decision, check)),
        );
    }
    answers.extend(early);
    Reply::batch(&answers)
}

/// Records how long it took to decide so many checks.
fn timed(services: &Services, began: Timestamp, decisions: usize) {
    let span = services.clock.local().since(began);
    services.observer.timed(Door::Http, span, decisions as u64);
}

fn response(reply: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(reply.body)));
    *response.status_mut() =
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    let mut insert = |name, value: Result<HeaderValue, _>| {
        // All values are printable: the rules were checked for it.
        if let Ok(value) = value {
            headers.insert(name, value);
        }
    };
    let content_type = match reply.content_type {
        Cow::Borrowed(text) => Ok(HeaderValue::from_static(text)),
        Cow::Owned(text) => HeaderValue::try_from(text),
    };
    insert(header::CONTENT_TYPE, content_type);
    if reply.status == 401 {
        let how = HeaderValue::from_static("Bearer");
        insert(header::WWW_AUTHENTICATE, Ok(how));
    }
    for field in reply.fields {
        insert(header_name(field.name), HeaderValue::try_from(field.value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_is_as_long_as_it_says() {
        let text = std::str::from_utf8(TOO_MANY_CLIENTS).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok());
    }
}
