//! How long answers took, and whether a fault held anybody up.

use std::time::Duration;

use super::{Driven, Sample};

/// A check that waited for the store would wait until an exchange is given up, a
/// second, or until the fault is over, several.
pub const HELD_UP: Duration = Duration::from_millis(900);

/// The slow end of some latencies.
pub struct Latencies {
    p99: Duration,
    p999: Duration,
    slowest: Duration,
}

impl Latencies {
    pub fn of<'a>(samples: impl Iterator<Item = &'a Sample>) -> Latencies {
        let samples: Vec<Sample> = samples.copied().collect();
        if samples.is_empty() {
            // There was no such time.
            let zero = Duration::ZERO;
            return Latencies {
                p99: zero,
                p999: zero,
                slowest: zero,
            };
        }
        let driven = Driven {
            samples,
            ..Driven::default()
        };
        Latencies {
            p99: driven.latency(0.99),
            p999: driven.latency(0.999),
            slowest: driven.slowest(),
        }
    }
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "p99 {:>9.2?}  p99.9 {:>9.2?}  slowest {:>9.2?}",
            self.p99, self.p999, self.slowest
        )
    }
}

/// Shows how long the answers of some daemons took before a fault and during it, and
/// those of one without a store meanwhile, and sees that nobody had to wait.
pub fn nobody_waited(
    what: &str,
    (began, ended): (Duration, Duration),
    driven: &[Driven],
    control: &Driven,
) {
    let during = |sample: &&Sample| sample.at >= began && sample.at <= ended;
    let own = || driven.iter().flat_map(|driven| &driven.samples);
    let calm = Latencies::of(own().filter(|sample| sample.at < began));
    let fault = Latencies::of(own().filter(during));
    let control = Latencies::of(control.samples.iter().filter(during));
    println!(
        "{what}, {:?}:\n  before   {calm}\n  during   {fault}\n  no store {control}",
        ended - began
    );
    // The machine may have been busier during the fault than before it. A few
    // checks in a thousand wait for a turn on it, whatever the daemons do.
    let bound = |calm: Duration, control, turn| calm.max(control) * 3 + turn;
    let (p99, p999) = (Duration::from_millis(5), Duration::from_millis(25));
    assert!(
        fault.p99 <= bound(calm.p99, control.p99, p99),
        "{what}: p99"
    );
    assert!(
        fault.p999 <= bound(calm.p999, control.p999, p999),
        "{what}: p99.9"
    );
    // A machine that stands still holds up the daemon without a store as well.
    let held_up = HELD_UP + control.slowest;
    assert!(fault.slowest < held_up, "{what}: {:?}", fault.slowest);
}
