//! The doors: sockets, connections and their limits, and the one observer of decisions.
//!
//! [`Server::bind`] takes the addresses, so that a fault shows before anything else is
//! started; [`Bound::serve`] answers until it is told to stop, and then drains: it
//! accepts no more, answers what has arrived, and cuts what takes too long. The admin
//! addresses answer until the very end.

mod accept;
mod address;
mod admin;
mod config;
mod eager;
mod grpc;
mod http;
mod listener;
mod observer;
mod operator;
mod patient;
mod readiness;
mod resp;
#[cfg(test)]
mod testing;
mod unix;
mod waiting;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::engine::{Authority, Engine};

use accept::Accepting;
use address::MAX_SOCKET_PATH;
use listener::BoundSocket;

pub use address::{Address, AddressError};
pub use config::{AdminToken, ServerConfig};
pub use observer::{BadKind, Door, Observer};
pub use operator::{AskedReload, Reloaded};
pub use readiness::{Note, Readiness, Reason};

/// Why a server does not start. What was bound before is given up again.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Somebody listens there.
    #[error("{0} is in use: another process listens on it")]
    AddressInUse(String),
    /// There is a file that is no socket.
    #[error("{} exists and is no socket; it is left alone", .0.display())]
    NotASocket(PathBuf),
    /// The socket's directory does not exist.
    #[error("the directory {} does not exist; make it first", .0.display())]
    NoDirectory(PathBuf),
    /// A path of so many bytes, which a socket's name has no room for.
    #[error("{path} has {0} bytes; a Unix socket's path may have {MAX_SOCKET_PATH}", path = .1.display())]
    PathTooLong(usize, PathBuf),
    /// A host name that cannot be resolved.
    #[error("cannot resolve '{host}': {source}")]
    Resolve {
        /// The name.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// Anything else that the system says about an address.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Admin pages would be open to the network.
    #[error("the admin address {0} is reachable from other machines; give it a token")]
    AdminExposed(String),
}

/// Makes servers.
#[derive(Debug)]
pub struct Server;

/// A server that has its addresses and does not answer yet. Dropped, it gives them up.
#[derive(Debug)]
pub struct Bound {
    config: ServerConfig,
    sockets: Vec<(Door, BoundSocket)>,
}

/// What the doors work with.
#[derive(Clone)]
pub struct Services {
    /// Decides.
    pub engine: Arc<Engine>,
    /// Decides checks of strict limits; `None` where there is no store.
    pub authority: Option<Arc<dyn Authority>>,
    /// Tells the time.
    pub clock: Clock,
    /// Observes.
    pub observer: Arc<Observer>,
    /// Knows whether this node wants traffic.
    pub readiness: Readiness,
    /// Renders the page of metrics.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// Says how the daemon is, as a JSON object.
    pub status: Arc<dyn Fn() -> serde_json::Value + Send + Sync>,
    /// Reads the rules anew; `None` where they never change.
    pub reloads: Option<mpsc::Sender<AskedReload>>,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Services")
    }
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// How many connections had to be cut at the end of the drain time.
    pub cut: usize,
}

/// What all connections share.
struct Shared {
    services: Services,
    config: ServerConfig,
    /// One for each refused connection that may be closed with manners.
    farewells: Arc<Semaphore>,
    /// One for each body under way that is longer than a single check's.
    long_bodies: Semaphore,
    /// What the connections of gateways share.
    gateway: grpc::Gateway,
}

impl Server {
    /// Listens on all addresses of `config`, answering nothing yet.
    ///
    /// # Errors
    /// [`ServerError`] for the first address that cannot be had.
    pub fn bind(config: ServerConfig) -> Result<Bound, ServerError> {
        let mut sockets = Vec::new();
        for (door, addresses) in [
            (Door::Http, &config.http),
            (Door::Resp, &config.resp),
            (Door::Grpc, &config.grpc),
            (Door::Admin, &config.admin),
        ] {
            let mode = match door {
                Door::Admin => config.admin_socket_mode,
                Door::Http | Door::Resp | Door::Grpc => config.socket_mode,
            };
            for address in addresses {
                for socket in listener::bind(address, mode)? {
                    // Judged by what it came to, not by how it was spelt.
                    let exposed = door == Door::Admin && !socket.address.is_local();
                    if exposed && config.admin_token.is_none() {
                        return Err(ServerError::AdminExposed(address.to_string()));
                    }
                    sockets.push((door, socket));
                }
            }
        }
        Ok(Bound { config, sockets })
    }
}

impl Bound {
    /// Where it listens, with the ports that were chosen for port 0.
    pub fn addresses(&self) -> impl Iterator<Item = (Door, &Address)> {
        self.sockets
            .iter()
            .map(|(door, socket)| (*door, &socket.address))
    }

    /// Answers until `shutdown` is done, then drains. Once it listens it clears
    /// [`Reason::Starting`]; when it drains it raises [`Reason::Draining`].
    ///
    /// # Errors
    /// Only if a socket cannot be made part of the runtime: nothing was answered then.
    pub async fn serve(
        self,
        services: Services,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<Drained> {
        let readiness = services.readiness.clone();
        let places = config::places(self.config.max_connections);
        let shared = Arc::new(Shared {
            services,
            config: self.config,
            farewells: Arc::new(Semaphore::new(config::FAREWELLS)),
            long_bodies: Semaphore::new(config::LONG_BODIES),
            gateway: grpc::Gateway::new(),
        });
        let data = Arc::new(Semaphore::new(places));
        let admin = Arc::new(Semaphore::new(config::ADMIN_PLACES));
        let (stop_data, data_stopping) = watch::channel(false);
        let (stop_admin, admin_stopping) = watch::channel(false);
        let mut data_doors = JoinSet::new();
        let mut admin_doors = JoinSet::new();
        for (door, socket) in self.sockets {
            let (doors, places, stopping) = match door {
                Door::Admin => (&mut admin_doors, &admin, &admin_stopping),
                Door::Http | Door::Resp | Door::Grpc => (&mut data_doors, &data, &data_stopping),
            };
            let accepting = Accepting {
                door,
                address: socket.address.to_string(),
                listener: socket.listen()?,
                places: Arc::clone(places),
                shared: Arc::clone(&shared),
                stopping: stopping.clone(),
            };
            doors.spawn(accepting.run());
        }
        readiness.clear(Reason::Starting);
        shutdown.await;
        readiness.raise(Reason::Draining);
        shared.gateway.quotas().close();
        // Nobody listening any more is as good as everybody told.
        let _ = stop_data.send(true);
        let mut cut = 0;
        while let Some(door) = data_doors.join_next().await {
            cut += door.unwrap_or(0);
        }
        shared.gateway.quotas().ended().await;
        let _ = stop_admin.send(true);
        while admin_doors.join_next().await.is_some() {}
        Ok(Drained { cut })
    }
}

/// Done when `stopping` says so, or when nobody can say so any more.
async fn told(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}
