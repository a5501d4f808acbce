use super::ledger::{Account, BucketLedger, LogAccount, WindowLedger};
use super::slot::{Slot, Space};
use crate::algorithms::{BucketState, LogState, Outcome, State, Verdict, WindowState};
use crate::units::{Cost, Nanos, Quota, Timestamp, WindowId};

/// A limit's state for one key, with the ledger of what this node has put into it.
#[derive(Debug)]
pub(super) enum Body {
    Window {
        state: WindowState,
        ledger: WindowLedger,
    },
    Bucket {
        state: BucketState,
        ledger: BucketLedger,
    },
    Log(Box<Log>),
}

#[derive(Debug)]
pub(super) struct Log {
    pub(super) state: LogState,
    pub(super) accounts: Vec<LogAccount>,
}

/// What others have used meanwhile is logged in so many pieces.
const PIECES: u64 = 4;

impl Body {
    pub(super) fn fresh(quota: &Quota) -> Body {
        match State::fresh(quota) {
            State::Window(state) => Body::Window {
                state,
                ledger: WindowLedger::default(),
            },
            State::Bucket(state) => Body::Bucket {
                state,
                ledger: BucketLedger::default(),
            },
            State::Log(state) => Body::Log(Box::new(Log {
                state: *state,
                accounts: Vec::new(),
            })),
        }
    }

    #[inline(always)]
    pub(super) fn take(&mut self, quota: &Quota, cost: Cost, now: Timestamp) -> Outcome {
        if quota.is_ban() {
            return Outcome::BANNED;
        }
        match self {
            Body::Window { state, .. } => state.take(quota, cost, now),
            Body::Bucket { state, .. } => state.take(quota, cost, now),
            Body::Log(log) => log.state.take(quota, cost, now),
        }
    }

    /// Says what a take would be told, and takes nothing.
    pub(super) fn probe(&mut self, quota: &Quota, cost: Cost, now: Timestamp) -> Outcome {
        match self {
            _ if quota.is_ban() => Outcome::BANNED,
            Body::Window { state, .. } => { *state }.take(quota, cost, now),
            Body::Bucket { state, .. } => { *state }.take(quota, cost, now),
            Body::Log(log) => {
                // Too large to copy for a question.
                let outcome = log.state.take(quota, cost, now);
                if matches!(outcome.verdict, Verdict::Admitted { .. }) {
                    let taken_at = log.state.moment(quota, now);
                    log.state.give_back(cost, taken_at);
                }
                outcome
            }
        }
    }

    pub(super) fn charge(&mut self, quota: &Quota, cost: Cost, now: Timestamp) {
        match self {
            Body::Window { state, .. } => state.charge(quota, cost, now),
            Body::Bucket { state, .. } => state.charge(quota, cost, now),
            Body::Log(log) => log.state.charge(quota, cost, now),
        }
    }

    /// Notes in the ledger what was admitted and counts for the moment `at`.
    #[inline]
    pub(super) fn record(&mut self, quota: &Quota, cost: Cost, at: Timestamp) {
        match self {
            Body::Window { ledger, .. } => ledger.current.admit(cost),
            Body::Bucket { ledger, .. } => {
                ledger.account.admit(cost);
                ledger.own_debt = ledger.own_debt.plus(BucketState::cost_as_time(quota, cost));
            }
            Body::Log(log) => log.account(Space::of(quota).window(at)).account.admit(cost),
        }
    }

    /// Notes that of what was lent here `cost` was admitted.
    pub(super) fn spend(&mut self, quota: &Quota, cost: Cost) {
        if let Body::Bucket { ledger, .. } = self {
            ledger.own_debt = ledger.own_debt.plus(BucketState::cost_as_time(quota, cost));
        }
    }

    pub(super) fn give_back(
        &mut self,
        quota: &Quota,
        cost: Cost,
        taken_at: Timestamp,
        now: Timestamp,
    ) {
        match self {
            Body::Window { state, .. } => state.give_back(quota, cost, taken_at),
            Body::Bucket { state, .. } => state.give_back(quota, cost, taken_at, now),
            Body::Log(log) => log.state.give_back(cost, taken_at),
        }
    }

    /// Notes in the ledger what was given back of what was admitted at `taken_at`.
    pub(super) fn record_give_back(&mut self, quota: &Quota, cost: Cost, taken_at: Timestamp) {
        if let Body::Bucket { ledger, .. } = self {
            ledger.account.give_back(cost);
            let repaid = BucketState::cost_as_time(quota, cost);
            ledger.own_debt = ledger.own_debt.minus(repaid);
        } else if let Some(account) = self.account(Space::of(quota).window(taken_at)) {
            account.give_back(cost);
        }
    }

    /// The moment that a cost taken at `now` counts for.
    #[inline(always)]
    pub(super) fn moment(&self, quota: &Quota, now: Timestamp) -> Timestamp {
        match self {
            Body::Window { state, .. } => state.moment(quota, now),
            Body::Bucket { state, .. } => state.moment(quota, now),
            Body::Log(log) => log.state.moment(quota, now),
        }
    }

    pub(super) fn is_fresh(&self, quota: &Quota, now: Timestamp) -> bool {
        match self {
            Body::Window { state, .. } => state.is_fresh(quota, now),
            Body::Bucket { state, .. } => state.is_fresh(quota, now),
            Body::Log(log) => log.state.is_fresh(quota, now),
        }
    }

    pub(super) fn remaining(&mut self, quota: &Quota, now: Timestamp) -> u64 {
        self.take(quota, Cost::ZERO, now).remaining
    }

    /// Whether `slot` is the one that is being counted at `now`.
    pub(super) fn is_present(&self, slot: Slot, now: Timestamp) -> bool {
        match self {
            Body::Window { state, .. } => slot.window == state.id(),
            Body::Bucket { .. } => true,
            Body::Log(_) => slot.window == slot.space.window(now),
        }
    }

    /// Whether `slot` is the window after the one that is being counted.
    pub(super) fn is_next(&self, slot: Slot) -> bool {
        match self {
            Body::Window { state, .. } => slot.window == state.id().next(),
            Body::Bucket { .. } | Body::Log(_) => false,
        }
    }

    /// What a cost of one is in the store's unit.
    pub(super) fn unit(&self, quota: &Quota) -> u64 {
        match self {
            Body::Bucket { .. } => BucketState::cost_as_time(quota, Cost::ONE).get().max(1),
            Body::Window { .. } | Body::Log(_) => 1,
        }
    }

    /// What `slot` may hold in all, in the store's unit, if the limit has `remaining`
    /// left: what other slots weigh is taken off. Of what was lent in it, `hold` is unspent.
    pub(super) fn room(&mut self, quota: &Quota, slot: Slot, remaining: u64, hold: u64) -> u64 {
        match self {
            Body::Bucket { .. } => quota.drain_time().get(),
            Body::Window { state, .. } if slot.window == state.id() => {
                remaining.saturating_add(state.current())
            }
            Body::Window { .. } => quota.capacity(),
            Body::Log(log) => {
                let used = log.account(slot.window).used();
                remaining.saturating_add(used.saturating_sub(hold))
            }
        }
    }

    /// Takes off what was lent in `window` and is not wanted.
    pub(super) fn give_up(&mut self, cost: Cost, window: WindowId) {
        if cost.is_peek() {
            return;
        }
        match self {
            Body::Bucket { ledger, .. } => ledger.account.give_back(cost),
            body => {
                if let Some(account) = body.account(window) {
                    account.give_back(cost);
                }
            }
        }
    }

    /// Puts what is pending for `slot` into a delta: its cost, and all that was admitted
    /// here with it.
    pub(super) fn freeze(&mut self, quota: &Quota, slot: Slot) -> Option<(i64, i64)> {
        if let Body::Bucket { ledger, .. } = self {
            // The store keeps debts as the time they take to drain.
            let pending = ledger.account.freeze();
            let time = BucketState::cost_as_time(quota, Cost::new(pending.unsigned_abs()));
            let time = i64::try_from(time.get()).unwrap_or(i64::MAX);
            let cost = if pending < 0 { -time } else { time };
            return Some((cost, ledger.account.balance()));
        }
        let account = self.account(slot.window)?;
        Some((account.freeze(), account.balance()))
    }

    /// The account of `window`, where costs are counted by windows.
    pub(super) fn account(&mut self, window: WindowId) -> Option<&mut Account> {
        match self {
            Body::Window { state, ledger } => {
                let (current, previous) = (state.id(), state.id().previous());
                match window {
                    _ if window == current => Some(&mut ledger.current),
                    _ if window == previous => Some(&mut ledger.previous),
                    _ => None,
                }
            }
            Body::Log(log) => Some(&mut log.account(window).account),
            Body::Bucket { .. } => None,
        }
    }

    /// Whether something is to be taken off again in the store.
    pub(super) fn owes(&self) -> bool {
        match self {
            Body::Window { ledger, .. } => {
                ledger.current.pending() < 0 || ledger.previous.pending() < 0
            }
            Body::Bucket { ledger, .. } => ledger.account.pending() < 0,
            Body::Log(log) => log.accounts.iter().any(|a| a.account.pending() < 0),
        }
    }

    /// The cost that waits to be sent, whatever its sign.
    pub(super) fn pending(&self) -> u64 {
        match self {
            Body::Window { ledger, .. } => {
                let (current, previous) = (ledger.current.pending(), ledger.previous.pending());
                current
                    .unsigned_abs()
                    .saturating_add(previous.unsigned_abs())
            }
            Body::Bucket { ledger, .. } => ledger.account.pending().unsigned_abs(),
            Body::Log(log) => log.accounts.iter().fold(0, |sum: u64, a| {
                sum.saturating_add(a.account.pending().unsigned_abs())
            }),
        }
    }
}

impl Log {
    pub(super) fn account(&mut self, window: WindowId) -> &mut LogAccount {
        let at = self
            .accounts
            .iter()
            .position(|account| account.window == window);
        let at = at.unwrap_or_else(|| {
            self.accounts.push(LogAccount {
                window,
                ..LogAccount::default()
            });
            self.accounts.len() - 1
        });
        &mut self.accounts[at]
    }

    /// Learns that the others have used `others` in `slot`.
    pub(super) fn learn(&mut self, quota: &Quota, slot: Slot, others: u64, now: Timestamp) {
        let end = slot.end();
        let account = self.account(slot.window);
        let known = std::mem::replace(&mut account.others, others);
        if others > known {
            let to = end.min(now);
            let from = slot.start().max(account.heard_at);
            account.heard_at = to;
            // Evenly over the time that it may have come in.
            let (span, mut left) = (to.since(from), others - known);
            let pieces = left.min(PIECES);
            for piece in 0..pieces {
                let at = from.after(span.times(2 * piece + 1).divided_by(2 * pieces));
                let cost = left / (pieces - piece);
                left -= cost;
                self.account(slot.window).logged.push((at, cost));
                self.state.add(quota, at, Cost::new(cost));
            }
            return;
        }
        let mut back = known - others;
        let mut taken = Vec::new();
        while back > 0
            && let Some((at, logged)) = account.logged.pop()
        {
            let this = logged.min(back);
            back -= this;
            taken.push((at, this));
            if this < logged {
                account.logged.push((at, logged - this));
            }
        }
        for (at, cost) in taken {
            self.state.give_back(Cost::new(cost), at);
        }
    }

    /// Drops the accounts of parts that have left the window and have nothing to send,
    /// or nobody to send it to. Answers the cost that was given up.
    pub(super) fn turn(&mut self, space: Space, now: Timestamp) -> u64 {
        let mut expired: u64 = 0;
        self.accounts.retain(|account| {
            let slot = Slot {
                space,
                window: account.window,
            };
            let pending = account.account.pending();
            if slot.matters(now) {
                return slot.is_read(now) || pending != 0;
            }
            expired = expired.saturating_add(pending.unsigned_abs());
            false
        });
        expired
    }
}

impl BucketLedger {
    /// Goes over to another quota: what is pending keeps the time it takes to drain.
    pub(super) fn reprice(&mut self, old: &Quota, new: &Quota) {
        let pending = self.account.pending();
        if pending != 0 && !old.is_ban() && !new.is_ban() {
            let time = BucketState::cost_as_time(old, Cost::new(pending.unsigned_abs()));
            let cost = i64::try_from(time_as_cost(new, time)).unwrap_or(i64::MAX);
            self.account
                .set_pending(if pending < 0 { -cost } else { cost });
        }
    }

    /// Drains this node's own part of the debt. Called before the state moves from
    /// `at` to `now`.
    pub(super) fn age(&mut self, at: Timestamp, now: Timestamp) {
        self.own_debt = self.own_debt.minus(now.since(at));
    }
}

/// The tokens that drain in `time`, rounded up.
pub(super) fn time_as_cost(quota: &Quota, time: Nanos) -> u64 {
    let tokens = u128::from(time.get()) * u128::from(quota.amount());
    u64::try_from(tokens.div_ceil(u128::from(quota.period().get()))).unwrap_or(u64::MAX)
}
