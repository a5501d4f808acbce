//! Asking a running daemon: for people, scripts and exec probes.

use http_body_util::Full;
use hyper::{Method, Request, StatusCode};

use super::asking::{Answer, AskArgs, AskError};
use super::config;
use super::exit::Exit;

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
        value_parser = |text: &str| config::read_number::<u64>(text, 0, u64::MAX)
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
        let question = serde_json::json!({
            "rule": args.rule,
            "key": args.key,
            "cost": args.cost,
            "response": true,
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
