//! A circuit breaker, pure: events and the time go in, what may be asked comes out.
//!
//! Failures in a row open it; for a while nothing is asked; then one question is a probe,
//! and its fate closes or opens it again. Every change begins a new generation, and what
//! comes of questions of an older one is ignored: many may be under way when it opens.

use crate::units::{Nanos, Timestamp};

/// So many failures in a row open it,
const FAILURES: u32 = 3;
/// for so long,
const OPEN_FOR: Nanos = Nanos::from_secs(30);
/// and up to this much longer, lest all nodes of a fleet probe at once.
const MOST_JITTER: Nanos = Nanos::from_millis(7_500);

/// What lets questions through to a store that answers them.
#[derive(Debug)]
pub(super) struct Breaker {
    state: State,
    generation: u64,
    open_for: Nanos,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: Timestamp },
    Probing,
}

/// The right to ask once. To be handed in again with what came of it, whatever that was.
#[derive(Debug)]
pub(super) struct Ticket(u64);

/// What came of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was answered, whatever the answer.
    Answered,
    /// It was not.
    Failed,
    /// It tells nothing new: nobody waited for the answer, or it failed with others for one
    /// reason, such as a connection that broke.
    Unclear,
}

/// What the breaker changed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing is asked.
    Opened,
    /// One question is.
    Probing,
    /// Everything is.
    Closed,
}

impl Breaker {
    /// A closed one. `dice` is any number, different on every node.
    pub(super) const fn new(dice: u64) -> Breaker {
        let jitter = Nanos::new(dice % MOST_JITTER.get());
        Breaker {
            state: State::Closed { failures: 0 },
            generation: 0,
            open_for: OPEN_FOR.plus(jitter),
        }
    }

    /// May a question be put at `now`? `None`: it may not.
    pub(super) fn ask(&mut self, now: Timestamp) -> (Option<Ticket>, Option<Change>) {
        match self.state {
            State::Closed { .. } => (Some(Ticket(self.generation)), None),
            State::Open { until } if now >= until => {
                let change = self.change(State::Probing, Change::Probing);
                (Some(Ticket(self.generation)), change)
            }
            State::Open { .. } | State::Probing => (None, None),
        }
    }

    /// Takes note of what came of the question of `ticket`.
    pub(super) fn settle(&mut self, ticket: Ticket, fate: Fate, now: Timestamp) -> Option<Change> {
        if ticket.0 != self.generation {
            return None;
        }
        let open = State::Open {
            until: now.after(self.open_for),
        };
        match (&mut self.state, fate) {
            (State::Closed { failures }, Fate::Answered) => *failures = 0,
            (State::Closed { failures }, Fate::Failed) => {
                *failures += 1;
                if *failures >= FAILURES {
                    return self.change(open, Change::Opened);
                }
            }
            (State::Closed { .. }, Fate::Unclear) | (State::Open { .. }, _) => {}
            (State::Probing, Fate::Answered) => {
                return self.change(State::Closed { failures: 0 }, Change::Closed);
            }
            // A probe must say something good.
            (State::Probing, Fate::Failed | Fate::Unclear) => {
                return self.change(open, Change::Opened);
            }
        }
        None
    }

    fn change(&mut self, state: State, change: Change) -> Option<Change> {
        self.state = state;
        self.generation += 1;
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::EPOCH.after(Nanos::from_secs(secs))
    }

    fn ticket(breaker: &mut Breaker, now: Timestamp) -> Ticket {
        breaker.ask(now).0.unwrap()
    }

    fn fail(breaker: &mut Breaker, now: Timestamp) -> Option<Change> {
        let ticket = ticket(breaker, now);
        breaker.settle(ticket, Fate::Failed, now)
    }

    fn open(dice: u64) -> Breaker {
        let mut breaker = Breaker::new(dice);
        assert_eq!(fail(&mut breaker, at(0)), None);
        assert_eq!(fail(&mut breaker, at(0)), None);
        assert_eq!(fail(&mut breaker, at(0)), Some(Change::Opened));
        breaker
    }

    #[test]
    fn three_failures_in_a_row_open_it_and_an_answer_between_them_does_not() {
        let mut breaker = Breaker::new(0);
        for _ in 0..10 {
            assert_eq!(fail(&mut breaker, at(0)), None);
            assert_eq!(fail(&mut breaker, at(0)), None);
            let ticket = ticket(&mut breaker, at(0));
            assert_eq!(breaker.settle(ticket, Fate::Answered, at(0)), None);
        }
        open(0);
    }

    #[test]
    fn nobody_asks_for_thirty_seconds_and_then_one_does() {
        let mut breaker = open(0);
        assert!(breaker.ask(at(29)).0.is_none());
        let (probe, change) = breaker.ask(at(30));
        assert_eq!(change, Some(Change::Probing));
        assert!(breaker.ask(at(30)).0.is_none());
        let answered = breaker.settle(probe.unwrap(), Fate::Answered, at(31));
        assert_eq!(answered, Some(Change::Closed));
        // It takes three failures again.
        assert_eq!(fail(&mut breaker, at(32)), None);
        assert!(breaker.ask(at(32)).0.is_some());
    }

    #[test]
    fn the_probes_of_a_fleet_are_spread() {
        let first = |dice| {
            let mut breaker = open(dice);
            (0..100).find(|tenths| {
                let now = at(30).after(Nanos::from_millis(tenths * 100));
                breaker.ask(now).0.is_some()
            })
        };
        assert_eq!(first(0), Some(0));
        assert_eq!(first(3_000_000_000), Some(30));
        assert_eq!(first(u64::MAX).map(|tenths| tenths <= 75), Some(true));
    }

    #[test]
    fn a_probe_that_fails_or_that_nobody_waits_for_opens_it_again() {
        for fate in [Fate::Failed, Fate::Unclear] {
            let mut breaker = open(0);
            let probe = ticket(&mut breaker, at(40));
            assert_eq!(breaker.settle(probe, fate, at(41)), Some(Change::Opened));
            assert!(breaker.ask(at(70)).0.is_none());
            assert!(breaker.ask(at(71)).0.is_some());
        }
    }

    #[test]
    fn what_comes_late_of_an_older_generation_is_ignored() {
        let mut breaker = Breaker::new(0);
        let mut late: Vec<Ticket> = (0..50).map(|_| ticket(&mut breaker, at(0))).collect();
        for _ in 0..3 {
            breaker.settle(late.pop().unwrap(), Fate::Failed, at(1));
        }
        // Answers from before it opened neither close it nor free the probe's place.
        assert_eq!(
            breaker.settle(late.pop().unwrap(), Fate::Answered, at(3)),
            None
        );
        assert!(breaker.ask(at(3)).0.is_none());
        let probe = ticket(&mut breaker, at(31));
        for fate in [Fate::Answered, Fate::Failed, Fate::Unclear] {
            assert_eq!(breaker.settle(late.pop().unwrap(), fate, at(32)), None);
        }
        assert!(breaker.ask(at(32)).0.is_none());
        assert_eq!(
            breaker.settle(probe, Fate::Answered, at(33)),
            Some(Change::Closed)
        );
        for ticket in late {
            assert_eq!(breaker.settle(ticket, Fate::Failed, at(34)), None);
        }
        assert!(breaker.ask(at(35)).0.is_some());
    }

    #[test]
    fn a_client_that_hangs_up_is_no_failure_of_the_store() {
        let mut breaker = Breaker::new(0);
        for _ in 0..10 {
            let ticket = ticket(&mut breaker, at(0));
            assert_eq!(breaker.settle(ticket, Fate::Unclear, at(0)), None);
        }
    }
}
