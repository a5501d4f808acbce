use std::borrow::Cow;
use std::cell::OnceCell;

/// A request's path in the spellings that rules may ask for.
pub(super) struct Path<'a> {
    stated: &'a str,
    normal: Cow<'a, str>,
    folded: OnceCell<String>,
}

impl<'a> Path<'a> {
    pub(super) fn new(stated: &'a str) -> Path<'a> {
        Path {
            stated,
            normal: normalise(stated),
            folded: OnceCell::new(),
        }
    }

    /// The path as [`normalise`] has it.
    pub(super) fn normal(&self) -> &str {
        &self.normal
    }

    /// The same in lower case (that of ASCII).
    pub(super) fn folded(&self) -> &str {
        self.folded.get_or_init(|| self.normal.to_ascii_lowercase())
    }

    /// Whether it was stated with a slash at its end.
    pub(super) fn has_trailing_slash(&self) -> bool {
        ends_with_slash(self.stated)
    }
}

/// Whether `path` ends with a slash when its query and its dot segments are resolved.
pub(super) fn ends_with_slash(path: &str) -> bool {
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let last = path[..end].rsplit('/').next().unwrap_or_default();
    let mut decoded = String::new();
    decode_into(&mut decoded, last);
    !is_normal_segment(decoded.as_bytes())
}

/// The one spelling of all paths that mean the same: without query, fragment,
/// doubled or trailing slashes and dot segments, unreserved characters decoded
/// once, and what stays escaped in upper case (RFC 3986, section 6.2.2).
///
/// `%2F` and `%25` stay escaped, for they are data within a segment; so do NUL and
/// bytes that are not ASCII. A `%` that begins no escape stays as it is. The scheme
/// and authority of an absolute target are dropped, and the result always begins
/// with a slash. A path that already is normal is not copied.
pub(super) fn normalise(path: &str) -> Cow<'_, str> {
    if is_normal(path.as_bytes()) {
        return Cow::Borrowed(path);
    }
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let mut path = &path[..end];
    if let Some((scheme, after)) = path.split_once("://")
        && !scheme.is_empty()
        && scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    {
        path = after.find('/').map_or("", |slash| &after[slash..]);
    }
    let mut normal = String::with_capacity(path.len() + 1);
    for raw in path.split('/') {
        let start = normal.len();
        normal.push('/');
        decode_into(&mut normal, raw);
        match &normal[start + 1..] {
            "" | "." => normal.truncate(start),
            ".." => {
                let parent = normal[..start].rfind('/').unwrap_or(0);
                normal.truncate(parent);
            }
            _ => {}
        }
    }
    if normal.is_empty() {
        normal.push('/');
    }
    Cow::Owned(normal)
}

/// Whether [`normalise`] would leave `path` as it is.
fn is_normal(path: &[u8]) -> bool {
    let Some((b'/', rest)) = path.split_first() else {
        return false;
    };
    if rest.is_empty() {
        return true;
    }
    let mut start = 0;
    for (i, byte) in rest.iter().enumerate() {
        match byte {
            b'/' if !is_normal_segment(&rest[start..i]) => return false,
            b'/' => start = i + 1,
            b'?' | b'#' => return false,
            b'%' => match escape(&rest[i..]) {
                Some(byte) if !is_unreserved(byte) && is_upper_escape(&rest[i..]) => {}
                _ => return false,
            },
            _ => {}
        }
    }
    is_normal_segment(&rest[start..])
}

fn is_normal_segment(segment: &[u8]) -> bool {
    !matches!(segment, b"" | b"." | b"..")
}

/// Appends `raw`, decoded once, to `out`.
fn decode_into(out: &mut String, raw: &str) {
    let mut rest = raw;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match escape(rest.as_bytes()) {
            None => {
                out.push('%');
                rest = &rest[1..];
            }
            Some(byte) => {
                if is_unreserved(byte) && !would_complete_an_escape(out.as_bytes(), byte) {
                    out.push(char::from(byte));
                } else {
                    out.push_str(&rest[..3].to_ascii_uppercase());
                }
                rest = &rest[3..];
            }
        }
    }
    out.push_str(rest);
}

/// The byte that the escape at the start of `text` stands for.
fn escape(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else {
        return None;
    };
    let digit = |c: u8| {
        char::from(c)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    Some(digit(*high)? << 4 | digit(*low)?)
}

fn is_upper_escape(text: &[u8]) -> bool {
    text[1..3].iter().all(|c| !c.is_ascii_lowercase())
}

/// Whether `byte` after `out` would turn a lone `%` into an escape, which a second
/// reader would decode: `%%341` must not become `%41`.
fn would_complete_an_escape(out: &[u8], byte: u8) -> bool {
    byte.is_ascii_hexdigit() && matches!(out, [.., b'%'] | [.., b'%', _])
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_one_path_become_one() {
        for path in [
            "/a/b",
            "/a/b/",
            "//a///b",
            "/a/./b",
            "/a/x/../b",
            "/a/b?n=1",
            "/a/b#top",
            "/a/%62",
            "/%61/b",
            "/../a/b",
            "/a/%2e/b",
            "/a/x/%2E%2e/b",
            "a/b",
            "/a/b/?",
            "/a/b/.",
            "http://host/a/b?x",
            "/a/b?x=/../c",
        ] {
            assert_eq!(normalise(path), "/a/b", "{path}");
        }
        for path in ["", "/", "//", "/..", "?x", "/.", "http://host", "/a/.."] {
            assert_eq!(normalise(path), "/", "{path}");
        }
    }

    #[test]
    fn a_trailing_slash_is_known_behind_queries_and_dots() {
        for path in ["/a/", "/a/?x", "/a/.", "/a/b/..", "/a/%2e", "/", ""] {
            assert!(ends_with_slash(path), "{path}");
        }
        for path in ["/a", "/a?x=/", "/a/b#/", "/a/...", "/a/%2F"] {
            assert!(!ends_with_slash(path), "{path}");
        }
    }

    #[test]
    fn escapes_that_are_data_stay_data() {
        assert_eq!(normalise("/a%252Fb"), "/a%252Fb");
        assert_eq!(normalise("/a%2Fb"), "/a%2Fb");
        assert_eq!(normalise("/a%2fb"), "/a%2Fb");
        assert_eq!(normalise("/a/b"), "/a/b");
        assert_eq!(normalise("/a%zz"), "/a%zz");
        assert_eq!(normalise("/a%"), "/a%");
        assert_eq!(normalise("/a%4"), "/a%4");
        assert_eq!(normalise("/a%00b"), "/a%00b");
        assert_eq!(normalise("/%e2%82"), "/%E2%82");
        assert_eq!(normalise("/größe%é"), "/größe%é");
    }

    #[test]
    fn case_and_reserved_characters_are_kept() {
        assert_eq!(normalise("/A/b"), "/A/b");
        assert_eq!(normalise("/a%3Fb"), "/a%3Fb");
        assert_eq!(normalise("/a%23b"), "/a%23b");
        assert_eq!(normalise("/a;v=1/b"), "/a;v=1/b");
    }

    #[test]
    fn only_a_scheme_makes_a_target_absolute() {
        assert_eq!(normalise("https://host:80/x"), "/x");
        assert_eq!(normalise("/go/http://host/x"), "/go/http:/host/x");
        assert_eq!(normalise("go/http://host/x"), "/go/http:/host/x");
        assert_eq!(normalise("://host/x"), "/:/host/x");
    }

    #[test]
    fn decoding_makes_no_new_escape() {
        assert_eq!(normalise("/%%341"), "/%%341");
        assert_eq!(normalise("/%4%31"), "/%4%31");
        assert_eq!(normalise("/%2%35"), "/%2%35");
    }

    #[test]
    fn a_normal_path_is_not_copied() {
        for path in ["/", "/a", "/a/b.c/..d", "/a%2Fb", "/...", "/%E2%82"] {
            assert!(
                matches!(normalise(path), Cow::Borrowed(p) if p == path),
                "{path}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn normalising_twice_is_normalising_once(path in "[/%.a?#2-5eEfF:%/é]{0,16}|\\PC{0,40}") {
            let once = normalise(&path).into_owned();
            prop_assert!(once.starts_with('/'));
            prop_assert!(!once.contains("//"));
            prop_assert!(is_normal(once.as_bytes()) || once.contains('%'));
            prop_assert_eq!(normalise(&once).into_owned(), once);
        }
    }
}
