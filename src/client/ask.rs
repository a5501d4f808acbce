use std::net::IpAddr;

use smallvec::SmallVec;

use super::Error;
use crate::protocol::resp::{MAX_ARGS, MAX_BULK, MAX_FRAME};

/// A check by the name of a rule and the identity of the caller.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    rule: &'a str,
    key: &'a [u8],
    cost: u64,
    tier: Option<&'a str>,
    id: Option<&'a [u8]>,
}

/// A check of a request, which all rules that match it will judge.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    method: &'a str,
    path: &'a str,
    ip: Option<IpAddr>,
    headers: Vec<(&'a str, &'a str)>,
    attributes: Vec<(&'a str, &'a str)>,
    cost: u64,
    id: Option<&'a [u8]>,
}

/// What can be asked: a [`Check`] or a [`Request`].
#[derive(Clone, Copy, Debug)]
pub struct Question<'a>(Kind<'a>);

#[derive(Clone, Copy, Debug)]
enum Kind<'a> {
    Check(&'a Check<'a>),
    Request(&'a Request<'a>),
}

/// What a check came to in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total<'a> {
    /// The whole cost of the check.
    Cost(u64),
    /// Anew, what rules count by attributes; each name once.
    Attributes(&'a [(&'a str, u64)]),
}

impl<'a> Check<'a> {
    /// A check of cost 1.
    pub fn new(rule: &'a str, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Check<'a> {
        Check {
            rule,
            key: key.as_ref(),
            cost: 1,
            tier: None,
            id: None,
        }
    }

    /// What it consumes; 0 looks alone.
    #[must_use]
    pub fn cost(mut self, cost: u64) -> Check<'a> {
        self.cost = cost;
        self
    }

    /// The caller's tier.
    #[must_use]
    pub fn tier(mut self, tier: &'a str) -> Check<'a> {
        self.tier = Some(tier);
        self
    }

    /// The check's name, 1 to 128 bytes, to settle it by. The same check asked again with
    /// it is counted once.
    #[must_use]
    pub fn id(mut self, id: &'a (impl AsRef<[u8]> + ?Sized)) -> Check<'a> {
        self.id = Some(id.as_ref());
        self
    }

    pub(super) fn report(&self) -> Result<Vec<u8>, Error> {
        self.write(b"TG.REPORT", self.cost, None)
    }

    fn write(&self, command: &[u8], cost: u64, id: Option<&[u8]>) -> Result<Vec<u8>, Error> {
        let mut digits = itoa::Buffer::new();
        let cost = digits.format(cost);
        let mut words =
            Words::from_slice(&[command, self.rule.as_bytes(), self.key, cost.as_bytes()]);
        words.extend(self.tier.map(str::as_bytes));
        words.extend(id.iter().flat_map(|id| [&b"ID"[..], id]));
        frame(&words)
    }
}

impl<'a> Request<'a> {
    /// A check of cost 1. The path may have a query.
    pub fn new(method: &'a str, path: &'a str) -> Request<'a> {
        Request {
            method,
            path,
            ip: None,
            headers: Vec::new(),
            attributes: Vec::new(),
            cost: 1,
            id: None,
        }
    }

    /// The client's address.
    #[must_use]
    pub fn ip(mut self, ip: IpAddr) -> Request<'a> {
        self.ip = Some(ip);
        self
    }

    /// A header of the request; each name once.
    #[must_use]
    pub fn header(mut self, name: &'a str, value: &'a str) -> Request<'a> {
        self.headers.push((name, value));
        self
    }

    /// What the asker says about the caller; each name once.
    #[must_use]
    pub fn attribute(mut self, name: &'a str, value: &'a str) -> Request<'a> {
        self.attributes.push((name, value));
        self
    }

    /// What it consumes; 0 looks alone.
    #[must_use]
    pub fn cost(mut self, cost: u64) -> Request<'a> {
        self.cost = cost;
        self
    }

    /// The check's name, 1 to 128 bytes, to settle it by. The same check asked again with
    /// it is counted once.
    #[must_use]
    pub fn id(mut self, id: &'a (impl AsRef<[u8]> + ?Sized)) -> Request<'a> {
        self.id = Some(id.as_ref());
        self
    }

    fn write(&self, cost: u64, id: Option<&[u8]>) -> Result<Vec<u8>, Error> {
        let mut digits = itoa::Buffer::new();
        let cost = digits.format(cost);
        let ip = self.ip.map(|ip| ip.to_string());
        let mut words = Words::from_slice(&[
            b"TG.MATCH",
            self.method.as_bytes(),
            self.path.as_bytes(),
            b"COST",
            cost.as_bytes(),
        ]);
        words.extend(ip.iter().flat_map(|ip| [&b"IP"[..], ip.as_bytes()]));
        words.extend(id.iter().flat_map(|id| [&b"ID"[..], id]));
        for (option, pairs) in [(&b"HEADER"[..], &self.headers), (b"ATTR", &self.attributes)] {
            for (name, value) in pairs {
                words.extend([option, name.as_bytes(), value.as_bytes()]);
            }
        }
        frame(&words)
    }
}

impl<'a> From<&'a Check<'a>> for Question<'a> {
    fn from(check: &'a Check<'a>) -> Question<'a> {
        Question(Kind::Check(check))
    }
}

impl<'a> From<&'a Request<'a>> for Question<'a> {
    fn from(request: &'a Request<'a>) -> Question<'a> {
        Question(Kind::Request(request))
    }
}

impl Question<'_> {
    pub(super) fn check(self) -> Result<Vec<u8>, Error> {
        match self.0 {
            Kind::Check(check) => check.write(b"TG.CHECK", check.cost, check.id),
            Kind::Request(request) => request.write(request.cost, request.id),
        }
    }

    pub(super) fn peek(self) -> Result<Vec<u8>, Error> {
        match self.0 {
            Kind::Check(check) => check.write(b"TG.CHECK", 0, None),
            Kind::Request(request) => request.write(0, None),
        }
    }
}

impl Total<'_> {
    pub(super) fn settle(self, id: &[u8]) -> Result<Vec<u8>, Error> {
        let pairs = match self {
            Total::Cost(cost) => {
                let mut digits = itoa::Buffer::new();
                return frame(&[b"TG.SETTLE", id, digits.format(cost).as_bytes()]);
            }
            Total::Attributes(pairs) => pairs,
        };
        let amounts: Vec<String> = pairs.iter().map(|(_, amount)| amount.to_string()).collect();
        let mut words = Words::from_slice(&[b"TG.SETTLE", id]);
        for ((name, _), amount) in pairs.iter().zip(&amounts) {
            words.extend([b"ATTR", name.as_bytes(), amount.as_bytes()]);
        }
        frame(&words)
    }
}

type Words<'a> = SmallVec<[&'a [u8]; 16]>;

/// The command of these words as it is sent. What the daemon would not read is refused: it
/// ends the connection, and others ask there too.
fn frame(words: &[&[u8]]) -> Result<Vec<u8>, Error> {
    if words.len() > MAX_ARGS || words.iter().any(|word| word.len() > MAX_BULK) {
        return Err(Error::TooLarge);
    }
    let mut digits = itoa::Buffer::new();
    let mut out = Vec::with_capacity(16 + words.iter().map(|word| word.len() + 12).sum::<usize>());
    out.push(b'*');
    out.extend_from_slice(digits.format(words.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    for word in words {
        out.push(b'$');
        out.extend_from_slice(digits.format(word.len()).as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    if out.len() > MAX_FRAME {
        return Err(Error::TooLarge);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a command, by the daemon's own reader.
    fn words(frame: Result<Vec<u8>, Error>) -> String {
        let frame = frame.unwrap();
        let mut parser = crate::protocol::resp::Parser::default();
        let read = parser.next(&frame).unwrap().unwrap();
        assert_eq!(read.size(), frame.len());
        let words = (0..read.count()).map(|at| read.arg(at).unwrap().escape_ascii().to_string());
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn questions_are_the_commands_of_the_door() {
        let check = Check::new("r", b"\r\n\xff").cost(3).tier("pro").id("x");
        let asked = Question::from(&check);
        assert_eq!(words(asked.check()), r"TG.CHECK r \r\n\xff 3 pro ID x");
        assert_eq!(words(asked.peek()), r"TG.CHECK r \r\n\xff 0 pro");
        assert_eq!(words(check.report()), r"TG.REPORT r \r\n\xff 3 pro");
        let plain = Check::new("r", "").id("x");
        assert_eq!(words(Question::from(&plain).check()), "TG.CHECK r  1 ID x");
        let request = Request::new("GET", "/a?b=c")
            .ip([192, 0, 2, 1].into())
            .header("A", "b c")
            .attribute("tier", "pro")
            .cost(2)
            .id("x");
        let asked = Question::from(&request);
        let rest = "HEADER A b c ATTR tier pro";
        assert_eq!(
            words(asked.check()),
            format!("TG.MATCH GET /a?b=c COST 2 IP 192.0.2.1 ID x {rest}")
        );
        assert_eq!(
            words(asked.peek()),
            format!("TG.MATCH GET /a?b=c COST 0 IP 192.0.2.1 {rest}")
        );
        assert_eq!(words(Total::Cost(7).settle(b"x")), "TG.SETTLE x 7");
        assert_eq!(
            words(Total::Attributes(&[("a", 1), ("b", u64::MAX)]).settle(b"x")),
            "TG.SETTLE x ATTR a 1 ATTR b 18446744073709551615"
        );
    }

    #[test]
    fn what_the_daemon_would_not_read_is_not_sent() {
        let (most, more) = (vec![0; MAX_BULK], vec![0; MAX_BULK + 1]);
        let check = |key: &[u8]| Question::from(&Check::new("r", key)).check();
        assert_eq!(
            words(check(&most)).len(),
            "TG.CHECK r  1".len() + 4 * MAX_BULK
        );
        assert_eq!(check(&more), Err(Error::TooLarge));
        let text = "x".repeat(MAX_BULK);
        let long = Request::new("GET", &text).header("a", &text);
        assert_eq!(Question::from(&long).check(), Err(Error::TooLarge));
        let many = (0..84).fold(Request::new("GET", "/"), |it, _| it.header("a", "b"));
        assert_eq!(Question::from(&many).check(), Err(Error::TooLarge));
    }
}
