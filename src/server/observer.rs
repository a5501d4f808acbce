use std::sync::OnceLock;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::engine::{Decision, Outcome};
use crate::names;
use crate::rules::RuleSet;
use crate::units::{Nanos, Series};

/// A way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// HTTP and JSON.
    Http,
    /// The Redis protocol.
    Resp,
    /// Metrics and probes.
    Admin,
}

impl Door {
    const ALL: [Door; 3] = [Door::Http, Door::Resp, Door::Admin];
    /// The doors that decide.
    const DECIDING: usize = 2;

    /// The value of the `door` label.
    pub const fn name(self) -> &'static str {
        match self {
            Door::Http => "http",
            Door::Resp => "resp",
            Door::Admin => "admin",
        }
    }
}

/// How many outcomes there are.
const OUTCOMES: usize = 9;

/// The counters of one series: for each door and outcome, made when first needed, so
/// that the page of metrics shows what has happened and not what might.
type Counters = [[OnceLock<Counter>; OUTCOMES]; Door::DECIDING];

/// The one place that observes decisions, and what else happens at the doors. All
/// labels come from the rules; nothing of a client's does.
///
/// The metrics recorder must be installed before one is made.
#[derive(Debug)]
pub struct Observer {
    series: Vec<Observed>,
    doors: [DoorMetrics; 3],
}

struct Observed {
    rule: String,
    limit: String,
    counters: Counters,
}

struct DoorMetrics {
    decision_seconds: Option<Histogram>,
    connections: Gauge,
    full: Counter,
    accept_errors: Counter,
    bad_requests: [Counter; BadKind::ALL.len()],
    panics: Counter,
}

/// Why a request could not be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadKind {
    /// The protocol itself was broken: nothing that follows can be followed.
    Framing,
    /// A command or body without a sense.
    Content,
    /// Too long.
    Size,
    /// Begun, and not ended in time.
    Slow,
}

impl BadKind {
    const ALL: [BadKind; 4] = [
        BadKind::Framing,
        BadKind::Content,
        BadKind::Size,
        BadKind::Slow,
    ];

    const fn name(self) -> &'static str {
        match self {
            BadKind::Framing => "framing",
            BadKind::Content => "content",
            BadKind::Size => "size",
            BadKind::Slow => "slow",
        }
    }
}

impl Observer {
    /// An observer of decisions made by `rules`.
    pub fn new(rules: &RuleSet) -> Observer {
        // Series 0: the limits that no rule names; and last, decisions without a limit.
        let mut series = vec![Observed::new("", "throttle")];
        series.extend(
            rules
                .limits()
                .iter()
                .map(|limit| Observed::new(&limit.rule, &limit.name)),
        );
        series.push(Observed::new("", ""));
        Observer {
            series,
            doors: Door::ALL.map(DoorMetrics::new),
        }
    }

    /// Counts one decision. Every door calls this once for each.
    pub fn decided(&self, door: Door, decision: &Decision<'_>) {
        let none = self.series.len() - 1;
        let index = match &decision.limit {
            Some(limit) => match limit.series {
                Series(number) => usize::try_from(number).unwrap_or(none).min(none),
            },
            None => none,
        };
        if let Some(observed) = self.series.get(index) {
            observed.count(door, decision.outcome);
        }
    }

    /// Records how long decisions took: `span` for `decisions` of them.
    pub fn timed(&self, door: Door, span: Nanos, decisions: u64) {
        if let (Some(seconds), 1..) = (&self.doors[door as usize].decision_seconds, decisions) {
            seconds.record(span.divided_by(decisions).as_secs_f64());
        }
    }

    /// Counts a request that could not be understood.
    pub fn bad_request(&self, door: Door, kind: BadKind) {
        self.doors[door as usize].bad_requests[kind as usize].increment(1);
    }

    /// Counts a connection that found all places taken.
    pub(super) fn refused(&self, door: Door) {
        self.doors[door as usize].full.increment(1);
    }

    /// Counts a connection that could not be accepted.
    pub(super) fn accept_failed(&self, door: Door) {
        self.doors[door as usize].accept_errors.increment(1);
    }

    /// Counts a connection that ended in a panic.
    pub(super) fn panicked(&self, door: Door) {
        self.doors[door as usize].panics.increment(1);
    }

    /// Counts a connection for as long as the answer lives.
    pub(super) fn connected(&self, door: Door) -> Connected {
        let connections = self.doors[door as usize].connections.clone();
        connections.increment(1.0);
        Connected(connections)
    }
}

/// One open connection.
pub(super) struct Connected(Gauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

impl Observed {
    fn new(rule: &str, limit: &str) -> Observed {
        Observed {
            rule: rule.to_owned(),
            limit: limit.to_owned(),
            counters: Counters::default(),
        }
    }

    fn count(&self, door: Door, outcome: Outcome) {
        let counters = self.counters.get(door as usize);
        let Some(counter) = counters.and_then(|counters| counters.get(index(outcome))) else {
            return;
        };
        counter
            .get_or_init(|| {
                counter!(
                    names::CHECKS,
                    "rule" => self.rule.clone(),
                    "limit" => self.limit.clone(),
                    "outcome" => outcome.name(),
                    "door" => door.name(),
                )
            })
            .increment(1);
    }
}

impl std::fmt::Debug for Observed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.rule, self.limit)
    }
}

const fn index(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Allowed { .. } => 0,
        Outcome::Unlimited => 1,
        Outcome::Bypassed => 2,
        Outcome::Refused { .. } => 3,
        Outcome::Impossible => 4,
        Outcome::Banned => 5,
        Outcome::Unavailable => 6,
        Outcome::UnknownRule => 7,
        Outcome::Unidentified => 8,
    }
}

impl DoorMetrics {
    fn new(door: Door) -> DoorMetrics {
        let name = door.name();
        let refused =
            |reason| counter!(names::CONNECTIONS_REFUSED, "door" => name, "reason" => reason);
        DoorMetrics {
            decision_seconds: (door != Door::Admin)
                .then(|| histogram!(names::DECISION_SECONDS, "door" => name)),
            connections: gauge!(names::CONNECTIONS, "door" => name),
            full: refused("full"),
            accept_errors: refused("accept_error"),
            panics: refused("panic"),
            bad_requests: BadKind::ALL
                .map(|kind| counter!(names::BAD_REQUESTS, "door" => name, "reason" => kind.name())),
        }
    }
}

impl std::fmt::Debug for DoorMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DoorMetrics")
    }
}
