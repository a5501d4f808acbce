//! The messages of Envoy's rate limit service (`envoy.service.ratelimit.v3`), as pure
//! functions: a request to checks, decisions to a response; and those of its
//! [quota service](quota). gRPC itself is the server's.

mod answer;
mod ask;
mod metadata;
pub mod quota;
mod timeout;

pub use answer::{Answers, Headers, StoreLost, Telling};
pub use ask::{Asked, BadRequest, Check, Entries, Hits, MAX_MESSAGE};
pub use timeout::timeout;

/// The messages, as the files under `proto` describe them.
#[allow(missing_docs, clippy::all, rustdoc::all)]
pub mod messages {
    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
}

/// The descriptions of the messages and the service, for those who ask the server for them.
pub const DESCRIPTIONS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The name of the service.
pub const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";
/// The path of its one method.
pub const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
