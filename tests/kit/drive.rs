use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::resp::{Client, Value};
use super::{Addr, resp};

/// A steady load: one connection that sends checks at an even pace, each after the
/// answer to the last.
#[derive(Debug)]
pub struct Drive {
    running: JoinHandle<Driven>,
    stop: Arc<AtomicBool>,
}

/// What became of one check.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it was sent, since the epoch.
    pub at: Duration,
    /// From the first byte sent to the whole answer.
    pub latency: Duration,
    /// Which of the commands it was, counted from 0.
    pub command: usize,
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
    /// Which command was under way when the connection broke: it may have been
    /// carried out or not.
    pub in_doubt: Option<usize>,
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
        Drive::spawn(at.into(), vec![resp::encode(command)], per_second, duration)
    }

    /// Sends these commands in turn, again and again, `per_second` times a second
    /// until [`Drive::stop`].
    pub fn cycle<A: AsRef<str>>(
        at: impl Into<Addr>,
        commands: &[Vec<A>],
        per_second: u32,
    ) -> Drive {
        let encoded = commands.iter().map(|command| {
            let args: Vec<&str> = command.iter().map(AsRef::as_ref).collect();
            resp::encode(&args)
        });
        // Longer than any test: a test that was abandoned leaves no load behind.
        let duration = Duration::from_secs(600);
        Drive::spawn(at.into(), encoded.collect(), per_second, duration)
    }

    fn spawn(at: Addr, commands: Vec<Vec<u8>>, per_second: u32, duration: Duration) -> Drive {
        let stop = Arc::new(AtomicBool::new(false));
        let running = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let client = Client::connect(&at);
                drive(client, &commands, per_second, duration, &stop)
            }
        });
        Drive { running, stop }
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// If nobody listened at the socket.
    pub fn join(self) -> Driven {
        self.running.join().expect("the load ran to its end")
    }

    /// Ends it after the answer to the check under way.
    ///
    /// # Panics
    /// As [`Drive::join`].
    pub fn stop(self) -> Driven {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
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

fn drive(
    mut client: Client,
    commands: &[Vec<u8>],
    per_second: u32,
    duration: Duration,
    stop: &AtomicBool,
) -> Driven {
    let mut driven = Driven::default();
    let count = (duration.as_nanos() * u128::from(per_second) / 1_000_000_000) as u32;
    let start = Instant::now();
    for (tick, command) in (0..count).zip((0..commands.len()).cycle()) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let due = Duration::from_secs(1) * tick / per_second;
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        let at = since_epoch();
        let sent = Instant::now();
        let answer = client
            .write(&commands[command])
            .and_then(|()| client.read());
        let latency = sent.elapsed();
        match answer {
            Ok(value @ Value::Array(_)) => {
                let fields = value.ints();
                driven.samples.push(Sample {
                    at,
                    latency,
                    command,
                    admitted: fields[0] == 0,
                    reset_after: fields[4],
                });
            }
            Ok(other) => driven.errors.push(format!("{other:?}")),
            Err(error) => {
                driven.errors.push(error.to_string());
                driven.in_doubt = Some(command);
                break;
            }
        }
    }
    driven
}

/// The wall clock.
pub fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock after the epoch")
}
