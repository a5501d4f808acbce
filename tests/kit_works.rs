//! The support for tests does what its documentation says.

#![allow(clippy::disallowed_methods)]

mod kit;

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kit::resp::{Client, Value};
use kit::{Addr, Daemon, Drive, Proxy, Redis, http, resp, sum, wait_until};

fn client(proxy: &Proxy) -> Client {
    Client::connect(proxy.addr())
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

#[test]
fn a_redis_answers_at_both_addresses_and_forgets_when_restarted() {
    let mut redis = Redis::start();
    assert_eq!(redis.cli(&["SET", "a", "1"]), "OK");
    let tcp = Client::connect(redis.addr()).command(&["GET", "a"]);
    assert_eq!(tcp, Value::Bulk(b"1".to_vec()));
    let unix = Client::connect(redis.socket().as_path()).command(&["GET", "a"]);
    assert_eq!(unix, Value::Bulk(b"1".to_vec()));
    let before = redis.url();
    redis.restart();
    assert_eq!(redis.url(), before);
    assert_eq!(redis.cli(&["EXISTS", "a"]), "0");
}

#[test]
fn a_redis_with_an_append_only_file_keeps_what_it_acknowledged() {
    let mut redis = Redis::start_with(&[("appendonly", "yes")]);
    assert_eq!(redis.cli(&["SET", "a", "1"]), "OK");
    redis.kill();
    assert!(Client::try_connect(&Addr::from(redis.addr())).is_err());
    redis.restart();
    assert_eq!(redis.cli(&["GET", "a"]), "1");
}

#[test]
fn a_paused_redis_answers_only_after_it_is_resumed() {
    let redis = Redis::start();
    let mut client = Client::connect(redis.addr());
    redis.pause();
    let (tell, told) = mpsc::channel();
    let asking = std::thread::spawn(move || {
        client.write(&resp::encode(&["PING"])).unwrap();
        tell.send("asked").unwrap();
        client.read().unwrap();
        tell.send("answered").unwrap();
    });
    assert_eq!(told.recv(), Ok("asked"));
    assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Empty));
    redis.resume();
    assert_eq!(told.recv(), Ok("answered"));
    asking.join().unwrap();
}

#[test]
fn a_proxy_without_faults_forwards_a_pipeline_and_counts_it() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.addr());
    let commands: Vec<_> = (0..1_000).map(|_| vec!["INCR", "n"]).collect();
    let replies = client(&proxy).pipeline(&commands);
    assert_eq!(replies, (1..=1_000).map(Value::Int).collect::<Vec<_>>());
    wait_until("the last request to be counted", || {
        proxy.forwarded() == 1_000
    });
    assert_eq!((proxy.connections(), proxy.dropped()), (1, 0));
}

#[test]
fn a_dropped_reply_is_of_a_request_that_was_carried_out() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.addr());
    proxy.drop_replies_to("incr", 2);
    for lost in 1..=2 {
        let mut client = client(&proxy);
        assert_eq!(client.command(&["SET", "other", "x"]), ok());
        assert!(client.try_command(&["INCR", "n"]).is_err());
        assert_eq!(proxy.dropped(), lost);
        assert_eq!(redis.cli(&["GET", "n"]), lost.to_string());
    }
    assert_eq!(client(&proxy).command(&["INCR", "n"]), Value::Int(3));
    proxy.drop_replies(1);
    assert!(client(&proxy).try_command(&["PING"]).is_err());
    assert_eq!(proxy.dropped(), 3);
}

#[test]
fn replies_before_the_dropped_one_arrive() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.addr());
    proxy.drop_replies_to("INCR", 1);
    let mut client = client(&proxy);
    let bytes = [
        resp::encode(&["SET", "a", "1"]),
        resp::encode(&["INCR", "a"]),
    ]
    .concat();
    client.write(&bytes).unwrap();
    assert_eq!(client.read().unwrap(), ok());
    assert!(client.read().is_err());
    assert_eq!(redis.cli(&["GET", "a"]), "2");
}

#[test]
fn a_stalled_request_arrives_after_the_release_although_the_client_is_gone() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.addr());
    let mut gone = client(&proxy);
    assert_eq!(gone.command(&["PING"]), Value::Simple("PONG".into()));
    proxy.stall();
    gone.write(&resp::encode(&["SET", "late", "1"])).unwrap();
    drop(gone);
    assert_eq!(redis.cli(&["EXISTS", "late"]), "0");
    proxy.release();
    wait_until("the late request", || redis.cli(&["EXISTS", "late"]) == "1");
}

#[test]
fn a_cut_ends_every_connection_and_a_refusal_every_new_one() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.addr());
    let mut standing = client(&proxy);
    standing.command(&["PING"]);
    proxy.refuse(true);
    assert!(client(&proxy).try_command(&["PING"]).is_err());
    standing.command(&["PING"]);
    proxy.cut();
    assert!(standing.try_command(&["PING"]).is_err());
    proxy.refuse(false);
    client(&proxy).command(&["PING"]);
}

#[test]
fn split_and_delayed_bytes_mean_the_same() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.addr());
    proxy.split_bytes(true);
    proxy.delay(Duration::from_millis(20));
    let asked = std::time::Instant::now();
    assert_eq!(client(&proxy).command(&["ECHO", "four"]).text(), "four");
    assert!(asked.elapsed() >= Duration::from_millis(40), "both ways");
}

#[test]
fn a_drive_sends_what_it_is_told_and_counts_what_is_admitted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("resp.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut buffer, mut bytes) = (Vec::new(), [0; 1024]);
        let mut asked = Vec::new();
        while let Ok(read @ 1..) = stream.read(&mut bytes) {
            buffer.extend_from_slice(&bytes[..read]);
            while let Some((request, length)) = resp::decode(&buffer) {
                buffer.drain(..length);
                // Every third is refused, the last is an error.
                let reply = match asked.len() {
                    99 => "-ERR no\r\n".to_owned(),
                    n => format!(
                        "*5\r\n:{}\r\n:10\r\n:3\r\n:-1\r\n:7\r\n",
                        u8::from(n % 3 == 2)
                    ),
                };
                stream.write_all(reply.as_bytes()).unwrap();
                asked.push(request);
            }
        }
        asked
    });
    let check = ["TG.CHECK", "orders", "alice"];
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let driven = Drive::start(path.as_path(), &check, 500, Duration::from_millis(200)).join();
    let (request, _) = resp::decode(&resp::encode(&check)).unwrap();
    assert_eq!(server.join().unwrap(), vec![request; 100]);
    assert_eq!(driven.samples.len(), 99);
    assert_eq!(driven.admitted(), 66);
    assert_eq!(
        driven
            .admitted_per(Duration::from_secs(1))
            .values()
            .sum::<u64>(),
        66
    );
    assert_eq!(driven.errors, [r#"Error("ERR no")"#]);
    assert!(driven.samples.iter().all(|sample| sample.reset_after == 7));
    assert!(driven.latency(0.5) <= driven.slowest());
    // The 99th is due 196 ms after the start; the wall clock may be slewed a little.
    let last = driven.samples[98].at - began;
    assert!(last >= Duration::from_millis(190), "too early: {last:?}");
}

#[test]
fn a_drive_goes_round_its_commands_until_it_is_stopped_or_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("resp.sock");
    let listener = UnixListener::bind(&path).unwrap();
    // Admits everything, and tells what it was asked.
    let serve = move |tell: mpsc::Sender<String>| {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut buffer, mut bytes) = (Vec::new(), [0; 1024]);
        loop {
            let request = loop {
                if let Some((Value::Array(request), length)) = resp::decode(&buffer) {
                    buffer.drain(..length);
                    break request;
                }
                match stream.read(&mut bytes) {
                    Ok(read @ 1..) => buffer.extend_from_slice(&bytes[..read]),
                    _ => return listener,
                }
            };
            stream
                .write_all(b"*5\r\n:0\r\n:10\r\n:3\r\n:-1\r\n:7\r\n")
                .unwrap();
            let _ = tell.send(request[1].text());
        }
    };
    let (tell, told) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let listener = serve(tell);
        let (mut stream, _) = listener.accept().unwrap();
        // Takes one command and hangs up.
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
    });
    let commands = [vec!["CHECK", "a"], vec!["CHECK", "b"], vec!["CHECK", "c"]];
    let drive = Drive::cycle(path.as_path(), &commands, 1_000);
    let first: Vec<String> = told.iter().take(7).collect();
    assert_eq!(first, ["a", "b", "c", "a", "b", "c", "a"]);
    let driven = drive.stop();
    assert!(driven.samples.len() >= 7);
    for (turn, sample) in driven.samples.iter().enumerate() {
        assert_eq!(sample.command, turn % 3);
    }
    assert_eq!((driven.errors.len(), driven.in_doubt), (0, None));
    let driven = Drive::cycle(path.as_path(), &commands, 1_000).join();
    assert_eq!(driven.samples.len(), 0);
    assert_eq!((driven.errors.len(), driven.in_doubt), (1, Some(0)));
    server.join().unwrap();
}

#[test]
fn http_answers_are_read_by_length_by_chunks_and_to_the_end() {
    let parse = |text: &str| http::parse(text.as_bytes());
    let reply = parse("HTTP/1.1 429 Too Many\r\nX-A: b\r\nContent-Length: 2\r\n\r\n{}").unwrap();
    assert_eq!((reply.status, reply.header("x-a")), (429, Some("b")));
    assert_eq!(reply.json(), serde_json::json!({}));
    let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
    assert_eq!(parse(chunked).unwrap().body, "abcd");
    assert_eq!(parse("HTTP/1.1 200 OK\r\n\r\nrest").unwrap().body, "rest");
    assert_eq!(
        parse("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nrest"),
        None
    );
    assert_eq!(parse("+PONG\r\n"), None);
}

#[test]
fn resp_values_are_read_only_when_they_are_all_there() {
    let bytes = b"*3\r\n:-1\r\n$3\r\na\r\n\r\n%1\r\n+k\r\n_\r\n";
    for end in 0..bytes.len() {
        assert_eq!(resp::decode(&bytes[..end]), None, "{end} bytes");
    }
    let map = Value::Map(vec![(Value::Simple("k".into()), Value::Null)]);
    let all = Value::Array(vec![Value::Int(-1), Value::Bulk(b"a\r\n".to_vec()), map]);
    assert_eq!(resp::decode(bytes), Some((all, bytes.len())));
}

#[test]
fn a_metric_is_the_sum_of_the_series_that_carry_the_labels() {
    let page = "# HELP checks x\nchecks{rule=\"a\",outcome=\"ok\"} 2\n\
                checks{rule=\"ab\",outcome=\"ok\"} 3\nchecks_total 9\nup 1\n";
    assert_eq!(sum(page, "checks", &[]), Some(5.0));
    assert_eq!(sum(page, "checks", &[("rule", "a")]), Some(2.0));
    assert_eq!(sum(page, "checks", &[("outcome", "ok")]), Some(5.0));
    assert_eq!(sum(page, "up", &[]), Some(1.0));
    assert_eq!(sum(page, "checks", &[("rule", "b")]), None);
    assert_eq!(sum(page, "check", &[]), None);
}

#[test]
#[should_panic(expected = "the daemon ended at its start")]
fn a_daemon_that_cannot_start_fails_the_test_at_once() {
    Daemon::start("", &["--no-such-flag"]);
}
