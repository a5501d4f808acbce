//! Checks through the RESP, HTTP and gRPC doors of the real daemon, over Unix sockets, beside
//! what such a socket costs anyhow: servers that answer the same bytes without thinking.
//!
//! Floor and subject take turns in short rounds, and each ratio is the median of the
//! rounds' ratios: so what else the machine does falls on both. Servers and clients are
//! processes of their own (this program, started again in another role); the lone
//! connection has both on one core, where no wake-up crosses cores.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "doors/grpc.rs"]
mod grpc;

use std::io::{self, Read, Write};
use std::num::ParseIntError;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1_000);
/// The core that the lone connection's client and server share.
const CORE: &str = "0";
/// The unit of `/proc/PID/stat`.
const TICK: Duration = Duration::from_millis(10);
/// Stands in requests for the caller's key, and has its length.
const KEY: &str = "user:0000";
const CONNECTIONS: usize = 32;

const RULES: &str = "rules:\n  - { name: orders, endpoint: /api/v1/orders, key: user, limits: \
                     { default: { requests: 1000000000, window: 1h } } }\n  - { name: paths, domain: \
                     shop, descriptors: [{ key: path }, { key: remote_address }], limits: { \
                     requests: 1000000000, window: 1h } }\n";

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["echo-threads", socket, request, reply] => echo_threads(socket, echo(request, reply)?),
        ["echo-tokio", socket, request, reply] => echo_tokio(socket, echo(request, reply)?),
        ["client", socket, connections, depth, end, ends, request] => {
            let load = Load {
                connections: number(connections)?,
                depth: number(depth)?,
                end: number(end)?,
                ends: number(ends)?,
                request: request.to_owned(),
            };
            client(socket, &load)
        }
        ["grpc-client", socket] => grpc::client(socket),
        _ => compare(),
    }
}

// ---- what is compared ----

/// One question to a door.
struct Question {
    name: &'static str,
    socket: &'static str,
    request: String,
    /// A reply ends with so many of these bytes.
    end: u8,
    ends: usize,
}

fn questions() -> [Question; 3] {
    let command = |words: &[&str]| {
        let words = words.iter().map(|w| format!("${}\r\n{w}\r\n", w.len()));
        format!("*{}\r\n{}", words.len(), words.collect::<String>())
    };
    let resp = |name, words: &[&str]| Question {
        name,
        socket: "resp.sock",
        request: command(words),
        end: b'\n',
        ends: 6,
    };
    let body = format!("{{\"rule\":\"orders\",\"key\":\"{KEY}\"}}");
    [
        resp("TG.CHECK", &["TG.CHECK", "orders", KEY]),
        resp(
            "CL.THROTTLE",
            &["CL.THROTTLE", KEY, "999999999", "1000000000", "3600"],
        ),
        Question {
            name: "POST /v1/check",
            socket: "http.sock",
            request: format!(
                "POST /v1/check HTTP/1.1\r\nhost: tidegate\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            ),
            end: b'}',
            ends: 1,
        },
    ]
}

fn compare() -> io::Result<()> {
    let directory = tempfile::tempdir()?;
    let rules = directory.path().join("rules.yaml");
    std::fs::write(&rules, RULES)?;
    let place = Place {
        directory: directory.path(),
        rules: &rules,
    };
    let [check, throttle, http] = questions();
    println!(
        "{:<40} {:>10} {:>10} {:>6} {:>7} {:>17} {:>8}",
        "", "floor", "subject", "ratio", "target", "CPU: floor, subj.", "target"
    );
    let alone = |question: &Question, against, title: &str, target| {
        let load = Load::of(question, 1, 1);
        let measured = place.measure(against, question, &load)?;
        measured.print_latency(title, target, None);
        io::Result::Ok(())
    };
    let title = "blocking echo against bare tokio echo";
    alone(&check, Against::TokioEcho, title, None)?;
    for (question, target) in [(&check, 1.75), (&throttle, 1.75), (&http, 2.4)] {
        let title = format!("{}, alone on one core, p50", question.name);
        alone(question, Against::Threads, &title, Some(target))?;
    }
    grpc::compare(&place)?;
    for question in [&check, &throttle] {
        for (depth, target, cpu) in [(1, 0.85, 3.5), (16, 0.6, 0.5)] {
            let load = Load::of(question, CONNECTIONS, depth);
            let title = format!("{}, {CONNECTIONS} connections × {depth}", question.name);
            let measured = place.measure(Against::Tokio, question, &load)?;
            measured.print_rate(&title, target, cpu);
        }
    }
    Ok(())
}

/// What stands against what.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Against {
    /// The daemon against a blocking echo with a thread for each connection.
    Threads,
    /// The daemon against a bare echo in the same runtime as its own.
    Tokio,
    /// That bare echo against the blocking one.
    TokioEcho,
}

struct Place<'a> {
    directory: &'a Path,
    rules: &'a Path,
}

impl Place<'_> {
    fn measure(&self, against: Against, question: &Question, load: &Load) -> io::Result<Measured> {
        let pinned = load.connections == 1;
        let asked = self.directory.join(question.socket);
        let daemon = self.daemon(&asked, pinned)?;
        let sample = sample(&asked, load)?;
        let echo = |role: &str| self.echo(role, load, &sample, pinned);
        let (floor, subject) = match against {
            Against::Threads => (echo("echo-threads")?, daemon),
            Against::Tokio => (echo("echo-tokio")?, daemon),
            Against::TokioEcho => (echo("echo-threads")?, echo("echo-tokio")?),
        };
        let subject_socket = match against {
            Against::TokioEcho => subject.socket.clone(),
            Against::Threads | Against::Tokio => asked,
        };
        let mut measured = Measured::default();
        // The first round warms up.
        for round in 0..=ROUNDS {
            let below = floor.round(&floor.socket, load, pinned)?;
            let above = subject.round(&subject_socket, load, pinned)?;
            if round > 0 {
                measured.rounds.push((below, above));
            }
        }
        Ok(measured)
    }

    /// The daemon, when it listens on `asked`.
    fn daemon(&self, asked: &Path, pinned: bool) -> io::Result<Server> {
        let mut command = command(env!("CARGO_BIN_EXE_tidegate"), pinned);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .args(["serve", "--store", "none", "--log", "error"])
            .arg("--runtime-dir")
            .arg(self.directory)
            .arg("--rules")
            .arg(self.rules)
            .arg("--grpc")
            .arg(format!(
                "unix:{}",
                self.directory.join(grpc::SOCKET).display()
            ));
        Server::start(command, asked.to_owned())
    }

    fn echo(&self, role: &str, load: &Load, reply: &str, pinned: bool) -> io::Result<Server> {
        let socket = self.directory.join(role);
        // Of the echo that was here before.
        let _ = std::fs::remove_file(&socket);
        let mut command = command(std::env::current_exe()?, pinned);
        command
            .arg(role)
            .arg(&socket)
            .arg(load.request.len().to_string())
            .arg(reply);
        Server::start(command, socket)
    }
}

fn command(program: impl AsRef<std::ffi::OsStr>, pinned: bool) -> Command {
    if !pinned {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", CORE]).arg(program);
    command
}

/// One reply of the daemon, for the floor to give.
fn sample(socket: &Path, load: &Load) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(load.batch(0).as_bytes())?;
    let (mut reply, mut piece) = (Vec::new(), [0; 4_096]);
    while load.ends_in(&reply) < load.ends * load.depth {
        let read = stream.read(&mut piece)?;
        if read == 0 {
            return Err(io::Error::other("the daemon hung up"));
        }
        reply.extend_from_slice(&piece[..read]);
    }
    reply.truncate(reply.len() / load.depth);
    String::from_utf8(reply).map_err(io::Error::other)
}

// ---- servers, as processes ----

struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    fn start(mut command: Command, socket: PathBuf) -> io::Result<Server> {
        let child = command.stdout(Stdio::null()).spawn()?;
        let mut server = Server { child, socket };
        while UnixStream::connect(&server.socket).is_err() {
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!("a server ended with {status}")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    fn round(&self, socket: &Path, load: &Load, pinned: bool) -> io::Result<Round> {
        let mut client = command(std::env::current_exe()?, pinned);
        client
            .arg("client")
            .arg(socket)
            .args([&load.connections, &load.depth].map(|n| n.to_string()))
            .args([load.end.to_string(), load.ends.to_string()])
            .arg(&load.request);
        self.asked_by(client)
    }

    /// What came of a round of this client's.
    fn asked_by(&self, mut client: Command) -> io::Result<Round> {
        let before = self.cpu()?;
        let output = client.stderr(Stdio::inherit()).output()?;
        let spent = self.cpu()?.saturating_sub(before);
        let said = String::from_utf8_lossy(&output.stdout);
        let mut said = said.split_whitespace().map(str::parse::<f64>);
        match (said.next(), said.next()) {
            (Some(Ok(rate)), Some(Ok(p50))) => Ok(Round {
                rate,
                p50,
                cpu: spent.as_secs_f64() * 1e6 / (rate * ROUND.as_secs_f64()),
            }),
            _ => Err(io::Error::other("the client failed")),
        }
    }

    /// The CPU time that the process has had.
    fn cpu(&self) -> io::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields = stat.rsplit(')').next().unwrap_or_default();
        // Fields 14 and 15 of the line; the last two before these are the name and a blank.
        let ticks: Vec<u32> = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|ticks| ticks.parse().ok())
            .collect();
        Ok(TICK * ticks.iter().sum())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already. Killed, the daemon leaves its socket to the next.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// ---- what comes out ----

/// Checks a second, µs, and µs of the server's CPU for each check.
#[derive(Clone, Copy)]
struct Round {
    rate: f64,
    p50: f64,
    cpu: f64,
}

/// Floor and subject, round by round.
#[derive(Default)]
struct Measured {
    rounds: Vec<(Round, Round)>,
}

impl Measured {
    fn median(&self, of: impl Fn(&(Round, Round)) -> f64) -> f64 {
        let mut all: Vec<f64> = self.rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn print_latency(&self, title: &str, target: Option<f64>, cpu: Option<f64>) {
        let target = target.map_or(String::new(), |target| format!("≤ {target}"));
        let cpu = cpu.map_or(String::new(), |cpu| format!("≤ {cpu} µs"));
        self.print(
            title,
            |r| r.p50,
            |p50| format!("{p50:.1} µs"),
            &target,
            &cpu,
        );
    }

    fn print_rate(&self, title: &str, target: f64, cpu: f64) {
        let (target, cpu) = (format!("≥ {target}"), format!("≤ {cpu} µs"));
        let figure = |rate| format!("{:.0} k/s", rate / 1e3);
        self.print(title, |r| r.rate, figure, &target, &cpu);
    }

    fn print(
        &self,
        title: &str,
        of: impl Fn(&Round) -> f64,
        figure: impl Fn(f64) -> String,
        target: &str,
        cpu_target: &str,
    ) {
        println!(
            "{title:<40} {:>10} {:>10} {:>6.2} {target:>7} {:>7.2}, {:>5.2} µs {cpu_target:>8}",
            figure(self.median(|(floor, _)| of(floor))),
            figure(self.median(|(_, subject)| of(subject))),
            self.median(|(floor, subject)| of(subject) / of(floor)),
            self.median(|(floor, _)| floor.cpu),
            self.median(|(_, subject)| subject.cpu),
        );
    }
}

// ---- the client ----

/// What a client asks: `depth` questions at a time on each connection, the next when
/// all are answered.
#[derive(Clone)]
struct Load {
    connections: usize,
    depth: usize,
    end: u8,
    ends: usize,
    request: String,
}

impl Load {
    fn of(question: &Question, connections: usize, depth: usize) -> Load {
        Load {
            connections,
            depth,
            end: question.end,
            ends: question.ends,
            request: question.request.clone(),
        }
    }

    /// What one connection sends at a time; each question has a key of its own.
    fn batch(&self, connection: usize) -> String {
        let key = |n| format!("user:{:04}", connection * self.depth + n);
        (0..self.depth)
            .map(|n| self.request.replace(KEY, &key(n)))
            .collect()
    }

    fn ends_in(&self, bytes: &[u8]) -> usize {
        memchr::memchr_iter(self.end, bytes).count()
    }
}

/// Prints how many questions a second were answered, and the p50 of a batch in µs.
fn client(socket: &str, load: &Load) -> io::Result<()> {
    let (batches, mut spans) = if load.connections == 1 {
        alone(socket, load)?
    } else {
        together(socket, load)?
    };
    report(batches * load.depth, &mut spans);
    Ok(())
}

fn report(answered: usize, spans: &mut [Duration]) {
    let rate = answered as f64 / ROUND.as_secs_f64();
    spans.sort_unstable();
    let p50 = spans.get(spans.len() / 2).copied().unwrap_or_default();
    println!("{rate} {}", p50.as_secs_f64() * 1e6);
}

fn alone(socket: &str, load: &Load) -> io::Result<(usize, Vec<Duration>)> {
    let mut stream = UnixStream::connect(socket)?;
    let batch = load.batch(0);
    let mut piece = [0; 16_384];
    let mut spans = Vec::with_capacity(1 << 20);
    let (started, mut last) = (Instant::now(), Instant::now());
    while last.duration_since(started) < ROUND {
        stream.write_all(batch.as_bytes())?;
        let mut missing = load.ends * load.depth;
        while missing > 0 {
            let read = stream.read(&mut piece)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            missing = missing.saturating_sub(load.ends_in(&piece[..read]));
        }
        let now = Instant::now();
        spans.push(now.duration_since(last));
        last = now;
    }
    Ok((spans.len(), spans))
}

fn together(socket: &str, load: &Load) -> io::Result<(usize, Vec<Duration>)> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut connections = tokio::task::JoinSet::new();
        let started = Instant::now();
        for number in 0..load.connections {
            let mut stream = tokio::net::UnixStream::connect(socket).await?;
            let (batch, load) = (load.batch(number), load.clone());
            connections.spawn(async move {
                let mut piece = [0; 16_384];
                let mut batches = 0;
                while started.elapsed() < ROUND {
                    stream.write_all(batch.as_bytes()).await?;
                    let mut missing = load.ends * load.depth;
                    while missing > 0 {
                        let read = stream.read(&mut piece).await?;
                        if read == 0 {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                        missing = missing.saturating_sub(load.ends_in(&piece[..read]));
                    }
                    batches += 1;
                }
                Ok::<usize, io::Error>(batches)
            });
        }
        let mut batches = 0;
        while let Some(ended) = connections.join_next().await {
            batches += ended??;
        }
        Ok((batches, Vec::new()))
    })
}

// ---- the floors ----

/// Answers so many bytes of request with `reply`.
struct Echo {
    request: usize,
    reply: Vec<u8>,
}

fn echo(request: &str, reply: &str) -> io::Result<Echo> {
    Ok(Echo {
        request: number(request)?,
        reply: reply.as_bytes().repeat(1_024),
    })
}

impl Echo {
    /// The answer to `received` bytes, of which the last incomplete request stays.
    fn answer(&self, received: &mut usize) -> &[u8] {
        let requests = *received / self.request;
        *received %= self.request;
        &self.reply[..requests * (self.reply.len() / 1_024)]
    }
}

fn echo_threads(socket: &str, echo: Echo) -> io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    let echo = Arc::new(echo);
    loop {
        let (mut stream, _) = listener.accept()?;
        let echo = Arc::clone(&echo);
        std::thread::spawn(move || {
            let (mut piece, mut received) = ([0; 16_384], 0);
            loop {
                match stream.read(&mut piece) {
                    Ok(read @ 1..) => received += read,
                    Ok(0) | Err(_) => return,
                }
                if stream.write_all(echo.answer(&mut received)).is_err() {
                    return;
                }
            }
        });
    }
}

fn echo_tokio(socket: &str, echo: Echo) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::UnixListener::bind(socket)?;
        let echo = Arc::new(echo);
        loop {
            let (mut stream, _) = listener.accept().await?;
            let echo = Arc::clone(&echo);
            tokio::spawn(async move {
                let (mut piece, mut received) = ([0; 16_384], 0);
                loop {
                    match stream.read(&mut piece).await {
                        Ok(read @ 1..) => received += read,
                        Ok(0) | Err(_) => return,
                    }
                    if stream.write_all(echo.answer(&mut received)).await.is_err() {
                        return;
                    }
                }
            });
        }
    })
}

fn number<T: FromStr<Err = ParseIntError>>(text: &str) -> io::Result<T> {
    text.parse().map_err(io::Error::other)
}
