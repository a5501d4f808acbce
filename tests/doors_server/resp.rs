use super::support::{both, ports, serve, sockets};
use tidegate::server::Door;

const THROTTLE: &[u8] =
    b"*6\r\n$11\r\nCL.THROTTLE\r\n$1\r\nu\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n$1\r\n1\r\n";

#[tokio::test]
async fn a_thousand_checks_in_one_write_get_a_thousand_replies_and_are_counted_once_each() {
    for (_dir, config) in both() {
        let server = serve(config);
        let mut wire = THROTTLE.repeat(1_000);
        wire.extend_from_slice(b"QUIT\r\n");
        let said = server.exchange(Door::Resp, &wire).await;
        assert_eq!(said.matches("*5\r\n").count(), 1_000);
        assert!(said.ends_with("+OK\r\n"));
        let page = server.metrics.render();
        let counted: f64 = page
            .lines()
            .filter(|line| line.starts_with("tidegate_checks_total{") && line.contains("resp"))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum();
        assert_eq!(counted, 1_000.0, "{page}");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_check_split_at_any_byte_is_answered_once() {
    let (_dir, config) = sockets();
    let server = serve(config);
    let mut client = server.connect(Door::Resp).await;
    client.send(THROTTLE).await;
    client.send(b"ECHO first\r\n").await;
    let mut first = String::new();
    while !first.ends_with("first\r\n") {
        first += &client.take(1).await;
    }
    for split in 1..THROTTLE.len() {
        let mut client = server.connect(Door::Resp).await;
        client.send(&THROTTLE[..split]).await;
        tokio::task::yield_now().await;
        client.send(&THROTTLE[split..]).await;
        client.send(b"QUIT\r\n").await;
        let said = client.rest().await;
        assert!(
            said.starts_with("*5\r\n:") && said.ends_with("+OK\r\n"),
            "at {split}: {said}"
        );
        assert_eq!(said.matches("\r\n").count(), 7, "at {split}: {said}");
    }
}

#[tokio::test]
async fn errors_do_not_close_unless_the_framing_is_broken() {
    let server = serve(ports());
    let wire = b"GET k\r\nCL.THROTTLE u +5 30 60\r\ncl.throttle u\r\nTG.CHECK\r\nPING\r\n*1\r\n:1\r\nPING\r\n";
    let said = server.exchange(Door::Resp, wire).await;
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "-ERR unknown command 'GET'",
            "-ERR max_burst must be a whole number from 0 to 9223372036854775807",
            "-ERR wrong number of arguments for 'cl.throttle' command",
            "-ERR wrong number of arguments for 'tg.check' command",
            "+PONG",
            "-ERR Protocol error: expected '$', got ':'",
        ]
    );
    let bad = |reason: &str| {
        server.figure(&format!(
            "tidegate_bad_requests_total{{door=\"resp\",reason=\"{reason}\"}}"
        ))
    };
    assert_eq!((bad("content"), bad("framing")), (Some(4.0), Some(1.0)));
    server.stop().await;
}

#[tokio::test]
async fn a_long_key_with_any_bytes_is_a_key() {
    let (_dir, config) = sockets();
    let server = serve(config);
    let key = "\r\n\0*".repeat(15_000);
    let check = format!(
        "*5\r\n$11\r\nCL.THROTTLE\r\n${}\r\n{key}\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n",
        key.len()
    );
    let said = server
        .exchange(Door::Resp, format!("{check}QUIT\r\n").as_bytes())
        .await;
    assert!(
        said.starts_with("*5\r\n") && said.ends_with("+OK\r\n"),
        "{said}"
    );
}
