use std::collections::HashMap;

use super::millis;
use crate::sync::batch::{Agreement, Boot, Hello, HelloReply};
use crate::sync::wire::ALIVE;
use crate::units::Timestamp;

/// What the nodes of a fleet must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How many partitions there are.
    pub partitions: u16,
    /// Made from the secret of the keys.
    pub check_value: [u8; 4],
}

/// Who is alive, and what they agree on. Times are in milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    /// When each last said that it lives.
    nodes: HashMap<Boot, u64>,
    /// What they agree on, and when it is forgotten.
    agreed: Option<(Terms, u64)>,
}

/// What the fleet agrees on is kept so many lifetimes of a hello.
const AGREED_LIFETIMES: u64 = 12;

impl Members {
    pub(super) fn hello(
        &mut self,
        node: Boot,
        terms: Terms,
        hello: Hello,
        time: Timestamp,
    ) -> HelloReply {
        let (now, lifetime) = (millis(time), ALIVE.as_millis_ceil());
        if self.agreed.is_some_and(|(_, expires)| now > expires) {
            *self = Members::default();
        }
        let oldest = now.saturating_sub(lifetime);
        let nobody = !self.nodes.values().any(|last| *last >= oldest);
        let known = self.agreed.map(|(terms, _)| terms);
        let leaving = hello == Hello::Leaving;
        let agreed = known.filter(|_| leaving || !nobody).unwrap_or(terms);
        self.nodes.retain(|_, last| *last > oldest);
        if leaving {
            self.nodes.remove(&node);
        } else if agreed == terms {
            self.nodes.insert(node, now);
            self.agreed = Some((terms, now + lifetime * AGREED_LIFETIMES));
        }
        let agreement = if agreed.partitions != terms.partitions {
            Agreement::OtherPartitions(agreed.partitions.to_string())
        } else if agreed.check_value != terms.check_value {
            Agreement::OtherSecret
        } else {
            Agreement::Agreed
        };
        HelloReply {
            agreement,
            nodes: u32::try_from(self.nodes.len()).unwrap_or(u32::MAX),
            time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nanos;

    fn terms(partitions: u16) -> Terms {
        Terms {
            partitions,
            check_value: [1, 2, 3, 4],
        }
    }

    #[test]
    fn a_silent_node_is_dropped_and_what_it_agreed_on_is_open_again() {
        let mut members = Members::default();
        let at = |millis| Timestamp::EPOCH.after(Nanos::from_millis(millis));
        let mut hello = |node, partitions, millis| {
            let reply = members.hello(Boot::new(node), terms(partitions), Hello::Alive, at(millis));
            (reply.agreement == Agreement::Agreed, reply.nodes)
        };
        assert_eq!(hello(1, 16, 10_000), (true, 1));
        assert_eq!(hello(2, 16, 12_000), (true, 2));
        assert_eq!(hello(3, 32, 12_000), (false, 2));
        assert_eq!(hello(2, 16, 15_001), (true, 1), "the first is silent");
        assert_eq!(hello(3, 32, 20_001), (false, 0), "in its last moment");
        assert_eq!(hello(3, 32, 20_002), (true, 1), "nobody else is left");
        assert_eq!(hello(2, 16, 20_003), (false, 1));
    }
}
