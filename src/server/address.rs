use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The longest path that a Unix socket's name has room for, in bytes.
pub(super) const MAX_SOCKET_PATH: usize = 107;

/// Where a door listens: `unix:PATH` or `HOST:PORT`, an IPv6 address in brackets.
///
/// `[::]:PORT` takes IPv4 as well, and is `0.0.0.0:PORT` where IPv6 is off. Port 0
/// is any free one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
}

/// Why a text is no [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing behind `unix:`.
    #[error("no path after 'unix:'")]
    NoPath,
    /// A NUL in the path.
    #[error("a path with a NUL byte")]
    NulInPath,
    /// The system's socket names are shorter.
    #[error("a path of {0} bytes; a Unix socket's may have {MAX_SOCKET_PATH}")]
    PathTooLong(usize),
    /// No colon, or nothing before it.
    #[error("expected unix:PATH or HOST:PORT (for all of this machine's addresses, [::]:PORT)")]
    NoHost,
    /// Not a number from 0 to 65535 behind the last colon.
    #[error("'{0}' is not a port")]
    Port(String),
    /// A URL.
    #[error("expected HOST:PORT, without '{0}://'")]
    Url(String),
    /// More than one colon outside brackets.
    #[error("an IPv6 address is written in brackets: [{0}]:PORT")]
    Brackets(String),
    /// Brackets around something else than an IPv6 address.
    #[error("'{0}' is not an IPv6 address")]
    Ipv6(String),
}

impl Address {
    /// Whether it is a Unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(self, Address::Unix(_))
    }

    /// Whether this machine alone can reach it, as far as its text tells.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Unix(_) => true,
            Address::Tcp { host, .. } => {
                host.eq_ignore_ascii_case("localhost")
                    || host
                        .parse::<IpAddr>()
                        .is_ok_and(|ip| ip.to_canonical().is_loopback())
            }
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.len() {
                0 => Err(AddressError::NoPath),
                len if len > MAX_SOCKET_PATH => Err(AddressError::PathTooLong(len)),
                _ if path.contains('\0') => Err(AddressError::NulInPath),
                _ => Ok(Address::Unix(path.into())),
            };
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(AddressError::Url(scheme.into()));
        }
        let (host, port) = text.rsplit_once(':').ok_or(AddressError::NoHost)?;
        let number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port
            .parse()
            .ok()
            .filter(|_| number)
            .ok_or_else(|| AddressError::Port(port.into()))?;
        let host = match host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
        {
            Some(inner) if inner.parse::<std::net::Ipv6Addr>().is_ok() => inner,
            Some(inner) => return Err(AddressError::Ipv6(inner.into())),
            None if host.is_empty() => return Err(AddressError::NoHost),
            None if host.contains(':') => return Err(AddressError::Brackets(host.into())),
            None => host,
        };
        Ok(Address::Tcp {
            host: host.into(),
            port,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_as_it_is_written() {
        for text in [
            "unix:/run/a b:c.sock",
            "127.0.0.1:0",
            "[::1]:8080",
            "localhost:65535",
        ] {
            assert_eq!(
                text.parse::<Address>().map(|it| it.to_string()),
                Ok(text.into())
            );
        }
    }

    #[test]
    fn what_is_no_address_is_a_typed_error() {
        use AddressError::*;
        let long = format!("unix:/{}", "a".repeat(107));
        for (text, error) in [
            ("unix:", NoPath),
            ("unix:/a\0b", NulInPath),
            (&*long, PathTooLong(108)),
            ("8080", NoHost),
            (":8080", NoHost),
            ("host:", Port("".into())),
            ("host:http", Port("http".into())),
            ("host:+80", Port("+80".into())),
            ("host:65536", Port("65536".into())),
            ("::1:80", Brackets("::1".into())),
            ("[localhost]:80", Ipv6("localhost".into())),
        ] {
            assert_eq!(text.parse::<Address>(), Err(error), "{text:?}");
        }
    }

    #[test]
    fn local_is_what_no_other_machine_reaches() {
        let local = |text: &str| text.parse::<Address>().unwrap().is_local();
        for text in [
            "unix:/a",
            "127.0.0.2:1",
            "[::1]:1",
            "LOCALHOST:1",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(local(text), "{text}");
        }
        for text in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.com:1"] {
            assert!(!local(text), "{text}");
        }
    }
}
