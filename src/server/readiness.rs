use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Whether this node wants traffic, and what else a probe is told, shared by all that know something about it.
/// Clones are the same one. A new one is [`Reason::Starting`].
#[derive(Clone, Debug)]
pub struct Readiness(Arc<AtomicU8>);

/// Why a node does not want traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It does not serve yet.
    Starting,
    /// It is about to end.
    Draining,
    /// The store is lost, and the rules refuse without it.
    Store,
    /// The store is to say the rules, and has not yet.
    Rules,
}

impl Reason {
    const ALL: [Reason; 4] = [
        Reason::Starting,
        Reason::Draining,
        Reason::Store,
        Reason::Rules,
    ];

    /// The word for it in `/readyz`.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Starting => "starting",
            Reason::Draining => "draining",
            Reason::Store => "store",
            Reason::Rules => "rules",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What a probe is told besides: no reason in itself not to want traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The store does not answer.
    StoreLost,
    /// This node does not sync: its fleet has another number of partitions.
    OtherPartitions,
    /// This node does not sync: its fleet has another key secret.
    OtherSecret,
}

impl Note {
    const ALL: [Note; 3] = [Note::StoreLost, Note::OtherPartitions, Note::OtherSecret];

    /// The word for it in `/readyz`.
    pub const fn name(self) -> &'static str {
        match self {
            Note::StoreLost => "store_lost",
            Note::OtherPartitions => "other_partitions",
            Note::OtherSecret => "other_key_secret",
        }
    }

    const fn bit(self) -> u8 {
        1 << (Reason::ALL.len() + self as usize)
    }
}

impl Default for Readiness {
    fn default() -> Readiness {
        Readiness(Arc::new(AtomicU8::new(Reason::Starting.bit())))
    }
}

impl Readiness {
    /// Not ready, for `reason`.
    pub fn raise(&self, reason: Reason) {
        self.0.fetch_or(reason.bit(), Ordering::Relaxed);
    }

    /// `reason` is over.
    pub fn clear(&self, reason: Reason) {
        self.0.fetch_and(!reason.bit(), Ordering::Relaxed);
    }

    /// Why not ready; none if ready.
    pub fn reasons(&self) -> impl Iterator<Item = Reason> + use<> {
        let bits = self.0.load(Ordering::Relaxed);
        Reason::ALL
            .into_iter()
            .filter(move |reason| bits & reason.bit() != 0)
    }

    /// From now on `note` alone is told besides, or nothing.
    pub fn note(&self, note: Option<Note>) {
        let all = Note::ALL.into_iter().fold(0, |bits, one| bits | one.bit());
        let bit = note.map_or(0, Note::bit);
        let update = |bits| Some(bits & !all | bit);
        // It always has a value to set.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
    }

    /// What is told besides.
    pub fn notes(&self) -> impl Iterator<Item = Note> + use<> {
        let bits = self.0.load(Ordering::Relaxed);
        let noted = move |note: &Note| bits & note.bit() != 0;
        Note::ALL.into_iter().filter(noted)
    }

    /// Whether there is no reason not to be.
    pub fn is_ready(&self) -> bool {
        self.reasons().next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_when_the_last_reason_is_over() {
        let readiness = Readiness::default();
        let other = readiness.clone();
        other.raise(Reason::Store);
        readiness.clear(Reason::Starting);
        assert_eq!(readiness.reasons().collect::<Vec<_>>(), [Reason::Store]);
        other.clear(Reason::Store);
        assert!(readiness.is_ready());
    }

    #[test]
    fn a_note_is_told_until_another_takes_its_place_and_is_no_reason() {
        let readiness = Readiness::default();
        readiness.note(Some(Note::StoreLost));
        readiness.clear(Reason::Starting);
        readiness.note(Some(Note::OtherSecret));
        assert!(readiness.is_ready());
        assert_eq!(readiness.notes().collect::<Vec<_>>(), [Note::OtherSecret]);
        readiness.note(None);
        assert_eq!(readiness.notes().next(), None);
    }
}
