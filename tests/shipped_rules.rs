//! The rule files under `config/rules`, walked as their callers would.

// Tests assert by panicking, and their helpers are not in test functions.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;

use tidegate::counters::{Counters, Fleet};
use tidegate::engine::{Engine, Outcome, Request, Subject};
use tidegate::protocol::headers::fields;
use tidegate::rules::{Defaults, Described, Descriptor, Pairs, RuleSet, Source};
use tidegate::units::{Cost, KeySecret, Nanos, Pace, Timestamp};

/// An hour after midnight, at the beginning of every window.
const START: Timestamp = Timestamp::from_nanos(1_700_006_400_000_000_000);

/// A daemon with one of the files, at the times that a test says.
struct Shipped(Engine);

/// What a caller is told.
#[derive(Debug)]
struct Told {
    outcome: Outcome,
    headers: Vec<(&'static str, String)>,
}

impl Told {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A request, by what its rules look at.
#[derive(Clone, Copy, Default)]
struct Call<'a> {
    method: &'a str,
    path: &'a str,
    ip: &'a str,
    headers: Pairs<'a>,
    attributes: Pairs<'a>,
}

impl Shipped {
    fn of(file: &str) -> Shipped {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/rules");
        let path = path.join(file);
        let secret = KeySecret::public();
        let defaults = Defaults {
            pace: Pace::default(),
            secret: secret.clone(),
        };
        let source = Source {
            name: path.display().to_string(),
            text: std::fs::read_to_string(&path).unwrap(),
            format: tidegate::rules::Format::Yaml,
        };
        let compiled =
            RuleSet::compile(&[source], &defaults).unwrap_or_else(|faults| panic!("{faults}"));
        assert!(compiled.warnings.is_empty(), "{:?}", compiled.warnings);
        let counters = Arc::new(Counters::new(10_000, Fleet::alone()));
        Shipped(Engine::new(compiled.rules, counters, &secret))
    }

    fn ask(&self, call: Call<'_>, now: Timestamp) -> Told {
        let described = Described {
            method: call.method,
            path: call.path,
            ip: call.ip.parse().ok(),
            peer: None,
            headers: call.headers,
            attributes: call.attributes,
        };
        let request = Request {
            subject: Subject::Described(described),
            cost: Cost::ONE,
        };
        let snapshot = self.0.snapshot();
        let decision = snapshot.decide(&request, now);
        let headers = fields(&decision).into_iter();
        Told {
            outcome: decision.outcome,
            headers: headers
                .map(|field| (field.name.text(), field.value))
                .collect(),
        }
    }

    /// How many of `count` calls at `now` are admitted.
    fn admitted(&self, call: Call<'_>, count: usize, now: Timestamp) -> usize {
        let calls = (0..count).filter(|_| self.ask(call, now).outcome.is_allowed());
        calls.count()
    }
}

fn secs(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds)
}

#[test]
fn each_tier_of_the_public_api_has_its_own_limit() {
    let orders = Call {
        method: "GET",
        path: "/api/orders",
        ip: "203.0.113.9",
        ..Call::default()
    };
    for (key, limit) in [
        (None, "100"),
        (Some("demo-free-key"), "100"),
        (Some("demo-pro-key"), "1000"),
        (Some("demo-enterprise-key"), "10000"),
        (Some("an-invented-key"), "100"),
    ] {
        let shipped = Shipped::of("public-api.yaml");
        let pair = [("x-api-key", key.unwrap_or_default())];
        let call = Call {
            headers: &pair,
            ..orders
        };
        let told = shipped.ask(call, START);
        assert_eq!(told.header("X-RateLimit-Limit"), Some(limit), "{key:?}");
        let most: usize = limit.parse().unwrap();
        assert_eq!(
            shipped.admitted(call, most + 20, START),
            most - 1,
            "{key:?}"
        );
        let refused = shipped.ask(call, START);
        assert!(matches!(refused.outcome, Outcome::Refused { .. }));
        assert_eq!(refused.header("X-RateLimit-Limit"), Some(limit));
        assert_eq!(refused.header("X-RateLimit-Remaining"), Some("0"));
        assert!(refused.header("Retry-After").is_some());
    }
}

#[test]
fn the_hour_of_a_tier_counts_as_well_and_enterprise_has_none() {
    let shipped = Shipped::of("public-api.yaml");
    for (key, per_minute, in_all) in [
        ("demo-free-key", 100, 1_000),
        ("demo-enterprise-key", 10_000, 120_000),
    ] {
        let pair = [("x-api-key", key)];
        let call = Call {
            method: "GET",
            path: "/api/orders",
            headers: &pair,
            ..Call::default()
        };
        // A minute's worth each second minute, when nothing of the last one counts.
        let each = |turn: u64| {
            let now = START.after(secs(120 * turn));
            shipped.admitted(call, per_minute, now)
        };
        let admitted: usize = (0..12).map(each).sum();
        assert_eq!(admitted, in_all, "{key}");
    }
}

#[test]
fn three_endpoints_of_the_public_api_have_limits_of_their_own_for_all_tiers() {
    for key in ["demo-free-key", "demo-pro-key", "demo-enterprise-key"] {
        let shipped = Shipped::of("public-api.yaml");
        let pair = [("authorization", &*format!("Bearer {key}"))];
        let call = Call {
            headers: &pair,
            ..Call::default()
        };
        for (method, path, limit) in [
            ("POST", "/api/search", 50),
            ("GET", "/api/status", 600),
            ("POST", "/api/payments", 20),
        ] {
            let call = Call {
                method,
                path,
                ..call
            };
            let told = shipped.ask(call, START);
            let expected = limit.to_string();
            assert_eq!(
                told.header("X-RateLimit-Limit"),
                Some(&*expected),
                "{key} {path}"
            );
            assert_eq!(
                shipped.admitted(call, limit + 9, START),
                limit - 1,
                "{key} {path}"
            );
        }
        // What is left of the tier is untouched, and another method is none of these.
        let others = Call {
            method: "GET",
            path: "/api/search",
            ..call
        };
        let left = shipped.ask(others, START);
        let limit: u64 = left.header("X-RateLimit-Limit").unwrap().parse().unwrap();
        assert_eq!(
            left.header("X-RateLimit-Remaining"),
            Some(&*(limit - 1).to_string())
        );
    }
}

#[test]
fn a_stranger_cannot_lock_an_account_out_and_cannot_try_many() {
    let shipped = Shipped::of("login.yaml");
    let login = |ip: &str, account: &str| {
        let call = Call {
            method: "POST",
            path: "/login",
            ip,
            attributes: &[("account", account)],
            ..Call::default()
        };
        shipped.ask(call, START).outcome.is_allowed()
    };
    let (victim, spelt) = ("victim@x.example", " VICTIM@x.example ");
    let tries =
        (0..1_000).filter(|turn| login("198.51.100.7", if turn % 2 == 0 { victim } else { spelt }));
    assert_eq!(tries.count(), 5);
    assert!(login("203.0.113.9", victim), "the owner, from elsewhere");
    // Another account each time: the address as such has fifty an hour.
    let names: Vec<String> = (0..100).map(|n| format!("user-{n}")).collect();
    let tried = names.iter().filter(|name| login("192.0.2.1", name));
    assert_eq!(tried.count(), 50);
}

#[test]
fn tokens_of_a_language_model_are_charged_as_many_as_the_gateway_says() {
    let shipped = Shipped::of("llm.yaml");
    let ask = |attributes, now| {
        let call = Call {
            method: "POST",
            path: "/v1/chat/completions",
            attributes,
            ..Call::default()
        };
        shipped.ask(call, now).outcome
    };
    let large: Pairs<'_> = &[("team", "red"), ("tokens", "150000")];
    let small: Pairs<'_> = &[("team", "red"), ("tokens", "50000")];
    assert!(ask(large, START).is_allowed());
    assert!(
        !ask(large, START).is_allowed(),
        "not even a third of it is left"
    );
    assert!(
        ask(small, START).is_allowed(),
        "a refusal was charged nothing"
    );
    // 200,000 a minute come back evenly.
    assert!(!ask(small, START.after(secs(14))).is_allowed());
    assert!(ask(small, START.after(secs(15))).is_allowed());
    let huge: Pairs<'_> = &[("team", "red"), ("tokens", "200001")];
    assert_eq!(ask(huge, START.after(secs(120))), Outcome::Impossible);
    let batch: Pairs<'_> = &[("team", "red"), ("tokens", "200001"), ("tier", "batch")];
    assert!(ask(batch, START.after(secs(120))).is_allowed());
    assert_eq!(ask(&[("tokens", "1")], START), Outcome::Unidentified);
}

#[test]
fn the_tokens_of_a_month_end_with_it() {
    let shipped = Shipped::of("llm.yaml");
    let ask = |tokens, now| {
        let call = Call {
            method: "POST",
            path: "/v1/chat/completions",
            attributes: &[("team", "red"), ("tokens", tokens)],
            ..Call::default()
        };
        shipped.ask(call, now).outcome
    };
    // November 2023, and December after its last day.
    let (november, december) = (1_698_796_800, 1_701_388_800);
    let at = |seconds: u64| Timestamp::from_nanos(seconds * 1_000_000_000);
    // 20 million on each of fifteen days.
    for day in 0..15 {
        for minute in 0..100 {
            let now = at(november + day * 86_400 + minute * 60);
            assert!(ask("200000", now).is_allowed(), "{day}, {minute}");
        }
    }
    for day in 15..30 {
        let now = at(november + day * 86_400);
        let retry_after = at(december).since(now);
        assert_eq!(ask("1", now), Outcome::Refused { retry_after });
    }
    assert!(ask("200000", at(december)).is_allowed());
}

#[test]
fn webhooks_go_out_evenly_to_each_receiver() {
    let shipped = Shipped::of("webhooks.yaml");
    let deliver = |path| {
        let call = Call {
            method: "POST",
            path,
            ..Call::default()
        };
        shipped.ask(call, START).outcome
    };
    for place in 0..100 {
        let delay = Nanos::from_millis(100 * place);
        assert_eq!(deliver("/webhooks/shop"), Outcome::Allowed { delay });
    }
    assert!(matches!(deliver("/webhooks/shop"), Outcome::Refused { .. }));
    let delay = Nanos::ZERO;
    assert_eq!(deliver("/webhooks/blog"), Outcome::Allowed { delay });
}

/// The descriptors of one request, as Envoy sends them: what becomes of each of `all`. One
/// that another replaces is not decided.
fn gateway(
    shipped: &Shipped,
    all: &[&[(&str, &str)]],
    now: Timestamp,
) -> Vec<Option<&'static str>> {
    let all: Vec<Descriptor<'_>> = all
        .iter()
        .map(|entries| Descriptor {
            domain: "shop",
            entries,
            stated: None,
        })
        .collect();
    let snapshot = shipped.0.snapshot();
    let replaced = snapshot.rules().replaced(&all);
    let decide = |(place, descriptor): (usize, &Descriptor<'_>)| {
        let request = Request {
            subject: Subject::Descriptor(*descriptor),
            cost: Cost::ONE,
        };
        let decided = !replaced.contains(&place);
        decided.then(|| snapshot.decide(&request, now).outcome.name())
    };
    all.iter().enumerate().map(decide).collect()
}

/// How many of `count` such requests are admitted by all that is decided.
fn through(shipped: &Shipped, all: &[&[(&str, &str)]], count: usize, now: Timestamp) -> usize {
    let admitted = |said: &Option<&str>| !matches!(said, Some("refused" | "banned"));
    let calls = (0..count).filter(|_| gateway(shipped, all, now).iter().all(admitted));
    calls.count()
}

#[test]
fn addresses_at_envoy_are_limited_banned_or_exempt() {
    let shipped = Shipped::of("envoy.yaml");
    let by = |ip, count| through(&shipped, &[&[("remote_address", ip)]], count, START);
    assert_eq!(by("192.0.2.1", 700), 600);
    assert_eq!(by("192.0.2.2", 1), 1);
    assert_eq!(by("192.0.2.66", 5), 0);
    assert_eq!(by("192.0.2.10", 700), 700);
    let later = START.after(secs(60));
    assert_eq!(
        through(&shipped, &[&[("remote_address", "192.0.2.1")]], 1, later),
        1
    );
}

#[test]
fn logins_at_envoy_are_limited_by_address_and_downloads_all_together() {
    let shipped = Shipped::of("envoy.yaml");
    let login = |ip| {
        through(
            &shipped,
            &[&[("path", "/login"), ("remote_address", ip)]],
            9,
            START,
        )
    };
    assert_eq!((login("192.0.2.1"), login("192.0.2.2")), (5, 5));
    let file = |path, count| through(&shipped, &[&[("path", path)]], count, START);
    assert_eq!(
        (
            file("/files/a", 30),
            file("/files/b", 30),
            file("/other", 60)
        ),
        (30, 20, 60)
    );
}

#[test]
fn plans_at_envoy_replace_what_each_user_has() {
    let shipped = Shipped::of("envoy.yaml");
    let ask = |plan, user, count| {
        let by_user: &[(&str, &str)] = &[("user", user)];
        let by_plan: &[(&str, &str)] = &[("plan", plan), ("user", user)];
        through(&shipped, &[by_user, by_plan], count, START)
    };
    assert_eq!(ask("none", "a", 200), 100);
    assert_eq!(ask("pro", "b", 1_200), 1_000);
    assert_eq!(ask("enterprise", "c", 2_000), 2_000);
    let said = gateway(
        &shipped,
        &[&[("user", "d")], &[("plan", "enterprise"), ("user", "d")]],
        START,
    );
    assert_eq!(said, [None, Some("unlimited")]);
    // What was replaced has not been counted.
    assert_eq!(ask("none", "b", 200), 100);
}

#[test]
fn tenants_at_envoy_are_only_watched() {
    let shipped = Shipped::of("envoy.yaml");
    let tenant: &[&[(&str, &str)]] = &[&[("tenant", "acme")]];
    assert_eq!(through(&shipped, tenant, 10_010, START), 10_010);
}
