//! Running all scenarios, on the cores that there are.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::fault::SimulateFault;
use super::law::Plain;
use super::plan::Plan;
use super::progress::Display;
use crate::simulation::{Figures, Measured, Progress, Scenario, SimulationError};
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

impl Row {
    /// Whether each check was put to the store, so that the interval is of no account.
    pub(super) fn is_asked(&self) -> bool {
        self.mode == Consistency::Strict
    }

    /// Whether it is known how busy the store is, and with how many bytes: what single
    /// checks cost it is not measured.
    pub(super) fn knows_cost(&self) -> bool {
        self.figures.asked == 0 && !self.is_asked()
    }
}

enum Word {
    Progress(usize, Progress),
    End(usize, Box<Result<Measured, SimulationError>>),
}

/// Simulates everything, a large fleet slice by slice. The rows are in the order of the
/// plan, and the same for any number of threads: each slice has chance of its own, and
/// what is measured is joined in their order.
///
/// # Errors
/// [`SimulateFault`] if the simulation does not want one of them.
pub(super) fn run(
    plan: &Plan,
    threads: NonZeroUsize,
    tells: bool,
) -> Result<Vec<Row>, SimulateFault> {
    let scenarios = plan.scenarios();
    let some = |scenario: &Scenario| scenario.slices().into_iter().take(plan.slices);
    let slices: Vec<Scenario> = scenarios.iter().flat_map(some).collect();
    let threads = threads.get().min(slices.len());
    let mut measured: Vec<Option<Measured>> = vec![None; slices.len()];
    let mut display = tells.then(|| Display::of(slices.len()));
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (said, words) = mpsc::channel();
        for _ in 0..threads {
            let said = said.clone();
            scope.spawn(|| work(&slices, &next, said));
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
                        next.store(slices.len(), Ordering::Relaxed);
                    });
                    measured[number] = Some(ended?);
                }
            }
        }
        Ok::<(), SimulateFault>(())
    })?;
    drop(display);
    let plain = Plain::of(&plan.common);
    let mut measured = measured.into_iter().flatten();
    let row = |scenario: &Scenario| {
        let all = scenario.slices().len();
        let slices = measured.by_ref().take(plan.slices);
        let measured = slices.reduce(Measured::join)?;
        let measured = measured.scaled(all as u64, plan.slices as u64);
        let every = scenario.pace.interval;
        Some(Row {
            mode: scenario.consistency,
            every,
            figures: measured.figures(),
            plain_over: plain.over(every),
            plain_commands: plain.commands(every),
        })
    };
    Ok(scenarios.iter().filter_map(row).collect())
}

/// Simulates what nobody else has begun, until nothing is left.
fn work(scenarios: &[Scenario], next: &AtomicUsize, said: mpsc::Sender<Word>) {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(scenario) = scenarios.get(number) else {
            return;
        };
        let ended = scenario.measure(|progress| {
            // Who does not listen any more has met with a fault.
            let _closed = said.send(Word::Progress(number, progress));
        });
        let _closed = said.send(Word::End(number, Box::new(ended)));
    }
}
