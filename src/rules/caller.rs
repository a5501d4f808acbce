//! Who a request comes from, found out once and only as far as rules ask.

use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::Arc;

use super::Described;
use super::api_keys::{self, ApiKeys, Known};
use super::clients::{AddressText, Clients};
use super::identity::single;
use super::tiers::Tiers;
use super::tokens::{ClaimId, Claims, Tokens};
use crate::units::Timestamp;

/// What is known about callers, for all rules of a set.
#[derive(Debug, Default)]
pub(super) struct Callers {
    pub(super) clients: Clients,
    pub(super) keys: ApiKeys,
    pub(super) tokens: Tokens,
    pub(super) tiers: Tiers,
}

/// The caller of one request.
pub(super) struct Caller<'a> {
    callers: &'a Callers,
    pub(super) request: &'a Described<'a>,
    /// The request's path, normal.
    path: &'a str,
    now: Timestamp,
    ip: OnceCell<Option<IpAddr>>,
    address: OnceCell<Option<AddressText>>,
    key: OnceCell<Option<Known<'a>>>,
    claims: OnceCell<Option<Arc<Claims>>>,
}

impl<'a> Caller<'a> {
    pub(super) fn new(
        callers: &'a Callers,
        request: &'a Described<'a>,
        path: &'a str,
        now: Timestamp,
    ) -> Caller<'a> {
        Caller {
            callers,
            request,
            path,
            now,
            ip: OnceCell::new(),
            address: OnceCell::new(),
            key: OnceCell::new(),
            claims: OnceCell::new(),
        }
    }

    /// The client's address.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        *self
            .ip
            .get_or_init(|| self.callers.clients.address(self.request))
    }

    /// The client's address as it is counted.
    pub(super) fn address(&self) -> Option<&[u8]> {
        let prefix = self.callers.clients.ipv6_prefix;
        let text = || Some(AddressText::new(self.ip()?, prefix));
        self.address
            .get_or_init(text)
            .as_ref()
            .map(AddressText::as_bytes)
    }

    /// The API key that the request presents, if it is known.
    pub(super) fn key(&self) -> Option<Known<'a>> {
        let keys = &self.callers.keys;
        *self
            .key
            .get_or_init(|| keys.presented(self.request.headers))
    }

    /// What the token that the request bears claims, if it is believed.
    pub(super) fn claims(&self) -> Option<&Claims> {
        let verified = || {
            let tokens = &self.callers.tokens;
            if tokens.is_empty() {
                return None;
            }
            let token = api_keys::bearer(self.request.headers)?;
            tokens.verified(token, self.now)
        };
        self.claims.get_or_init(verified).as_deref()
    }

    pub(super) fn claim(&self, claim: ClaimId) -> Option<&str> {
        self.claims()?.get(claim)
    }

    /// The tenant: that of the API key, or failing that the one that the asker states.
    pub(super) fn tenant(&self) -> Option<&str> {
        let of_key = self.key().and_then(|known| known.holder?.tenant.as_deref());
        of_key.or_else(|| single(self.request.attributes, "tenant"))
    }

    /// A segment of the path, by its number.
    pub(super) fn segment(&self, number: usize) -> Option<&str> {
        let mut segments = self.path.split('/').filter(|segment| !segment.is_empty());
        segments.nth(number)
    }

    /// The caller's tier.
    pub(super) fn tier(&self) -> Option<&str> {
        self.callers.tiers.of(self)
    }
}

/// What is known of a caller, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerKnown {
    /// The client's address as it is counted: `203.0.113.9`, or a network of IPv6.
    pub address: Option<String>,
    /// The name of the API key's holder; nothing of the key.
    pub api_key: Option<String>,
    /// The tenant.
    pub tenant: Option<String>,
    /// Issuer and subject of the token.
    pub subject: Option<String>,
    /// The tier.
    pub tier: Option<String>,
}

impl CallerKnown {
    pub(super) fn of(caller: &Caller<'_>) -> CallerKnown {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let holder = caller.key().and_then(|known| known.holder);
        CallerKnown {
            address: caller.address().map(text),
            api_key: holder.and_then(|holder| holder.name.as_deref().map(str::to_owned)),
            tenant: caller.tenant().map(str::to_owned),
            subject: caller
                .claims()
                .and_then(|claims| claims.subject.as_deref().map(str::to_owned)),
            tier: caller.tier().map(str::to_owned),
        }
    }
}
