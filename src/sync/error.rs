/// Why an exchange with the store failed. Whether the store has carried it out is
/// not known, so the same batch is sent again, sooner or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Failure {
    /// No answer in time.
    #[error("no answer in time")]
    Timeout,
    /// No connection, or it broke.
    #[error("no connection, or it broke")]
    Disconnected,
    /// Nobody listens at its address.
    #[error("connection refused: nobody listens there")]
    Refused,
    /// Its host's name cannot be resolved.
    #[error("unknown host: its name cannot be resolved")]
    UnknownHost,
    /// There is no way to its host.
    #[error("no network leads to its host")]
    Unreachable,
    /// There is no socket of that name.
    #[error("there is no such socket")]
    NoSocket,
    /// The system does not let this process connect.
    #[error("this user may not connect to it")]
    Forbidden,
    /// Its certificate cannot be trusted.
    #[error(
        "TLS: its certificate is not of an authority that is trusted here (SSL_CERT_FILE), or \
         not for this name or time"
    )]
    Certificate,
    /// No TLS came about for another reason.
    #[error("TLS failed: the store does not speak it, or wants a certificate of this node")]
    Tls,
    /// The store has forgotten the scripts.
    #[error("the store has forgotten the scripts")]
    NoScript,
    /// The store is loading its data.
    #[error("the store is loading its data")]
    Loading,
    /// The store is a replica, and not written to.
    #[error("the store is a read-only replica")]
    ReadOnly,
    /// The store's cluster is being rearranged, or is down.
    #[error("the store's cluster is being rearranged or is down")]
    Cluster,
    /// The store has no memory left.
    #[error("the store is out of memory")]
    OutOfMemory,
    /// The store cannot save its data and refuses writes.
    #[error("the store refuses writes because it cannot save")]
    CannotSave,
    /// The store does not let this user do it.
    #[error(
        "the store denies access: wrong credentials, or a user without EVAL, EVALSHA, SCRIPT \
         LOAD, INFO, GET, SET, HGET, HMGET, HSET, HSTRLEN, EXISTS, PEXPIRE, ZADD, ZREM, ZREMRANGEBYSCORE, \
         ZCOUNT, ZCARD and TIME on the fleet's keys, and SUBSCRIBE and PUBLISH on its channel"
    )]
    Denied,
    /// A key of this name holds something else.
    #[error("a key of the fleet holds something else")]
    WrongType,
    /// The answer was not of the form that the scripts answer.
    #[error("the store's answer is not what the script answers")]
    BadReply,
    /// Anything else.
    #[error("the store answered with an error")]
    Other,
}

/// How soon a failed exchange is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// It may well succeed now.
    Again,
    /// It will pass, but not at once.
    Later,
    /// Somebody has to mend it.
    MuchLater,
}

impl Failure {
    /// The value of the `class` label.
    pub const fn class(self) -> &'static str {
        match self {
            Failure::Timeout => "timeout",
            Failure::Disconnected => "disconnected",
            Failure::Refused => "refused",
            Failure::UnknownHost => "unknown_host",
            Failure::Unreachable => "unreachable",
            Failure::NoSocket => "no_socket",
            Failure::Forbidden => "forbidden",
            Failure::Certificate => "certificate",
            Failure::Tls => "tls",
            Failure::NoScript => "noscript",
            Failure::Loading => "loading",
            Failure::ReadOnly => "readonly",
            Failure::Cluster => "cluster",
            Failure::OutOfMemory => "oom",
            Failure::CannotSave => "misconf",
            Failure::Denied => "denied",
            Failure::WrongType => "wrongtype",
            Failure::BadReply => "bad_reply",
            Failure::Other => "other",
        }
    }

    /// How soon to try again.
    pub const fn remedy(self) -> Remedy {
        match self {
            // Without a connection nothing is sent; how often one is tried to be made is
            // the driver's matter.
            Failure::Timeout
            | Failure::Disconnected
            | Failure::Refused
            | Failure::UnknownHost
            | Failure::Unreachable
            | Failure::NoSocket
            | Failure::Forbidden
            | Failure::Certificate
            | Failure::Tls
            | Failure::NoScript => Remedy::Again,
            Failure::Loading
            | Failure::ReadOnly
            | Failure::Cluster
            | Failure::OutOfMemory
            | Failure::CannotSave
            | Failure::Other => Remedy::Later,
            Failure::Denied | Failure::WrongType | Failure::BadReply => Remedy::MuchLater,
        }
    }

    /// The failure that an error line of the store means.
    pub fn from_error_line(code: &str, detail: &str) -> Failure {
        // Older stores wrap the error of a script's command into one of their own.
        let inner = |word: &str| code == word || (code == "ERR" && detail.contains(word));
        match code {
            "NOSCRIPT" => Failure::NoScript,
            "LOADING" | "BUSY" => Failure::Loading,
            "READONLY" => Failure::ReadOnly,
            "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "CROSSSLOT" => {
                Failure::Cluster
            }
            "NOPERM" | "NOAUTH" | "WRONGPASS" => Failure::Denied,
            _ if inner("WRONGTYPE") => Failure::WrongType,
            _ if inner("OOM") => Failure::OutOfMemory,
            _ if inner("MISCONF") => Failure::CannotSave,
            _ if inner("READONLY") => Failure::ReadOnly,
            _ if inner("NOPERM") || inner("can't run this command") => Failure::Denied,
            _ => Failure::Other,
        }
    }
}

/// Why the sync cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The store's address makes no sense. It is not repeated: it may hold a password.
    #[error(
        "the store's address is not one of redis://HOST:PORT, rediss://HOST:PORT or \
         redis+unix:///PATH"
    )]
    BadUrl,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_lines_are_told_apart_also_inside_a_scripts_error() {
        let line = Failure::from_error_line;
        assert_eq!(line("OOM", "command not allowed"), Failure::OutOfMemory);
        assert_eq!(line("WRONGTYPE", ""), Failure::WrongType);
        let wrapped = "Error running script: @user_script:17: WRONGTYPE Operation against a key";
        assert_eq!(line("ERR", wrapped), Failure::WrongType);
        assert_eq!(line("NOAUTH", "Authentication required."), Failure::Denied);
        assert_eq!(line("ERR", "whatever"), Failure::Other);
    }
}
