//! Asking a running daemon: for people, scripts and exec probes.

use http_body_util::Full;
use hyper::{Method, Request, StatusCode};
use serde_json::{Map, Value};

use super::asking::{Answer, AskArgs, AskError};
use super::config;
use super::exit::Exit;
use super::explain::DescriptorArgs;

/// The arguments of `tidegate check`.
#[derive(clap::Args)]
#[command(
    override_usage = "tidegate check [OPTIONS] <RULE> <KEY>\n       tidegate check [OPTIONS] --domain <DOMAIN> --entry <KEY=VALUE>…\n       tidegate check [OPTIONS] --ready"
)]
pub(super) struct CheckArgs {
    /// The rule to ask by
    #[arg(required_unless_present_any = ["ready", "domain"], conflicts_with_all = ["ready", "domain", "entry"])]
    rule: Option<String>,
    /// Who is asking: the caller's identity
    #[arg(required_unless_present_any = ["ready", "domain"], conflicts_with_all = ["ready", "domain", "entry"])]
    key: Option<String>,
    /// What it costs; 0 only looks
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 1,
        value_parser = |text: &str| config::read_number::<u64>(text, 0, u64::MAX)
    )]
    cost: u64,
    /// The caller's tier
    #[arg(long, conflicts_with = "domain")]
    tier: Option<String>,
    /// Ask whether the daemon is ready, instead of a rule
    #[arg(long, conflicts_with = "domain")]
    ready: bool,
    #[command(flatten)]
    descriptor: DescriptorArgs,
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
    #[command(flatten)]
    asking: AskArgs,
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
            let mut said = json(&answer.body);
            // Its presence tells a refusal, of whatever status, from a wrong question.
            let response = said
                .as_object_mut()
                .and_then(|said| said.shift_remove("response"));
            println!("{said}");
            match answer.status {
                StatusCode::OK => Exit::Done,
                StatusCode::SERVICE_UNAVAILABLE => Exit::Unavailable,
                _ if response.is_some() => Exit::Refused,
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

/// The body as JSON, whatever it is.
fn json(body: &[u8]) -> serde_json::Value {
    let text = String::from_utf8_lossy(body);
    serde_json::from_str(&text).unwrap_or_else(|_| text.trim().into())
}

fn ask(args: &CheckArgs) -> Result<Answer, AskError> {
    let named = if args.ready { &args.admin } else { &args.http };
    let address = args.asking.address(named)?;
    let request = if args.ready {
        Request::get("/readyz").body(Full::default())
    } else {
        let by_rule = || {
            let mut question = Map::new();
            question.insert("rule".to_owned(), args.rule.as_deref().into());
            question.insert("key".to_owned(), args.key.as_deref().into());
            question.insert("cost".to_owned(), args.cost.into());
            if let Some(tier) = &args.tier {
                question.insert("tier".to_owned(), tier.as_str().into());
            }
            question
        };
        let question = args.descriptor.question(args.cost);
        let mut question = question.unwrap_or_else(by_rule);
        question.insert("response".to_owned(), true.into());
        let question = Value::from(question);
        Request::builder()
            .method(Method::POST)
            .uri("/v1/check")
            .header("content-type", "application/json")
            .body(Full::from(question.to_string()))
    };
    args.asking.ask(&address, request?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_body_becomes_one_line_of_json() {
        let one_line = |body: &[u8]| json(body).to_string();
        assert_eq!(one_line(b"{\"a\":\n 1}\n"), "{\"a\":1}");
        assert_eq!(one_line(b"not found\n"), "\"not found\"");
        assert_eq!(one_line(b"\xff"), "\"\u{fffd}\"");
    }
}
