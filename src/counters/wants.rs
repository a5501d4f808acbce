//! What a cell wants of the sync, by the policy.

use super::body::Body;
use super::cell::{Cell, Signal};
use super::edge::Edge;
use super::marks::Told;
use super::{Fleet, Space};
use crate::algorithms::BucketState;
use crate::policy::{Demand, Pressure, Standing, Supply, Terms};
use crate::units::{Algorithm, Cost, Nanos, Quota, Timestamp};

/// What a cell wants of the sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wants {
    /// How soon it must be sent; `None` if it has nothing to send and to ask.
    pub(super) pressure: Option<Pressure>,
    /// The lease that it asks for in the present slot.
    pub(super) lease: u64,
    /// The lease that it asks for in the slot after this one.
    pub(super) next: u64,
}

/// So much unsent is no accident.
const MANY: u64 = 8;

impl Cell<'_> {
    pub(super) fn terms(&self, fleet: &Fleet) -> Terms {
        let quota = &self.limit.quota;
        Terms {
            pace: self.limit.pace,
            period: self.period(),
            amount: quota.amount(),
            capacity: quota.capacity(),
            supply: match quota.algorithm() {
                Algorithm::FixedWindow => Supply::AtTheTurn,
                Algorithm::SlidingLog => Supply::Trailing,
                _ => Supply::Continuous,
            },
            promise: self.limit.consistency,
            nodes: fleet.nodes(),
            trip: fleet.trip(),
        }
    }

    /// How long the present window is, or the limit's period.
    fn period(&self) -> Nanos {
        let quota = &self.limit.quota;
        match &self.body {
            Body::Window { state, .. } => quota.windows().length(state.id()),
            Body::Bucket { .. } | Body::Log(_) => quota.period(),
        }
    }

    /// How the cell stands, which can still admit `remaining` by its view.
    pub(super) fn standing(
        &self,
        edge: &Edge,
        remaining: u64,
        terms: &Terms,
        now: Timestamp,
    ) -> Standing {
        let own = edge.own(terms, now);
        let left = match &self.body {
            Body::Window { state, .. } if terms.supply == Supply::AtTheTurn => {
                self.limit.quota.windows().end(state.id()).since(now)
            }
            _ => terms.period,
        };
        let fleet = edge.fleet(own, terms, now);
        let heard = self.is_heard(now);
        let since = if heard {
            self.marks.heard()
        } else {
            self.begins().max(now.before(terms.period))
        };
        Standing {
            used: terms.capacity.saturating_sub(remaining),
            hold: edge.hold,
            unsent: self.pending(),
            age: now.since(since),
            heard,
            left,
            own,
            fleet,
            at_least: edge.at_least(fleet, terms),
            certain: edge.certain(terms, now),
            share_then: edge.share_then(terms, now),
            overdue: edge.is_overdue(terms, now),
        }
    }

    /// What the cell wants of the sync, if it can still admit `remaining`.
    pub(super) fn wants(&self, remaining: u64, now: Timestamp, fleet: &Fleet) -> Wants {
        let unsent = self.pending();
        let nothing = Wants {
            pressure: None,
            lease: 0,
            next: 0,
        };
        let terms = self.terms(fleet);
        let Some(edge) = &self.edge else {
            let pressure = terms.calm(remaining, unsent, self.is_heard(now));
            return Wants {
                pressure: (unsent != 0 && pressure != Pressure::Silent).then_some(pressure),
                ..nothing
            };
        };
        let standing = self.standing(edge, remaining, &terms, now);
        let mut wants = nothing;
        let leases =
            !edge.is_at_rest(&terms, now) && !fleet.is_leaving() && !self.is_held_back(fleet);
        let unsettled = terms.is_bounded() && !self.is_settled(edge);
        let asks = leases && standing.leases(&terms) && !standing.is_over(&terms) && !unsettled;
        if asks && standing.is_low(&terms) && edge.may_ask(&terms, now) {
            wants.lease = standing.need(&terms).saturating_sub(edge.hold);
        }
        if let Body::Window { state, .. } = &self.body
            && terms.supply == Supply::AtTheTurn
            && leases
            && !edge.has_asked_for(state.id().next())
        {
            wants.next = standing.need_of_the_next_window(&terms);
        }
        let unanswered = !standing.heard && !edge.is_under_way(&terms, now);
        wants.pressure = if wants.lease > 0 || wants.next > 0 || (unsettled && leases) {
            Some(Pressure::Urgent)
        } else if unsent != 0 {
            Some(standing.pressure(&terms)).filter(|pressure| *pressure != Pressure::Silent)
        } else if remaining == 0 && unanswered {
            Some(Pressure::Urgent)
        } else {
            None
        };
        let closes = self.closes(&terms, now, fleet);
        wants.pressure = wants.pressure.max(closes.then_some(Pressure::Near));
        wants
    }

    /// Whether all is known that counts against the present window besides what was used in
    /// it: of a sliding window, the final total of the one before.
    pub(super) fn is_settled(&self, edge: &Edge) -> bool {
        match &self.body {
            Body::Window { state, .. } => {
                self.limit.quota.algorithm() == Algorithm::FixedWindow
                    || edge.is_settled(state.id())
            }
            Body::Bucket { .. } | Body::Log(_) => true,
        }
    }

    /// Whether a lease may be spent at `now`: by the clocks of all, it must be in the window
    /// that it was lent in. Clocks agree to within an exchange.
    pub(super) fn is_safe(&self, terms: &Terms, now: Timestamp) -> bool {
        match &self.body {
            Body::Window { state, .. } if terms.is_bounded() => {
                let (windows, window) = (self.limit.quota.windows(), state.id());
                now >= windows.start(window).after(terms.trip)
                    && now.after(terms.trip) < windows.end(window)
            }
            _ => true,
        }
    }

    /// Whether nobody has asked for so long that what is lent should go back.
    pub(super) fn rests_on_a_lease(&self, now: Timestamp, fleet: &Fleet) -> bool {
        let terms = self.terms(fleet);
        let edge = self.edge.as_ref();
        edge.is_some_and(|edge| edge.hold > 0 && edge.is_at_rest(&terms, now))
    }

    /// What the limit can still admit, where `quota` can admit `left`: how little is left
    /// of a share says nothing of how near the cell is to its limit.
    #[inline]
    pub(super) fn remaining(&mut self, quota: &Quota, left: u64, now: Timestamp) -> u64 {
        let own = &self.limit.quota;
        // Nearly always it is the very same.
        if std::ptr::eq(quota, own) || quota == own {
            left
        } else {
            self.body.remaining(own, now)
        }
    }

    /// Whether the sync must be told of the cell, which can still admit `remaining`.
    pub(super) fn signal(&mut self, remaining: u64, now: Timestamp, fleet: &Fleet) -> Signal {
        let told = self.marks.told();
        if told == Told::Queued(Pressure::Urgent) {
            return Signal::Quiet;
        }
        let Some(pressure) = self.wants(remaining, now, fleet).pressure else {
            return Signal::Quiet;
        };
        let news = Told::Queued(pressure);
        if news <= told {
            return Signal::Quiet;
        }
        self.marks.set_told(news);
        Signal::Dirty
    }

    /// Whether the cell is no longer far from its limit, or on a quick way to it, so that
    /// its demand must be known.
    pub(super) fn is_near_the_edge(&self, remaining: u64, now: Timestamp, fleet: &Fleet) -> bool {
        let terms = self.terms(fleet);
        let unsent = self.pending();
        let many = || match terms.supply {
            // That others have used half of it is not announced.
            Supply::Trailing => true,
            Supply::AtTheTurn | Supply::Continuous => {
                terms.calm(remaining, unsent, self.is_heard(now)) == Pressure::Urgent
            }
        };
        !terms.is_calm(remaining) || (unsent >= MANY && many())
    }

    #[cold]
    pub(super) fn make_edge(&mut self, each: Cost, now: Timestamp, fleet: &Fleet) {
        let terms = self.terms(fleet);
        let demand = match &self.body {
            Body::Window { state, ledger } => {
                let begins = self.limit.quota.windows().start(state.id());
                Demand::of(ledger.current.own(), each, begins, now, terms.memory())
            }
            Body::Bucket { ledger, .. } => {
                let cost = ledger.account.own();
                let drains = BucketState::cost_as_time(&self.limit.quota, Cost::new(cost));
                // What of it has drained tells when it began, unless it was empty meanwhile:
                // then nothing is known.
                let elapsed = drains.minus(ledger.own_debt);
                if elapsed > ledger.own_debt {
                    Demand::default()
                } else {
                    Demand::of(cost, each, now.before(elapsed), now, terms.memory())
                }
            }
            Body::Log(log) => {
                let own = log.accounts.iter().filter(|part| part.account.own() > 0);
                let cost = own.clone().map(|part| part.account.own()).sum();
                let since = own.map(|part| part.window).min();
                let parts = Space::of(&self.limit.quota).windows();
                let since = since.map_or(now, |part| parts.start(part));
                Demand::of(cost, each, since, now, terms.memory())
            }
        };
        let slot = match &self.body {
            Body::Window { state, .. } => state.id(),
            Body::Bucket { .. } | Body::Log(_) => Space::of(&self.limit.quota).window(now),
        };
        *self.edge = Some(Box::new(Edge::new(demand, slot, now)));
    }
}
