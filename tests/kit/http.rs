//! The least HTTP/1.1 client that a test needs: one request, one connection.

use std::io::{Read, Write};

use super::Addr;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    /// The value of a header, its name in any case; `None` if absent.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("{error} in the body {:?}", self.body))
    }
}

/// Sends one request and reads the whole answer.
///
/// # Panics
/// When there is no answer, or one that is not HTTP; see [`try_request`].
pub fn request(at: impl Into<Addr>, method: &str, path: &str, body: &str) -> Reply {
    let at = at.into();
    try_request(&at, method, path, &[], body)
        .unwrap_or_else(|error| panic!("{method} {path} at {at:?}: {error}"))
}

/// Sends one request with these headers beside the necessary ones, and reads the
/// whole answer.
///
/// # Errors
/// Those of the connection, and `InvalidData` for what is not HTTP.
pub fn try_request(
    at: &Addr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> std::io::Result<Reply> {
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut stream = at.connect()?;
    stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    parse(&bytes).ok_or_else(|| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            format!("not HTTP: {text:?}"),
        )
    })
}

/// Reads one whole answer, ended by its length, its last chunk or the connection.
pub fn parse(bytes: &[u8]) -> Option<Reply> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let rest = &bytes[end + 4..];
    let mut lines = head.split("\r\n");
    let status = lines
        .next()?
        .strip_prefix("HTTP/1.1 ")?
        .get(..3)?
        .parse()
        .ok()?;
    let headers = lines
        .map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.trim().to_owned()))
        })
        .collect::<Option<Vec<_>>>()?;
    let mut reply = Reply {
        status,
        headers,
        body: String::new(),
    };
    let body = match (
        reply.header("transfer-encoding"),
        reply.header("content-length"),
    ) {
        (Some("chunked"), _) => dechunk(rest)?,
        (_, Some(length)) => rest.get(..length.parse().ok()?)?.to_vec(),
        _ => rest.to_vec(),
    };
    reply.body = String::from_utf8(body).ok()?;
    Some(reply)
}

fn dechunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..line]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        let chunk = rest.get(line + 2..line + 2 + size)?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(chunk);
        rest = rest.get(line + 2 + size + 2..)?;
    }
}
