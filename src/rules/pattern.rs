use super::path::normalise;

/// Which paths a rule is for: a path whose segments are exact or stand for any one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// The pattern, with everything exact in it normal.
    pub(super) text: String,
    pub(super) segments: Vec<Segment>,
    /// Whether any tail may follow, none included.
    pub(super) tail: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Exact(Box<str>),
    /// Any one segment, not empty.
    Any,
}

/// Why a text is no pattern for paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It begins with something else than a slash (or a method).
    #[error("does not begin with a slash; write /path, or METHOD /path")]
    NoSlash,
    /// A query or fragment.
    #[error("has a query or fragment, which is never matched; leave out what follows the path")]
    Query,
    /// `{}` or `:` without a name, or with one that is none.
    #[error("has a parameter without a proper name; write {{id}}, :id or *")]
    BadParameter,
    /// A brace or star amid a segment.
    #[error(
        "has a `*` or brace within a segment; a parameter takes a whole segment, such as {{id}} or *"
    )]
    PartOfSegment,
    /// `**` before the end.
    #[error("has `**` before its end; write * for one segment and ** only last")]
    TailNotLast,
}

impl Pattern {
    /// The pattern of every path.
    pub(super) fn every() -> Pattern {
        Pattern {
            text: "/**".to_owned(),
            segments: Vec::new(),
            tail: true,
        }
    }

    /// Reads `/api/{id}/:name/*/**`. Exact parts are made normal as paths are.
    pub(super) fn parse(text: &str) -> Result<Pattern, PatternError> {
        if !text.starts_with('/') {
            return Err(PatternError::NoSlash);
        }
        if text.contains(['?', '#']) {
            return Err(PatternError::Query);
        }
        let text = normalise(text).into_owned();
        let mut segments = Vec::new();
        let mut tail = false;
        for segment in text.split('/').filter(|segment| !segment.is_empty()) {
            if tail {
                return Err(PatternError::TailNotLast);
            }
            match segment {
                "**" => tail = true,
                "*" => segments.push(Segment::Any),
                _ => segments.push(Segment::parse(segment)?),
            }
        }
        Ok(Pattern {
            text,
            segments,
            tail,
        })
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Segment, PatternError> {
        let braced = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
        if let Some(name) = braced.or_else(|| text.strip_prefix(':')) {
            let proper = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'.';
            return if !name.is_empty() && name.bytes().all(proper) {
                Ok(Segment::Any)
            } else {
                Err(PatternError::BadParameter)
            };
        }
        if text.contains(['{', '}', '*']) {
            return Err(PatternError::PartOfSegment);
        }
        Ok(Segment::Exact(text.into()))
    }
}

/// Splits `POST /path`, `post:/path` and `* /path` into method and path; `None`
/// where no method is said. The star comes back as the method `*`.
pub(super) fn split_method(text: &str) -> (Option<&str>, &str) {
    let Some(slash) = text.find('/') else {
        return (None, text);
    };
    let (head, path) = text.split_at(slash);
    let method = head.trim_end();
    let method = match method.strip_suffix(':') {
        Some(method) => method,
        None if method.len() < head.len() => method,
        None => return (None, text),
    };
    let method = method.trim();
    if method.is_empty() {
        return (None, text);
    }
    (Some(method), path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> String {
        let pattern = Pattern::parse(text).unwrap();
        let mut shape: String = pattern
            .segments
            .iter()
            .map(|segment| match segment {
                Segment::Exact(text) => format!("[{text}]"),
                Segment::Any => "[any]".to_owned(),
            })
            .collect();
        if pattern.tail {
            shape.push_str("...");
        }
        shape
    }

    #[test]
    fn parameters_in_all_spellings_are_one_segment() {
        for text in ["/a/{id}", "/a/:id", "/a/*", "//a/./{id}/", "/%61/{id}"] {
            assert_eq!(shape(text), "[a][any]", "{text}");
        }
        assert_eq!(shape("/a/**"), "[a]...");
        assert_eq!(shape("/**"), "...");
        assert_eq!(shape("/"), "");
        assert_eq!(shape("/v1.0/a+b/%2f"), "[v1.0][a+b][%2F]");
    }

    #[test]
    fn bad_patterns_are_refused() {
        use PatternError::*;
        for (text, error) in [
            ("", NoSlash),
            ("*", NoSlash),
            ("api/v1", NoSlash),
            ("/a/{}", BadParameter),
            ("/a/:", BadParameter),
            ("/a/{*rest}", BadParameter),
            ("/a/{id", PartOfSegment),
            ("/a/v{id}", PartOfSegment),
            ("/a/x*", PartOfSegment),
            ("/a/***", PartOfSegment),
            ("/**/a", TailNotLast),
            ("/**/**", TailNotLast),
            ("/a?b=1", Query),
        ] {
            assert_eq!(Pattern::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn a_method_before_the_path_is_split_off() {
        assert_eq!(split_method("POST /a/{id}"), (Some("POST"), "/a/{id}"));
        assert_eq!(split_method("post:/a/b"), (Some("post"), "/a/b"));
        assert_eq!(split_method("post: /a/b"), (Some("post"), "/a/b"));
        assert_eq!(split_method("* /a/*"), (Some("*"), "/a/*"));
        assert_eq!(split_method("/a/:id"), (None, "/a/:id"));
        assert_eq!(split_method("api/v1"), (None, "api/v1"));
        assert_eq!(split_method(" /a"), (None, " /a"));
        assert_eq!(split_method("nothing"), (None, "nothing"));
    }
}
