//! The doors over real sockets: what clients see, whatever they send.

// Tests assert by panicking, and their helpers are not in test functions.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "doors_server/admin.rs"]
mod admin;
#[path = "doors_server/http.rs"]
mod http;
#[path = "doors_server/lifecycle.rs"]
mod lifecycle;
#[path = "doors_server/places.rs"]
mod places;
#[path = "doors_server/resp.rs"]
mod resp;
#[path = "doors_server/support.rs"]
mod support;
