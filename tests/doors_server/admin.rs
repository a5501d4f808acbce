use super::support::{Running, ports, serve, sockets};
use tidegate::server::{AdminToken, Door, Reason, Server, ServerConfig, ServerError};

async fn get(server: &Running, path: &str, headers: &str) -> (String, String) {
    let mut client = server.connect(Door::Admin).await;
    let request = format!("GET {path} HTTP/1.1\r\n{headers}\r\n");
    client.send(request.as_bytes()).await;
    client.response().await
}

async fn status(server: &Running, path: &str, headers: &str) -> String {
    let (head, _) = get(server, path, headers).await;
    head["http/1.1 ".len()..][..3].to_owned()
}

const LOCAL: &str = "host: localhost\r\n";

#[tokio::test]
async fn pages_and_probes_are_there_and_nothing_else() {
    let (_dir, config) = sockets();
    let server = serve(config);
    assert_eq!(status(&server, "/livez", LOCAL).await, "200");
    let (_, body) = get(&server, "/", LOCAL).await;
    assert!(
        body.contains("/metrics") && body.contains("/readyz"),
        "{body}"
    );
    let (head, body) = get(&server, "/metrics", LOCAL).await;
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(body.contains("# TYPE tidegate_connections gauge"), "{body}");
    assert_eq!(status(&server, "/v1/check", LOCAL).await, "404");
    let said = server
        .exchange(
            Door::Admin,
            b"POST /metrics HTTP/1.0\r\nhost: localhost\r\n\r\n",
        )
        .await;
    assert!(said.starts_with("HTTP/1.0 405"), "{said}");
    let said = server
        .exchange(
            Door::Admin,
            b"HEAD /livez HTTP/1.0\r\nhost: localhost\r\n\r\n",
        )
        .await;
    assert!(
        said.starts_with("HTTP/1.0 200") && said.ends_with("\r\n\r\n"),
        "{said}"
    );
}

#[tokio::test]
async fn readiness_says_why_not() {
    let (_dir, config) = sockets();
    let server = serve(config);
    let (head, body) = get(&server, "/readyz", LOCAL).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert_eq!(body, r#"{"ready":true,"reasons":[],"notes":[]}"#);
    server.readiness.raise(Reason::Draining);
    server.readiness.raise(Reason::Store);
    let (head, body) = get(&server, "/readyz", LOCAL).await;
    assert!(head.starts_with("http/1.1 503"), "{head}");
    assert_eq!(
        body,
        r#"{"ready":false,"reasons":["draining","store"],"notes":[]}"#
    );
    assert_eq!(status(&server, "/livez", LOCAL).await, "200");
}

#[tokio::test]
async fn on_tcp_without_a_token_only_this_machines_own_names_are_answered() {
    let server = serve(ports());
    for host in ["localhost", "127.0.0.1:9090", "[::1]:1"] {
        assert_eq!(
            status(&server, "/metrics", &format!("host: {host}\r\n")).await,
            "200"
        );
    }
    for headers in [
        "host: rebound.example\r\n",
        "",
        "host: localhost\r\nhost: x\r\n",
    ] {
        assert_ne!(
            status(&server, "/metrics", headers).await,
            "200",
            "{headers}"
        );
    }
    // A probe tells nothing.
    assert_eq!(
        status(&server, "/livez", "host: 10.0.0.1:9090\r\n").await,
        "200"
    );
}

#[tokio::test]
async fn with_a_token_pages_need_it_and_probes_do_not() {
    let server = serve(ServerConfig {
        admin: vec!["0.0.0.0:0".parse().unwrap()],
        admin_token: AdminToken::new("secret"),
        ..ServerConfig::default()
    });
    let host = "host: node.example\r\n";
    for wrong in [
        "",
        "authorization: Bearer secreT\r\n",
        "authorization: Basic secret\r\n",
    ] {
        assert_eq!(
            status(&server, "/metrics", &format!("{host}{wrong}")).await,
            "401"
        );
        assert_eq!(status(&server, "/", &format!("{host}{wrong}")).await, "401");
    }
    let right = format!("{host}authorization: Bearer secret\r\n");
    assert_eq!(status(&server, "/metrics", &right).await, "200");
    assert_eq!(status(&server, "/readyz", host).await, "200");
}

#[test]
fn an_admin_address_that_others_reach_needs_a_token() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let config = ServerConfig {
            admin: vec![address.parse().unwrap()],
            ..ServerConfig::default()
        };
        let error = Server::bind(config).unwrap_err();
        assert!(
            matches!(&error, ServerError::AdminExposed(it) if it == address),
            "{error}"
        );
    }
}

#[tokio::test]
async fn what_clients_send_adds_no_line_to_the_metrics() {
    let (_dir, config) = sockets();
    let server = serve(config);
    let mut resp = server.connect(Door::Resp).await;
    let mut http = server.connect(Door::Http).await;
    let mut lines = Vec::new();
    for round in 0..3 {
        for number in 0..200 {
            let id = format!("{round}-{number}");
            let path = format!("/{id}/\\\"{id}");
            let body = format!(
                r#"{{"request":{{"method":"M{id}","path":"{path}"}},"attributes":{{"user":"{id}"}}}}"#
            );
            http.post(&body).await;
            http.post(&format!(r#"{{"rule":"{id}","key":"{id}"}}"#))
                .await;
            http.post(&format!(r#"{{"{id}":1}}"#)).await;
            let commands =
                format!("CL.THROTTLE {id} 1 1 1\r\nTG.CHECK {id} {id}\r\n{id}\r\nECHO end\r\n");
            resp.send(commands.as_bytes()).await;
            let mut said = String::new();
            while !said.ends_with("$3\r\nend\r\n") {
                said += &resp.take(1).await;
            }
        }
        lines.push(server.metrics.render().lines().count());
    }
    assert_eq!(lines[0], lines[2], "{}", server.metrics.render());
}

#[tokio::test]
async fn a_reload_is_asked_for_by_post_and_its_end_is_told() {
    let (_dir, config) = sockets();
    let server = serve(config);
    let ask = async |method: &str, headers: &str| {
        let request = format!("{method} /reload HTTP/1.0\r\nhost: localhost\r\n{headers}\r\n");
        server.exchange(Door::Admin, request.as_bytes()).await
    };
    let said = ask("GET", "").await;
    assert!(said.starts_with("HTTP/1.0 405"), "{said}");
    // A page that its visitor's browser sends here.
    let said = ask("POST", "origin: http://localhost\r\n").await;
    assert!(said.starts_with("HTTP/1.0 403"), "{said}");
    let said = ask("POST", "").await;
    assert!(
        said.starts_with("HTTP/1.0 200") && said.ends_with("\r\n\r\n\"done\"\n"),
        "{said}"
    );
    let said = ask("POST", "").await;
    assert!(said.starts_with("HTTP/1.0 422"), "{said}");
    assert!(said.ends_with("\"admin, its socket\"\n"), "{said}");
}

#[tokio::test]
async fn the_status_page_tells_the_daemons_own_words_and_why_it_is_not_ready() {
    let (_dir, config) = sockets();
    let server = serve(config);
    server.readiness.raise(Reason::Store);
    let (head, body) = get(&server, "/status", LOCAL).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert_eq!(body, "{\"rules\":3,\"not_ready\":[\"store\"]}\n");
}
