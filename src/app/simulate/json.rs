//! The report for programs.

use serde_json::{Value, json};

use super::advice::{Choice, advise};
use super::bench::Row;
use super::mode::mode_name;
use super::plan::Plan;
use super::values::shape_text;
use crate::simulation::Over;
use crate::units::Nanos;

/// What was simulated, a row for each interval and mode, and what is recommended.
/// Errors and usage are parts of the limit, times milliseconds.
pub(super) fn object(plan: &Plan, rows: &[Row]) -> Value {
    let common = &plan.common;
    let advice = advise(rows, plan.target);
    json!({
        "scenario": {
            "nodes": common.nodes,
            "rate": common.rate,
            "times_the_limit": common.rate / plan.admitted_per_second(),
            "shape": shape_text(common.shape),
            "keys": common.keys,
            "zipf": common.zipf,
            "algorithm": common.algorithm.name(),
            "limit": common.limit,
            "window_ms": millis(common.window),
            "burst": common.burst,
            "rtt_ms": millis(common.network.round_trip),
            "jitter_ms": millis(common.network.jitter),
            "loss": common.network.loss,
            "windows": common.windows,
            "sample": plan.sampled(),
            "seed": common.seed,
        },
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "target_over": plan.target,
        "recommended": advice.iter().map(|advice| {
            let (found, row) = match advice.choice {
                Choice::Within(row) => ("within_target", row),
                Choice::None(row) => ("none_within_target", row),
                Choice::NeverFull(row) => ("never_full", row),
                Choice::Asked(row) => ("no_interval_to_choose", row),
            };
            json!({
                "mode": mode_name(advice.mode),
                "found": found,
                "sync_interval_ms": millis(row.every),
                "over_worst": row.figures.over.worst,
                "commands_per_second": row.figures.commands_per_second(),
            })
        }).collect::<Vec<_>>(),
        "again": plan.command(),
    })
}

#[allow(clippy::cast_precision_loss)] // Figures for people.
fn row(row: &Row) -> Value {
    let figures = &row.figures;
    let a_second = |count: u64| count as f64 / figures.seconds.max(f64::MIN_POSITIVE);
    let known = |figure: f64| row.knows_cost().then_some(figure);
    json!({
        "mode": mode_name(row.mode),
        "sync_interval_ms": millis(row.every),
        "over": over(&figures.over),
        "cold": over(&figures.cold),
        "worst_moment": figures.worst.map(|worst| json!({
            "over": worst.over,
            "caller": worst.caller,
            "after_ms": worst.after.as_secs_f64() * 1e3,
        })),
        "used": figures.used,
        "checks": figures.checks,
        "admitted": figures.admitted,
        "refused": figures.refused,
        "wrongly_refused": figures.wrongly_refused,
        "wrongly_refused_part": figures.wrongly_refused_part(),
        "unavailable": figures.unavailable,
        "commands_per_second": figures.commands_per_second(),
        "batches_per_second": a_second(figures.batches),
        "deltas_per_second": a_second(figures.deltas),
        "hellos_per_second": a_second(figures.hellos),
        "pushes_per_second": a_second(figures.pushes),
        "asked_per_second": a_second(figures.asked),
        "bytes_sent_per_second": known(a_second(figures.bytes_sent)),
        "bytes_received_per_second": known(a_second(figures.bytes_received)),
        "store_busy": known(figures.store_busy),
        "stale_mean_ms": figures.stale_mean * 1e3,
        "stale_max_ms": figures.stale_max * 1e3,
        "plain": {
            "over": row.plain_over,
            "commands_per_second": row.plain_commands,
        },
    })
}

/// `null` where there was no window in which anything could be exceeded.
fn over(over: &Over) -> Value {
    match over.windows {
        0 => Value::Null,
        windows => json!({
            "windows": windows,
            "mean": over.mean,
            "p99": over.p99,
            "worst": over.worst,
        }),
    }
}

fn millis(span: Nanos) -> u64 {
    span.as_millis_ceil()
}
