//! The gRPC door over real sockets: a client in Rust, one in Python, hostile ones, and a real
//! Envoy.

// Tests assert by panicking, and their helpers are not in test functions.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

#[path = "doors_grpc/calls.rs"]
mod calls;
#[path = "doors_grpc/client.rs"]
mod client;
#[path = "doors_grpc/envoy.rs"]
mod envoy;
#[path = "doors_grpc/hostile.rs"]
mod hostile;
#[path = "doors_grpc/late_store.rs"]
mod late_store;
#[path = "doors_grpc/life.rs"]
mod life;
#[path = "doors_grpc/python.rs"]
mod python;
#[path = "doors_grpc/quota.rs"]
mod quota;
#[path = "doors_grpc/quota_client.rs"]
mod quota_client;
#[path = "doors_grpc/quota_envoy.rs"]
mod quota_envoy;
#[path = "doors_grpc/quota_hostile.rs"]
mod quota_hostile;
#[path = "doors_grpc/quota_life.rs"]
mod quota_life;
#[path = "doors_grpc/quota_parked.rs"]
mod quota_parked;
