//! Fleets in virtual time, many of them. Each is replayed by its seed:
//! `TIDEGATE_SEED=17 cargo test --test simulation NAME`.

// Tests assert by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod accounts;
mod accuracy;
mod bounded;
mod calendar;
mod chaos;
mod kit;
