//! The commands beside the checks: what clients say to greet a server, to name
//! themselves and to learn whom they talk to.
//!
//! There are no users and no databases here. `AUTH` is therefore accepted whatever
//! the password: access to the door is a matter of the socket's permissions and of
//! the network, and a client that was given a password should not fail for it.

use std::io::Write as _;

use super::reply::{self, Version};
use super::{Frame, number};
use crate::protocol::text::Shown;

/// How many commands there are: the answer to `COMMAND COUNT`.
const COMMANDS: i64 = 16;

/// How a connection goes on after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// As before.
    Continue,
    /// As before; the command could not be understood and was answered with an error.
    Malformed,
    /// The client said goodbye: send what is to be sent, and close.
    Close,
}

/// What is remembered of one connection.
#[derive(Debug)]
pub struct Session {
    id: i64,
    version: Version,
    name: Vec<u8>,
}

/// What went wrong with a command, as the client is told.
type Fault<'a> = Result<After, Wrong<'a>>;

/// Kinds of errors, all answered with a line of their own.
#[derive(Debug, thiserror::Error)]
enum Wrong<'a> {
    #[error("ERR unknown command '{0}'")]
    Command(Shown<'a>),
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(&'static str),
    #[error("ERR unknown subcommand '{1}' of '{0}'")]
    Subcommand(&'static str, Shown<'a>),
    #[error("ERR Syntax error in HELLO option '{0}'")]
    HelloOption(Shown<'a>),
    #[error("ERR Protocol version is not an integer or out of range")]
    HelloNumber,
    #[error("NOPROTO unsupported protocol version")]
    HelloVersion,
    #[error("ERR Client names cannot contain spaces, newlines or special characters.")]
    Name,
    #[error("ERR value is not an integer or out of range")]
    Number,
    #[error("ERR DB index is out of range")]
    Database,
}

impl Session {
    /// A new connection, numbered `id`.
    pub fn new(id: u64) -> Session {
        Session {
            id: i64::try_from(id).unwrap_or(i64::MAX),
            version: Version::Resp2,
            name: Vec::new(),
        }
    }

    /// Answers `frame`, which is no check, with exactly one reply in `out`; a frame
    /// that asks for nothing gets none.
    pub fn answer(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> After {
        let Some(name) = frame.arg(0) else {
            return After::Continue;
        };
        match self.dispatch(name, frame, out) {
            Ok(after) => after,
            Err(wrong) => {
                reply::error(out, format_args!("{wrong}"));
                After::Malformed
            }
        }
    }

    fn dispatch<'a>(&mut self, name: &'a [u8], frame: &Frame<'a>, out: &mut Vec<u8>) -> Fault<'a> {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if is("PING") {
            match (frame.arg(1), frame.count()) {
                (None, _) => out.extend_from_slice(b"+PONG\r\n"),
                (Some(message), 2) => reply::bulk(out, message),
                _ => return Err(Wrong::Arity("ping")),
            }
        } else if is("ECHO") {
            match (frame.arg(1), frame.count()) {
                (Some(message), 2) => reply::bulk(out, message),
                _ => return Err(Wrong::Arity("echo")),
            }
        } else if is("HELLO") {
            return self.hello(frame, out);
        } else if is("CLIENT") {
            return self.client(frame, out);
        } else if is("INFO") {
            reply::bulk(out, INFO.as_bytes());
        } else if is("COMMAND") {
            self.command(frame, out);
        } else if is("CONFIG") {
            return self.config(frame, out);
        } else if is("AUTH") {
            match frame.count() {
                2..=3 => reply::ok(out),
                _ => return Err(Wrong::Arity("auth")),
            }
        } else if is("SELECT") {
            match (frame.arg(1).map(number::integer), frame.count()) {
                (Some(Some(0)), 2) => reply::ok(out),
                (Some(Some(_)), 2) => return Err(Wrong::Database),
                (Some(None), 2) => return Err(Wrong::Number),
                _ => return Err(Wrong::Arity("select")),
            }
        } else if is("RESET") {
            self.version = Version::Resp2;
            self.name.clear();
            out.extend_from_slice(b"+RESET\r\n");
        } else if is("QUIT") {
            reply::ok(out);
            return Ok(After::Close);
        } else {
            return Err(Wrong::Command(Shown(name)));
        }
        Ok(After::Continue)
    }

    /// `HELLO [version [AUTH user password] [SETNAME name]]`: all of it or nothing.
    fn hello<'a>(&mut self, frame: &Frame<'a>, out: &mut Vec<u8>) -> Fault<'a> {
        let version = match frame.arg(1).map(number::integer) {
            None => self.version,
            Some(Some(2)) => Version::Resp2,
            Some(Some(3)) => Version::Resp3,
            Some(Some(_)) => return Err(Wrong::HelloVersion),
            Some(None) => return Err(Wrong::HelloNumber),
        };
        let (mut name, mut next) = (None, 2);
        while let Some(option) = frame.arg(next) {
            if option.eq_ignore_ascii_case(b"AUTH") && frame.arg(next + 2).is_some() {
                next += 3;
            } else if let (true, Some(value)) =
                (option.eq_ignore_ascii_case(b"SETNAME"), frame.arg(next + 1))
            {
                name = Some(client_name(value)?);
                next += 2;
            } else {
                return Err(Wrong::HelloOption(Shown(option)));
            }
        }
        self.version = version;
        if let Some(name) = name {
            self.name = name.to_vec();
        }
        reply::map(out, version, 7);
        for (field, value) in [
            ("server", "tidegate"),
            ("version", env!("CARGO_PKG_VERSION")),
        ] {
            reply::bulk(out, field.as_bytes());
            reply::bulk(out, value.as_bytes());
        }
        reply::bulk(out, b"proto");
        reply::integer(out, self.protocol_number());
        reply::bulk(out, b"id");
        reply::integer(out, self.id);
        for (field, value) in [("mode", "standalone"), ("role", "master")] {
            reply::bulk(out, field.as_bytes());
            reply::bulk(out, value.as_bytes());
        }
        reply::bulk(out, b"modules");
        reply::array(out, 0);
        Ok(After::Continue)
    }

    fn client<'a>(&mut self, frame: &Frame<'a>, out: &mut Vec<u8>) -> Fault<'a> {
        let Some(subcommand) = frame.arg(1) else {
            return Err(Wrong::Arity("client"));
        };
        let is = |other: &str| subcommand.eq_ignore_ascii_case(other.as_bytes());
        match (frame.arg(2), frame.count()) {
            (Some(name), 3) if is("SETNAME") => {
                self.name = client_name(name)?.to_vec();
                reply::ok(out);
            }
            (None, _) if is("GETNAME") && self.name.is_empty() => reply::null(out, self.version),
            (None, _) if is("GETNAME") => reply::bulk(out, &self.name),
            (None, _) if is("ID") => reply::integer(out, self.id),
            (Some(_), 4) if is("SETINFO") => reply::ok(out),
            (Some(_), 3) if is("NO-EVICT") || is("NO-TOUCH") => reply::ok(out),
            // One connection is told of itself alone.
            (None, _) if is("INFO") => self.describe(out),
            _ if is("LIST") => self.describe(out),
            _ => return Err(Wrong::Subcommand("client", Shown(subcommand))),
        }
        Ok(After::Continue)
    }

    fn describe(&self, out: &mut Vec<u8>) {
        let mut line = Vec::with_capacity(48 + self.name.len());
        // Writing to a `Vec` does not fail.
        let _ = write!(line, "id={} name=", self.id);
        line.extend_from_slice(&self.name);
        let _ = writeln!(line, " db=0 resp={}", self.protocol_number());
        reply::bulk(out, &line);
    }

    fn command(&self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        match frame.arg(1) {
            Some(sub) if sub.eq_ignore_ascii_case(b"COUNT") => reply::integer(out, COMMANDS),
            Some(sub) if sub.eq_ignore_ascii_case(b"DOCS") => reply::map(out, self.version, 0),
            _ => reply::array(out, 0),
        }
    }

    fn config<'a>(&self, frame: &Frame<'a>, out: &mut Vec<u8>) -> Fault<'a> {
        match frame.arg(1) {
            Some(sub) if sub.eq_ignore_ascii_case(b"GET") && frame.count() > 2 => {
                reply::map(out, self.version, 0);
                Ok(After::Continue)
            }
            Some(sub) => Err(Wrong::Subcommand("config", Shown(sub))),
            None => Err(Wrong::Arity("config")),
        }
    }

    fn protocol_number(&self) -> i64 {
        match self.version {
            Version::Resp2 => 2,
            Version::Resp3 => 3,
        }
    }
}

/// What `INFO` says. Clients wait while it says `loading:1`, and choose features by
/// `redis_version`, which is therefore that of the protocol spoken.
const INFO: &str = concat!(
    "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\ntidegate_version:",
    env!("CARGO_PKG_VERSION"),
    "\r\n\r\n# Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\n"
);

fn client_name(name: &[u8]) -> Result<&[u8], Wrong<'static>> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        Ok(name)
    } else {
        Err(Wrong::Name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::resp::Parser;

    fn say(session: &mut Session, line: &str) -> (String, After) {
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        let line = format!("{line}\r\n");
        let frame = parser.next(line.as_bytes()).unwrap().unwrap();
        let after = session.answer(&frame, &mut out);
        (String::from_utf8(out).unwrap(), after)
    }

    fn reply(line: &str) -> String {
        say(&mut Session::new(7), line).0
    }

    #[test]
    fn greetings_are_answered_politely() {
        for (line, wanted) in [
            ("PING", "+PONG\r\n"),
            ("ping hi", "$2\r\nhi\r\n"),
            ("Echo hi", "$2\r\nhi\r\n"),
            ("AUTH secret", "+OK\r\n"),
            ("AUTH user secret", "+OK\r\n"),
            ("SELECT 0", "+OK\r\n"),
            ("CLIENT SETINFO LIB-NAME redis-py", "+OK\r\n"),
            ("CLIENT ID", ":7\r\n"),
            ("CLIENT GETNAME", "$-1\r\n"),
            ("CLIENT NO-EVICT on", "+OK\r\n"),
            ("CLIENT LIST", "$23\r\nid=7 name= db=0 resp=2\n\r\n"),
            ("COMMAND", "*0\r\n"),
            ("COMMAND DOCS", "*0\r\n"),
            ("COMMAND COUNT", ":16\r\n"),
            ("CONFIG GET save", "*0\r\n"),
            ("RESET", "+RESET\r\n"),
        ] {
            assert_eq!(
                say(&mut Session::new(7), line),
                (wanted.into(), After::Continue)
            );
        }
        assert!(reply("INFO server").contains("\r\nloading:0\r\n"));
    }

    #[test]
    fn what_is_wrong_is_an_error_and_the_connection_goes_on() {
        for (line, wanted) in [
            ("GET k", "-ERR unknown command 'GET'\r\n"),
            (
                "\"a\\r\\nb'\"",
                "-ERR unknown command 'a\\x0d\\x0ab\\''\r\n",
            ),
            (
                "PING a b",
                "-ERR wrong number of arguments for 'ping' command\r\n",
            ),
            (
                "ECHO",
                "-ERR wrong number of arguments for 'echo' command\r\n",
            ),
            ("SELECT 1", "-ERR DB index is out of range\r\n"),
            (
                "SELECT x",
                "-ERR value is not an integer or out of range\r\n",
            ),
            ("HELLO 4", "-NOPROTO unsupported protocol version\r\n"),
            (
                "HELLO x",
                "-ERR Protocol version is not an integer or out of range\r\n",
            ),
            (
                "HELLO 3 AUTH u",
                "-ERR Syntax error in HELLO option 'AUTH'\r\n",
            ),
            (
                "CLIENT KILL",
                "-ERR unknown subcommand 'KILL' of 'client'\r\n",
            ),
            (
                "CONFIG SET a b",
                "-ERR unknown subcommand 'SET' of 'config'\r\n",
            ),
        ] {
            assert_eq!(
                say(&mut Session::new(7), line),
                (wanted.into(), After::Malformed)
            );
        }
        let long = reply(&"x".repeat(1_000));
        assert_eq!(
            long,
            format!("-ERR unknown command '{}...'\r\n", "x".repeat(128))
        );
    }

    #[test]
    fn hello_3_answers_a_map_and_hello_2_an_array_of_the_same() {
        let mut session = Session::new(7);
        let three = say(&mut session, "HELLO 3 AUTH user secret SETNAME me").0;
        assert!(
            three.starts_with("%7\r\n$6\r\nserver\r\n$8\r\ntidegate\r\n"),
            "{three}"
        );
        assert!(
            three.contains("$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:7\r\n"),
            "{three}"
        );
        assert_eq!(say(&mut session, "CLIENT GETNAME").0, "$2\r\nme\r\n");
        assert_eq!(say(&mut session, "CONFIG GET x").0, "%0\r\n");
        let two = say(&mut session, "HELLO 2").0;
        assert_eq!(
            two,
            three
                .replacen("%7", "*14", 1)
                .replace("proto\r\n:3", "proto\r\n:2")
        );
        say(&mut session, "RESET");
        assert_eq!(say(&mut session, "CLIENT GETNAME").0, "$-1\r\n");
    }

    #[test]
    fn a_refused_hello_changes_nothing() {
        let mut session = Session::new(7);
        say(&mut session, "HELLO 3 SETNAME \"a b\"");
        assert_eq!(say(&mut session, "CLIENT GETNAME").0, "$-1\r\n");
    }

    #[test]
    fn goodbye_is_answered_before_the_end() {
        assert_eq!(
            say(&mut Session::new(7), "QUIT"),
            ("+OK\r\n".into(), After::Close)
        );
    }

    #[test]
    fn nothing_is_answered_where_nothing_was_asked() {
        assert_eq!(
            say(&mut Session::new(7), ""),
            (String::new(), After::Continue)
        );
    }
}
