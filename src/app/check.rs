//! Asking a running daemon: for people, scripts and exec probes.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::config;
use super::exit::Exit;
use super::surroundings;
use crate::server::{Address, AddressError};
use crate::units::Nanos;

/// The arguments of `tidegate check`.
#[derive(clap::Args)]
#[command(
    override_usage = "tidegate check [OPTIONS] <RULE> <KEY>\n       tidegate check [OPTIONS] --ready"
)]
pub(super) struct CheckArgs {
    /// The rule to ask by
    #[arg(required_unless_present = "ready", conflicts_with = "ready")]
    rule: Option<String>,
    /// Who is asking: the caller's identity
    #[arg(required_unless_present = "ready", conflicts_with = "ready")]
    key: Option<String>,
    /// What it costs; 0 only looks
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 1,
        allow_negative_numbers = true,
        value_parser = read_cost
    )]
    cost: u64,
    /// The caller's tier
    #[arg(long)]
    tier: Option<String>,
    /// Ask whether the daemon is ready, instead of a rule
    #[arg(long)]
    ready: bool,
    /// The daemon's HTTP address
    #[arg(
        long,
        value_name = "ADDR",
        env = "TIDEGATE_HTTP",
        hide_env_values = true,
        default_value = "unix:{runtime}/http.sock"
    )]
    http: String,
    /// The daemon's admin address, for --ready
    #[arg(
        long,
        value_name = "ADDR",
        env = "TIDEGATE_ADMIN",
        hide_env_values = true,
        default_value = "unix:{runtime}/admin.sock"
    )]
    admin: String,
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

fn read_cost(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "write a whole number, 0 or more")
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum AskError {
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
    fn exit(&self) -> Exit {
        match self {
            AskError::Address { .. } | AskError::Request(_) => Exit::Usage,
            AskError::Runtime(_) => Exit::Internal,
            _ => Exit::Unavailable,
        }
    }
}

struct Answer {
    status: StatusCode,
    body: Bytes,
}

/// Asks, prints the answer as one line of JSON, and answers with the exit code.
pub(super) fn check(args: &CheckArgs) -> Exit {
    match ask(args) {
        Ok(answer) if args.ready => {
            let ready = answer.status == StatusCode::OK;
            println!("{}", serde_json::json!({ "ready": ready }));
            if ready { Exit::Done } else { Exit::Refused }
        }
        Ok(answer) => {
            println!("{}", one_line(&answer.body));
            match answer.status {
                StatusCode::OK => Exit::Done,
                StatusCode::TOO_MANY_REQUESTS | StatusCode::UNAUTHORIZED => Exit::Refused,
                StatusCode::SERVICE_UNAVAILABLE => Exit::Unavailable,
                status if status.is_client_error() => Exit::Usage,
                _ => Exit::Internal,
            }
        }
        Err(error) => {
            eprintln!("tidegate: {error}");
            error.exit()
        }
    }
}

/// The body as one line of JSON, whatever it is.
fn one_line(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    serde_json::from_str::<serde_json::Value>(&text)
        .unwrap_or_else(|_| text.trim().into())
        .to_string()
}

fn ask(args: &CheckArgs) -> Result<Answer, AskError> {
    let address = address(args)?;
    let request = if args.ready {
        Request::get("/readyz").body(Full::default())
    } else {
        let question = serde_json::json!({
            "rule": args.rule,
            "key": args.key,
            "cost": args.cost,
        });
        let question = match (&args.tier, question) {
            (Some(tier), serde_json::Value::Object(mut question)) => {
                question.insert("tier".to_owned(), tier.as_str().into());
                serde_json::Value::Object(question)
            }
            (_, question) => question,
        };
        Request::builder()
            .method(Method::POST)
            .uri("/v1/check")
            .header("content-type", "application/json")
            .body(Full::from(question.to_string()))
    };
    let (mut parts, body) = request?.into_parts();
    parts
        .headers
        .insert("host", hyper::header::HeaderValue::from_static("localhost"));
    let request = Request::from_parts(parts, body);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(AskError::Runtime)?;
    let timeout = args.timeout;
    runtime.block_on(async {
        tokio::time::timeout(Duration::from(timeout), exchange(&address, request))
            .await
            .map_err(|_| AskError::Late {
                address: address.clone(),
                timeout,
            })?
    })
}

/// The first of the addresses named, with `{runtime}` replaced.
fn address(args: &CheckArgs) -> Result<Address, AskError> {
    let named = if args.ready { &args.admin } else { &args.http };
    let first = named.split(',').next().unwrap_or_default();
    let runtime = args.runtime_dir.clone().unwrap_or_else(|| {
        let directory = surroundings::of_this_process().runtime_dir;
        directory.to_string_lossy().into_owned()
    });
    first
        .replace("{runtime}", &runtime)
        .parse()
        .map_err(|error| AskError::Address {
            given: first.to_owned(),
            error,
        })
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
const MOST: usize = 1 << 20;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_body_becomes_one_line_of_json() {
        assert_eq!(one_line(b"{\"a\":\n 1}\n"), "{\"a\":1}");
        assert_eq!(one_line(b"not found\n"), "\"not found\"");
        assert_eq!(one_line(b"\xff"), "\"\u{fffd}\"");
    }
}
