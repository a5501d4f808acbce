//! Simulating a fleet, to choose how often it syncs.

mod advice;
mod args;
mod bench;
mod chart;
mod fault;
mod json;
mod law;
mod mode;
mod plan;
mod progress;
mod table;
mod values;

pub(super) use args::{LONG, NOTES, SimulateArgs};

use args::Format;
use fault::SimulateFault;
use plan::Plan;

use super::cli::tell;
use super::exit::Exit;
use crate::simulation::{Scenario, Until};

/// Simulates, and prints what it found.
pub(super) fn simulate(args: &SimulateArgs) -> Exit {
    let plan = match Plan::of(args) {
        Ok(plan) => plan,
        Err(faults) => return tell(&faults),
    };
    match report(args, &plan) {
        Ok(text) => {
            println!("{text}");
            Exit::Done
        }
        Err(fault) => tell(&[fault]),
    }
}

fn report(args: &SimulateArgs, plan: &Plan) -> Result<String, SimulateFault> {
    if let Some(until) = args.until {
        return traced(plan, until);
    }
    let rows = bench::run(plan, args.threads(), args.tells_progress())?;
    if let Some(path) = &args.svg {
        std::fs::write(path, chart::draw(plan, &rows)).map_err(|source| {
            SimulateFault::Unwritable {
                path: path.clone(),
                source,
            }
        })?;
    }
    Ok(match args.format {
        Format::Text => table::text(plan, &rows),
        Format::Json => json::object(plan, &rows).to_string(),
    })
}

/// What happened in the first of the rows up to some moment.
fn traced(plan: &Plan, until: Until) -> Result<String, SimulateFault> {
    let rows = plan.scenarios();
    let slices = rows.first().map(Scenario::slices).unwrap_or_default();
    let scenario = slices.first().ok_or(SimulateFault::OverBefore)?;
    let told = scenario.trace(until)?.ok_or(SimulateFault::OverBefore)?;
    Ok(format!("{}\n\n{told}", table::heading(plan)))
}
