//! What has just happened, and how everything stands: for looking into one run.

use std::collections::VecDeque;
use std::fmt;

use super::super::node::{Message, Reply};
use super::super::store::Value;
use super::World;
use super::events::Happening;
use crate::units::Nanos;

/// Up to where a run is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// With this step.
    Step(u64),
    /// So long after the first check.
    After(Nanos),
}

/// The last things that happened, up to some moment, and how everything stood then.
#[derive(Debug)]
pub(super) struct Trace {
    until: Until,
    lines: VecDeque<String>,
    /// Checks refused since the last line: they would drive out all others.
    refused: u64,
    state: Option<String>,
}

/// So many things are told.
const TOLD: usize = 40;
/// So many callers are.
const CALLERS: u32 = 4;

impl World {
    /// From now on remembers the last things that happened up to `until`, and how
    /// everything stood then. [`World::place`] and [`World::traced`] tell of it.
    pub fn trace(&mut self, until: Until) {
        self.trace = Some(Trace {
            until,
            lines: VecDeque::new(),
            refused: 0,
            state: None,
        });
    }

    /// What [`World::trace`] remembers, once it has come so far.
    pub fn traced(&self) -> Option<String> {
        let trace = self.trace.as_ref()?;
        let state = trace.state.as_ref()?;
        Some(trace.text(state))
    }

    /// Where it stands, for telling where something went wrong; with what is traced.
    pub fn place(&self) -> String {
        let mut place = self.position();
        if let Some(trace) = &self.trace {
            let state = || trace.state.clone().unwrap_or_else(|| self.state());
            place.push('\n');
            place.push_str(&trace.text(&state()));
        }
        place
    }

    fn position(&self) -> String {
        let passed = self.now.since(self.start);
        let (seed, step) = (self.scenario.seed, self.steps);
        format!("seed {seed}, step {step}, {passed} after the start")
    }

    /// The next thing happens, of which `tell` tells.
    pub(super) fn step(&mut self, tell: impl FnOnce(&World) -> String) {
        if let Some(mut trace) = self.trace.take() {
            if self.is_traced(&mut trace) {
                let passed = millis(self.now.since(self.start));
                let line = format!("step {}, {passed}: {}", self.steps + 1, tell(self));
                trace.note(line);
            }
            self.trace = Some(trace);
        }
        self.steps += 1;
    }

    /// The next thing is a refusal.
    pub(super) fn step_refused(&mut self) {
        if let Some(mut trace) = self.trace.take() {
            if self.is_traced(&mut trace) {
                trace.refused += 1;
            }
            self.trace = Some(trace);
        }
        self.steps += 1;
    }

    /// Whether the next thing is told, too. If not, how everything stands is.
    fn is_traced(&self, trace: &mut Trace) -> bool {
        let over = match trace.until {
            Until::Step(step) => self.steps >= step,
            Until::After(span) => self.now > self.start.after(span),
        };
        if over && trace.state.is_none() {
            trace.state = Some(self.state());
        }
        !over
    }

    /// How everything stands.
    fn state(&self) -> String {
        let mut lines = vec![self.position()];
        lines.extend((0..self.places.len()).map(|node| self.node_line(node)));
        let store = match (self.stopped, self.stalled) {
            (0, 0) => "up",
            (0, _) => "stalled",
            _ => "stopped",
        };
        let (life, busy) = (self.store_life, self.store_free.since(self.now));
        lines.push(format!("store: {store}, life {life}; busy for {busy}"));
        let callers = self.scenario.keys.min(CALLERS);
        let known = (0..callers).filter(|place| (*place as usize) < self.sliced.count());
        lines.extend(known.map(|place| self.caller_line(place)));
        lines.join("\n")
    }

    fn node_line(&self, node: usize) -> String {
        let place = &self.places[node];
        let Some(present) = &place.node else {
            return format!("node {node}: away");
        };
        let fleet = present.engine.counters().fleet();
        format!(
            "node {node}: {}, life {}; knows {} nodes, takes the store as {:?} and {} away; {} \
             exchanges under way, {} cells to look at",
            match (present.connection(), place.parted) {
                (None, _) => "not connected",
                (Some(_), 0) => "connected",
                (Some(_), _) => "parted from the store",
            },
            place.life,
            fleet.nodes(),
            fleet.health(),
            millis(fleet.trip()),
            present.under_way(),
            present.engine.counters().dirty(),
        )
    }

    fn caller_line(&self, place: u32) -> String {
        let number = self.sliced.number(place);
        let used = self.truth.peek(place, self.now);
        let limit = &self.limits[0];
        let key = World::key(limit, number);
        let stored = self.store.contents(self.now).flat_map(|(id, _, cells)| {
            let window = id.slot.window.get();
            let here = cells.filter(move |(of, _)| *of == key);
            here.map(move |(_, value)| match value {
                Value::Count(count) => format!("; in the store {} in window {window}", count.total),
                Value::Debt(bucket) => format!("; in the store a debt of {} ns", bucket.debt),
            })
        });
        let stored: String = stored.collect();
        format!(
            "caller {number}: used {used} of {} in truth{stored}",
            limit.quota.capacity()
        )
    }
}

impl Trace {
    fn note(&mut self, line: String) {
        let refused = std::mem::take(&mut self.refused);
        let before = (refused > 0).then(|| refused_text(refused));
        self.lines.extend(before);
        self.lines.push_back(line);
        while self.lines.len() > TOLD {
            self.lines.pop_front();
        }
    }

    fn text(&self, state: &str) -> String {
        let last = (self.refused > 0).then(|| refused_text(self.refused));
        let lines = self.lines.iter().cloned().chain(last);
        lines.map(|line| line + "\n").collect::<String>() + state
    }
}

fn refused_text(count: u64) -> String {
    format!("(checks refused: {count})")
}

/// Milliseconds, to the microsecond.
pub(super) fn millis(span: Nanos) -> String {
    format!("{:.3} ms", span.as_secs_f64() * 1e3)
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Happening::Starts { node } => write!(f, "node {node} starts"),
            Happening::Ticks { node, .. } => write!(f, "node {node} looks what to send"),
            Happening::Sweeps { node, turn, .. } => write!(f, "node {node} sweeps, turn {turn}"),
            Happening::Dials { node, .. } => write!(f, "node {node} connects"),
            Happening::Dialed { node, failure, .. } => match failure {
                None => write!(f, "node {node} has connected"),
                Some(failure) => write!(f, "node {node} has not connected: {failure}"),
            },
            Happening::Reaches { way, message, .. } => {
                write!(f, "node {}'s {message} reaches the store", way.node)
            }
            Happening::Returns { way, reply, .. } => write!(f, "node {} hears {reply}", way.node),
            Happening::Listens { node, .. } => write!(f, "node {node} listens"),
            Happening::Hears {
                node, announced, ..
            } => write!(
                f,
                "node {node} hears that a caller's limit is {:?}, with {} used",
                announced.level, announced.total
            ),
            Happening::Begins { fault } => write!(f, "fault {fault} begins"),
            Happening::Ends { fault } => write!(f, "fault {fault} ends"),
            Happening::Dumps { fault } => write!(f, "fault {fault} will bring back this store"),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Message::Batch(batch, _) = self else {
            return f.write_str("hello");
        };
        write!(f, "batch {} of ", batch.new.number)?;
        match batch.cells.as_slice() {
            [(_, delta)] => write!(f, "cost {}", delta.cost),
            cells => write!(f, "{} cells", cells.len()),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Batch(reply) => write!(f, "the totals {:?}", reply.totals),
            Reply::Hello(reply, _) => write!(f, "of {} nodes", reply.nodes),
            Reply::Failed(failure) => write!(f, "nothing: {failure}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::Scenario;
    use super::*;

    #[test]
    fn the_last_things_up_to_a_step_are_told_and_the_run_stays_the_same() {
        let run = |until: Option<Until>| {
            let mut world = World::new(&Scenario::default()).unwrap();
            until.into_iter().for_each(|until| world.trace(until));
            world.run_until(world.start().after(Nanos::from_secs(2)));
            let (traced, place) = (world.traced(), world.place());
            (traced, place, world.figures())
        };
        let (_, place, plain) = run(None);
        assert!(place.ends_with(", 2s after the start"), "{place}");
        let (traced, _, figures) = run(Some(Until::Step(900)));
        let traced = traced.unwrap();
        let lines: Vec<&str> = traced.lines().collect();
        let state = lines
            .iter()
            .position(|line| line.starts_with("seed 1, step 900, "));
        let state = state.unwrap();
        assert!((10..=TOLD + 1).contains(&state), "{traced}");
        assert_eq!(
            lines.len(),
            state + 1 + 4 + 1 + 1,
            "nodes, store, caller: {traced}"
        );
        assert_eq!(figures, plain);
        let (none, place, _) = run(Some(Until::Step(u64::MAX)));
        assert_eq!(none, None);
        assert!(
            place.contains("\nstep ") && place.contains("\nnode 3: connected"),
            "{place}"
        );
    }
}
