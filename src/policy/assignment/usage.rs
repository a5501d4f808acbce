use super::whole;
use crate::units::{Nanos, Timestamp};

/// What the reports of a gateway tell of its demand, and how often they come.
#[derive(Clone, Debug)]
pub(super) struct Usage {
    reported: Timestamp,
    busy: Timestamp,
    reports: u32,
    interval: Nanos,
    /// Asked for since the demand was last estimated.
    asked: u64,
    estimated: Timestamp,
    newest: f64,
    smooth: f64,
}

/// The time between two reports while it is not known.
const UNKNOWN_INTERVAL: Nanos = Nanos::from_secs(5);
/// The first report comes at the first request, the second one at the gateway's next turn:
/// only what comes between later ones is an interval.
const TELLING_REPORTS: u32 = 3;
/// Reports that are closer together say nothing of a rate.
const SHORTEST_SPAN: Nanos = Nanos::from_millis(50);
/// Longer than anybody reports.
const LONGEST_INTERVAL: Nanos = Nanos::from_secs(3_600);
/// An assignment lives through so many reports.
const LIVES: u64 = 3;
/// But at least, in seconds.
const SHORTEST_LIFE: u64 = 2;
/// What was idle for so many reports is abandoned,
const IDLE_REPORTS: u64 = 10;
/// but not before this.
const SHORTEST_IDLE: Nanos = Nanos::from_secs(10);

impl Usage {
    pub(super) fn new(now: Timestamp) -> Usage {
        Usage {
            reported: now,
            busy: now,
            reports: 0,
            interval: UNKNOWN_INTERVAL,
            asked: 0,
            estimated: now,
            newest: 0.0,
            smooth: 0.0,
        }
    }

    pub(super) fn report(&mut self, allowed: u64, denied: u64, now: Timestamp) {
        let asked = allowed.saturating_add(denied);
        if asked > 0 {
            self.busy = now;
        }
        self.asked = self.asked.saturating_add(asked);
        self.reports = self.reports.saturating_add(1);
        let between = now.since(self.reported);
        self.reported = now;
        if self.reports == TELLING_REPORTS {
            self.interval = between.max(SHORTEST_SPAN);
        } else if self.reports > TELLING_REPORTS {
            let slowly = self.interval.times(3).plus(between).divided_by(4);
            self.interval = between.max(slowly).max(SHORTEST_SPAN);
        }
        self.interval = self.interval.min(LONGEST_INTERVAL);
        if now < self.estimated {
            self.estimated = now;
        }
        let span = now.since(self.estimated);
        if span < SHORTEST_SPAN {
            return;
        }
        self.newest = self.asked as f64 / span.as_secs_f64();
        self.smooth = (self.smooth + self.newest) / 2.0;
        self.asked = 0;
        self.estimated = now;
    }

    pub(super) fn interval(&self) -> Nanos {
        self.interval
    }

    /// What is asked for, per second: the newest and the smoothed, the larger.
    pub(super) fn demand(&self) -> f64 {
        self.newest.max(self.smooth)
    }

    /// What is needed in so long a time, chance included.
    pub(super) fn needed(&self, span: Nanos) -> u64 {
        let mean = self.demand() * span.as_secs_f64();
        if mean <= 0.0 {
            return 0;
        }
        whole((mean * 1.125 + 3.0 * mean.sqrt()).ceil()).max(1)
    }

    /// What was used since the last report at least, if it went on as before.
    pub(super) fn expected(&self, now: Timestamp) -> u64 {
        let mean = self.newest.min(self.smooth) * now.since(self.reported).as_secs_f64();
        whole((mean - 2.0 * mean.sqrt()).max(0.0))
    }

    /// Whole seconds.
    pub(super) fn time_to_live(&self) -> Nanos {
        let secs = self.interval.times(LIVES).as_secs_ceil();
        Nanos::from_secs(secs.max(SHORTEST_LIFE))
    }

    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        now.since(self.busy) >= self.interval.times(IDLE_REPORTS).max(SHORTEST_IDLE)
    }
}
