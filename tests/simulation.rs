//! Fleets in virtual time, many of them, each replayable by its seed.

// Tests assert by panicking.
#![allow(clippy::unwrap_used, clippy::panic)]

use tidegate::simulation::Scenario;

#[test]
fn a_scenario_gives_the_same_figures_every_time() {
    let scenario = Scenario::default();
    let first = scenario.run(|_| ()).unwrap();
    assert_eq!(scenario.run(|_| ()).unwrap(), first);
    println!("{first:#?}");
}
