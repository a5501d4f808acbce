//! Questions and answers in the form of `lua/strict.lua`.

use redis::{Cmd, Script, Value};

use crate::algorithms::{Outcome, Verdict};
use crate::counters::{Slot, Space};
use crate::engine::{Counted, Purpose, Question, Ruling};
use crate::sync::config::SyncConfig;
use crate::sync::error::Failure;
use crate::sync::seal::{self, Seal};
use crate::sync::wire::{Packed, hash_name, number, time};
use crate::units::{Algorithm, Consistency, Nanos, Partitions, Timestamp, WindowId};

const STRICT: &str = include_str!("../../../lua/strict.lua");
/// The largest cost that the script can hold; no limit has room for it.
const MOST_COST: u64 = 1 << 53;
/// A question may be on its way for so long,
const REACH: Nanos = Nanos::from_millis(50);
/// while no more than so many windows pass: a question has only so many keys.
const MOST_PASSING: u64 = 15;

/// The script, and the names of the keys that it works on.
pub(super) struct Form {
    fleet: String,
    partitions: Partitions,
    script: Script,
}

/// What the store answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It has decided.
    Ruling(Ruling),
    /// It has done nothing: by its clock, which says this, the keys are of another time.
    Elsewhen(Timestamp),
    /// It has done nothing: its seal is another.
    Resealed,
    /// It has done nothing: it may have forgotten what counts now.
    Forgotten,
}

/// The keys of one limit.
struct Keys {
    names: Vec<String>,
    /// The window or slice of the first; before the epoch there are some that never are.
    first: i64,
    time_to_live: Nanos,
    /// How long before the window begins other nodes are lent of it.
    lead: Nanos,
    /// Of the windows of a calendar, when each begins, and when the last ends, in us.
    starts: Vec<u64>,
}

impl Form {
    pub(super) fn new(config: &SyncConfig) -> Form {
        Form {
            fleet: config.fleet.clone(),
            partitions: config.partitions,
            script: Script::new(STRICT),
        }
    }

    /// The command that teaches the store the script.
    pub(super) fn load() -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(STRICT);
        command
    }

    /// The question to a store with this `seal`, with the keys that it needs at `now` and a
    /// window before or after it.
    pub(super) fn command(&self, question: &Question, seal: &Seal, now: Timestamp) -> Cmd {
        let mut packed = Packed::with_capacity(16 + 64 * question.limits.len());
        packed.array(2 + question.limits.len());
        let cost = |weight: u64| question.cost.times(weight).get().min(MOST_COST);
        if question.limits.iter().all(|one| one.weight == 1) {
            packed.number(cost(1));
        } else {
            packed.array(question.limits.len());
            for one in &question.limits {
                packed.number(cost(one.weight));
            }
        }
        packed.text(seal.text());
        let mut names = Vec::with_capacity(5 * question.limits.len());
        for one in &question.limits {
            let keys = self.keys(one, now);
            pack(&mut packed, one, &keys, 1 + names.len(), question.purpose);
            names.extend(keys.names);
        }
        names.push(seal::key(&self.fleet));
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.script.get_hash()).arg(names.len());
        for name in &names {
            command.arg(name);
        }
        for one in &question.limits {
            command.arg(&one.key.to_bytes());
        }
        command.arg(packed.0);
        command
    }

    fn keys(&self, one: &Counted, now: Timestamp) -> Keys {
        let quota = &one.limit.quota;
        let partition = one.key.partition(self.partitions);
        let space = Space::of(quota);
        // What is read before and after the window of the store's time, which may itself
        // lie one before or after this node's; or some after it, where windows are so short
        // that they pass while the question is on its way.
        // Those of a calendar never are.
        let passing = REACH.get() / quota.period().get().max(1);
        let late = 1 + passing.min(MOST_PASSING);
        let (before, after) = match quota.algorithm() {
            Algorithm::FixedWindow => (1_u64, late),
            Algorithm::SlidingWindow => (2, late),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => (2, late + 1),
            Algorithm::SlidingLog => return self.log(one),
        };
        let middle = space.window(now).get();
        let slot = |window| Slot {
            space,
            window: WindowId::new(window),
        };
        let name = |offset: u64| {
            let window = middle.wrapping_sub(before).wrapping_add(offset);
            hash_name(&self.fleet, partition, slot(window))
        };
        let calendar = matches!(space, Space::Calendar(_));
        let starts = if calendar { before + after + 2 } else { 0 };
        let start = |offset: u64| {
            let start = slot((middle + offset).saturating_sub(before)).start();
            start.as_nanos() / 1_000
        };
        let lead = match one.limit.consistency {
            // That of the windows before and after differs by a little.
            Consistency::Bounded => slot(middle).lead().max(slot(middle).next().lead()),
            _ => Nanos::ZERO,
        };
        Keys {
            lead,
            starts: (0..starts).map(start).collect(),
            names: (0..=before + after).map(name).collect(),
            first: i64::try_from(middle)
                .unwrap_or(i64::MAX)
                .saturating_sub_unsigned(before),
            time_to_live: slot(middle).time_to_live(),
        }
    }

    /// A log is one key, whatever the time.
    fn log(&self, one: &Counted) -> Keys {
        let period = one.limit.quota.period();
        let space = Space::Windows {
            length: period,
            kept: 1,
        };
        let slot = Slot {
            space,
            window: WindowId::new(0),
        };
        let partition = one.key.partition(self.partitions).get();
        let fingerprint = u128::from_be_bytes(one.key.to_bytes());
        let fleet = &self.fleet;
        Keys {
            names: vec![format!(
                "{fleet}:{{p{partition}}}:log:{period}:{fingerprint:032x}"
            )],
            first: 0,
            // Nothing is lent in advance.
            time_to_live: slot.life(),
            lead: Nanos::ZERO,
            starts: Vec::new(),
        }
    }

    /// Reads what the store answered to `question`.
    ///
    /// # Errors
    /// [`Failure::BadReply`] if it makes no sense.
    pub(super) fn answer(&self, question: &Question, value: &Value) -> Result<Answer, Failure> {
        let Value::Array(items) = value else {
            return Err(Failure::BadReply);
        };
        let [said, seconds, micros, figures @ ..] = &items[..] else {
            return Err(Failure::BadReply);
        };
        let at = time(seconds, micros)?;
        match said {
            Value::Int(-1) => return Ok(Answer::Elsewhen(at)),
            Value::Int(-2) => return Ok(Answer::Resealed),
            Value::Int(-3) => return Ok(Answer::Forgotten),
            _ => {}
        }
        if figures.len() != 5 * question.limits.len() {
            return Err(Failure::BadReply);
        }
        let books = question.purpose != Purpose::Check;
        let mut ruling = Ruling {
            at,
            outcomes: Vec::with_capacity(question.limits.len()),
            dropped: Vec::new(),
        };
        for (place, figures) in figures.chunks_exact(5).enumerate() {
            let said = outcome(figures).ok_or(Failure::BadReply)?;
            match said {
                Said::Outcome(outcome) => ruling.outcomes.push(outcome),
                Said::Dropped(outcome) if books => {
                    ruling.outcomes.push(outcome);
                    ruling.dropped.push(place);
                }
                Said::Dropped(_) => return Err(Failure::BadReply),
            }
        }
        Ok(Answer::Ruling(ruling))
    }
}

/// Packs all that the script must know of one limit, whose first key has this `place`.
fn pack(packed: &mut Packed, one: &Counted, keys: &Keys, place: usize, purpose: Purpose) {
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let quota = &one.limit.quota;
    let space = Space::of(quota);
    packed.array(match space {
        Space::Buckets { .. } => 10,
        Space::Windows { .. } => 9,
        Space::Calendar(_) => 10,
    });
    packed.number(match quota.algorithm() {
        Algorithm::FixedWindow => 1,
        Algorithm::SlidingWindow => 2,
        Algorithm::SlidingLog => 3,
        Algorithm::TokenBucket => 4,
        Algorithm::LeakyBucket => 5,
    });
    packed.number(count(place));
    packed.number(count(keys.names.len()));
    packed.signed(keys.first);
    packed.number(keys.time_to_live.as_millis_ceil());
    let mut book = |how: u64, moment: Option<Timestamp>| {
        packed.array(2);
        packed.number(how);
        packed.number(moment.map_or(0, |moment| moment.as_nanos() / 1_000));
    };
    match purpose {
        Purpose::Check => packed.number(u64::from(one.limit.count_denied)),
        Purpose::Charge(moment) => book(2, moment),
        Purpose::Refund(moment) => book(3, moment),
    }
    packed.number(quota.capacity());
    match space {
        Space::Windows { .. } | Space::Calendar(_) => {
            packed.number(micros(quota.period()));
            packed.number(micros(keys.lead));
            if !keys.starts.is_empty() {
                packed.array(keys.starts.len());
                keys.starts.iter().for_each(|start| packed.number(*start));
            }
        }
        Space::Buckets { exponent } => {
            let (micros, tokens) = quota.drain_rate();
            packed.number(exponent.into());
            packed.number(micros);
            packed.number(tokens);
        }
    }
}

fn micros(span: Nanos) -> u64 {
    span.get().div_ceil(1_000)
}

/// What one limit said.
enum Said {
    Outcome(Outcome),
    /// The charge or the refund went nowhere; what a check would be told.
    Dropped(Outcome),
}

fn outcome(figures: &[Value]) -> Option<Said> {
    let [verdict, remaining, retry, reset, delay] = figures else {
        return None;
    };
    let span = |value| Some(Nanos::new(number(value)?.saturating_mul(1_000)));
    let (retry_after, delay) = (span(retry)?, span(delay)?);
    let verdict = number(verdict)?;
    let outcome = Outcome {
        verdict: match verdict {
            0 => Verdict::Admitted { delay },
            1 => Verdict::Refused { retry_after },
            2 => Verdict::Impossible,
            3 if retry_after.is_zero() => Verdict::Admitted { delay },
            3 => Verdict::Refused { retry_after },
            _ => return None,
        },
        remaining: number(remaining)?,
        reset_after: span(reset)?,
    };
    Some(match verdict {
        3 => Said::Dropped(outcome),
        _ => Said::Outcome(outcome),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Cost, KeySecret, Limit, LimitId, Pace, Quota};
    use std::sync::Arc;

    fn form() -> Form {
        Form::new(&SyncConfig {
            url: String::new(),
            node: "n".into(),
            fleet: "f".into(),
            partitions: Partitions::default(),
            secret: KeySecret::public(),
            pace: Pace::default(),
        })
    }

    fn counted(algorithm: Algorithm) -> Counted {
        let quota = Quota::new(algorithm, 5, Nanos::from_secs(60), None).unwrap();
        let id = LimitId::new("r", "t", &quota);
        let limit = Limit::new(id, "r", "t", quota, &KeySecret::public());
        let key = limit.hasher.key_of("key", b"alice");
        Counted {
            weight: 1,
            limit: Arc::new(limit),
            key,
        }
    }

    const NOW: Timestamp = Timestamp::from_nanos(1_800_000_030_000_000_000);

    #[test]
    fn the_keys_reach_a_window_further_than_what_is_read() {
        let windows = |algorithm| -> Vec<i64> {
            let keys = form().keys(&counted(algorithm), NOW);
            let last = |name: &String| name.rsplit(':').next().unwrap().parse::<i64>().unwrap();
            keys.names
                .iter()
                .map(|name| last(name) - 30_000_000)
                .collect()
        };
        assert_eq!(windows(Algorithm::FixedWindow), [-1, 0, 1]);
        assert_eq!(windows(Algorithm::SlidingWindow), [-2, -1, 0, 1]);
        let slices = form().keys(&counted(Algorithm::TokenBucket), NOW);
        assert_eq!(slices.names.len(), 5);
        assert_eq!(
            slices.first + 2,
            i64::try_from(NOW.as_nanos() >> 37).unwrap()
        );
        let log = form().keys(&counted(Algorithm::SlidingLog), NOW);
        let fingerprint = u128::from_be_bytes(counted(Algorithm::SlidingLog).key.to_bytes());
        assert_eq!(log.names.len(), 1);
        assert!(log.names[0].starts_with("f:{p"));
        assert!(log.names[0].ends_with(&format!("}}:log:1m:{fingerprint:032x}")));
    }

    #[test]
    fn hashes_are_those_of_the_other_modes() {
        let one = counted(Algorithm::SlidingWindow);
        let keys = form().keys(&one, NOW);
        let partition = one.key.partition(Partitions::default());
        let slot = Slot {
            space: Space::of(&one.limit.quota),
            window: WindowId::new(30_000_000),
        };
        assert_eq!(keys.names[2], hash_name("f", partition, slot));
        assert_eq!(keys.time_to_live, slot.time_to_live());
    }

    #[test]
    fn answers_are_read_and_nonsense_is_told_from_them() {
        let question = Question {
            limits: vec![counted(Algorithm::LeakyBucket)],
            cost: Cost::ONE,
            purpose: Purpose::Check,
        };
        let int = |numbers: &[i64]| Value::Array(numbers.iter().map(|n| Value::Int(*n)).collect());
        let read = |numbers: &[i64]| form().answer(&question, &int(numbers));
        let at = Timestamp::from_nanos(7_000_009_000);
        let outcome = |verdict| Outcome {
            verdict,
            remaining: 4,
            reset_after: Nanos::new(12_000),
        };
        let ruling = |verdict| {
            let outcomes = vec![outcome(verdict)];
            let dropped = Vec::new();
            Ok(Answer::Ruling(Ruling {
                at,
                outcomes,
                dropped,
            }))
        };
        let delay = Nanos::new(3_000);
        let admitted = Verdict::Admitted { delay };
        assert_eq!(read(&[1, 7, 9, 0, 4, 0, 12, 3]), ruling(admitted));
        let retry_after = Nanos::new(5_000);
        let refused = Verdict::Refused { retry_after };
        assert_eq!(read(&[0, 7, 9, 1, 4, 5, 12, 0]), ruling(refused));
        assert_eq!(
            read(&[0, 7, 9, 2, 4, 0, 12, 0]),
            ruling(Verdict::Impossible)
        );
        assert_eq!(read(&[-1, 7, 9]), Ok(Answer::Elsewhen(at)));
        assert_eq!(read(&[-2, 7, 9]), Ok(Answer::Resealed));
        assert_eq!(read(&[-3, 7, 9]), Ok(Answer::Forgotten));
        for nonsense in [
            &[][..],
            &[1, 7],
            &[1, 7, 9],
            &[1, 7, 9, 0, 4, 0, 12],
            &[1, 7, 9, 3, 4, 0, 12, 0],
            &[1, 7, 9, 0, -4, 0, 12, 0],
        ] {
            assert_eq!(read(nonsense), Err(Failure::BadReply), "{nonsense:?}");
        }
        let nil = form().answer(&question, &Value::Nil);
        assert_eq!(nil, Err(Failure::BadReply));
    }
}
