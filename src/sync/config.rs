use std::fmt;

use crate::units::{KeySecret, Pace, Partitions};

/// How a node exchanges with the store.
#[derive(Clone)]
pub struct SyncConfig {
    /// The store's address; it may hold a password.
    pub url: String,
    /// This node's name, for people who look into the store.
    pub node: String,
    /// The fleet's name: the prefix of all its keys in the store.
    pub fleet: String,
    /// The parts that the fleet's cells are spread over.
    pub partitions: Partitions,
    /// The secret that the fleet's keys are made with.
    pub secret: KeySecret,
    /// How often the node exchanges; limits may have a pace of their own.
    pub pace: Pace,
}

/// Shows no address: it may hold a password.
impl fmt::Debug for SyncConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncConfig")
            .field("url", &"***")
            .field("node", &self.node)
            .field("fleet", &self.fleet)
            .field("partitions", &self.partitions)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}
