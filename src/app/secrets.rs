//! Secrets, from the files that hold them.

use std::fmt;
use std::fs;
use std::path::Path;

use super::config::{Fault, Settings};
use crate::units::KeySecret;

/// The token that admin requests over TCP must show.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct AdminToken(String);

impl AdminToken {
    /// The token itself.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(***)")
    }
}

/// The secret that keys are hashed with: the file's, else the public one.
///
/// # Errors
/// [`Fault`] if the file cannot be read or has too little in it.
pub(super) fn key_secret(settings: &Settings) -> Result<KeySecret, Fault> {
    let Some(path) = &settings.key_secret_file else {
        return Ok(KeySecret::public());
    };
    KeySecret::from_text(&read(path)?).map_err(|error| Fault::Secret {
        path: path.clone(),
        error,
    })
}

/// The admin's token, if there is one; blanks around it are no part of it.
///
/// # Errors
/// [`Fault`] if the file cannot be read or is not one line of printable ASCII.
pub(super) fn admin_token(settings: &Settings) -> Result<Option<AdminToken>, Fault> {
    let Some(path) = &settings.admin_token_file else {
        return Ok(None);
    };
    let bytes = read(path)?;
    let token = bytes.trim_ascii();
    match std::str::from_utf8(token) {
        Ok(token) if !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic()) => {
            Ok(Some(AdminToken(token.to_owned())))
        }
        _ => Err(Fault::Token(path.clone())),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    fs::read(path).map_err(|source| Fault::Unreadable {
        path: path.to_owned(),
        source,
    })
}
