//! How the table keeps a cell: in 48 bytes, since there are as many as keys.

use std::sync::Arc;

use super::body::Body;
use super::cell::{Cell, Signal};
use super::edge::Edge;
use super::ledger::{Account, BucketLedger, WindowLedger};
use super::marks::Marks;
use super::{Fleet, Taken};
use crate::algorithms::{BucketState, WindowState};
use crate::units::{Cost, Limit, Nanos, Quota, Timestamp, WindowId};

/// A cell as the table keeps it. It is spread out to be touched, and put together again
/// afterwards.
#[derive(Debug)]
pub(super) struct Kept {
    limit: Arc<Limit>,
    counts: Counts,
}

/// What a cell has counted: in 32 bits a number as long as all of them fit, as nearly
/// always.
#[derive(Debug)]
enum Counts {
    Window {
        // In pieces, which fit beside the tag.
        marks_low: u32,
        marks_middle: u16,
        marks_high: u8,
        id: WindowId,
        current: u32,
        previous: u32,
        /// What was admitted here and sent, in the window and in the one before.
        accounts: [[i32; 2]; 2],
    },
    Bucket {
        marks_low: u32,
        marks_middle: u16,
        marks_high: u8,
        debt: u64,
        at: Timestamp,
        own_debt: Nanos,
        account: [i32; 2],
    },
    /// The same and all others, spread out for good: logs, cells near their limit, large
    /// numbers.
    Whole(Box<Whole>),
}

#[derive(Debug)]
struct Whole {
    body: Body,
    marks: Marks,
    edge: Option<Box<Edge>>,
}

impl Kept {
    /// The cell of a key never seen.
    pub(super) fn new(limit: &Arc<Limit>) -> Kept {
        let whole = Whole {
            body: Body::fresh(&limit.quota),
            marks: Marks::default(),
            edge: None,
        };
        Kept {
            limit: Arc::clone(limit),
            counts: Counts::of(&whole).unwrap_or_else(|| Counts::Whole(Box::new(whole))),
        }
    }

    /// The limit that the cell counts.
    pub(super) fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Takes from the cell, as [`Cell::take`] says.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        limit: &Arc<Limit>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        fleet: &Fleet,
    ) -> (Taken, Signal) {
        if let Counts::Whole(_) = self.counts {
            return self.take_whole(limit, quota, cost, now, fleet);
        }
        self.touch(|cell| cell.take(limit, quota, cost, now, fleet))
    }

    /// The same, apart: what is known to be short takes less code.
    #[inline(never)]
    fn take_whole(
        &mut self,
        limit: &Arc<Limit>,
        quota: &Quota,
        cost: Cost,
        now: Timestamp,
        fleet: &Fleet,
    ) -> (Taken, Signal) {
        self.touch(|cell| cell.take(limit, quota, cost, now, fleet))
    }

    /// Touches the cell.
    #[inline(always)]
    pub(super) fn touch<R>(&mut self, touch: impl FnOnce(&mut Cell<'_>) -> R) -> R {
        let mut spread = self.counts.spread();
        let whole = match &mut spread {
            Ok(whole) => whole,
            Err(whole) => &mut **whole,
        };
        let answer = touch(&mut Cell {
            limit: &mut self.limit,
            body: &mut whole.body,
            marks: &mut whole.marks,
            edge: &mut whole.edge,
        });
        match spread {
            Ok(whole) => {
                let counts = Counts::of(&whole);
                self.counts = counts.unwrap_or_else(|| Counts::Whole(Box::new(whole)));
            }
            Err(whole) => {
                if let Some(counts) = Counts::of(whole) {
                    self.counts = counts;
                }
            }
        }
        answer
    }
}

impl Counts {
    /// What is counted, with all that belongs to it: a copy, to be put together again
    /// afterwards, or the thing itself.
    #[inline(always)]
    fn spread(&mut self) -> Result<Whole, &mut Whole> {
        let (body, marks) = match self {
            Counts::Window {
                marks_low,
                marks_middle,
                marks_high,
                id,
                current,
                previous,
                accounts: [here, before],
            } => {
                let state = WindowState::new(*id, (*current).into(), (*previous).into());
                let ledger = WindowLedger {
                    current: long(*here),
                    previous: long(*before),
                };
                let marks = (*marks_low, *marks_middle, *marks_high);
                (Body::Window { state, ledger }, marks)
            }
            Counts::Bucket {
                marks_low,
                marks_middle,
                marks_high,
                debt,
                at,
                own_debt,
                account,
            } => {
                let state = BucketState::new((*debt).into(), *at);
                let ledger = BucketLedger {
                    account: long(*account),
                    own_debt: *own_debt,
                };
                let marks = (*marks_low, *marks_middle, *marks_high);
                (Body::Bucket { state, ledger }, marks)
            }
            Counts::Whole(whole) => return Err(whole),
        };
        Ok(Whole {
            body,
            marks: Marks::of(marks),
            edge: None,
        })
    }

    /// The short form, if there is one.
    #[inline(always)]
    fn of(whole: &Whole) -> Option<Counts> {
        if whole.edge.is_some() {
            return None;
        }
        let (marks_low, marks_middle, marks_high) = whole.marks.parts();
        match &whole.body {
            Body::Window { state, ledger } => Some(Counts::Window {
                marks_low,
                marks_middle,
                marks_high,
                id: state.id(),
                current: state.current().try_into().ok()?,
                previous: state.previous().try_into().ok()?,
                accounts: [short(ledger.current)?, short(ledger.previous)?],
            }),
            Body::Bucket { state, ledger } => Some(Counts::Bucket {
                marks_low,
                marks_middle,
                marks_high,
                debt: state.debt().try_into().ok()?,
                at: state.at(),
                own_debt: ledger.own_debt,
                account: short(ledger.account)?,
            }),
            Body::Log(_) => None,
        }
    }
}

#[inline(always)]
fn short(account: Account) -> Option<[i32; 2]> {
    let (own, sent) = account.sums();
    Some([own.try_into().ok()?, sent.try_into().ok()?])
}

#[inline(always)]
fn long([own, sent]: [i32; 2]) -> Account {
    Account::new(own.into(), sent.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::{Demand, Pressure};
    use crate::units::{Algorithm, Key, KeySecret, LimitId};

    fn limit(algorithm: Algorithm) -> Arc<Limit> {
        let quota = Quota::new(algorithm, 10, Nanos::from_secs(1), None).unwrap();
        let id = LimitId::of_space("limit");
        Arc::new(Limit::new(id, "r", "l", quota, &KeySecret::public()))
    }

    fn is_small(kept: &Kept) -> bool {
        !matches!(kept.counts, Counts::Whole(_))
    }

    #[test]
    fn a_cell_takes_64_bytes_with_its_key() {
        assert_eq!(std::mem::size_of::<(Key, Kept)>(), 64);
    }

    #[test]
    fn a_cell_near_its_limit_is_spread_out_until_it_is_far_again() {
        let mut kept = Kept::new(&limit(Algorithm::FixedWindow));
        assert!(is_small(&kept));
        let edge = Edge::new(Demand::default(), WindowId::new(7), Timestamp::EPOCH);
        kept.touch(|cell| *cell.edge = Some(Box::new(edge)));
        assert!(!is_small(&kept));
        let lent_in = kept.touch(|cell| cell.edge.as_ref().map(|edge| edge.lent_in));
        assert_eq!(lent_in, Some(WindowId::new(7)));
        kept.touch(|cell| *cell.edge = None);
        assert!(is_small(&kept));
    }

    /// Numbers about the largest that are kept in 32 bits, and all others.
    fn count() -> impl Strategy<Value = i64> {
        prop_oneof![
            -3..3_i64,
            (0..6_i64).prop_map(|near| i64::from(i32::MAX) - 3 + near),
            (0..6_i64).prop_map(|near| i64::from(i32::MIN) - 3 + near),
            (0..6_i64).prop_map(|near| i64::from(u32::MAX) - 3 + near),
            any::<i64>(),
        ]
    }

    fn account() -> impl Strategy<Value = Account> {
        (count(), count()).prop_map(|(own, sent)| Account::new(own, sent))
    }

    fn marks() -> impl Strategy<Value = Marks> {
        (any::<u64>(), any::<bool>()).prop_map(|(heard, is_told)| {
            let mut marks = Marks::default();
            marks.set_heard(Timestamp::from_nanos(heard));
            if is_told {
                marks.set_told(super::super::marks::Told::Queued(Pressure::Near));
            }
            marks
        })
    }

    proptest! {
        #[test]
        fn the_counts_of_windows_are_kept_as_they_are(
            (id, current, previous) in (any::<u64>(), count(), count()),
            (here, before, marked) in (account(), account(), marks()),
        ) {
            let (current, previous) = (current.cast_unsigned(), previous.cast_unsigned());
            let window = WindowState::new(WindowId::new(id), current, previous);
            let accounts = WindowLedger { current: here, previous: before };
            let mut kept = Kept::new(&limit(Algorithm::SlidingWindow));
            kept.touch(|cell| {
                *cell.body = Body::Window { state: window, ledger: accounts };
                *cell.marks = marked;
            });
            let (own, sent) = here.sums();
            let fits = |sum: i64| i32::try_from(sum).is_ok();
            let small = u32::try_from(current.max(previous)).is_ok();
            let small = small && fits(own) && fits(sent);
            let small = small && fits(before.sums().0) && fits(before.sums().1);
            prop_assert_eq!(is_small(&kept), small);
            kept.touch(|cell| {
                let Body::Window { state, ledger } = &cell.body else {
                    panic!("it is a window no more");
                };
                assert_eq!((*state, *ledger, *cell.marks), (window, accounts, marked));
            });
        }

        #[test]
        fn the_counts_of_buckets_are_kept_as_they_are(
            (high, low, at, own_debt) in (0..3_u64, any::<u64>(), any::<u64>(), any::<u64>()),
            (account, marked) in (account(), marks()),
        ) {
            let debt = u128::from(high) << 64 | u128::from(low);
            let bucket = BucketState::new(debt, Timestamp::from_nanos(at));
            let own = BucketLedger { account, own_debt: Nanos::new(own_debt) };
            let mut kept = Kept::new(&limit(Algorithm::TokenBucket));
            kept.touch(|cell| {
                *cell.body = Body::Bucket { state: bucket, ledger: own };
                *cell.marks = marked;
            });
            kept.touch(|cell| {
                let Body::Bucket { state, ledger } = &cell.body else {
                    panic!("it is a bucket no more");
                };
                assert_eq!((*state, *ledger, *cell.marks), (bucket, own, marked));
            });
        }
    }
}
