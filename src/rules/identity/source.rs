/// Where a part of an identity comes from, as rules state it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::rules) enum KeySource {
    Client,
    /// Nobody in particular: all callers are one.
    Global,
    ApiKey,
    /// Issuer and subject of a verified token.
    Subject,
    Tenant,
    Header(Box<str>),
    Attribute(Box<str>),
    /// A claim of a verified token.
    Claim(Box<str>),
    /// A parameter of the query.
    Query(Box<str>),
    /// A parameter of the rule's endpoint.
    Path(Box<str>),
}

/// The words before a colon.
pub(in crate::rules) const PREFIXES: [&str; 5] = ["header", "attribute", "claim", "query", "path"];

impl KeySource {
    /// Reads `client`, `ip`, `global`, `api_key`, `subject`, `tenant`, `header:NAME`,
    /// `claim:NAME`, `query:NAME`, `path:NAME`, `attribute:NAME` or `NAME`.
    pub(in crate::rules) fn parse(text: &str) -> Option<KeySource> {
        let Some((kind, rest)) = text.split_once(':') else {
            return Some(match text {
                "client" | "ip" => KeySource::Client,
                "global" => KeySource::Global,
                "api_key" => KeySource::ApiKey,
                "subject" => KeySource::Subject,
                "tenant" => KeySource::Tenant,
                _ => KeySource::Attribute(field(text)?),
            });
        };
        match kind {
            "header" => field(rest).map(KeySource::Header),
            "attribute" => field(rest).map(KeySource::Attribute),
            "claim" => word(rest).map(KeySource::Claim),
            "query" => word(rest).map(KeySource::Query),
            "path" => word(rest).map(KeySource::Path),
            _ => None,
        }
    }

    /// The one spelling of this source.
    pub(super) fn text(&self) -> Box<str> {
        match self {
            KeySource::Client => super::CLIENT.into(),
            KeySource::Global => super::GLOBAL.into(),
            KeySource::ApiKey => "api_key".into(),
            KeySource::Subject => "subject".into(),
            KeySource::Tenant => "tenant".into(),
            KeySource::Header(name) => format!("header:{name}").into(),
            KeySource::Attribute(name) => format!("attribute:{name}").into(),
            KeySource::Claim(name) => format!("claim:{name}").into(),
            KeySource::Query(name) => format!("query:{name}").into(),
            KeySource::Path(name) => format!("path:{name}").into(),
        }
    }
}

/// The name of a header or attribute, in lower case.
pub(in crate::rules) fn field(name: &str) -> Option<Box<str>> {
    let proper = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    let sound = !name.is_empty() && name.len() <= 128 && name.bytes().all(proper);
    sound.then(|| name.to_ascii_lowercase().into())
}

/// A name whose case counts.
pub(in crate::rules) fn word(name: &str) -> Option<Box<str>> {
    let sound = (1..=128).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic());
    sound.then(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_in_all_spellings() {
        let parse = KeySource::parse;
        assert_eq!(parse("client"), Some(KeySource::Client));
        assert_eq!(parse("ip"), Some(KeySource::Client));
        assert_eq!(parse("global"), Some(KeySource::Global));
        assert_eq!(parse("api_key"), Some(KeySource::ApiKey));
        assert_eq!(parse("subject"), Some(KeySource::Subject));
        assert_eq!(parse("tenant"), Some(KeySource::Tenant));
        let named = [
            ("header:X-API-Key", KeySource::Header("x-api-key".into())),
            ("User", KeySource::Attribute("user".into())),
            ("attribute:ip", KeySource::Attribute("ip".into())),
            (
                "claim:https://a.example/Org",
                KeySource::Claim("https://a.example/Org".into()),
            ),
            ("query:userId", KeySource::Query("userId".into())),
            ("path:id", KeySource::Path("id".into())),
        ];
        for (text, source) in named {
            assert_eq!(parse(text), Some(source), "{text}");
        }
        for text in [
            "",
            "header:",
            "headr:x",
            "header:a b",
            "attribute:",
            "größe",
            "a:b:c",
            "claim:",
            "path:a b",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
