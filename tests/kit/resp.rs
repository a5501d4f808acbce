//! The least RESP client that a test needs, with pipelining.

use std::io::{self, Read, Write};

use super::Addr;
use super::addr::Stream;

/// A reply, of RESP 2 or 3.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Bool(bool),
    Double(String),
    Null,
}

impl Value {
    /// The numbers of an array of numbers.
    ///
    /// # Panics
    /// If it is anything else.
    pub fn ints(&self) -> Vec<i64> {
        let Value::Array(items) = self else {
            panic!("not an array: {self:?}");
        };
        items
            .iter()
            .map(|item| match item {
                Value::Int(number) => *number,
                other => panic!("not a number: {other:?}"),
            })
            .collect()
    }

    /// A string, simple or bulk, as text.
    ///
    /// # Panics
    /// If it is anything else.
    pub fn text(&self) -> String {
        match self {
            Value::Simple(text) => text.clone(),
            Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("not a string: {other:?}"),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects.
    ///
    /// # Panics
    /// When nobody listens.
    pub fn connect(at: impl Into<Addr>) -> Client {
        let at = at.into();
        Client::try_connect(&at).unwrap_or_else(|error| panic!("{at:?}: {error}"))
    }

    /// Connects.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn try_connect(at: &Addr) -> io::Result<Client> {
        Ok(Client {
            stream: at.connect()?,
            buffer: Vec::new(),
        })
    }

    /// Sends one command and reads its reply.
    ///
    /// # Panics
    /// When the connection breaks; see [`Client::try_command`].
    pub fn command(&mut self, args: &[&str]) -> Value {
        self.try_command(args)
            .unwrap_or_else(|error| panic!("{args:?}: {error}"))
    }

    /// Sends one command and reads its reply.
    ///
    /// # Errors
    /// Those of the connection; `UnexpectedEof` when it was closed.
    pub fn try_command(&mut self, args: &[&str]) -> io::Result<Value> {
        self.write(&encode(args))?;
        self.read()
    }

    /// Sends all commands in one write and reads as many replies, in order.
    ///
    /// # Panics
    /// When the connection breaks before the last reply.
    pub fn pipeline(&mut self, commands: &[Vec<&str>]) -> Vec<Value> {
        let bytes: Vec<u8> = commands.iter().flat_map(|args| encode(args)).collect();
        self.write(&bytes).expect("a pipeline can be sent");
        commands
            .iter()
            .map(|args| {
                self.read()
                    .unwrap_or_else(|error| panic!("{args:?}: {error}"))
            })
            .collect()
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads one reply.
    ///
    /// # Errors
    /// Those of the connection; `UnexpectedEof` when it was closed.
    pub fn read(&mut self) -> io::Result<Value> {
        loop {
            if let Some((value, length)) = decode(&self.buffer) {
                self.buffer.drain(..length);
                return Ok(value);
            }
            let mut bytes = [0; 16 * 1024];
            match self.stream.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.buffer.extend_from_slice(&bytes[..read]),
            }
        }
    }
}

/// A command as an array of bulk strings.
pub fn encode(args: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n{arg}\r\n", arg.len()).into_bytes());
    }
    bytes
}

/// The first whole value and its length; `None` while it is not all there.
///
/// # Panics
/// On bytes that are not RESP.
pub fn decode(bytes: &[u8]) -> Option<(Value, usize)> {
    let end = bytes.windows(2).position(|window| window == b"\r\n")?;
    let (kind, line) = (
        bytes[0],
        String::from_utf8_lossy(&bytes[1..end]).into_owned(),
    );
    let start = end + 2;
    let number = || -> i64 {
        line.parse()
            .unwrap_or_else(|_| panic!("not a number: {line:?}"))
    };
    Some(match kind {
        b'+' => (Value::Simple(line), start),
        b'-' => (Value::Error(line), start),
        b':' => (Value::Int(number()), start),
        b',' => (Value::Double(line), start),
        b'#' => (Value::Bool(line == "t"), start),
        b'_' => (Value::Null, start),
        b'$' | b'*' | b'%' | b'>' | b'~' if line.starts_with('-') => (Value::Null, start),
        b'$' => {
            let stop = start + usize::try_from(number()).ok()?;
            bytes.get(stop..stop + 2)?;
            (Value::Bulk(bytes[start..stop].to_vec()), stop + 2)
        }
        b'*' | b'>' | b'~' => {
            let (items, stop) = decode_many(bytes, start, number())?;
            (Value::Array(items), stop)
        }
        b'%' => {
            let (items, stop) = decode_many(bytes, start, 2 * number())?;
            let pairs = items
                .chunks(2)
                .map(|pair| (pair[0].clone(), pair[1].clone()));
            (Value::Map(pairs.collect()), stop)
        }
        other => panic!("not RESP: {:?} {line:?}", char::from(other)),
    })
}

fn decode_many(bytes: &[u8], mut at: usize, count: i64) -> Option<(Vec<Value>, usize)> {
    let mut items = Vec::new();
    for _ in 0..count {
        let (item, length) = decode(&bytes[at..])?;
        items.push(item);
        at += length;
    }
    Some((items, at))
}
