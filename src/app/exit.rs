//! What the process tells its parent at the end.

use std::process::ExitCode;

/// How a command ended. The numbers are part of the interface: scripts and probes
/// read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done; `check`: the caller may go on, or the daemon is ready.
    Done,
    /// `check`: the limit refuses, or the daemon is not ready.
    Refused,
    /// The command line, the configuration or the question is wrong.
    Usage,
    /// `check`: no daemon answers, or its store is lost; `serve`: an address
    /// cannot be listened on.
    Unavailable,
    /// What should not happen.
    Internal,
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Refused => 1,
            Exit::Usage => 2,
            Exit::Unavailable => 69,
            Exit::Internal => 70,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
