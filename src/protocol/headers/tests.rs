use sfv::{BareItem, Item, List, ListEntry, Parser};

use super::*;
use crate::engine::{Advised, Besides};
use crate::units::{Algorithm, Answers, Mode, Quota, Series, Timestamp};

/// 0.4 s past a second.
const NOW: Timestamp = Timestamp::from_nanos(1_700_000_000_400_000_000);
const ALLOWED: Outcome = Outcome::Allowed { delay: Nanos::ZERO };

fn quota(amount: u64, period: Nanos) -> Quota {
    Quota::new(Algorithm::FixedWindow, amount, period, None).unwrap()
}

fn limit<'s>(rule: &'s str, name: &'s str, quota: Quota) -> DescribedLimit<'s> {
    DescribedLimit {
        rule,
        name,
        series: Series(1),
        limit: quota.capacity(),
        remaining: quota.capacity().saturating_sub(1),
        reset_after: Nanos::from_millis(41_200),
        amount: quota.amount(),
        period: quota.period(),
        answers: Answers::of_no_rule(),
    }
}

fn decision(outcome: Outcome, limit: DescribedLimit<'_>) -> Decision<'_> {
    Decision {
        outcome,
        limit: Some(limit),
        stale: None,
        now: NOW,
        besides: None,
    }
}

fn besides<'s>(
    all: Vec<DescribedLimit<'s>>,
    advised: Vec<Advised<'s>>,
) -> Option<Box<Besides<'s>>> {
    Some(Box::new(Besides { all, advised }))
}

fn burst() -> DescribedLimit<'static> {
    limit("api", "burst", quota(10, Nanos::from_secs(60)))
}

fn refused(millis: u64) -> Outcome {
    let retry_after = Nanos::from_millis(millis);
    Outcome::Refused { retry_after }
}

fn value(decision: &Decision<'_>, name: FieldName) -> Option<String> {
    let fields = fields(decision);
    let mut found = fields.into_iter().filter(|field| field.name == name);
    let value = found.next().map(|field| field.value);
    assert!(found.next().is_none(), "{name:?} twice");
    value
}

/// A name, with the integers that belong to it.
type Member = (String, Vec<(String, i64)>);

/// What an independent parser reads in a list of items.
fn parsed(text: &str) -> Vec<Member> {
    let list: List = Parser::new(text).parse().unwrap();
    list.into_iter()
        .map(|entry| {
            let ListEntry::Item(Item { bare_item, params }) = entry else {
                panic!("a list within a list: {text}");
            };
            let BareItem::String(name) = bare_item else {
                panic!("no string: {text}");
            };
            let params = params.into_iter().map(|(key, value)| match value {
                BareItem::Integer(value) => (key.as_str().to_owned(), i64::from(value)),
                other => panic!("{key:?} is {other:?}"),
            });
            (name.as_str().to_owned(), params.collect())
        })
        .collect()
}

fn member(name: &str, params: &[(&str, i64)]) -> Member {
    let params = params
        .iter()
        .map(|(key, value)| ((*key).to_owned(), *value));
    (name.to_owned(), params.collect())
}

#[test]
fn a_success_is_told_by_both_families_and_a_refusal_by_the_same_and_the_wait() {
    let told = |outcome| {
        let fields = fields(&decision(outcome, burst()));
        let text = |field: Field| format!("{}: {}", field.name.text(), field.value);
        fields.into_iter().map(text).collect::<Vec<_>>()
    };
    let mut wanted = vec![
        "X-RateLimit-Limit: 10",
        "X-RateLimit-Remaining: 9",
        "X-RateLimit-Reset: 1700000042",
        "RateLimit-Policy: \"api/burst\";q=10;w=60",
        "RateLimit: \"api/burst\";r=9;t=42",
    ];
    assert_eq!(told(ALLOWED), wanted);
    wanted.push("Retry-After: 42");
    assert_eq!(told(refused(41_200)), wanted);
}

#[test]
fn retry_after_is_whole_seconds_rounded_up_and_at_least_one_on_refusals_alone() {
    for (wait, seconds) in [
        (0, "1"),
        (1, "1"),
        (400, "1"),
        (1_000, "1"),
        (1_200, "2"),
        (59_999, "60"),
    ] {
        let said = value(&decision(refused(wait), burst()), FieldName::RetryAfter);
        assert_eq!(said.as_deref(), Some(seconds), "{wait} ms");
    }
    for outcome in [ALLOWED, Outcome::Impossible, Outcome::Banned] {
        let said = value(&decision(outcome, burst()), FieldName::RetryAfter);
        assert_eq!(said, None, "{outcome:?}");
    }
}

#[test]
fn reset_is_an_epoch_or_a_delta_and_rounded_up_either_way() {
    // 12.3 s from 0.4 s past the second ends 0.7 s past the twelfth.
    for (style, millis, wanted, t) in [
        (ResetStyle::Epoch, 12_300, "1700000013", Some(13)),
        (ResetStyle::Delta, 12_300, "13", Some(13)),
        (ResetStyle::Epoch, 250, "1700000001", Some(1)),
        (ResetStyle::Delta, 250, "1", Some(1)),
        (ResetStyle::Delta, 0, "0", None),
    ] {
        let answers = Answers {
            reset: style,
            ..Answers::default()
        };
        let limit = DescribedLimit {
            reset_after: Nanos::from_millis(millis),
            answers: &answers,
            ..burst()
        };
        let decision = decision(ALLOWED, limit);
        let said = value(&decision, FieldName::XReset);
        assert_eq!(said.as_deref(), Some(wanted), "{style:?} {millis} ms");
        // The other family knows no epochs.
        let left = value(&decision, FieldName::RateLimit).unwrap();
        let mut params = vec![("r", 9)];
        params.extend(t.map(|t| ("t", t)));
        assert_eq!(parsed(&left), [member("api/burst", &params)]);
    }
    assert_eq!(ResetStyle::default(), ResetStyle::Epoch);
}

#[test]
fn names_and_numbers_of_every_kind_are_structured_fields() {
    const MOST: i64 = 999_999_999_999_999;
    let names = [
        "burst",
        "day \"max\"",
        "back\\slash",
        "a;q=1, \"b\"",
        "gr\u{f6}\u{df}e",
        "",
    ];
    let amounts = [
        (0, 0),
        (10, 10),
        (999_999_999_999_999, MOST),
        (1_000_000_000_000_000, MOST),
        (u64::MAX, MOST),
    ];
    let windows = [
        (Nanos::from_millis(500), 1),
        (Nanos::from_millis(1_500), 2),
        (Nanos::from_secs(60), 60),
        (Nanos::from_secs(31 * 86_400), 2_678_400),
        (Quota::MAX_PERIOD, 316_224_000),
    ];
    for name in names {
        let shown = format!("r/{}", name.replace(|c: char| !c.is_ascii(), "?"));
        for (amount, q) in amounts {
            for (period, w) in windows {
                let limit = DescribedLimit {
                    remaining: amount,
                    reset_after: Nanos::MAX,
                    ..limit("r", name, quota(amount, period))
                };
                let decision = decision(ALLOWED, limit);
                let policy = value(&decision, FieldName::Policy).unwrap();
                assert_eq!(parsed(&policy), [member(&shown, &[("q", q), ("w", w)])]);
                let left = value(&decision, FieldName::RateLimit).unwrap();
                let params = [("r", q), ("t", 18_446_744_074)];
                assert_eq!(parsed(&left), [member(&shown, &params)]);
            }
        }
    }
}

#[test]
fn the_window_of_a_bucket_is_the_time_in_which_it_refills() {
    let bucket = |burst| {
        let minute = Nanos::from_secs(60);
        let quota = Quota::new(Algorithm::TokenBucket, 6, minute, burst).unwrap();
        value(
            &decision(ALLOWED, limit("r", "b", quota)),
            FieldName::Policy,
        )
    };
    let wanted = |text: &str| Some(text.to_owned());
    assert_eq!(bucket(None), wanted("\"r/b\";q=6;w=60"));
    assert_eq!(bucket(Some(1)), wanted("\"r/b\";q=1;w=10"));
    assert_eq!(bucket(Some(60)), wanted("\"r/b\";q=60;w=600"));
}

#[test]
fn each_family_is_switched_by_itself() {
    for (x_ratelimit, ietf) in [(true, true), (true, false), (false, true), (false, false)] {
        let answers = Answers {
            x_ratelimit,
            ietf,
            ..Answers::default()
        };
        let limit = DescribedLimit {
            answers: &answers,
            ..burst()
        };
        let fields = fields(&decision(refused(1), limit));
        let names: Vec<_> = fields.into_iter().map(|field| field.name).collect();
        let wanted: Vec<_> = [
            (FieldName::XLimit, x_ratelimit),
            (FieldName::XRemaining, x_ratelimit),
            (FieldName::XReset, x_ratelimit),
            (FieldName::Policy, ietf),
            (FieldName::RateLimit, ietf),
            (FieldName::RetryAfter, true),
        ]
        .into_iter()
        .filter_map(|(name, told)| told.then_some(name))
        .collect();
        assert_eq!(names, wanted);
    }
}

#[test]
fn scripts_of_other_origins_may_read_what_there_is_where_that_is_wanted() {
    let answers = Answers {
        x_ratelimit: false,
        expose: true,
        ..Answers::default()
    };
    let limit = DescribedLimit {
        answers: &answers,
        ..burst()
    };
    let said = value(&decision(refused(1), limit), FieldName::Expose);
    let wanted = "RateLimit-Policy, RateLimit, Retry-After";
    assert_eq!(said.as_deref(), Some(wanted));
}

#[test]
fn a_ban_is_told_without_anything_to_wait_for() {
    let ban = DescribedLimit {
        reset_after: Nanos::ZERO,
        ..limit("r", "none", quota(0, Nanos::from_secs(60)))
    };
    let decision = decision(Outcome::Banned, ban);
    let value = |name| value(&decision, name);
    assert_eq!(value(FieldName::XLimit).as_deref(), Some("0"));
    assert_eq!(value(FieldName::XRemaining).as_deref(), Some("0"));
    let left = value(FieldName::RateLimit).unwrap();
    assert_eq!(parsed(&left), [member("r/none", &[("r", 0)])]);
    assert_eq!(value(FieldName::RetryAfter), None);
}

#[test]
fn without_its_store_a_limit_has_no_figures_and_a_refusal_a_small_wait() {
    let lost = fields(&decision(Outcome::Unavailable, burst()));
    let wait = Field {
        name: FieldName::RetryAfter,
        value: "1".to_owned(),
    };
    assert_eq!(lost, [wait]);
    assert_eq!(fields(&decision(Outcome::Bypassed, burst())), []);
    let none = Decision {
        limit: None,
        ..decision(Outcome::Unlimited, burst())
    };
    assert_eq!(fields(&none), []);
}

#[test]
fn several_limits_are_one_list_each_of_policies_and_of_what_is_left() {
    let quiet = Answers {
        ietf: false,
        ..Answers::default()
    };
    let hour = limit("api", "hour", quota(100, Nanos::from_secs(3_600)));
    let silent = DescribedLimit {
        answers: &quiet,
        ..limit("other", "day", quota(9, Nanos::from_secs(86_400)))
    };
    let decision = Decision {
        besides: besides(vec![hour, silent, burst()], Vec::new()),
        ..decision(ALLOWED, burst())
    };
    let list = |name| parsed(&value(&decision, name).unwrap());
    assert_eq!(
        list(FieldName::Policy),
        [
            member("api/hour", &[("q", 100), ("w", 3_600)]),
            member("api/burst", &[("q", 10), ("w", 60)]),
        ]
    );
    assert_eq!(
        list(FieldName::RateLimit),
        [
            member("api/hour", &[("r", 99), ("t", 42)]),
            member("api/burst", &[("r", 9), ("t", 42)]),
        ]
    );
    // Lines of the same name are one list, however they are cut.
    let policy = value(&decision, FieldName::Policy).unwrap();
    let lines: Vec<Member> = policy.split(", ").flat_map(parsed).collect();
    assert_eq!(lines, parsed(&policy));
    // The other family has room for the one that decided.
    assert_eq!(value(&decision, FieldName::XLimit).as_deref(), Some("10"));
}

#[test]
fn a_list_that_would_be_too_long_is_of_the_deciding_limit_alone() {
    let list = |count| {
        let decision = Decision {
            besides: besides(vec![burst(); count], Vec::new()),
            ..decision(ALLOWED, burst())
        };
        parsed(&value(&decision, FieldName::RateLimit).unwrap()).len()
    };
    assert_eq!((list(16), list(17)), (16, 1));
}

#[test]
fn a_soft_limit_that_is_exceeded_is_named_and_one_in_shadow_is_not() {
    let over = Outcome::Refused {
        retry_after: Nanos::from_secs(3),
    };
    for (mode, outcome, warning) in [
        (Mode::Soft, over, Some("\"api/burst\"")),
        (Mode::Soft, ALLOWED, None),
        (Mode::Shadow, over, None),
    ] {
        let advised = Advised {
            limit: burst(),
            mode,
            outcome,
        };
        let said = Decision {
            limit: None,
            besides: besides(Vec::new(), vec![advised]),
            ..decision(Outcome::Unlimited, burst())
        };
        let told = fields(&said);
        let told = told.iter().map(|field| (field.name, field.value.as_str()));
        let expected = warning.map(|name| (FieldName::Warning, name));
        assert!(told.eq(expected), "{mode:?}, {outcome:?}");
    }
}
