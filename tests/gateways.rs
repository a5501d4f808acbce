//! Gateways from end to end: real ones, with the configurations of `config/`, between clients
//! and a backend.

// Tests fail by panicking, their helpers too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;
#[path = "gateways/spellings.rs"]
mod spellings;

use std::io::{Read, Write};
use std::net::SocketAddr;

use kit::http::{Reply, parse};
use kit::{Backend, Daemon, Gateway, Kind, connect_from, wait_until};

/// Whom clients are, each with counters of its own.
const ALICE: [u8; 4] = [127, 0, 0, 2];
const BOB: [u8; 4] = [127, 0, 0, 3];

const RULES: &str = "
clients: { trusted_proxies: [127.0.0.1], header: x-forwarded-for }
rules:
  - { name: read, endpoint: 'GET /items/{id}', limits: { requests: 3, window: 1h }, algorithm: sliding_log }
  - { name: write, endpoint: 'POST /items/{id}', limits: { requests: 7, window: 1h } }
  - { name: asks, endpoint: /search, key: 'query:q', limits: { requests: 1, window: 1h } }
  - { name: keyed, endpoint: /keyed, key: api_key, on_missing: deny, limits: { requests: 1, window: 1h } }
  - { name: soft, endpoint: /soft, mode: soft, limits: { requests: 0, window: 1h } }
  - name: host
    endpoint: /host
    key: header:Host
    limits: { requests: 1, window: 1h }
";

/// What a gateway does in its own manner.
struct Manner {
    kind: Kind,
    /// Whether clients are told of what passes; else the backend is.
    tells_clients: bool,
    /// What clients get while the daemon is gone, and while it does not answer, where the
    /// gateway does not wait for long.
    gone: u16,
    late: Option<u16>,
}

struct Walk {
    daemon: Daemon,
    backend: Backend,
    gateway: Gateway,
    manner: Manner,
}

fn ask(to: SocketAddr, from: [u8; 4], request: &str, headers: &str, body: &str) -> Reply {
    let mut stream = connect_from(from, to);
    let length = if body.is_empty() {
        String::new()
    } else {
        format!("Content-Length: {}\r\n", body.len())
    };
    let host = if headers.contains("Host:") {
        ""
    } else {
        "Host: shop.example\r\n"
    };
    let head = format!("{request} HTTP/1.1\r\n{host}Connection: close\r\n{length}{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    // A gateway that refuses a head may close before it has read all of it.
    let read = stream.read_to_end(&mut bytes);
    let continued = b"HTTP/1.1 100 Continue\r\n\r\n";
    let bytes = bytes.strip_prefix(continued).unwrap_or(&bytes);
    parse(bytes).unwrap_or_else(|| {
        panic!(
            "{request}: {read:?}, not HTTP: {:?}",
            String::from_utf8_lossy(bytes)
        )
    })
}

impl Walk {
    fn start(manner: Manner) -> Walk {
        let daemon = Daemon::start(RULES, &["--http", "127.0.0.1:0"]);
        let backend = Backend::start();
        let gateway = Gateway::start(manner.kind, &backend, Some(&daemon));
        Walk {
            daemon,
            backend,
            gateway,
            manner,
        }
    }

    fn ask(&self, from: [u8; 4], request: &str, headers: &str, body: &str) -> Reply {
        ask(self.gateway.addr(), from, request, headers, body)
    }

    /// The value of a field that tells of what passes.
    fn told(&self, reply: &Reply, name: &str) -> Option<String> {
        if self.manner.tells_clients || reply.status != 200 {
            let mut values = reply
                .headers
                .iter()
                .filter(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.clone());
            let value = values.next();
            assert_eq!(values.next(), None, "{name} twice in {reply:?}");
            value
        } else {
            let said = reply.json();
            let value = said["headers"][name.to_ascii_lowercase()].as_str()?;
            Some(value.to_owned())
        }
    }

    fn numbers(&self, reply: &Reply) -> (u16, Option<String>, Option<String>) {
        let limit = self.told(reply, "X-RateLimit-Limit");
        (
            reply.status,
            limit,
            self.told(reply, "X-RateLimit-Remaining"),
        )
    }

    fn assert_numbers(&self, reply: &Reply, status: u16, limit: u64, remaining: u64) {
        let wanted = (status, Some(limit.to_string()), Some(remaining.to_string()));
        assert_eq!(self.numbers(reply), wanted, "{reply:?}");
    }

    /// What is allowed passes as it came, and is told of.
    fn passes(&self) {
        let reply = self.ask(
            ALICE,
            "POST /items/a%2Fb?x=%C3%A9&ip=9.9.9.9&cost=5",
            "X-One: 1\r\n",
            "hello",
        );
        self.assert_numbers(&reply, 200, 7, 6);
        let policy = "\"write/default/1h\";q=7;w=3600";
        assert_eq!(
            self.told(&reply, "RateLimit-Policy").as_deref(),
            Some(policy)
        );
        let left = self.told(&reply, "RateLimit").unwrap();
        assert!(left.starts_with("\"write/default/1h\";r=6;t="), "{left}");
        assert!(self.told(&reply, "X-RateLimit-Reset").is_some());
        let said = reply.json();
        assert_eq!(said["method"], "POST");
        assert_eq!(said["path"], "/items/a%2Fb?x=%C3%A9&ip=9.9.9.9&cost=5");
        assert_eq!(said["body"], "hello");
        assert_eq!(said["headers"]["x-one"], "1");
        if !self.manner.tells_clients {
            // They see what the backend says itself, and nothing of the daemon.
            assert_eq!(reply.header("X-RateLimit-Limit"), Some("99999"));
            for name in ["X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit"] {
                assert_eq!(reply.header(name), None, "{name}");
            }
        }
        let reply = self.ask(ALICE, "GET /soft", "", "");
        assert_eq!(reply.status, 200);
        let warning = self.told(&reply, "X-RateLimit-Warning");
        assert_eq!(warning.as_deref(), Some("\"soft/default/1h\""));
        // Where no limit applies, there is nothing to tell.
        let reply = self.ask(ALICE, "GET /free", "", "");
        assert_eq!(reply.status, 200);
        assert_eq!(self.told(&reply, "RateLimit-Policy"), None);
    }

    /// What is refused ends at the gateway, as the daemon refuses it.
    fn refuses(&self) {
        for left in [2, 1, 0] {
            let reply = self.ask(ALICE, "GET /items/1", "", "");
            self.assert_numbers(&reply, 200, 3, left);
        }
        let before = self.backend.asked();
        let reply = self.ask(ALICE, "GET /items/2", "", "");
        self.assert_numbers(&reply, 429, 3, 0);
        let wait: u64 = reply.header("Retry-After").unwrap().parse().unwrap();
        assert!((3_000..=3_600).contains(&wait), "{wait}");
        let policy = "\"read/default/1h\";q=3;w=3600";
        assert_eq!(
            self.told(&reply, "RateLimit-Policy").as_deref(),
            Some(policy)
        );
        assert!(self.told(&reply, "RateLimit").unwrap().contains(";r=0;t="));
        assert!(self.told(&reply, "X-RateLimit-Reset").is_some());
        let media = reply.header("Content-Type").unwrap();
        assert_eq!(media, "application/json");
        assert_eq!(reply.json()["error"], "rate_limit_exceeded");
        assert_eq!(reply.json()["rule"], "read");
        assert_eq!(self.backend.asked(), before);
        // Another client has what is its own.
        let reply = self.ask(BOB, "GET /items/1", "", "");
        self.assert_numbers(&reply, 200, 3, 2);
    }

    /// What clients bring along changes nothing of who they are and what they ask.
    fn believes_no_client(&self) {
        let before = self.backend.asked();
        for headers in [
            "X-Forwarded-For: 203.0.113.9\r\n",
            "X-Forwarded-For: 203.0.113.9, 127.0.0.1\r\nX-Forwarded-For: 127.0.0.3\r\n",
            "X-Real-IP: 203.0.113.9\r\n",
            "Forwarded: for=203.0.113.9\r\n",
            "X-Forwarded-Uri: /free\r\n",
            "X-Forwarded-Method: DELETE\r\n",
            "X_Forwarded_Uri: /free\r\nX_Forwarded_Method: PUT\r\nX_Forwarded_For: ::1\r\n",
            "X-Forwarded-Uri: /free\r\nX-Forwarded-Uri: /free\r\n",
            "X-Original-URI: /free\r\nX-Original-Method: PUT\r\nX-Original-URL: http://a/free\r\n",
            "X-RateLimit-Status: 200\r\nX-RateLimit-Remaining: 99999\r\n",
            "X-HTTP-Method-Override: PUT\r\n",
            "Connection: X-Forwarded-Uri, X-Forwarded-Method, X-Forwarded-For\r\n",
            "Expect: 100-continue\r\n",
        ] {
            for request in [
                "GET /items/1",
                "GET /items/1?ip=203.0.113.9&cost=0&deny=429",
            ] {
                let reply = self.ask(ALICE, request, headers, "");
                // A connection field twice may be more than a gateway takes.
                assert!([400, 429].contains(&reply.status), "{headers}: {reply:?}");
                let connection = headers.starts_with("Connection");
                assert!(reply.status == 429 || connection, "{headers}: {reply:?}");
            }
        }
        assert_eq!(self.backend.asked(), before);
    }

    /// However large or odd a head is, it does not pass where it should not.
    fn is_not_passed_by_force(&mut self) {
        let before = self.backend.asked();
        let line = |number: usize, length: usize| format!("h{number}: {}\r\n", "a".repeat(length));
        let lines = |count, length| (0..count).map(|n| line(n, length)).collect::<String>();
        let sizes = (14_000..17_000)
            .step_by(150)
            .chain((20_000..42_000).step_by(1_000));
        let sizes = sizes.map(|size| lines(size / 1_000, 990));
        let counts = [
            60, 78, 79, 80, 81, 90, 95, 96, 97, 98, 99, 100, 101, 102, 120, 200, 1_000,
        ];
        let counts = counts.map(|count| lines(count, 1));
        for headers in sizes.chain(counts) {
            let reply = self.ask(ALICE, "GET /items/1", &headers, "");
            let refused = [400, 429, 431, 494, 500];
            assert!(
                refused.contains(&reply.status),
                "{} bytes: {reply:?}",
                headers.len()
            );
        }
        assert_eq!(self.backend.asked(), before);
        assert!(self.gateway.is_running());
    }

    /// The parts that rules look at arrive.
    fn tells_who_asks_for_what(&self) {
        for (query, status) in [("a", 200), ("b", 200), ("%61", 429), ("b&c=1", 429)] {
            let reply = self.ask(ALICE, &format!("GET /search?q={query}"), "", "");
            assert_eq!(reply.status, status, "{query}: {reply:?}");
        }
        for (key, status) in [("k1", 200), ("k2", 200), ("k1", 429)] {
            let reply = self.ask(ALICE, "GET /keyed", &format!("X-API-Key: {key}\r\n"), "");
            assert_eq!(reply.status, status, "{key}: {reply:?}");
        }
        let reply = self.ask(ALICE, "GET /keyed", "", "");
        assert_eq!(reply.status, 401);
        assert_eq!(reply.header("WWW-Authenticate"), Some("Bearer"));
        assert_eq!(reply.json()["error"], "unidentified");
        // Two keys are none.
        let two = "X-API-Key: k3\r\nX-API-Key: k4\r\n";
        assert_eq!(self.ask(ALICE, "GET /keyed", two, "").status, 401);
        for (host, status) in [
            ("a.example", 200),
            ("b.example", 200),
            ("a.example", 429),
            ("A.Example", 429),
            ("a.example.", 429),
            ("a.example:80", 429),
        ] {
            let reply = self.ask(ALICE, "GET /host", &format!("Host: {host}\r\n"), "");
            assert_eq!(reply.status, status, "{host}: {reply:?}");
        }
        // A browser's preflight is not counted, though its path has nothing left.
        let preflight = "Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n";
        let reply = self.ask(ALICE, "OPTIONS /search?q=a", preflight, "");
        assert_eq!(reply.status, 200, "{reply:?}");
        let reply = self.ask(ALICE, "OPTIONS /search?q=a", "", "");
        assert_eq!(reply.status, 429, "{reply:?}");
    }

    /// While the daemon is gone, the gateway does as its configuration says.
    fn does_without_the_daemon(&mut self) {
        if let Some(late) = self.manner.late {
            let left = |reply: &Reply| -> u64 {
                let left = self.told(reply, "X-RateLimit-Remaining");
                left.unwrap().parse().unwrap()
            };
            let before = left(&self.ask(BOB, "POST /items/1", "", ""));
            self.daemon.pause();
            let reply = self.ask(BOB, "POST /items/1", "", "");
            assert_eq!(reply.status, late, "{reply:?}");
            let reply = self.ask(ALICE, "GET /items/1", "", "");
            self.daemon.go_on();
            assert_eq!(reply.status, late, "{reply:?}");
            // And then it is asked again.
            let refused = || self.ask(ALICE, "GET /items/1", "", "").status == 429;
            wait_until("the daemon to be asked again", refused);
            // What was late may have been counted, and not twice.
            let after = left(&self.ask(BOB, "POST /items/1", "", ""));
            assert!(before - after <= 2, "{before} and then {after}");
        }
        self.daemon.kill9();
        let reply = self.ask(ALICE, "GET /items/1", "", "");
        assert_eq!(reply.status, self.manner.gone, "{reply:?}");
        assert!(self.gateway.is_running());
    }

    fn whole(mut self) {
        self.passes();
        self.refuses();
        self.believes_no_client();
        self.is_not_passed_by_force();
        self.tells_who_asks_for_what();
        self.does_without_the_daemon();
    }
}

#[test]
fn nginx_asks_and_its_clients_are_told() {
    let manner = Manner {
        kind: Kind::Nginx,
        tells_clients: true,
        gone: 200,
        late: Some(200),
    };
    Walk::start(manner).whole();
}

#[test]
fn haproxy_asks_and_its_clients_are_told() {
    let manner = Manner {
        kind: Kind::Haproxy,
        tells_clients: true,
        gone: 200,
        late: Some(200),
    };
    Walk::start(manner).whole();
}

#[test]
fn caddy_asks_and_its_clients_are_told() {
    let manner = Manner {
        kind: Kind::Caddy,
        tells_clients: true,
        gone: 502,
        late: Some(504),
    };
    Walk::start(manner).whole();
}

#[test]
fn traefik_asks_and_its_clients_are_told_of_refusals() {
    let manner = Manner {
        kind: Kind::Traefik,
        tells_clients: false,
        gone: 500,
        late: None,
    };
    Walk::start(manner).whole();
}

#[test]
fn kong_asks_and_its_clients_are_told() {
    let manner = Manner {
        kind: Kind::Kong,
        tells_clients: true,
        gone: 200,
        late: Some(200),
    };
    Walk::start(manner).whole();
}
