use proptest::prelude::*;

use super::*;
use crate::rules::networks;

fn networks_of(texts: &[&str]) -> Trust {
    let mut all = Networks::default();
    for text in texts {
        all.insert(networks::parse(text).unwrap(), ());
    }
    Trust::Networks(all)
}

fn clients(trust: Trust) -> Clients {
    Clients::new(trust, None, 64)
}

/// The client of a request from `peer` with `headers`.
fn client(clients: &Clients, peer: &str, headers: Pairs<'_>) -> String {
    let request = Described {
        ip: Some(peer.parse().unwrap()),
        headers,
        ..Described::default()
    };
    clients.address(&request).unwrap().to_string()
}

fn text(ip: &str, prefix: u8) -> String {
    let text = AddressText::new(ip.parse().unwrap(), prefix);
    String::from_utf8(text.as_bytes().to_vec()).unwrap()
}

#[test]
fn addresses_are_grouped_as_their_owners_hold_them() {
    assert_eq!(text("203.0.113.9", 64), "203.0.113.9");
    assert_eq!(text("::ffff:203.0.113.9", 64), "203.0.113.9");
    for n in 1..=6 {
        assert_eq!(text(&format!("2001:db8:1:2::{n}"), 64), "2001:db8:1:2::/64");
    }
    assert_eq!(text("2001:db8:1:3::1", 64), "2001:db8:1:3::/64");
    assert_eq!(text("::1", 64), "::/64");
    assert_eq!(text("2001:db8:1:2::1", 56), "2001:db8:1::/56");
    assert_eq!(text("2001:db8:1:3::1", 56), "2001:db8:1::/56");
    assert_eq!(text("2001:db8:1:2::1", 32), "2001:db8::/32");
    assert_eq!(text("2001:db8:1:2::1", 128), "2001:db8:1:2::1/128");
}

#[test]
fn headers_of_believed_proxies_are_walked_from_the_right() {
    let clients = clients(networks_of(&["10.0.0.0/8", "2001:db8:ffff::/48"]));
    for (headers, ip) in [
        (&[("x-forwarded-for", "203.0.113.9")][..], "203.0.113.9"),
        // What a caller wrote himself stands on the left of what a proxy saw.
        (
            &[("x-forwarded-for", "198.51.100.1, 203.0.113.9")],
            "203.0.113.9",
        ),
        (
            &[("x-forwarded-for", "198.51.100.1, 203.0.113.9, 10.0.0.9")],
            "203.0.113.9",
        ),
        (
            &[("x-forwarded-for", "203.0.113.9, 2001:db8:ffff::1")],
            "203.0.113.9",
        ),
        (
            &[
                ("x-forwarded-for", "198.51.100.1"),
                ("x-forwarded-for", "203.0.113.9"),
            ],
            "203.0.113.9",
        ),
        (&[("x-forwarded-for", "10.0.0.7, 10.0.0.8")], "10.0.0.7"),
        (&[("x-forwarded-for", "::ffff:203.0.113.9")], "203.0.113.9"),
        (
            &[("forwarded", "for=198.51.100.1, for=203.0.113.9;proto=https")],
            "203.0.113.9",
        ),
        (&[("x-real-ip", "203.0.113.9")], "203.0.113.9"),
        (
            &[
                ("x-real-ip", "10.0.0.9"),
                ("x-forwarded-for", "203.0.113.9, 10.0.0.9"),
            ],
            "203.0.113.9",
        ),
        (&[], "10.0.0.5"),
    ] {
        assert_eq!(client(&clients, "10.0.0.5", headers), ip, "{headers:?}");
        assert_eq!(
            client(&clients, "::ffff:10.0.0.5", headers),
            ip,
            "{headers:?}"
        );
    }
    assert_eq!(clients.noticed(), Noticed::default());
}

#[test]
fn what_is_no_address_leaves_the_nearest_that_is_trustworthy_and_is_counted() {
    let clients = clients(networks_of(&["10.0.0.0/8"]));
    let long = "A".repeat(4_096);
    let values = [
        "not-an-ip",
        "",
        "1.2.3.4.5",
        &long,
        "203.0.113.9,",
        "203.0.113.9, unknown",
    ];
    for value in values {
        assert_eq!(
            client(&clients, "10.0.0.5", &[("x-forwarded-for", value)]),
            "10.0.0.5",
            "{value}"
        );
    }
    assert_eq!(clients.noticed().unreadable, 6);
    assert_eq!(
        client(
            &clients,
            "10.0.0.5",
            &[("x-forwarded-for", "junk, 10.0.0.7")]
        ),
        "10.0.0.7"
    );
    assert_eq!(
        client(&clients, "10.0.0.5", &[("x-forwarded-for", "fe80::1%eth0")]),
        "fe80::1"
    );
    let two = [("x-real-ip", "203.0.113.9"), ("x-real-ip", "203.0.113.8")];
    assert_eq!(client(&clients, "10.0.0.5", &two), "10.0.0.5");
    assert_eq!(clients.noticed().unreadable, 2);
}

#[test]
fn two_headers_that_contradict_each_other_are_not_believed() {
    let clients = clients(networks_of(&["10.0.0.0/8"]));
    let both = |other| [("x-forwarded-for", "203.0.113.9"), ("forwarded", other)];
    assert_eq!(
        client(&clients, "10.0.0.5", &both("for=203.0.113.9")),
        "203.0.113.9"
    );
    assert_eq!(
        client(&clients, "10.0.0.5", &both("for=198.51.100.1")),
        "10.0.0.5"
    );
    assert_eq!(clients.noticed().unreadable, 1);
    let pinned = Clients::new(
        networks_of(&["10.0.0.0/8"]),
        Some(Forwarding::Forwarded),
        64,
    );
    assert_eq!(
        client(&pinned, "10.0.0.5", &both("for=198.51.100.1")),
        "198.51.100.1"
    );
    assert_eq!(
        client(&pinned, "10.0.0.5", &[("x-forwarded-for", "203.0.113.9")]),
        "10.0.0.5"
    );
}

#[test]
fn a_chain_that_a_caller_wrote_is_not_believed_against_the_proxys_own_word() {
    let clients = clients(networks_of(&["10.0.0.0/8"]));
    for chain in ["198.51.100.1", "198.51.100.1, 10.0.0.9"] {
        for name in ["x-forwarded-for", "forwarded"] {
            let chain = if name == "forwarded" {
                format!("for={}", chain.replace(", ", ", for="))
            } else {
                chain.to_owned()
            };
            let headers = [("x-real-ip", "203.0.113.9"), (name, &*chain)];
            assert_eq!(
                client(&clients, "10.0.0.5", &headers),
                "10.0.0.5",
                "{chain}"
            );
        }
    }
    assert_eq!(clients.noticed().unreadable, 4);
}

#[test]
fn hops_count_the_direct_peer_and_never_reach_what_callers_wrote() {
    let clients = clients(Trust::Hops(2));
    let with = |value| client(&clients, "10.0.0.5", &[("x-forwarded-for", value)]);
    assert_eq!(client(&clients, "10.0.0.5", &[]), "10.0.0.5");
    assert_eq!(with("203.0.113.1"), "10.0.0.5");
    assert_eq!(
        with("1.1.1.1, 2.2.2.2, 3.3.3.3, 4.4.4.4, 5.5.5.5"),
        "4.4.4.4"
    );
    let many = vec!["9.9.9.9"; 9_998].join(",") + ",8.8.8.8,7.7.7.7";
    assert_eq!(with(&many), "8.8.8.8");
    let one = super::tests::clients(Trust::Hops(1));
    assert_eq!(
        client(&one, "10.0.0.5", &[("x-forwarded-for", "1.1.1.1, 2.2.2.2")]),
        "2.2.2.2"
    );
}

#[test]
fn a_chain_that_is_too_long_is_not_followed_to_its_end() {
    let clients = clients(networks_of(&["10.0.0.0/8"]));
    let many = format!("203.0.113.9, {}", vec!["10.0.0.9"; 10_000].join(","));
    assert_eq!(
        client(&clients, "10.0.0.5", &[("x-forwarded-for", &many)]),
        "10.0.0.5"
    );
    let hops = format!("203.0.113.9, {}", vec!["10.0.0.9"; MOST_HOPS - 1].join(","));
    assert_eq!(
        client(&clients, "10.0.0.5", &[("x-forwarded-for", &hops)]),
        "203.0.113.9"
    );
    assert_eq!(clients.noticed().unreadable, 1);
}

#[test]
fn headers_of_others_are_ignored_and_counted_with_whom_they_come_from() {
    let header: Pairs<'_> = &[("x-forwarded-for", "203.0.113.9")];
    for trust in [Trust::Nobody, networks_of(&["10.0.0.0/8"])] {
        let clients = clients(trust);
        for _ in 0..50 {
            assert_eq!(client(&clients, "192.0.2.5", header), "192.0.2.5");
        }
        let noticed = Noticed {
            unreadable: 0,
            ignored: 50,
            ignored_from: Some("192.0.2.5".parse().unwrap()),
        };
        assert_eq!(clients.noticed(), noticed);
        assert_eq!(clients.noticed(), Noticed::default());
    }
}

#[test]
fn the_address_of_the_asker_stands_in_for_one_that_is_not_stated() {
    let clients = clients(networks_of(&["10.0.0.0/8"]));
    let request = Described {
        peer: Some(IpAddr::from([10, 0, 0, 5])),
        headers: &[("x-forwarded-for", "203.0.113.9")],
        ..Described::default()
    };
    assert_eq!(
        clients.address(&request),
        Some(IpAddr::from([203, 0, 113, 9]))
    );
    // A stated address is nearer than the asker's own.
    let stated = Described {
        ip: Some(IpAddr::from([192, 0, 2, 1])),
        ..request
    };
    assert_eq!(clients.address(&stated), Some(IpAddr::from([192, 0, 2, 1])));
    let nobody = Described {
        peer: None,
        ..request
    };
    assert_eq!(clients.address(&nobody), None);
}

proptest! {
    #[test]
    fn whatever_headers_say_the_client_is_one_address_and_never_one_beyond_a_stranger(
        xff in "[0-9a-f.:,%\\[\\] ]{0,40}|\\PC{0,40}",
        forwarded in "(for=|[0-9.;,\"]){0,20}",
        stranger in any::<[u8; 3]>(),
    ) {
        let clients = clients(networks_of(&["10.0.0.0/8"]));
        let seen = format!("{xff}, 203.{}.{}.{}", stranger[0], stranger[1], stranger[2]);
        let ip = format!("203.{}.{}.{}", stranger[0], stranger[1], stranger[2]);
        prop_assert_eq!(client(&clients, "10.0.0.5", &[("x-forwarded-for", &seen)]), ip);
        // Alone, or beside another header, it may say anything but be taken for no address.
        for headers in [
            &[("x-forwarded-for", &*xff)][..],
            &[("forwarded", &*forwarded), ("x-forwarded-for", &*xff), ("x-real-ip", &*xff)],
        ] {
            prop_assert!(client(&clients, "10.0.0.5", headers).parse::<IpAddr>().is_ok());
        }
    }
}
