use super::path::normalise;

/// Which paths a rule is for: a path whose segments are exact or stand for any one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// The pattern, with everything exact in it normal.
    pub(super) text: String,
    pub(super) segments: Vec<Segment>,
    pub(super) end: End,
}

/// What may follow the segments of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing.
    Here,
    /// Any tail, none included.
    Tail,
    /// A segment that begins so, and any tail.
    Start(Box<str>),
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
    /// `**` in a prefix.
    #[error("has `**`, which a prefix implies; leave it out")]
    TailInPrefix,
}

impl Pattern {
    /// The pattern of every path.
    pub(super) fn every() -> Pattern {
        Pattern {
            text: "/**".to_owned(),
            segments: Vec::new(),
            end: End::Tail,
        }
    }

    /// Reads what follows `prefix:`: a pattern that any tail may follow, in the middle of
    /// a segment too unless it ends with a slash.
    pub(super) fn parse_prefix(text: &str) -> Result<Pattern, PatternError> {
        let mut pattern = Pattern::parse(text)?;
        if pattern.end == End::Tail {
            return Err(PatternError::TailInPrefix);
        }
        pattern.end = End::Tail;
        if !text.ends_with('/')
            && let Some(Segment::Exact(start)) = pattern
                .segments
                .pop_if(|last| matches!(last, Segment::Exact(_)))
        {
            pattern.end = End::Start(start);
        }
        let slash = if text.ends_with('/') && pattern.text != "/" {
            "/"
        } else {
            ""
        };
        pattern.text = format!("prefix:{}{slash}", pattern.text);
        Ok(pattern)
    }

    /// The pattern of all paths that begin with `start`, which is normal, for the
    /// expression `text`.
    pub(super) fn of_expression(text: &str, start: &str) -> Option<Pattern> {
        if start.is_empty() {
            return Some(Pattern {
                text: text.to_owned(),
                ..Pattern::every()
            });
        }
        let mut segments = start.strip_prefix('/')?.split('/');
        let last = segments.next_back().filter(|last| !last.is_empty());
        Some(Pattern {
            text: text.to_owned(),
            segments: segments.map(|text| Segment::Exact(text.into())).collect(),
            end: last.map_or(End::Tail, |last| End::Start(last.into())),
        })
    }

    /// Whether every path of `other` is one of this pattern's.
    pub(super) fn covers(&self, other: &Pattern) -> bool {
        let count = self.segments.len();
        let covered = |(ours, theirs): (&Segment, &Segment)| match ours {
            Segment::Any => true,
            Segment::Exact(_) => ours == theirs,
        };
        if other.segments.len() < count || !self.segments.iter().zip(&other.segments).all(covered) {
            return false;
        }
        match (&self.end, other.segments.get(count)) {
            (End::Tail, _) => true,
            (End::Here, next) => next.is_none() && other.end == End::Here,
            (End::Start(start), Some(Segment::Exact(next))) => next.starts_with(&**start),
            (End::Start(_), Some(Segment::Any)) => false,
            (End::Start(start), None) => {
                matches!(&other.end, End::Start(next) if next.starts_with(&**start))
            }
        }
    }

    /// The same for paths in lower case.
    pub(super) fn folded(mut self) -> Pattern {
        for segment in &mut self.segments {
            if let Segment::Exact(text) = segment {
                text.make_ascii_lowercase();
            }
        }
        if let End::Start(start) = &mut self.end {
            start.make_ascii_lowercase();
        }
        self
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
        let mut end = End::Here;
        for segment in text.split('/').filter(|segment| !segment.is_empty()) {
            if end == End::Tail {
                return Err(PatternError::TailNotLast);
            }
            match segment {
                "**" => end = End::Tail,
                "*" => segments.push(Segment::Any),
                _ => segments.push(Segment::parse(segment)?),
            }
        }
        Ok(Pattern {
            text,
            segments,
            end,
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
        shape_of(Pattern::parse(text).unwrap())
    }

    fn shape_of(pattern: Pattern) -> String {
        let mut shape: String = pattern
            .segments
            .iter()
            .map(|segment| match segment {
                Segment::Exact(text) => format!("[{text}]"),
                Segment::Any => "[any]".to_owned(),
            })
            .collect();
        match pattern.end {
            End::Here => {}
            End::Tail => shape.push_str("..."),
            End::Start(start) => shape.push_str(&format!("[{start}...")),
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
    fn a_prefix_ends_at_a_slash_or_within_a_segment() {
        let prefix = |text| Pattern::parse_prefix(text).map(shape_of);
        assert_eq!(prefix("/a/b/").as_deref(), Ok("[a][b]..."));
        assert_eq!(prefix("/a/b").as_deref(), Ok("[a][b..."));
        assert_eq!(prefix("/a/{id}").as_deref(), Ok("[a][any]..."));
        assert_eq!(prefix("/").as_deref(), Ok("..."));
        assert_eq!(prefix("/a/**"), Err(PatternError::TailInPrefix));
        assert_eq!(prefix("a"), Err(PatternError::NoSlash));
    }

    #[test]
    fn an_expression_lies_under_what_it_begins_with() {
        let under = |start| Pattern::of_expression("regex:x", start).map(shape_of);
        assert_eq!(under("").as_deref(), Some("..."));
        assert_eq!(under("/").as_deref(), Some("..."));
        assert_eq!(under("/a/").as_deref(), Some("[a]..."));
        assert_eq!(under("/a/v").as_deref(), Some("[a][v..."));
        assert_eq!(under("a"), None);
    }

    #[test]
    fn a_pattern_covers_those_whose_paths_it_has() {
        let read = |text: &str| match text.strip_prefix("prefix:") {
            Some(prefix) => Pattern::parse_prefix(prefix).unwrap(),
            None => Pattern::parse(text).unwrap(),
        };
        for (wide, narrow) in [
            ("/**", "/a"),
            ("/a/*", "/a/b"),
            ("/a/{x}", "/a/:y"),
            ("/a/**", "/a"),
            ("/a/**", "prefix:/a/b"),
            ("prefix:/a", "/ab/c"),
            ("prefix:/a", "prefix:/abc"),
            ("prefix:/a", "prefix:/ab/"),
        ] {
            assert!(read(wide).covers(&read(narrow)), "{wide} {narrow}");
        }
        for (wide, narrow) in [
            ("/a", "/**"),
            ("/a/b", "/a/*"),
            ("/a/*", "/a/**"),
            ("/a", "/a/b"),
            ("/a/b", "/a"),
            ("prefix:/a", "/{x}"),
            ("prefix:/a", "/**"),
            ("prefix:/ab", "prefix:/a"),
        ] {
            assert!(!read(wide).covers(&read(narrow)), "{wide} {narrow}");
        }
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
