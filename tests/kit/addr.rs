use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a client waits for bytes before it says that none will come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a server listens.
#[derive(Clone, Debug)]
pub enum Addr {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl From<&Path> for Addr {
    fn from(path: &Path) -> Addr {
        Addr::Unix(path.to_owned())
    }
}

impl From<SocketAddr> for Addr {
    fn from(addr: SocketAddr) -> Addr {
        Addr::Tcp(addr)
    }
}

impl From<&Addr> for Addr {
    fn from(addr: &Addr) -> Addr {
        addr.clone()
    }
}

impl Addr {
    /// Connects. Reads give up after 30 s, so that a test fails rather than hangs.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn connect(&self) -> io::Result<Stream> {
        match self {
            Addr::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Ok(Stream::Unix(stream))
            }
            Addr::Tcp(addr) => {
                let stream = TcpStream::connect(addr)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

/// A connection to either kind of socket.
#[derive(Debug)]
pub enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buf),
            Stream::Tcp(stream) => stream.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(buf),
            Stream::Tcp(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
