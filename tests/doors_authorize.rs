//! Forward auth over real sockets: heads of all kinds, and whose address counts.

// Tests fail by panicking, their helpers too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::io::{Read, Write};

use kit::http::{Reply, parse, request, try_request};
use kit::{Addr, Daemon, Redis};

const RULES: &str = "
clients: { trusted_proxies: [127.0.0.1, 10.0.0.0/8], header: x-forwarded-for }
rules:
  - { name: read, endpoint: 'GET /items/{id}', limits: { requests: 5, window: 1h } }
  - { name: none, endpoint: /none, limits: { requests: 0, window: 1h } }
  - { name: keyed, endpoint: /keyed, key: api_key, on_missing: deny, limits: { requests: 1, window: 1h } }
  - name: own
    endpoint: /own
    limits: { requests: 0, window: 1h }
    answers: { refusal: { status: 418, content_type: text/plain, body: 'no tea for {rule}' } }
";

/// Asks about a GET of a path.
fn ask(at: &Addr, query: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    let described = [("X-Forwarded-Method", "GET"), ("X-Forwarded-Uri", path)];
    let headers = [&described[..], headers].concat();
    try_request(at, "GET", &format!("/v1/authorize{query}"), &headers, "").unwrap()
}

fn remaining(reply: &Reply) -> u64 {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply
        .header("X-RateLimit-Remaining")
        .unwrap()
        .parse()
        .unwrap()
}

/// The door on TCP, where the asker has an address.
fn tcp(daemon: &Daemon) -> Addr {
    let log = daemon.log();
    let mut lines = log
        .lines()
        .filter_map(|line| line.trim().strip_prefix("http"));
    Addr::Tcp(lines.find_map(|rest| rest.trim().parse().ok()).unwrap())
}

/// What is answered to these bytes, after which nothing more comes.
fn raw(at: &Addr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = at.connect().unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn it_is_one_decision_with_the_other_ways_of_asking() {
    let daemon = Daemon::start(RULES, &[]);
    let reply = ask(&daemon.http(), "?ip=203.0.113.9&cost=2", "/items/1", &[]);
    assert_eq!(remaining(&reply), 3);
    assert_eq!(reply.body, "");
    let body = r#"{"request":{"method":"GET","path":"/items/2","ip":"203.0.113.9"},"cost":2}"#;
    let reply = request(daemon.http(), "POST", "/v1/check", body);
    assert_eq!(remaining(&reply), 1);
    assert_eq!(
        remaining(&ask(
            &daemon.http(),
            "?ip=203.0.113.9&cost=0",
            "/items/1",
            &[]
        )),
        1
    );
    let reply = ask(&daemon.http(), "?ip=203.0.113.9&cost=2", "/items/1", &[]);
    assert_eq!(reply.status, 429);
    assert_eq!(reply.json()["error"], "rate_limit_exceeded");
    assert!(reply.header("Retry-After").is_some());
    assert_eq!(reply.header("X-RateLimit-Status"), None);
}

#[test]
fn a_gateway_that_knows_401_and_403_alone_is_told_the_rest_in_fields() {
    let daemon = Daemon::start(RULES, &[]);
    let asked = |path| ask(&daemon.http(), "?deny=403&ip=203.0.113.9", path, &[]);
    let reply = asked("/none");
    assert_eq!(
        (reply.status, reply.header("X-RateLimit-Status")),
        (403, Some("429"))
    );
    assert_eq!(reply.header("X-RateLimit-Body"), Some(&*reply.body));
    assert_eq!(reply.json()["error"], "banned");
    assert_eq!(reply.header("X-RateLimit-Limit"), Some("0"));
    assert_eq!(reply.header("Retry-After"), None);
    let reply = asked("/own");
    assert_eq!(
        (reply.status, reply.header("X-RateLimit-Status")),
        (403, Some("418"))
    );
    assert_eq!(reply.header("X-RateLimit-Body"), Some("no tea for own"));
    let reply = asked("/keyed");
    assert_eq!(
        (reply.status, reply.header("X-RateLimit-Status")),
        (401, Some("401"))
    );
    assert_eq!(reply.header("WWW-Authenticate"), Some("Bearer"));
    let reply = asked("");
    assert_eq!(
        (reply.status, reply.header("X-RateLimit-Status")),
        (403, Some("400"))
    );
    assert_eq!(asked("/free").status, 200);
}

#[test]
fn a_lost_store_is_told_of_in_the_same_manner() {
    let rules = "rules: [{ name: exact, consistency: strict, on_store_loss: closed, \
                 limits: { requests: 5, window: 1h } }]";
    let redis = Redis::start();
    let daemon = Daemon::start(rules, &["--store", &redis.url()]);
    drop(redis);
    let reply = ask(&daemon.http(), "?ip=203.0.113.9", "/", &[]);
    assert_eq!(
        (reply.status, reply.header("Retry-After")),
        (503, Some("1"))
    );
    let reply = ask(&daemon.http(), "?ip=203.0.113.9&deny=403", "/", &[]);
    assert_eq!(
        (reply.status, reply.header("X-RateLimit-Status")),
        (403, Some("503"))
    );
    assert_eq!(reply.header("Retry-After"), Some("1"));
}

#[test]
fn forwarding_headers_count_where_the_stated_address_or_else_the_peer_is_trusted() {
    let daemon = Daemon::start(RULES, &["--http", "127.0.0.1:0"]);
    let (unix, tcp) = (daemon.http(), tcp(&daemon));
    let client = |ip| [("X-Forwarded-For", ip)];
    // A peer that is trusted, and one that states a trusted proxy's address.
    assert_eq!(
        remaining(&ask(&tcp, "", "/items/1", &client("203.0.113.1"))),
        4
    );
    assert_eq!(
        remaining(&ask(&tcp, "", "/items/1", &client("203.0.113.2"))),
        4
    );
    let reply = ask(
        &unix,
        "?ip=10.0.0.7",
        "/items/1",
        &client("203.0.113.1, 10.0.0.1"),
    );
    assert_eq!(remaining(&reply), 3);
    // What a client has written before that is not believed.
    let reply = ask(&tcp, "", "/items/1", &client("198.51.100.1, 203.0.113.1"));
    assert_eq!(remaining(&reply), 2);
    // An address that is not trusted is the client's, whatever it brings along.
    for left in [4, 3] {
        let reply = ask(
            &unix,
            "?ip=198.51.100.7",
            "/items/1",
            &client("203.0.113.1"),
        );
        assert_eq!(remaining(&reply), left);
    }
    let reply = ask(&tcp, "?ip=198.51.100.7", "/items/1", &client("127.0.0.1"));
    assert_eq!(remaining(&reply), 2);
    // A mapped address is the one that it maps.
    let reply = ask(&unix, "?ip=%3A%3Affff%3A198.51.100.7", "/items/1", &[]);
    assert_eq!(remaining(&reply), 1);
    // Over a Unix socket nobody is believed who states nothing: all are one.
    assert_eq!(
        remaining(&ask(&unix, "", "/items/1", &client("203.0.113.3"))),
        4
    );
    assert_eq!(
        remaining(&ask(&unix, "", "/items/1", &client("203.0.113.4"))),
        3
    );
}

#[test]
fn a_body_that_is_only_spoken_of_is_not_waited_for() {
    let daemon = Daemon::start(RULES, &[]);
    let described = "Host: a\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /free\r\n";
    for method in ["GET", "HEAD", "POST", "PUT", "OPTIONS", "PATCH", "BREW"] {
        for of_body in [
            "Content-Length: 1000\r\n",
            "Content-Length: 99999999999\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Content-Length: 5\r\nExpect: 100-continue\r\n",
        ] {
            let head = format!("{method} /v1/authorize HTTP/1.1\r\n{described}{of_body}\r\n");
            // The connection stays open for more, and ends with the answer all the same.
            let answer = raw(&daemon.http(), head.as_bytes());
            let answer = String::from_utf8(answer).unwrap().to_ascii_lowercase();
            assert!(answer.starts_with("http/1.1 200 ok\r\n"), "{head}{answer}");
            assert!(
                answer.contains("\r\nconnection: close\r\n"),
                "{head}{answer}"
            );
        }
    }
}

#[test]
fn a_connection_is_kept_for_many_heads() {
    let daemon = Daemon::start(RULES, &[]);
    let head = "POST /v1/authorize?ip=203.0.113.9 HTTP/1.1\r\nHost: a\r\n\
                X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /items/1\r\n";
    let last = format!("{head}Connection: close\r\n\r\n");
    let all = format!("{}{last}", format!("{head}\r\n").repeat(5));
    let answer = String::from_utf8(raw(&daemon.http(), all.as_bytes())).unwrap();
    let statuses: Vec<_> = answer.matches("HTTP/1.1 200 OK").collect();
    assert_eq!(
        (statuses.len(), answer.matches("HTTP/1.1 429").count()),
        (5, 1)
    );
}

#[test]
fn hostile_heads_are_answered_and_hurt_nobody() {
    let daemon = Daemon::start(RULES, &[]);
    let described = "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /free\r\n";
    let many = format!("{described}{}", "a: b\r\n".repeat(2_000));
    let long = format!("{described}a: {}\r\n", "b".repeat(200_000));
    let fits = format!(
        "{described}{}",
        format!("a: {}\r\n", "b".repeat(7_000)).repeat(5)
    );
    for (head, statuses) in [
        ("".as_bytes(), &["400"][..]),
        (b"X-Forwarded-Method: GET\r\n", &["400"]),
        (
            b"X-Forwarded-Method: \xff\r\nX-Forwarded-Uri: \xff\xfe\r\n",
            &["200"],
        ),
        (
            b"X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /a\0b\r\n",
            &["400"],
        ),
        (
            b"X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /%zz%ff%00?%\r\n",
            &["200"],
        ),
        (
            b"X-Forwarded-Method: GET\r\nX-Forwarded-Uri: ://\r\n",
            &["200"],
        ),
        (
            b"X-Forwarded-Method: GET\r\nX-Forwarded-Uri: *\r\n",
            &["200"],
        ),
        (
            b"X-Forwarded-Method: GET\r\nX-Forwarded-Method: PUT\r\nX-Forwarded-Uri: /\r\n",
            &["400"],
        ),
        (fits.as_bytes(), &["200"]),
        (many.as_bytes(), &["431"]),
        (long.as_bytes(), &["431"]),
    ] {
        let all = [
            b"GET /v1/authorize HTTP/1.1\r\nHost: a\r\nConnection: close\r\n",
            head,
            b"\r\n",
        ];
        let answer = raw(&daemon.http(), &all.concat());
        let status = String::from_utf8_lossy(answer.get(9..12).unwrap_or_default()).into_owned();
        let shown = String::from_utf8_lossy(&head[..head.len().min(99)]);
        assert!(statuses.contains(&&*status), "{shown}: {status}");
    }
    for target in [
        "http://a/v1/authorize",
        "/v1/authorize?%00=%ff",
        "/v1/authorize?ip=&ip=1",
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let reply = parse(&raw(&daemon.http(), head.as_bytes())).unwrap();
        assert_eq!(reply.status, 400, "{target}");
        assert_eq!(reply.json()["error"], "bad_request");
    }
    let bad = daemon.metric(
        "tidegate_bad_requests_total",
        &[("door", "http"), ("reason", "content")],
    );
    assert!(bad >= 6.0, "{bad}");
    assert!(!daemon.log().contains("panic"));
}
