use tokio::time::Instant;

use crate::engine::{
    Begun, Decision, Entry, Outcome, Pending, Request, Snapshot, Subject, Unanswered,
};
use crate::policy::Supply;
use crate::policy::assignment::Room;
use crate::protocol::grpc::quota::Bucket;
use crate::rules::{Applied, AppliedLimits, Descriptor, RuleSet};
use crate::server::Services;
use crate::server::observer::Door;
use crate::server::waiting::{ask_all_until, tell_all};
use crate::units::{Algorithm, Cost, Key, Nanos, Series, Timestamp};

/// What is done at the limits of a bucket, in requests.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// Only looks; `reported` is what a gateway has admitted and refused by itself.
    Look { reported: Option<(u64, u64)> },
    /// Takes quota in advance, all of it or none.
    Take(Cost),
    /// Counts what was admitted and not taken before, whatever the limits say.
    Charge(Cost),
    /// Gives back what was taken and not used.
    GiveBack(Cost),
    /// The same for what was taken from windows that are over, at a moment: limits with longer
    /// windows have it back.
    Lapsed {
        cost: Cost,
        at: Timestamp,
        within: Nanos,
    },
}

/// What the limits of a bucket say afterwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    pub(super) standing: Standing,
    /// Whether what was to be taken was taken.
    pub(super) is_admitted: bool,
    /// The counter of the limit that has the shortest period.
    pub(super) counter: Option<Key>,
    /// That period, where limits with longer ones apply too.
    pub(super) shortest_of_several: Option<Nanos>,
}

/// How a bucket stands with its limits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Standing {
    /// Nothing refuses its requests.
    Free,
    /// None of its requests is ever admitted.
    Banned,
    /// The store is lost, and a limit says nothing without it.
    Unknown,
    /// A limit has so much room.
    Limited(Room),
}

impl Said {
    /// How much room there is, where a limit has a say.
    pub(super) const fn room(&self) -> Option<Room> {
        match self.standing {
            Standing::Limited(room) => Some(room),
            Standing::Free | Standing::Banned | Standing::Unknown => None,
        }
    }
}

/// What is known of the limits of a bucket besides what they say.
#[derive(Clone, Copy)]
struct Terms {
    counter: Key,
    series: Series,
    /// What one request costs.
    weight: u64,
    /// Of the limit with the shortest period.
    amount: u64,
    period: Nanos,
    supply: Supply,
    /// Whether a limit with a longer period applies too, one that only watches among them.
    has_longer: bool,
}

/// What waits for the store.
struct Unsettled {
    pending: Box<Pending>,
    terms: Option<Terms>,
}

/// Does one thing at the limits of `bucket`; waits for the store where they must ask it, but
/// not beyond `deadline`.
pub(super) async fn act(services: &Services, bucket: &Bucket, act: Act, deadline: Instant) -> Said {
    let Unsettled { mut pending, terms } = match begin(services, bucket, act) {
        Ok(said) => return said,
        Err(unsettled) => unsettled,
    };
    let question = pending.question();
    let ruled = match act {
        Act::Look { .. } | Act::Take(_) => {
            ask_all_until(services, [question], Some(deadline)).await
        }
        Act::Charge(_) | Act::GiveBack(_) | Act::Lapsed { .. } => {
            tell_all(services, vec![question.clone()]).await
        }
    };
    let ruling = ruled.into_iter().next();
    let ruling = ruling.unwrap_or(Err(Unanswered));
    let decision = pending.settle(&services.engine, ruling, services.clock.now());
    said(services, act, &decision, terms)
}

/// The same, as far as it goes without the store.
fn begin(services: &Services, bucket: &Bucket, act: Act) -> Result<Said, Unsettled> {
    let now = services.clock.now();
    let snapshot = services.engine.snapshot().telling_all();
    let rules = snapshot.rules();
    let ordered = rules.in_order(bucket.domain(), bucket.entries());
    // Where no order of the entries has a rule, none will do.
    let entries = ordered.unwrap_or_else(|| bucket.entries().collect());
    let descriptor = Descriptor {
        domain: bucket.domain(),
        entries: &entries,
        stated: None,
    };
    let terms = Terms::of(rules, &descriptor, now);
    match put(&snapshot, descriptor, act, now) {
        Begun::Decided(decision) => Ok(said(services, act, &decision, terms)),
        Begun::Pending(pending) => Err(Unsettled { pending, terms }),
    }
}

fn put<'s>(
    snapshot: &'s Snapshot<'_>,
    descriptor: Descriptor<'_>,
    act: Act,
    now: Timestamp,
) -> Begun<'s> {
    let request = |cost| Request {
        subject: Subject::Descriptor(descriptor),
        cost,
    };
    match act {
        Act::Look { .. } => snapshot.begin(&request(Cost::ZERO), now),
        Act::Take(cost) => snapshot.begin(&request(cost), now),
        Act::Charge(cost) => snapshot.report(&request(cost), Entry::Charge, now),
        Act::GiveBack(cost) => snapshot.report(&request(cost), Entry::Refund, now),
        Act::Lapsed { cost, at, within } => {
            snapshot.report(&request(cost), Entry::Lapsed { at, within }, now)
        }
    }
}

/// Observes the decision, and makes of it what a subscriber must know.
fn said(services: &Services, act: Act, decision: &Decision<'_>, terms: Option<Terms>) -> Said {
    let observer = &services.observer;
    match act {
        Act::Look {
            reported: Some((allowed, denied)),
        } => observer.quota_reported(decision.limit.as_ref(), allowed, denied),
        Act::Charge(_) | Act::GiveBack(_) | Act::Lapsed { .. } => {
            observer.reported(Door::Grpc, decision)
        }
        Act::Look { reported: None } | Act::Take(_) => {}
    }
    let standing = match (decision.outcome, terms) {
        (Outcome::Unavailable, _) => Standing::Unknown,
        (Outcome::Banned, _) => Standing::Banned,
        (Outcome::Bypassed, _) => Standing::Free,
        (_, Some(terms)) => terms.standing(decision),
        (_, None) => Standing::Free,
    };
    Said {
        standing,
        is_admitted: decision.outcome.is_allowed(),
        counter: terms.map(|terms| terms.counter),
        shortest_of_several: terms.and_then(|terms| terms.has_longer.then_some(terms.period)),
    }
}

impl Terms {
    /// Those of the limits that may refuse requests of `descriptor`, if there are any.
    fn of(rules: &RuleSet, descriptor: &Descriptor<'_>, now: Timestamp) -> Option<Terms> {
        let mut applied = AppliedLimits::new();
        rules.described_by(descriptor, &mut applied);
        let period = |one: &Applied<'_>| one.limit.quota.period_at(now);
        let refusing = applied
            .iter()
            .filter(|one| one.limit.mode.enforces() && one.weight > 0);
        let shortest = refusing.min_by_key(|one| period(one))?;
        let length = period(shortest);
        let quota = &shortest.limit.quota;
        Some(Terms {
            counter: shortest.key,
            series: shortest.limit.series,
            weight: shortest.weight,
            amount: quota.amount(),
            period: length,
            has_longer: applied.iter().any(|one| period(one) > length),
            supply: match quota.algorithm() {
                Algorithm::FixedWindow => Supply::AtTheTurn,
                Algorithm::SlidingLog => Supply::Trailing,
                _ => Supply::Continuous,
            },
        })
    }

    /// What the limit that decides has left, in requests; what is taken of it ends with the
    /// shortest window.
    fn standing(&self, decision: &Decision<'_>) -> Standing {
        let Some(limit) = decision.figures() else {
            return Standing::Free;
        };
        let mut all = decision.all().iter();
        let shortest = all.find(|one| one.series == self.series).unwrap_or(limit);
        Standing::Limited(Room {
            amount: self.amount / self.weight,
            remaining: limit.remaining / self.weight,
            period: self.period,
            reset_after: shortest.reset_after,
            retry_after: decision.outcome.retry_after(),
            supply: self.supply,
        })
    }
}
