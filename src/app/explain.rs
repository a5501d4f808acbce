//! Telling what becomes of a request, and why.

mod text;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde_json::{Map, Value, json};

use super::asking::{AskArgs, AskError};
use super::cli::tell;
use super::config::{self, Fault, FileKind, read_bounded};
use super::exit::Exit;
use super::surroundings;
use crate::clock::Clock;
use crate::counters::{Counters, Fleet};
use crate::engine::Engine;
use crate::protocol::http::{BadRequest, Explanation};
use crate::units::KeySecret;

/// The arguments of `tidegate explain`.
#[derive(clap::Args)]
pub(super) struct ExplainArgs {
    /// Explain by these rules, as a daemon would that has just begun
    #[arg(long, value_name = "FILE|DIR")]
    rules: Option<PathBuf>,
    /// Explain by the rules of this config file, as a daemon would that has just begun
    #[arg(long, value_name = "FILE", conflicts_with = "rules")]
    config: Option<PathBuf>,
    /// The request's method
    #[arg(
        long,
        value_name = "METHOD",
        default_value = "GET",
        conflicts_with = "domain"
    )]
    method: String,
    /// The request's path, with its query
    #[arg(
        long,
        value_name = "PATH",
        required_unless_present = "domain",
        conflicts_with_all = ["domain", "entry"]
    )]
    path: Option<String>,
    /// The client's address
    #[arg(long, value_name = "IP", conflicts_with = "domain")]
    ip: Option<IpAddr>,
    /// A header of the request
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "domain")]
    header: Vec<Pair>,
    /// What the application says about the caller
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "domain")]
    attribute: Vec<Pair>,
    #[command(flatten)]
    descriptor: DescriptorArgs,
    /// What the request costs
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 1,
        value_parser = |text: &str| config::read_number::<u64>(text, 0, u64::MAX)
    )]
    cost: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The admin address of the daemon to ask where no rules are given
    #[arg(
        long,
        value_name = "ADDR",
        env = "TIDEGATE_ADMIN",
        hide_env_values = true,
        default_value = "unix:{runtime}/admin.sock"
    )]
    admin: String,
    /// The file with the daemon's admin token
    #[arg(
        long,
        value_name = "FILE",
        env = "TIDEGATE_ADMIN_TOKEN_FILE",
        hide_env_values = true
    )]
    admin_token_file: Option<PathBuf>,
    #[command(flatten)]
    asking: AskArgs,
}

/// A descriptor, as gateways ask about it.
#[derive(clap::Args)]
pub(super) struct DescriptorArgs {
    /// Ask about a descriptor of this domain instead
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// An entry of the descriptor, in their order
    #[arg(long, value_name = "KEY=VALUE", requires = "domain")]
    entry: Vec<Pair>,
}

impl DescriptorArgs {
    /// The descriptor, as it is put to a daemon, at this `cost`.
    pub(super) fn question(&self, cost: u64) -> Option<Map<String, Value>> {
        let domain = self.domain.as_deref()?;
        let entries = self.entry.iter();
        let entries = entries.map(|Pair { name, value }| json!({"key": name, "value": value}));
        let mut question = Map::new();
        question.insert("domain".to_owned(), domain.into());
        question.insert("entries".to_owned(), entries.collect());
        question.insert("cost".to_owned(), cost.into());
        Some(question)
    }
}

/// A name and a value.
#[derive(Clone)]
struct Pair {
    name: String,
    value: String,
}

#[derive(Debug, thiserror::Error)]
#[error("no `=` in it; write NAME=VALUE")]
struct NoPair;

impl FromStr for Pair {
    type Err = NoPair;

    fn from_str(text: &str) -> Result<Pair, NoPair> {
        let (name, value) = text.split_once('=').ok_or(NoPair)?;
        let (name, value) = (name.to_owned(), value.to_owned());
        Ok(Pair { name, value })
    }
}

/// Why nothing is explained.
#[derive(Debug, thiserror::Error)]
enum ExplainError {
    #[error("{0} is given twice; write its values in one, separated by commas")]
    Twice(String),
    #[error("{}", .0.first().map(ToString::to_string).unwrap_or_default())]
    Faults(Vec<Fault>),
    #[error("{0}")]
    Question(#[from] BadRequest),
    #[error("{0}")]
    Ask(#[from] AskError),
    #[error("the admin token cannot be sent")]
    Token,
    #[error("the daemon answers {status}: {said}")]
    Refused { status: StatusCode, said: String },
    #[error("the daemon explains in another way: {0}")]
    Answer(#[from] serde_json::Error),
}

impl ExplainError {
    fn exit(&self) -> Exit {
        match self {
            ExplainError::Ask(error) => error.exit(),
            ExplainError::Refused { status, .. } if !status.is_client_error() => Exit::Unavailable,
            ExplainError::Answer(_) => Exit::Internal,
            _ => Exit::Usage,
        }
    }
}

/// Explains the request, and prints it.
pub(super) fn explain(args: &ExplainArgs) -> Exit {
    let explained = question(args).and_then(|question| match files(args) {
        Some((path, kind)) => by_rules(path, kind, &question),
        None => by_daemon(args, question),
    });
    match explained {
        Ok(explanation) if args.json => match serde_json::to_string(&explanation) {
            Ok(line) => {
                println!("{line}");
                Exit::Done
            }
            Err(error) => {
                eprintln!("tidegate: {error}");
                Exit::Internal
            }
        },
        Ok(explanation) => {
            print!("{}", text::Text(&explanation));
            Exit::Done
        }
        Err(ExplainError::Faults(faults)) => tell(&faults),
        Err(error) => {
            eprintln!("tidegate: {error}");
            error.exit()
        }
    }
}

fn files(args: &ExplainArgs) -> Option<(&Path, FileKind)> {
    let rules = args.rules.as_deref().map(|path| (path, FileKind::Rules));
    rules.or_else(|| Some((args.config.as_deref()?, FileKind::Config)))
}

/// The request, as it is put to a daemon.
fn question(args: &ExplainArgs) -> Result<String, ExplainError> {
    if let Some(descriptor) = args.descriptor.question(args.cost) {
        return Ok(Value::from(descriptor).to_string());
    }
    let mut request = Map::new();
    request.insert("method".to_owned(), args.method.as_str().into());
    request.insert("path".to_owned(), args.path.as_deref().into());
    if let Some(ip) = args.ip {
        request.insert("ip".to_owned(), ip.to_string().into());
    }
    request.insert("headers".to_owned(), pairs("header", &args.header)?);
    let attributes = pairs("attribute", &args.attribute)?;
    let question = json!({"request": request, "attributes": attributes, "cost": args.cost});
    Ok(question.to_string())
}

fn pairs(kind: &str, pairs: &[Pair]) -> Result<Value, ExplainError> {
    let mut map = Map::new();
    for Pair { name, value } in pairs {
        // Case does not count in them.
        let name = name.to_ascii_lowercase();
        let twice = format!("{kind} {name}");
        if map.insert(name, value.as_str().into()).is_some() {
            return Err(ExplainError::Twice(twice));
        }
    }
    Ok(map.into())
}

/// As a daemon would that has just begun, alone, and without a secret of its own.
fn by_rules(path: &Path, kind: FileKind, question: &str) -> Result<Explanation, ExplainError> {
    let surroundings = surroundings::of_this_process();
    let rules = config::rules_of(path, Some(kind), &surroundings).map_err(ExplainError::Faults)?;
    let counters = Arc::new(Counters::new(1, Fleet::alone()));
    let engine = Engine::new(rules, counters, &KeySecret::public());
    let now = Clock::system().now();
    Ok(Explanation::of(
        question.as_bytes(),
        &engine.snapshot(),
        now,
    )?)
}

fn by_daemon(args: &ExplainArgs, question: String) -> Result<Explanation, ExplainError> {
    let address = args.asking.address(&args.admin)?;
    let mut request = Request::new(Full::from(Bytes::from(question)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = hyper::Uri::from_static("/explain");
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(path) = &args.admin_token_file {
        let read = read_bounded(path).map_err(|fault| ExplainError::Faults(vec![fault]))?;
        let shown = [b"Bearer ", read.trim_ascii()].concat();
        let mut shown = HeaderValue::from_bytes(&shown).map_err(|_| ExplainError::Token)?;
        shown.set_sensitive(true);
        headers.insert(AUTHORIZATION, shown);
    }
    let answer = args.asking.ask(&address, request)?;
    if answer.status == StatusCode::OK {
        return Ok(serde_json::from_slice(&answer.body)?);
    }
    let said = String::from_utf8_lossy(&answer.body);
    Err(ExplainError::Refused {
        status: answer.status,
        said: said.trim().escape_debug().to_string(),
    })
}
