//! The wire formats, as pure functions: bytes to [`Request`](crate::engine::Request)s,
//! and [`Decision`](crate::engine::Decision)s to bytes. No sockets, no waiting, no clock.

pub mod grpc;
pub mod headers;
pub mod http;
pub mod resp;

pub(crate) mod text;
