//! One request to a running daemon, and its answer.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::config;
use super::exit::Exit;
use super::surroundings;
use crate::server::{Address, AddressError};
use crate::units::Nanos;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error("`{given}` is not an address: {error}")]
    Address { given: String, error: AddressError },
    #[error("cannot reach {address}: {source}")]
    Unreachable { address: Address, source: io::Error },
    #[error("{address} does not answer as Tidegate does: {source}")]
    Protocol {
        address: Address,
        source: hyper::Error,
    },
    #[error("{address} answers too much, or breaks off")]
    Body { address: Address },
    #[error("{address} did not answer within {timeout}")]
    Late { address: Address, timeout: Nanos },
    #[error("cannot make the request: {0}")]
    Request(#[from] hyper::http::Error),
    #[error("cannot start: {0}")]
    Runtime(io::Error),
}

impl AskError {
    /// How a command ends for it.
    pub(super) fn exit(&self) -> Exit {
        match self {
            AskError::Address { .. } | AskError::Request(_) => Exit::Usage,
            AskError::Runtime(_) => Exit::Internal,
            _ => Exit::Unavailable,
        }
    }
}

/// What was answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// Where to look for a daemon, and how long to wait for it.
#[derive(clap::Args)]
pub(super) struct AskArgs {
    /// Where {runtime} points to, as for serve
    #[arg(
        long,
        value_name = "DIR",
        env = "TIDEGATE_RUNTIME_DIR",
        hide_env_values = true
    )]
    runtime_dir: Option<String>,
    /// How long to wait for the answer
    #[arg(long, value_name = "DURATION", value_parser = config::read_duration, default_value = "1s")]
    timeout: Nanos,
}

impl AskArgs {
    /// Sends `request` to the daemon at `address`, and waits no longer than told for what
    /// it answers.
    ///
    /// # Errors
    /// [`AskError`] says why there is no answer.
    pub(super) fn ask(
        &self,
        address: &Address,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Answer, AskError> {
        let timeout = self.timeout;
        let host = HeaderValue::from_static("localhost");
        request.headers_mut().insert(HOST, host);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(AskError::Runtime)?;
        runtime.block_on(async {
            tokio::time::timeout(Duration::from(timeout), exchange(address, request))
                .await
                .map_err(|_| AskError::Late {
                    address: address.clone(),
                    timeout,
                })?
        })
    }

    /// The first of the addresses `named`, with `{runtime}` replaced by `runtime_dir`, or failing
    /// that by where a daemon of this user has it.
    ///
    /// # Errors
    /// [`AskError::Address`] if it is none.
    pub(super) fn address(&self, named: &str) -> Result<Address, AskError> {
        let first = named.split(',').next().unwrap_or_default();
        let runtime = self.runtime_dir.as_deref().map_or_else(
            || {
                let directory = surroundings::of_this_process().runtime_dir;
                directory.to_string_lossy().into_owned()
            },
            str::to_owned,
        );
        first
            .replace("{runtime}", &runtime)
            .parse()
            .map_err(|error| AskError::Address {
                given: first.to_owned(),
                error,
            })
    }
}

async fn exchange(address: &Address, request: Request<Full<Bytes>>) -> Result<Answer, AskError> {
    let unreachable = |source| AskError::Unreachable {
        address: address.clone(),
        source,
    };
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(unreachable)?;
            talk(address, stream, request).await
        }
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port))
                .await
                .map_err(unreachable)?;
            talk(address, stream, request).await
        }
    }
}

/// The most that an answer may have.
const MOST: usize = 16 << 20;

async fn talk(
    address: &Address,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Answer, AskError> {
    let protocol = |source| AskError::Protocol {
        address: address.clone(),
        source,
    };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(protocol)?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(protocol)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MOST)
        .collect()
        .await
        .map_err(|_| AskError::Body {
            address: address.clone(),
        })?;
    Ok(Answer {
        status,
        body: body.to_bytes(),
    })
}
