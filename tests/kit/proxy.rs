use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use super::resp::{self, Value};

/// A TCP proxy in front of a Redis that misbehaves when told to, and only then.
///
/// It forwards whole requests, one reply for each, so that a fault hits exactly
/// the request it is meant for.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    target: Mutex<SocketAddr>,
    faults: Mutex<Faults>,
    changed: Condvar,
    live: Mutex<Vec<TcpStream>>,
    connections: AtomicU64,
    forwarded: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Faults {
    /// How many replies are still to be dropped, and to which command if not to any.
    drop: u64,
    only: Option<String>,
    stalled: bool,
    refusing: bool,
    split: bool,
    delay: Duration,
    /// Connections up to this number are held for good.
    abandoned: u64,
    closing: bool,
}

/// What becomes of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Deliver,
    Drop,
}

impl Proxy {
    /// Starts one in front of `target`, without faults.
    pub fn start(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let addr = listener.local_addr().expect("the port's number");
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            faults: Mutex::default(),
            changed: Condvar::new(),
            live: Mutex::default(),
            connections: AtomicU64::new(0),
            forwarded: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        let accepting = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Proxy {
            addr,
            shared,
            accepting: Some(accepting),
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where it listens, as the URL of a Redis.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Forwards each of the next `count` requests, swallows its reply and closes
    /// the connection.
    pub fn drop_replies(&self, count: u64) {
        self.set(|faults| (faults.drop, faults.only) = (count, None));
    }

    /// As [`Proxy::drop_replies`], counting requests of this command alone.
    pub fn drop_replies_to(&self, command: &str, count: u64) {
        let only = Some(command.to_ascii_uppercase());
        self.set(|faults| (faults.drop, faults.only) = (count, only));
    }

    /// Holds everything, both ways, until [`Proxy::release`]. What a client sent
    /// before it gave up still arrives then.
    pub fn stall(&self) {
        self.set(|faults| faults.stalled = true);
    }

    /// Holds everything on the connections that stand, for good, and closes none of them, as
    /// if their host were gone. New ones are as ever.
    pub fn abandon(&self) {
        let known = self.connections();
        self.set(|faults| faults.abandoned = known);
    }

    /// Ends a stall.
    pub fn release(&self) {
        self.set(|faults| faults.stalled = false);
    }

    /// Delays every request and every reply by this much; zero ends it.
    pub fn delay(&self, by: Duration) {
        self.set(|faults| faults.delay = by);
    }

    /// Writes every byte by itself, or no longer.
    pub fn split_bytes(&self, on: bool) {
        self.set(|faults| faults.split = on);
    }

    /// Closes new connections before anything is exchanged, or no longer. Those
    /// that stand are left alone; see [`Proxy::cut`].
    pub fn refuse(&self, on: bool) {
        self.set(|faults| faults.refusing = on);
    }

    /// Leads new connections to `target`.
    pub fn lead_to(&self, target: SocketAddr) {
        *lock(&self.shared.target) = target;
    }

    /// Closes all connections now.
    pub fn cut(&self) {
        for stream in lock(&self.shared.live).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// How many connections were accepted, refused ones included.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many requests were written to the server.
    pub fn forwarded(&self) -> u64 {
        self.shared.forwarded.load(Ordering::SeqCst)
    }

    /// How many replies were dropped; each came from the server, so that its
    /// request had been carried out.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::SeqCst)
    }

    fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut lock(&self.shared.faults));
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(|faults| faults.closing = true);
        // Wakes the accepting thread, which then sees that it is over.
        let _ = TcpStream::connect(self.addr);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        self.cut();
    }
}

/// A poisoned lock means that a test fails already; its data is still whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming().flatten() {
        let (refusing, closing) = {
            let faults = lock(&shared.faults);
            (faults.refusing, faults.closing)
        };
        if closing {
            return;
        }
        let number = 1 + shared.connections.fetch_add(1, Ordering::SeqCst);
        if refusing {
            continue;
        }
        // With the server gone, the client is closed: the next best to refusing it.
        if let Ok(server) = TcpStream::connect(*lock(&shared.target)) {
            let _ = join(client, server, number, shared);
        }
    }
}

fn join(
    client: TcpStream,
    server: TcpStream,
    number: u64,
    shared: &Arc<Shared>,
) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    lock(&shared.live).extend([client.try_clone()?, server.try_clone()?]);
    let fates = Arc::new(Mutex::new(VecDeque::new()));
    std::thread::spawn({
        let (client, server) = (client.try_clone()?, server.try_clone()?);
        let (fates, shared) = (Arc::clone(&fates), Arc::clone(shared));
        move || requests(client, server, number, &fates, &shared)
    });
    let shared = Arc::clone(shared);
    std::thread::spawn(move || replies(server, client, number, &fates, &shared));
    Ok(())
}

/// Client to server, until the client closes or a reply is to be dropped.
fn requests(
    mut client: TcpStream,
    mut server: TcpStream,
    number: u64,
    fates: &Mutex<VecDeque<Fate>>,
    shared: &Shared,
) {
    let mut buffer = Vec::new();
    while let Some((bytes, request)) = next_frame(&mut client, &mut buffer) {
        shared.hold(number);
        let fate = shared.fate_of(&request);
        // Before the bytes, as the reply may be faster than this thread.
        lock(fates).push_back(fate);
        if shared.write(&mut server, &bytes).is_err() {
            break;
        }
        shared.forwarded.fetch_add(1, Ordering::SeqCst);
        if fate == Fate::Drop {
            // The other thread closes when it has the reply.
            return;
        }
    }
    let _ = server.shutdown(Shutdown::Write);
}

/// Server to client, until either closes or a reply is to be dropped.
fn replies(
    mut server: TcpStream,
    mut client: TcpStream,
    number: u64,
    fates: &Mutex<VecDeque<Fate>>,
    shared: &Shared,
) {
    let mut buffer = Vec::new();
    while let Some((bytes, _)) = next_frame(&mut server, &mut buffer) {
        // A push answers no request.
        let pushed = bytes.first() == Some(&b'>');
        let fate = if pushed {
            None
        } else {
            lock(fates).pop_front()
        };
        if fate == Some(Fate::Drop) {
            shared.dropped.fetch_add(1, Ordering::SeqCst);
            break;
        }
        shared.hold(number);
        if shared.write(&mut client, &bytes).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
}

/// The next whole frame; `None` when the connection is over.
fn next_frame(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(Vec<u8>, Value)> {
    loop {
        if let Some((value, length)) = resp::decode(buffer) {
            return Some((buffer.drain(..length).collect(), value));
        }
        let mut bytes = [0; 16 * 1024];
        match stream.read(&mut bytes) {
            Ok(read) if read > 0 => buffer.extend_from_slice(&bytes[..read]),
            _ => return None,
        }
    }
}

impl Shared {
    /// Waits while there is a stall, then as long as there is a delay.
    fn hold(&self, number: u64) {
        let faults = lock(&self.faults);
        let faults = self
            .changed
            .wait_while(faults, |faults| {
                (faults.stalled || number <= faults.abandoned) && !faults.closing
            })
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let delay = faults.delay;
        drop(faults);
        std::thread::sleep(delay);
    }

    fn fate_of(&self, request: &Value) -> Fate {
        let mut faults = lock(&self.faults);
        let meant = match (&faults.only, request) {
            (None, _) => true,
            (Some(only), Value::Array(args)) => args
                .first()
                .is_some_and(|name| name.text().eq_ignore_ascii_case(only)),
            _ => false,
        };
        if meant && faults.drop > 0 {
            faults.drop -= 1;
            return Fate::Drop;
        }
        Fate::Deliver
    }

    fn write(&self, stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
        if lock(&self.faults).split {
            return bytes.iter().try_for_each(|byte| stream.write_all(&[*byte]));
        }
        stream.write_all(bytes)
    }
}
