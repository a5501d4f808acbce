//! One connection of the RESP door.

mod watch;

use std::net::IpAddr;
use std::pin::pin;
use std::slice::from_ref;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::Shared;
use super::observer::{BadKind, Counting, Door};
use super::patient::Patient;
use super::waiting::ask_all;
use crate::engine::{
    Begun, Entry, Pending, PendingSettlement, Question, Request, Settling, Snapshot, Unanswered,
};
use crate::protocol::resp::{
    After, Ask, Frame, MAX_FRAME, Parser, Session, Settle, write_frame_error,
};
use crate::units::Timestamp;

use watch::{Patience, Watch};

/// The size of the input buffer, unless a single command is longer.
const INPUT: usize = 16 * 1_024;
/// The longest input that is ever waited for: a command, and the head of what follows.
const MAX_INPUT: usize = MAX_FRAME + 64;
/// Answering stops here until the peer has taken what there is.
const OUTPUT: usize = 32 * 1_024;
/// Answering stops here until the others have had their turn.
const COMMANDS: usize = 256;
/// One batch in so many is timed.
const TIMED: u32 = 16;

/// Answers `stream`, from a peer with the address `peer`, until it ends, breaks the protocol
/// or is too slow, or until `stop` is done and everything that has arrived is answered.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Option<IpAddr>,
    id: u64,
    shared: &Shared,
    stop: impl Future<Output = ()>,
) {
    let mut stream = Patient::new(stream, shared.config.request_timeout);
    let mut stop = pin!(stop);
    let mut watch = Watch::new(
        shared.config.request_timeout,
        shared.config.resp_idle_timeout,
    );
    let mut connection = Connection::new(id, peer, shared);
    loop {
        let next = connection.answer();
        if !connection.waiting.is_empty() {
            connection.settle().await;
        }
        if !connection.output.is_empty() {
            let wrote = stream.write_all(&connection.output).await;
            if wrote.is_err() || stream.flush().await.is_err() {
                return;
            }
            connection.output.clear();
        }
        match next {
            Next::Read => {}
            Next::Again => {
                tokio::task::yield_now().await;
                continue;
            }
            Next::Close => {
                // It is over either way.
                let _ = stream.shutdown().await;
                return;
            }
        }
        connection.make_room();
        loop {
            tokio::select! {
                biased;
                read = stream.read_buf(&mut connection.input) => match read {
                    Ok(1..) => break,
                    Ok(0) | Err(_) => return,
                },
                () = &mut stop => {
                    // It is over either way.
                    let _ = stream.shutdown().await;
                    return;
                }
                _ = watch.ticks.tick() => match watch.tick(connection.commands, &connection.input) {
                    Patience::Left => {}
                    Patience::Idle => connection.rest(),
                    Patience::Lost => {
                        if !connection.input.is_empty() {
                            shared.services.observer.bad_request(Door::Resp, BadKind::Slow);
                        }
                        return;
                    }
                },
            }
        }
    }
}

/// What is known of one connection between two reads.
struct Connection<'s> {
    shared: &'s Shared,
    peer: Option<IpAddr>,
    session: Session,
    parser: Parser,
    /// What was received, answered up to `start`.
    input: Vec<u8>,
    start: usize,
    output: Vec<u8>,
    /// What waits for the store, each with the place of its answer in `output`.
    waiting: Vec<(usize, Waiting)>,
    /// How many commands were answered, and batches begun.
    commands: u64,
    batches: u32,
}

/// What to do when the answers are written.
enum Next {
    /// Read more: no complete command is left.
    Read,
    /// Answer more: there may be complete commands.
    Again,
    /// Close.
    Close,
}

impl<'s> Connection<'s> {
    fn new(id: u64, peer: Option<IpAddr>, shared: &'s Shared) -> Connection<'s> {
        Connection {
            shared,
            peer,
            session: Session::new(id),
            parser: Parser::default(),
            input: Vec::new(),
            start: 0,
            output: Vec::new(),
            waiting: Vec::new(),
            commands: 0,
            batches: 0,
        }
    }

    /// Answers the complete commands in the input with one reading of the clock and
    /// one snapshot of the rules. Checks that must wait are put aside.
    fn answer(&mut self) -> Next {
        let services = &self.shared.services;
        let began = services.clock.local();
        let now = services.clock.to_fleet(began);
        let snapshot = services.engine.snapshot();
        let counters = services.observer.counters();
        let mut batch = Batch {
            shared: self.shared,
            snapshot: &snapshot,
            counting: counters.counting(Door::Resp),
            peer: self.peer,
            now,
        };
        let before = self.commands;
        let mut decisions = 0;
        let next = loop {
            let input = self.input.get(self.start..).unwrap_or_default();
            let found = self.parser.next(input);
            let frame = match &found {
                Ok(Some(frame)) => frame,
                Ok(None) => break Next::Read,
                Err(error) => {
                    write_frame_error(&mut self.output, *error);
                    services.observer.bad_request(Door::Resp, BadKind::Framing);
                    break Next::Close;
                }
            };
            let (session, output) = (&mut self.session, &mut self.output);
            match batch.command(frame, session, output) {
                Done::Decided => decisions += 1,
                Done::Waits(waiting) => self.waiting.push((output.len(), waiting)),
                Done::Answered(After::Continue) => {}
                Done::Answered(After::Malformed) => {
                    services.observer.bad_request(Door::Resp, BadKind::Content);
                }
                Done::Answered(After::Close) => break Next::Close,
            }
            self.start += frame.size();
            self.commands += 1;
            if self.output.len() >= OUTPUT || self.commands - before >= COMMANDS as u64 {
                break Next::Again;
            }
        };
        drop(batch);
        if decisions > 0 {
            if self.batches.is_multiple_of(TIMED) {
                let span = services.clock.local().since(began);
                services.observer.timed(Door::Resp, span, decisions);
            }
            self.batches = self.batches.wrapping_add(1);
        }
        next
    }

    /// Waits for the store's word on the checks that were put aside, and puts each answer
    /// into its place. It never takes longer than these checks may wait.
    async fn settle(&mut self) {
        let services = &self.shared.services;
        let waiting = std::mem::take(&mut self.waiting);
        let questions = waiting.iter().flat_map(|(_, waiting)| waiting.questions());
        let mut answers = ask_all(services, questions).await.into_iter();
        let now = services.clock.now();
        let early = std::mem::take(&mut self.output);
        let mut written = 0;
        for (place, waiting) in waiting {
            let mut answers = answers.by_ref().take(waiting.questions().len());
            let mut answer = || answers.next().unwrap_or(Err(Unanswered));
            self.output
                .extend_from_slice(early.get(written..place).unwrap_or_default());
            written = place;
            // Only rules have strict limits, and `CL.THROTTLE` asks no rules.
            match waiting {
                Waiting::Check(mut check) => {
                    let decision = check.settle(&services.engine, answer(), now);
                    services.observer.decided(Door::Resp, &decision);
                    Ask::write_check(&mut self.output, &decision);
                }
                Waiting::Report(mut report) => {
                    let decision = report.settle(&services.engine, answer(), now);
                    services.observer.reported(Door::Resp, &decision);
                    Ask::write_check(&mut self.output, &decision);
                }
                Waiting::Settlement(settlement) => {
                    let settlement = settlement.settle(&services.engine, answers, now);
                    services.observer.settled(Door::Resp, &settlement);
                    Settle::write(&mut self.output, &settlement);
                }
            }
        }
        self.output
            .extend_from_slice(early.get(written..).unwrap_or_default());
    }

    /// Forgets what is answered, and makes sure that there is room to read into.
    fn make_room(&mut self) {
        if self.output.capacity() > 2 * OUTPUT {
            self.output = Vec::new();
        }
        if self.start >= self.input.len() {
            self.input.clear();
            if self.input.capacity() > INPUT {
                self.input = Vec::new();
            }
        } else if self.start > 0 {
            self.input.drain(..self.start);
        }
        self.start = 0;
        if self.input.len() == self.input.capacity() {
            let wanted = (self.input.len() * 2).clamp(INPUT, MAX_INPUT);
            self.input
                .reserve_exact(wanted.saturating_sub(self.input.len()));
        }
    }

    /// Holds no buffers while nothing happens.
    fn rest(&mut self) {
        self.input = Vec::new();
        self.output = Vec::new();
    }
}

/// What became of one command.
enum Done {
    /// It was a check, and is decided and answered.
    Decided,
    /// It must wait, and is not answered.
    Waits(Waiting),
    /// It was something else, and is answered.
    Answered(After),
}

/// What waits for the store.
enum Waiting {
    Check(Box<Pending>),
    Report(Box<Pending>),
    Settlement(Box<PendingSettlement>),
}

impl Waiting {
    fn questions(&self) -> &[Question] {
        match self {
            Waiting::Check(pending) | Waiting::Report(pending) => from_ref(pending.question()),
            Waiting::Settlement(settlement) => settlement.questions(),
        }
    }
}

/// What the commands of one batch are answered with.
struct Batch<'b> {
    shared: &'b Shared,
    snapshot: &'b Snapshot<'b>,
    counting: Counting<'b>,
    peer: Option<IpAddr>,
    now: Timestamp,
}

impl Batch<'_> {
    /// Answers one command.
    #[inline]
    fn command(&mut self, frame: &Frame<'_>, session: &mut Session, output: &mut Vec<u8>) -> Done {
        // What is decoded and what is decided stays where it is: both are large.
        let decoded = Ask::decode(frame, output);
        let ask = match &decoded {
            Ok(Some(ask)) => ask,
            Ok(None) => return self.other(frame, session, output),
            Err(after) => return Done::Answered(*after),
        };
        if let Ask::Report(request) = ask {
            return self.report(ask, request, output);
        }
        let begun = ask.ask(self.peer, |request| match ask.id() {
            None => self.snapshot.begin(request, self.now),
            Some(id) => self.snapshot.begin_as(request, id, self.now),
        });
        match begun {
            Begun::Decided(ref decision) => {
                self.counting.decided(decision);
                ask.write(output, decision);
                Done::Decided
            }
            Begun::Pending(check) => Done::Waits(Waiting::Check(check)),
        }
    }

    /// Records what is not asked about.
    fn report(&self, ask: &Ask<'_>, request: &Request<'_>, output: &mut Vec<u8>) -> Done {
        match self.snapshot.report(request, Entry::Charge, self.now) {
            Begun::Decided(ref decision) => {
                let observer = &self.shared.services.observer;
                observer.reported(Door::Resp, decision);
                ask.write(output, decision);
                Done::Decided
            }
            Begun::Pending(report) => Done::Waits(Waiting::Report(report)),
        }
    }

    /// Answers a command that is no check.
    fn other(&self, frame: &Frame<'_>, session: &mut Session, output: &mut Vec<u8>) -> Done {
        match Settle::decode(frame, output) {
            Ok(Some(said)) => self.settle(said, output),
            Ok(None) => Done::Answered(session.answer(frame, output)),
            Err(after) => Done::Answered(after),
        }
    }

    /// Settles one check.
    fn settle(&self, said: Settle<'_>, output: &mut Vec<u8>) -> Done {
        let services = &self.shared.services;
        match said.total(|total| services.engine.settle(said.id, total, self.now)) {
            Settling::Done(settlement) => {
                services.observer.settled(Door::Resp, &settlement);
                Settle::write(output, &settlement);
                Done::Answered(After::Continue)
            }
            Settling::Pending(settlement) => Done::Waits(Waiting::Settlement(settlement)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::testing::{shared, shared_with_store};
    use std::time::Duration;
    use tokio::io::{DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::{self, Instant};

    fn start(buffer: usize) -> (DuplexStream, JoinHandle<()>) {
        start_with(shared(), buffer)
    }

    fn start_with(shared: Shared, buffer: usize) -> (DuplexStream, JoinHandle<()>) {
        let (ours, theirs) = duplex(buffer);
        let serving = tokio::spawn(async move {
            serve(theirs, None, 1, &shared, std::future::pending()).await;
        });
        (ours, serving)
    }

    async fn said(stream: &mut DuplexStream) -> String {
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        said
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_that_trickles_in_is_cut_off_in_time() {
        let (mut stream, serving) = start(64);
        let before = Instant::now();
        // A byte every ten seconds: never silent, and never done.
        for byte in *b"*1\r\n$4\r\nPING\r\n" {
            if stream.write_all(&[byte]).await.is_err() {
                break;
            }
            time::sleep(Duration::from_secs(10)).await;
        }
        serving.await.unwrap();
        assert_eq!(said(&mut stream).await, "");
        let (timeout, took) = (Duration::from_secs(10), before.elapsed());
        assert!(took >= timeout && took <= timeout * 2, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_between_commands_is_no_fault_until_it_is_too_long() {
        let (mut stream, serving) = start(64);
        let hour = Duration::from_secs(3_600);
        for _ in 0..3 {
            time::sleep(hour - Duration::from_secs(1)).await;
            stream.write_all(b"PING\r\n").await.unwrap();
            let mut pong = [0; 7];
            stream.read_exact(&mut pong).await.unwrap();
        }
        let before = Instant::now();
        assert_eq!(said(&mut stream).await, "");
        serving.await.unwrap();
        let took = before.elapsed();
        assert!(
            took >= hour && took <= hour + Duration::from_secs(10),
            "{took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_never_reads_is_neither_buffered_for_nor_kept() {
        let (mut stream, serving) = start(1_024);
        let echo = format!("*2\r\n$4\r\nECHO\r\n$1000\r\n{}\r\n", "x".repeat(1_000));
        let mut taken = 0;
        // It takes what its buffers hold, then no more, and then it hangs up.
        while stream.write_all(echo.as_bytes()).await.is_ok() {
            taken += 1;
            assert!(taken < 100, "it buffers without bound");
        }
        serving.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn broken_framing_is_answered_and_ends_the_connection() {
        let (mut stream, serving) = start(1_024);
        stream
            .write_all(b"PING\r\n*1\r\n*1\r\n$4\r\nPING\r\n")
            .await
            .unwrap();
        let wanted = "+PONG\r\n-ERR Protocol error: expected '$', got '*'\r\n";
        assert_eq!(said(&mut stream).await, wanted);
        serving.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn quit_is_answered_and_what_follows_is_not() {
        let (mut stream, serving) = start(1_024);
        stream.write_all(b"PING\r\nQUIT\r\nPING\r\n").await.unwrap();
        assert_eq!(said(&mut stream).await, "+PONG\r\n+OK\r\n");
        serving.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_pipeline_of_any_length_is_answered_in_order() {
        let (stream, serving) = start(4_096);
        let (mut reading, mut writing) = tokio::io::split(stream);
        let count = 5_000;
        let writer = tokio::spawn(async move {
            for number in 0..count {
                writing
                    .write_all(format!("ECHO {number}\r\n").as_bytes())
                    .await
                    .unwrap();
            }
            writing.write_all(b"QUIT\r\n").await.unwrap();
        });
        let mut replies = String::new();
        reading.read_to_string(&mut replies).await.unwrap();
        let wanted: String = (0..count)
            .map(|number| number.to_string())
            .map(|text| format!("${}\r\n{text}\r\n", text.len()))
            .collect();
        assert_eq!(replies, wanted + "+OK\r\n");
        writer.await.unwrap();
        serving.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_the_store_keeps_the_order_and_wears_out_no_patience() {
        // Longer than a command may take to come in, or a connection to say nothing.
        let wait = Duration::from_secs(2 * 3_600);
        let (mut stream, serving) = start_with(shared_with_store(wait), 4_096);
        let before = Instant::now();
        stream
            .write_all(b"PING\r\nTG.CHECK exact k 5\r\nTG.CHECK here k 2\r\nECHO a\r\nTG.CHECK exact k 7\r\nQUIT\r\n")
            .await
            .unwrap();
        let exact = |cost| format!("*5\r\n:0\r\n:9\r\n:{cost}\r\n:-1\r\n:0\r\n");
        let replies = said(&mut stream).await;
        let (first, rest) = replies.split_at("+PONG\r\n".len() + exact(5).len());
        assert_eq!(first, format!("+PONG\r\n{}", exact(5)));
        assert!(
            rest.starts_with("*5\r\n:0\r\n:9\r\n:7\r\n:-1\r\n:"),
            "{rest}"
        );
        let end = format!("\r\n$1\r\na\r\n{}+OK\r\n", exact(7));
        assert!(rest.ends_with(&end), "{rest}");
        serving.await.unwrap();
        // The two waited together.
        assert!(before.elapsed() < 2 * wait, "{:?}", before.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_a_command_may_come_while_the_one_before_it_waits() {
        let wait = Duration::from_secs(60);
        let (mut stream, serving) = start_with(shared_with_store(wait), 4_096);
        stream
            .write_all(b"TG.CHECK exact k 5\r\nECH")
            .await
            .unwrap();
        time::sleep(wait / 2).await;
        stream.write_all(b"O a\r\nQUIT\r\n").await.unwrap();
        let replies = said(&mut stream).await;
        assert!(replies.ends_with("$1\r\na\r\n+OK\r\n"), "{replies}");
        serving.await.unwrap();
    }

    #[test]
    fn the_input_grows_to_the_longest_command_and_no_further() {
        let shared = shared();
        let mut connection = Connection::new(1, None, &shared);
        let mut wire = b"*64\r\n".to_vec();
        while wire.len() < MAX_FRAME - 3_000 {
            wire.extend_from_slice(b"$2000\r\n");
            wire.extend_from_slice(&[b'x'; 2_000]);
            wire.extend_from_slice(b"\r\n");
        }
        for piece in wire.chunks(100) {
            connection.make_room();
            let spare = connection.input.capacity() - connection.input.len();
            assert!(spare > 0 && connection.input.capacity() <= MAX_INPUT);
            for byte in piece {
                if connection.input.len() == connection.input.capacity() {
                    connection.make_room();
                }
                connection.input.push(*byte);
            }
            assert!(matches!(connection.answer(), Next::Read));
        }
        assert!(connection.input.len() > MAX_FRAME - 5_000);
    }

    #[test]
    fn a_long_command_leaves_no_long_buffer_behind() {
        let shared = shared();
        let mut connection = Connection::new(1, None, &shared);
        let key = "x".repeat(60_000);
        connection.input = format!("*2\r\n$4\r\nECHO\r\n$60000\r\n{key}\r\n").into_bytes();
        assert!(matches!(connection.answer(), Next::Again));
        assert!(matches!(connection.answer(), Next::Read));
        connection.output.clear();
        connection.make_room();
        assert!(connection.input.capacity() <= INPUT);
        assert!(connection.output.capacity() <= 2 * OUTPUT);
    }
}
