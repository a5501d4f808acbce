//! The daemon's part: the real engine, and subscribers driven as the server drives them.

use std::sync::Arc;

use tidegate::counters::{Counters, Fleet};
use tidegate::engine::{Begun, Decision, Engine, Entry, Outcome, Request, Subject};
use tidegate::policy::Supply;
use tidegate::policy::assignment::{Move, Peers, Room, Subscriber, Told};
use tidegate::rules::{Defaults, Format, RuleSet, Source};
use tidegate::units::{Algorithm, Cost, KeySecret, Nanos, Pace, Timestamp};

use crate::envoy::Usage;
use crate::scene::Limit;

pub(crate) struct Daemon {
    engine: Engine,
    supply: Supply,
    pub(crate) subscribers: Vec<Option<Subscriber>>,
    /// Taken and charged, less what was given back.
    pub(crate) counted: u64,
}

/// What a subscriber is to hear.
pub(crate) enum Word {
    Told(Told),
    Abandon,
}

impl Daemon {
    pub(crate) fn new(limit: Limit, envoys: usize) -> Daemon {
        let burst = limit
            .burst
            .map_or(String::new(), |n| format!(", burst: {n}"));
        let text = format!(
            "rules:\n  - name: api\n    algorithm: {}\n    limits:\n      - {{ requests: {}, \
             window: {}s{burst} }}\n",
            limit.algorithm.name(),
            limit.amount,
            limit.period.as_secs_ceil(),
        );
        let secret = KeySecret::public();
        let defaults = Defaults {
            pace: Pace::default(),
            secret: secret.clone(),
        };
        let source = Source {
            name: "rules.yaml".into(),
            text,
            format: Format::Yaml,
        };
        let rules = RuleSet::compile(&[source], &defaults).unwrap().rules;
        let counters = Arc::new(Counters::new(1_000, Fleet::alone()));
        Daemon {
            engine: Engine::new(rules, counters, &secret),
            supply: match limit.algorithm {
                Algorithm::FixedWindow => Supply::AtTheTurn,
                Algorithm::SlidingLog => Supply::Trailing,
                _ => Supply::Continuous,
            },
            subscribers: vec![None; envoys],
            counted: 0,
        }
    }

    pub(crate) fn reported(&mut self, envoy: usize, usage: Usage, now: Timestamp) -> Word {
        let subscriber = self.subscribers[envoy].get_or_insert_with(|| Subscriber::new(now));
        let charge = subscriber.reported(usage.allowed, usage.denied, now);
        if !charge.is_peek() {
            self.book(charge, Entry::Charge, now);
            self.counted += charge.get();
        }
        let period = self.room(now).period;
        if self.subscribers[envoy]
            .as_ref()
            .unwrap()
            .is_idle(period, now)
        {
            let idle = self.subscribers[envoy].take().unwrap();
            self.refund(idle.held(), now);
            return Word::Abandon;
        }
        self.look(envoy, now).map_or(Word::Abandon, Word::Told)
    }

    /// What the subscriber is told now, if it is one.
    pub(crate) fn look(&mut self, envoy: usize, now: Timestamp) -> Option<Told> {
        let room = self.room(now);
        let all = || self.subscribers.iter().flatten();
        let peers = Peers {
            subscribers: u32::try_from(all().count()).unwrap(),
            demand: all().map(Subscriber::demand).sum(),
            left: Cost::new(all().map(|one| one.left(now).get()).sum()),
            waiting: all().map(|one| one.waits(now)).sum(),
            nodes: 1,
        };
        let wanted = self.subscribers[envoy].as_mut()?.wanted(&room, &peers, now);
        match wanted {
            Move::Take(cost) => {
                let cost = self.take(cost, now);
                self.subscribers[envoy].as_mut()?.took(cost, now);
            }
            Move::GiveBack(cost) => {
                self.refund(cost, now);
                self.subscribers[envoy].as_mut()?.gave_back(cost);
            }
            Move::Keep => {}
        }
        let room = self.room(now);
        Some(self.subscribers[envoy].as_mut()?.told(&room, now))
    }

    /// Takes `cost`, or what there is.
    fn take(&mut self, cost: Cost, now: Timestamp) -> Cost {
        let taken = match self.asks(cost, now) {
            true => cost,
            false => {
                let rest = cost.min(Cost::new(self.room(now).remaining));
                match !rest.is_peek() && self.asks(rest, now) {
                    true => rest,
                    false => Cost::ZERO,
                }
            }
        };
        self.counted += taken.get();
        taken
    }

    fn asks(&self, cost: Cost, now: Timestamp) -> bool {
        let snapshot = self.engine.snapshot();
        snapshot.decide(&request(cost), now).outcome.is_allowed()
    }

    fn refund(&mut self, cost: Cost, now: Timestamp) {
        if !cost.is_peek() {
            self.book(cost, Entry::Refund, now);
            self.counted -= cost.get();
        }
    }

    fn book(&self, cost: Cost, entry: Entry, now: Timestamp) {
        let snapshot = self.engine.snapshot();
        let begun = snapshot.report(&request(cost), entry, now);
        assert!(matches!(begun, Begun::Decided(_)));
    }

    pub(crate) fn room(&self, now: Timestamp) -> Room {
        let snapshot = self.engine.snapshot();
        let decision: Decision<'_> = snapshot.decide(&request(Cost::ZERO), now);
        let limit = decision.limit.unwrap();
        let retry_after: Option<Nanos> = match decision.outcome {
            Outcome::Refused { retry_after } => Some(retry_after),
            _ => None,
        };
        Room {
            amount: limit.amount,
            remaining: limit.remaining,
            period: limit.period,
            reset_after: limit.reset_after,
            retry_after,
            supply: self.supply,
        }
    }
}

fn request(cost: Cost) -> Request<'static> {
    let subject = Subject::Rule {
        rule: "api",
        key: b"alice",
        tier: None,
    };
    Request { subject, cost }
}
