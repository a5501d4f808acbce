//! One connection of the HTTP door, and what it answers.

mod connection;
mod eager;

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
use super::waiting::{ask, ask_all};
use super::{Services, Shared};
use crate::engine::Begun;
use crate::protocol::headers::FieldName;
use crate::protocol::http::{Answer, Asked, BadRequest, Check, MAX_BATCH_BODY, MAX_BODY, Reply};
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
    match (request.uri().path(), request.method()) {
        ("/v1/check", &Method::POST) => {}
        ("/v1/check", _) => {
            let reply = Reply::error(405, "method_not_allowed", "ask with POST");
            let mut response = response(reply);
            let allow = HeaderValue::from_static("POST");
            response.headers_mut().insert(header::ALLOW, allow);
            return response;
        }
        _ => return response(Reply::error(404, "not_found", "ask with POST /v1/check")),
    }
    match body(request.into_body(), shared).await {
        Ok(body) => response(check(&body, peer, shared).await),
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

/// Decides the checks of one body: one reading of the clock, one snapshot of the rules. It
/// waits only where a check must ask the store.
async fn check(body: &[u8], peer: Option<IpAddr>, shared: &Shared) -> Reply {
    let asked = match Asked::decode(body) {
        Ok(asked) => asked,
        Err(error) => {
            let kind = match error {
                BadRequest::TooLarge(_) => BadKind::Size,
                _ => BadKind::Content,
            };
            shared.services.observer.bad_request(Door::Http, kind);
            return Reply::bad_request(&error);
        }
    };
    match asked {
        Asked::One(check) => one(&check, peer, shared).await,
        Asked::Batch(checks) => batch(&checks, peer, shared).await,
    }
}

async fn one(check: &Check<'_>, peer: Option<IpAddr>, shared: &Shared) -> Reply {
    let services = &shared.services;
    let mut waiting = {
        let began = services.clock.local();
        let now = services.clock.to_fleet(began);
        let snapshot = services.engine.snapshot().telling_all();
        match check.ask(peer, |request| snapshot.begin(request, now)) {
            Begun::Decided(decision) => {
                timed(services, began, 1);
                services.observer.decided(Door::Http, &decision);
                return Reply::one(&decision, check);
            }
            Begun::Pending(waiting) => waiting,
        }
    };
    let answer = ask(services, &waiting).await;
    let decision = waiting.settle(&services.engine, answer, services.clock.now());
    services.observer.decided(Door::Http, &decision);
    Reply::one(&decision, check)
}

async fn batch(checks: &[Check<'_>], peer: Option<IpAddr>, shared: &Shared) -> Reply {
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
            match check.ask(peer, |request| snapshot.begin(request, now)) {
                Begun::Decided(decision) => {
                    services.observer.decided(Door::Http, &decision);
                    answers.push(Answer::new(&decision, check));
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
    let said = ask_all(services, waiting.iter().map(|(_, check)| &**check)).await;
    let now = services.clock.now();
    let mut early = early.into_iter();
    let mut answers = Vec::with_capacity(checks.len());
    for ((place, pending), said) in waiting.iter_mut().zip(said) {
        answers.extend(early.by_ref().take(place.saturating_sub(answers.len())));
        let decision = pending.settle(&services.engine, said, now);
        services.observer.decided(Door::Http, &decision);
        answers.extend(
            checks
                .get(*place)
                .map(|check| Answer::new(&decision, check)),
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
