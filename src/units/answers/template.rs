use std::fmt::Write as _;

/// A text with places for values: `{retry_after}` and the like. Braces around anything
/// but a word of small letters stand for themselves, so that JSON needs no escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Box<[Piece]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    Value(TemplateValue),
}

/// What a template can have a place for; of the limit that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateValue {
    /// The word for the refusal, such as `rate_limit_exceeded`.
    Error,
    /// The sentence for it.
    Message,
    /// The rule's name.
    Rule,
    /// The limit's name within the rule.
    LimitName,
    /// The most that can be admitted at once.
    Limit,
    /// What is left.
    Remaining,
    /// Seconds until everything is available again, rounded up.
    ResetAfter,
    /// Seconds until the same check may succeed, as in `Retry-After`.
    RetryAfter,
    /// Milliseconds until then.
    RetryAfterMs,
}

impl TemplateValue {
    /// Every value.
    pub const ALL: [TemplateValue; 9] = [
        TemplateValue::Error,
        TemplateValue::Message,
        TemplateValue::Rule,
        TemplateValue::LimitName,
        TemplateValue::Limit,
        TemplateValue::Remaining,
        TemplateValue::ResetAfter,
        TemplateValue::RetryAfter,
        TemplateValue::RetryAfterMs,
    ];

    /// The word for it, between braces.
    pub const fn name(self) -> &'static str {
        match self {
            TemplateValue::Error => "error",
            TemplateValue::Message => "message",
            TemplateValue::Rule => "rule",
            TemplateValue::LimitName => "limit_name",
            TemplateValue::Limit => "limit",
            TemplateValue::Remaining => "remaining",
            TemplateValue::ResetAfter => "reset_after",
            TemplateValue::RetryAfter => "retry_after",
            TemplateValue::RetryAfterMs => "retry_after_ms",
        }
    }
}

/// A word between braces that is no value; the word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no value {{{0}}}")]
pub struct UnknownValue(pub String);

/// How values are written, so that they stay text in the text around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// As they are.
    Plain,
    /// Within the quotes of a JSON string.
    Json,
    /// Within the text or an attribute of HTML or XML.
    Markup,
}

impl Escape {
    /// How values are written in a body of the media type `content_type`.
    pub fn of(content_type: &str) -> Escape {
        let kind = content_type.split(';').next().unwrap_or_default();
        let kind = kind.trim().to_ascii_lowercase();
        let subtype = kind.rsplit(['/', '+']).next().unwrap_or_default();
        match subtype {
            "json" => Escape::Json,
            "html" | "xml" => Escape::Markup,
            _ => Escape::Plain,
        }
    }

    fn write(self, value: &str, out: &mut String) {
        for c in value.chars() {
            match (self, c) {
                (Escape::Json, '"' | '\\') => {
                    out.push('\\');
                    out.push(c);
                }
                (Escape::Json, c) if c < ' ' => {
                    // Into a `String`: nothing can fail.
                    let _ = write!(out, "\\u{:04x}", u32::from(c));
                }
                (Escape::Markup, '<') => out.push_str("&lt;"),
                (Escape::Markup, '>') => out.push_str("&gt;"),
                (Escape::Markup, '&') => out.push_str("&amp;"),
                (Escape::Markup, '"') => out.push_str("&quot;"),
                (Escape::Markup, '\'') => out.push_str("&#39;"),
                (_, c) => out.push(c),
            }
        }
    }
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// [`UnknownValue`], for the first word between braces that is no value.
    pub fn parse(text: &str) -> Result<Template, UnknownValue> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, opened)) = rest.split_once('{') {
            literal.push_str(before);
            let word = opened.split_once('}').filter(|(word, _)| is_word(word));
            let Some((word, after)) = word else {
                literal.push('{');
                rest = opened;
                continue;
            };
            let value = TemplateValue::ALL
                .into_iter()
                .find(|value| value.name() == word)
                .ok_or_else(|| UnknownValue(word.to_owned()))?;
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal).into()));
            }
            pieces.push(Piece::Value(value));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal.into()));
        }
        Ok(Template(pieces.into()))
    }

    /// The text, with the values that `value` answers, written by `escape`.
    pub fn render(&self, escape: Escape, value: impl Fn(TemplateValue) -> String) -> String {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Value(name) => escape.write(&value(*name), &mut out),
            }
        }
        out
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str, escape: Escape) -> String {
        let template = Template::parse(text).unwrap();
        template.render(escape, |value| match value {
            TemplateValue::Rule => "a\"b\\<'&>\n".to_owned(),
            TemplateValue::RetryAfter => "7".to_owned(),
            other => other.name().to_uppercase(),
        })
    }

    #[test]
    fn values_stand_in_their_places_and_other_braces_for_themselves() {
        assert_eq!(
            rendered("{limit}{limit_name}: {retry_after}s", Escape::Plain),
            "LIMITLIMIT_NAME: 7s"
        );
        assert_eq!(
            rendered(r#"{"a":{"in":{retry_after}},"b":{}} {X} {"#, Escape::Json),
            r#"{"a":{"in":7},"b":{}} {X} {"#
        );
        assert_eq!(rendered("", Escape::Plain), "");
    }

    #[test]
    fn values_are_escaped_for_what_is_around_them() {
        assert_eq!(rendered("{rule}", Escape::Plain), "a\"b\\<'&>\n");
        assert_eq!(rendered("{rule}", Escape::Json), r#"a\"b\\<'&>\u000a"#);
        assert_eq!(
            rendered("{rule}", Escape::Markup),
            "a&quot;b\\&lt;&#39;&amp;&gt;\n"
        );
    }

    #[test]
    fn an_unknown_value_is_named() {
        let error = Template::parse("{rule} {retry}").unwrap_err();
        assert_eq!(error, UnknownValue("retry".to_owned()));
        assert_eq!(error.to_string(), "there is no value {retry}");
    }

    #[test]
    fn the_media_type_says_how_values_are_escaped() {
        for (content_type, escape) in [
            ("application/json", Escape::Json),
            ("Application/Problem+JSON; charset=utf-8", Escape::Json),
            ("text/html; charset=utf-8", Escape::Markup),
            ("image/svg+xml", Escape::Markup),
            ("text/plain", Escape::Plain),
            ("text/csv;x=json", Escape::Plain),
        ] {
            assert_eq!(Escape::of(content_type), escape, "{content_type}");
        }
    }
}
