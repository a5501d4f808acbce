use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::units::Nanos;

/// How long an exchange is taken to take before the first.
const TRIP_UNKNOWN: Nanos = Nanos::from_millis(1);

/// What this node knows of the store and of the nodes that share it: written by the
/// sync, read by every decision.
#[derive(Debug)]
pub struct Fleet {
    health: AtomicU8,
    nodes: AtomicU32,
    /// How long an exchange takes, in nanoseconds.
    trip: AtomicU64,
    /// The store answers again, and others may not have told it what they know.
    scattered: AtomicBool,
    /// This node is about to end.
    leaving: AtomicBool,
    /// Cost that was never sent, because nobody reads its window any more.
    expired: AtomicU64,
}

/// Whether the store can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreHealth {
    /// There is none: this node counts alone.
    Absent,
    /// It answers, or it has not yet been tried.
    Up,
    /// It does not answer.
    Lost,
}

impl Fleet {
    /// A node that counts alone.
    pub const fn alone() -> Fleet {
        Fleet {
            health: AtomicU8::new(0),
            nodes: AtomicU32::new(1),
            trip: AtomicU64::new(TRIP_UNKNOWN.get()),
            scattered: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            expired: AtomicU64::new(0),
        }
    }

    /// A node with a store, which is taken to be up until it is found lost.
    pub const fn with_store() -> Fleet {
        Fleet {
            health: AtomicU8::new(1),
            nodes: AtomicU32::new(1),
            trip: AtomicU64::new(TRIP_UNKNOWN.get()),
            scattered: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            expired: AtomicU64::new(0),
        }
    }

    /// Whether the store can be reached.
    pub fn health(&self) -> StoreHealth {
        match self.health.load(Ordering::Relaxed) {
            0 => StoreHealth::Absent,
            1 => StoreHealth::Up,
            _ => StoreHealth::Lost,
        }
    }

    /// Whether there is a store at all.
    pub fn has_store(&self) -> bool {
        self.health.load(Ordering::Relaxed) != 0
    }

    /// The store was found up or lost. A node without a store stays alone.
    pub fn set_health(&self, health: StoreHealth) {
        if self.has_store() && health != StoreHealth::Absent {
            let value = if health == StoreHealth::Up { 1 } else { 2 };
            self.health.store(value, Ordering::Relaxed);
        }
    }

    /// Whether the store was lost, and others may not have told it yet what they have
    /// admitted meanwhile: what it tells may be too little.
    pub fn is_scattered(&self) -> bool {
        self.scattered.load(Ordering::Relaxed)
    }

    /// See [`Fleet::is_scattered`].
    pub fn set_scattered(&self, scattered: bool) {
        self.scattered.store(scattered, Ordering::Relaxed);
    }

    pub(super) fn add_expired(&self, cost: u64) {
        if cost > 0 {
            self.expired.fetch_add(cost, Ordering::Relaxed);
        }
    }

    pub(super) fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// This node is about to end: it gives back its leases and asks for none.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// How many nodes are alive, this one among them.
    pub fn nodes(&self) -> u32 {
        self.nodes.load(Ordering::Relaxed).max(1)
    }

    /// How long an exchange with the store takes, of late.
    pub fn trip(&self) -> Nanos {
        Nanos::new(self.trip.load(Ordering::Relaxed))
    }

    /// An exchange took so long: the memory is about eight exchanges long.
    pub fn observe_trip(&self, trip: Nanos) {
        let known = self.trip();
        let eighth = |span: Nanos| span.divided_by(8);
        let mean = known.minus(eighth(known)).plus(eighth(trip));
        self.trip.store(mean.get(), Ordering::Relaxed);
    }

    /// The store counted `nodes` live nodes.
    pub fn set_nodes(&self, nodes: u32) {
        self.nodes.store(nodes.max(1), Ordering::Relaxed);
    }
}
