#![allow(clippy::disallowed_methods)]
use std::time::Instant;
use tidegate::simulation::{Scenario, Shape};
use tidegate::units::Nanos;
fn main() {
    let args: Vec<f64> = std::env::args()
        .skip(1)
        .map(|a| a.parse().unwrap())
        .collect();
    let s = Scenario {
        nodes: args[0] as u32,
        rate: args[1],
        keys: args[2] as u32,
        zipf: args[3],
        window: Nanos::from_millis(args[4] as u64),
        windows: args[5] as u32,
        shape: Shape::Even,
        ..Scenario::default()
    };
    let t = Instant::now();
    let mut last = 0.0;
    let f = s
        .run(|p| {
            if p.done >= last + 0.1 {
                last = p.done;
                eprintln!("{:.1} {} {:?}", p.done, p.checks, t.elapsed());
            }
        })
        .unwrap();
    let e = t.elapsed();
    let by = f.admitted_by.len();
    println!(
        "{:?}",
        tidegate::simulation::Figures {
            admitted_by: vec![],
            ..f.clone()
        }
    );
    println!(
        "{by} nodes, {:?}, {:.0} checks/s, {:.0} deltas/s of wall",
        e,
        f.checks as f64 / e.as_secs_f64(),
        f.deltas as f64 / e.as_secs_f64()
    );
}
