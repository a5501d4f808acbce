use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::resp::{Client, Value};
use super::{Addr, resp};

/// A steady load: one connection that sends the same check at an even pace, each
/// after the answer to the last.
#[derive(Debug)]
pub struct Drive(JoinHandle<Driven>);

/// What became of one check.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it was sent, since the epoch.
    pub at: Duration,
    /// From the first byte sent to the whole answer.
    pub latency: Duration,
    pub admitted: bool,
    /// The last of the five fields, in the unit of the command.
    pub reset_after: i64,
}

/// What became of all checks.
#[derive(Clone, Debug, Default)]
pub struct Driven {
    pub samples: Vec<Sample>,
    /// Answers that were errors, and a connection that broke, which ends the drive.
    pub errors: Vec<String>,
}

impl Drive {
    /// Sends `command` (`CL.THROTTLE …` or `TG.CHECK …`) `per_second` times a
    /// second for `duration`, on a thread of its own. A check that is late is sent
    /// at once, so that the number sent is the number asked for.
    pub fn start(
        at: impl Into<Addr>,
        command: &[&str],
        per_second: u32,
        duration: Duration,
    ) -> Drive {
        let at = at.into();
        let bytes = resp::encode(command);
        Drive(std::thread::spawn(move || {
            drive(Client::connect(&at), &bytes, per_second, duration)
        }))
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// If nobody listened at the socket.
    pub fn join(self) -> Driven {
        self.0.join().expect("the load ran to its end")
    }
}

impl Driven {
    /// How many were admitted.
    pub fn admitted(&self) -> u64 {
        self.samples.iter().map(|s| u64::from(s.admitted)).sum()
    }

    /// How many were admitted in each window aligned to the epoch, by when they
    /// were sent; a window without any check is absent, one without an admitted
    /// check is 0. A second's worth: `admitted_per(Duration::from_secs(1))`.
    pub fn admitted_per(&self, window: Duration) -> BTreeMap<u64, u64> {
        let mut windows = BTreeMap::new();
        for sample in &self.samples {
            let id = (sample.at.as_nanos() / window.as_nanos()) as u64;
            *windows.entry(id).or_default() += u64::from(sample.admitted);
        }
        windows
    }

    /// The latency that `share` (0 to 1) of the checks did not exceed.
    ///
    /// # Panics
    /// When there was no check.
    pub fn latency(&self, share: f64) -> Duration {
        let mut all: Vec<Duration> = self.samples.iter().map(|s| s.latency).collect();
        all.sort_unstable();
        let rank = (share * all.len() as f64).ceil() as usize;
        all[rank.clamp(1, all.len()) - 1]
    }

    /// The longest latency.
    pub fn slowest(&self) -> Duration {
        self.latency(1.0)
    }
}

fn drive(mut client: Client, bytes: &[u8], per_second: u32, duration: Duration) -> Driven {
    let mut driven = Driven::default();
    let count = (duration.as_nanos() * u128::from(per_second) / 1_000_000_000) as u32;
    let start = Instant::now();
    for tick in 0..count {
        let due = Duration::from_secs(1) * tick / per_second;
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        let at = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("a clock after the epoch");
        let sent = Instant::now();
        let answer = client.write(bytes).and_then(|()| client.read());
        let latency = sent.elapsed();
        match answer {
            Ok(value @ Value::Array(_)) => {
                let fields = value.ints();
                driven.samples.push(Sample {
                    at,
                    latency,
                    admitted: fields[0] == 0,
                    reset_after: fields[4],
                });
            }
            Ok(other) => driven.errors.push(format!("{other:?}")),
            Err(error) => {
                driven.errors.push(error.to_string());
                break;
            }
        }
    }
    driven
}
