//! The window of a limit: a duration, or a stretch of the calendar in some time zone.

use super::super::duration::{DurationError, parse_duration};
use super::super::fault::Problem;
use super::super::reader::{Report, Spot, near, text, wrong_kind};
use super::super::tree::{Node, Value};
use super::quote;
use crate::units::{Calendar, CalendarUnit, Nanos, Quota, UnknownZone};

/// The field that says whose calendar it is.
pub(super) const TIME_ZONE: &str = "time_zone";

/// A window as its file states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Duration(Nanos),
    Calendar(CalendarUnit),
}

/// Reads a window.
pub(super) fn window(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Window> {
    // A bare number is told the same as any other text without a unit.
    let (Value::Text(text) | Value::Bare(text)) = &node.value else {
        return wrong_kind(
            node,
            spot,
            "a window; write 1s, 1m, 1h, 1d or 1m30s, or day, week or month",
            report,
        );
    };
    let mut units = CalendarUnit::ALL.into_iter();
    if let Some(unit) = units.find(|unit| unit.name() == text) {
        return Some(Window::Calendar(unit));
    }
    let error = match parse_duration(text) {
        Ok(span) => return Some(Window::Duration(span)),
        Err(error) => error,
    };
    let meant = meant(text).filter(|_| error == DurationError::Unreadable);
    let found = quote(text);
    report.fault(
        spot,
        match meant {
            Some(unit) => Problem::NearCalendar { found, unit },
            None => Problem::Duration { found, error },
        },
    );
    None
}

/// The unit of the calendar that `text` was probably meant to be.
fn meant(text: &str) -> Option<CalendarUnit> {
    let word = text.strip_prefix('1').unwrap_or(text).trim();
    let word = match word {
        "M" => "month",
        "w" | "W" => "week",
        word => near(word, &CalendarUnit::ALL.map(CalendarUnit::name))?,
    };
    CalendarUnit::ALL
        .into_iter()
        .find(|unit| unit.name() == word)
}

/// Reads the name of a time zone.
pub(super) fn time_zone(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<String> {
    let name = text(
        node,
        spot,
        "the name of a time zone; write Europe/Berlin",
        report,
    )?;
    let zone = Calendar::zone(name);
    if let Err(UnknownZone) = zone {
        let zones = Calendar::zones();
        let lower = zones.iter().map(|zone| zone.to_ascii_lowercase());
        let lower: Vec<String> = lower.collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        // The city alone may have been written, or another continent.
        let city = |zone: &&str| {
            let (city, wanted) = (zone.rsplit('/').next(), name.rsplit('/').next());
            city.zip(wanted)
                .is_some_and(|(city, wanted)| city.eq_ignore_ascii_case(wanted))
        };
        let found = lower
            .iter()
            .copied()
            .find(city)
            .or_else(|| near(name, &lower));
        let place = found.and_then(|found| lower.iter().position(|zone| *zone == found));
        let hint = place.and_then(|place| zones.get(place)).map_or_else(
            || "; write an IANA name, such as Europe/Berlin or UTC".to_owned(),
            |zone| format!("; did you mean `{zone}`?"),
        );
        let found = quote(name);
        report.fault(spot, Problem::UnknownZone { found, hint });
    }
    zone.ok()
}

/// The quota of `amount` in each `unit` of the calendar of `zone`.
pub(super) fn quota(amount: u64, unit: CalendarUnit, zone: Option<&str>) -> Option<Quota> {
    let calendar = Calendar::new(unit, zone.unwrap_or(Calendar::UTC)).ok()?;
    Some(Quota::calendar(amount, calendar))
}
