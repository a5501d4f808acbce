use super::told::{self, Assignment};
use super::whole;
use crate::units::{Cost, Nanos};

/// What is taken for a subscriber tick by tick, and the rate that comes of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    /// What was granted in the last ticks, in parts of a token, and how long they were.
    granted: u64,
    span: Nanos,
    /// How long the last one was, and what was wanted for it, in parts of a token.
    tick: Nanos,
    wanted: u64,
    /// What was wanted and not granted: being less than one, or being refused.
    owed: f64,
}

/// What a bucket may hold, in tokens, besides what comes in a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reserve {
    /// The least, where more is asked for than is granted.
    pub(super) least: u64,
    /// What may be used at once, where less is: a part of what the limit has saved up.
    pub(super) saved: u64,
}

/// So many parts make a token.
const PARTS: u64 = 1_024;
/// The rate is that of as many periods,
const PERIODS: u64 = 1;
/// or of as many tokens,
const TOKENS: u64 = 32;
/// but no longer than so many periods.
const MOST_PERIODS: u64 = 8;
/// A tick that grants so many times as much as the ticks before it, and so many tokens, is
/// no chance: they are forgotten.
const STEP: u128 = 2;
const TELLING: u64 = 4;
/// A gateway that asks for less than its rate may use what comes in this part of a period
/// at once: it asks by chance.
const RESERVE: u64 = 4;
/// One that asks for more, in this part: it has always used up what there is, and any new
/// bucket gives it that much more.
const LITTLE: u64 = 100;
/// By chance nothing is asked for long enough to fill a small bucket, and what it cannot
/// hold is lost: at twice the rate a third of it by a bucket of one, a tenth of two, a
/// hundredth of four. But all that the subscribers have at once is not to be more than a
/// small limit, or two for each.
const LEAST: (u64, u64) = (2, 4);

/// By how much it must ask for more: the rates are estimates.
const MORE: f64 = 1.1;

impl Rate {
    /// Whether it is the first tick. Old ticks are forgotten.
    pub(super) fn begin(&mut self, period: Nanos) -> bool {
        let first = self.span.is_zero();
        if first {
            // So that even a small rate begins with something.
            self.owed = 1.0;
        }
        let many = self.granted >= TOKENS * PARTS || self.span >= period.times(MOST_PERIODS);
        if many && self.span >= period.times(PERIODS) {
            self.granted /= 2;
            self.span = self.span.divided_by(2);
        }
        first
    }

    /// What is to be asked for, if so much is wanted for a tick of this length.
    pub(super) fn wants(&mut self, wanted: f64, span: Nanos) -> u64 {
        self.tick = span;
        self.wanted = whole(wanted * PARTS as f64);
        self.span = self.span.plus(span);
        self.owed = (self.owed + wanted).min(wanted + 1.0);
        whole(self.owed)
    }

    /// So much was granted for the tick.
    pub(super) fn grant(&mut self, cost: Cost) {
        let parts = cost.get().saturating_mul(PARTS);
        self.owed = (self.owed - cost.get() as f64).max(0.0);
        let before = u128::from(self.granted) * u128::from(self.tick.get());
        let now = u128::from(parts) * u128::from(self.span.minus(self.tick).get());
        if cost.get() >= TELLING && now > before.saturating_mul(STEP) {
            self.granted = parts;
            self.span = self.tick;
        } else {
            self.granted = self.granted.saturating_add(parts);
        }
    }

    /// The rate, for a gateway with this `demand` per second.
    pub(super) fn assignment(
        &self,
        demand: f64,
        period: Nanos,
        reserve: Reserve,
        serial: u32,
    ) -> Assignment {
        let granted = self.granted as f64 / PARTS as f64 / self.span.as_secs_f64();
        let (part, tokens) = match demand < granted * MORE {
            true => (RESERVE, LEAST.1.saturating_add(reserve.saved)),
            false => (LITTLE, reserve.least),
        };
        // With what is to be asked for next, the rate does not hop from token to token.
        let granted = match self.granted {
            0 => 0,
            granted => granted.saturating_add(whole(self.owed.min(1.0) * PARTS as f64)),
        };
        // What is wanted no longer is not granted any more either.
        let (granted, span) = match self.wants_less_than(granted) {
            true => (self.wanted, self.tick),
            false => (granted, self.span),
        };
        let reserve = period.divided_by(part);
        told::refilled(granted, span.times(PARTS), reserve, tokens, serial)
    }

    fn wants_less_than(&self, granted: u64) -> bool {
        let wanted = u128::from(self.wanted) * u128::from(self.span.get());
        wanted < u128::from(granted) * u128::from(self.tick.get())
    }
}

/// The fewest tokens that a bucket of each of so many subscribers holds.
pub(super) fn least(amount: u64, subscribers: u32) -> u64 {
    (amount / u64::from(subscribers.max(1))).clamp(LEAST.0, LEAST.1)
}
