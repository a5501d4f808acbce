//! A real Envoy in front of a small backend, by the configuration that is shipped.

use std::cell::Cell;

use crate::client::Gate;
use crate::kit::http::{self, Reply};
use crate::kit::{Backend, Gateway, Kind, root};

fn rules() -> String {
    std::fs::read_to_string(root().join("config/rules/envoy.yaml")).unwrap()
}

/// The only value of a field.
fn one<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
    let mut values = reply.headers.iter().filter(|(key, _)| key == name);
    let value = values.next().map(|(_, value)| value.as_str());
    assert_eq!(values.next(), None, "{name} twice in {reply:?}");
    value
}

fn number(reply: &Reply, name: &str) -> u64 {
    let value = one(reply, name);
    let number = value.and_then(|value| value.parse().ok());
    number.unwrap_or_else(|| panic!("{name} is {value:?} in {reply:?}"))
}

#[test]
fn envoy_admits_then_refuses_with_the_headers_and_goes_on_without_the_daemon() {
    let mut gate = Gate::start(&rules(), &[]);
    let backend = Backend::start();
    let envoy = Gateway::start(Kind::Envoy, &backend, Some(&gate.daemon));
    // Nobody is somebody else by saying so.
    let others = Cell::new(0);
    let get = |path| {
        others.set(others.get() + 1);
        let other = format!("203.0.113.{}", others.get());
        let headers = [
            ("X-Forwarded-For", &*other),
            ("X-Envoy-External-Address", &*other),
        ];
        http::try_request(&envoy.addr().into(), "GET", path, &headers, "").unwrap()
    };
    let other = get("/other");
    assert_eq!(other.status, 200);
    assert_eq!(one(&other, "x-ratelimit-limit"), Some("600, 600;w=60"));
    // Five a minute, and a minute may end in between.
    let spellings = [
        "/login",
        "/login?n=1",
        "/login/",
        "//login",
        "/x/../%6cogin",
    ];
    let replies: Vec<Reply> = (0..11).map(|n| get(spellings[n % 5])).collect();
    let first = &replies[0];
    assert_eq!(first.status, 200);
    assert_eq!(one(first, "x-ratelimit-limit"), Some("5, 600;w=60, 5;w=60"));
    assert_eq!(number(first, "x-ratelimit-remaining"), 4);
    assert!((1..=60).contains(&number(first, "x-ratelimit-reset")));
    assert_eq!(first.header("retry-after"), None);
    let refused = replies
        .iter()
        .position(|reply| reply.status == 429)
        .unwrap();
    assert!(refused >= 5, "{replies:?}");
    let refused = &replies[refused];
    assert_eq!(refused.header("x-envoy-ratelimited"), Some("true"));
    assert_eq!(refused.body, "");
    assert_eq!(
        one(refused, "x-ratelimit-limit"),
        Some("5, 600;w=60, 5;w=60")
    );
    assert_eq!(number(refused, "x-ratelimit-remaining"), 0);
    assert!((1..=60).contains(&number(refused, "x-ratelimit-reset")));
    assert!((1..=60).contains(&number(refused, "retry-after")));

    assert!(gate.daemon.terminate().success());
    let without = get("/login");
    assert_eq!(
        (without.status, one(&without, "x-ratelimit-limit")),
        (200, None)
    );
}

#[test]
fn envoy_refuses_without_the_daemon_where_it_is_told_to() {
    let mut gate = Gate::start(&rules(), &[]);
    let backend = Backend::start();
    let denies = [("failure_mode_deny: false", "failure_mode_deny: true")];
    let daemon = Some(&gate.daemon);
    let envoy = Gateway::start_edited(Kind::Envoy, &backend, daemon, &denies);
    let status = || http::request(envoy.addr(), "GET", "/other", "").status;
    assert_eq!(status(), 200);
    gate.daemon.kill9();
    assert_eq!(status(), 500);
}
