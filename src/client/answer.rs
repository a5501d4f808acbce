use std::fmt;
use std::time::Duration;

use super::FailMode;
use super::reply::Reply;

/// The answer to a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether it may be done.
    pub verdict: Verdict,
    /// The most that is admitted at once; `None` if no limit applied, or none is known.
    pub limit: Option<u64>,
    /// What is left of it.
    pub remaining: Option<u64>,
    /// Until all of it is available again, in whole milliseconds.
    pub reset_after: Option<Duration>,
    /// Who says so.
    pub source: Source,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be done: at once if `delay` is zero, else (a leaky bucket) after it.
    Allowed {
        /// How long to wait before acting, in whole milliseconds.
        delay: Duration,
    },
    /// It may not be done.
    Refused {
        /// Until it is worth asking again, in whole milliseconds; `None` if waiting does
        /// not help, or if it is not the daemon that refused.
        retry_after: Option<Duration>,
    },
}

/// Who has answered a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The daemon, by its rules.
    Daemon,
    /// The client, by its fail mode, without any figures.
    FailMode(Missed),
}

/// Why there is no answer of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// There is no connection, or it was lost before the reply.
    Unreachable,
    /// The reply had not come when the deadline passed.
    Late,
    /// All places were taken until the deadline passed: the question was not sent.
    Busy,
}

/// What a settlement came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It was settled now.
    Settled {
        /// What was charged beyond the up-front cost: the most at any limit.
        charged: u64,
        /// What was given back of it: the most at any limit.
        refunded: u64,
        /// At how many limits a difference counts nowhere, since it came too late.
        late: u64,
    },
    /// It was settled before, and nothing was changed.
    AlreadySettled,
}

/// Why there is no answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The store is lost, late or has forgotten, and a limit admits nothing without it.
    #[error("a limit does not admit this without the store")]
    Unavailable,
    /// The daemon has no rule of this name.
    #[error("there is no such rule")]
    UnknownRule,
    /// A rule insists on knowing the caller, and does not.
    #[error("a rule insists on knowing the caller")]
    Unidentified,
    /// The id is that of another check.
    #[error("the id is that of another check")]
    IdInUse,
    /// No check with this id was admitted by this daemon, or it was too long ago.
    #[error("no check with this id was admitted here, or it was too long ago")]
    UnknownId,
    /// The check was forgotten before it was settled.
    #[error("the check was forgotten before it was settled")]
    ForgottenId,
    /// The daemon does not understand the question, in its own words.
    #[error("the daemon does not understand: {0}")]
    Rejected(String),
    /// The question is longer than the daemon reads; it was not sent.
    #[error("the question is too large")]
    TooLarge,
    /// The daemon did not answer a report or a settlement.
    #[error("the daemon did not answer: {0}")]
    Unanswered(Missed),
}

impl Answer {
    /// Whether it may be done, if need be after the [`delay`](Answer::delay).
    pub const fn is_allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allowed { .. })
    }

    /// If refused, until it is worth asking again, if it is known.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::Allowed { .. } => None,
            Verdict::Refused { retry_after } => retry_after,
        }
    }

    /// If allowed, how long to wait before acting; else zero.
    pub const fn delay(&self) -> Duration {
        match self.verdict {
            Verdict::Allowed { delay } => delay,
            Verdict::Refused { .. } => Duration::ZERO,
        }
    }

    /// What `mode` says in the daemon's stead.
    pub(super) fn instead(mode: FailMode, missed: Missed) -> Answer {
        Answer {
            verdict: match mode {
                FailMode::Open => Verdict::Allowed {
                    delay: Duration::ZERO,
                },
                FailMode::Closed => Verdict::Refused { retry_after: None },
            },
            limit: None,
            remaining: None,
            reset_after: None,
            source: Source::FailMode(missed),
        }
    }

    /// The answer that a reply to a check is.
    pub(super) fn read(reply: Reply) -> Result<Answer, Error> {
        let figures = figures(reply)?;
        let [limited, limit, remaining, retry, reset] = figures[..] else {
            return Err(Error::Unanswered(Missed::Unreachable));
        };
        let verdict = if limited == 0 {
            Verdict::Allowed {
                delay: millis(retry).unwrap_or_default(),
            }
        } else {
            Verdict::Refused {
                retry_after: millis(retry),
            }
        };
        Ok(Answer {
            verdict,
            limit: known(limit),
            remaining: known(remaining),
            reset_after: millis(reset),
            source: Source::Daemon,
        })
    }
}

impl Settlement {
    /// The settlement that a reply to one is.
    pub(super) fn read(reply: Reply) -> Result<Settlement, Error> {
        let figures = figures(reply)?;
        let [now, charged, refunded, late] = figures[..] else {
            return Err(Error::Unanswered(Missed::Unreachable));
        };
        if now == 0 {
            return Ok(Settlement::AlreadySettled);
        }
        let figure = |value| known(value).unwrap_or_default();
        Ok(Settlement::Settled {
            charged: figure(charged),
            refunded: figure(refunded),
            late: figure(late),
        })
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Missed::Unreachable => "there is no connection to it",
            Missed::Late => "its reply is late",
            Missed::Busy => "too many questions are waiting for it",
        })
    }
}

fn figures(reply: Reply) -> Result<impl std::ops::Deref<Target = [i64]>, Error> {
    let text = match reply {
        Reply::Figures(figures) => return Ok(figures),
        Reply::Error(text) => text,
    };
    let errors = [
        ("UNAVAILABLE", Error::Unavailable),
        ("ERR unknown rule ", Error::UnknownRule),
        ("ERR UNIDENTIFIED ", Error::Unidentified),
        ("ERR IN_USE ", Error::IdInUse),
        ("ERR UNKNOWN ", Error::UnknownId),
        ("ERR FORGOTTEN ", Error::ForgottenId),
    ];
    let known = errors
        .into_iter()
        .find(|(start, _)| text.starts_with(start));
    Err(known.map_or(Error::Rejected(text), |(_, error)| error))
}

/// A figure; what is negative does not exist.
fn known(figure: i64) -> Option<u64> {
    u64::try_from(figure).ok()
}

fn millis(figure: i64) -> Option<Duration> {
    known(figure).map(Duration::from_millis)
}
