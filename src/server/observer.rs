mod advice;
mod booked;
mod counting;
mod gateway;
mod quota;

use std::fmt;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::engine::{Decision, DescribedLimit, Outcome};
use crate::names;
use crate::rules::RuleSet;
use crate::units::{Limit, Mode, Nanos, Series};
use advice::Advice;

pub(in crate::server) use counting::Counting;
pub(super) use quota::{LeftOut, QuotaGauges};

/// A way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// HTTP and JSON.
    Http,
    /// The Redis protocol.
    Resp,
    /// Envoy's rate limit service.
    Grpc,
    /// Metrics and probes.
    Admin,
}

impl Door {
    const ALL: [Door; 4] = [Door::Http, Door::Resp, Door::Grpc, Door::Admin];
    /// The doors that decide.
    const DECIDING: usize = 3;

    /// The value of the `door` label.
    pub const fn name(self) -> &'static str {
        match self {
            Door::Http => "http",
            Door::Resp => "resp",
            Door::Grpc => "grpc",
            Door::Admin => "admin",
        }
    }
}

/// The name of limits that descriptors state, as the engine tells it.
const STATED: &str = "stated";
/// How many outcomes there are.
const OUTCOMES: usize = 10;

/// The counters of one series: for each door and outcome, made when first needed, so
/// that the page of metrics shows what has happened and not what might.
type Counters = [[OnceLock<Counter>; OUTCOMES]; Door::DECIDING];

/// The one place that observes decisions, and what else happens at the doors. All
/// labels come from the rules; nothing of a client's does.
///
/// The metrics recorder must be installed before one is made.
#[derive(Debug)]
pub struct Observer {
    table: ArcSwap<Table>,
    doors: [DoorMetrics; 4],
}

/// The counters of the limits of one rule set, and of the set before: some of its
/// decisions may be yet to be observed.
struct Table {
    /// By the number of the series.
    limits: Vec<Option<Entry>>,
    /// Decisions without a limit.
    none: Arc<Observed>,
    /// That of the limits that descriptors state, which share their series with other calls'.
    stated: Arc<Observed>,
}

#[derive(Clone)]
struct Entry {
    observed: Arc<Observed>,
    /// Whether it is of the set in force, not of the one before.
    in_force: bool,
}

struct Observed {
    rule: String,
    limit: String,
    counters: Counters,
    /// Of limits that never refuse.
    advice: Option<Box<Advice>>,
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
        Observer {
            table: ArcSwap::from_pointee(Table::of(rules, None)),
            doors: Door::ALL.map(DoorMetrics::new),
        }
    }

    /// Observes decisions made by `rules` too, which [follow](RuleSet::follow) those of
    /// before. To be called before anything is decided by them.
    pub fn follow(&self, rules: &RuleSet) {
        let table = Table::of(rules, Some(&self.table.load()));
        self.table.store(Arc::new(table));
    }

    /// Counts one decision. Every door calls this once for each, or counts it among
    /// others of its batch.
    pub fn decided(&self, door: Door, decision: &Decision<'_>) {
        self.counters().counting(door).decided(decision);
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

impl Table {
    /// The table of `rules`, which follow those that `before` is the table of.
    fn of(rules: &RuleSet, before: Option<&Table>) -> Table {
        let none = before.map(|before| Arc::clone(&before.none));
        let stated = before.map(|before| Arc::clone(&before.stated));
        let mut table = Table {
            limits: Vec::new(),
            none: none.unwrap_or_else(|| Arc::new(Observed::new("", ""))),
            stated: stated.unwrap_or_else(|| Arc::new(Observed::new("", STATED))),
        };
        for (index, entry) in before
            .iter()
            .flat_map(|before| before.limits.iter().enumerate())
        {
            if let Some(entry) = entry.as_ref().filter(|entry| entry.in_force) {
                table.put(index, &entry.observed, false);
            }
        }
        let per_call = table.of_series(Series::PER_CALL).map(Arc::clone);
        let per_call = per_call.unwrap_or_else(|| Arc::new(Observed::new("", "throttle")));
        table.put(0, &per_call, true);
        for limit in rules.limits() {
            table.add(limit);
        }
        table
    }

    fn add(&mut self, limit: &Limit) {
        let Ok(index) = usize::try_from(limit.series.0) else {
            return;
        };
        let known = self.of_series(limit.series);
        let known = known.filter(|known| known.is_of(limit)).map(Arc::clone);
        let observed = known.unwrap_or_else(|| Arc::new(Observed::of(limit)));
        self.put(index, &observed, true);
    }

    fn put(&mut self, index: usize, observed: &Arc<Observed>, in_force: bool) {
        if self.limits.len() <= index {
            self.limits.resize(index + 1, None);
        }
        self.limits[index] = Some(Entry {
            observed: Arc::clone(observed),
            in_force,
        });
    }

    fn of_limit(&self, limit: &DescribedLimit<'_>) -> Option<&Arc<Observed>> {
        if limit.series == Series::PER_CALL && limit.name == STATED {
            return Some(&self.stated);
        }
        self.of_series(limit.series)
    }

    fn of_series(&self, series: Series) -> Option<&Arc<Observed>> {
        let entry = self.limits.get(usize::try_from(series.0).ok()?)?;
        entry.as_ref().map(|entry| &entry.observed)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.limits.iter().flatten();
        f.debug_list()
            .entries(entries.map(|e| &e.observed))
            .finish()
    }
}

impl Observed {
    fn of(limit: &Limit) -> Observed {
        Observed {
            advice: Advice::of(limit),
            ..Observed::new(&limit.rule, &limit.name)
        }
    }

    /// Whether it is what is observed of `limit`.
    fn is_of(&self, limit: &Limit) -> bool {
        let named = *self.rule == *limit.rule && *self.limit == *limit.name;
        let mode = self.advice.as_ref().map_or(Mode::Enforce, |it| it.mode);
        named && mode == limit.mode
    }

    fn new(rule: &str, limit: &str) -> Observed {
        Observed {
            rule: rule.to_owned(),
            limit: limit.to_owned(),
            counters: Counters::default(),
            advice: None,
        }
    }

    fn count(&self, door: Door, outcome: Outcome, times: u64) {
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
            .increment(times);
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        Outcome::IdInUse => 9,
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

impl fmt::Debug for DoorMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DoorMetrics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Defaults, Format, Source};
    use crate::units::{KeySecret, Pace};

    fn rules(names: &[&str], before: Option<&RuleSet>) -> RuleSet {
        let rule =
            |name: &&str| format!("- {{name: {name}, limits: {{requests: 1, window: 1m}}}}\n");
        let source = Source {
            name: "t.yaml".to_owned(),
            text: format!("rules:\n{}", names.iter().map(rule).collect::<String>()),
            format: Format::Yaml,
        };
        let defaults = Defaults {
            pace: Pace::default(),
            secret: KeySecret::public(),
        };
        let mut rules = RuleSet::compile(&[source], &defaults).unwrap().rules;
        if let Some(before) = before {
            rules.follow(before);
        }
        rules
    }

    fn observed<'t>(table: &'t Table, rules: &RuleSet, name: &str) -> Option<&'t Arc<Observed>> {
        let limit = rules.limits().iter().find(|limit| *limit.rule == *name);
        table.of_series(limit?.series)
    }

    #[test]
    fn the_table_follows_the_rules_and_keeps_those_of_before_for_one_set() {
        let first = rules(&["a", "b"], None);
        let second = rules(&["c", "b"], Some(&first));
        let third = rules(&["c"], Some(&second));
        let one = Table::of(&first, None);
        let two = Table::of(&second, Some(&one));
        let three = Table::of(&third, Some(&two));
        let b = observed(&one, &first, "b").unwrap();
        assert!(Arc::ptr_eq(b, observed(&two, &second, "b").unwrap()));
        assert_eq!(observed(&two, &second, "c").unwrap().rule, "c");
        // What the first set has decided, and is observed only now.
        assert_eq!(observed(&two, &first, "a").unwrap().rule, "a");
        assert_eq!(observed(&three, &second, "b").unwrap().rule, "b");
        assert!(observed(&three, &first, "a").is_none());
        assert_eq!(three.of_series(Series::PER_CALL).unwrap().limit, "throttle");
    }

    #[test]
    fn a_table_does_not_grow_with_the_number_of_sets() {
        let mut before = rules(&["r0"], None);
        let mut table = Table::of(&before, None);
        for number in 1..100 {
            let next = rules(&[format!("r{number}").as_str()], Some(&before));
            table = Table::of(&next, Some(&table));
            before = next;
        }
        assert_eq!(table.limits.iter().flatten().count(), 3);
        assert_eq!(table.limits.len(), 3);
    }
}
