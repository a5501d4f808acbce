//! `sliding_log`: every admitted hit remembered, up to `amount` in every trailing
//! window. A hit at `t` stops counting at exactly `t` + period.
//!
//! Exact: no span as long as the period ever holds more than `amount`. The price
//! is memory, 16 bytes for each moment with a hit, so amounts are bounded.

use std::collections::VecDeque;

use super::{Outcome, Verdict};
use crate::units::{Cost, MAX_LOG_AMOUNT, Nanos, Quota, Timestamp};

#[allow(clippy::cast_possible_truncation)] // 100,000 fits any usize.
const MAX_HITS: usize = MAX_LOG_AMOUNT as usize;

/// The hits of one trailing window, oldest first; those of one nanosecond are one.
///
/// Each holds the running total up to itself and not its own cost, so that sums
/// and waits are found by bisection however many hits there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    hits: VecDeque<Hit>,
    /// The running total before the first hit.
    base: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hit {
    at: Timestamp,
    /// The running total up to and with this hit. It wraps: only differences
    /// count, and the sum of all hits is kept below 2^64.
    total: u64,
}

impl LogState {
    /// Adds use that other nodes reported: `cost` at the moment `at`, which may lie
    /// before hits that are already known. A log that is full puts it to the next
    /// later hit, where it counts a little longer than it should.
    pub fn add(&mut self, quota: &Quota, at: Timestamp, cost: Cost) {
        if quota.is_ban() || cost.is_peek() {
            return;
        }
        if self.hits.len() >= MAX_HITS {
            let newest = self.newest().unwrap_or(at).max(at);
            self.forget_until(newest, quota.period());
        }
        let index = self.hits.partition_point(|hit| hit.at < at);
        match self.hits.get(index) {
            Some(hit) if hit.at == at || self.hits.len() >= MAX_HITS => {}
            Some(_) => {
                let total = self.total_before(index);
                self.hits.insert(index, Hit { at, total });
            }
            None => return self.push(at, cost),
        }
        let cost = self.addable(cost);
        for hit in self.hits.range_mut(index..) {
            hit.total = hit.total.wrapping_add(cost);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.hits.len()
    }

    /// See [`State::take`](super::State::take), for a quota that is no ban.
    pub fn take(&mut self, quota: &Quota, cost: Cost, now: Timestamp) -> Outcome {
        let (period, moment) = (quota.period(), self.moment(quota, now));
        // Left ahead, the hits would be taken to be of every later `now` again, and
        // waiting would not help.
        self.bring_back(moment);
        let live = self.first_live(moment, period);
        let mut used = self.sum_from(live);
        let asked = cost.get().max(1);
        let verdict = match quota.amount().checked_sub(asked) {
            None => Verdict::Impossible,
            Some(room) if used <= room => {
                if !cost.is_peek() {
                    self.charge(quota, cost, now);
                    used += cost.get();
                }
                Verdict::NOW
            }
            Some(room) => {
                // The first hit after which the rest is small enough.
                let enough = self.sum_after(room);
                let at = self.hits.get(enough).map_or(moment, |hit| hit.at);
                Verdict::Refused {
                    retry_after: at.after(period).since(now),
                }
            }
        };
        Outcome {
            verdict,
            remaining: quota.amount().saturating_sub(used),
            reset_after: match self.newest() {
                Some(at) if used > 0 => at.after(period).since(now),
                _ => Nanos::ZERO,
            },
        }
    }

    /// See [`State::age`](super::State::age).
    pub fn age(&mut self, quota: &Quota, now: Timestamp) {
        let moment = self.moment(quota, now);
        self.forget_until(moment, quota.period());
        self.bring_back(moment);
    }

    /// See [`State::charge`](super::State::charge).
    pub fn charge(&mut self, quota: &Quota, cost: Cost, now: Timestamp) {
        self.age(quota, now);
        self.push(self.moment(quota, now), cost);
    }

    /// See [`State::give_back`](super::State::give_back).
    pub fn give_back(&mut self, cost: Cost, taken_at: Timestamp) {
        let Ok(index) = self.hits.binary_search_by_key(&taken_at, |hit| hit.at) else {
            return;
        };
        let own = self.hits[index]
            .total
            .wrapping_sub(self.total_before(index));
        let cost = cost.get().min(own);
        for hit in self.hits.range_mut(index..) {
            hit.total = hit.total.wrapping_sub(cost);
        }
        if cost == own {
            self.hits.remove(index);
        }
    }

    /// Takes `cost` off the newest hits, as far as there is so much, and answers from which
    /// it was taken, the newest first.
    pub fn refund(&mut self, quota: &Quota, cost: Cost, now: Timestamp) -> Vec<(Timestamp, Cost)> {
        self.age(quota, now);
        let mut left = cost.get();
        let mut refunded = Vec::new();
        while left > 0
            && let Some(newest) = self.hits.pop_back()
        {
            let before = self.total_before(self.hits.len());
            let part = newest.total.wrapping_sub(before).min(left);
            left -= part;
            refunded.push((newest.at, Cost::new(part)));
            let total = newest.total.wrapping_sub(part);
            if total != before {
                let at = newest.at;
                self.hits.push_back(Hit { at, total });
            }
        }
        refunded
    }

    /// `now`, or the newest hit's moment if that is at most a period ahead: then
    /// time stands still.
    pub fn moment(&self, quota: &Quota, now: Timestamp) -> Timestamp {
        match self.newest() {
            Some(at) if at.since(now) <= quota.period() => at.max(now),
            _ => now,
        }
    }

    /// See [`State::is_fresh`](super::State::is_fresh).
    pub fn is_fresh(&self, quota: &Quota, now: Timestamp) -> bool {
        self.first_live(self.moment(quota, now), quota.period()) == self.hits.len()
    }

    fn newest(&self) -> Option<Timestamp> {
        self.hits.back().map(|hit| hit.at)
    }

    /// Logs `cost` at `at`, no earlier than the newest hit. A full log moves its
    /// newest hit instead, which then counts a little longer than it should.
    fn push(&mut self, at: Timestamp, cost: Cost) {
        let cost = self.addable(cost);
        if cost == 0 {
            // The sum is at its end.
            return;
        }
        let total = self.total_before(self.hits.len()).wrapping_add(cost);
        let full = self.hits.len() >= MAX_HITS;
        match self.hits.back_mut() {
            Some(newest) if newest.at == at || full => *newest = Hit { at, total },
            _ => self.hits.push_back(Hit { at, total }),
        }
    }

    /// What of `cost` the sum of all hits has room for.
    fn addable(&self, cost: Cost) -> u64 {
        cost.get().min(u64::MAX - self.sum_from(0))
    }

    /// Counts hits ahead of `moment`, which a wrong clock logged, as hits of `moment`.
    fn bring_back(&mut self, moment: Timestamp) {
        if self.newest() <= Some(moment) {
            return;
        }
        let total = self.total_before(self.hits.len());
        while self.newest() > Some(moment) {
            self.hits.pop_back();
        }
        match self.hits.back_mut() {
            Some(hit) if hit.at == moment => hit.total = total,
            _ => self.hits.push_back(Hit { at: moment, total }),
        }
    }

    /// Forgets the hits that stopped counting by `moment`.
    fn forget_until(&mut self, moment: Timestamp, period: Nanos) {
        let live = self.first_live(moment, period);
        self.base = self.total_before(live);
        self.hits.drain(..live);
    }

    /// The index of the first hit that still counts at `moment`.
    fn first_live(&self, moment: Timestamp, period: Nanos) -> usize {
        match self.hits.front() {
            Some(oldest) if moment.since(oldest.at) >= period => self
                .hits
                .partition_point(|hit| moment.since(hit.at) >= period),
            _ => 0,
        }
    }

    fn total_before(&self, index: usize) -> u64 {
        match index.checked_sub(1).and_then(|last| self.hits.get(last)) {
            Some(hit) => hit.total,
            None => self.base,
        }
    }

    /// The cost of the hits from `index` on.
    fn sum_from(&self, index: usize) -> u64 {
        self.total_before(self.hits.len())
            .wrapping_sub(self.total_before(index))
    }

    /// The index of the first hit after which the hits cost at most `room`.
    fn sum_after(&self, room: u64) -> usize {
        let total = self.total_before(self.hits.len());
        self.hits
            .partition_point(|hit| total.wrapping_sub(hit.total) > room)
    }
}
