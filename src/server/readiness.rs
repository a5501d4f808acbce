use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Whether this node wants traffic, shared by all that know something about it.
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
}
