use super::support::{Running, both, ports, post, serve};
use tidegate::server::Door;

/// The status of what the server says to `bytes` before it closes.
async fn status(server: &Running, bytes: &[u8]) -> String {
    let said = server.exchange(Door::Http, bytes).await;
    let status = said
        .strip_prefix("HTTP/1.1 ")
        .or(said.strip_prefix("HTTP/1.0 "));
    status.map_or(said.clone(), |rest| rest[..3].to_owned())
}

#[tokio::test]
async fn checks_on_one_connection_are_answered_in_turn() {
    for (_dir, config) in both() {
        let server = serve(config);
        let mut client = server.connect(Door::Http).await;
        let (head, body) = client.post(r#"{"rule":"no-such","key":"alice"}"#).await;
        assert!(head.contains("content-type: application/json"), "{head}");
        assert!(body.starts_with(r#"{"allowed":"#), "{body}");
        // Two in one write.
        let check = post(r#"{"request":{"method":"GET","path":"/none"}}"#);
        client.send(format!("{check}{check}").as_bytes()).await;
        for _ in 0..2 {
            let (head, body) = client.response().await;
            assert!(head.starts_with("http/1.1 200"), "{head}");
            assert!(!head.contains("x-ratelimit"), "{head}");
            assert_eq!(
                body,
                r#"{"allowed":true,"rule":null,"limit":null,"remaining":null,"reset_after_ms":null,"retry_after_ms":null,"stale_ms":null,"limit_name":null}"#
            );
        }
        let (head, body) = client
            .post(r#"{"checks":[{"request":{"method":"GET","path":"/none"}},{"rule":"x","key":"k"}]}"#)
            .await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(body.starts_with(r#"{"results":[{"allowed":true"#), "{body}");
        assert_eq!(body.matches(r#""allowed""#).count(), 2);
        drop(client);
        server.stop().await;
    }
}

#[tokio::test]
async fn what_is_not_there_is_told_as_json() {
    let server = serve(ports());
    let mut client = server.connect(Door::Http).await;
    for (request, wanted) in [
        ("GET /v1/check HTTP/1.1\r\nhost: x\r\n\r\n", "405"),
        ("GET / HTTP/1.1\r\nhost: x\r\n\r\n", "404"),
        ("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", "404"),
        ("GET /livez HTTP/1.1\r\nhost: x\r\n\r\n", "404"),
        (
            "POST /v1/other HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
            "404",
        ),
        ("GET http://x/v1/none HTTP/1.1\r\nhost: x\r\n\r\n", "404"),
        ("CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n", "404"),
        ("OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n", "404"),
        // A line feed alone ends a line too (RFC 9112, 2.2), and makes one request.
        ("GET /a HTTP/1.1\nhost: x\n\n", "404"),
    ] {
        client.send(request.as_bytes()).await;
        let (head, body) = client.response().await;
        assert!(
            head.starts_with(&format!("http/1.1 {wanted}")),
            "{request}: {head}"
        );
        assert_eq!(head.contains("allow: post"), wanted == "405");
        assert!(body.starts_with(r#"{"error":""#), "{body}");
    }
    client
        .send(b"HEAD /v1/check HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await;
    let said = client.rest().await;
    assert!(
        said.starts_with("HTTP/1.1 405") && said.ends_with("\r\n\r\n"),
        "{said}"
    );
}

#[tokio::test]
async fn bodies_that_cannot_be_understood_are_400_and_the_connection_goes_on() {
    let server = serve(ports());
    let mut client = server.connect(Door::Http).await;
    let nested = format!(r#"{{"rule":{}"#, "[".repeat(60_000));
    let more = format!(r#"{{"rule":"r","key":"k","x":{}"#, "[".repeat(100_000));
    for body in [
        "",
        "{",
        r#"{"rule":"r"}"#,
        r#"{"rule":"r","key":"k","cost":-1}"#,
        r#"{"rule":"r","key":"k","cost":1.5}"#,
        r#"{"rule":"r","key":"k","cost":"abc"}"#,
        r#"{"rule":"r","key":"k","key":"l"}"#,
        r#"{"request":{"method":"G","path":"/","headers":{"a":"1","A":"2"}}}"#,
        r#"{"request":{"method":"G","path":"/","ip":"not-an-ip"}}"#,
        &nested,
        &more,
    ] {
        let (head, said) = client.post(body).await;
        let start = &body[..body.len().min(60)];
        assert!(head.starts_with("http/1.1 400"), "{start}: {head}");
        assert!(
            said.starts_with(r#"{"error":"bad_request","message":""#),
            "{said}"
        );
        assert!(said.len() < 400, "{said}");
    }
    let content = "tidegate_bad_requests_total{door=\"http\",reason=\"content\"}";
    assert_eq!(server.figure(content), Some(11.0));
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_closed() {
    let server = serve(ports());
    let long = format!(r#"{{"rule":"r","key":"{}"}}"#, "k".repeat(70_000));
    let mut client = server.connect(Door::Http).await;
    let (head, body) = client.post(&long).await;
    assert!(head.starts_with("http/1.1 413"), "{head}");
    assert!(body.contains("body_too_large"), "{body}");
    // Said to be long, sent in pieces that turn out to be, a long head, many headers.
    let stated = "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 9999999999\r\n\r\n{";
    assert_eq!(status(&server, stated.as_bytes()).await, "413");
    let chunked = "POST /v1/check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(65_536));
    assert_eq!(
        status(&server, format!("{chunked}{}", chunk.repeat(9)).as_bytes()).await,
        "413"
    );
    let header = format!(
        "GET / HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n",
        "a".repeat(1_000_000)
    );
    assert_eq!(status(&server, header.as_bytes()).await, "431");
    let headers = format!(
        "GET / HTTP/1.1\r\nhost: x\r\n{}\r\n",
        "a: b\r\n".repeat(10_000)
    );
    assert_eq!(status(&server, headers.as_bytes()).await, "431");
    let target = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(100_000));
    let status = status(&server, target.as_bytes()).await;
    assert!(["414", "431"].contains(&&*status), "{status}");
}

#[tokio::test]
async fn smuggled_and_malformed_requests_are_refused_and_closed() {
    let server = serve(ports());
    let head = "POST /v1/check HTTP/1.1\r\nhost: x\r\n";
    for request in [
        format!("{head}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}"),
        format!("{head}content-length: +2\r\n\r\n{{}}"),
        format!("{head}content-length: -1\r\n\r\n{{}}"),
        format!("{head}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
        format!("{head}no colon\r\n\r\n"),
        format!("{head}a b: c\r\n\r\n"),
        format!("{head}a: b\0c\r\n\r\n"),
        "nonsense\r\n\r\n".to_owned(),
        "GET / HTTP/9.9\r\n\r\n".to_owned(),
        "*1\r\n$4\r\nPING\r\n".to_owned(),
    ] {
        assert_eq!(
            status(&server, request.as_bytes()).await,
            "400",
            "{request:?}"
        );
    }
    // With both lengths, what follows the chunked body is never taken for a request.
    let both = format!(
        "{head}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"
    );
    let said = server.exchange(Door::Http, both.as_bytes()).await;
    assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{said}");
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    // Others are served as before.
    let mut client = server.connect(Door::Http).await;
    let (head, _) = client
        .post(r#"{"request":{"method":"GET","path":"/"}}"#)
        .await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
}

#[tokio::test]
async fn a_long_identity_is_an_identity() {
    let server = serve(ports());
    let mut client = server.connect(Door::Http).await;
    for number in 0..50 {
        let key = format!("{number}{}", "k".repeat(60_000));
        let body =
            format!(r#"{{"request":{{"method":"GET","path":"/","headers":{{"x-key":"{key}"}}}}}}"#);
        let (head, _) = client.post(&body).await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_or_body_that_does_not_end_is_given_up() {
    let server = serve(ports());
    let mut client = server.connect(Door::Http).await;
    client
        .send(b"POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{")
        .await;
    let said = client.rest().await;
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    let mut client = server.connect(Door::Http).await;
    client.send(b"POST /v1/check HTT").await;
    client.rest().await;
    let slow = "tidegate_bad_requests_total{door=\"http\",reason=\"slow\"}";
    assert_eq!(server.figure(slow), Some(2.0));
    // Between requests, silence is no fault, but has its end.
    let mut client = server.connect(Door::Http).await;
    client.post("{}").await;
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn only_so_many_long_bodies_are_under_way_at_once() {
    let server = serve(ports());
    let head = "POST /v1/check HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: ";
    let mut waiting = Vec::new();
    for _ in 0..64 {
        let mut client = server.connect(Door::Http).await;
        client
            .send(format!("{head}100000\r\n\r\n").as_bytes())
            .await;
        // The server reads on only when the body has its place.
        let said = client.take(25).await;
        assert_eq!(said, "HTTP/1.1 100 Continue\r\n\r\n");
        waiting.push(client);
    }
    let said = server
        .exchange(Door::Http, format!("{head}100000\r\n\r\n").as_bytes())
        .await;
    assert!(said.starts_with("HTTP/1.1 503"), "{said}");
    let mut client = server.connect(Door::Http).await;
    let (head, _) = client
        .post(r#"{"request":{"method":"GET","path":"/"}}"#)
        .await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
}
