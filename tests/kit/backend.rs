//! An application to stand behind gateways.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value, json};

/// A server of HTTP/1.1 that says what it was asked, with a limit of its own that nobody
/// should be told of. Its threads end with the process.
#[derive(Debug)]
pub struct Backend {
    addr: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Backend {
    pub fn start() -> Backend {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("an address");
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                std::thread::spawn(move || while answer(&stream, &counter).is_some() {});
            }
        });
        Backend { addr, asked }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many requests have come so far.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Answers one request of a connection; `None` at its end. What comes after one request
/// comes after its answer, so that nothing is lost with the buffer.
fn answer(stream: &TcpStream, asked: &AtomicUsize) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let mut next = |reader: &mut BufReader<&TcpStream>| {
        line.clear();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(line.trim_end().to_owned())
    };
    let request = next(&mut reader)?;
    let mut words = request.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Map::new();
    loop {
        let line = next(&mut reader)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        headers.insert(name.to_ascii_lowercase(), Value::from(value.trim()));
    }
    let length = headers
        .get("content-length")
        .map_or(Some(0), |length| length.as_str()?.parse().ok())?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    asked.fetch_add(1, Ordering::SeqCst);
    let body = String::from_utf8_lossy(&body).into_owned();
    let said = json!({"method": method, "path": path, "headers": headers, "body": body});
    let said = said.to_string();
    let reply = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-RateLimit-Limit: 99999\r\n\
         Content-Length: {}\r\n\r\n{said}",
        said.len()
    );
    reader.get_mut().write_all(reply.as_bytes()).ok()
}
