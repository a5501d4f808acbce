//! How far back the store remembers.
//!
//! What bounded and strict limits promise holds only as long as the store forgets nothing.
//! A key of the fleet, its seal, says since when it has not: see `lua/seal.lua`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::{Cmd, Value};

use super::error::Failure;
use super::wire::text;
use crate::counters::Slot;
use crate::units::Timestamp;

pub(super) const SEAL: &str = include_str!("../../lua/seal.lua");

/// The seal as a server told it on one connection; on another connection it says nothing,
/// since that may lead to another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    text: Arc<str>,
    since: Timestamp,
    number: u64,
}

impl Seal {
    /// The seal with this text; `None` if it is not one of ours.
    pub fn parse(text: &str) -> Option<Seal> {
        let mut words = text.split(' ').skip(1);
        let mut number = || words.next()?.parse::<u64>().ok();
        let (since, number) = (number()?, number()?);
        Some(Seal {
            text: text.into(),
            since: Timestamp::from_nanos(since.saturating_mul(1_000)),
            number,
        })
    }

    /// The seal of the run of a server that is called `run`.
    pub(crate) fn new(run: &str, since: Timestamp, number: u64) -> Seal {
        let since = since.as_nanos() / 1_000;
        Seal {
            text: format!("{run} {since} {number}").into(),
            since: Timestamp::from_nanos(since * 1_000),
            number,
        }
    }

    /// What the run of the server is called.
    pub(crate) fn run(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// Since when the store remembers; the epoch if nothing was ever forgotten.
    pub(crate) fn since(&self) -> Timestamp {
        self.since
    }

    /// Grows with every seal.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// As it stands in the store.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether nothing was forgotten that counts in `slot`, or in the slots before it that
    /// are weighed with it; nor was any lease of it.
    pub fn covers(&self, slot: Slot) -> bool {
        self.since <= slot.remembered_from()
    }
}

/// The highest number of a seal that this node was told, on any connection.
#[derive(Clone, Debug, Default)]
pub struct Told(Arc<AtomicU64>);

impl Told {
    /// A seal was told.
    pub fn note(&self, seal: &Seal) {
        self.0.fetch_max(seal.number, Ordering::Relaxed);
    }

    /// The number; zero before any was told.
    pub fn number(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The first moment at which something is lent of `slot`, a window.
pub(crate) fn lent_from(slot: Slot) -> Timestamp {
    slot.start().before(slot.lead())
}

/// Whether leases of `slot` may be bound to the store's memory: of a bucket nothing is lent
/// that must not be forgotten.
pub(super) fn is_sealed(slot: Slot) -> bool {
    slot.space.counts()
}

/// The name of the seal of `fleet`.
pub(super) fn key(fleet: &str) -> String {
    format!("{fleet}:{{fleet}}:seal")
}

/// The command that asks a server, taught or not, for the seal of `fleet`, and has it
/// renewed if need be.
pub fn ask(fleet: &str, told: &Told) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(SEAL).arg(1).arg(key(fleet)).arg(told.number());
    command
}

/// Reads the answer.
///
/// # Errors
/// [`Failure::BadReply`] if it is not what the script answers.
pub fn read(value: &Value) -> Result<Seal, Failure> {
    let seal = text(value).and_then(|text| Seal::parse(&text));
    seal.ok_or(Failure::BadReply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Space;
    use crate::units::{Algorithm, Nanos, Quota, WindowId};

    #[test]
    fn a_seal_is_read_as_it_stands_and_nonsense_is_told_from_it() {
        let seal = Seal::parse("93f2a 17 23").unwrap();
        assert_eq!(seal.text(), "93f2a 17 23");
        assert_eq!(seal.since, Timestamp::from_nanos(17_000));
        let told = Told::default();
        told.note(&seal);
        told.note(&Seal::parse("93f2a 0 22").unwrap());
        assert_eq!(told.number(), 23);
        for nonsense in ["", "93f2a", "93f2a 1", "93f2a x 1", "93f2a 1 -1"] {
            assert_eq!(Seal::parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_window_is_covered_if_the_one_before_it_is() {
        let minute = Nanos::from_secs(60);
        let quota = Quota::new(Algorithm::SlidingWindow, 10, minute, None).unwrap();
        let slot = Slot {
            space: Space::of(&quota),
            window: WindowId::new(10),
        };
        let since = |micros: u64| Seal::parse(&format!("r {micros} 1")).unwrap();
        assert!(since(0).covers(slot));
        assert!(since(540_000_000).covers(slot));
        assert!(!since(540_000_001).covers(slot));
        assert_eq!(lent_from(slot), Timestamp::from_nanos(570_000_000_000));
    }
}
