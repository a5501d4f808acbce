//! What is observed of gateways' calls besides their decisions.

use metrics::{Counter, counter};

use super::Observer;
use crate::names;

impl Observer {
    /// Counts a call about a domain that no rule is for.
    pub fn unknown_domain(&self) {
        counter!(names::UNKNOWN_DOMAINS).increment(1);
    }

    /// A call that must wait: it is counted as cancelled if it is dropped before it is
    /// [answered](UnderWay::answered).
    pub(in crate::server) fn under_way(&self) -> UnderWay {
        UnderWay(Some(counter!(names::CANCELLED_CALLS)))
    }
}

/// A call that waits for the store.
pub(in crate::server) struct UnderWay(Option<Counter>);

impl UnderWay {
    /// It did not wait in vain.
    pub(in crate::server) fn answered(mut self) {
        self.0 = None;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(cancelled) = &self.0 {
            cancelled.increment(1);
        }
    }
}
