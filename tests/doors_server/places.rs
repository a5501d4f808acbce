use super::support::{ports, serve};
use tidegate::server::{Door, ServerConfig};

#[tokio::test]
async fn more_connections_than_places_are_refused_in_their_own_protocol_and_counted() {
    let server = serve(ServerConfig {
        max_connections: 2,
        ..ports()
    });
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut client = server.connect(Door::Resp).await;
        client.send(b"PING\r\n").await;
        assert_eq!(client.take(7).await, "+PONG\r\n");
        kept.push(client);
    }
    for _ in 0..40 {
        let said = server.exchange(Door::Resp, b"").await;
        assert_eq!(said, "-ERR max number of clients reached\r\n");
    }
    let said = server.exchange(Door::Http, b"").await;
    assert!(said.starts_with("HTTP/1.1 503 "), "{said}");
    let full = |door: &str| {
        server.figure(&format!(
            "tidegate_connections_refused_total{{door=\"{door}\",reason=\"full\"}}"
        ))
    };
    assert_eq!((full("resp"), full("http")), (Some(40.0), Some(1.0)));
    assert_eq!(
        server.figure("tidegate_connections{door=\"resp\"}"),
        Some(2.0)
    );
    // The admin door has room of its own, and those who are in stay in.
    let said = server
        .exchange(
            Door::Admin,
            b"GET /livez HTTP/1.0\r\nhost: localhost\r\n\r\n",
        )
        .await;
    assert!(said.ends_with("\r\n\r\nok\n"), "{said}");
    for client in &mut kept {
        client.send(b"PING\r\n").await;
        assert_eq!(client.take(7).await, "+PONG\r\n");
    }
    // A place that is left can be taken.
    kept.pop();
    loop {
        let mut client = server.connect(Door::Resp).await;
        client.send(b"QUIT\r\n").await;
        if client.rest().await == "+OK\r\n" {
            break;
        }
    }
}

#[tokio::test]
async fn half_open_connections_take_places_and_nothing_else() {
    let server = serve(ports());
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(server.connect(Door::Resp).await);
        silent.push(server.connect(Door::Http).await);
    }
    let said = server.exchange(Door::Resp, b"PING\r\nQUIT\r\n").await;
    assert_eq!(said, "+PONG\r\n+OK\r\n");
    drop(silent);
    assert_eq!(server.stop().await.cut, 0);
}
