//! Addresses as proxies write them.

use std::net::IpAddr;

/// No address with zone and port is longer.
const LONGEST: usize = 128;

/// The address in one entry of `X-Forwarded-For`: without port and zone, a mapped
/// IPv4 address unmapped. `None` if it is anything else.
///
/// Brackets, or exactly one colon, are the only safe signs of a port: the last group of
/// a bare IPv6 address looks like one.
pub(super) fn address(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim();
    if entry.len() > LONGEST {
        return None;
    }
    let host = if let Some(inner) = entry.strip_prefix('[') {
        let (host, after) = inner.split_once(']')?;
        if !after.is_empty() && !is_port(after.strip_prefix(':')?) {
            return None;
        }
        host
    } else {
        match entry.split_once(':') {
            Some((host, port)) if !port.contains(':') => is_port(port).then_some(host)?,
            _ => entry,
        }
    };
    let ip = match host.split_once('%') {
        None => host.parse().ok()?,
        Some((host, zone)) if !zone.is_empty() => IpAddr::V6(host.parse().ok()?),
        Some(_) => return None,
    };
    Some(ip.to_canonical())
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok() && text.bytes().all(|b| b.is_ascii_digit())
}

/// The address in one element of `Forwarded` (RFC 7239): that of its parameter `for`.
pub(super) fn forwarded(element: &str) -> Option<IpAddr> {
    let mut parameters = element.split(';').take(16);
    let value = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("for")
            .then(|| value.trim())
    })?;
    let quoted = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    address(quoted.unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entry: &str) -> Option<String> {
        address(entry).map(|ip| ip.to_string())
    }

    #[test]
    fn a_port_is_taken_off_and_no_group_of_an_ipv6_address() {
        for (entry, ip) in [
            ("1.2.3.4:5678", "1.2.3.4"),
            ("[2001:db8::1]:5678", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("2001:db8::1:5678", "2001:db8::1:5678"),
            (" 1.2.3.4\t", "1.2.3.4"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("[::ffff:1.2.3.4]:80", "1.2.3.4"),
        ] {
            assert_eq!(read(entry).as_deref(), Some(ip), "{entry}");
        }
    }

    #[test]
    fn a_zone_is_taken_off() {
        assert_eq!(read("fe80::1%eth0").as_deref(), Some("fe80::1"));
        assert_eq!(read("[fe80::1%25eth0]:80").as_deref(), Some("fe80::1"));
    }

    #[test]
    fn what_is_no_address_is_none() {
        let long = "A".repeat(4_096);
        for entry in [
            "not-an-ip",
            "",
            " ",
            "1.2.3.4.5",
            &long,
            "unknown",
            "_hidden",
            "1.2.3.4:",
            "1.2.3.4:x",
            "1.2.3.4:+80",
            "1.2.3.4:99999",
            "[2001:db8::1",
            "[2001:db8::1]80",
            "[]",
            "1.2.3.4%eth0",
            "fe80::1%",
            "01.2.3.4",
            "::1::",
            ":80",
        ] {
            assert_eq!(read(entry), None, "{entry}");
        }
    }

    #[test]
    fn forwarded_says_the_address_in_for() {
        let read = |element| forwarded(element).map(|ip| ip.to_string());
        assert_eq!(
            read("for=192.0.2.60;proto=http;by=203.0.113.43").as_deref(),
            Some("192.0.2.60")
        );
        assert_eq!(
            read(" By=x; For=\"[2001:db8::1]:4711\"").as_deref(),
            Some("2001:db8::1")
        );
        for element in [
            "",
            "proto=http",
            "for=unknown",
            "for=_hidden",
            "for=\"1.2.3.4",
            "for",
        ] {
            assert_eq!(read(element), None, "{element}");
        }
    }
}
