//! The calendar as plain integers: where the days, weeks and months of a time zone begin.

use std::cmp;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use jiff::civil;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::{Nanos, Timestamp, WindowId};

/// What a calendar is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CalendarUnit {
    /// From midnight to midnight.
    Day,
    /// From Monday to Monday (ISO 8601).
    Week,
    /// From the first of a month to the first of the next.
    Month,
}

impl CalendarUnit {
    /// Every unit, the shortest first.
    pub const ALL: [CalendarUnit; 3] = [CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month];

    /// The word for it in rules.
    pub const fn name(self) -> &'static str {
        match self {
            CalendarUnit::Day => "day",
            CalendarUnit::Week => "week",
            CalendarUnit::Month => "month",
        }
    }

    /// How long one is where no clock is put forward or back; of months, the longest.
    pub const fn usual_length(self) -> Nanos {
        Nanos::from_secs(match self {
            CalendarUnit::Day => DAY,
            CalendarUnit::Week => 7 * DAY,
            CalendarUnit::Month => 31 * DAY,
        })
    }

    /// A window of that fixed length, as it is written in rules.
    pub const fn fixed(self) -> &'static str {
        match self {
            CalendarUnit::Day => "1d",
            CalendarUnit::Week => "7d",
            CalendarUnit::Month => "30d",
        }
    }

    /// When the unit numbered `id` begins on the clocks of a place, in seconds since the
    /// epoch began there. `None` after the year 9999.
    fn begins(self, id: u64) -> Option<i64> {
        let days = match self {
            CalendarUnit::Day => i64::try_from(id).ok()?,
            // The epoch was a Thursday.
            CalendarUnit::Week => i64::try_from(id).ok()?.checked_mul(7)?.checked_sub(3)?,
            CalendarUnit::Month => {
                let year = i16::try_from(id / 12).ok()?.checked_add(1_970)?;
                let month = i8::try_from(id % 12 + 1).ok()?;
                let first = civil::Date::new(year, month, 1).ok()?;
                return Some(first.duration_since(EPOCH).as_secs());
            }
        };
        days.checked_mul(DAY.cast_signed())
    }
}

const EPOCH: civil::Date = civil::date(1970, 1, 1);
const DAY: u64 = 86_400;
const SECOND: u64 = 1_000_000_000;
/// The end of [`Timestamp`]s, in seconds.
const END: i64 = (u64::MAX / SECOND).cast_signed();

/// The windows of one unit of the calendar in one time zone, for all times.
///
/// A window begins at the first moment whose date there is in it, and not again when the
/// clock is put back across midnight. Its number counts days, weeks or months of the local
/// date since that of the epoch, so it is the same whatever edition of the time zones a
/// node has. A day that a place has left out is a window without length.
///
/// There is one table for each unit and zone in a process, and it is never given back: a
/// calendar is a plain value, made when rules are read.
#[derive(Clone, Copy)]
pub struct Calendar(&'static Table);

struct Table {
    unit: CalendarUnit,
    zone: String,
    runs: Vec<Run>,
    /// The run that was looked for last: nearly always it is looked for again.
    recent: AtomicUsize,
}

/// Windows of one length that follow each other, up to the next run.
struct Run {
    first: WindowId,
    start: u64,
    length: u64,
}

/// No time zone has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no time zone has this name")]
pub struct UnknownZone;

/// All calendars that were ever asked for.
static KNOWN: RwLock<Vec<Calendar>> = RwLock::new(Vec::new());

impl Calendar {
    /// The name of the zone of limits that name none.
    pub const UTC: &str = "UTC";

    /// The calendar of `unit` in the IANA time zone called `zone`, in whatever case.
    ///
    /// # Errors
    /// [`UnknownZone`] if there is none of that name in the bundled edition.
    pub fn new(unit: CalendarUnit, zone: &str) -> Result<Calendar, UnknownZone> {
        let zone = TimeZoneDatabase::bundled()
            .get(zone)
            .map_err(|_| UnknownZone)?;
        let name = zone.iana_name().ok_or(UnknownZone)?;
        if let Some(calendar) = Calendar::find(unit.name(), name) {
            return Ok(calendar);
        }
        let table = Table {
            unit,
            zone: name.to_owned(),
            runs: runs(unit, &zone),
            recent: AtomicUsize::new(0),
        };
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &&Calendar| known.0.unit == unit && known.0.zone == name;
        if let Some(calendar) = known.iter().find(same) {
            // Another thread has been faster.
            return Ok(*calendar);
        }
        let calendar = Calendar(Box::leak(Box::new(table)));
        known.push(calendar);
        Ok(calendar)
    }

    /// The calendar that is written as `text`, if any rule of this process has asked for it.
    pub fn known(text: &str) -> Option<Calendar> {
        let (unit, zone) = text.split_once('@').unwrap_or((text, Calendar::UTC));
        Calendar::find(unit, zone)
    }

    fn find(unit: &str, zone: &str) -> Option<Calendar> {
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        let mut known = known.iter();
        known
            .find(|known| known.0.unit.name() == unit && known.0.zone == zone)
            .copied()
    }

    /// The name of the time zone that is called `name`, in whatever case.
    ///
    /// # Errors
    /// [`UnknownZone`] if there is none of that name in the bundled edition.
    pub fn zone(name: &str) -> Result<String, UnknownZone> {
        let zone = TimeZoneDatabase::bundled().get(name);
        let zone = zone.map_err(|_| UnknownZone)?;
        zone.iana_name().map(str::to_owned).ok_or(UnknownZone)
    }

    /// The names of all time zones.
    pub fn zones() -> Vec<String> {
        let zones = TimeZoneDatabase::bundled();
        let names = zones.available().map(|zone| zone.as_str().to_owned());
        names.collect()
    }

    /// What it is cut into.
    pub const fn unit(self) -> CalendarUnit {
        self.0.unit
    }

    /// The window that `now` lies in.
    // Few limits have a calendar: what asks for even windows stays small without this.
    #[inline(never)]
    pub(super) fn at(self, now: Timestamp) -> WindowId {
        let now = now.as_nanos();
        let Some(run) = self.run(|run| run.start <= now) else {
            return WindowId::default();
        };
        let passed = (now - run.start).checked_div(run.length).unwrap_or(0);
        WindowId::new(run.first.get().saturating_add(passed))
    }

    /// When the window begins, and how long it is.
    #[inline(never)]
    pub(super) fn span(self, id: WindowId) -> (Timestamp, Nanos) {
        let Some(run) = self.run(|run| run.first <= id) else {
            return (Timestamp::EPOCH, self.unit().usual_length());
        };
        let passed = run.length.saturating_mul(id.get() - run.first.get());
        let start = run.start.saturating_add(passed);
        (Timestamp::from_nanos(start), Nanos::new(run.length))
    }

    /// The last run that begins no later, as `begun` says.
    fn run(self, begun: impl Fn(&Run) -> bool) -> Option<&'static Run> {
        let Table { runs, recent, .. } = self.0;
        let place = recent.load(Ordering::Relaxed);
        let next_begun = || runs.get(place + 1).is_some_and(&begun);
        if let Some(run) = runs.get(place).filter(|run| begun(run))
            && !next_begun()
        {
            return Some(run);
        }
        let place = runs.partition_point(begun).checked_sub(1)?;
        recent.store(place, Ordering::Relaxed);
        runs.get(place)
    }
}

/// The windows of `unit` in `zone`. The first begins with the epoch, the last ends with time.
fn runs(unit: CalendarUnit, zone: &TimeZone) -> Vec<Run> {
    let mut offset = i64::from(zone.to_offset(jiff::Timestamp::UNIX_EPOCH).seconds());
    let changes = zone.following(jiff::Timestamp::UNIX_EPOCH).map(|change| {
        let offset = i64::from(change.offset().seconds());
        (change.timestamp().as_second(), offset)
    });
    let changes = changes.take_while(|(at, _)| *at < END);
    let mut runs: Vec<Run> = Vec::new();
    let (mut id, mut start, mut since) = (0, 0_i64, 0_i64);
    for (until, after) in changes.chain([(END, 0)]) {
        while let Some(local) = unit.begins(id + 1) {
            // A midnight that the clock has jumped over is over at once.
            let next = (local - offset).max(since);
            if next >= until {
                break;
            }
            let length = next.abs_diff(start) * SECOND;
            if runs.last().is_none_or(|run| run.length != length) {
                runs.push(Run {
                    first: WindowId::new(id),
                    start: start.unsigned_abs() * SECOND,
                    length,
                });
            }
            (id, start) = (id + 1, next);
        }
        (since, offset) = (until, after);
    }
    runs
}

/// The form in rules' figures and in the store: `month`, or `day@Europe/Berlin`.
impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.unit.name())?;
        if self.0.zone == Calendar::UTC {
            return Ok(());
        }
        write!(f, "@{}", self.0.zone)
    }
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calendar({self})")
    }
}

// There is one table for each unit and zone.
impl PartialEq for Calendar {
    fn eq(&self, other: &Calendar) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Calendar {}

impl Hash for Calendar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.0, state);
    }
}

impl PartialOrd for Calendar {
    fn partial_cmp(&self, other: &Calendar) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Calendar {
    fn cmp(&self, other: &Calendar) -> cmp::Ordering {
        (self.0.unit, &self.0.zone).cmp(&(other.0.unit, &other.0.zone))
    }
}

#[cfg(test)]
mod tests;
