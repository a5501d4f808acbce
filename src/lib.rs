//! Tidegate: a rate-limiter sidecar that answers from memory and counts for a
//! whole fleet through Redis.
//!
//! The modules are floors of one house; each may use only those below it
//! (`tests/architecture.rs` holds them to it):
//!
//! | floor | rooms |
//! |---|---|
//! | 6 | [`app`] (wiring, configuration, telemetry, command line) |
//! | 5 | [`server`] (listeners, connections, the one observer of decisions), [`client`] (asks a daemon), [`simulation`] (a fleet in virtual time) |
//! | 4 | [`sync`] (exchange with the store), [`protocol`] (bytes ↔ request and decision) |
//! | 3 | [`engine`] (request → decision) |
//! | 2 | [`counters`] (the cells), [`rules`] (files → compiled rule set) |
//! | 1 | [`algorithms`] (pure arithmetic of the limits) |
//! | 0 | [`units`], [`clock`], [`names`] |

pub mod algorithms;
pub mod app;
pub mod client;
pub mod clock;
pub mod counters;
pub mod engine;
pub mod names;
pub mod policy;
pub mod protocol;
pub mod rules;
pub mod server;
pub mod simulation;
pub mod sync;
pub mod units;
