use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::Ordering;

use super::support::{path, ports, post, serve, sockets};
use tidegate::server::{Door, Reason, Server, ServerConfig, ServerError};
use tokio::net::UnixStream;

#[tokio::test]
async fn sockets_have_their_mode_and_are_gone_at_the_end() {
    let (dir, config) = sockets();
    let server = serve(ServerConfig {
        socket_mode: 0o600,
        ..config
    });
    for (_, address) in &server.addresses {
        let mode = fs::metadata(path(address)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{address}");
    }
    server.stop().await;
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_second_server_leaves_the_first_ones_sockets_alone() {
    let (_dir, config) = sockets();
    let server = serve(config.clone());
    let error = Server::bind(config).unwrap_err();
    assert!(matches!(error, ServerError::AddressInUse(_)), "{error}");
    let said = server.exchange(Door::Resp, b"PING\r\nQUIT\r\n").await;
    assert_eq!(said, "+PONG\r\n+OK\r\n");
    server.stop().await;
}

#[tokio::test]
async fn a_socket_that_was_taken_over_is_not_removed_at_the_end() {
    let (_dir, config) = sockets();
    let server = serve(config);
    let resp = path(
        &server
            .addresses
            .iter()
            .find(|(door, _)| *door == Door::Resp)
            .unwrap()
            .1,
    );
    fs::remove_file(&resp).unwrap();
    let _other = tokio::net::UnixListener::bind(&resp).unwrap();
    server.stop().await;
    UnixStream::connect(&resp).await.unwrap();
}

#[test]
fn what_fails_to_bind_leaves_nothing_behind() {
    let (dir, config) = sockets();
    let missing = dir.path().join("no/such.sock");
    let config = ServerConfig {
        admin: vec![tidegate::server::Address::Unix(missing)],
        ..config
    };
    assert!(matches!(
        Server::bind(config),
        Err(ServerError::NoDirectory(_))
    ));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn what_has_arrived_is_answered_before_the_end() {
    let server = serve(ports());
    let mut resp = server.connect(Door::Resp).await;
    let mut idle = server.connect(Door::Http).await;
    let mut http = server.connect(Door::Http).await;
    resp.send(b"PING\r\n").await;
    resp.take(7).await;
    idle.post("{}").await;
    // A body of which the end has not come yet.
    let body = r#"{"request":{"method":"GET","path":"/"}}"#;
    let request = post(body);
    let (begun, end) = request.split_at(request.len() - 5);
    http.send(begun.as_bytes()).await;
    // Its head is read once another exchange has gone through the same thread.
    resp.send(b"PING\r\n").await;
    resp.take(7).await;
    resp.send(&b"PING\r\n".repeat(1_000)).await;
    idle.send(request.as_bytes()).await;
    let readiness = server.readiness.clone();
    let serving = server.begin_stop();
    assert_eq!(resp.rest().await, "+PONG\r\n".repeat(1_000));
    assert!(idle.rest().await.starts_with("HTTP/1.1 200"));
    assert_eq!(readiness.reasons().collect::<Vec<_>>(), [Reason::Draining]);
    http.send(end.as_bytes()).await;
    let said = http.rest().await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    drop((resp, idle, http));
    assert_eq!(serving.await.unwrap().unwrap().cut, 0);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_is_cut_when_the_drain_time_is_over() {
    let server = serve(ServerConfig {
        request_timeout: std::time::Duration::from_secs(1_000),
        ..ports()
    });
    let mut http = server.connect(Door::Http).await;
    let request = post(r#"{"request":{"method":"GET","path":"/"}}"#);
    http.send(&request.as_bytes()[..request.len() - 5]).await;
    let mut resp = server.connect(Door::Resp).await;
    resp.send(b"PING\r\n").await;
    resp.take(7).await;
    assert_eq!(server.stop().await.cut, 1);
}

#[tokio::test]
async fn the_admin_door_answers_while_the_others_drain() {
    let server = serve(ports());
    let mut http = server.connect(Door::Http).await;
    let request = post(r#"{"request":{"method":"GET","path":"/"}}"#);
    let (begun, end) = request.split_at(request.len() - 5);
    http.send(begun.as_bytes()).await;
    let mut admin = server.connect(Door::Admin).await;
    let ready = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    admin.send(ready).await;
    assert!(admin.response().await.0.starts_with("http/1.1 200"));
    let serving = server.begin_stop();
    loop {
        admin.send(ready).await;
        let (head, body) = admin.response().await;
        if head.starts_with("http/1.1 503") {
            assert_eq!(body, r#"{"ready":false,"reasons":["draining"],"notes":[]}"#);
            break;
        }
    }
    http.send(end.as_bytes()).await;
    assert!(http.rest().await.starts_with("HTTP/1.1 200"));
    drop(http);
    drop(admin);
    assert_eq!(serving.await.unwrap().unwrap().cut, 0);
}

#[tokio::test]
async fn a_panic_ends_its_own_connection_and_is_counted() {
    let server = serve(ports());
    let mut resp = server.connect(Door::Resp).await;
    let mut admin = server.connect(Door::Admin).await;
    server.broken.store(true, Ordering::Relaxed);
    let metrics = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";
    assert_eq!(server.exchange(Door::Admin, metrics).await, "");
    resp.send(b"PING\r\n").await;
    assert_eq!(resp.take(7).await, "+PONG\r\n");
    admin
        .send(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    assert_eq!(admin.response().await.1, "ok\n");
    let panics = "tidegate_connections_refused_total{door=\"admin\",reason=\"panic\"}";
    assert_eq!(server.figure(panics), Some(1.0));
    drop((resp, admin));
    assert_eq!(server.stop().await.cut, 0);
}
