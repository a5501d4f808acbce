//! What is played: a limit, gateways, and what is asked of them.

use std::fmt;

use tidegate::simulation::Dice;
use tidegate::units::{Algorithm, Nanos, Timestamp};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) algorithm: Algorithm,
    pub(crate) amount: u64,
    pub(crate) period: Nanos,
    pub(crate) burst: Option<u64>,
}

/// How the demand is spread over gateways and time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// All the same, at even distances.
    Even,
    /// All the same, by chance.
    Chance,
    /// The first one 91 % of it, by chance.
    Skewed,
    /// The first one so many times as much as each other one, by chance.
    Weighted(f64),
    /// The busy one, with 91 %, changes after each of these.
    Shifting(Nanos),
    /// Nearly nothing, and all in the last quarter of each of these, by chance.
    FromIdle(Nanos),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) limit: Limit,
    pub(crate) envoys: usize,
    /// The time between two reports.
    pub(crate) interval: Nanos,
    /// How many times the limit is asked for.
    pub(crate) factor: f64,
    pub(crate) shape: Shape,
    pub(crate) seed: u64,
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = &self.limit;
        let burst = limit.burst.map_or(String::new(), |n| format!(" burst {n}"));
        write!(
            f,
            "{} {}/{}{burst}, {} gateways, reports each {}, {} times, {:?}, seed {}",
            limit.algorithm.name(),
            limit.amount,
            limit.period,
            self.envoys,
            self.interval,
            self.factor,
            self.shape,
            self.seed,
        )
    }
}

/// In the middle of a window, whatever its length.
const START: Timestamp = Timestamp::from_nanos(1_700_000_000_371_000_000);

impl Scene {
    pub(crate) fn requests_a_second(&self) -> f64 {
        let peak = if matches!(self.shape, Shape::FromIdle(_)) {
            4.0
        } else {
            1.0
        };
        self.limit.amount as f64 / self.limit.period.as_secs_f64() * self.factor * peak
    }

    pub(crate) fn start(&self) -> Timestamp {
        START
    }

    /// The first window that is looked at: not before two reports have come, nor in the
    /// first one, which is cut.
    pub(crate) fn looked_at_from(&self) -> Timestamp {
        let period = self.limit.period;
        let warm = START.after(period.max(self.interval.times(4)));
        warm.window(period).next().start(period)
    }

    pub(crate) fn windows(&self) -> u64 {
        let least = Nanos::from_secs(30).max(self.interval.times(5));
        let windows = least.get().div_ceil(self.limit.period.get());
        windows.max(if self.limit.period >= Nanos::from_secs(600) {
            2
        } else {
            6
        })
    }

    pub(crate) fn end(&self) -> Timestamp {
        self.looked_at_from()
            .after(self.limit.period.times(self.windows()))
    }

    /// Requests a second of `envoy` at `now`.
    pub(crate) fn rate(&self, envoy: usize, now: Timestamp) -> f64 {
        let all = self.limit.amount as f64 / self.limit.period.as_secs_f64() * self.factor;
        let envoys = self.envoys as f64;
        let uneven = |busy: usize, share: f64| match self.envoys {
            1 => all,
            _ if envoy == busy => all * share,
            _ => all * (1.0 - share) / (envoys - 1.0),
        };
        match self.shape {
            Shape::Even | Shape::Chance => all / envoys,
            Shape::Skewed => uneven(0, 0.91),
            Shape::Weighted(times) => uneven(0, times / (times + envoys - 1.0)),
            Shape::Shifting(every) => {
                let turn = now.since(START).get() / every.get();
                uneven(usize::try_from(turn).unwrap() % self.envoys, 0.91)
            }
            Shape::FromIdle(every) => {
                let at = now.since(START).get() % every.get();
                let busy = at >= every.get() / 4 * 3;
                all / envoys * if busy { 4.0 } else { 0.02 }
            }
        }
    }

    fn changes_after(&self, now: Timestamp) -> Timestamp {
        let every = match self.shape {
            Shape::Shifting(every) => every,
            Shape::FromIdle(every) => every.divided_by(4),
            _ => return Timestamp::from_nanos(u64::MAX),
        };
        let turn = now.since(START).get() / every.get();
        START.after(every.times(turn + 1))
    }

    /// When `envoy` is asked next.
    pub(crate) fn next(&self, envoy: usize, mut now: Timestamp, dice: &mut Dice) -> Timestamp {
        loop {
            let gap = match self.shape {
                Shape::Even => 1.0,
                _ => dice.exponential(),
            };
            let gap = Nanos::new((gap / self.rate(envoy, now) * 1e9) as u64);
            let (at, change) = (now.after(gap), self.changes_after(now));
            if at < change {
                return at;
            }
            now = change;
        }
    }
}
