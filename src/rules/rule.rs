use std::ops::Range;

use super::Described;
use super::descriptor::ByDescriptor;
use super::group::Standing;
use super::identity::Identity;
use super::path::Path;
use super::preflight::Preflight;
use super::target::{Remainder, Target, Targets};
use super::weight::Weight;
use crate::units::{Key, KeyHasher};

/// A compiled rule. Its limits are ranges of the limits of all rules.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) name: Box<str>,
    /// To explain why a request is not matched; nothing is matched with it.
    pub(super) target: Box<Target>,
    pub(super) identity: Identity,
    pub(super) tiers: Tiers,
    /// How many times a request's cost counts.
    pub(super) weight: Weight,
    pub(super) preflight: Preflight,
    /// `None` where there is nothing of it, as with most rules.
    pub(super) special: Option<Box<Special>>,
    /// A rule that is not enabled is known by its name, and limits nobody.
    pub(super) is_enabled: bool,
    /// `None` for a rule that is for described requests.
    pub(super) by_descriptor: Option<Box<ByDescriptor>>,
}

/// What few rules have.
#[derive(Debug, Default)]
pub(super) struct Special {
    pub(super) remainder: Option<Remainder>,
    pub(super) percent: Option<Percent>,
    pub(super) standing: Option<Standing>,
    pub(super) overrides: Option<Overrides>,
}

/// The limits of each tier; none where nothing is limited.
#[derive(Debug, Default)]
pub(super) struct Tiers {
    /// Sorted by name.
    by_name: Vec<(Box<str>, Range<usize>)>,
    /// Which of them is for callers whose tier is unknown.
    fallback: usize,
}

/// Limits that replace those of their rule for some requests.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    targets: Targets,
    all: Vec<(Option<Remainder>, Tiers)>,
}

/// Which part of the callers a rule is for.
#[derive(Debug)]
pub(super) struct Percent {
    /// Below 100.
    pub(super) percent: usize,
    /// Of the rule, so that rules choose their callers independently.
    pub(super) hasher: KeyHasher,
}

impl Special {
    /// `None` if there is nothing of it.
    pub(super) fn or_none(self) -> Option<Box<Special>> {
        let plain = self.remainder.is_none()
            && self.percent.is_none()
            && self.standing.is_none()
            && self.overrides.is_none();
        (!plain).then(|| Box::new(self))
    }
}

impl Tiers {
    /// The tiers `named`, in the order of the file. Unknown callers get `default`, or
    /// failing that the first.
    pub(super) fn new(mut named: Vec<(Box<str>, Range<usize>)>, default: &str) -> Tiers {
        let known = named.iter().any(|(name, _)| **name == *default);
        let fallback = if known {
            Some(default.into())
        } else {
            named.first().map(|one| one.0.clone())
        };
        named.sort_by(|a, b| a.0.cmp(&b.0));
        let at = |name: Box<str>| named.iter().position(|one| one.0 == name);
        Tiers {
            fallback: fallback.and_then(at).unwrap_or(0),
            by_name: named,
        }
    }

    fn named(&self, name: &str) -> Option<&(Box<str>, Range<usize>)> {
        let at = self.by_name.binary_search_by(|one| (*one.0).cmp(name));
        self.by_name.get(at.ok()?)
    }

    /// The tier that a caller has who says `tier`.
    fn of(&self, tier: Option<&str>) -> Option<&(Box<str>, Range<usize>)> {
        let stated = tier.and_then(|tier| self.named(tier));
        stated.or_else(|| self.by_name.get(self.fallback))
    }
}

impl Overrides {
    /// Adds one after the others.
    pub(super) fn add(&mut self, target: Target, tiers: Tiers) {
        self.targets.add(self.all.len(), &target);
        self.all.push((target.remainder(), tiers));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The tiers of the first that matches.
    fn first(&self, request: &Described<'_>, path: &Path<'_>) -> Option<&Tiers> {
        let found = self.targets.find(request, path);
        found.into_iter().find_map(|number| {
            let (remainder, tiers) = self.all.get(number)?;
            let holds = remainder
                .as_ref()
                .is_none_or(|rest| rest.holds(request, path));
            holds.then_some(tiers)
        })
    }
}

impl Percent {
    /// Whether the caller `key` is in the part: always, or never, for the same caller and
    /// percentage, and always if it was in a smaller part.
    fn has(&self, key: Key) -> bool {
        key.spread(100) < self.percent
    }
}

impl Rule {
    /// Whether the rule is for the caller whom `key_of` answers the key of; of whom there is
    /// none, the rule itself must say what becomes.
    #[inline]
    pub(super) fn is_for(&self, key_of: impl FnOnce(&KeyHasher) -> Option<Key>) -> bool {
        let percent = self.special.as_ref().and_then(|it| it.percent.as_ref());
        self.is_enabled
            && percent
                .is_none_or(|percent| key_of(&percent.hasher).is_none_or(|key| percent.has(key)))
    }

    /// Whether all of the rule's target matches `request`, given that its pattern does.
    pub(super) fn holds(&self, request: &Described<'_>, path: &Path<'_>) -> bool {
        let rest = self.special.as_ref().and_then(|it| it.remainder.as_ref());
        rest.is_none_or(|rest| rest.holds(request, path))
    }

    /// Whether it depends on the caller's tier which limits apply.
    #[inline]
    pub(super) fn has_tiers(&self) -> bool {
        let overrides = self.special.as_ref().and_then(|it| it.overrides.as_ref());
        self.tiers.by_name.len() > 1 || overrides.is_some()
    }

    /// The rule's place in its group, if it is in one.
    pub(super) fn standing(&self) -> Option<Standing> {
        self.special.as_ref()?.standing
    }

    /// The limits of all its tiers, without those of its overrides.
    pub(super) fn own_limits(&self) -> Range<usize> {
        let ranges = self.tiers.by_name.iter().map(|(_, limits)| limits);
        let start = ranges.clone().map(|limits| limits.start).min();
        let end = ranges.map(|limits| limits.end).max();
        start.unwrap_or(0)..end.unwrap_or(0)
    }

    /// The limits for a caller in `tier`, whose `request` is known unless the rule was
    /// asked for by its name.
    #[inline]
    pub(super) fn limits(
        &self,
        tier: Option<&str>,
        request: Option<(&Described<'_>, &Path<'_>)>,
    ) -> Range<usize> {
        let chosen = self.chosen(tier, request);
        chosen.map_or(0..0, |(_, limits)| limits.clone())
    }

    /// The same, with the name of the tier whose they are; `None` where nothing is limited.
    #[inline]
    pub(super) fn chosen(
        &self,
        tier: Option<&str>,
        request: Option<(&Described<'_>, &Path<'_>)>,
    ) -> Option<&(Box<str>, Range<usize>)> {
        let own = self.tiers.of(tier);
        let overrides = self.special.as_ref().and_then(|it| it.overrides.as_ref());
        if let (Some(overrides), Some((request, path))) = (overrides, request)
            && let Some(tiers) = overrides.first(request, path)
        {
            // An override for some tiers alone leaves the others as they are.
            let named = |name: &str| tiers.named(name);
            let over = tier.and_then(named);
            let over = over.or_else(|| own.and_then(|own| named(&own.0)));
            let over = over.or_else(|| named(super::tiers::DEFAULT_TIER));
            if over.is_some() || tiers.by_name.is_empty() {
                return over;
            }
        }
        own
    }
}
