//! What this node itself has contributed to the fleet's counts.
//!
//! Every account holds two sums that only the cell's own admissions move: `own`,
//! all that was admitted here, and `sent`, the value of `own` when the cell was
//! last put into a batch. What is pending is the difference. An answer of the
//! store to a batch says what the fleet had used with `own` as of that batch in
//! it; the view is that total plus whatever `own` has moved since. So nothing
//! needs to remember what is in flight, and a lost hash is refilled by setting
//! `sent` to zero.
//!
//! `own` is below zero where more was refunded here than was admitted here: other nodes
//! had admitted it. A lost hash is not refilled with that: where they are gone, it would
//! take from what the rest has used.

use crate::units::{Cost, Nanos, Timestamp, WindowId};

/// The sums of one window (or of one bucket, which has no window).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    own: i64,
    sent: i64,
}

impl Account {
    #[inline]
    pub(super) const fn new(own: i64, sent: i64) -> Account {
        Account { own, sent }
    }

    /// All that was admitted here, and what of it was sent.
    #[inline]
    pub(super) const fn sums(self) -> (i64, i64) {
        (self.own, self.sent)
    }

    pub(super) fn admit(&mut self, cost: Cost) {
        self.own = self.own.saturating_add(amount(cost));
    }

    /// Undoes an admission. If it was sent already, the next delta is negative.
    pub(super) fn give_back(&mut self, cost: Cost) {
        self.own = self.own.saturating_sub(amount(cost));
    }

    /// What was admitted here, and not refunded.
    pub(super) fn own(self) -> u64 {
        u64::try_from(self.own).unwrap_or(0)
    }

    /// The same, below zero where more was refunded than admitted.
    pub(super) fn balance(self) -> i64 {
        self.own
    }

    /// What the store has not been told yet; negative after a give-back.
    pub(super) fn pending(self) -> i64 {
        self.own.saturating_sub(self.sent)
    }

    /// Marks everything as sent and answers what was pending.
    pub(super) fn freeze(&mut self) -> i64 {
        let pending = self.pending();
        self.sent = self.own;
        pending
    }

    /// The store has counted `cost` on this node's behalf, to be spent here.
    pub(super) fn lend(&mut self, cost: Cost) {
        self.own = self.own.saturating_add(amount(cost));
        self.sent = self.sent.saturating_add(amount(cost));
    }

    /// Makes the last `part` of everything admitted here pending again.
    pub(super) fn rewind(&mut self, part: u64) {
        self.sent = self.own.saturating_sub(amount(Cost::new(part)));
    }

    /// Another quota counts what is pending in other units.
    pub(super) fn set_pending(&mut self, pending: i64) {
        self.own = self.sent.saturating_add(pending);
    }

    /// Takes note that `delta`, pending again after a rewind, did arrive.
    pub(super) fn credit(&mut self, delta: i64) {
        self.sent = self.sent.saturating_add(delta);
    }

    /// The fleet's use, from the store's `total` that contains `own` as it was at
    /// `upto`.
    pub(super) fn view(self, total: u64, upto: i64) -> u64 {
        total.saturating_add_signed(self.own.saturating_sub(upto))
    }
}

fn amount(cost: Cost) -> i64 {
    i64::try_from(cost.get()).unwrap_or(i64::MAX)
}

/// The accounts of a counter with windows: the present one and the one before,
/// whose last costs may still be unsent, and which a sliding window still reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WindowLedger {
    pub(super) current: Account,
    pub(super) previous: Account,
}

impl WindowLedger {
    /// Follows the state's step from window `from` to window `to`. What was still
    /// unsent two windows ago no longer matters to anybody: answers how much that
    /// was. A step back takes the present counts along, as the state does.
    pub(super) fn turn(&mut self, from: WindowId, to: WindowId) -> u64 {
        let lost = |account: Account| account.pending().unsigned_abs();
        if to == from {
            return 0;
        }
        let lost = if to == from.next() {
            let lost = lost(self.previous);
            self.previous = self.current;
            lost
        } else if to < from {
            self.previous = Account::default();
            return 0;
        } else {
            let lost = lost(self.previous).saturating_add(lost(self.current));
            self.previous = Account::default();
            lost
        };
        self.current = Account::default();
        lost
    }
}

/// The account of a bucket, and this node's own part of its debt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BucketLedger {
    pub(super) account: Account,
    /// The time that this node's own admissions alone would take to drain: never
    /// more than its part of the fleet's debt, so it may be re-added after a loss.
    pub(super) own_debt: Nanos,
}

/// The account of one fine sub-window of a sliding log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogAccount {
    pub(super) window: WindowId,
    pub(super) account: Account,
    /// What the others are known to have used in it.
    pub(super) others: u64,
    /// When that was last more than before.
    pub(super) heard_at: Timestamp,
    /// The moments that it was logged at, and how much.
    pub(super) logged: Vec<(Timestamp, u64)>,
}

impl LogAccount {
    /// What was used in it, as far as is known.
    pub(super) fn used(&self) -> u64 {
        self.others.saturating_add_signed(self.account.balance())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(costs: &[u64]) -> Account {
        let mut account = Account::default();
        for cost in costs {
            account.admit(Cost::new(*cost));
        }
        account
    }

    #[test]
    fn what_was_frozen_is_no_longer_pending() {
        let mut account = admitted(&[3, 4]);
        assert_eq!(account.freeze(), 7);
        assert_eq!(account.pending(), 0);
        account.admit(Cost::new(2));
        assert_eq!(account.freeze(), 2);
    }

    #[test]
    fn the_view_is_the_total_plus_what_came_since_the_batch() {
        let mut account = admitted(&[5]);
        account.freeze();
        let upto = account.balance();
        account.admit(Cost::new(3));
        assert_eq!(account.view(100, upto), 103);
        account.give_back(Cost::new(4));
        assert_eq!(account.view(100, upto), 99);
    }

    #[test]
    fn a_give_back_after_sending_is_sent_as_a_negative_delta() {
        let mut account = admitted(&[5]);
        account.freeze();
        account.give_back(Cost::new(2));
        assert_eq!(account.freeze(), -2);
    }

    #[test]
    fn a_refund_of_what_others_admitted_is_sent_and_never_sent_again() {
        let mut account = admitted(&[3]);
        account.freeze();
        account.give_back(Cost::new(5));
        assert_eq!((account.own(), account.balance()), (0, -2));
        assert_eq!(account.freeze(), -5);
        account.rewind(account.own());
        assert_eq!(account.pending(), 0);
        account.admit(Cost::new(u64::MAX));
        assert_eq!(account.pending(), i64::MAX);
    }

    #[test]
    fn a_rewound_account_sends_everything_again_but_what_is_credited() {
        let mut account = admitted(&[5, 6]);
        account.freeze();
        account.rewind(account.own());
        account.credit(5);
        assert_eq!(account.freeze(), 6);
    }

    #[test]
    fn a_turn_keeps_the_window_before_and_counts_what_is_given_up() {
        let mut ledger = WindowLedger {
            current: admitted(&[5]),
            previous: admitted(&[2]),
        };
        assert_eq!(ledger.turn(WindowId::new(7), WindowId::new(8)), 2);
        assert_eq!((ledger.previous.own(), ledger.current.own()), (5, 0));
        ledger.current.admit(Cost::ONE);
        assert_eq!(ledger.turn(WindowId::new(8), WindowId::new(10)), 6);
        assert_eq!(ledger, WindowLedger::default());
    }
}
