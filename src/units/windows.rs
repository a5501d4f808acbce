use std::fmt;

use super::{Calendar, Nanos, Timestamp, WindowId};

/// How time is cut into windows: each begins where the one before ends, and has a number
/// of its own for all times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Windows {
    /// All of this length, aligned to the epoch.
    Even(Nanos),
    /// Those of a calendar, which are not all of one length.
    Calendar(Calendar),
}

impl Windows {
    /// The window that `now` lies in.
    #[inline]
    pub fn at(self, now: Timestamp) -> WindowId {
        match self {
            Windows::Even(length) => now.window(length),
            Windows::Calendar(calendar) => calendar.at(now),
        }
    }

    /// The moment that the window `id` begins.
    #[inline]
    pub fn start(self, id: WindowId) -> Timestamp {
        match self {
            Windows::Even(length) => id.start(length),
            Windows::Calendar(calendar) => calendar.span(id).0,
        }
    }

    /// The moment that the window `id` ends: the next one's start.
    #[inline]
    pub fn end(self, id: WindowId) -> Timestamp {
        match self {
            Windows::Even(length) => id.end(length),
            Windows::Calendar(calendar) => {
                let (start, length) = calendar.span(id);
                start.after(length)
            }
        }
    }

    /// How long the window `id` is.
    #[inline]
    pub fn length(self, id: WindowId) -> Nanos {
        match self {
            Windows::Even(length) => length,
            Windows::Calendar(calendar) => calendar.span(id).1,
        }
    }

    /// Whether `now` lies in the window `id`. Cheaper than to ask which one it lies in.
    #[inline]
    pub fn holds(self, id: WindowId, now: Timestamp) -> bool {
        match self {
            Windows::Even(length) => {
                // What begins after the end of time holds nothing.
                let start = id.get().checked_mul(length.get());
                let since = start.and_then(|start| now.as_nanos().checked_sub(start));
                since.is_some_and(|since| since < length.get())
            }
            Windows::Calendar(calendar) => {
                let (start, length) = calendar.span(id);
                now >= start && now.since(start) < length
            }
        }
    }
}

/// The form in rules, names and the store: `1m`, `month` or `day@Europe/Berlin`.
impl fmt::Display for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Windows::Even(length) => length.fmt(f),
            Windows::Calendar(calendar) => calendar.fmt(f),
        }
    }
}
