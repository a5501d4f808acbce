//! What the operator asks of the daemon through the admin door.

use serde_json::Value;
use tokio::sync::oneshot;

/// The wish to have the rules read anew.
#[derive(Debug)]
pub struct AskedReload {
    /// Who wishes it, for the log.
    pub by: String,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Reloaded>,
}

/// What came of it. The body tells it to programs and people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// The rules that were read are in force.
    Applied(Value),
    /// Those of before stay in force.
    Refused(Value),
}
