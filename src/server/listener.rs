use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::ServerError;
use super::address::Address;
use super::unix::{self, SocketFile};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1_024;
/// How soon a peer that vanished without a word is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(120);

/// A socket that is listened on, and not yet part of a runtime.
#[derive(Debug)]
pub(super) struct BoundSocket {
    /// Where, with the port that was chosen.
    pub(super) address: Address,
    kind: BoundKind,
}

#[derive(Debug)]
enum BoundKind {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, SocketFile),
}

/// Listens on `address`: on each of the addresses that a name stands for.
pub(super) fn bind(address: &Address, mode: u32) -> Result<Vec<BoundSocket>, ServerError> {
    match address {
        Address::Unix(path) => {
            let (listener, file) = unix::bind(path, mode)?;
            Ok(vec![BoundSocket {
                address: address.clone(),
                kind: BoundKind::Unix(listener, file),
            }])
        }
        Address::Tcp { host, port } => {
            let resolved = (host.as_str(), *port).to_socket_addrs();
            let resolved = resolved.map_err(|source| ServerError::Resolve {
                host: host.clone(),
                source,
            })?;
            let bound: Vec<_> = resolved.map(bind_tcp).collect();
            // `localhost` stands for both families, and one of them may be off.
            let (bound, mut failed): (Vec<_>, Vec<_>) = bound.into_iter().partition(Result::is_ok);
            if !bound.is_empty() {
                failed.retain(|result| result.as_ref().is_err_and(|error| !is_family_off(error)));
            }
            match failed.into_iter().find_map(Result::err) {
                Some(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    Err(ServerError::AddressInUse(address.to_string()))
                }
                Some(source) => Err(ServerError::Bind {
                    address: address.to_string(),
                    source,
                }),
                None => Ok(bound.into_iter().flatten().collect()),
            }
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<BoundSocket> {
    let socket = match tcp_socket(address) {
        Err(error) if is_family_off(&error) && address.ip().is_unspecified() => {
            tcp_socket((Ipv4Addr::UNSPECIFIED, address.port()).into())?
        }
        socket => socket?,
    };
    let listener = std::net::TcpListener::from(socket);
    let address = listener.local_addr()?;
    Ok(BoundSocket {
        address: Address::Tcp {
            host: address.ip().to_string(),
            port: address.port(),
        },
        kind: BoundKind::Tcp(listener),
    })
}

fn tcp_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        // IPv4 as well, whatever the system's default is.
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Whether the error says that the address, or its whole family, does not exist here.
fn is_family_off(error: &io::Error) -> bool {
    [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// A listening socket in the runtime.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        /// Goes when the listener goes.
        _file: SocketFile,
    },
}

impl BoundSocket {
    /// Makes it part of the runtime that this is called in.
    pub(super) fn listen(self) -> io::Result<Listener> {
        Ok(match self.kind {
            BoundKind::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Listener::Tcp(TcpListener::from_std(listener)?)
            }
            BoundKind::Unix(listener, file) => {
                listener.set_nonblocking(true)?;
                Listener::Unix {
                    listener: UnixListener::from_std(listener)?,
                    _file: file,
                }
            }
        })
    }
}

impl Listener {
    /// The next connection, and the address of a TCP peer, unmapped.
    pub(super) async fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // They fail if the peer is gone already, which the first read will tell.
                let _ = stream.set_nodelay(true);
                let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
                let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
                Ok((Stream::Tcp(stream), Some(peer.ip().to_canonical())))
            }
            Listener::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::Unix(stream), None))
            }
        }
    }
}

/// A connection of either kind.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Sends what fits into the socket's buffer at once, and forgets the rest.
    pub(super) fn send_now(&self, bytes: &[u8]) {
        // If even that fails, the peer is gone.
        let _ = match self {
            Stream::Tcp(stream) => SockRef::from(stream).send(bytes),
            Stream::Unix(stream) => SockRef::from(stream).send(bytes),
        };
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp {
            host: host.into(),
            port,
        }
    }

    fn ports(bound: &[BoundSocket]) -> Vec<u16> {
        bound
            .iter()
            .map(|socket| match socket.address {
                Address::Tcp { port, .. } => port,
                Address::Unix(_) => 0,
            })
            .collect()
    }

    #[test]
    fn port_zero_becomes_a_real_port_and_a_taken_one_is_told() {
        let bound = bind(&tcp("127.0.0.1", 0), 0).unwrap();
        let port = ports(&bound)[0];
        assert_ne!(port, 0);
        let again = bind(&tcp("127.0.0.1", port), 0);
        assert!(
            matches!(again, Err(ServerError::AddressInUse(_))),
            "{again:?}"
        );
    }

    #[tokio::test]
    async fn all_addresses_take_ipv4_and_the_peer_is_unmapped() {
        let bound = bind(&tcp("::", 0), 0).unwrap();
        let port = ports(&bound)[0];
        let listener = bound.into_iter().next().unwrap().listen().unwrap();
        let _client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (_, peer) = listener.accept().await.unwrap();
        assert_eq!(peer, Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }

    #[test]
    fn a_name_that_does_not_exist_is_told() {
        let bound = bind(&tcp("no such host.invalid", 0), 0);
        assert!(
            matches!(bound, Err(ServerError::Resolve { .. })),
            "{bound:?}"
        );
    }
}
