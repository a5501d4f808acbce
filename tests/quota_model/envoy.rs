//! A gateway's quota bucket as Envoy (1.40, `rate_limit_quota` filter) keeps it, with its
//! quirks.

use tidegate::policy::assignment::Assignment;
use tidegate::units::{Nanos, Timestamp};

/// What was admitted and refused since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
}

/// One bucket of one gateway; its cache is empty until the first request.
#[derive(Debug, Default)]
pub(crate) struct Envoy {
    known: bool,
    assigned: Option<Assigned>,
    usage: Usage,
    /// Requests that met an assignment which had expired.
    pub(crate) expired: u64,
}

#[derive(Debug)]
struct Assigned {
    assignment: Assignment,
    expires: Timestamp,
    level: f64,
    at: Timestamp,
}

impl Assigned {
    fn fill(&mut self, now: Timestamp) {
        if let Assignment::Bucket {
            max_tokens,
            tokens_per_fill,
            fill_interval,
        } = self.assignment
        {
            let fill = f64::from(tokens_per_fill) / seconds(fill_interval) as f64;
            let filled = fill * now.since(self.at).as_secs_f64();
            self.level = (self.level + filled).min(f64::from(max_tokens));
            self.at = now;
        }
    }
}

/// What a request met.
pub(crate) struct Answered {
    pub(crate) admitted: bool,
    /// It was not assigned anything.
    pub(crate) unassigned: bool,
    /// To be reported at once: the bucket is new.
    pub(crate) report: Option<Usage>,
}

impl Envoy {
    pub(crate) fn request(&mut self, now: Timestamp) -> Answered {
        let admitted = self.admits(now);
        match admitted {
            true => self.usage.allowed += 1,
            false => self.usage.denied += 1,
        }
        let new = !std::mem::replace(&mut self.known, true);
        let report = new.then(|| std::mem::take(&mut self.usage));
        Answered {
            admitted,
            unassigned: self.assigned.is_none(),
            report,
        }
    }

    fn admits(&mut self, now: Timestamp) -> bool {
        // Without an assignment everything is admitted: `no_assignment_behavior` is not set.
        let Some(assigned) = &mut self.assigned else {
            return true;
        };
        if now >= assigned.expires {
            self.expired += 1;
            return false;
        }
        match assigned.assignment {
            Assignment::AllowAll => true,
            Assignment::DenyAll => false,
            Assignment::Bucket { .. } => {
                assigned.fill(now);
                let admitted = assigned.level >= 1.0;
                if admitted {
                    assigned.level -= 1.0;
                }
                admitted
            }
        }
    }

    /// What is reported at each turn, idle or not.
    pub(crate) fn report(&mut self) -> Option<Usage> {
        self.known.then(|| std::mem::take(&mut self.usage))
    }

    pub(crate) fn assign(&mut self, assignment: Assignment, ttl: Nanos, now: Timestamp) {
        let ttl = Nanos::from_secs(seconds(ttl));
        if !self.known {
            return;
        }
        let expires = now.after(ttl);
        if let Some(old) = &mut self.assigned
            && carries_on(old.assignment, assignment)
        {
            old.expires = expires;
            return;
        }
        let level = match assignment {
            Assignment::Bucket { max_tokens, .. } => {
                f64::from(max_tokens) * self.filled(assignment, now)
            }
            _ => 0.0,
        };
        self.assigned = Some(Assigned {
            assignment,
            expires,
            level,
            at: now,
        });
    }

    /// How far a new bucket is filled: as far as the old one was, if there is one. A lump
    /// comes after a word that makes the old one forgotten.
    fn filled(&mut self, next: Assignment, now: Timestamp) -> f64 {
        if next.is_lump() {
            return 1.0;
        }
        match &mut self.assigned {
            Some(old) => match old.assignment {
                Assignment::Bucket { max_tokens, .. } => {
                    old.fill(now);
                    old.level / f64::from(max_tokens)
                }
                _ => 1.0,
            },
            None => 1.0,
        }
    }

    pub(crate) fn abandon(&mut self) {
        *self = Envoy {
            expired: self.expired,
            ..Envoy::default()
        };
    }
}

/// The seconds of a bucket's fill interval are not compared.
fn carries_on(old: Assignment, new: Assignment) -> bool {
    let compared = |assignment| match assignment {
        Assignment::Bucket {
            max_tokens,
            tokens_per_fill,
            fill_interval,
        } => (
            max_tokens,
            tokens_per_fill,
            fill_interval.get() % 1_000_000_000,
        ),
        Assignment::AllowAll => (0, 0, 0),
        Assignment::DenyAll => (0, 0, 1),
    };
    compared(old) == compared(new)
}

/// Cut to whole ones; nobody may be told less than one.
fn seconds(span: Nanos) -> u64 {
    let seconds = span.get() / 1_000_000_000;
    assert!(seconds >= 1, "{span} is less than a second");
    seconds
}
