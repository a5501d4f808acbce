//! What the engine takes from cells, asks of them and gives back to them, by the limits'
//! policies for a lost store where it is lost.

use super::judged::{Judged, Tally};
use super::{Engine, Outcome};
use crate::algorithms::Verdict;
use crate::counters::{By, StoreHealth};
use crate::rules::Applied;
use crate::units::{Consistency, Cost, Limit, Nanos, Quota, StoreLoss, Timestamp};

/// When to ask again for what only the store's return can admit: nobody knows when that is.
const STORE_MAY_BE_BACK: Nanos = Nanos::from_secs(1);

impl Engine {
    /// Whether a strict limit's checks are put to the store now. A ban is known here.
    pub(super) fn asks(&self, limit: &Limit) -> bool {
        !limit.quota.is_ban() && self.counters.fleet().health() == StoreHealth::Up
    }

    pub(super) fn is_lost(&self, limit: &Limit) -> bool {
        let fleet = self.counters.fleet();
        let lost = fleet.health() == StoreHealth::Lost;
        // What others have admitted meanwhile, the store may not know yet.
        let keeps_to_its_share = limit.on_store_loss == StoreLoss::Share && fleet.is_scattered();
        limit.consistency != Consistency::Local && (lost || keeps_to_its_share)
    }

    #[inline(always)]
    pub(super) fn take(&self, applied: &Applied<'_>, cost: Cost, now: Timestamp) -> Judged {
        if self.is_lost(applied.limit) {
            self.take_lost(applied, cost, now)
        } else {
            self.take_under(&applied.limit.quota, applied, cost, now)
        }
    }

    /// Takes `cost` from the cell, by the limit's policy for a lost store.
    #[cold]
    fn take_lost(&self, applied: &Applied<'_>, cost: Cost, now: Timestamp) -> Judged {
        let ask = |quota: &Quota| self.take_under(quota, applied, cost, now);
        self.ask_lost(applied.limit, cost, &ask)
    }

    #[inline(always)]
    fn take_under(
        &self,
        quota: &Quota,
        applied: &Applied<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Judged {
        let Applied { limit, key, .. } = *applied;
        let taken = self.counters.take(limit, quota, key, cost, now);
        let admitted = matches!(taken.outcome.verdict, Verdict::Admitted { .. });
        Judged {
            taken_at: (admitted && !cost.is_peek()).then_some(taken.at),
            ..Judged::new(taken)
        }
    }

    pub(super) fn probe(&self, applied: &Applied<'_>, cost: Cost, now: Timestamp) -> Judged {
        if self.is_lost(applied.limit) {
            self.probe_lost(applied, cost, now)
        } else {
            self.probe_under(&applied.limit.quota, applied, cost, now)
        }
    }

    fn probe_lost(&self, applied: &Applied<'_>, cost: Cost, now: Timestamp) -> Judged {
        let ask = |quota: &Quota| self.probe_under(quota, applied, cost, now);
        self.ask_lost(applied.limit, cost, &ask)
    }

    fn probe_under(
        &self,
        quota: &Quota,
        applied: &Applied<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Judged {
        let Applied { limit, key, .. } = *applied;
        Judged::new(self.counters.probe(limit, quota, key, cost, now))
    }

    /// Lets the limit at `index`, which should have been asked about at the store, go by
    /// its policy for a lost one.
    #[cold]
    pub(super) fn take_without_store(
        &self,
        tally: &mut Tally,
        index: usize,
        one: &Applied<'_>,
        cost: Cost,
        now: Timestamp,
    ) {
        let cost = one.cost(cost);
        let judged = if tally.refused && !one.limit.count_denied {
            self.probe_lost(one, cost, now)
        } else {
            self.take_lost(one, cost, now)
        };
        tally.note(index, one.key, cost, judged);
        if tally.refused {
            self.give_back(tally, now);
        }
    }

    /// Charges those of `limits` that never refuse, and notes what they say, unless the
    /// others have refused: they change nothing for them.
    #[cold]
    pub(super) fn advise<'a>(
        &self,
        tally: &mut Tally,
        limits: impl Iterator<Item = Applied<'a>>,
        cost: Cost,
        now: Timestamp,
    ) {
        if tally.refused {
            return;
        }
        for (index, one) in limits.enumerate() {
            if !one.limit.mode.enforces() {
                tally.advice.push((index, self.take(&one, cost, now)));
            }
        }
    }

    /// Gives back all that was taken.
    #[cold]
    pub(super) fn give_back(&self, tally: &mut Tally, now: Timestamp) {
        for (key, cost, at) in tally.taken.drain(..) {
            self.counters.give_back(key, cost, at, now);
        }
    }

    /// Asks the cell under the quota that a lost store leaves it.
    fn ask_lost(&self, limit: &Limit, cost: Cost, ask: &dyn Fn(&Quota) -> Judged) -> Judged {
        let quota = &limit.quota;
        if limit.consistency == Consistency::Bounded {
            // What the store has lent before may still be spent.
            let judged = ask(quota);
            return match (judged.by, limit.on_store_loss) {
                (By::Cell, _) => judged,
                (By::Store, StoreLoss::Open) => Judged {
                    outcome: Outcome::Bypassed,
                    ..judged
                },
                (By::Store, _) => Judged::UNAVAILABLE,
            };
        }
        match limit.on_store_loss {
            StoreLoss::Local => ask(quota),
            StoreLoss::Share => {
                let share = quota.share(self.counters.fleet().nodes());
                let judged = ask(&share);
                // What no share can hold, the whole limit may, when the store is back.
                let too_large = judged.outcome == Outcome::Impossible;
                if too_large && cost.get() <= quota.capacity() {
                    let retry_after = STORE_MAY_BE_BACK;
                    let outcome = Outcome::Refused { retry_after };
                    Judged { outcome, ..judged }
                } else {
                    judged
                }
            }
            StoreLoss::Open => {
                // What the limit would admit is counted; what goes beyond is not.
                Judged {
                    outcome: Outcome::Bypassed,
                    ..ask(quota)
                }
            }
            StoreLoss::Closed => Judged::UNAVAILABLE,
        }
    }
}
