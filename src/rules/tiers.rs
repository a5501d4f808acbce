//! Where a caller's tier comes from.

use super::caller::Caller;
use super::clients::peer;
use super::identity::single;
use super::networks::Networks;
use super::tokens::ClaimId;

/// The tier of callers whose own is unknown, unless stated.
pub(super) const DEFAULT_TIER: &str = "default";

/// The sources of tiers: the first that has one decides.
#[derive(Debug)]
pub(super) struct Tiers {
    pub(super) sources: Vec<TierSource>,
    /// The tier of callers for whom no source has one.
    pub(super) default: Option<Box<str>>,
}

#[derive(Debug)]
pub(super) enum TierSource {
    /// The tier of the API key.
    ApiKey,
    /// A claim of a verified token.
    Claim(ClaimId),
    /// What the asker says.
    Attribute(Box<str>),
    /// A header, of requests from these networks alone: anybody could write it.
    Header(Box<str>, Networks<()>),
    /// The network that the client's address is in.
    Addresses(Networks<Box<str>>),
}

impl Default for Tiers {
    fn default() -> Tiers {
        Tiers {
            sources: vec![TierSource::Attribute("tier".into())],
            default: None,
        }
    }
}

impl Tiers {
    pub(super) fn of<'c>(&'c self, caller: &'c Caller<'_>) -> Option<&'c str> {
        self.sources.iter().find_map(|source| source.of(caller))
    }
}

impl TierSource {
    fn of<'c>(&'c self, caller: &'c Caller<'_>) -> Option<&'c str> {
        let request = caller.request;
        match self {
            TierSource::ApiKey => caller.key()?.holder?.tier.as_deref(),
            TierSource::Claim(claim) => caller.claim(*claim),
            TierSource::Attribute(name) => single(request.attributes, name),
            TierSource::Header(name, from) => {
                let peer = peer(request).filter(|peer| from.contains(*peer));
                peer.and_then(|_| single(request.headers, name))
            }
            TierSource::Addresses(tiers) => tiers.get(caller.ip()?).map(|tier| &**tier),
        }
    }
}
