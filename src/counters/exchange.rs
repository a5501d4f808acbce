//! A cell's side of the exchange with the store.

use std::sync::Arc;

use smallvec::SmallVec;

use super::body::{Body, time_as_cost};
use super::cell::Cell;
use super::marks::Told as Queued;
use super::slot::{Slot, Space};
use super::wants::Wants;
use super::{Ask, Delta, Fleet};
use crate::policy::{Pressure, Terms};
use crate::units::{Algorithm, Cost, Nanos, Timestamp};

/// What a cell has for the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The slots that it has something to send to, or to ask of.
    pub slots: SmallVec<[Slot; 3]>,
    /// When to look at it again, although nothing more may have been asked of it.
    pub again: Option<Nanos>,
}

/// What the store has told longer ago is read anew, all of it.
const LATE: Nanos = Nanos::from_secs(1);

impl Cell<'_> {
    /// How soon the cell wants to be sent; forgets the signals that led here if it
    /// wants nothing.
    pub(super) fn examine(&mut self, now: Timestamp, fleet: &Fleet) -> Option<Nanos> {
        let limit = Arc::clone(self.limit);
        self.turn(&limit, now, fleet);
        let remaining = self.body.remaining(&limit.quota, now);
        // The sweep has cells sent that are in no hurry, and leases that nobody needs.
        let swept = match self.is_queued() {
            true if self.rests_on_a_lease(now, fleet) => Some(Pressure::Near),
            true if self.pending() != 0 => Some(Pressure::Far),
            _ => None,
        };
        let pressure = self.wants(remaining, now, fleet).pressure.or(swept);
        let patience =
            pressure.and_then(|pressure| pressure.patience(limit.pace, limit.quota.period()));
        let Some((pressure, patience)) = pressure.zip(patience) else {
            self.marks.set_told(Queued::Nothing);
            return None;
        };
        // It may become more pressing while it is held back, and must be able to say so.
        self.marks.set_told(Queued::Queued(pressure));
        // Costs are sent no later than at the end of their window, so that it is
        // complete when the next one weighs it.
        Some(match &self.body {
            Body::Window { state, .. } => {
                patience.min(limit.quota.windows().end(state.id()).since(now))
            }
            Body::Bucket { .. } | Body::Log(_) => patience,
        })
    }

    /// The slots that the cell has something to send to, or to ask of.
    pub(super) fn route(&mut self, now: Timestamp, fleet: &Fleet) -> Route {
        let limit = Arc::clone(self.limit);
        self.turn(&limit, now, fleet);
        let again = self.return_surplus(now, fleet);
        let space = Space::of(&limit.quota);
        let remaining = self.body.remaining(&limit.quota, now);
        let wants = self.wants(remaining, now, fleet);
        if let Some(early) = self.is_early(&wants, now) {
            let again = Some(again.map_or(early, |again| again.min(early)));
            return Route {
                again,
                ..Route::default()
            };
        }
        let asks = wants.lease > 0 || (wants.pressure.is_some() && !self.is_heard(now));
        let closes = self.closes(&self.terms(fleet), now, fleet);
        let late = self.others_are_late_by(remaining, now, fleet);
        let mut slots = SmallVec::new();
        match &self.body {
            Body::Window { state, ledger } => {
                let window = state.id();
                let current = Slot { space, window };
                if ledger.current.pending() != 0 || asks {
                    slots.push(current);
                }
                if wants.next > 0 || (fleet.is_leaving() && self.has_leases()) {
                    slots.push(current.next());
                }
                // A sliding window reads the window before, which the other nodes
                // complete a little after its end.
                let terms = self.terms(fleet);
                let unsettled = match &self.edge {
                    Some(edge) if terms.is_bounded() => !self.is_settled(edge),
                    _ => self.marks.heard() <= settled_at(current, &terms),
                };
                let unsettled = unsettled
                    && limit.quota.algorithm() == Algorithm::SlidingWindow
                    && wants.pressure.is_some();
                if ledger.previous.pending() != 0 || unsettled || closes {
                    slots.push(current.previous());
                }
            }
            Body::Bucket { ledger, .. } => {
                if ledger.account.pending() != 0 || asks {
                    let window = space.window(now);
                    slots.push(Slot { space, window });
                }
            }
            Body::Log(log) => {
                let current = space.window(now);
                let sent = |window| {
                    log.accounts
                        .iter()
                        .any(|a| a.window == window && a.account.pending() != 0)
                };
                let sends = log.accounts.iter().any(|a| a.account.pending() != 0);
                if asks || sends {
                    // What the others have added since the store last told of it, and they
                    // send late.
                    let heard = self.marks.heard();
                    let fresh = now.since(heard) <= LATE.min(limit.quota.period().divided_by(4));
                    let told = if fresh {
                        heard.before(late.plus(self.terms(fleet).reaction()))
                    } else {
                        // Much may have come late, or have gone back.
                        Timestamp::EPOCH
                    };
                    let reach = Slot {
                        space,
                        window: current,
                    }
                    .reach();
                    let mut window = space.window(told.max(now.before(reach)));
                    while window <= current {
                        slots.push(Slot { space, window });
                        window = window.next();
                    }
                }
                let earlier = log.accounts.iter().map(|a| a.window);
                for window in earlier.filter(|window| sent(*window)) {
                    let slot = Slot { space, window };
                    if !slots.contains(&slot) {
                        slots.push(slot);
                    }
                }
            }
        }
        if let Some(edge) = &mut self.edge
            && closes
        {
            edge.reads(now);
        }
        if slots.is_empty() {
            self.marks.set_told(Queued::Nothing);
        }
        Route { slots, again }
    }

    /// How late other nodes may send their costs, which see the cell as this one does or did
    /// of late.
    fn others_are_late_by(&mut self, remaining: u64, now: Timestamp, fleet: &Fleet) -> Nanos {
        if !matches!(self.body, Body::Log(_)) {
            return Nanos::ZERO;
        }
        let terms = self.terms(fleet);
        let patience = Pressure::Far.patience(terms.pace, terms.period);
        let patience = patience.unwrap_or(terms.period);
        let Some(mut edge) = self.edge.take() else {
            return patience;
        };
        if self.standing(&edge, remaining, &terms, now).is_far(&terms) {
            edge.was_far(now);
        }
        let late = if now.since(edge.far()) <= patience.times(2) {
            patience
        } else {
            terms.interval()
        };
        *self.edge = Some(edge);
        late
    }

    /// How long the cell's costs may still wait, if the sync looks at it too early: it was
    /// held back for costs that were more urgent, and went with an earlier batch.
    fn is_early(&self, wants: &Wants, now: Timestamp) -> Option<Nanos> {
        let pace = self.limit.pace;
        let since = self.edge.as_ref()?.unsent_since()?;
        let patience = wants.pressure?.patience(pace, self.limit.quota.period())?;
        let left = since.after(patience).since(now);
        let ends = match &self.body {
            Body::Window { state, .. } => self.limit.quota.windows().end(state.id()).since(now),
            Body::Bucket { .. } | Body::Log(_) => Nanos::MAX,
        };
        // The sync looks at it at the poll before it is due.
        let soon = pace.min_interval.times(2);
        (wants.lease == 0 && wants.next == 0 && left > soon && ends > soon)
            .then_some(left.minus(pace.min_interval))
    }

    /// Gives back what of the lease is not needed here, and answers when to look again.
    fn return_surplus(&mut self, now: Timestamp, fleet: &Fleet) -> Option<Nanos> {
        let remaining = self.body.remaining(&self.limit.quota, now);
        let terms = self.terms(fleet);
        let mut edge = self.edge.take()?;
        let standing = self.standing(&edge, remaining, &terms, now);
        let needed = standing.need(&terms);
        let idle = if terms.is_bounded() {
            edge.is_at_rest(&terms, now)
        } else {
            standing.own * terms.interval().as_secs_f64() < 0.5
        };
        let surplus = match edge.hold {
            hold if idle || fleet.is_leaving() => hold,
            hold if hold > needed.saturating_mul(2) => hold - needed,
            _ => 0,
        };
        edge.hold -= surplus;
        self.body.give_up(Cost::new(surplus), edge.lent_in);
        let again = edge.look_again(&terms, now);
        *self.edge = Some(edge);
        again
    }

    /// Puts what is pending for `slot` into a delta, with what is asked; `None` if the
    /// cell has left the slot behind.
    pub(super) fn freeze(&mut self, slot: Slot, now: Timestamp, fleet: &Fleet) -> Option<Delta> {
        let quota = self.limit.quota;
        let remaining = self.body.remaining(&quota, now);
        let wants = self.wants(remaining, now, fleet);
        let delta = if Space::of(&quota) == slot.space {
            self.delta(slot, remaining, (wants.lease, wants.next), now, fleet)
        } else {
            None
        };
        let rest = self.pending() != 0;
        self.marks.set_told(if rest {
            Queued::Queued(Pressure::Near)
        } else {
            Queued::Nothing
        });
        delta
    }

    fn delta(
        &mut self,
        slot: Slot,
        remaining: u64,
        (lease, next): (u64, u64),
        now: Timestamp,
        fleet: &Fleet,
    ) -> Option<Delta> {
        let quota = self.limit.quota;
        let terms = self.terms(fleet);
        let (is_next, promise) = (self.body.is_next(slot), self.limit.consistency);
        let mut edge = self.edge.take();
        // Before what is pending becomes sent: the standing counts it.
        let standing = edge
            .as_ref()
            .map(|edge| self.standing(edge, remaining, &terms, now));
        let ask = edge.as_mut().zip(standing).and_then(|(edge, standing)| {
            let unit = self.body.unit(&quota);
            let in_units = |ask: Ask| Ask {
                want: ask.want.saturating_mul(unit),
                unit,
                ..ask
            };
            if is_next {
                Some(in_units(edge.ask_next(
                    slot.window,
                    next,
                    &standing,
                    promise,
                )))
            } else if self.body.is_present(slot, now) {
                Some(in_units(edge.ask(
                    slot.window,
                    lease,
                    &standing,
                    promise,
                    now,
                )))
            } else {
                None
            }
        });
        *self.edge = edge;
        if is_next {
            // Nothing was used in it; what was lent is noted at its beginning.
            let lent = self.edge.as_mut().map(|edge| &mut edge.next);
            let back = match lent {
                Some(lent) if fleet.is_leaving() => std::mem::take(lent),
                _ => 0,
            };
            return Some(Delta {
                cost: i64::try_from(back).map_or(i64::MIN, |back| -back),
                upto: self
                    .edge
                    .as_ref()
                    .map_or(0, |edge| i64::try_from(edge.next).unwrap_or(i64::MAX)),
                room: quota.capacity(),
                ask,
            });
        }
        let hold = self
            .edge
            .as_ref()
            .filter(|edge| edge.lent_in == slot.window);
        let hold = hold.map_or(0, |edge| edge.hold);
        let room = self.body.room(&quota, slot, remaining, hold);
        let (cost, upto) = self.body.freeze(&quota, slot)?;
        let ask = ask.map(|ask| Ask {
            announced_from: standing.map_or(0, |standing| {
                standing.announced_from(cost, room, ask.unit, &terms)
            }),
            ..ask
        });
        Some(Delta {
            cost,
            upto,
            room,
            ask,
        })
    }

    /// Makes pending again what this node has contributed to `slot`, whose hash was
    /// lost. Answers whether there is anything to send.
    pub(super) fn rewind(&mut self, slot: Slot, now: Timestamp, fleet: &Fleet) -> bool {
        let limit = Arc::clone(self.limit);
        if Space::of(&limit.quota) != slot.space {
            return false;
        }
        self.turn(&limit, now, fleet);
        if self.body.is_next(slot) {
            // What was lent there is not there any more.
            if let Some(edge) = &mut self.edge {
                edge.lost_next();
            }
            return false;
        }
        match &mut self.body {
            Body::Bucket { ledger, .. } => {
                // A loss just before the slice turned is noticed just after.
                let current = slot.space.window(now);
                if slot.window != current && slot.window.next() != current {
                    return false;
                }
                let lent = self.edge.as_ref().map_or(0, |edge| edge.hold);
                let tokens = time_as_cost(&limit.quota, ledger.own_debt);
                let pending = u64::try_from(ledger.account.pending()).unwrap_or(0);
                ledger
                    .account
                    .rewind(tokens.saturating_add(lent).max(pending));
            }
            body => {
                let Some(account) = body.account(slot.window) else {
                    return false;
                };
                account.rewind(account.own());
            }
        }
        if let Some(edge) = &mut self.edge {
            edge.forgotten();
        }
        let pending = self.pending() != 0;
        if pending {
            self.marks
                .set_told(self.marks.told().max(Queued::Queued(Pressure::Near)));
        }
        pending
    }

    /// Takes note that `delta` for `slot`, pending again after a rewind, did arrive.
    pub(super) fn credit(&mut self, slot: Slot, delta: Delta) {
        match &mut self.body {
            Body::Bucket { .. } => {}
            body => {
                if let Some(account) = body.account(slot.window) {
                    account.credit(delta.cost);
                }
            }
        }
    }
}

/// When the other nodes' last costs of the window before `current` have arrived: they
/// send them no later than at its end.
fn settled_at(current: Slot, terms: &Terms) -> Timestamp {
    let wait = terms.reaction().times(2).plus(Nanos::from_millis(10));
    current.start().after(wait)
}
