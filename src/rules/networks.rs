use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

/// Networks, each with a value; an address has that of the smallest network it is in.
///
/// A look-up costs one step for each prefix length that occurs, however many networks
/// there are.
#[derive(Clone, Debug)]
pub(super) struct Networks<T> {
    by_network: HashMap<IpNet, T, foldhash::fast::RandomState>,
    /// The prefix lengths that occur, longest first.
    lengths: Vec<u8>,
}

impl<T> Default for Networks<T> {
    fn default() -> Networks<T> {
        Networks {
            by_network: HashMap::default(),
            lengths: Vec::new(),
        }
    }
}

impl<T> Networks<T> {
    /// Adds `network`; answers the value that it had before.
    pub(super) fn insert(&mut self, network: IpNet, value: T) -> Option<T> {
        let length = network.prefix_len();
        if !self.lengths.contains(&length) {
            self.lengths.push(length);
            self.lengths.sort_unstable_by(|a, b| b.cmp(a));
        }
        self.by_network.insert(network.trunc(), value)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The value of the smallest network that `ip` is in. A mapped IPv4 address is in
    /// the networks of the address that it maps.
    pub(super) fn get(&self, ip: IpAddr) -> Option<&T> {
        let ip = ip.to_canonical();
        let network = |length: &u8| Some(IpNet::new(ip, *length).ok()?.trunc());
        let mut networks = self.lengths.iter().filter_map(network);
        networks.find_map(|network| self.by_network.get(&network))
    }

    pub(super) fn contains(&self, ip: IpAddr) -> bool {
        self.get(ip).is_some()
    }
}

/// Reads `10.0.0.0/8`, `2001:db8::/32` or a single address.
pub(super) fn parse(text: &str) -> Option<IpNet> {
    let whole = |text: &str| {
        text.parse::<IpAddr>()
            .ok()
            .map(|ip| ip.to_canonical().into())
    };
    text.parse().ok().or_else(|| whole(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_network_of_an_address_decides() {
        let mut networks = Networks::default();
        for (text, value) in [
            ("10.0.0.0/8", 1),
            ("10.1.0.0/16", 2),
            ("10.1.2.3", 3),
            ("2001:db8::/32", 4),
        ] {
            assert_eq!(networks.insert(parse(text).unwrap(), value), None);
        }
        let of = |ip: &str| networks.get(ip.parse().unwrap()).copied();
        assert_eq!(of("10.9.9.9"), Some(1));
        assert_eq!(of("10.1.9.9"), Some(2));
        assert_eq!(of("10.1.2.3"), Some(3));
        assert_eq!(of("::ffff:10.1.2.3"), Some(3));
        assert_eq!(of("2001:db8:9::1"), Some(4));
        assert_eq!(of("11.0.0.1"), None);
        assert_eq!(of("2001:db9::1"), None);
    }

    #[test]
    fn a_network_with_bits_beyond_its_prefix_is_the_network() {
        let mut networks = Networks::default();
        networks.insert(parse("10.0.0.5/8").unwrap(), ());
        assert!(networks.contains("10.7.7.7".parse().unwrap()));
        assert_eq!(parse("10.0.0.0/33"), None);
        assert_eq!(parse("example.org"), None);
    }
}
