//! Where to listen. A stand-in until the server's own.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A Unix socket or a TCP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String, u16),
}

impl Address {
    /// Whether it is a Unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(self, Address::Unix(_))
    }

    /// Whether only this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Unix(_) => true,
            Address::Tcp(host, _) => {
                host == "localhost"
                    || host
                        .trim_matches(['[', ']'])
                        .parse::<std::net::IpAddr>()
                        .is_ok_and(|ip| ip.is_loopback())
            }
        }
    }
}

impl FromStr for Address {
    type Err = ();

    fn from_str(text: &str) -> Result<Address, ()> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err(())
            } else {
                Ok(Address::Unix(path.into()))
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or(())?;
        Ok(Address::Tcp(host.into(), port.parse().map_err(|_| ())?))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}
