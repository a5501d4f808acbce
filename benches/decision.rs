//! A decision in process: a hot key, a million keys, one rule and ten thousand,
//! beside the floor it cannot go below: one look-up in the same kind of map, and one
//! reading of the clock.

// A benchmark that cannot be set up ends.
#![allow(clippy::panic)]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use dashmap::DashMap;
use tidegate::clock::Clock;
use tidegate::counters::{Counters, Fleet};
use tidegate::engine::{Engine, Request, Subject};
use tidegate::rules::{Defaults, Described, Descriptor, Format, RuleSet, Source};
use tidegate::units::{Algorithm, Cost, KeySecret, MapHasher, Nanos, Pace, Quota, Timestamp};

const START: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);

fn engine(rules: &str, fleet: Fleet) -> Engine {
    let secret = KeySecret::public();
    let defaults = Defaults {
        pace: Pace::default(),
        secret: secret.clone(),
    };
    let source = Source {
        name: "bench.yaml".into(),
        text: rules.into(),
        format: Format::Yaml,
    };
    let Ok(compiled) = RuleSet::compile(&[source], &defaults) else {
        panic!("the rules of the benchmark are faulty");
    };
    Engine::new(
        compiled.rules,
        Arc::new(Counters::new(4_000_000, fleet)),
        &secret,
    )
}

fn rules(count: usize) -> String {
    let rule = |number| {
        format!(
            "  - {{ endpoint: /api/v1/thing{number}, key: user, algorithm: fixed_window, limits: {{ \
             default: {{ requests: 1000000000, window: 1h }} }} }}\n"
        )
    };
    format!("rules:\n{}", (0..count).map(rule).collect::<String>())
}

fn named<'a>(rule: &'a str, key: &'a [u8]) -> Request<'a> {
    Request {
        subject: Subject::Rule {
            rule,
            key,
            tier: None,
        },
        cost: Cost::ONE,
    }
}

fn floors(c: &mut Criterion) {
    let map: DashMap<u64, u64, MapHasher> = DashMap::with_hasher(MapHasher::default());
    map.insert(1, 1);
    c.bench_function("floor: map hit", |b| {
        b.iter(|| map.get_mut(&black_box(1)).map(|mut v| *v += 1))
    });
    let clock = Clock::system();
    c.bench_function("floor: clock", |b| b.iter(|| clock.now()));
}

fn hot_key(c: &mut Criterion) {
    for (name, fleet) in [
        ("alone", Fleet::alone()),
        ("with store", Fleet::with_store()),
    ] {
        let engine = engine(&rules(1), fleet);
        let request = named("/api/v1/thing0", b"alice");
        c.bench_function(&format!("hot key, named rule, {name}"), |b| {
            b.iter(|| engine.snapshot().decide(black_box(&request), START).outcome);
        });
    }
    for (name, fleet) in [
        ("alone", Fleet::alone()),
        ("with store", Fleet::with_store()),
    ] {
        let limits = "{requests: 1000000000, window: day, time_zone: Europe/Berlin}";
        let engine = engine(&format!("rules: [{{name: r, limits: {limits}}}]"), fleet);
        let request = named("r", b"alice");
        c.bench_function(&format!("hot key, day of a calendar, {name}"), |b| {
            b.iter(|| engine.snapshot().decide(black_box(&request), START).outcome);
        });
    }
    let engine = engine("rules: []", Fleet::alone());
    let Ok(quota) = Quota::new(
        Algorithm::TokenBucket,
        1_000_000,
        Nanos::from_secs(1),
        Some(1 << 50),
    ) else {
        panic!("this is a quota");
    };
    let request = Request {
        subject: Subject::Throttle {
            key: b"alice",
            quota,
        },
        cost: Cost::ONE,
    };
    c.bench_function("hot key, quota of the call", |b| {
        b.iter(|| engine.snapshot().decide(black_box(&request), START).outcome);
    });
}

fn million_keys(c: &mut Criterion) {
    let engine = engine(&rules(1), Fleet::alone());
    let decide = |number: u64| {
        let identity = number.to_be_bytes();
        engine
            .snapshot()
            .decide(&named("/api/v1/thing0", &identity), START)
            .outcome
    };
    for number in 0..1_000_000 {
        decide(number);
    }
    let mut number = 0u64;
    c.bench_function("a million keys, named rule", |b| {
        b.iter(|| {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            decide((number >> 33) % 1_000_000)
        });
    });
}

fn many_rules(c: &mut Criterion) {
    for count in [1, 10_000] {
        let engine = engine(&rules(count), Fleet::alone());
        let path = format!("/api/v1/thing{}", count - 1);
        let described = Described {
            method: "GET",
            path: &path,
            attributes: &[("user", "alice")],
            ..Described::default()
        };
        let request = Request {
            subject: Subject::Described(described),
            cost: Cost::ONE,
        };
        c.bench_function(&format!("described request, {count} rules"), |b| {
            b.iter(|| engine.snapshot().decide(black_box(&request), START).outcome);
        });
    }
}

/// Rules of all kinds, so that a request meets the same two however many others there are:
/// by endpoint, by expression, by a header's or an attribute's value, in groups, and with
/// overrides.
fn mixed_rules(count: usize) -> String {
    let limits = "key: user, algorithm: fixed_window, limits: { requests: 1000000000, window: 1h }";
    let other = |number: usize| match number % 5 {
        0 => format!("  - {{ endpoint: /api/v1/thing{number}, {limits} }}\n"),
        1 => format!("  - {{ endpoint: 'regex:/r{number}/[a-z]+/.*', {limits} }}\n"),
        2 => format!(
            "  - {{ name: t{number}, when: {{ attributes: {{ tenant: t{number} }} }}, {limits} }}\n"
        ),
        3 => format!(
            "  - {{ name: g{number}, endpoint: 'prefix:/p{number}', group: g, when: {{ headers: {{ X-A: present }} }}, {limits} }}\n"
        ),
        _ => format!(
            "  - {{ name: o{number}, endpoint: '/o{number}/**', {limits}, overrides: [{{ endpoint: /o{number}/x, unlimited: true }}] }}\n"
        ),
    };
    let met = format!(
        "  - {{ name: met, endpoint: '/api/v1/{{id}}/x', {limits} }}\n  \
           - {{ name: asked, when: {{ attributes: {{ tenant: acme }} }}, {limits} }}\n"
    );
    format!("rules:\n{met}{}", (0..count).map(other).collect::<String>())
}

/// The same request among more and more rules that it does not meet: what it takes must
/// not grow.
fn mixed_rules_around(c: &mut Criterion) {
    for count in [1, 100, 10_000] {
        let engine = engine(&mixed_rules(count), Fleet::alone());
        let described = Described {
            method: "GET",
            path: "/api/v1/thing/x",
            headers: &[("accept", "*/*"), ("x-b", "1")],
            attributes: &[("user", "alice"), ("tenant", "acme")],
            ..Described::default()
        };
        let request = Request {
            subject: Subject::Described(described),
            cost: Cost::ONE,
        };
        c.bench_function(
            &format!("described request, {count} rules of all kinds"),
            |b| {
                b.iter(|| engine.snapshot().decide(black_box(&request), START).outcome);
            },
        );
    }
}

/// Rules for descriptors of one domain, of all kinds, that no descriptor meets but one.
fn descriptor_rules(count: usize) -> String {
    let limits = "algorithm: fixed_window, limits: { requests: 1000000000, window: 1h }";
    let other = |number: usize| match number % 3 {
        0 => format!("{{ key: path, value: /thing{number} }}"),
        1 => format!("{{ key: path, value: '/dir{number}/*' }}, {{ key: user }}"),
        _ => format!("{{ key: key{number} }}"),
    };
    let rule =
        |entries: &str| format!("  - {{ domain: shop, descriptors: [{entries}], {limits} }}\n");
    let met = rule("{ key: path, value: '/api/*' }, { key: user }");
    let others = (0..count).map(|number| rule(&other(number)));
    format!("rules:\n{met}{}", others.collect::<String>())
}

fn descriptors(c: &mut Criterion) {
    for count in [1, 100, 10_000] {
        let engine = engine(&descriptor_rules(count), Fleet::alone());
        let request = Request {
            subject: Subject::Descriptor(Descriptor {
                domain: "shop",
                entries: &[("path", "/api/orders"), ("user", "alice")],
                stated: None,
            }),
            cost: Cost::ONE,
        };
        c.bench_function(&format!("descriptor, {count} rules"), |b| {
            b.iter(|| engine.snapshot().decide(black_box(&request), START).outcome);
        });
    }
}

criterion_group!(
    benches,
    floors,
    hot_key,
    million_keys,
    many_rules,
    mixed_rules_around,
    descriptors
);
criterion_main!(benches);
