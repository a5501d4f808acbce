//! What a cell remembers besides while it is near its limit.

use super::{Ask, Told};
use crate::policy::{Demand, Standing, Supply, Terms, share};
use crate::units::{Consistency, Cost, Nanos, Timestamp, WindowId};

/// The memory of a cell near its limit: its demand, and its leases.
#[derive(Debug)]
pub(super) struct Edge {
    demand: Demand,
    /// The fleet's demand as the store told it last, and when; and what it was at the
    /// end of the window before.
    fleet: f64,
    fleet_at: Timestamp,
    before: f64,
    /// The slot that it was told in, and the own part of it then.
    fleet_in: WindowId,
    share_then: f64,
    /// What is left of the lease, and the slot whose total has it.
    pub(super) hold: u64,
    pub(super) lent_in: WindowId,
    /// What was lent for the slot after this one, and whether it goes back at once.
    pub(super) next: u64,
    pub(super) next_is_void: bool,
    /// The own demand as the store knows it in the present slot and in the next one.
    told: (WindowId, i64),
    told_next: (WindowId, i64),
    /// When the cell was last put into a batch that is not answered yet.
    sent: Option<Timestamp>,
    /// When the oldest cost that is not sent came in.
    unsent_since: Option<Timestamp>,
    /// No lease is asked for before.
    ask_after: Timestamp,
    /// The slot that a lease in advance was last asked for.
    asked_next: WindowId,
    /// The window whose predecessor's total the store has told after its end.
    settled: WindowId,
    /// Until when the store has refused what cost, as it said itself.
    refused: (Timestamp, Cost),
    /// The last window in which the limit had nothing left; and the window before, if it
    /// was such a one and its total is still to be read.
    pub(super) full: WindowId,
    pub(super) closing: Option<WindowId>,
    /// When that was last asked for.
    read_at: Timestamp,
    /// When the cell was last far from its limit.
    far: Timestamp,
    /// When the sync looks at the cell again, to see whether the lease is still needed.
    look_again: Timestamp,
    /// The latest moment that the cell was touched at.
    seen: Timestamp,
}

/// A clock that goes back by less has not stepped.
const LEAST_STEP: Nanos = Nanos::from_secs(1);
/// How much later than usual an exchange may come.
const SLACK: Nanos = Nanos::from_millis(50);

impl Edge {
    /// A cell comes near its limit at `now`, with this `demand`, in this `slot`.
    pub(super) fn new(demand: Demand, slot: WindowId, now: Timestamp) -> Edge {
        Edge {
            demand,
            fleet: 0.0,
            fleet_at: Timestamp::EPOCH,
            before: 0.0,
            fleet_in: WindowId::default(),
            share_then: 0.0,
            hold: 0,
            lent_in: slot,
            next: 0,
            next_is_void: false,
            told: (WindowId::default(), 0),
            told_next: (WindowId::default(), 0),
            sent: None,
            unsent_since: None,
            ask_after: Timestamp::EPOCH,
            asked_next: WindowId::default(),
            settled: WindowId::default(),
            refused: (Timestamp::EPOCH, Cost::ZERO),
            full: WindowId::default(),
            closing: None,
            read_at: Timestamp::EPOCH,
            far: now,
            look_again: Timestamp::EPOCH,
            seen: Timestamp::EPOCH,
        }
    }

    /// The cell is touched at `now`. If the fleet's clock has stepped back, all moments go
    /// with it: what is to be done soon must not wait until it is that late again.
    pub(super) fn keep_time(&mut self, now: Timestamp) {
        let step = self.seen.since(now);
        self.seen = self.seen.max(now);
        // Checks are not touched quite in the order of their time.
        if step < LEAST_STEP {
            return;
        }
        self.seen = now;
        let moments = [
            &mut self.fleet_at,
            &mut self.ask_after,
            &mut self.refused.0,
            &mut self.read_at,
            &mut self.look_again,
        ];
        let optional = [&mut self.sent, &mut self.unsent_since];
        for moment in moments.into_iter().chain(optional.into_iter().flatten()) {
            *moment = moment.before(step);
        }
    }

    pub(super) fn arrive(&mut self, cost: Cost, terms: &Terms, now: Timestamp) {
        self.demand
            .arrive(Cost::new(cost.get().max(1)), terms.memory(), now);
    }

    /// The demand here, in cost per second.
    pub(super) fn own(&self, terms: &Terms, now: Timestamp) -> f64 {
        self.demand.rate_before(terms.memory(), now)
    }

    /// The fleet's demand: what was heard, or as much on every node as here.
    pub(super) fn fleet(&self, own: f64, terms: &Terms, now: Timestamp) -> f64 {
        if self.is_told(terms, now) {
            self.fleet.max(own)
        } else {
            own * f64::from(terms.nodes.max(1))
        }
    }

    /// The cell is far from its limit.
    pub(super) fn was_far(&mut self, now: Timestamp) {
        self.far = now;
    }

    /// When the cell was last found far from its limit.
    pub(super) const fn far(&self) -> Timestamp {
        self.far
    }

    /// How long ago the store last told of the cell near its limit: by an answer, or by an
    /// announcement.
    pub(super) fn told(&self, now: Timestamp) -> Option<Nanos> {
        (self.fleet_at != Timestamp::EPOCH).then(|| now.since(self.fleet_at))
    }

    /// Whether the store has told of the fleet's demand, and not much more than a period
    /// ago.
    fn is_told(&self, terms: &Terms, now: Timestamp) -> bool {
        let trusted = terms.period.plus(terms.period.divided_by(5));
        self.fleet > 0.0 && now.since(self.fleet_at) <= trusted
    }

    /// The own part of the fleet's demand when the store last told of it, or as much as any
    /// node's.
    pub(super) fn share_then(&self, terms: &Terms, now: Timestamp) -> f64 {
        if self.is_told(terms, now) {
            self.share_then
        } else {
            1.0 / f64::from(terms.nodes.max(1))
        }
    }

    /// What of the `fleet`'s demand is no chance.
    pub(super) fn at_least(&self, fleet: f64, terms: &Terms) -> f64 {
        (fleet - self.demand.doubt(fleet, terms.memory())).max(0.0)
    }

    /// The fleet's demand that is beyond doubt.
    pub(super) fn certain(&self, terms: &Terms, now: Timestamp) -> f64 {
        let own = self.demand.certain(terms.memory(), now);
        if self.is_told(terms, now) {
            // If demand has grown here, it may have grown on all nodes alike.
            let share = self.share_then.max(1.0 / f64::from(terms.nodes.max(1)));
            self.fleet.max(own / share)
        } else {
            own * f64::from(terms.nodes.max(1))
        }
    }

    /// Whether the store has kept silent for too long over what was sent, or nothing was
    /// sent for too long.
    pub(super) fn is_overdue(&self, terms: &Terms, now: Timestamp) -> bool {
        let sending = terms.interval().plus(SLACK).plus(terms.reaction().times(2));
        let unsent = |since: Timestamp| now.since(since) > sending;
        self.is_unanswered(terms, now) || self.unsent_since.is_some_and(unsent)
    }

    /// Whether the answer to the last batch is late.
    fn is_unanswered(&self, terms: &Terms, now: Timestamp) -> bool {
        let patience = terms.trip.times(3).plus(SLACK);
        self.sent.is_some_and(|since| now.since(since) > patience)
    }

    /// Whether nothing was asked for here for longer than a lease is left alone: it would
    /// only go back again.
    pub(super) fn is_at_rest(&self, terms: &Terms, now: Timestamp) -> bool {
        now.since(self.demand.last()) > terms.rest()
    }

    /// Whether a batch with this cell is under way, and may still be answered.
    pub(super) fn is_under_way(&self, terms: &Terms, now: Timestamp) -> bool {
        self.sent.is_some() && !self.is_unanswered(terms, now)
    }

    pub(super) fn may_ask(&self, terms: &Terms, now: Timestamp) -> bool {
        now >= self.ask_after && !self.is_under_way(terms, now)
    }

    /// The limit's amount has changed: what was lent and refused under the old one is void.
    pub(super) fn requoted(&mut self) {
        self.next_is_void = self.next > 0;
        self.refused = (Timestamp::EPOCH, Cost::ZERO);
        self.ask_after = Timestamp::EPOCH;
    }

    /// The store has refused `cost` until some moment.
    pub(super) fn refuse(&mut self, cost: Cost, until: Timestamp) {
        self.refused = (until, cost);
    }

    /// How long the store's refusal of a cost, no greater than this one, still holds.
    pub(super) fn refusal(&self, cost: Cost, now: Timestamp) -> Option<Nanos> {
        let (until, refused) = self.refused;
        (cost >= refused && now < until).then(|| until.since(now))
    }

    /// The store has told the final total of the window before `window`.
    pub(super) fn settle(&mut self, window: WindowId) {
        self.settled = window;
    }

    pub(super) fn is_settled(&self, window: WindowId) -> bool {
        self.settled == window
    }

    /// Whether no reading of the window before is under way.
    pub(super) fn may_read(&self, terms: &Terms, now: Timestamp) -> bool {
        let patience = terms.interval().plus(terms.trip.times(3));
        now.since(self.read_at) > patience.plus(Nanos::from_millis(50))
    }

    /// The window before is read.
    pub(super) fn reads(&mut self, now: Timestamp) {
        self.read_at = now;
    }

    pub(super) fn has_asked_for(&self, next: WindowId) -> bool {
        self.asked_next == next
    }

    /// When the oldest cost that is not sent came in.
    pub(super) const fn unsent_since(&self) -> Option<Timestamp> {
        self.unsent_since
    }

    /// A cost was admitted without a lease.
    pub(super) fn admitted(&mut self, now: Timestamp) {
        self.unsent_since.get_or_insert(now);
    }

    /// The store gets what is pending, and an ask with it.
    pub(super) fn ask(
        &mut self,
        slot: WindowId,
        want: u64,
        standing: &Standing,
        promise: Consistency,
        now: Timestamp,
    ) -> Ask {
        self.sent = Some(now);
        self.unsent_since = None;
        Ask {
            want,
            unit: 1,
            promise,
            announced_from: 0,
            portion: standing.portion(),
            demand: tell(&mut self.told, slot, standing.own),
        }
    }

    /// The store is asked for a lease in the slot after this one.
    pub(super) fn ask_next(
        &mut self,
        slot: WindowId,
        want: u64,
        standing: &Standing,
        promise: Consistency,
    ) -> Ask {
        self.asked_next = slot;
        Ask {
            want,
            unit: 1,
            promise,
            announced_from: 0,
            portion: standing.portion() / 2,
            demand: tell(&mut self.told_next, slot, standing.own),
        }
    }

    /// The store has answered an ask in the present `slot`, which began so long ago.
    pub(super) fn answered(
        &mut self,
        told: Told,
        slot: (WindowId, Nanos),
        terms: &Terms,
        now: Timestamp,
    ) {
        let asked = self.sent.take().unwrap_or(now);
        if told.wanted && terms.supply != Supply::AtTheTurn {
            // What comes back bit by bit is shared out at every interval.
            self.ask_after = asked.after(terms.interval());
        } else if told.wanted && told.grant == 0 {
            self.ask_after = now.after(terms.interval());
        }
        self.heard_of_demand(told.demand, slot, terms, now);
    }

    /// The store has told that the fleet's nodes report so much demand in `slot`, which
    /// began so long ago: not all may have done so yet.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn heard_of_demand(
        &mut self,
        thousandths: u64,
        (slot, elapsed): (WindowId, Nanos),
        terms: &Terms,
        now: Timestamp,
    ) {
        if slot != self.fleet_in {
            self.before = self.fleet;
            self.fleet_in = slot;
        }
        let reported = thousandths as f64 / 1e3;
        let part = elapsed.as_secs_f64() / terms.period.as_secs_f64();
        let remembered = self.before * (1.0 - 2.0 * part).max(0.0);
        self.fleet = reported.max(remembered);
        self.fleet_at = now;
        let own = self.own(terms, now);
        self.share_then = share(own, self.fleet);
    }

    /// The store has lost what was lent for the next slot.
    pub(super) fn lost_next(&mut self) {
        self.next = 0;
        self.told_next.1 = 0;
    }

    /// The store has lost what was reported in this slot.
    pub(super) fn forgotten(&mut self) {
        self.told.1 = 0;
        self.sent = None;
    }

    /// How long the sync waits before it looks at the lease again; `None` if it will
    /// anyway, or if nothing is lent.
    pub(super) fn look_again(&mut self, terms: &Terms, now: Timestamp) -> Option<Nanos> {
        let wait = terms.interval().times(2);
        // The sync waits on another clock: the fleet's may have stepped back meanwhile.
        if self.hold == 0 || self.look_again.since(now) > wait.divided_by(2) {
            return None;
        }
        self.look_again = now.after(wait);
        Some(wait)
    }

    /// A window ends; `follows` says that the next one is the present one. Answers what
    /// was left of the lease in the window that ended.
    pub(super) fn turn(&mut self, follows: bool, window: WindowId) -> u64 {
        let left = self.hold;
        self.hold = if follows { self.next } else { 0 };
        self.next = 0;
        self.lent_in = window;
        self.closing = (follows && self.full.next() == window).then_some(self.full);
        self.told = self.told_next;
        self.sent = None;
        self.ask_after = Timestamp::EPOCH;
        left
    }
}

/// Brings what the store knows of the own demand in a slot to `rate`, and answers the
/// change, in thousandths of cost per second.
#[allow(clippy::cast_possible_truncation)] // Saturates.
fn tell(told: &mut (WindowId, i64), slot: WindowId, rate: f64) -> i64 {
    let rate = (rate * 1e3) as i64;
    let known = if told.0 == slot { told.1 } else { 0 };
    *told = (slot, rate);
    rate - known
}
