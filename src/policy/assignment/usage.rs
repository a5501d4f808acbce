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
    /// Asked for per second.
    rate: f64,
    /// How long the rate has been learnt.
    age: Nanos,
    asked_last: bool,
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
/// So many standard deviations are allowed for as chance.
const DEVIATIONS: f64 = 3.0;
/// What differs by more than so many from what was expected is none: the demand has changed.
const NO_CHANCE: f64 = 4.0;
/// The average reaches back over so many requests,
const ENOUGH: f64 = 8.0;
/// but at least over so many reports,
const FEWEST_REPORTS: f64 = 8.0;
/// and no further back than this, in seconds, if those do not.
const LONGEST_MEMORY: f64 = 60.0;
/// An assignment lives through so many reports.
const LIVES: u64 = 3;
/// While it is not known how often reports come, it lives longer than most intervals.
const UNKNOWN_LIFE: Nanos = Nanos::from_secs(60);
/// But at least, in seconds.
const SHORTEST_LIFE: u64 = 2;
/// What was idle for so many reports is abandoned,
const IDLE_REPORTS: u64 = 10;
/// and so many periods of its limit: abandoned, its next request may be admitted unasked,
/// and a small limit has few.
const IDLE_PERIODS: u64 = 10;
/// But a long period does not make it stay longer than this,
const LONGEST_IDLE: Nanos = Nanos::from_secs(600);
/// and none is abandoned before this.
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
            rate: 0.0,
            age: Nanos::ZERO,
            asked_last: true,
        }
    }

    pub(super) fn report(&mut self, allowed: u64, denied: u64, now: Timestamp) {
        let asked = allowed.saturating_add(denied);
        if asked > 0 || now < self.busy {
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
        let (secs, asked) = (span.as_secs_f64(), self.asked as f64);
        let expected = self.rate * secs;
        if (asked - expected).abs() > NO_CHANCE * asked.max(expected).sqrt() {
            self.age = Nanos::ZERO;
        }
        let memory = (ENOUGH / self.rate.max(f64::MIN_POSITIVE)).clamp(
            secs * FEWEST_REPORTS,
            LONGEST_MEMORY.max(secs * FEWEST_REPORTS),
        );
        self.age = self.age.plus(span);
        self.rate += (asked / secs - self.rate) * secs / memory.min(self.age.as_secs_f64());
        self.asked_last = self.asked > 0;
        self.asked = 0;
        self.estimated = now;
    }

    pub(super) fn interval(&self) -> Nanos {
        self.interval
    }

    /// What is asked for, per second.
    pub(super) fn demand(&self) -> f64 {
        self.rate
    }

    /// Whether anything was asked for between the last two reports.
    pub(super) fn asked_last(&self) -> bool {
        self.asked_last
    }

    /// What is needed in so long a time, chance included.
    pub(super) fn needed(&self, span: Nanos) -> u64 {
        let mean = self.rate * span.as_secs_f64();
        if mean <= 0.0 {
            return 0;
        }
        whole((mean + DEVIATIONS * mean.sqrt()).ceil()).max(1)
    }

    /// What was used since the last report, or since a later moment, if it goes on as it was.
    pub(super) fn expected(&self, moment: Timestamp, now: Timestamp) -> u64 {
        let span = now.since(self.reported).min(now.since(moment));
        whole(self.rate * span.as_secs_f64())
    }

    /// What of a `cost` that was reported at `now` was used until some moment before, if it
    /// was used evenly. To be asked before the report is noted.
    pub(super) fn before(&self, cost: u64, moment: Timestamp, now: Timestamp) -> u64 {
        let all = now.since(self.reported).get();
        let until = moment.since(self.reported).get().min(all);
        if all == 0 {
            return 0;
        }
        let part = u128::from(cost) * u128::from(until) / u128::from(all);
        u64::try_from(part).unwrap_or(cost)
    }

    /// Whole seconds.
    pub(super) fn time_to_live(&self) -> Nanos {
        if self.reports < TELLING_REPORTS {
            return UNKNOWN_LIFE;
        }
        let secs = self.interval.times(LIVES).as_secs_ceil();
        Nanos::from_secs(secs.max(SHORTEST_LIFE))
    }

    pub(super) fn is_idle(&self, period: Nanos, now: Timestamp) -> bool {
        let periods = period.times(IDLE_PERIODS).min(LONGEST_IDLE);
        let reports = self.interval.times(IDLE_REPORTS);
        now.since(self.busy) >= reports.max(periods).max(SHORTEST_IDLE)
    }
}
