//! What the daemon says of itself when it begins to serve.

use std::fmt;

use super::address::Address;
use super::config::Settings;

/// What is served, where, and one command to try.
pub(super) struct Banner<'a> {
    /// What is served.
    pub(super) settings: &'a Settings,
    /// The config file, for people.
    pub(super) file: &'a str,
    /// The rules' names, each once.
    pub(super) rules: &'a [&'a str],
    /// Where HTTP is served, as bound.
    pub(super) http: &'a [Address],
}

impl fmt::Display for Banner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Banner {
            settings,
            file,
            rules,
            http,
        } = self;
        write!(f, "Tidegate {} serves ", env!("CARGO_PKG_VERSION"))?;
        match rules {
            [] => write!(f, "no rules")?,
            [one] => write!(f, "the rule {one}")?,
            [first, second, more @ ..] => {
                write!(f, "{} rules: {first}, {second}", rules.len())?;
                for rule in more.iter().take(6) {
                    write!(f, ", {rule}")?;
                }
                if more.len() > 6 {
                    write!(f, ", …")?;
                }
            }
        }
        writeln!(f, " ({file})")?;
        match &settings.store {
            Some(store) => writeln!(f, "  store   {store} (fleet {})", settings.fleet)?,
            None => writeln!(f, "  store   none: this node counts alone")?,
        }
        for (door, addresses) in [
            ("http", *http),
            ("resp", &settings.resp),
            ("admin", &settings.admin),
            ("probes", &settings.probes),
        ] {
            for address in addresses {
                writeln!(f, "  {door:<7} {address}")?;
            }
        }
        if let ([rule, ..], [address, ..]) = (rules, http) {
            write!(f, "Try: {}", curl(address, rule))?;
        }
        Ok(())
    }
}

/// A command line that asks once.
fn curl(address: &Address, rule: &str) -> String {
    let body = serde_json::json!({ "rule": rule, "key": "alice" });
    let body = shell_quoted(&body.to_string());
    match address {
        Address::Unix(path) => format!(
            "curl -s --unix-socket {} http://localhost/v1/check -d {body}",
            shell_quoted(&path.to_string_lossy())
        ),
        Address::Tcp(..) => format!("curl -s http://{address}/v1/check -d {body}"),
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
            curl(&address, "orders"),
            r#"curl -s --unix-socket '/tmp/it'\''s here/http.sock' http://localhost/v1/check -d '{"rule":"orders","key":"alice"}'"#
        );
        assert_eq!(
            curl(&Address::Tcp("127.0.0.1".into(), 80), "a"),
            r#"curl -s http://127.0.0.1:80/v1/check -d '{"rule":"a","key":"alice"}'"#
        );
    }
}
