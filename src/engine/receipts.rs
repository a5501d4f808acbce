//! What was taken for checks with an id, until they are settled.
//!
//! Receipts are bounded in number and time. One that is forgotten before it is settled keeps
//! its up-front cost, and is remembered as forgotten for as long again. A settled one is
//! remembered for the rest of its time, so that settling twice changes nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use crate::rules::Applied;
use crate::units::{
    Consistency, Cost, Key, KeyHasher, KeySecret, Limit, MapHasher, Nanos, Timestamp,
};

/// The name that a client gives to a check that it will settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckId<'a>(&'a [u8]);

impl<'a> CheckId<'a> {
    /// The longest, in bytes.
    pub const MAX: usize = 128;

    /// The id of this text; `None` if it is empty or too long.
    pub fn new(text: &'a [u8]) -> Option<CheckId<'a>> {
        (1..=CheckId::MAX)
            .contains(&text.len())
            .then_some(CheckId(text))
    }
}

/// How many receipts are kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiptBounds {
    /// The most; of more, the oldest are forgotten.
    pub most: usize,
    /// The longest.
    pub time: Nanos,
}

impl Default for ReceiptBounds {
    fn default() -> ReceiptBounds {
        ReceiptBounds {
            most: 100_000,
            time: Nanos::from_secs(600),
        }
    }
}

/// What was taken for one check that was admitted.
#[derive(Clone, Debug)]
pub(super) struct Receipt {
    pub(super) at: Timestamp,
    /// How long the caller was to wait before acting.
    pub(super) delay: Nanos,
    /// The up-front cost.
    pub(super) cost: Cost,
    pub(super) parts: SmallVec<[Part; 2]>,
}

/// What was taken from one limit.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) limit: Arc<Limit>,
    pub(super) key: Key,
    pub(super) weight: u64,
    pub(super) measure: Option<Arc<str>>,
    pub(super) taken: Cost,
    /// The moment that it counts for.
    pub(super) at: Timestamp,
    pub(super) holder: Holder,
}

/// Who counts what was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// A cell of this node, which tells the store.
    Cell,
    /// The store itself.
    Store,
}

impl Part {
    pub(super) fn new(one: &Applied<'_>, taken: Cost, at: Timestamp, ruled: bool) -> Part {
        Part {
            limit: Arc::clone(one.limit),
            key: one.key,
            weight: one.weight,
            measure: one.measure.cloned(),
            taken,
            at,
            // What the store has admitted of a bounded limit, a cell may amend.
            holder: if ruled && one.limit.consistency == Consistency::Strict {
                Holder::Store
            } else {
                Holder::Cell
            },
        }
    }
}

impl Receipt {
    /// Whether it is of a check of `cost` to which these limits apply.
    pub(super) fn is_of(&self, applied: &[Applied<'_>], cost: Cost) -> bool {
        let enforced = |limit: &Limit| limit.mode.enforces();
        let own = self.parts.iter().filter(|part| enforced(&part.limit));
        let asked = applied.iter().filter(|one| enforced(one.limit));
        let own = own.map(|part| (part.key, part.weight));
        self.cost == cost && own.eq(asked.map(|one| (one.key, one.weight)))
    }
}

/// The receipts of this node.
#[derive(Debug)]
pub(super) struct Receipts {
    hasher: KeyHasher,
    bounds: ReceiptBounds,
    shelf: Mutex<Shelf>,
    forgotten: AtomicU64,
}

#[derive(Debug, Default)]
struct Shelf {
    known: HashMap<Key, Held, MapHasher>,
    /// Receipts and settled ids, the oldest first. One of another number is of an earlier
    /// use of its id.
    order: VecDeque<(Timestamp, Key, u64)>,
    /// Ids of receipts that were forgotten, the first first.
    gone: VecDeque<(Timestamp, Key, u64)>,
    number: u64,
}

#[derive(Debug)]
enum Held {
    /// By a check that is not decided yet.
    Undecided,
    Open(u64, Box<Receipt>),
    Settled(u64),
    Forgotten(u64),
}

impl Held {
    fn number(&self) -> Option<u64> {
        match self {
            Held::Undecided => None,
            Held::Open(number, _) | Held::Settled(number) | Held::Forgotten(number) => {
                Some(*number)
            }
        }
    }
}

/// What becomes of a check with an id.
pub(super) enum Claim {
    /// It is to be decided; the id is its own.
    New(Reservation),
    /// It was admitted before and is not settled: it is asked again. So much is left of the
    /// time that it was to wait.
    Again(Nanos),
    /// The id is that of another check, or of one that is not decided yet.
    InUse,
}

/// What there is to settle by an id.
#[derive(Debug)]
pub(super) enum Found {
    Open(Box<Receipt>),
    /// It stays where it is.
    Unconcerned,
    Settled,
    Forgotten,
    Unknown,
}

/// An id that belongs to a check that is not decided yet; given up when dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    receipts: Arc<Receipts>,
    key: Key,
}

impl Receipts {
    pub(super) fn new(secret: &KeySecret, bounds: ReceiptBounds) -> Receipts {
        Receipts {
            hasher: secret.hasher(b"receipts"),
            bounds,
            shelf: Mutex::default(),
            forgotten: AtomicU64::new(0),
        }
    }

    pub(super) fn claim(
        self: &Arc<Receipts>,
        id: CheckId<'_>,
        now: Timestamp,
        is_same: impl FnOnce(&Receipt) -> bool,
    ) -> Claim {
        let key = self.key(id);
        let mut shelf = self.shelf();
        self.forget_late(&mut shelf, now);
        match shelf.known.get(&key) {
            Some(Held::Open(_, receipt)) if is_same(receipt) => {
                return Claim::Again(receipt.at.after(receipt.delay).since(now));
            }
            Some(Held::Open(..) | Held::Settled(_) | Held::Undecided) => return Claim::InUse,
            Some(Held::Forgotten(_)) | None => {}
        }
        shelf.known.insert(key, Held::Undecided);
        Claim::New(Reservation {
            receipts: Arc::clone(self),
            key,
        })
    }

    /// Takes the receipt of `id` out, to be settled, if what is known now `concerns` it.
    pub(super) fn settle(
        &self,
        id: CheckId<'_>,
        now: Timestamp,
        concerns: impl FnOnce(&Receipt) -> bool,
    ) -> Found {
        let key = self.key(id);
        let mut shelf = self.shelf();
        self.forget_late(&mut shelf, now);
        let Some(held) = shelf.known.get_mut(&key) else {
            return Found::Unknown;
        };
        match held {
            Held::Undecided => Found::Unknown,
            Held::Settled(_) => Found::Settled,
            Held::Forgotten(_) => Found::Forgotten,
            Held::Open(_, receipt) if !concerns(receipt) => Found::Unconcerned,
            Held::Open(number, _) => {
                let number = *number;
                match std::mem::replace(held, Held::Settled(number)) {
                    Held::Open(_, receipt) => Found::Open(receipt),
                    _ => Found::Settled,
                }
            }
        }
    }

    /// Forgets what has been kept too long.
    pub(super) fn sweep(&self, now: Timestamp) {
        let mut shelf = self.shelf();
        self.forget_late(&mut shelf, now);
    }

    /// How many were forgotten before they were settled.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    /// How many are kept that are not settled, and settled ones that are remembered.
    pub(super) fn kept(&self) -> usize {
        self.shelf().order.len()
    }

    fn key(&self, id: CheckId<'_>) -> Key {
        self.hasher.key_of("id", id.0)
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, key: Key, receipt: Receipt, now: Timestamp) {
        let mut shelf = self.shelf();
        shelf.number += 1;
        let number = shelf.number;
        shelf
            .known
            .insert(key, Held::Open(number, Box::new(receipt)));
        shelf.order.push_back((now, key, number));
        while shelf.order.len() > self.bounds.most.max(1) {
            self.forget_oldest(&mut shelf, now);
        }
    }

    fn forget_late(&self, shelf: &mut Shelf, now: Timestamp) {
        let is_late = |oldest: Option<&(Timestamp, Key, u64)>| {
            oldest.is_some_and(|(born, ..)| now.since(*born) >= self.bounds.time)
        };
        while is_late(shelf.order.front()) {
            self.forget_oldest(shelf, now);
        }
        while is_late(shelf.gone.front()) {
            shelf.let_go();
        }
    }

    fn forget_oldest(&self, shelf: &mut Shelf, now: Timestamp) {
        let Some((_, key, number)) = shelf.order.pop_front() else {
            return;
        };
        match shelf.known.get_mut(&key) {
            Some(held @ Held::Open(..)) if held.number() == Some(number) => {
                *held = Held::Forgotten(number);
                shelf.gone.push_back((now, key, number));
                self.forgotten.fetch_add(1, Ordering::Relaxed);
            }
            Some(held) if held.number() == Some(number) => {
                shelf.known.remove(&key);
            }
            _ => {}
        }
        while shelf.gone.len() > self.bounds.most.max(1) {
            shelf.let_go();
        }
    }
}

impl Shelf {
    /// Remembers the first of the forgotten no longer.
    fn let_go(&mut self) {
        if let Some((_, key, number)) = self.gone.pop_front()
            && self.known.get(&key).and_then(Held::number) == Some(number)
        {
            self.known.remove(&key);
        }
    }
}

impl Reservation {
    /// The check was admitted: this was taken for it.
    pub(super) fn keep(self, receipt: Receipt, now: Timestamp) {
        self.receipts.put(self.key, receipt, now);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut shelf = self.receipts.shelf();
        if let Some(Held::Undecided) = shelf.known.get(&self.key) {
            shelf.known.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);

    fn receipts(most: usize) -> Arc<Receipts> {
        let bounds = ReceiptBounds {
            most,
            time: Nanos::from_secs(600),
        };
        Arc::new(Receipts::new(&KeySecret::public(), bounds))
    }

    fn id(text: &str) -> CheckId<'_> {
        CheckId::new(text.as_bytes()).unwrap()
    }

    fn secs(secs: u64) -> Timestamp {
        START.after(Nanos::from_secs(secs))
    }

    fn receipt(cost: u64, now: Timestamp) -> Receipt {
        Receipt {
            at: now,
            delay: Nanos::ZERO,
            cost: Cost::new(cost),
            parts: SmallVec::new(),
        }
    }

    /// Takes the id for a check that is admitted.
    fn admit(receipts: &Arc<Receipts>, text: &str, now: Timestamp) {
        match receipts.claim(id(text), now, |_| false) {
            Claim::New(reservation) => reservation.keep(receipt(7, now), now),
            Claim::Again(_) | Claim::InUse => panic!("{text} is in use"),
        }
    }

    fn found(receipts: &Receipts, text: &str, now: Timestamp) -> String {
        match receipts.settle(id(text), now, |_| true) {
            Found::Open(receipt) => format!("open {}", receipt.cost.get()),
            other => format!("{other:?}").to_lowercase(),
        }
    }

    #[test]
    fn an_id_has_one_to_128_bytes() {
        assert!(CheckId::new(b"").is_none() && CheckId::new(&[b'x'; 129]).is_none());
        assert!(CheckId::new(b"\0").is_some() && CheckId::new(&[b'x'; 128]).is_some());
    }

    #[test]
    fn a_receipt_is_settled_once() {
        let receipts = receipts(10);
        assert_eq!(found(&receipts, "a", START), "unknown");
        admit(&receipts, "a", START);
        assert_eq!(found(&receipts, "a", START), "open 7");
        assert_eq!(found(&receipts, "a", START), "settled");
        assert_eq!(found(&receipts, "a", secs(599)), "settled");
        assert_eq!(found(&receipts, "a", secs(600)), "unknown");
        assert_eq!(receipts.forgotten(), 0);
    }

    #[test]
    fn an_id_is_free_again_when_its_check_is_not_admitted() {
        let receipts = receipts(10);
        let claim = receipts.claim(id("a"), START, |_| true);
        assert!(matches!(claim, Claim::New(_)));
        assert!(matches!(
            receipts.claim(id("a"), START, |_| true),
            Claim::InUse
        ));
        assert_eq!(found(&receipts, "a", START), "unknown");
        drop(claim);
        admit(&receipts, "a", START);
        assert_eq!(receipts.kept(), 1);
    }

    #[test]
    fn the_same_check_again_is_told_so_and_another_is_not() {
        let receipts = receipts(10);
        admit(&receipts, "a", START);
        let again = receipts.claim(id("a"), START, |receipt| receipt.cost == Cost::new(7));
        assert!(matches!(again, Claim::Again(Nanos::ZERO)));
        assert!(matches!(
            receipts.claim(id("a"), START, |_| false),
            Claim::InUse
        ));
        found(&receipts, "a", START);
        assert!(matches!(
            receipts.claim(id("a"), START, |_| true),
            Claim::InUse
        ));
    }

    #[test]
    fn what_is_too_old_is_forgotten_for_as_long_again_and_its_id_is_free() {
        let receipts = receipts(10);
        admit(&receipts, "a", START);
        admit(&receipts, "b", secs(1));
        assert_eq!(found(&receipts, "a", secs(600)), "forgotten");
        assert_eq!(found(&receipts, "b", secs(600)), "open 7");
        receipts.sweep(secs(1_199));
        assert_eq!(found(&receipts, "a", secs(1_199)), "forgotten");
        assert_eq!(found(&receipts, "a", secs(1_200)), "unknown");
        assert_eq!(receipts.forgotten(), 1);
        admit(&receipts, "c", START);
        receipts.sweep(secs(600));
        admit(&receipts, "c", secs(601));
        assert_eq!(found(&receipts, "c", secs(1_200)), "open 7");
    }

    #[test]
    fn of_too_many_the_oldest_are_forgotten_and_nothing_grows() {
        let receipts = receipts(3);
        for number in 0..1_000_u32 {
            admit(&receipts, &number.to_string(), START);
            let refused = receipts.claim(id("refused"), START, |_| true);
            assert!(matches!(refused, Claim::New(_)));
        }
        let shelf = receipts.shelf();
        let sizes = (shelf.known.len(), shelf.order.len(), shelf.gone.len());
        assert_eq!(sizes, (6, 3, 3));
        drop(shelf);
        assert_eq!(receipts.forgotten(), 997);
        assert_eq!(found(&receipts, "996", START), "forgotten");
        assert_eq!(found(&receipts, "997", START), "open 7");
        assert_eq!(found(&receipts, "5", START), "unknown");
    }
}
