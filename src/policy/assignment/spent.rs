use crate::units::Timestamp;

/// What was held of a window that is over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Past {
    cost: u64,
    /// What of it was used at most, if the gateway went on as before.
    used: u64,
    /// When it was over.
    pub(super) until: Timestamp,
}

impl Past {
    /// How much was held of it.
    pub(super) fn cost(self) -> u64 {
        self.cost
    }

    /// So much was held at `now`, when its window ended, and of it was used since the last
    /// report, if all went on as before.
    pub(super) fn add(&mut self, held: u64, used: u64, now: Timestamp) {
        self.cost = self.cost.saturating_add(held);
        self.used = self.used.saturating_add(used.min(held));
        self.until = now;
    }

    /// How much of what was `allowed` between two reports is settled by this, if so much came
    /// `before` it was over, evenly spread, and the subscriber has `held` so much since. What
    /// cannot have been used of that was used of this.
    ///
    /// Too much would let the subscriber use as much again in the new window, so it is the
    /// lesser of what was expected and what an even use makes likely.
    pub(super) fn settle(self, allowed: u64, before: u64, held: u64) -> u64 {
        let likely = before.min(self.used).max(allowed.saturating_sub(held));
        likely.min(self.cost).min(allowed)
    }
}

/// What was taken for ticks that are over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Paid {
    cost: u64,
    since_report: u64,
}

impl Paid {
    /// How much was taken and not reported as used.
    pub(super) fn cost(self) -> u64 {
        self.cost
    }

    pub(super) fn add(&mut self, cost: u64) {
        self.cost = self.cost.saturating_add(cost);
        self.since_report = self.since_report.saturating_add(cost);
    }

    /// Settles what was reported, as far as it goes. Chance makes some reports fall short and
    /// some go beyond: what is left is kept for the next one, but no more than was taken for
    /// this one.
    pub(super) fn settle(&mut self, used: u64) -> u64 {
        let settled = used.min(self.cost);
        let most = std::mem::take(&mut self.since_report);
        self.cost = (self.cost - settled).min(most);
        settled
    }
}
