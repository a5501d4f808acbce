//! What the daemon says of itself when it begins to serve.

use std::fmt;

use serde_json::json;

use super::store_url::StoreUrl;
use crate::rules::RuleSet;
use crate::server::{Address, Door};

/// What is served, where, and one command to try.
pub(super) struct Banner<'a> {
    /// The rules' names, each once.
    pub(super) rules: &'a [&'a str],
    /// What can be asked, as a body of JSON; `None` without rules.
    pub(super) question: Option<String>,
    /// Where they are written, for people.
    pub(super) rules_from: &'a str,
    /// Where the fleet counts, and its name; `None` for this node alone.
    pub(super) store: Option<(&'a StoreUrl, &'a str)>,
    /// The addresses, as bound.
    pub(super) doors: &'a [(Door, Address)],
}

impl fmt::Display for Banner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tidegate {} serves ", env!("CARGO_PKG_VERSION"))?;
        match self.rules {
            [] => write!(f, "no rules")?,
            [one] => write!(f, "1 rule: {one}")?,
            rules => {
                const SHOWN: usize = 8;
                let shown = rules.get(..SHOWN).unwrap_or(rules).join(", ");
                let more = if rules.len() > SHOWN { ", …" } else { "" };
                write!(f, "{} rules: {shown}{more}", rules.len())?;
            }
        }
        writeln!(f, " ({})", self.rules_from)?;
        match self.store {
            Some((store, fleet)) => writeln!(f, "  store {store}, fleet {fleet}")?,
            None => writeln!(f, "  store none: this node counts alone")?,
        }
        for (door, address) in self.doors {
            writeln!(f, "  {:<5} {address}", door.name())?;
        }
        let http = self.doors.iter().find(|(door, _)| *door == Door::Http);
        match (&self.question, http) {
            (Some(body), Some((_, address))) => writeln!(f, "Try: {}", curl(address, body)),
            _ => Ok(()),
        }
    }
}

/// A question that the first of the rules answers.
pub(super) fn question(rules: &RuleSet) -> Option<String> {
    let body = match rules.first_descriptor() {
        Some((domain, entries)) => {
            let entries = entries.iter();
            let entries = entries.map(|(key, value)| json!({ "key": key, "value": value }));
            json!({ "domain": domain, "entries": entries.collect::<Vec<_>>() })
        }
        None => json!({ "rule": rules.names().next()?, "key": "alice" }),
    };
    Some(body.to_string())
}

/// A command line that asks once.
fn curl(address: &Address, body: &str) -> String {
    let body = shell_quoted(body);
    match address {
        Address::Unix(path) => format!(
            "curl -s --unix-socket {} http://localhost/v1/check -d {body}",
            shell_quoted(&path.to_string_lossy())
        ),
        Address::Tcp { .. } => format!("curl -s http://{address}/v1/check -d {body}"),
    }
}

/// `text` as one word of a shell.
fn shell_quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_to_try_survives_a_shell() {
        let address = Address::Unix("/tmp/it's here/http.sock".into());
        assert_eq!(
            curl(&address, r#"{"rule":"orders","key":"alice"}"#),
            r#"curl -s --unix-socket '/tmp/it'\''s here/http.sock' http://localhost/v1/check -d '{"rule":"orders","key":"alice"}'"#
        );
        assert_eq!(
            curl(&"127.0.0.1:80".parse().unwrap(), "{}"),
            "curl -s http://127.0.0.1:80/v1/check -d '{}'"
        );
    }
}
