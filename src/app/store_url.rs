//! The address of the store, with a password in it perhaps.

use std::fmt;

use super::config::ValueError;
use crate::sync;

/// The URL of the store as it was written. Shown, user and password are `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(String);

const SCHEMES: [&str; 3] = ["redis://", "rediss://", "redis+unix://"];

impl StoreUrl {
    /// Reads a URL; `None` for `none`.
    ///
    /// # Errors
    /// [`ValueError::NotAStore`] if the scheme is not one of `redis`, `rediss`
    /// and `redis+unix`, or what follows makes no sense.
    pub fn parse(text: &str) -> Result<Option<StoreUrl>, ValueError> {
        if text == "none" {
            return Ok(None);
        }
        let known = SCHEMES.iter().any(|scheme| {
            text.strip_prefix(scheme)
                .is_some_and(|rest| !rest.is_empty())
        });
        if known && sync::check_url(text).is_ok() {
            Ok(Some(StoreUrl(text.to_owned())))
        } else {
            Err(ValueError::NotAStore)
        }
    }

    /// The URL with its password.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Everything before the last `@` is hidden, and so is the query: some clients
/// take passwords there.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("", &self.0));
        let (hidden, place) = match rest.rsplit_once('@') {
            Some((_, place)) => ("***@", place),
            None => ("", rest),
        };
        let (place, query) = match place.split_once('?') {
            Some((place, _)) => (place, "?***"),
            None => (place, ""),
        };
        write!(f, "{scheme}://{hidden}{place}{query}")
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        StoreUrl::parse(text).unwrap().unwrap().to_string()
    }

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(
            shown("redis://app:p%40ss%2Fw@h:6379/2"),
            "redis://***@h:6379/2"
        );
        assert_eq!(shown("rediss://:pw@[::1]:6379"), "rediss://***@[::1]:6379");
        // Not even one that is no URL.
        let odd = StoreUrl("redis://u:a?b@c@host".into());
        assert_eq!(odd.to_string(), "redis://***@host");
        assert_eq!(
            shown("redis+unix:///run/redis.sock?db=1&pass=pw"),
            "redis+unix:///run/redis.sock?***"
        );
        assert_eq!(shown("redis://h"), "redis://h");
        let url = StoreUrl::parse("redis://:marker@h").unwrap();
        assert!(!format!("{url:?}").contains("marker"));
    }

    #[test]
    fn an_address_that_makes_no_sense_is_refused_at_once() {
        for text in [
            "redis://h:notaport",
            "redis://h:99999",
            "redis://h/notadb",
            "redis://[::1",
        ] {
            assert_eq!(StoreUrl::parse(text), Err(ValueError::NotAStore), "{text}");
        }
    }

    #[test]
    fn none_is_no_store_and_other_schemes_are_refused_without_being_repeated() {
        assert_eq!(StoreUrl::parse("none"), Ok(None));
        for text in ["", "redis", "redis://", "http://:marker@h", "REDIS://h"] {
            assert_eq!(StoreUrl::parse(text), Err(ValueError::NotAStore), "{text}");
        }
        assert!(!ValueError::NotAStore.to_string().contains("marker"));
    }
}
