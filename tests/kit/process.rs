use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(5);
const TRIES: u32 = 6_000;

/// Asks again and again whether `condition` holds.
///
/// # Panics
/// Says `what` was waited for after 6,000 tries, 30 s or more.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..TRIES {
        if condition() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("waited in vain: {what}");
}

/// Sends `signal` (`TERM`, `STOP`, `CONT` …) to a child that has not been waited for.
pub fn signal(child: &Child, signal: &str) {
    let status = Command::new("kill")
        .args([format!("-{signal}"), child.id().to_string()])
        .status()
        .expect("kill can be run");
    assert!(status.success(), "kill -{signal} {}: {status}", child.id());
}

/// Waits for a child that is about to end by itself.
pub fn wait_for_end(what: &str, child: &mut Child) -> ExitStatus {
    let mut ended = None;
    wait_until(what, || {
        ended = child.try_wait().expect("a child can be waited for");
        ended.is_some()
    });
    ended.expect("it ended")
}

/// Whether the kernel has stopped the process (state `T` in `/proc`).
pub fn is_stopped(child: &Child) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // The name before the state is in parentheses and may hold anything.
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| rest.starts_with('T'))
}
