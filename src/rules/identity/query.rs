use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The value of the parameter `name` in the query of `target`, decoded once, without blanks
/// around it. `None` if it is missing or blank, or there several times with different values.
pub(super) fn parameter<'q>(target: &'q str, name: &str) -> Option<Cow<'q, str>> {
    let (_, query) = target.split_once('?')?;
    let query = query.split('#').next().unwrap_or_default();
    let mut found: Option<Cow<'q, str>> = None;
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if decoded(key) != name {
            continue;
        }
        let value = trimmed(decoded(value));
        match &found {
            Some(other) if *other != value => return None,
            _ => found = Some(value),
        }
    }
    found.filter(|value| !value.is_empty())
}

fn decoded(text: &str) -> Cow<'_, str> {
    if text.contains('+') {
        let text = text.replace('+', " ");
        return percent_decode_str(&text)
            .decode_utf8_lossy()
            .into_owned()
            .into();
    }
    percent_decode_str(text).decode_utf8_lossy()
}

fn trimmed(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => text.trim().into(),
        Cow::Owned(text) => text.trim().to_owned().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_single_decoded_once_or_missing() {
        let of = |query: &str| parameter(&format!("/a?{query}"), "id").map(Cow::into_owned);
        for query in [
            "id=a%20b",
            "x=1&id=a+b",
            "%69d=+a%20b+#id=z",
            "id=a+b&id=a%20b",
        ] {
            assert_eq!(of(query).as_deref(), Some("a b"), "{query}");
        }
        assert_eq!(of("id=a%2520b").as_deref(), Some("a%20b"));
        assert_eq!(of("id=%ff").as_deref(), Some("\u{fffd}"));
        for query in [
            "",
            "id",
            "id=",
            "id=+",
            "ID=a",
            "id=a&id=b",
            "xid=a",
            "#id=a",
        ] {
            assert_eq!(of(query), None, "{query}");
        }
        assert_eq!(parameter("/a", "id"), None);
    }
}
