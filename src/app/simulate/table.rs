//! The report for people.

use std::fmt::Write as _;

use super::advice::{Choice, advise, rounded};
use super::bench::Row;
use super::law::Plain;
use super::mode::mode_name;
use super::plan::Plan;
use super::values::{percent_text, shape_text};
use crate::simulation::Over;
use crate::units::{Algorithm, Consistency, Nanos};

/// What was simulated, the table, and what to make of it.
pub(super) fn text(plan: &Plan, rows: &[Row]) -> String {
    let table = table(plan, rows);
    format!(
        "{}\n\n{table}\n{}\nagain: {}",
        heading(plan),
        advice(plan, rows),
        plan.command()
    )
}

#[allow(clippy::cast_precision_loss)] // For people.
pub(super) fn heading(plan: &Plan) -> String {
    let common = &plan.common;
    let mut heading = format!(
        "{} of {} in {}",
        common.algorithm.name(),
        grouped(common.limit as f64),
        common.window
    );
    if let Some(burst) = common.burst {
        let _infallible = write!(heading, ", burst {}", grouped(burst as f64));
    }
    if let [mode] = plan.modes.as_slice() {
        let _infallible = write!(heading, ", {}", mode_name(*mode));
    }
    let _infallible = write!(
        heading,
        "; {}, {} checks/s ({} times the limit), {}",
        counted(common.nodes, "node"),
        grouped(common.rate),
        short(common.rate / plan.admitted_per_second()),
        shape_text(common.shape)
    );
    if common.keys > 1 {
        let keys = grouped(f64::from(common.keys));
        let _infallible = write!(heading, "; {keys} callers, zipf {}", common.zipf);
    }
    let network = &common.network;
    let _infallible = write!(heading, "; round trip {}", network.round_trip);
    if !network.jitter.is_zero() {
        let _infallible = write!(heading, ", jitter {}", network.jitter);
    }
    if network.loss > 0.0 {
        let _infallible = write!(heading, ", loss {}", percent_text(network.loss));
    }
    if plan.sampled() < 1.0 {
        let part = percent_text(plan.sampled());
        let _infallible = write!(heading, "; measured on {part} of the callers");
    }
    let windows = counted(common.windows, "window");
    let _infallible = write!(heading, "; {windows} after the first; seed {}", common.seed);
    // Where a line would be long, a semicolon ends it.
    let mut lines = String::new();
    let mut length = 0;
    for part in heading.split("; ") {
        if length > 0 && length + part.len() > WIDTH {
            lines.push_str(";\n");
            length = 0;
        } else if length > 0 {
            lines.push_str("; ");
        }
        lines.push_str(part);
        length += part.len() + 2;
    }
    lines
}

/// How long a line of the heading gets.
const WIDTH: usize = 98;

/// The columns: what they are about together, their own heading, and their width.
const COLUMNS: [(&str, &str, usize); 14] = [
    ("sync", "every", 6),
    ("over", "mean", 8),
    ("", "p99", 7),
    ("", "worst", 7),
    ("", "cold", 7),
    ("", "used", 6),
    ("", "refused", 8),
    ("store", "commands/s", 11),
    ("", "busy", 6),
    ("", "bytes/s", 9),
    ("age", "mean", 7),
    ("", "worst", 7),
    ("plain", "over", 7),
    ("", "commands/s", 11),
];

fn table(plan: &Plan, rows: &[Row]) -> String {
    let several = plan.modes.len() > 1;
    let mode = |text: &str| match several {
        true => format!("{text:<11} "),
        false => String::new(),
    };
    let mut text = mode("");
    for (group, _, width) in COLUMNS {
        // A group's heading stands over its first column.
        let _infallible = write!(text, "{group:>width$}");
    }
    text = format!("{}\n{}", text.trim_end(), mode("mode"));
    for (_, name, width) in COLUMNS {
        let _infallible = write!(text, "{name:>width$}");
    }
    text.push('\n');
    for row in rows {
        text.push_str(&mode(mode_name(row.mode)));
        for (cell, (_, _, width)) in cells(row).into_iter().zip(COLUMNS) {
            let _infallible = write!(text, "{cell:>width$}");
        }
        text.push('\n');
    }
    text
}

fn cells(row: &Row) -> [String; 14] {
    let figures = &row.figures;
    let known = |text: String| match row.knows_cost() {
        true => text,
        false => NONE.to_owned(),
    };
    let over = |over: &Over, of: fn(&Over) -> f64| match over.windows {
        0 => NONE.to_owned(),
        _ => percent(of(over)),
    };
    [
        row.every.to_string(),
        over(&figures.over, |over| over.mean),
        over(&figures.over, |over| over.p99),
        over(&figures.over, |over| over.worst),
        over(&figures.cold, |over| over.worst),
        match figures.over.windows {
            0 => NONE.to_owned(),
            _ => percent(figures.used),
        },
        percent(figures.wrongly_refused_part()),
        grouped(figures.commands_per_second()),
        known(percent(figures.store_busy)),
        known(bytes(figures.bytes_per_second())),
        seconds(figures.stale_mean),
        seconds(figures.stale_max),
        row.plain_over.map_or_else(|| NONE.to_owned(), percent),
        grouped(row.plain_commands),
    ]
}

/// What there is nothing to say of.
const NONE: &str = "-";

#[allow(clippy::cast_precision_loss)] // For people.
fn advice(plan: &Plan, rows: &[Row]) -> String {
    let plain = Plain::of(&plan.common);
    let target = percent_text(plan.target);
    let mut text = String::new();
    for advice in advise(rows, plan.target) {
        let row = advice.choice.row();
        let (every, figures) = (row.every, &row.figures);
        let commands = grouped(figures.commands_per_second());
        let mode = mode_name(advice.mode);
        let worst = percent(figures.over.worst);
        let said = match advice.choice {
            Choice::Within(_) => format!(
                "{mode}: --sync-interval {every} is the longest whose worst window is at most \
                 {target} over:\n  {worst}, for {commands} commands/s.{}",
                plain_for(&plain, figures.over.mean)
            ),
            Choice::None(_) => format!(
                "{mode}: no interval here keeps the worst window within {target}; nearest is \
                 --sync-interval {every}:\n  {worst}, for {commands} commands/s.{}{}",
                one_check(plan),
                instead(plan, advice.mode),
            ),
            Choice::Asked(_) => format!(
                "{mode}: each check is put to the store, whatever the interval, and waits {} \
                 and more for it:\n  {worst} over, for {commands} commands/s.",
                plan.common.network.round_trip
            ),
            Choice::NeverFull(_) => format!(
                "{mode}: nobody wanted more than the limit, so no interval exceeds it; the \
                 longest,\n  --sync-interval {every}, wrongly refused {} for {commands} commands/s.",
                percent(figures.wrongly_refused_part())
            ),
        };
        text.push_str(&said);
        text.push('\n');
        if figures.asked > 0 && !row.is_asked() {
            let part = percent(figures.asked as f64 / figures.checks.max(1) as f64);
            let trip = plan.common.network.round_trip;
            let _infallible = writeln!(
                text,
                "  {part} of the checks were put to the store, and wait {trip} and more for it."
            );
        }
        if let Some(worst) = figures.worst.filter(|_| plan.common.slices().len() == 1) {
            let _infallible = writeln!(
                text,
                "  Its worst moment: add --consistency {mode} --sync-interval {every} --until {}",
                Nanos::from_millis(worst.after.as_millis_ceil())
            );
        }
    }
    for row in rows
        .iter()
        .filter(|row| row.figures.store_busy > OVERLOADED)
    {
        let (mode, every) = (mode_name(row.mode), row.every);
        let _infallible = writeln!(
            text,
            "{mode} every {every}: the store is busy {} of the time and falls behind, which \
             makes these\n  figures worse; one Redis is too little for this fleet.",
            percent(row.figures.store_busy)
        );
    }
    text
}

/// A store that is busy for this part of the time keeps its callers waiting.
const OVERLOADED: f64 = 0.9;

/// What a plain limiter would cost that is as exact on average.
fn plain_for(plain: &Plain, over: f64) -> String {
    match plain.interval_for(over).map(rounded) {
        Some(every) if every >= Nanos::from_millis(1) => format!(
            " A plain limiter as exact on average\n  needs an interval of {every}: {} commands/s.",
            grouped(plain.commands(every))
        ),
        Some(_) => " No plain limiter is as exact on average\n  with an interval of 1ms or more."
            .to_owned(),
        None => String::new(),
    }
}

/// What a small limit cannot do.
#[allow(clippy::cast_precision_loss)] // For people.
fn one_check(plan: &Plan) -> String {
    let part = 1.0 / plan.common.burst.unwrap_or(plan.common.limit) as f64;
    match part > plan.target {
        true => format!(" One check is {} of it.", percent(part)),
        false => String::new(),
    }
}

/// What exceeds nothing.
fn instead(plan: &Plan, mode: Consistency) -> &'static str {
    let lends = matches!(
        plan.common.algorithm,
        Algorithm::FixedWindow | Algorithm::SlidingWindow
    );
    match mode {
        Consistency::Approximate | Consistency::Local if lends => {
            "\n  Try shorter ones; --consistency bounded or strict exceeds nothing."
        }
        Consistency::Approximate | Consistency::Local => {
            "\n  Try shorter ones; --consistency strict exceeds nothing."
        }
        _ => "",
    }
}

fn counted(count: u32, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(f64::from(count)))
}

/// A part as a percentage of few digits.
pub(super) fn percent(part: f64) -> String {
    let percent = part * 100.0;
    let digits = match percent {
        0.0 => 0,
        _ if percent < 9.995 => 2,
        _ if percent < 99.95 => 1,
        _ => 0,
    };
    format!("{percent:.digits$}%")
}

/// A whole number with commas; one below ten with a digit more.
pub(super) fn grouped(number: f64) -> String {
    let text = if number < 9.95 && number.fract() != 0.0 {
        return format!("{number:.1}");
    } else {
        format!("{number:.0}")
    };
    let mut grouped = String::new();
    for (place, digit) in text.chars().enumerate() {
        if place > 0 && (text.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number of at most two digits after the point.
pub(super) fn short(number: f64) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

fn bytes(count: f64) -> String {
    let mut rest = count;
    for unit in ["B", "kB", "MB"] {
        if rest < 999.5 {
            return format!("{} {unit}", grouped(rest));
        }
        rest /= 1_000.0;
    }
    format!("{} GB", grouped(rest))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Casts saturate.
fn seconds(seconds: f64) -> String {
    if seconds < 0.9995 {
        format!("{}ms", grouped(seconds * 1e3))
    } else if seconds < 99.95 {
        format!("{seconds:.1}s")
    } else {
        Nanos::from_secs(seconds.round() as u64)
            .rounded()
            .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_as_many_digits_as_they_need() {
        let parts = [0.0, 0.00123, 0.1234, 1.5];
        assert_eq!(parts.map(percent), ["0%", "0.12%", "12.3%", "150%"]);
        let numbers = [0.0, 4.56, 999.0, 1_000.0, 1_234_567.0];
        assert_eq!(
            numbers.map(grouped),
            ["0", "4.6", "999", "1,000", "1,234,567"]
        );
        assert_eq!([2.0, 0.9, 10.0].map(short), ["2", "0.9", "10"]);
        assert_eq!(
            [12.0, 1_234.0, 45e6].map(bytes),
            ["12 B", "1.2 kB", "45 MB"]
        );
        let times = [0.0012, 0.5, 2.04, 171.5, 90_061.0];
        assert_eq!(
            times.map(seconds),
            ["1.2ms", "500ms", "2.0s", "2m52s", "1d2h"]
        );
    }
}
