use std::sync::Arc;

use arc_swap::ArcSwap;
use dashmap::DashMap;

use crate::units::{Key, KeySecret, Limit, LimitId, Pace, Quota};

/// Makes limits of the quotas that come with each call, so that their cells look
/// like all others. All of them are one counter space: the state belongs to the key.
#[derive(Debug)]
pub(super) struct PerCall {
    /// The limit of the last call; most callers use one quota.
    recent: ArcSwap<Limit>,
    known: DashMap<Quota, Arc<Limit>>,
}

/// So many quotas are remembered; callers may invent any number of them.
const MAX_KNOWN: usize = 1_024;

impl PerCall {
    /// Rule and limit, as they are told.
    pub(super) const NAMES: (&'static str, &'static str) = ("", "throttle");

    pub(super) fn new(secret: &KeySecret) -> PerCall {
        // Any quota will do: the first call brings another.
        let (rule, name) = PerCall::NAMES;
        let limit = Limit::new(
            LimitId::of_space("throttle"),
            rule,
            name,
            Quota::BAN,
            secret,
        );
        PerCall {
            recent: ArcSwap::from_pointee(limit),
            known: DashMap::new(),
        }
    }

    /// The same, with another pace.
    pub(super) fn paced(self, pace: Pace) -> PerCall {
        let limit = Limit {
            pace,
            ..Limit::clone(&self.recent.load())
        };
        PerCall {
            recent: ArcSwap::from_pointee(limit),
            known: DashMap::new(),
        }
    }

    /// The limit of `quota`.
    pub(super) fn limit(&self, quota: Quota) -> Arc<Limit> {
        let recent = self.recent.load();
        if recent.quota == quota {
            return Arc::clone(&recent);
        }
        let limit = match self.known.get(&quota) {
            Some(known) => Arc::clone(&known),
            None => {
                let limit = Arc::new(Limit {
                    quota,
                    ..Limit::clone(&recent)
                });
                if self.known.len() < MAX_KNOWN {
                    self.known.insert(quota, Arc::clone(&limit));
                }
                limit
            }
        };
        self.recent.store(Arc::clone(&limit));
        limit
    }

    /// Who is counted.
    pub(super) fn key(limit: &Limit, identity: &[u8]) -> Key {
        limit.hasher.key_of("key", identity)
    }
}
