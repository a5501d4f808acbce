//! One connection of the admin door: metrics, probes and the operator's wishes.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use super::http::drive;
use super::observer::Door;
use super::{Address, AskedReload, Reloaded, Shared};
use crate::protocol::http::Explanation;

const PAGES: &str = "tidegate\n\n\
    /metrics  figures for Prometheus\n\
    /status   which rules are in force, and what came of the last reload, as JSON\n\
    /reload   POST: read the rules anew\n\
    /explain  POST: what becomes of a described request, and why, as JSON\n\
    /livez    200 while the process answers\n\
    /readyz   200 while this node wants traffic, else 503\n";

/// Answers the requests of `stream` until it ends or `stop` is done. `peer` is the
/// address of a TCP peer.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Option<IpAddr>,
    shared: Arc<Shared>,
    stop: impl Future<Output = ()>,
) {
    let guarded = middleware::from_fn_with_state((Arc::clone(&shared), peer), guard);
    // Probes tell nothing worth guarding, and those who send them have no token.
    let router = Router::new()
        .route("/", get(async || PAGES))
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .route("/reload", post(move |shared| reload(shared, peer)))
        .route("/explain", post(explain))
        .route_layer(guarded)
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .fallback(async || (StatusCode::NOT_FOUND, PAGES))
        .with_state(Arc::clone(&shared));
    let service = TowerToHyperService::new(router);
    if let Err(kind) = drive(stream, service, &shared.config, stop).await {
        shared.services.observer.bad_request(Door::Admin, kind);
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let page = (shared.services.metrics)();
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], page).into_response()
}

async fn status(State(shared): State<Arc<Shared>>) -> Response {
    let mut status = (shared.services.status)();
    if let Some(fields) = status.as_object_mut() {
        let reasons = shared.services.readiness.reasons();
        let reasons: Vec<_> = reasons.map(|reason| reason.name()).collect();
        fields.insert("not_ready".to_owned(), json!(reasons));
    }
    json_of(StatusCode::OK, &status)
}

async fn reload(State(shared): State<Arc<Shared>>, peer: Option<IpAddr>) -> Response {
    let Some(reloads) = &shared.services.reloads else {
        return (StatusCode::NOT_FOUND, PAGES).into_response();
    };
    let peer = peer.map_or("its socket".to_owned(), |peer| peer.to_string());
    let (answer, answered) = oneshot::channel();
    let asked = AskedReload {
        by: format!("admin, {peer}"),
        answer,
    };
    // If nobody takes it, the answer never comes either.
    let _ending = reloads.send(asked).await;
    match answered.await {
        Ok(Reloaded::Applied(body)) => json_of(StatusCode::OK, &body),
        Ok(Reloaded::Refused(body)) => json_of(StatusCode::UNPROCESSABLE_ENTITY, &body),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "it is ending\n").into_response(),
    }
}

async fn explain(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let services = &shared.services;
    let snapshot = services.engine.snapshot();
    let explained = Explanation::of(&body, &snapshot, services.clock.now());
    match explained.map(serde_json::to_value) {
        Ok(Ok(body)) => json_of(StatusCode::OK, &body),
        Ok(Err(_)) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Err(error) => {
            let body = json!({"error": "bad_request", "message": error.to_string()});
            json_of(StatusCode::BAD_REQUEST, &body)
        }
    }
}

fn json_of(status: StatusCode, body: &serde_json::Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, format!("{body}\n")).into_response()
}

async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    let reasons: Vec<_> = shared.services.readiness.reasons().collect();
    let status = if reasons.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let reasons: Vec<_> = reasons.into_iter().map(|reason| reason.name()).collect();
    let notes = shared.services.readiness.notes();
    let notes: Vec<_> = notes.map(|note| note.name()).collect();
    let ready = reasons.is_empty();
    let body = json!({"ready": ready, "reasons": reasons, "notes": notes}).to_string();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Lets through who shows the token; where there is none, who asks this machine by a
/// name of its own. A web page that resolves its name to this machine, to read from
/// its visitor's side what it could not reach itself, sends its own name as `Host`.
async fn guard(
    State((shared, peer)): State<(Arc<Shared>, Option<IpAddr>)>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    if *request.method() == Method::POST && headers.contains_key(header::ORIGIN) {
        // Whoever sees it by way of a browser did not mean it.
        let message = "a web page may not ask for this\n";
        return (StatusCode::FORBIDDEN, message).into_response();
    }
    let (allowed, status, message) = match &shared.config.admin_token {
        // The socket's permissions are its guard.
        _ if peer.is_none() => (true, StatusCode::OK, ""),
        Some(token) => (
            bearer(headers).is_some_and(|shown| token.matches(shown)),
            StatusCode::UNAUTHORIZED,
            "show the admin token: Authorization: Bearer\n",
        ),
        None => (
            is_own_host(headers),
            StatusCode::FORBIDDEN,
            "ask by localhost or a loopback address\n",
        ),
    };
    if allowed {
        next.run(request).await
    } else {
        (status, message).into_response()
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let shown = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = shown.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())
}

fn is_own_host(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    let Ok(host) = host.to_str() else {
        return false;
    };
    // With and without a port.
    [host.parse(), format!("{host}:80").parse()]
        .into_iter()
        .flatten()
        .any(|address: Address| !address.is_unix() && address.is_local())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn with(name: header::HeaderName, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        let own = |values: &[&'static str]| is_own_host(&with(header::HOST, values));
        for host in [
            "localhost",
            "localhost:9090",
            "127.0.0.1",
            "127.1.2.3:1",
            "[::1]",
            "[::1]:9",
        ] {
            assert!(own(&[host]), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:80",
            "localhost.evil.example",
            "10.0.0.1:80",
            "unix:/run/x",
            "127.0.0.1.evil.example",
            "::1",
        ] {
            assert!(!own(&[host]), "{host}");
        }
        assert!(!own(&[]));
        assert!(!own(&["localhost", "evil.example"]));
    }

    #[test]
    fn a_bearer_token_is_what_follows_the_scheme() {
        let shown = |value| with(header::AUTHORIZATION, &[value]);
        assert_eq!(bearer(&shown("Bearer abc")), Some(&b"abc"[..]));
        assert_eq!(bearer(&shown("bearer  abc ")), Some(&b"abc"[..]));
        assert_eq!(bearer(&shown("Basic abc")), None);
        assert_eq!(bearer(&shown("Bear")), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
