//! The doors with real rules and a clock of the test's own: what clients are told, to
//! the unit and the millisecond, over real sockets.

// Tests assert by panicking, and their helpers are not in test functions.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

#[path = "doors_decisions/callers.rs"]
mod callers;
// Of which the daemon is for others.
#[allow(dead_code)]
#[path = "doors_grpc/client.rs"]
mod client;
#[path = "doors_decisions/every_door.rs"]
mod every_door;
#[path = "doors_decisions/http.rs"]
mod http;
#[path = "doors_decisions/impossible.rs"]
mod impossible;
#[path = "doors_decisions/lost.rs"]
mod lost;
#[path = "doors_decisions/metrics.rs"]
mod metrics;
#[path = "doors_decisions/parallel.rs"]
mod parallel;
#[path = "doors_decisions/random.rs"]
mod random;
#[path = "doors_decisions/random_case.rs"]
mod random_case;
#[path = "doors_decisions/same.rs"]
mod same;
#[path = "doors_decisions/settled.rs"]
mod settled;
#[path = "doors_decisions/support.rs"]
mod support;
#[path = "doors_decisions/throttle.rs"]
mod throttle;
#[path = "doors_decisions/together.rs"]
mod together;
#[path = "doors_decisions/told.rs"]
mod told;
#[path = "doors_decisions/wanted.rs"]
mod wanted;
