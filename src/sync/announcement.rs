//! What the store announces to all nodes, as the scripts write it.

use rmp::decode::{read_int, read_str_len};

use crate::counters::{Announcement, Level, Slot, Space};
use crate::units::{Calendar, Key, Nanos, Timestamp, WindowId};

/// The channel of a fleet's announcements.
pub fn channel(fleet: &str) -> String {
    format!("{fleet}:full")
}

/// The form of a slot in an announcement: `w60000000000+1:29411237`, `cmonth:674` or
/// `b36:25`.
pub(super) fn slot_name(slot: Slot) -> String {
    let window = slot.window.get();
    match slot.space {
        Space::Windows { length, kept } => format!("w{}+{kept}:{window}", length.get()),
        Space::Calendar(calendar) => format!("c{calendar}:{window}"),
        Space::Buckets { exponent } => format!("b{exponent}:{window}"),
    }
}

/// Reads an announcement; `None` if it makes no sense.
pub fn read(payload: &[u8]) -> Option<Announcement> {
    let mut rest = payload;
    let key = Key::from_bytes(text(&mut rest)?.try_into().ok()?);
    let level = match number(&mut rest)? {
        1 => Level::Half,
        2 => Level::Full,
        _ => return None,
    };
    let total = number(&mut rest)?;
    let demand = number(&mut rest)?;
    let slot = parse_slot(std::str::from_utf8(text(&mut rest)?).ok()?)?;
    let seconds = Nanos::from_secs(number(&mut rest)?);
    let micros = Nanos::new(number(&mut rest)?.saturating_mul(1_000));
    Some(Announcement {
        key,
        slot,
        level,
        total,
        demand,
        at: Timestamp::EPOCH.after(seconds).after(micros),
    })
}

fn parse_slot(name: &str) -> Option<Slot> {
    let (space, window) = name.split_once(':')?;
    let space = if let Some(windows) = space.strip_prefix('w') {
        let (length, kept) = windows.split_once('+')?;
        Space::Windows {
            length: Nanos::new(length.parse().ok()?),
            kept: kept.parse().ok()?,
        }
    } else if let Some(calendar) = space.strip_prefix('c') {
        // Of another, no rule here has counted anything.
        Space::Calendar(Calendar::known(calendar)?)
    } else {
        Space::Buckets {
            exponent: space.strip_prefix('b')?.parse().ok().filter(|e| *e < 64)?,
        }
    };
    Some(Slot {
        space,
        window: WindowId::new(window.parse().ok()?),
    })
}

fn text<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = read_str_len(rest).ok()?;
    let (text, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = after;
    Some(text)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    read_int(rest).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::CalendarUnit;

    #[test]
    fn slots_are_read_as_they_are_written() {
        let spaces = [
            Space::Windows {
                length: Nanos::from_millis(62),
                kept: 16,
            },
            Space::Calendar(Calendar::new(CalendarUnit::Day, "asia/kathmandu").unwrap()),
            Space::Buckets { exponent: 36 },
        ];
        for space in spaces {
            let slot = Slot {
                space,
                window: WindowId::new(29_411_237),
            };
            assert_eq!(parse_slot(&slot_name(slot)), Some(slot));
        }
        for junk in [
            "", "w1:2", "b64:1", "b-1:1", "x1+1:1", "w1+1", "w1+256:1", "cyear:1", "c:1", "cday@:1",
        ] {
            assert_eq!(parse_slot(junk), None, "{junk}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_ignored() {
        for junk in [
            &b""[..],
            b"\xb0short",
            b"\xdb\xff\xff\xff\xff",
            b"hello there",
        ] {
            assert_eq!(read(junk), None);
        }
    }
}
