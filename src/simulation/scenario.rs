//! What is simulated, and the run of it.

use super::demand::Shape;
use super::fault::Fault;
use super::figures::{Figures, Measured};
use super::network::Network;
use super::node::Skew;
use super::slice::Slice;
use super::world::{Until, World};
use crate::rules::Faults;
use crate::units::{Algorithm, Consistency, Nanos, Pace, Partitions, QuotaError, StoreLoss};

/// A fleet, its limit, and the demand on it. The same scenario gives the same figures.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How many nodes there are.
    pub nodes: u32,
    /// Checks a second of the whole fleet, each of cost 1.
    pub rate: f64,
    /// How the checks are spread over nodes and time.
    pub shape: Shape,
    /// How many callers there are, each with a limit of its own.
    pub keys: u32,
    /// Which of them are simulated: usually all.
    pub slice: Slice,
    /// How unevenly they ask: zero for all alike, 1 for Zipf's law.
    pub zipf: f64,
    /// How the limit counts.
    pub algorithm: Algorithm,
    /// How much it admits in each window.
    pub limit: u64,
    /// Its window, or the time in which a bucket refills by `limit`.
    pub window: Nanos,
    /// The capacity of a bucket, if it is not `limit`.
    pub burst: Option<u64>,
    /// How far from the fleet's truth it may answer.
    pub consistency: Consistency,
    /// What it does while the store is lost.
    pub on_store_loss: StoreLoss,
    /// When costs are sent.
    pub pace: Pace,
    /// The parts that the cells are spread over in the store.
    pub partitions: Partitions,
    /// The way between the nodes and the store.
    pub network: Network,
    /// How long the store takes.
    pub service: Service,
    /// How the nodes' own clocks run, one after the other; those not told of run as
    /// the store's.
    pub skews: Vec<Skew>,
    /// How many windows are simulated after the first one.
    pub windows: u32,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Where all chance comes from.
    pub seed: u64,
}

/// How long the store, which does one thing after the other, takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// For any command: to read it, to run its script, and to answer.
    pub command: Nanos,
    /// For each cell of a batch.
    pub cell: Nanos,
}

impl Default for Service {
    /// About what Redis 7 takes: by its own account 12 µs for the script of one cell and
    /// 1.2 µs for each other one, and as much again for reading and writing.
    fn default() -> Service {
        Service {
            command: Nanos::new(20_000),
            cell: Nanos::new(1_300),
        }
    }
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The part that is done, from 0 to 1.
    pub done: f64,
    /// Checks so far.
    pub checks: u64,
}

/// The faults without their places, which are in a file that nobody wrote.
fn problems(faults: &Faults) -> String {
    let problems: Vec<String> = faults.0.iter().map(|f| f.problem.to_string()).collect();
    problems.join("; ")
}

/// Why nothing can be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The limit makes no sense.
    #[error("the limit cannot be compiled: {problems}", problems = problems(.0))]
    Limit(#[from] Faults),
    /// The limit cannot be computed with.
    #[error("the limit cannot be computed with: {0}")]
    Quota(#[from] QuotaError),
    /// A number is outside of what can be simulated.
    #[error("{0}")]
    Range(&'static str),
}

impl Default for Scenario {
    /// Four nodes with twice the demand that their limit of 1,000 a second admits.
    fn default() -> Scenario {
        Scenario {
            nodes: 4,
            rate: 2_000.0,
            shape: Shape::Even,
            keys: 1,
            slice: Slice::default(),
            zipf: 0.0,
            algorithm: Algorithm::FixedWindow,
            limit: 1_000,
            window: Nanos::from_secs(1),
            burst: None,
            consistency: Consistency::Approximate,
            on_store_loss: StoreLoss::Share,
            pace: Pace::default(),
            partitions: Partitions::default(),
            network: Network::default(),
            service: Service::default(),
            skews: Vec::new(),
            windows: 20,
            faults: Vec::new(),
            seed: 1,
        }
    }
}

impl Scenario {
    /// Simulates it. `progress` is told now and then how far it has come.
    ///
    /// # Errors
    /// [`SimulationError`] if it makes no sense; nothing was simulated.
    pub fn run(&self, progress: impl FnMut(Progress)) -> Result<Figures, SimulationError> {
        self.measure(progress).map(Measured::figures)
    }

    /// The same, for what is measured to be joined with other slices of the keys.
    ///
    /// # Errors
    /// [`SimulationError`] if it makes no sense; nothing was simulated.
    pub fn measure(&self, mut progress: impl FnMut(Progress)) -> Result<Measured, SimulationError> {
        let mut world = World::new(self)?;
        self.walk(&mut world, |world, done| {
            progress(Progress {
                done,
                checks: world.checks(),
            });
            true
        });
        Ok(world.measured())
    }

    /// Simulates it up to `until`, and tells what happened last and how everything stood
    /// then. `None` if it is over before.
    ///
    /// # Errors
    /// [`SimulationError`] if it makes no sense; nothing was simulated.
    pub fn trace(&self, until: Until) -> Result<Option<String>, SimulationError> {
        let mut world = World::new(self)?;
        world.trace(until);
        let mut traced = None;
        self.walk(&mut world, |world, _| {
            traced = world.traced();
            traced.is_none()
        });
        Ok(traced)
    }

    /// Runs `world` up to the end, and asks now and then whether to go on; with the part
    /// that is done.
    fn walk(&self, world: &mut World, mut goes_on: impl FnMut(&World, f64) -> bool) {
        let span = self.window.times(u64::from(self.windows) + 1);
        let start = world.start();
        let mut passed = Nanos::ZERO;
        // A thousand times, but no more often than ten times in a second of it.
        let tenth = Nanos::from_millis(100);
        let step = tenth.times(span.get() / 1_000 / tenth.get() + 1);
        while passed < span {
            passed = passed.plus(step).min(span);
            world.run_until(start.after(passed));
            if !goes_on(world, passed.as_secs_f64() / span.as_secs_f64()) {
                return;
            }
        }
    }

    /// Whether it makes sense.
    pub(super) fn check(&self) -> Result<(), SimulationError> {
        let range = |holds: bool, what| {
            if holds {
                Ok(())
            } else {
                Err(SimulationError::Range(what))
            }
        };
        range(
            (1..=10_000).contains(&self.nodes),
            "nodes: from 1 to 10,000",
        )?;
        range(
            (1..=100_000_000).contains(&self.keys),
            "keys: from 1 to 100,000,000",
        )?;
        range(
            (0.0..=1e9).contains(&self.rate),
            "rate: up to 1,000,000,000 a second",
        )?;
        range((0.0..=10.0).contains(&self.zipf), "zipf: from 0 to 10")?;
        range(
            (0.0..1.0).contains(&self.network.loss),
            "loss: from 0 to below 1",
        )?;
        let named = |fault: &Fault| fault.trouble.nodes().all(|n| n < self.nodes as usize);
        range(
            self.faults.iter().all(named),
            "a fault of a node that there is not",
        )?;
        let slow = |skew: &Skew| skew.drift.abs() <= 100_000;
        range(
            self.skews.iter().all(slow),
            "drift: up to 100,000 millionths",
        )
    }

    /// The rule file with the limit.
    pub(super) fn rules(&self) -> String {
        let consistency = self.consistency.name();
        let loss = match self.on_store_loss {
            StoreLoss::Local => "local",
            StoreLoss::Share => "share",
            StoreLoss::Open => "open",
            StoreLoss::Closed => "closed",
        };
        let burst = self
            .burst
            .map_or(String::new(), |burst| format!(", burst: {burst}"));
        format!(
            "rules:\n- name: {RULE}\n  algorithm: {algorithm}\n  consistency: {consistency}\n  \
             on_store_loss: {loss}\n  limits:\n    default:\n    \
             - {{ requests: {limit}, window: {window}{burst} }}\n",
            algorithm = self.algorithm.name(),
            limit = self.limit,
            window = self.window,
        )
    }
}

/// The rule that is asked.
pub(super) const RULE: &str = "simulated";

#[cfg(test)]
mod tests {
    use super::super::fault::Trouble;
    use super::*;

    #[test]
    fn progress_is_told_up_to_the_end() {
        let scenario = Scenario {
            windows: 1,
            ..Scenario::default()
        };
        let mut told = Vec::new();
        let figures = scenario.run(|progress| told.push(progress)).unwrap();
        assert!(told.is_sorted_by(|a, b| a.done < b.done && a.checks <= b.checks));
        let last = told.last().unwrap();
        assert_eq!((last.done, last.checks), (1.0, figures.checks));
        assert_eq!((figures.seconds, figures.nodes), (2.0, 4));
        assert_eq!(figures.admitted_by.iter().sum::<u64>(), figures.admitted);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let fails = |scenario: Scenario| match scenario.run(|_| ()) {
            Err(error) => error.to_string(),
            Ok(_) => String::new(),
        };
        let usual = Scenario::default;
        let none = Scenario {
            nodes: 0,
            ..usual()
        };
        assert_eq!(fails(none), "nodes: from 1 to 10,000");
        let short = Scenario {
            window: Nanos::new(1),
            ..usual()
        };
        assert!(fails(short).starts_with("the limit cannot be compiled"));
        let fault = Fault {
            after: Nanos::ZERO,
            trouble: Trouble::NodeCrashes {
                node: 4,
                away: Nanos::ZERO,
            },
        };
        let stranger = Scenario {
            faults: vec![fault],
            ..usual()
        };
        assert_eq!(fails(stranger), "a fault of a node that there is not");
        let rate = Scenario {
            rate: f64::NAN,
            ..usual()
        };
        assert!(fails(rate).starts_with("rate"));
    }
}
