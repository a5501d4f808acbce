//! Whose address a request is counted by, where proxies stand before it.

mod node;

use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;

use super::networks::Networks;
use super::{Described, Pairs};

/// No chain of proxies is longer. Further entries were written by callers.
pub(super) const MOST_HOPS: usize = 32;
/// How many bits of an IPv6 address tell clients apart, unless stated: a household or
/// server has the rest to itself.
const IPV6_PREFIX: u8 = 64;
const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED: &str = "forwarded";
const REAL_IP: &str = "x-real-ip";

/// Whom to believe about addresses, and how to group them.
#[derive(Debug)]
pub(super) struct Clients {
    pub(super) trust: Trust,
    /// The one header that counts; `None` for whichever is there.
    pub(super) header: Option<Forwarding>,
    /// From 32 to 128.
    pub(super) ipv6_prefix: u8,
    noticed: Notes,
}

/// Whose forwarding headers count.
#[derive(Debug)]
pub(super) enum Trust {
    Nobody,
    /// Those of requests from these networks.
    Networks(Networks<()>),
    /// As many entries, from the right, as there are proxies before us.
    Hops(usize),
}

/// A header in which proxies say whom a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forwarding {
    XForwardedFor,
    Forwarded,
    XRealIp,
}

impl Forwarding {
    pub(super) const WORDS: [(&'static str, Forwarding); 3] = [
        (FORWARDED_FOR, Forwarding::XForwardedFor),
        (FORWARDED, Forwarding::Forwarded),
        (REAL_IP, Forwarding::XRealIp),
    ];
}

/// What was noticed about clients' addresses since the last time somebody asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noticed {
    /// Requests of believed proxies whose forwarding header says no address.
    pub unreadable: u64,
    /// Requests with forwarding headers from addresses that are not believed.
    pub ignored: u64,
    /// The first of these addresses.
    pub ignored_from: Option<IpAddr>,
}

#[derive(Debug, Default)]
struct Notes {
    unreadable: AtomicU64,
    ignored: AtomicU64,
    ignored_from: Mutex<Option<IpAddr>>,
}

impl Default for Clients {
    fn default() -> Clients {
        Clients::new(Trust::Nobody, None, IPV6_PREFIX)
    }
}

impl Clients {
    pub(super) fn new(trust: Trust, header: Option<Forwarding>, ipv6_prefix: u8) -> Clients {
        Clients {
            trust,
            header,
            ipv6_prefix,
            noticed: Notes::default(),
        }
    }

    pub(super) fn default_prefix() -> u8 {
        IPV6_PREFIX
    }

    /// The address of the client that `request` comes from: what believed proxies say, or
    /// else the nearest address that somebody trustworthy has seen. `None` if there is
    /// none at all.
    pub(super) fn address(&self, request: &Described<'_>) -> Option<IpAddr> {
        let peer = peer(request);
        let headers = request.headers;
        let walk = match (&self.trust, peer) {
            (Trust::Networks(trusted), Some(peer)) if trusted.contains(peer) => {
                Walk::Networks(trusted, peer)
            }
            (Trust::Hops(hops), _) => Walk::Hops(*hops, peer),
            _ => {
                if headers.iter().any(|(name, _)| is_forwarding(name)) {
                    self.noticed.ignore(peer);
                }
                return peer;
            }
        };
        let said = match self.header {
            Some(header) => walk.by(header, headers),
            None => walk.by_whichever(headers),
        };
        match said {
            Said::Nothing => peer,
            Said::Address(ip) => Some(ip),
            Said::Unreadable(nearest) => {
                self.noticed.unreadable.fetch_add(1, Relaxed);
                nearest
            }
        }
    }

    /// What was noticed since this was last called.
    pub(super) fn noticed(&self) -> Noticed {
        let notes = &self.noticed;
        let ignored = notes.ignored.swap(0, Relaxed);
        let from = || {
            notes
                .ignored_from
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
        };
        Noticed {
            unreadable: notes.unreadable.swap(0, Relaxed),
            ignored,
            ignored_from: if ignored > 0 { from() } else { None },
        }
    }
}

/// The address that the asker states, or failing that has itself.
pub(super) fn peer(request: &Described<'_>) -> Option<IpAddr> {
    request.ip.or(request.peer).map(|ip| ip.to_canonical())
}

fn is_forwarding(name: &str) -> bool {
    matches!(name, FORWARDED_FOR | FORWARDED | REAL_IP)
}

impl Notes {
    fn ignore(&self, from: Option<IpAddr>) {
        if self.ignored.fetch_add(1, Relaxed) == 0 {
            *self
                .ignored_from
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = from;
        }
    }
}

/// A walk along a chain of proxies, from the nearest one on.
#[derive(Clone, Copy)]
enum Walk<'c> {
    Networks(&'c Networks<()>, IpAddr),
    Hops(usize, Option<IpAddr>),
}

/// What forwarding headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// There are none.
    Nothing,
    Address(IpAddr),
    /// No address; the nearest that is known.
    Unreadable(Option<IpAddr>),
}

impl Walk<'_> {
    fn peer(self) -> Option<IpAddr> {
        match self {
            Walk::Networks(_, peer) => Some(peer),
            Walk::Hops(_, peer) => peer,
        }
    }

    /// A proxy writes one header and may pass on whatever a caller wrote into another:
    /// where two contradict each other, neither is believed.
    fn by_whichever(self, headers: Pairs<'_>) -> Said {
        let said = self.by(Forwarding::XForwardedFor, headers);
        let real = self.by(Forwarding::XRealIp, headers);
        let chain = match (said, self.by(Forwarding::Forwarded, headers)) {
            (Said::Nothing, Said::Nothing) => return real,
            (said, Said::Nothing) | (Said::Nothing, said) => said,
            (one, other) if one == other => one,
            _ => Said::Unreadable(self.peer()),
        };
        match (self, chain, real) {
            // A proxy between us may have written that of the proxy before it.
            (Walk::Networks(trusted, _), Said::Address(ip), Said::Address(real))
                if ip != real && !trusted.contains(real) =>
            {
                Said::Unreadable(self.peer())
            }
            _ => chain,
        }
    }

    fn by(self, header: Forwarding, headers: Pairs<'_>) -> Said {
        // Lines of one header are one list, in their order.
        let lines = |name: &'static str| {
            let lines = headers
                .iter()
                .rev()
                .filter(move |(found, _)| *found == name);
            lines.map(|(_, value)| *value)
        };
        match header {
            Forwarding::XForwardedFor => {
                let entries = lines(FORWARDED_FOR).flat_map(|line| line.rsplit(','));
                self.along(entries.map(node::address))
            }
            Forwarding::Forwarded => {
                // A comma in quotes is part of no address, so it need not be told apart.
                let entries = lines(FORWARDED).flat_map(|line| line.rsplit(','));
                self.along(entries.map(node::forwarded))
            }
            Forwarding::XRealIp => {
                let mut values = lines(REAL_IP).map(node::address);
                match (values.next(), values.next()) {
                    (None, _) => Said::Nothing,
                    (Some(Some(ip)), None) => Said::Address(ip),
                    _ => Said::Unreadable(self.peer()),
                }
            }
        }
    }

    /// Walks along `entries`, which come from the right: the nearest proxy's first.
    fn along(self, entries: impl Iterator<Item = Option<IpAddr>>) -> Said {
        let mut entries = entries.peekable();
        if entries.peek().is_none() {
            return Said::Nothing;
        }
        match self {
            Walk::Hops(hops, peer) => match entries.nth(hops.saturating_sub(1)) {
                Some(Some(ip)) => Said::Address(ip),
                _ => Said::Unreadable(peer),
            },
            Walk::Networks(trusted, peer) => {
                let mut nearest = peer;
                for (passed, entry) in entries.enumerate() {
                    if !trusted.contains(nearest) {
                        break;
                    }
                    match entry {
                        Some(_) if passed == MOST_HOPS => return Said::Unreadable(Some(peer)),
                        Some(ip) => nearest = ip,
                        None => return Said::Unreadable(Some(nearest)),
                    }
                }
                Said::Address(nearest)
            }
        }
    }
}

/// An address as a key's text: `203.0.113.9`, or an IPv6 network `2001:db8:1:2::/64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AddressText(SmallVec<[u8; 48]>);

impl AddressText {
    /// `ip`, or the network of so many bits that it is in.
    pub(super) fn new(ip: IpAddr, ipv6_prefix: u8) -> AddressText {
        let mut text = AddressText(SmallVec::new());
        // Writing to memory does not fail.
        let _ = match ip.to_canonical() {
            IpAddr::V4(ip) => write!(text, "{ip}"),
            IpAddr::V6(ip) => {
                let others = 128_u32.saturating_sub(u32::from(ipv6_prefix));
                let network = ip.to_bits() & u128::MAX.checked_shl(others).unwrap_or(0);
                write!(text, "{}/{ipv6_prefix}", Ipv6Addr::from_bits(network))
            }
        };
        text
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Write for AddressText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
