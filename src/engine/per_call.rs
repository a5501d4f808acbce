use std::sync::Arc;

use arc_swap::ArcSwap;
use dashmap::DashMap;

use super::{Decision, Snapshot};
use crate::rules::{Applied, AppliedLimits, Descriptor, NotFound, StatedLimit};
use crate::units::{
    Algorithm, Answers, Cost, EncodedIdentity, Key, KeySecret, Limit, LimitId, Pace, Quota,
    Timestamp,
};

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
    pub(super) const THROTTLE: (&'static str, &'static str) = ("", "throttle");
    /// The same for limits that descriptors state.
    pub(super) const STATED: (&'static str, &'static str) = ("", "stated");

    /// The limits of the counter space that is called as they are.
    pub(super) fn new((rule, name): (&str, &str), secret: &KeySecret) -> PerCall {
        // Any quota will do: the first call brings another.
        let id = LimitId::of_space(name);
        let limit = Limit::new(id, rule, name, Quota::BAN, secret);
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

    /// The quota that a descriptor states. There always is one: the windows of gateways can
    /// all be computed with.
    pub(super) fn stated(stated: StatedLimit) -> Option<Quota> {
        let (requests, period) = (u64::from(stated.requests), stated.unit.period());
        Quota::new(Algorithm::FixedWindow, requests, period, None).ok()
    }

    /// Who is counted where a descriptor states its limit: the limit is part of it, so that
    /// one that changes counts afresh, as gateways that state several for the same entries
    /// expect.
    pub(super) fn key_of_stated(limit: &Limit, descriptor: &Descriptor<'_>) -> Key {
        let quota = &limit.quota;
        let mut identity = EncodedIdentity::of("domain", Some(descriptor.domain.as_bytes()));
        for (key, value) in descriptor.entries {
            identity.component(key, Some(value.as_bytes()));
        }
        identity.component("amount", Some(&quota.amount().to_le_bytes()));
        identity.component("period", Some(&quota.period().get().to_le_bytes()));
        limit.hasher.key(&identity)
    }
}

impl Snapshot<'_> {
    /// Decides by a quota of the asker's own.
    #[inline(never)]
    pub(super) fn throttle(
        &self,
        key: &[u8],
        quota: Quota,
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'_> {
        let limit = self.engine.per_call.limit(quota);
        let key = PerCall::key(&limit, key);
        self.per_call(PerCall::THROTTLE, &limit, key, cost, now)
    }

    /// Finds the limits that apply to `descriptor`, or decides by the one that it states. What
    /// it states is for domains that have rules; any other domain, if known ones are insisted
    /// on, is a mistake.
    #[inline(never)]
    pub(super) fn described_by<'r>(
        &'r self,
        descriptor: &Descriptor<'_>,
        cost: Cost,
        now: Timestamp,
        applied: &mut AppliedLimits<'r>,
    ) -> Option<Decision<'r>> {
        let rules = self.rules();
        if !rules.has_domain(descriptor.domain) {
            let unknown = || Decision::not_found(NotFound::Rule, now);
            return rules.strict_domains().then(unknown);
        }
        let Some((limit, key)) = self.stated(descriptor) else {
            rules.described_by(descriptor, applied);
            return None;
        };
        Some(self.per_call(PerCall::STATED, &limit, key, cost, now))
    }

    /// The limit that `descriptor` states, if it does and its domain has rules, and who is
    /// counted by it.
    pub(super) fn stated(&self, descriptor: &Descriptor<'_>) -> Option<(Arc<Limit>, Key)> {
        let quota = descriptor.stated.and_then(PerCall::stated)?;
        if !self.rules().has_domain(descriptor.domain) {
            return None;
        }
        let limit = self.engine.stated.limit(quota);
        let key = PerCall::key_of_stated(&limit, descriptor);
        Some((limit, key))
    }

    /// Decides by a `limit` that came with the call, which is told by these `names`.
    fn per_call(
        &self,
        names: (&'static str, &'static str),
        limit: &Arc<Limit>,
        key: Key,
        cost: Cost,
        now: Timestamp,
    ) -> Decision<'_> {
        let one = Applied {
            limit,
            key,
            weight: 1,
            measure: None,
        };
        let judged = self.engine.take(&one, cost, now);
        Decision {
            outcome: judged.outcome,
            limit: Some(judged.described(names, Answers::of_no_rule(), limit)),
            stale: judged.stale,
            now,
            besides: None,
        }
    }
}
