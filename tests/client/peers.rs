//! Peers that are no daemons, in the test's own runtime, whose time is virtual.

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tidegate::client::{Answer, Builder, Check, Client, FailMode, Missed, Source};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

struct Peer {
    listener: UnixListener,
    dir: TempDir,
}

fn socket(dir: &TempDir) -> PathBuf {
    dir.path().join("peer.sock")
}

impl Peer {
    fn new() -> Peer {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(socket(&dir)).unwrap();
        Peer { listener, dir }
    }

    /// A client of one connection to it that waits a second.
    fn client(&self) -> Builder {
        let client = Client::unix(socket(&self.dir));
        client.connections(1).deadline(SECOND)
    }

    async fn accept(&self) -> UnixStream {
        in_time(self.listener.accept()).await.unwrap().0
    }
}

/// Virtual time, so that a test fails at once and does not hang.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    timeout(SECOND * 600, work).await.unwrap()
}

/// Reads one check of `Check::new("r", key)` and answers its key.
async fn asked(stream: &mut UnixStream) -> String {
    let mut line = async || {
        let mut line = String::new();
        while !line.ends_with("\r\n") {
            line.push(char::from(in_time(stream.read_u8()).await.unwrap()));
        }
        line.trim_end().to_owned()
    };
    let mut words = Vec::new();
    assert_eq!(line().await, "*4");
    for _ in 0..4 {
        line().await;
        words.push(line().await);
    }
    assert_eq!((&*words[0], &*words[1], &*words[3]), ("TG.CHECK", "r", "1"));
    words.swap_remove(2)
}

/// A reply that says `remaining`.
fn reply(remaining: u64) -> String {
    format!("*5\r\n:0\r\n:1000\r\n:{remaining}\r\n:-1\r\n:5\r\n")
}

async fn say(stream: &mut UnixStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// Asks with a key that is a number.
fn ask(tasks: &mut JoinSet<Answer>, client: &Client, key: u64) {
    let client = client.clone();
    tasks.spawn(async move {
        let key = key.to_string();
        client.check(&Check::new("r", &key)).await.unwrap()
    });
}

fn missed(missed: Missed) -> Source {
    Source::FailMode(missed)
}

#[tokio::test(start_paused = true)]
async fn many_questions_are_under_way_at_once_and_replies_go_out_in_order() {
    let peer = Peer::new();
    let client = peer.client().start();
    let mut stream = peer.accept().await;
    let asking = async |key: u64| {
        let key = key.to_string();
        let answer = client.check(&Check::new("r", &key)).await.unwrap();
        assert_eq!(answer.remaining, key.parse().ok());
    };
    let serving = async {
        // Nothing is answered before all have asked.
        let mut keys = Vec::new();
        for _ in 0..100 {
            keys.push(asked(&mut stream).await);
        }
        for key in keys {
            // In two pieces, somewhere within.
            let reply = reply(key.parse().unwrap());
            let (head, tail) = reply.split_at(reply.len() / 2);
            say(&mut stream, head).await;
            tokio::task::yield_now().await;
            say(&mut stream, tail).await;
        }
    };
    futures_util::future::join(
        futures_util::future::join_all((0..100).map(asking)),
        serving,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_asks_waits_for_the_deadline_and_no_longer() {
    let peer = Peer::new();
    let client = peer.client().start();
    let _silent = peer.accept().await;
    for (mode, allowed) in [(FailMode::Open, true), (FailMode::Closed, false)] {
        let client = client.with_fail_mode(mode);
        let start = Instant::now();
        let answer = client.check(&Check::new("r", "1")).await.unwrap();
        assert_eq!(answer.source, missed(Missed::Late));
        assert_eq!(answer.is_allowed(), allowed);
        // Timers are of whole milliseconds, rounded up.
        let waited = start.elapsed();
        assert!(SECOND <= waited && waited <= SECOND + Duration::from_millis(2));
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_where_nobody_listens() {
    let dir = tempfile::tempdir().unwrap();
    let client = Client::unix(socket(&dir)).deadline(SECOND * 86_400).start();
    for _ in 0..100 {
        let start = Instant::now();
        let answer = client.check(&Check::new("r", "1")).await.unwrap();
        assert_eq!(answer.source, missed(Missed::Unreachable));
        assert!(start.elapsed() < SECOND);
        sleep(SECOND / 10).await;
    }
    // Who listens at last is found within the longest pause.
    let listener = UnixListener::bind(socket(&dir)).unwrap();
    let start = Instant::now();
    let _stream = listener.accept().await.unwrap();
    assert!(start.elapsed() <= SECOND);
}

#[tokio::test(start_paused = true)]
async fn late_replies_are_nobodys() {
    let peer = Peer::new();
    let client = peer.client().start();
    let mut stream = peer.accept().await;
    let mut tasks = JoinSet::new();
    for key in 0..10 {
        ask(&mut tasks, &client, key);
    }
    while let Some(answer) = tasks.join_next().await {
        assert_eq!(answer.unwrap().source, missed(Missed::Late));
    }
    ask(&mut tasks, &client, 10);
    for _ in 0..=10 {
        let key = asked(&mut stream).await.parse().unwrap();
        say(&mut stream, &reply(key)).await;
    }
    let answer = tasks.join_next().await.unwrap().unwrap();
    assert_eq!(answer.remaining, Some(10));
}

#[tokio::test(start_paused = true)]
async fn without_a_place_a_question_is_not_sent_and_with_the_replies_places_come_back() {
    let peer = Peer::new();
    let client = peer.client().places(2).start();
    let mut stream = peer.accept().await;
    let mut tasks = JoinSet::new();
    let sources = async |tasks: &mut JoinSet<Answer>| {
        let mut sources = Vec::new();
        while let Some(answer) = tasks.join_next().await {
            sources.push(answer.unwrap().source);
        }
        sources.sort_by_key(|source| *source == missed(Missed::Busy));
        sources
    };
    for key in 0..5 {
        ask(&mut tasks, &client, key);
    }
    let [late, busy] = [Missed::Late, Missed::Busy].map(missed);
    assert_eq!(sources(&mut tasks).await, [late, late, busy, busy, busy]);
    // Those two still have their places, since their replies are still to come.
    ask(&mut tasks, &client, 5);
    assert_eq!(sources(&mut tasks).await, [busy]);
    for _ in 0..2 {
        asked(&mut stream).await;
    }
    say(&mut stream, &reply(0).repeat(2)).await;
    ask(&mut tasks, &client, 6);
    ask(&mut tasks, &client, 7);
    for _ in 0..2 {
        let key = asked(&mut stream).await.parse().unwrap();
        assert!(key == 6 || key == 7, "{key} was not sent before");
        say(&mut stream, &reply(key)).await;
    }
    assert_eq!(sources(&mut tasks).await, [Source::Daemon; 2]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_place_gets_the_next_that_is_free() {
    let peer = Peer::new();
    let client = peer.client().places(2).start();
    let mut stream = peer.accept().await;
    let mut tasks = JoinSet::new();
    for key in 0..50 {
        ask(&mut tasks, &client, key);
    }
    for _ in 0..50 {
        let key = asked(&mut stream).await.parse().unwrap();
        say(&mut stream, &reply(key)).await;
    }
    while let Some(answer) = tasks.join_next().await {
        assert_eq!(answer.unwrap().source, Source::Daemon);
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_given_up_before_it_is_sent_never_is() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(socket(&dir)).unwrap();
    let client = Client::unix(socket(&dir)).connections(1).start();
    {
        let check = Check::new("r", "given up");
        let mut asking = std::pin::pin!(client.check(&check));
        // Once, before the connection's task has run.
        tokio::select! {
            biased;
            answer = &mut asking => panic!("{answer:?}"),
            () = std::future::ready(()) => {}
        }
    }
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut tasks = JoinSet::new();
    ask(&mut tasks, &client, 1);
    assert_eq!(asked(&mut stream).await, "1");
}

/// What a peer does with a connection, and whether the client can know at once that there
/// will be no reply.
const SPOILT: [(&str, bool, bool); 15] = [
    // Said, then closed, noticed.
    ("", true, true),
    ("*", true, true),
    ("*5\r\n:0\r\n:10", true, true),
    ("-ERR unknown ru", true, true),
    ("HTTP/1.1 400 Bad Request\r\n\r\n", false, true),
    ("+OK\r\n", false, true),
    ("$3\r\nabc\r\n", false, true),
    ("*4\r\n:1\r\n:0\r\n:0\r\n:0\r\n", false, true),
    ("*5\r\n:7\r\n:0\r\n:0\r\n:0\r\n:0\r\n", false, true),
    ("*99999999999\r\n", false, true),
    ("*5\r\n*5\r\n*5\r\n*5\r\n*5\r\n", false, true),
    ("-ERR max number of clients reached\r\n", false, true),
    ("\0\0\0\0\n\r\n\r", false, true),
    ("*5\r\n:0\r\n:10", false, false),
    ("", false, false),
];

#[tokio::test(start_paused = true)]
async fn a_peer_that_talks_nonsense_is_left_and_asked_anew() {
    let endless = ("x".repeat(100_000), false, true);
    let spoilt = SPOILT.map(|(said, closed, noticed)| (said.to_owned(), closed, noticed));
    for (said, closed, noticed) in spoilt.into_iter().chain([endless]) {
        let peer = Peer::new();
        let client = peer.client().patience(SECOND * 3).start();
        let mut stream = peer.accept().await;
        let mut tasks = JoinSet::new();
        ask(&mut tasks, &client, 1);
        assert_eq!(asked(&mut stream).await, "1");
        // It may be left before it has said it all.
        let _ = stream.write_all(said.as_bytes()).await;
        let held = (!closed).then_some(stream);
        let answer = tasks.join_next().await.unwrap().unwrap();
        let wanted = if noticed {
            Missed::Unreachable
        } else {
            Missed::Late
        };
        assert_eq!(answer.source, missed(wanted), "{said:?}");
        // Without a word for so long, that connection is given up, too.
        let mut stream = peer.accept().await;
        drop(held);
        ask(&mut tasks, &client, 2);
        let served = async {
            assert_eq!(asked(&mut stream).await, "2");
            say(&mut stream, &reply(2)).await;
        };
        let (answer, ()) = futures_util::future::join(tasks.join_next(), served).await;
        assert_eq!(answer.unwrap().unwrap().remaining, Some(2), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_to_nothing_ends_the_connection() {
    let peer = Peer::new();
    let _client = peer.client().start();
    let mut stream = peer.accept().await;
    say(&mut stream, &reply(1)).await;
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    peer.accept().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_never_answers_is_made_anew_after_longer_and_longer_pauses() {
    let peer = Peer::new();
    let _client = peer.client().start();
    let start = Instant::now();
    for _ in 0..20 {
        drop(peer.accept().await);
    }
    // Seven that double from 10 ms at least to half a second, and twelve of that at least.
    let waited = start.elapsed();
    assert!(SECOND * 6 < waited && waited < SECOND * 15, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_closed_because_it_is_idle_is_no_failure() {
    let peer = Peer::new();
    let client = peer.client().start();
    for _ in 0..20 {
        let stream = peer.accept().await;
        sleep(SECOND * 2).await;
        drop(stream);
    }
    // Nor is a question lost that comes between two connections.
    sleep(Duration::from_micros(1)).await;
    let mut tasks = JoinSet::new();
    ask(&mut tasks, &client, 1);
    let mut stream = peer.accept().await;
    assert_eq!(asked(&mut stream).await, "1");
    say(&mut stream, &reply(1)).await;
    let answer = tasks.join_next().await.unwrap().unwrap();
    assert_eq!(answer.source, Source::Daemon);
}

#[tokio::test(start_paused = true)]
async fn connections_end_with_the_last_of_the_clones() {
    let peer = Peer::new();
    let client = peer.client().start();
    let clone = client.with_fail_mode(FailMode::Open);
    let mut stream = peer.accept().await;
    drop(client);
    let mut tasks = JoinSet::new();
    ask(&mut tasks, &clone, 1);
    assert_eq!(asked(&mut stream).await, "1");
    say(&mut stream, &reply(1)).await;
    assert!(tasks.join_next().await.unwrap().unwrap().is_allowed());
    drop(clone);
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    // Nor is there another.
    let another = timeout(SECOND * 60, peer.accept()).await;
    assert!(another.is_err());
}
