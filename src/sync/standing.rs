/// How this node stands with the store and the fleet that counts in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The store does not answer, or has not yet.
    Lost,
    /// The store answers.
    Up,
    /// The store answers, but this node does not sync: its fleet has another number of
    /// partitions.
    OtherPartitions,
    /// The same: its fleet has another key secret.
    OtherSecret,
}
