//! What goes wrong, and when.

use crate::units::Nanos;

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// How long after the first check.
    pub after: Nanos,
    /// What.
    pub trouble: Trouble,
}

/// What can go wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// The store ends and comes back, in its own place or another's.
    StoreStops {
        /// How long it is away.
        away: Nanos,
        /// What it holds when it is back.
        memory: Memory,
    },
    /// The store does nothing for a while. What reaches it meanwhile it does then.
    StoreStalls(Nanos),
    /// The store forgets everything.
    StoreFlushed,
    /// A node ends without a word, with all that it knew, and starts anew.
    NodeCrashes {
        /// Which.
        node: usize,
        /// How long it is away.
        away: Nanos,
    },
    /// A node sends what it still has, ends, and starts anew.
    NodeLeaves {
        /// Which.
        node: usize,
        /// How long it is away, from when it began to leave.
        away: Nanos,
    },
    /// Some nodes and the store do not hear each other for a while.
    Partition {
        /// Which.
        nodes: Vec<usize>,
        /// How long.
        lasting: Nanos,
    },
}

impl Trouble {
    /// The nodes that it befalls in particular.
    pub(super) fn nodes(&self) -> impl Iterator<Item = usize> {
        let nodes: &[usize] = match self {
            Trouble::NodeCrashes { node, .. } | Trouble::NodeLeaves { node, .. } => {
                std::slice::from_ref(node)
            }
            Trouble::Partition { nodes, .. } => nodes,
            _ => &[],
        };
        nodes.iter().copied()
    }
}

/// What a store holds when it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// All that it held.
    Kept,
    /// Nothing.
    Lost,
    /// What it held so long before it stopped: a replica that lagged, or a dump.
    Older(Nanos),
}
