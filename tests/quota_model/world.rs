//! Gateways, the daemon, and messages that take some milliseconds between them, in virtual
//! time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate::algorithms::{State, Verdict};
use tidegate::policy::assignment::Assignment;
use tidegate::simulation::Dice;
use tidegate::units::{Algorithm, Cost, Nanos, Quota, Timestamp};

use crate::daemon::{Daemon, Word};
use crate::envoy::{Envoy, Usage};
use crate::scene::{Limit, Scene};

#[derive(Clone, Copy, Debug)]
enum Event {
    Request(usize),
    Turn(usize),
    Report(usize, Usage),
    Hear(usize, Option<(Assignment, Nanos)>),
    Look(usize, u64),
}

/// What came of it. All but the worst excess is of the windows that are looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) asked: u64,
    pub(crate) admitted: Vec<u64>,
    pub(crate) asked_of: Vec<u64>,
    /// What one limiter that is asked each time would have refused.
    pub(crate) ideally_refused: u64,
    pub(crate) refused: u64,
    /// The most that was admitted beyond the limit in a window (of a bucket: beyond its
    /// burst and what was refilled).
    pub(crate) excess: u64,
    /// Assignments told to a subscriber in a second, on average.
    pub(crate) messages: f64,
    pub(crate) expired: u64,
    /// All that was reported, held at the end, and counted by the engine.
    pub(crate) reported: u64,
    pub(crate) held: u64,
    pub(crate) counted: u64,
    /// Admitted before anything was assigned.
    pub(crate) unassigned: u64,
    pub(crate) used_in_engine: u64,
}

impl Outcome {
    /// What was admitted, as a part of what one limiter that is asked each time would have.
    pub(crate) fn used(&self) -> f64 {
        self.admitted.iter().sum::<u64>() as f64 / (self.asked - self.ideally_refused) as f64
    }

    /// The part of what was asked that was refused, and would not have been by one limiter
    /// that is asked each time.
    pub(crate) fn wrongly_refused(&self) -> f64 {
        let wrong = self.refused.saturating_sub(self.ideally_refused);
        wrong as f64 / self.asked.max(1) as f64
    }
}

pub(crate) struct World {
    scene: Scene,
    daemon: Daemon,
    envoys: Vec<Envoy>,
    agenda: BinaryHeap<Reverse<(Timestamp, u64, usize)>>,
    events: Vec<Event>,
    dice: Dice,
    arrived: Vec<[Timestamp; 2]>,
    generation: Vec<u64>,
    admissions: Vec<Timestamp>,
    told: u64,
    outcome: Outcome,
    ideal: State,
    quota: Quota,
    trace: bool,
}

impl World {
    pub(crate) fn new(scene: Scene) -> World {
        let Limit {
            algorithm,
            amount,
            period,
            burst,
        } = scene.limit;
        let quota = Quota::new(algorithm, amount, period, burst).unwrap();
        let envoys = scene.envoys;
        World {
            scene,
            daemon: Daemon::new(scene.limit, envoys),
            envoys: (0..envoys).map(|_| Envoy::default()).collect(),
            agenda: BinaryHeap::new(),
            events: Vec::new(),
            dice: Dice::new(scene.seed),
            arrived: vec![[scene.start(); 2]; envoys],
            generation: vec![0; envoys],
            admissions: Vec::new(),
            told: 0,
            outcome: Outcome {
                admitted: vec![0; envoys],
                asked_of: vec![0; envoys],
                ..Outcome::default()
            },
            ideal: State::fresh(&quota),
            quota,
            trace: std::env::var_os("TIDEGATE_TRACE").is_some(),
        }
    }

    fn push(&mut self, at: Timestamp, event: Event) {
        self.agenda
            .push(Reverse((at, self.events.len() as u64, self.events.len())));
        self.events.push(event);
    }

    /// When a message that is sent now arrives: after those that were sent before it.
    fn arrives(&mut self, envoy: usize, way: usize, now: Timestamp) -> Timestamp {
        let delay = Nanos::new(1_000_000 + self.dice.below(4_000_000));
        let at = now.after(delay).max(self.arrived[envoy][way]);
        self.arrived[envoy][way] = at;
        at
    }

    pub(crate) fn run(self) -> Outcome {
        let span = self.scene.end().since(self.scene.start());
        self.run_for(span)
    }

    pub(crate) fn run_for(mut self, span: Nanos) -> Outcome {
        let start = self.scene.start();
        let end = start.after(span);
        for envoy in 0..self.envoys.len() {
            let phase = Nanos::new(self.dice.below(self.scene.interval.get()));
            self.push(start.after(phase), Event::Turn(envoy));
            let first = start.after(Nanos::new(self.dice.below(20_000_000)));
            let first = self.scene.next(envoy, first, &mut self.dice);
            self.push(first, Event::Request(envoy));
        }
        while let Some(Reverse((now, _, event))) = self.agenda.pop() {
            if now >= end {
                break;
            }
            self.happens(self.events[event], now);
        }
        self.sum_up(end)
    }

    fn happens(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::Request(envoy) => self.request(envoy, now),
            Event::Turn(envoy) => {
                self.push(now.after(self.scene.interval), Event::Turn(envoy));
                if let Some(usage) = self.envoys[envoy].report() {
                    let at = self.arrives(envoy, 0, now);
                    self.push(at, Event::Report(envoy, usage));
                }
            }
            Event::Report(envoy, usage) => {
                self.outcome.reported += usage.allowed;
                let word = self.daemon.reported(envoy, usage, now);
                self.say(envoy, word, now, Some(usage));
            }
            Event::Look(envoy, generation) => {
                if generation == self.generation[envoy]
                    && let Some(told) = self.daemon.look(envoy, now)
                {
                    self.say(envoy, Word::Told(told), now, None);
                }
            }
            Event::Hear(envoy, None) => self.envoys[envoy].abandon(),
            Event::Hear(envoy, Some((assignment, ttl))) => {
                self.envoys[envoy].assign(assignment, ttl, now);
            }
        }
    }

    fn say(&mut self, envoy: usize, word: Word, now: Timestamp, usage: Option<Usage>) {
        self.generation[envoy] += 1;
        let message = match word {
            Word::Abandon => None,
            Word::Told(told) => {
                if let Some(after) = told.look_again {
                    let look = Event::Look(envoy, self.generation[envoy]);
                    self.push(now.after(after.max(Nanos::new(1))), look);
                }
                if self.trace {
                    let held = self.daemon.subscribers[envoy]
                        .as_ref()
                        .unwrap()
                        .held()
                        .get();
                    let at = now.since(self.scene.start()).as_secs_f64();
                    let demand = self.daemon.subscribers[envoy].as_ref().unwrap().demand();
                    eprintln!(
                        "{at:.3} {envoy} {usage:?} held {held} demand {demand:.2} {:?} {:?} again {:?}",
                        self.daemon.room(now),
                        told.assignment,
                        told.look_again
                    );
                }
                let Some(assignment) = told.assignment else {
                    return;
                };
                Some((assignment, told.time_to_live))
            }
        };
        self.told += 1;
        let at = self.arrives(envoy, 1, now);
        self.push(at, Event::Hear(envoy, message));
    }

    fn request(&mut self, envoy: usize, now: Timestamp) {
        let next = self.scene.next(envoy, now, &mut self.dice);
        self.push(next, Event::Request(envoy));
        let answered = self.envoys[envoy].request(now);
        if let Some(usage) = answered.report {
            let at = self.arrives(envoy, 0, now);
            self.push(at, Event::Report(envoy, usage));
        }
        let ideally = self.ideal.take(&self.quota, Cost::ONE, now).verdict;
        if answered.admitted {
            self.admissions.push(now);
        }
        if now < self.scene.looked_at_from() {
            return;
        }
        self.outcome.asked += 1;
        self.outcome.asked_of[envoy] += 1;
        self.outcome.unassigned += u64::from(answered.unassigned);
        self.outcome.admitted[envoy] += u64::from(answered.admitted);
        self.outcome.refused += u64::from(!answered.admitted);
        let refused = !matches!(ideally, Verdict::Admitted { .. });
        self.outcome.ideally_refused += u64::from(refused);
        if self.trace && !answered.admitted && !refused {
            let at = now.since(self.scene.start()).as_secs_f64();
            eprintln!("{at:.3} {envoy} wrongly refused");
        }
    }

    fn sum_up(mut self, end: Timestamp) -> Outcome {
        let limit = self.scene.limit;
        let outcome = &mut self.outcome;
        let seconds = end.since(self.scene.start()).as_secs_f64();
        outcome.messages = self.told as f64 / seconds / self.envoys.len() as f64;
        outcome.expired = self.envoys.iter().map(|envoy| envoy.expired).sum();
        let subscribers = || self.daemon.subscribers.iter().flatten();
        outcome.held = subscribers().map(|one| one.held().get()).sum();
        outcome.counted = self.daemon.counted;
        outcome.used_in_engine = limit.amount.saturating_sub(self.daemon.room(end).remaining);
        let amount = limit.amount;
        if limit.algorithm == Algorithm::TokenBucket {
            let (mut debt, mut at, mut most) = (0.0_f64, self.scene.start(), 0.0_f64);
            let rate = amount as f64 / limit.period.as_secs_f64();
            for now in &self.admissions {
                debt = (debt - rate * now.since(at).as_secs_f64()).max(0.0) + 1.0;
                (at, most) = (*now, most.max(debt));
            }
            outcome.excess = (most - self.quota.capacity() as f64).max(0.0).ceil() as u64;
            return self.outcome;
        }
        let from = self.scene.looked_at_from();
        let warm = self.admissions.partition_point(|at| *at < from);
        let windows = self.admissions[warm..]
            .chunk_by(|a, b| a.window(limit.period) == b.window(limit.period));
        let most = windows.map(<[Timestamp]>::len).max().unwrap_or(0) as u64;
        outcome.excess = most.saturating_sub(amount);
        self.outcome
    }
}
