//! Support for tests with real processes: a Redis, a daemon, clients for its
//! doors, a proxy that misbehaves on command and a steady load.
//!
//! Everything is blocking and plain `std`. A process or thread that is started
//! here ends with the value that stands for it.

// Each test binary takes what it needs of the kit, and the rest is dead to it.
#![allow(dead_code, unreachable_pub, unused_imports)]
// Support for tests fails by panicking, and runs on the real clock.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]
// Its figures are those of a test, far from any edge.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod addr;
mod backend;
mod daemon;
mod drive;
pub mod frames;
mod gateway;
pub mod http;
mod latencies;
mod place;
mod process;
mod proxy;
mod redis_server;
pub mod resp;
mod tries;
mod windows;

pub use addr::Addr;
pub use backend::Backend;
pub use daemon::{Daemon, sum, tidegate};
pub use drive::{Drive, Driven, Sample, since_epoch};
pub use gateway::{GRPC_DOOR, Gateway, Kind, connect_from, free_addr};
pub use latencies::{HELD_UP, nobody_waited};
pub use place::{Place, Served, TIDEGATE, root, stderr, stdout, tool};
pub use process::wait_until;
pub use proxy::Proxy;
pub use redis_server::Redis;
pub use tries::in_one_of_a_few_runs;
pub use windows::{counted_in, longest_gap, wait_for_an_edge, window_of};
