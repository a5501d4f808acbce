use smallvec::SmallVec;

/// The longest line of a reply, in bytes. The daemon shows 128 bytes of what it was sent.
const MAX_LINE: usize = 1_024;
/// The most figures in a reply.
const MAX_FIGURES: usize = 5;
/// The longest start of a reply that is waited for to be whole.
pub(super) const MAX_REPLY: usize = MAX_LINE + MAX_FIGURES * MAX_LINE;

/// What the daemon answers to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Figures(SmallVec<[i64; MAX_FIGURES]>),
    /// The error's line, without what marks it as one.
    Error(String),
}

/// What is no reply to any question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Garbled;

/// What a question is to be answered by, if not by an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Limited, limit, remaining, retry after, reset after.
    Check,
    /// Settled now, charged, given back, limits where that went nowhere.
    Settlement,
}

impl Reply {
    /// The reply that `input` starts with, and its size; `None` while it is not whole.
    pub(super) fn read(input: &[u8]) -> Result<Option<(Reply, usize)>, Garbled> {
        let Some((head, mut at)) = line(input, 0)? else {
            return Ok(None);
        };
        let count = match head {
            [b'-', text @ ..] => {
                let text = String::from_utf8_lossy(text).into_owned();
                return Ok(Some((Reply::Error(text), at)));
            }
            [b'*', count @ ..] => integer(count)?,
            _ => return Err(Garbled),
        };
        let count = usize::try_from(count).map_err(|_| Garbled)?;
        if count > MAX_FIGURES {
            return Err(Garbled);
        }
        let mut figures = SmallVec::new();
        while figures.len() < count {
            let (figure, next) = match line(input, at)? {
                None => return Ok(None),
                Some(([b':', figure @ ..], next)) => (figure, next),
                Some(_) => return Err(Garbled),
            };
            figures.push(integer(figure)?);
            at = next;
        }
        Ok(Some((Reply::Figures(figures), at)))
    }

    /// Whether it can be the reply to a question. Where the daemon says that it will not
    /// talk any longer, it is none.
    pub(super) fn answers(&self, wanted: Wanted) -> bool {
        match self {
            Reply::Figures(figures) => matches!(
                (wanted, &figures[..]),
                (Wanted::Check, [0 | 1, _, _, _, _]) | (Wanted::Settlement, [0 | 1, _, _, _])
            ),
            Reply::Error(text) => {
                let ends = ["ERR max number of clients", "ERR Protocol error"];
                !ends.iter().any(|start| text.starts_with(start))
            }
        }
    }
}

/// The line at `at`, without its end, and where the next begins.
fn line(input: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, Garbled> {
    let rest = input.get(at..).unwrap_or_default();
    let start = rest.get(..MAX_LINE).unwrap_or(rest);
    match memchr::memchr(b'\n', start) {
        None if start.len() < MAX_LINE => Ok(None),
        None => Err(Garbled),
        Some(end) => match start.get(..end) {
            Some([line @ .., b'\r']) => Ok(Some((line, at + end + 1))),
            _ => Err(Garbled),
        },
    }
}

fn integer(text: &[u8]) -> Result<i64, Garbled> {
    let text = std::str::from_utf8(text).map_err(|_| Garbled)?;
    text.parse().map_err(|_| Garbled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn read(input: &str) -> Result<Option<(Reply, usize)>, Garbled> {
        Reply::read(input.as_bytes())
    }

    #[test]
    fn a_reply_is_figures_or_an_error_wherever_it_is_cut() {
        let figures = Reply::Figures(smallvec![0, 10, 9, -1, i64::MAX]);
        let error = Reply::Error("ERR unknown rule 'x'".into());
        for (wire, reply) in [
            (
                "*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:9223372036854775807\r\n",
                figures,
            ),
            ("-ERR unknown rule 'x'\r\n", error),
            ("*0\r\n", Reply::Figures(smallvec![])),
        ] {
            for cut in 0..wire.len() {
                assert_eq!(read(&wire[..cut]), Ok(None), "{wire} at {cut}");
            }
            let more = format!("{wire}*5\r\n");
            assert_eq!(read(&more), Ok(Some((reply, wire.len()))));
        }
    }

    #[test]
    fn all_else_is_garbled_and_nothing_long_is_waited_for() {
        let long = "-".to_owned() + &"x".repeat(MAX_LINE);
        for wire in [
            "HTTP/1.1 400 Bad Request\r\n",
            "+OK\r\n",
            ":1\r\n",
            "$3\r\nabc\r\n",
            "\r\n",
            "\n",
            "-ERR x\n",
            "*\r\n",
            "*-1\r\n",
            "*6\r\n",
            "*9223372036854775808\r\n",
            "*1\r\n$1\r\na\r\n",
            "*1\r\n*1\r\n",
            "*1\r\n:\r\n",
            "*1\r\n:1.5\r\n",
            &long,
        ] {
            assert_eq!(read(wire), Err(Garbled), "{wire}");
        }
        assert_eq!(Reply::read(b"*\xff\r\n"), Err(Garbled));
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_is_read_or_garbled_or_short(
            input in proptest::collection::vec(
                proptest::sample::select(&b"*:-+$0159\r\nE\xff"[..]), 0..80
            )
        ) {
            match Reply::read(&input) {
                Ok(Some((_, size))) => assert!((3..=input.len()).contains(&size)),
                // More may make it whole, or not.
                Ok(None) => assert!(!input.ends_with(b"\r\n") || input.starts_with(b"*")),
                Err(Garbled) => {
                    // No more makes it good.
                    let more = [&input[..], b"*0\r\n"].concat();
                    assert_eq!(Reply::read(&more), Err(Garbled));
                }
            }
        }
    }

    #[test]
    fn a_reply_answers_its_own_kind_of_question_alone() {
        let figures = |figures: &[i64]| Reply::Figures(figures.into());
        let check = figures(&[1, 10, 0, 5, 5]);
        assert!(check.answers(Wanted::Check) && !check.answers(Wanted::Settlement));
        let settlement = figures(&[1, 0, 0, 0]);
        assert!(settlement.answers(Wanted::Settlement) && !settlement.answers(Wanted::Check));
        assert!(!figures(&[2, 10, 0, 5, 5]).answers(Wanted::Check));
        let error = |text: &str| Reply::Error(text.into());
        assert!(error("UNAVAILABLE x").answers(Wanted::Check));
        let bye = crate::protocol::resp::TOO_MANY_CLIENTS;
        let Ok(Some((bye, _))) = Reply::read(bye) else {
            panic!("it is a reply")
        };
        assert!(!bye.answers(Wanted::Check));
        assert!(!error("ERR Protocol error: x").answers(Wanted::Check));
    }
}
