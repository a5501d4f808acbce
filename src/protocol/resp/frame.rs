use super::inline;

/// The most arguments of one command, its name among them.
pub const MAX_ARGS: usize = 256;
/// The longest argument, in bytes; also the longest inline command.
pub const MAX_BULK: usize = 64 * 1_024;
/// The longest command, in bytes, with all that frames it.
pub const MAX_FRAME: usize = 128 * 1_024;
/// The longest length line that is worth waiting for: kind, digits, line end.
const MAX_LENGTH_LINE: usize = 24;

/// Why what a client sends cannot be followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The number of arguments is not a number, or too large.
    #[error("invalid multibulk length")]
    ArrayLength,
    /// The length of an argument is not a number, negative or too large.
    #[error("invalid bulk length")]
    BulkLength,
    /// An argument that is not a bulk string, such as a nested array.
    #[error("expected '$', got '{}'", .0.escape_ascii())]
    NotABulk(u8),
    /// An argument is not followed by a line end.
    #[error("expected a line end after a bulk")]
    BulkEnd,
    /// An inline command without an end, or with too many arguments.
    #[error("too big inline request")]
    InlineTooLong,
    /// An inline command with a quote that does not close.
    #[error("unbalanced quotes in request")]
    Quotes,
    /// A command longer than [`MAX_FRAME`].
    #[error("too big request")]
    FrameTooLong,
}

/// Where one argument lies, counted from the start of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    start: usize,
    end: usize,
}

/// Finds the commands in what a client sends, wherever the pieces are cut.
///
/// It copies nothing and never looks twice at what it has understood, so that a
/// long frame in many small pieces costs no more than in one.
#[derive(Debug, Default)]
pub struct Parser {
    state: State,
    args: Vec<Span>,
    /// Everything before this offset of the frame is understood.
    at: usize,
    /// The arguments of an inline command with quotes, without them.
    unquoted: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing is known of the next frame.
    #[default]
    Start,
    /// In an inline command, looking for its end.
    Inline,
    /// In an array, of which so many arguments are missing. Of the next one the head is
    /// understood if its length is `known`.
    Array {
        missing: usize,
        known: Option<usize>,
    },
    /// The last frame was complete, and was handed out.
    Done,
}

/// One command: its arguments, of which the first is its name. None at all is a
/// frame that asks for nothing and gets no reply.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'p> {
    spans: &'p [Span],
    bytes: &'p [u8],
    size: usize,
}

impl<'p> Frame<'p> {
    /// How many bytes of the input the frame takes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many arguments there are, the name among them.
    pub fn count(&self) -> usize {
        self.spans.len()
    }

    /// The argument numbered `index`; the name is number 0.
    pub fn arg(&self, index: usize) -> Option<&'p [u8]> {
        let span = self.spans.get(index)?;
        self.bytes.get(span.start..span.end)
    }
}

impl Parser {
    /// The command that `input` starts with, or `None` while its end has not come.
    ///
    /// `input` starts where the last frame ended and, after a `None`, holds what it
    /// held before and more behind it.
    ///
    /// # Errors
    /// [`FrameError`]: nothing that follows can be understood; end the connection.
    #[inline]
    pub fn next<'p>(&'p mut self, input: &'p [u8]) -> Result<Option<Frame<'p>>, FrameError> {
        if self.state == State::Done {
            self.forget();
        }
        if self.state == State::Start {
            let (missing, size) = match input {
                [] => return Ok(None),
                [b'*', count @ b'0'..=b'9', b'\r', b'\n', ..] => (usize::from(count - b'0'), 4),
                [b'*', line @ ..] => match count(line)? {
                    Some((count, size)) => (count, 1 + size),
                    None => return Ok(None),
                },
                _ => {
                    self.state = State::Inline;
                    return self.inline(input);
                }
            };
            self.at = size;
            let known = None;
            self.state = State::Array { missing, known };
        }
        match self.state {
            State::Array { missing, known } => self.array(input, missing, known),
            State::Start | State::Inline | State::Done => self.inline(input),
        }
    }

    /// Reads the arguments of an array that are still missing.
    #[inline]
    fn array<'p>(
        &'p mut self,
        input: &'p [u8],
        mut missing: usize,
        mut known: Option<usize>,
    ) -> Result<Option<Frame<'p>>, FrameError> {
        let mut at = self.at;
        while missing > 0 {
            let len = match known.take() {
                Some(len) => len,
                None => match head(input.get(at..).unwrap_or_default(), at)? {
                    Some((len, size)) => {
                        at += size;
                        len
                    }
                    None => break,
                },
            };
            let end = at + len;
            match input.get(end..end + 2) {
                Some(b"\r\n") => {}
                Some(_) => return Err(FrameError::BulkEnd),
                None => {
                    known = Some(len);
                    break;
                }
            }
            self.args.push(Span { start: at, end });
            at = end + 2;
            missing -= 1;
        }
        self.at = at;
        if missing > 0 {
            self.state = State::Array { missing, known };
            return Ok(None);
        }
        self.state = State::Done;
        Ok(Some(Frame {
            spans: &self.args,
            bytes: input,
            size: at,
        }))
    }

    fn forget(&mut self) {
        self.state = State::Start;
        self.args.clear();
        self.at = 0;
        if self.unquoted.capacity() > 0 {
            self.unquoted = Vec::new();
        }
    }

    fn inline<'p>(&'p mut self, input: &'p [u8]) -> Result<Option<Frame<'p>>, FrameError> {
        let unseen = input.get(self.at..).unwrap_or_default();
        let Some(end) = memchr::memchr(b'\n', unseen) else {
            self.at = input.len();
            if self.at > MAX_BULK {
                return Err(FrameError::InlineTooLong);
            }
            return Ok(None);
        };
        let end = self.at + end;
        if end > MAX_BULK {
            return Err(FrameError::InlineTooLong);
        }
        let line = input.get(..end).unwrap_or_default();
        inline::split(line, &mut self.unquoted, |start, end| {
            self.args.push(Span { start, end });
            self.args.len() <= MAX_ARGS
        })?;
        self.state = State::Done;
        Ok(Some(Frame {
            spans: &self.args,
            bytes: &self.unquoted,
            size: end + 1,
        }))
    }
}

/// The length of the argument that `rest` starts with, and that of this head; `None`
/// while its end has not come. The head lies `at` bytes behind the start of the frame.
#[inline]
fn head(rest: &[u8], at: usize) -> Result<Option<(usize, usize)>, FrameError> {
    let digit = |byte: &u8| usize::from(byte - b'0');
    let (len, size) = match rest {
        // Most lengths have one digit, and nearly all others two.
        [b'$', one @ b'0'..=b'9', b'\r', b'\n', ..] => (digit(one), 4),
        [b'$', ten @ b'0'..=b'9', one @ b'0'..=b'9', b'\r', b'\n', ..] => {
            (digit(ten) * 10 + digit(one), 5)
        }
        [] => return Ok(None),
        [b'$', line @ ..] => match bulk(line)? {
            Some((len, size)) => (len, 1 + size),
            None => return Ok(None),
        },
        [other, ..] => return Err(FrameError::NotABulk(*other)),
    };
    if at + size + len + 2 > MAX_FRAME {
        return Err(FrameError::FrameTooLong);
    }
    Ok(Some((len, size)))
}

/// How many arguments the array has that `line` is the head of, and how long that is.
#[cold]
fn count(line: &[u8]) -> Result<Option<(usize, usize)>, FrameError> {
    let error = FrameError::ArrayLength;
    let Some((count, size)) = length(line, error)? else {
        return Ok(None);
    };
    // Redis skips empty and negative arrays without a reply.
    let count = usize::try_from(count).unwrap_or(0);
    if count > MAX_ARGS {
        return Err(error);
    }
    Ok(Some((count, size)))
}

/// How long the argument is that `line` is the head of, and how long that is.
#[cold]
fn bulk(line: &[u8]) -> Result<Option<(usize, usize)>, FrameError> {
    let error = FrameError::BulkLength;
    let Some((len, size)) = length(line, error)? else {
        return Ok(None);
    };
    match usize::try_from(len) {
        Ok(len) if len <= MAX_BULK => Ok(Some((len, size))),
        _ => Err(error),
    }
}

/// The number that `line` starts with, and how long it is with its line end; `None` while
/// that has not come.
fn length(line: &[u8], error: FrameError) -> Result<Option<(i64, usize)>, FrameError> {
    let (negative, digits) = match line {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let mut value = 0_i64;
    for (index, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' if index < MAX_LENGTH_LINE => {
                value = value
                    .checked_mul(10)
                    .and_then(|value| value.checked_add(i64::from(byte - b'0')))
                    .ok_or(error)?;
            }
            b'\r' if index > 0 => {
                return match digits.get(index + 1) {
                    None => Ok(None),
                    Some(b'\n') => {
                        let value = if negative { -value } else { value };
                        Ok(Some((value, usize::from(negative) + index + 2)))
                    }
                    Some(_) => Err(error),
                };
            }
            _ => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIRE: &[u8] =
        b"*5\r\n$11\r\nCL.THROTTLE\r\n$6\r\na\r\n\0\xffb\r\n$2\r\n15\r\n$0\r\n\r\n$1\r\n1\r\n";

    fn args(frame: &Frame<'_>) -> Vec<Vec<u8>> {
        (0..frame.count())
            .map(|index| frame.arg(index).unwrap().to_vec())
            .collect()
    }

    /// All frames of `input` in a parser that is given ever more of it, `step` bytes
    /// at a time, and how the last attempt ended.
    fn parse(input: &[u8], step: usize) -> (Vec<Vec<Vec<u8>>>, Option<FrameError>) {
        let (mut parser, mut frames, mut start) = (Parser::default(), Vec::new(), 0);
        let mut end = 0;
        while end < input.len() {
            end = (end + step).min(input.len());
            loop {
                match parser.next(&input[start..end]) {
                    Ok(Some(frame)) => {
                        frames.push(args(&frame));
                        start += frame.size();
                    }
                    Ok(None) => break,
                    Err(error) => return (frames, Some(error)),
                }
            }
        }
        (frames, None)
    }

    fn fault(input: &[u8]) -> Option<FrameError> {
        parse(input, input.len()).1
    }

    #[test]
    fn a_frame_split_at_any_byte_is_the_same_frame() {
        let wanted = vec![
            b"CL.THROTTLE".to_vec(),
            b"a\r\n\0\xffb".to_vec(),
            b"15".to_vec(),
            b"".to_vec(),
            b"1".to_vec(),
        ];
        for split in 1..WIRE.len() {
            let mut parser = Parser::default();
            assert!(parser.next(&WIRE[..split]).unwrap().is_none(), "at {split}");
            let frame = parser.next(WIRE).unwrap().unwrap();
            assert_eq!((args(&frame), frame.size()), (wanted.clone(), WIRE.len()));
        }
    }

    #[test]
    fn a_thousand_commands_in_one_piece_are_a_thousand_frames() {
        let input = WIRE.repeat(1_000);
        for step in [input.len(), 1, 7, 4_096] {
            let (frames, error) = parse(&input, step);
            assert_eq!((frames.len(), error), (1_000, None), "step {step}");
            assert!(frames.iter().all(|frame| *frame == frames[0]));
        }
    }

    #[test]
    fn what_is_understood_is_never_looked_at_again() {
        let mut input = b"*64\r\n".to_vec();
        for _ in 0..64 {
            input.extend_from_slice(b"$1000\r\n");
            input.extend_from_slice(&[b'x'; 1_000]);
            input.extend_from_slice(b"\r\n");
        }
        let mut parser = Parser::default();
        for end in 1..input.len() {
            assert!(parser.next(&input[..end]).unwrap().is_none());
            // Were it read again, the frame would now be broken.
            let understood = parser.at;
            input[..understood].fill(b'!');
        }
        let frame = parser.next(&input).unwrap().unwrap();
        assert_eq!((frame.count(), frame.size()), (64, input.len()));
    }

    #[test]
    fn an_inline_command_is_looked_through_once() {
        let mut input = vec![b'a'; 5_000];
        input.extend_from_slice(b"\n");
        let mut parser = Parser::default();
        for end in 1..input.len() {
            assert!(parser.next(&input[..end]).unwrap().is_none());
            assert_eq!(parser.at, end);
        }
        let frame = parser.next(&input).unwrap().unwrap();
        assert_eq!(frame.arg(0).map(<[u8]>::len), Some(5_000));
    }

    #[test]
    fn inline_commands_mix_with_arrays() {
        let (frames, error) = parse(b"PING\r\n*1\r\n$4\r\nPING\r\necho \"a b\"\nPING\n", 3);
        let words: [&[&[u8]]; 4] = [&[b"PING"], &[b"PING"], &[b"echo", b"a b"], &[b"PING"]];
        assert_eq!(
            (frames.as_slice(), error),
            (
                &words.map(|f| f.iter().map(|w| w.to_vec()).collect::<Vec<_>>())[..],
                None
            )
        );
    }

    #[test]
    fn empty_lines_and_empty_arrays_ask_for_nothing() {
        let (frames, error) = parse(b"\r\n*0\r\n*-1\r\nPING\r\n", 1);
        assert_eq!(error, None);
        assert_eq!(frames, vec![vec![], vec![], vec![], vec![b"PING".to_vec()]]);
    }

    #[test]
    fn broken_framing_is_a_typed_error() {
        use FrameError::*;
        assert_eq!(fault(b"*1\r\n*1\r\n"), Some(NotABulk(b'*')));
        assert_eq!(fault(&b"*1\r\n".repeat(200_000)), Some(NotABulk(b'*')));
        assert_eq!(fault(b"*1\r\n:1\r\n"), Some(NotABulk(b':')));
        assert_eq!(fault(b"*100000\r\n"), Some(ArrayLength));
        assert_eq!(fault(b"*257\r\n"), Some(ArrayLength));
        assert_eq!(fault(b"*x\r\n"), Some(ArrayLength));
        assert_eq!(fault(b"*\r\n"), Some(ArrayLength));
        assert_eq!(fault(b"*1\n"), Some(ArrayLength));
        assert_eq!(fault(b"*1\rx"), Some(ArrayLength));
        assert_eq!(
            fault(&[b"*", &b"0".repeat(100)[..]].concat()),
            Some(ArrayLength)
        );
        assert_eq!(fault(b"*1\r\n$-1\r\n"), Some(BulkLength));
        assert_eq!(fault(b"*1\r\n$65537\r\n"), Some(BulkLength));
        assert_eq!(
            fault(b"*1\r\n$99999999999999999999999\r\n"),
            Some(BulkLength)
        );
        assert_eq!(fault(b"*1\r\n$4\r\nPINGxx"), Some(BulkEnd));
        assert_eq!(fault(&[b'a'; 70_000]), Some(InlineTooLong));
        assert_eq!(
            fault(&[&b"a ".repeat(257)[..], b"\n"].concat()),
            Some(InlineTooLong)
        );
        assert_eq!(fault(b"echo \"a\n"), Some(Quotes));
        let big = [b"$65536\r\n".as_slice(), &[b'x'; 65_536], b"\r\n"].concat();
        assert_eq!(
            fault(&[b"*2\r\n", &big[..], &big[..]].concat()),
            Some(FrameTooLong)
        );
    }

    #[test]
    fn the_largest_argument_is_taken_whole() {
        let input = [b"*1\r\n$65536\r\n".as_slice(), &[b'x'; 65_536], b"\r\n"].concat();
        let (frames, error) = parse(&input, 1_000);
        assert_eq!(error, None);
        assert_eq!(frames[0][0].len(), MAX_BULK);
    }
}
