//! Checks, and what the truth has to say about them.

use super::super::figures::{Figures, Measured};
use super::super::scenario::RULE;
use super::super::sizes;
use super::super::truth::{Refusal, part};
use super::trace::millis;
use super::{Admission, World};
use crate::engine::{Begun, Decision, Outcome, Request, Subject, Unanswered};
use crate::units::{Cost, Nanos, Timestamp};

/// What a decision says: the outcome, when it was decided, what is left, and how old the
/// store's word was.
fn told(decision: &Decision<'_>) -> (Outcome, Timestamp, u64, Option<Nanos>) {
    let left = decision.limit.map_or(0, |limit| limit.remaining);
    (decision.outcome, decision.now, left, decision.stale)
}

fn admitted_text(node: usize, caller: u32, cost: Cost, left: u64, stale: Option<Nanos>) -> String {
    let word = match stale {
        Some(age) => format!("the store's word is {} old", millis(age)),
        None => "the store said nothing yet".to_owned(),
    };
    let cost = cost.get();
    format!("node {node} admits {cost} of caller {caller}, believes {left} left; {word}")
}

impl World {
    /// Checks `cost` for a key on a node, now; a cost of zero is a peek. `None` if the
    /// node is away. Answers the outcome, and what is left of the limit that decided.
    pub fn check(&mut self, node: usize, key: u32, cost: Cost) -> Option<(Outcome, u64)> {
        let place = self.places.get(node)?;
        let present = place.node.as_ref().filter(|node| !node.is_leaving())?;
        present.set_time(self.now);
        let number = self.sliced.number(key).to_be_bytes();
        let subject = Subject::Rule {
            rule: RULE,
            key: &number,
            tier: None,
        };
        let snapshot = present.engine.snapshot();
        let now = present.clock.now();
        let reaches = self.stopped == 0 && self.stalled == 0 && place.parted == 0;
        let (outcome, counted_at, left, stale) =
            match snapshot.begin(&Request { subject, cost }, now) {
                Begun::Decided(decision) => told(&decision),
                Begun::Pending(mut pending) => {
                    self.tally.asked += 1;
                    // The exchange takes no time here.
                    let ruling = if reaches {
                        let (run, told) = (self.store_run(), present.told.number());
                        let seal = self.store.seal(&run, told, self.now);
                        present.told.note(&seal);
                        self.store
                            .rule(pending.question(), self.scenario.partitions, self.now)
                    } else {
                        None
                    };
                    let answer = ruling.ok_or(Unanswered);
                    told(&pending.settle(&present.engine, answer, now))
                }
            };
        let life = place.life;
        self.arrange_tick(node);
        if cost.is_peek() {
            return Some((outcome, left));
        }
        if let Some(stale) = stale {
            self.stale.sum += stale.as_secs_f64();
            self.stale.count += 1;
            self.stale.max = self.stale.max.max(stale);
        }
        if outcome.is_allowed() {
            let number = u32::from_be_bytes(number);
            self.step(|_| admitted_text(node, number, cost, left, stale));
        } else {
            self.step_refused();
        }
        self.tally.checks += 1;
        match outcome {
            _ if outcome.is_allowed() => {
                self.truth.admitted(key, cost, self.now);
                self.tally.admitted += 1;
                let by = &mut self.tally.admitted_by;
                by.resize(by.len().max(node + 1), 0);
                by[node] += 1;
                if let Some(admissions) = &mut self.admissions {
                    admissions.push(Admission {
                        node,
                        life,
                        key,
                        cost,
                        at: self.now,
                        counted_at,
                    });
                }
            }
            Outcome::Unavailable => self.tally.unavailable += 1,
            _ => {
                self.tally.refused += 1;
                if self.truth.refused(key, cost, self.now) == Refusal::Wrong {
                    self.tally.wrongly_refused += 1;
                }
            }
        }
        Some((outcome, left))
    }

    /// Ends it, and answers what was measured.
    pub fn figures(self) -> Figures {
        self.measured().figures()
    }

    /// Ends it, and answers what was measured, to be joined with other slices. The
    /// nodes greet the store once, however many slices there are.
    pub fn measured(self) -> Measured {
        let mut tally = self.tally;
        let mut worked = self.store_worked;
        if self.scenario.slice.number() > 0 {
            let hellos = std::mem::take(&mut tally.hellos);
            worked = worked.minus(self.scenario.service.command.times(hellos));
            tally.bytes_sent = tally.bytes_sent.saturating_sub(sizes::HELLO * hellos);
            let answered = sizes::HELLO_REPLY * hellos;
            tally.bytes_received = tally.bytes_received.saturating_sub(answered);
        }
        let passed = self.now.since(self.start);
        let mut closed = self.truth.close();
        if let Some(worst) = &mut closed.worst {
            worst.caller = self.sliced.number(worst.caller);
        }
        Measured {
            tally: Figures {
                nodes: self.scenario.nodes,
                seconds: passed.as_secs_f64(),
                store_busy: part(worked.get(), passed.get()),
                ..tally
            },
            closed,
            stale: self.stale,
        }
    }
}
