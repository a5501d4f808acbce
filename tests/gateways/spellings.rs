//! However a client spells what is shut, no gateway lets it through, and none lets anything
//! through that is not counted.

use std::io::Write;
use std::net::SocketAddr;

use crate::kit::frames::{
    DATA, END_HEADERS, END_STREAM, GET, GOAWAY, HEADERS, POST, RST_STREAM, asking, frame, greet,
    read,
};
use crate::kit::{Backend, Daemon, GRPC_DOOR, Gateway, Kind, connect_from, free_addr};
use crate::{ALICE, ask};

/// The last two are for Envoy.
const RULES: &str = "
clients: { trusted_proxies: [127.0.0.1], header: x-forwarded-for }
rules:
  - { name: shut, endpoint: /shut/it, limits: { requests: 0, window: 1h } }
  - { name: root, endpoint: /, limits: { requests: 0, window: 1h } }
  - { name: all, limits: { requests: 1000000, window: 1h } }
  - name: shut-path
    domain: shop
    descriptors: [{ key: path, value: /shut/it, normalize: path }]
    limits: { requests: 0, window: 1h }
  - name: any-path
    domain: shop
    descriptors: [{ key: path, normalize: path }]
    limits: { requests: 1000000, window: 1h }
";

/// Targets that an application may read as `/shut/it`.
const SPELLINGS: [&str; 22] = [
    "/shut/it",
    "//shut/it",
    "/shut//it",
    "///shut///it",
    "/shut/it/",
    "/shut/it//",
    "/shut/./it",
    "/shut/it/.",
    "/./shut/it",
    "/x/../shut/it",
    "/../shut/it",
    "/shut/x/../it",
    "/%73hut/it",
    "/shut/%69t",
    "/shut/%2e/it",
    "/x/%2E%2e/shut/it",
    "/shut/it?x=1",
    "/shut/it?",
    "/shut/it/?x=/free",
    "/shut/it?/../../free",
    "/shut/it#x",
    "/shut/it#/../../free",
];
/// As they stand in a request to a proxy.
const ABSOLUTE: [&str; 7] = [
    "http://shop.example/shut/it",
    "http://shop.example//shut/it",
    "HTTP://SHOP.example/shut/it?x",
    "http://shop.example:80/shut/it",
    "http://a:b@shop.example/shut/it",
    "http://other.example/shut/it",
    "https://shop.example/shut/it",
];
/// Targets that are no paths, or may be another for the application than for a gateway.
const ODD: [&str; 7] = [
    "*",
    "shut/it",
    "http://shop.example",
    "/shut%2fit",
    "/shut\\it",
    "/shut;x=1/it",
    "/shut/it%00",
];

fn shut_however_it_is_spelled(kind: Kind) {
    let daemon = Daemon::start(
        RULES,
        &[&["--http", "127.0.0.1:0"][..], &GRPC_DOOR].concat(),
    );
    let backend = Backend::start();
    // The nginx of some systems speaks HTTP/2 only where it speaks nothing else.
    let second = free_addr();
    let listen = format!("server_name _;\n    listen {second} http2;");
    // Envoy is not to wait a second for whoever it hangs up on.
    let at_once = "delayed_close_timeout: 0.01s\n                stat_prefix: entry";
    let edits: &[(&str, &str)] = match kind {
        Kind::Nginx => &[
            ("server_name _;", &*listen),
            ("deny=403&", "deny=403&slashes=decoded&"),
        ],
        Kind::Envoy => &[("stat_prefix: entry", at_once)],
        _ => &[],
    };
    let gateway = Gateway::start_edited(kind, &backend, Some(&daemon), edits);
    let over_http_2 = match kind {
        Kind::Nginx => Some(second),
        // That of Kong is that of nginx.
        Kind::Kong => None,
        _ => Some(gateway.addr()),
    };
    let admitted = || daemon.metric("tidegate_checks_total", &[("outcome", "allowed")]);

    let before = backend.asked();
    for target in SPELLINGS.iter().chain(&ABSOLUTE) {
        let reply = ask(gateway.addr(), ALICE, &format!("GET {target}"), "", "");
        // An escaped `#` is one in the name of another path.
        if !(reply.status == 200 && reply.json()["path"].as_str().unwrap().contains("%23")) {
            assert!(
                [400, 403, 429].contains(&reply.status),
                "{target}: {reply:?}"
            );
        }
    }
    let escaped = ask(gateway.addr(), ALICE, "GET /shut%2Fit", "", "").status;
    match kind {
        Kind::Nginx => assert_eq!(escaped, 429),
        // Envoy sends whoever asks so to the path with a slash.
        Kind::Envoy => assert_eq!(escaped, 307),
        // A slash is one in a name, unless it is said otherwise.
        _ => assert_eq!(escaped, 200),
    }
    if let Some(to) = over_http_2 {
        for target in SPELLINGS.iter().chain(&ABSOLUTE[..2]) {
            let said = ask_over_http_2(to, GET, target);
            assert!(
                !said.contains("\"path\"") || said.contains("%23"),
                "{target}: {said}"
            );
        }
        let said = ask_over_http_2(to, GET, "/free");
        assert!(said.contains("\"path\":\"/free\""), "{said}");
        for target in ODD {
            ask_over_http_2(to, GET, target);
            ask_over_http_2(to, POST, target);
        }
    }
    for target in ODD {
        for method in ["GET", "OPTIONS", "CONNECT"] {
            ask(gateway.addr(), ALICE, &format!("{method} {target}"), "", "");
        }
    }
    ask(gateway.addr(), ALICE, "CONNECT shop.example:443", "", "");
    assert!(backend.asked() > before);
    let asked = backend.asked() as f64;
    assert!(
        admitted() >= asked,
        "{asked} passed, {} counted",
        admitted()
    );
}

/// The body of the answer, if one comes.
fn ask_over_http_2(to: SocketAddr, method: u8, target: &str) -> String {
    let mut stream = connect_from(ALICE, to);
    greet(&mut stream);
    let fields = asking(method, target, "shop.example");
    let head = frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields);
    stream.write_all(&head).unwrap();
    let mut body = Vec::new();
    while let Ok(frame) = read(&mut stream) {
        let ends = [DATA, HEADERS].contains(&frame.kind) && frame.flags & END_STREAM != 0;
        if frame.kind == DATA {
            body.extend(frame.payload);
        }
        if ends || [GOAWAY, RST_STREAM].contains(&frame.kind) {
            break;
        }
    }
    String::from_utf8(body).unwrap()
}

#[test]
fn shut_behind_nginx_however_it_is_spelled() {
    shut_however_it_is_spelled(Kind::Nginx);
}

#[test]
fn shut_behind_haproxy_however_it_is_spelled() {
    shut_however_it_is_spelled(Kind::Haproxy);
}

#[test]
fn shut_behind_caddy_however_it_is_spelled() {
    shut_however_it_is_spelled(Kind::Caddy);
}

#[test]
fn shut_behind_traefik_however_it_is_spelled() {
    shut_however_it_is_spelled(Kind::Traefik);
}

#[test]
fn shut_behind_envoy_however_it_is_spelled() {
    shut_however_it_is_spelled(Kind::Envoy);
}

#[test]
fn shut_behind_kong_however_it_is_spelled() {
    shut_however_it_is_spelled(Kind::Kong);
}
