use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind, Look};

/// The longest expression, in bytes.
const MAX_TEXT: usize = 1_000;
/// The most memory that a compiled expression may take, in bytes: the time of a match
/// is at most the product of this and the length of the text.
const MAX_SIZE: usize = 64 * 1_024;
/// The memory of the automaton that is built while matching, in bytes.
const MAX_CACHE: usize = 64 * 1_024;

/// A regular expression for the whole of a text, without back-references: it matches in
/// time linear in the text. Its classes are those of ASCII, and `.` is one byte.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    regex: Regex,
    start: Box<str>,
}

/// Why a text is no expression that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It is not a regular expression.
    #[error("is not a regular expression: {0}")]
    Syntax(String),
    /// It takes too much memory.
    #[error("is too large; write fewer or smaller repetitions, and 1,000 characters at most")]
    TooLarge,
}

impl Expression {
    /// Reads `text`, which need not say `^` and `$`.
    pub(super) fn parse(text: &str, ignore_case: bool) -> Result<Expression, ExpressionError> {
        if text.len() > MAX_TEXT {
            return Err(ExpressionError::TooLarge);
        }
        // On its own first: brackets must not close those around it.
        let mut parser = ParserBuilder::new();
        parser.unicode(false).utf8(false);
        let parsed = parser.case_insensitive(ignore_case).build().parse(text);
        let hir = parsed.map_err(|error| {
            ExpressionError::Syntax(match error {
                regex_syntax::Error::Parse(error) => error.kind().to_string(),
                regex_syntax::Error::Translate(error) => error.kind().to_string(),
                _ => "it cannot be read".to_owned(),
            })
        })?;
        let regex = RegexBuilder::new(&format!(r"\A(?:{text})\z"))
            .unicode(false)
            .case_insensitive(ignore_case)
            .size_limit(MAX_SIZE)
            .dfa_size_limit(MAX_CACHE)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => ExpressionError::TooLarge,
                _ => ExpressionError::Syntax("it ends in a comment".to_owned()),
            })?;
        let mut start = Vec::new();
        literal_start(&hir, &mut start);
        let sound = std::str::from_utf8(&start).unwrap_or_default();
        Ok(Expression {
            regex,
            start: sound.into(),
        })
    }

    /// Whether it matches all of `text`.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text.as_bytes())
    }

    /// What every text that it matches begins with.
    pub(super) fn start(&self) -> &str {
        &self.start
    }
}

/// Appends to `start` what every match of `hir` begins with. Answers whether that is all
/// that `hir` matches, so that what follows it may be appended. Its depth is bounded by
/// the parser.
fn literal_start(hir: &Hir, start: &mut Vec<u8>) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(Look::Start) => true,
        HirKind::Literal(literal) => {
            start.extend_from_slice(&literal.0);
            true
        }
        HirKind::Capture(group) => literal_start(&group.sub, start),
        HirKind::Concat(parts) => parts.iter().all(|part| literal_start(part, start)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Expression {
        Expression::parse(text, false).unwrap()
    }

    #[test]
    fn it_matches_the_whole_text_with_or_without_anchors() {
        for text in ["/v[0-9]+/x", "^/v[0-9]+/x$", "^/v[0-9]+/x", "(/v[0-9]+)/x"] {
            let expression = parse(text);
            assert!(expression.matches("/v12/x"), "{text}");
            assert!(
                !expression.matches("/v12/xy") && !expression.matches("a/v12/x"),
                "{text}"
            );
        }
        assert!(parse("a|b").matches("b") && !parse("a|b").matches("ab"));
        assert!(!parse("a$").matches("a\n"));
    }

    #[test]
    fn classes_are_ascii_and_case_counts_unless_told() {
        assert!(parse(r"\w+").matches("abc_1") && !parse(r"\w+").matches("größe"));
        assert!(parse("gr.*e").matches("größe"));
        assert!(!parse("/a").matches("/A"));
        assert!(Expression::parse("/a", true).unwrap().matches("/A"));
    }

    #[test]
    fn every_match_begins_with_the_start() {
        for (text, start) in [
            ("^/v[0-9]+/.*$", "/v"),
            ("/static/(css|js)/.*", "/static/"),
            ("^/a/b$", "/a/b"),
            ("(/a)(/b)c?", "/a/b"),
            (".*", ""),
            ("/a|/b", ""),
            ("(?i)/abc", "/"),
            (r"/v1\.0/.*", "/v1.0/"),
            ("/é.*", "/é"),
            ("/a*", "/"),
        ] {
            assert_eq!(parse(text).start(), start, "{text}");
        }
    }

    #[test]
    fn what_explodes_elsewhere_is_linear_or_refused() {
        let evil = parse("^(a+)+$");
        let long = "a".repeat(8_000);
        assert!(evil.matches(&long) && !evil.matches(&format!("{long}!")));
        for text in ["(x{1000}){1000}", ".{65535}", &"a".repeat(2_000)] {
            let error = Expression::parse(text, false).unwrap_err();
            assert_eq!(error, ExpressionError::TooLarge);
        }
        for text in ["(", "a)(b", "*", r"(a)\1", "(?x)a #", r"\p{Greek}", "[é]"] {
            let error = Expression::parse(text, false).unwrap_err();
            assert!(
                matches!(error, ExpressionError::Syntax(_)),
                "{text}: {error}"
            );
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
