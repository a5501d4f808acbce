//! The library's client: against daemons, and against peers that do as they please.

// Tests fail by panicking, their helpers too.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "client/daemon.rs"]
mod daemon;
#[path = "client/decisions.rs"]
mod decisions;
#[path = "client/example.rs"]
mod example;
mod kit;
#[path = "client/peers.rs"]
mod peers;
// What other tests need of it is dead to these.
#[allow(dead_code)]
#[path = "doors_decisions/support.rs"]
mod support;

/// Runs a test beside daemons in runtimes of their own, which must not end within one.
fn run<T>(test: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test)
}
