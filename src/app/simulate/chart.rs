//! The trade-off, drawn: how much the limit is exceeded, and what the store is asked,
//! against the interval.
//!
//! Nothing in it comes from outside but numbers, so nothing needs to be escaped.

mod scale;

use std::fmt::{self, Write};

use super::bench::Row;
use super::mode::mode_name;
use super::plan::Plan;
use super::table::{grouped, percent, short};
use super::values::{percent_text, shape_text};
use crate::units::{Consistency, Nanos};
use scale::Scale;

/// The drawing's size, and where its two panels are.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 684.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 732.0;
const OVER: (f64, f64) = (152.0, 366.0);
const COMMANDS: (f64, f64) = (446.0, 620.0);

/// A draft of the drawing.
type Drawn = Result<String, fmt::Error>;

/// The drawing, as a whole SVG document.
pub(super) fn draw(plan: &Plan, rows: &[Row]) -> String {
    // Writing to a text never fails.
    document(plan, rows).unwrap_or_default()
}

/// Colours that can be read on white and on black alike; where the reader's preference
/// is known, text and lines are clearer.
const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#76808c}\
.title{font-size:17px;font-weight:600}.head{font-size:14px;font-weight:600}\
.grid{stroke:#8b949e;stroke-opacity:.28}.axis{stroke:#8b949e}\
.line{fill:none;stroke-width:2.5;stroke-linejoin:round;stroke-linecap:round}\
.fine{stroke-width:1.5;stroke-opacity:.75}.plain{stroke:#8b949e;stroke-dasharray:6 5}\
.target{stroke:#d1495b;stroke-dasharray:2 4;stroke-width:1.5}.wanted{fill:#d1495b}\
.m0{stroke:#2f81f7}.m1{stroke:#2da44e}.m2{stroke:#bf8700}.m3{stroke:#a371f7}\
.d0{fill:#2f81f7}.d1{fill:#2da44e}.d2{fill:#bf8700}.d3{fill:#a371f7}.hollow{fill:none;stroke-width:1.5}\
.grey{fill:#8b949e}.value{font-size:12px;font-weight:600}\
@media(prefers-color-scheme:light){text{fill:#57606a}.title,.head{fill:#24292f}}\
@media(prefers-color-scheme:dark){text{fill:#9da7b3}.title,.head{fill:#e6edf3}}";

#[allow(clippy::cast_precision_loss)] // For people.
fn document(plan: &Plan, rows: &[Row]) -> Drawn {
    let common = &plan.common;
    let title = format!(
        "{} of {} in {}: {} nodes, {} times the limit",
        common.algorithm.name(),
        grouped(common.limit as f64),
        common.window,
        common.nodes,
        short(common.rate / plan.admitted_per_second()),
    );
    let mut svg = String::new();
    write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-labelledby=\"t d\">\n\
         <title id=\"t\">Over-admission and commands by sync interval; {title}</title>\n\
         <desc id=\"d\">{}</desc>\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"24\" y=\"34\">{title}</text>\n\
         <text x=\"24\" y=\"56\">{} checks/s, {}; round trip {}; {} windows, seed {}</text>\n",
        description(rows),
        grouped(common.rate),
        shape_text(common.shape),
        common.network.round_trip,
        common.windows,
        common.seed,
    )?;
    legend(plan, &mut svg)?;
    let across = across(&plan.intervals);
    let panel = Panel {
        across,
        modes: &plan.modes,
        rows,
    };
    panel.over(plan.target, &mut svg)?;
    panel.commands(&mut svg)?;
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// What somebody hears who does not see it.
fn description(rows: &[Row]) -> String {
    let told = rows.iter().map(|row| {
        let over = &row.figures.over;
        format!(
            "{} every {}: worst window {} over, p99 {}, {} commands a second.",
            mode_name(row.mode),
            row.every,
            percent(over.worst),
            percent(over.p99),
            grouped(row.figures.commands_per_second())
        )
    });
    told.collect::<Vec<_>>().join(" ")
}

fn legend(plan: &Plan, svg: &mut String) -> fmt::Result {
    let mut entries: Vec<(String, String)> = Vec::new();
    for (number, mode) in plan.modes.iter().enumerate() {
        let line = format!("<path class=\"line m{number}\" d=\"M0 0H26\"/>");
        entries.push((line, mode_name(*mode).to_owned()));
    }
    let plain = "<path class=\"line plain\" d=\"M0 0H26\"/>";
    entries.push((plain.to_owned(), "a plain fixed interval".to_owned()));
    let target = "<path class=\"target\" d=\"M0 0H26\"/>";
    let wanted = format!("wanted: {}", percent_text(plan.target));
    entries.push((target.to_owned(), wanted));
    let worst = "<circle class=\"grey\" cx=\"19\" cy=\"0\" r=\"4\"/>";
    entries.push((worst.to_owned(), "worst window".to_owned()));
    let p99 = "<circle class=\"hollow axis\" cx=\"19\" cy=\"0\" r=\"3.5\"/>";
    entries.push((p99.to_owned(), "p99".to_owned()));
    let (mut x, mut y) = (24.0, 82.0);
    for (marks, text) in entries {
        let width = 33.0 + width_of(&text);
        if x + width > WIDTH {
            (x, y) = (24.0, y + 20.0);
        }
        writeln!(
            svg,
            "<g transform=\"translate({x:.0} {y})\">{marks}<text x=\"33\" y=\"4\">{text}</text></g>"
        )?;
        x += width + 18.0;
    }
    Ok(())
}

/// About how long a text is.
fn width_of(text: &str) -> f64 {
    let widths = text.chars().map(|letter| match letter {
        ' ' | '.' | ':' | ',' | 'f' | 'i' | 'l' | 't' => 4.5,
        _ => 8.0,
    });
    widths.sum()
}

/// The scale of the intervals, with some room on both sides.
fn across(intervals: &[Nanos]) -> Scale {
    let ends = (intervals.first(), intervals.last());
    let second = |every: Option<&Nanos>| every.map_or(1.0, |every| every.as_secs_f64());
    let (least, most) = (second(ends.0), second(ends.1));
    let room = (most / least).powf(0.06).max(1.3);
    Scale::between((least / room, most * room), (LEFT, RIGHT))
}

/// Both panels have their scale of intervals in common.
struct Panel<'p> {
    across: Scale,
    modes: &'p [Consistency],
    rows: &'p [Row],
}

/// One line of a panel: what it shows of a row, if there is anything.
type Shown<'f> = &'f dyn Fn(&Row) -> Option<f64>;

impl Panel<'_> {
    fn over(&self, target: f64, svg: &mut String) -> fmt::Result {
        let worst = |row: &Row| (row.figures.over.windows > 0).then_some(row.figures.over.worst);
        let p99 = |row: &Row| (row.figures.over.windows > 0).then_some(row.figures.over.p99);
        let plain = |row: &Row| row.plain_over;
        let all = self.rows.iter().flat_map(|row| [worst(row), plain(row)]);
        let most = all.flatten().fold(target.max(0.01), f64::max);
        // Less than a hundredth of a percent is nothing.
        let up = Scale::decades((0.000_1, most), (OVER.1, OVER.0));
        self.frame("Over the limit", OVER, &up, percent_label, svg)?;
        if self.rows.iter().all(|row| worst(row).is_none()) {
            let middle = (LEFT + RIGHT) / 2.0;
            writeln!(
                svg,
                "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">\
                 nobody wanted more than the limit</text>",
                (OVER.0 + OVER.1) / 2.0
            )?;
        }
        if target > 0.0 {
            let y = up.at(target);
            writeln!(svg, "<path class=\"target\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>")?;
        }
        self.line(&self.rows[..self.intervals()], "plain", &up, &plain, svg)?;
        let mut written = Vec::new();
        for (number, rows) in self.by_mode() {
            self.line(rows, &format!("fine m{number}"), &up, &p99, svg)?;
            self.line(rows, &format!("m{number}"), &up, &worst, svg)?;
            self.rings(rows, &format!("hollow m{number}"), &up, &p99, svg)?;
            self.dots(rows, number, &up, (&worst, percent), &mut written, svg)?;
        }
        Ok(())
    }

    fn commands(&self, svg: &mut String) -> fmt::Result {
        let ours = |row: &Row| Some(row.figures.commands_per_second());
        let plain = |row: &Row| Some(row.plain_commands);
        let all = || self.rows.iter().flat_map(|row| [ours(row), plain(row)]);
        let least = all().flatten().fold(f64::INFINITY, f64::min).max(0.1);
        let most = all().flatten().fold(least * 2.0, f64::max);
        let up = Scale::decades((least, most), (COMMANDS.1, COMMANDS.0));
        let heading = "Commands a second to the store";
        self.frame(heading, COMMANDS, &up, grouped, svg)?;
        self.line(&self.rows[..self.intervals()], "plain", &up, &plain, svg)?;
        let mut written = Vec::new();
        for (number, rows) in self.by_mode() {
            self.line(rows, &format!("m{number}"), &up, &ours, svg)?;
            self.dots(rows, number, &up, (&ours, grouped), &mut written, svg)?;
        }
        let middle = (LEFT + RIGHT) / 2.0;
        let below = COMMANDS.1 + 48.0;
        writeln!(
            svg,
            "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">sync interval</text>"
        )
    }

    fn by_mode(&self) -> impl Iterator<Item = (usize, &[Row])> {
        let modes = self.rows.chunks(self.intervals().max(1));
        modes.enumerate()
    }

    /// How many rows there are of each mode.
    fn intervals(&self) -> usize {
        self.rows.len() / self.modes.len().max(1)
    }

    /// The heading, the grid and the ticks.
    fn frame(
        &self,
        heading: &str,
        (top, bottom): (f64, f64),
        up: &Scale,
        label: fn(f64) -> String,
        svg: &mut String,
    ) -> fmt::Result {
        let head = top - 26.0;
        writeln!(
            svg,
            "<text class=\"head\" x=\"24\" y=\"{head}\">{heading}</text>"
        )?;
        for (value, y) in up.ticks() {
            let (x, base, text) = (LEFT - 10.0, y + 4.5, label(value));
            writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>\
                 <text x=\"{x}\" y=\"{base:.1}\" text-anchor=\"end\">{text}</text>"
            )?;
        }
        let mut last = f64::NEG_INFINITY;
        for row in &self.rows[..self.intervals()] {
            let x = self.across.at(row.every.as_secs_f64());
            let (low, base) = (bottom + 5.0, bottom + 22.0);
            write!(svg, "<path class=\"axis\" d=\"M{x:.1} {bottom}V{low}\"/>")?;
            // Where ticks crowd, some go without a name.
            if x - last > 44.0 {
                write!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{base}\" text-anchor=\"middle\">{}</text>",
                    row.every
                )?;
                last = x;
            }
            svg.push('\n');
        }
        writeln!(svg, "<path class=\"axis\" d=\"M{LEFT} {bottom}H{RIGHT}\"/>")
    }

    fn points(&self, rows: &[Row], up: &Scale, of: Shown<'_>) -> Vec<(f64, f64, f64)> {
        let point = |row: &Row| {
            let value = of(row)?;
            let x = self.across.at(row.every.as_secs_f64());
            Some((x, up.at(value), value))
        };
        rows.iter().filter_map(point).collect()
    }

    fn line(
        &self,
        rows: &[Row],
        class: &str,
        up: &Scale,
        of: Shown<'_>,
        svg: &mut String,
    ) -> fmt::Result {
        let points = self.points(rows, up, of);
        let [(x, y, _), rest @ ..] = points.as_slice() else {
            return Ok(());
        };
        write!(svg, "<path class=\"line {class}\" d=\"M{x:.1} {y:.1}")?;
        match rest {
            // A line of one point goes all the way.
            [] => write!(svg, "M{LEFT} {y:.1}H{RIGHT}")?,
            _ => {
                for (x, y, _) in rest {
                    write!(svg, "L{x:.1} {y:.1}")?;
                }
            }
        }
        svg.push_str("\"/>\n");
        Ok(())
    }

    fn rings(
        &self,
        rows: &[Row],
        class: &str,
        up: &Scale,
        of: Shown<'_>,
        svg: &mut String,
    ) -> fmt::Result {
        for (x, y, _) in self.points(rows, up, of) {
            writeln!(
                svg,
                "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>"
            )?;
        }
        Ok(())
    }

    /// Points with their values beside them, as far as there is room beside the values
    /// that are already written.
    fn dots(
        &self,
        rows: &[Row],
        number: usize,
        up: &Scale,
        (of, label): (Shown<'_>, fn(f64) -> String),
        written: &mut Vec<(f64, f64)>,
        svg: &mut String,
    ) -> fmt::Result {
        for (x, y, value) in self.points(rows, up, of) {
            writeln!(
                svg,
                "<circle class=\"d{number}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"
            )?;
            let is_free = |at: &f64| {
                let near = |other: &(f64, f64)| (other.0 - x).abs() < 44.0;
                let beside = written.iter().filter(|other| near(other));
                let inside = *at < up.at(0.0);
                inside && beside.into_iter().all(|other| (other.1 - at).abs() > 12.0)
            };
            // Above the point, or else below it.
            let free = [y - 10.0, y + 19.0].into_iter().find(is_free);
            if let Some(at) = free {
                let text = label(value);
                writeln!(
                    svg,
                    "<text class=\"value d{number}\" x=\"{x:.1}\" y=\"{at:.1}\" \
                     text-anchor=\"middle\">{text}</text>"
                )?;
                written.push((x, at));
            }
        }
        Ok(())
    }
}

/// A percentage at a tick, where the lowest stands for all that is less.
fn percent_label(part: f64) -> String {
    if part < 0.000_15 {
        "≤ 0.01%".to_owned()
    } else {
        percent_text(part)
    }
}

#[cfg(test)]
mod tests;
