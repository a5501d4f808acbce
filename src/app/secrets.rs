//! Secrets, from the files that hold them.

use std::fs;
use std::path::Path;

use super::config::{Fault, Settings};
use crate::server::AdminToken;
use crate::units::KeySecret;

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
/// [`Fault`] if the file cannot be read or is not one word of printable ASCII.
pub(super) fn admin_token(settings: &Settings) -> Result<Option<AdminToken>, Fault> {
    let Some(path) = &settings.admin_token_file else {
        return Ok(None);
    };
    let bytes = read(path)?;
    std::str::from_utf8(&bytes)
        .ok()
        .map(str::trim)
        .filter(|token| token.bytes().all(|b| b.is_ascii_graphic()))
        .and_then(AdminToken::new)
        .map_or_else(|| Err(Fault::Token(path.clone())), |token| Ok(Some(token)))
}

fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    fs::read(path).map_err(|source| Fault::Unreadable {
        path: path.to_owned(),
        source,
    })
}
