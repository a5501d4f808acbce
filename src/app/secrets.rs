//! Secrets, from the files that hold them.

use super::config::{Fault, Settings, read_bounded};
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
    KeySecret::from_text(&read_bounded(path)?).map_err(|error| Fault::Secret {
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
    let bytes = read_bounded(path)?;
    std::str::from_utf8(&bytes)
        .ok()
        .map(str::trim)
        .filter(|token| token.bytes().all(|b| b.is_ascii_graphic()))
        .and_then(AdminToken::new)
        .map_or_else(|| Err(Fault::Token(path.clone())), |token| Ok(Some(token)))
}
