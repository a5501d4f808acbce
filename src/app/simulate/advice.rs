//! Which interval to take.

use super::bench::Row;
use crate::units::{Consistency, Nanos};

/// What is recommended for one mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Advice<'r> {
    pub(super) mode: Consistency,
    pub(super) choice: Choice<'r>,
}

/// The choice among the intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Choice<'r> {
    /// The longest that keeps the worst window within what is wanted.
    Within(&'r Row),
    /// None does. This one comes closest.
    None(&'r Row),
    /// No caller ever wanted more than the limit, so none can be exceeded. The longest.
    NeverFull(&'r Row),
    /// Every check was put to the store, so the interval is of no account.
    Asked(&'r Row),
}

impl Choice<'_> {
    /// The row that it is about.
    pub(super) fn row(&self) -> &Row {
        match self {
            Choice::Within(row)
            | Choice::None(row)
            | Choice::NeverFull(row)
            | Choice::Asked(row) => row,
        }
    }
}

/// One for each mode of `rows`, in their order, for at most `target` over the limit
/// in the worst window.
pub(super) fn advise(rows: &[Row], target: f64) -> Vec<Advice<'_>> {
    let of_mode = rows.chunk_by(|a, b| a.mode == b.mode);
    of_mode.filter_map(|rows| choose(rows, target)).collect()
}

fn choose(rows: &[Row], target: f64) -> Option<Advice<'_>> {
    let longest = |fits: &dyn Fn(&&Row) -> bool| {
        let fitting = rows.iter().filter(fits);
        fitting.max_by_key(|row| row.every)
    };
    let worst = |row: &Row| row.figures.over.worst;
    let choice = if let Some(row) = rows.iter().find(|row| row.is_asked()) {
        Choice::Asked(row)
    } else if rows.iter().all(|row| row.figures.over.windows == 0) {
        Choice::NeverFull(longest(&|_| true)?)
    } else if let Some(row) = longest(&|row| worst(row) <= target) {
        Choice::Within(row)
    } else {
        // Of equals, the longest.
        let by_worst = |a: &&Row, b: &&Row| worst(a).total_cmp(&worst(b));
        Choice::None(rows.iter().rev().min_by(by_worst)?)
    };
    let mode = choice.row().mode;
    Some(Advice { mode, choice })
}

/// An interval for people: of a plain limiter it may be any number of nanoseconds.
pub(super) fn rounded(every: Nanos) -> Nanos {
    let unit = match every.get() {
        0..10_000 => 1_000,
        10_000..10_000_000 => 100_000,
        10_000_000..1_000_000_000 => 1_000_000,
        _ => 100_000_000,
    };
    Nanos::new(every.get() / unit * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::{Figures, Over};

    fn row(millis: u64, windows: u64, worst: f64) -> Row {
        Row {
            mode: Consistency::Approximate,
            every: Nanos::from_millis(millis),
            figures: Figures {
                over: Over {
                    windows,
                    worst,
                    ..Over::default()
                },
                ..Figures::default()
            },
            plain_over: None,
            plain_commands: 0.0,
        }
    }

    #[test]
    fn the_longest_interval_within_the_target_is_chosen() {
        let rows = [row(10, 9, 0.001), row(100, 9, 0.01), row(1_000, 9, 0.02)];
        let choice = |target| advise(&rows, target)[0].choice;
        assert_eq!(choice(0.01), Choice::Within(&rows[1]));
        assert_eq!(choice(0.5), Choice::Within(&rows[2]));
        assert_eq!(choice(0.0), Choice::None(&rows[0]));
        let alike = [row(10, 9, 0.02), row(100, 9, 0.02), row(1_000, 9, 0.03)];
        assert_eq!(advise(&alike, 0.01)[0].choice, Choice::None(&alike[1]));
    }

    #[test]
    fn where_nothing_was_full_there_is_nothing_to_exceed() {
        let rows = [row(10, 0, 0.0), row(100, 0, 0.0)];
        assert_eq!(advise(&rows, 0.0)[0].choice, Choice::NeverFull(&rows[1]));
    }

    #[test]
    fn where_the_store_is_asked_there_is_no_interval_to_choose() {
        let mut rows = [row(10, 9, 0.0), row(100, 9, 0.0)];
        rows.iter_mut()
            .for_each(|row| row.mode = Consistency::Strict);
        assert_eq!(advise(&rows, 0.01)[0].choice, Choice::Asked(&rows[0]));
    }

    #[test]
    fn each_mode_has_its_own() {
        let mut rows = [row(10, 9, 0.001), row(10, 9, 3.0)];
        rows[1].mode = Consistency::Local;
        let advice = advise(&rows, 0.01);
        assert_eq!(advice.len(), 2);
        assert_eq!(advice[0].choice, Choice::Within(&rows[0]));
        assert_eq!(advice[1].choice, Choice::None(&rows[1]));
        assert!(advise(&[], 0.01).is_empty());
    }
}
