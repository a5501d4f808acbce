//! Running all scenarios, on the cores that there are.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::fault::SimulateFault;
use super::law::Plain;
use super::plan::Plan;
use super::progress::Display;
use crate::simulation::{Figures, Progress, Scenario, SimulationError};
use crate::units::{Consistency, Nanos};

/// What one interval of one mode came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) mode: Consistency,
    pub(super) every: Nanos,
    pub(super) figures: Figures,
    /// By how much a plain limiter would go over, if it can.
    pub(super) plain_over: Option<f64>,
    /// Commands a second that it would cost.
    pub(super) plain_commands: f64,
}

enum Word {
    Progress(usize, Progress),
    End(usize, Box<Result<Figures, SimulationError>>),
}

/// Simulates everything. The rows are in the order of the plan, and the same for any
/// number of threads: each scenario has chance of its own.
///
/// # Errors
/// [`SimulateFault`] if the simulation does not want one of them.
pub(super) fn run(
    plan: &Plan,
    threads: NonZeroUsize,
    tells: bool,
) -> Result<Vec<Row>, SimulateFault> {
    let scenarios = plan.scenarios();
    let threads = threads.get().min(scenarios.len());
    let mut figures: Vec<Option<Figures>> = vec![None; scenarios.len()];
    let mut display = tells.then(|| Display::of(scenarios.len()));
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (said, words) = mpsc::channel();
        for _ in 0..threads {
            let said = said.clone();
            scope.spawn(|| work(&scenarios, &next, said));
        }
        drop(said);
        for word in words {
            match word {
                Word::Progress(number, progress) => {
                    if let Some(display) = &mut display {
                        display.tell(number, progress);
                    }
                }
                Word::End(number, ended) => {
                    let ended = (*ended).inspect_err(|_| {
                        // What has not begun need not begin any more.
                        next.store(scenarios.len(), Ordering::Relaxed);
                    });
                    figures[number] = Some(ended?);
                }
            }
        }
        Ok::<(), SimulateFault>(())
    })?;
    drop(display);
    let plain = Plain::of(&plan.common);
    let row = |(scenario, figures): (&Scenario, Figures)| {
        let every = scenario.pace.interval;
        Row {
            mode: scenario.consistency,
            every,
            figures,
            plain_over: plain.over(every),
            plain_commands: plain.commands(every),
        }
    };
    Ok(scenarios
        .iter()
        .zip(figures.into_iter().flatten())
        .map(row)
        .collect())
}

/// Simulates what nobody else has begun, until nothing is left.
fn work(scenarios: &[Scenario], next: &AtomicUsize, said: mpsc::Sender<Word>) {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(scenario) = scenarios.get(number) else {
            return;
        };
        let ended = scenario.run(|progress| {
            // Who does not listen any more has met with a fault.
            let _closed = said.send(Word::Progress(number, progress));
        });
        let _closed = said.send(Word::End(number, Box::new(ended)));
    }
}
