//! Descriptors, decided as everything is.

use super::*;
use crate::rules::{Descriptor, StatedLimit, Unit};

const RULES: &str = "
rules:
  - {name: login, domain: shop, descriptors: [{key: path, value: /login}], algorithm: fixed_window, limits: {requests: 2, window: 1m}}
  - {name: shadow, domain: shop, descriptors: [{key: shadow}], mode: shadow, limits: {requests: 1, window: 1m}}
  - {name: free, domain: shop, descriptors: [{key: free}], unlimited: true}
  - {name: none, domain: shop, descriptors: [{key: none}], ban: true}
";

fn asked<'a>(entries: &'a [(&'a str, &'a str)]) -> Request<'a> {
    let subject = Subject::Descriptor(Descriptor {
        domain: "shop",
        entries,
        stated: None,
    });
    Request {
        subject,
        cost: Cost::ONE,
    }
}

/// The same with a limit of its own.
fn stated<'a>(
    domain: &'a str,
    entries: &'a [(&'a str, &'a str)],
    requests: u32,
    unit: Unit,
) -> Request<'a> {
    let stated = Some(StatedLimit { requests, unit });
    let subject = Subject::Descriptor(Descriptor {
        domain,
        entries,
        stated,
    });
    Request {
        subject,
        cost: Cost::ONE,
    }
}

fn outcomes(engine: &Engine, request: &Request<'_>, count: usize) -> Vec<&'static str> {
    let decide = |_| engine.snapshot().decide(request, START).outcome.name();
    (0..count).map(decide).collect()
}

#[test]
fn a_descriptor_is_counted_by_its_rule_and_told_of_it() {
    let engine = engine(RULES);
    let snapshot = engine.snapshot();
    let login = asked(&[("path", "/login")]);
    let Begun::Decided(first) = snapshot.begin(&login, START) else {
        panic!("it needs no store");
    };
    let limit = first.limit.unwrap();
    assert_eq!((limit.rule, limit.limit, limit.remaining), ("login", 2, 1));
    assert_eq!(outcomes(&engine, &login, 2), ["allowed", "refused"]);
}

#[test]
fn without_a_rule_nothing_is_limited() {
    let engine = engine(RULES);
    for entries in [&[("path", "/x")][..], &[], &[("free", "x")]] {
        let decision = engine.snapshot().decide(&asked(entries), START).outcome;
        assert_eq!(decision, Outcome::Unlimited, "{entries:?}");
        assert!(
            engine
                .snapshot()
                .decide(&asked(entries), START)
                .limit
                .is_none()
        );
    }
    assert_eq!(outcomes(&engine, &asked(&[("none", "x")]), 1), ["banned"]);
}

#[test]
fn a_shadow_rule_counts_and_says_what_it_would_have_done() {
    let engine = engine(RULES);
    let shadow = asked(&[("shadow", "x")]);
    let said = || {
        engine.snapshot().decide(&shadow, START).advised()[0]
            .outcome
            .name()
    };
    assert_eq!([said(), said()], ["allowed", "refused"]);
    assert_eq!(outcomes(&engine, &shadow, 1), ["unlimited"]);
}

#[test]
fn a_stated_limit_holds_instead_of_the_rules_and_where_there_is_none() {
    let engine = engine(RULES);
    let entries: &[(&str, &str)] = &[("path", "/login")];
    let three = stated("shop", entries, 3, Unit::Hour);
    assert_eq!(
        outcomes(&engine, &three, 4),
        ["allowed", "allowed", "allowed", "refused"]
    );
    let snapshot = engine.snapshot();
    let limit = snapshot.decide(&three, START).limit.unwrap();
    assert_eq!(
        (limit.name, limit.amount, limit.period),
        ("stated", 3, Nanos::from_secs(3_600))
    );
    // The rule has counted nothing of it.
    assert_eq!(
        outcomes(&engine, &asked(entries), 3),
        ["allowed", "allowed", "refused"]
    );
    let unruled = stated("shop", &[("x", "y")], 1, Unit::Second);
    assert_eq!(outcomes(&engine, &unruled, 2), ["allowed", "refused"]);
    // Of a shadow rule, too.
    let shadow = stated("shop", &[("shadow", "x")], 0, Unit::Second);
    assert_eq!(outcomes(&engine, &shadow, 1), ["banned"]);
}

#[test]
fn a_stated_limit_is_for_known_domains() {
    let engine = engine(RULES);
    let unknown = stated("unknown", &[("x", "y")], 0, Unit::Second);
    assert_eq!(outcomes(&engine, &unknown, 1), ["unlimited"]);
}

#[test]
fn a_stated_limit_is_part_of_who_is_counted() {
    let engine = engine(&format!(
        "{RULES}  - {{domain: b, descriptors: [{{key: k}}], ban: true}}\n"
    ));
    let entries: &[(&str, &str)] = &[("k", "v")];
    let all = [
        stated("shop", entries, 1, Unit::Day),
        stated("shop", entries, 1, Unit::Week),
        stated("b", entries, 1, Unit::Day),
        stated("shop", &[("k", "w")], 1, Unit::Day),
        stated("shop", &[("k", "v"), ("k", "v")], 1, Unit::Day),
    ];
    for one in &all {
        assert_eq!(outcomes(&engine, one, 2), ["allowed", "refused"], "{one:?}");
    }
    let two = stated("shop", entries, 2, Unit::Day);
    assert_eq!(
        outcomes(&engine, &two, 3),
        ["allowed", "allowed", "refused"]
    );
}

#[test]
fn the_window_of_a_stated_limit_is_aligned_to_the_epoch() {
    let engine = engine(RULES);
    let one = stated("shop", &[("x", "y")], 1, Unit::Minute);
    let at = |secs: u64| Timestamp::EPOCH.after(Nanos::from_secs(1_700_000_000 / 60 * 60 + secs));
    let said = |secs| engine.snapshot().decide(&one, at(secs)).outcome.name();
    assert_eq!(
        [said(59), said(59), said(60)],
        ["allowed", "refused", "allowed"]
    );
}

#[test]
fn an_explained_descriptor_takes_nothing() {
    let engine = engine(RULES);
    let snapshot = engine.snapshot();
    let entries: &[(&str, &str)] = &[("path", "/login")];
    let descriptor = Descriptor {
        domain: "shop",
        entries,
        stated: None,
    };
    for _ in 0..5 {
        let explained = snapshot.explain_descriptor(&descriptor, Cost::ONE, START);
        assert_eq!(explained.decision.outcome.name(), "allowed");
        assert_eq!((explained.said.len(), explained.said[0].remaining), (1, 2));
        assert_eq!(explained.rules[0].why_not, None);
    }
    assert_eq!(
        outcomes(&engine, &asked(entries), 3),
        ["allowed", "allowed", "refused"]
    );
}

#[test]
fn where_domains_are_strict_an_unknown_one_is_unknown() {
    let engine = engine(&format!("strict_domains: true\n{RULES}"));
    let unknown = |entries| stated("unknown", entries, 1, Unit::Second);
    let mut request = unknown(&[("x", "y")]);
    assert_eq!(outcomes(&engine, &request, 1), ["unknown_rule"]);
    if let Subject::Descriptor(descriptor) = &mut request.subject {
        descriptor.stated = None;
    }
    assert_eq!(outcomes(&engine, &request, 1), ["unknown_rule"]);
    assert_eq!(outcomes(&engine, &asked(&[("x", "y")]), 1), ["unlimited"]);
}
