use prost_types::value::Kind;

use super::*;
use crate::engine::{Advised, Besides};
use crate::units::{Answers as Style, Mode, Series, Timestamp};

const ALLOWED: Outcome = Outcome::Allowed { delay: Nanos::ZERO };
const EVERYTHING: Telling = Telling {
    headers: Headers::All,
    dynamic_metadata: true,
};
const NOTHING: Telling = Telling {
    headers: Headers::None,
    dynamic_metadata: false,
};

fn decision(rule: &'static str, outcome: Outcome, remaining: u64) -> Decision<'static> {
    Decision {
        outcome,
        limit: Some(DescribedLimit {
            rule,
            name: "default",
            series: Series(1),
            limit: 10,
            remaining,
            reset_after: Nanos::from_millis(41_200),
            amount: 10,
            period: Nanos::from_secs(60),
            answers: Style::of_no_rule(),
        }),
        stale: None,
        now: Timestamp::from_nanos(1_700_000_000_400_000_000),
        besides: None,
    }
}

fn unlimited() -> Decision<'static> {
    Decision {
        outcome: Outcome::Unlimited,
        limit: None,
        ..decision("", ALLOWED, 0)
    }
}

fn refused(seconds: u64) -> Outcome {
    Outcome::Refused {
        retry_after: Nanos::from_secs(seconds),
    }
}

fn response(telling: Telling, decisions: &[Decision<'_>]) -> RateLimitResponse {
    let mut answers = Answers::new(decisions.len(), telling);
    for (place, decision) in decisions.iter().enumerate() {
        answers.set(place, decision);
    }
    answers.finish().unwrap()
}

fn headers(response: &RateLimitResponse) -> Vec<(&str, &str)> {
    let told = response.response_headers_to_add.iter();
    told.map(|it| (it.key.as_str(), it.value.as_str()))
        .collect()
}

#[test]
fn every_descriptor_has_its_status_in_order() {
    let told = response(NOTHING, &[decision("a", ALLOWED, 4), unlimited()]);
    assert_eq!(told.overall_code(), Code::Ok);
    let [first, second] = &told.statuses[..] else {
        panic!("{told:?}");
    };
    assert_eq!(first.code(), Code::Ok);
    let limit = first.current_limit.as_ref().unwrap();
    assert_eq!(
        (limit.requests_per_unit, limit.unit()),
        (10, WireUnit::Minute)
    );
    assert_eq!((limit.name.as_str(), limit.unit_multiplier), ("", None));
    assert_eq!(first.limit_remaining, 4);
    let until_reset = first.duration_until_reset.unwrap();
    assert_eq!((until_reset.seconds, until_reset.nanos), (42, 0));
    assert_eq!(second.code(), Code::Ok);
    assert_eq!((&second.current_limit, second.limit_remaining), (&None, 0));
}

#[test]
fn one_refusal_is_over_the_limit_for_all_whatever_it_is() {
    for outcome in [
        refused(1),
        Outcome::Impossible,
        Outcome::Banned,
        Outcome::Unidentified,
    ] {
        let told = response(
            NOTHING,
            &[unlimited(), decision("a", outcome, 0), unlimited()],
        );
        assert_eq!(told.overall_code(), Code::OverLimit, "{outcome:?}");
        let codes: Vec<Code> = told.statuses.iter().map(DescriptorStatus::code).collect();
        assert_eq!(codes, [Code::Ok, Code::OverLimit, Code::Ok], "{outcome:?}");
    }
}

#[test]
fn what_admits_without_a_limit_to_rely_on_tells_none() {
    let bypassed = decision("a", Outcome::Bypassed, 7);
    let unknown = Decision {
        outcome: Outcome::UnknownRule,
        ..unlimited()
    };
    let told = response(EVERYTHING, &[bypassed, unknown]);
    assert_eq!(told.overall_code(), Code::Ok);
    for status in &told.statuses {
        assert_eq!(*status, super::status(Code::Ok));
    }
    assert_eq!((headers(&told), &told.dynamic_metadata), (vec![], &None));
}

#[test]
fn a_lost_store_is_an_error_and_no_answer() {
    let mut answers = Answers::new(2, NOTHING);
    answers.set(0, &decision("a", Outcome::Unavailable, 0));
    answers.set(1, &decision("b", refused(1), 0));
    assert_eq!(answers.finish(), Err(StoreLost));
}

#[test]
fn numbers_saturate() {
    let mut large = decision("a", ALLOWED, u64::MAX);
    if let Some(limit) = &mut large.limit {
        (limit.limit, limit.amount) = (u64::MAX, u64::MAX);
    }
    let told = response(NOTHING, &[large]);
    let [status] = &told.statuses[..] else {
        panic!("{told:?}");
    };
    assert_eq!(status.limit_remaining, u32::MAX);
    let limit = status.current_limit.as_ref().unwrap();
    assert_eq!(limit.requests_per_unit, u32::MAX);
}

#[test]
fn a_time_is_told_in_the_largest_unit_that_it_is_whole_in() {
    const DAY: u64 = 86_400;
    for (seconds, wanted) in [
        (1, (WireUnit::Second, 1)),
        (10, (WireUnit::Second, 10)),
        (60, (WireUnit::Minute, 1)),
        (5_400, (WireUnit::Minute, 90)),
        (3_600, (WireUnit::Hour, 1)),
        (DAY, (WireUnit::Day, 1)),
        (7 * DAY, (WireUnit::Week, 1)),
        (30 * DAY, (WireUnit::Month, 1)),
        (365 * DAY, (WireUnit::Year, 1)),
    ] {
        assert_eq!(unit(Nanos::from_secs(seconds)), wanted, "{seconds}");
    }
    assert_eq!(unit(Nanos::from_millis(500)), (WireUnit::Unknown, 1));
    assert_eq!(unit(Nanos::ZERO), (WireUnit::Unknown, 1));
}

#[test]
fn headers_are_of_the_refusal_with_the_longest_wait_or_of_the_least_remaining() {
    let x = |response: &RateLimitResponse| {
        let told = headers(response);
        let find = |name| {
            told.iter()
                .find(|(key, _)| *key == name)
                .map(|it| it.1.to_owned())
        };
        (find("x-ratelimit-remaining"), find("retry-after"))
    };
    let some = |text: &str| Some(text.to_owned());
    let told = response(
        EVERYTHING,
        &[
            decision("a", ALLOWED, 4),
            unlimited(),
            decision("b", ALLOWED, 3),
        ],
    );
    assert_eq!(x(&told), (some("3"), None));
    let told = response(
        EVERYTHING,
        &[
            decision("a", refused(5), 2),
            decision("b", refused(7), 1),
            decision("c", ALLOWED, 0),
        ],
    );
    assert_eq!(x(&told), (some("1"), some("7")));
    let told = response(
        EVERYTHING,
        &[
            decision("a", refused(5), 0),
            decision("b", Outcome::Banned, 0),
        ],
    );
    // Waiting does not help.
    assert_eq!(x(&told), (some("0"), None));
}

#[test]
fn a_warning_is_told_without_a_limit_that_decides_and_after_one_that_does() {
    let over = Advised {
        limit: *decision("soft", ALLOWED, 0).figures().unwrap(),
        mode: Mode::Soft,
        outcome: refused(9),
    };
    let warned = Decision {
        besides: Some(Box::new(Besides {
            all: Vec::new(),
            advised: vec![over],
        })),
        ..unlimited()
    };
    let told = response(EVERYTHING, &[unlimited(), warned.clone()]);
    assert_eq!(
        headers(&told),
        [("x-ratelimit-warning", "\"soft/default\"")]
    );
    let told = response(EVERYTHING, &[warned, decision("a", ALLOWED, 4)]);
    assert_eq!(headers(&told)[0], ("x-ratelimit-limit", "10"));
    let status = &told.statuses[0];
    assert_eq!((status.code(), &status.current_limit), (Code::Ok, &None));
}

#[test]
fn only_what_is_wanted_is_told() {
    let refusal = decision("a", refused(7), 0);
    let telling = |headers| Telling {
        headers,
        dynamic_metadata: false,
    };
    let told = response(telling(Headers::None), std::slice::from_ref(&refusal));
    assert_eq!((headers(&told), &told.dynamic_metadata), (vec![], &None));
    let told = response(telling(Headers::RetryAfter), std::slice::from_ref(&refusal));
    assert_eq!(headers(&told), [("retry-after", "7")]);
    let told = response(telling(Headers::RetryAfter), &[decision("a", ALLOWED, 1)]);
    assert_eq!(headers(&told), []);
    let told = response(telling(Headers::All), &[refusal]);
    assert_eq!(
        headers(&told),
        [
            ("x-ratelimit-limit", "10"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1700000042"),
            ("ratelimit-policy", "\"a/default\";q=10;w=60"),
            ("ratelimit", "\"a/default\";r=0;t=42"),
            ("retry-after", "7"),
        ]
    );
}

#[test]
fn other_filters_see_the_outcome_and_the_figures() {
    let told = response(EVERYTHING, &[decision("a", refused(7), 0)]);
    let metadata = told.dynamic_metadata.unwrap();
    let see = |name: &str| metadata.fields[name].kind.clone().unwrap();
    assert_eq!(see("outcome"), Kind::StringValue("refused".to_owned()));
    assert_eq!(see("rule"), Kind::StringValue("a".to_owned()));
    assert_eq!(see("limit"), Kind::NumberValue(10.0));
    assert_eq!(see("remaining"), Kind::NumberValue(0.0));
    assert_eq!(see("reset_seconds"), Kind::NumberValue(42.0));
}

fn quotas(outcomes: &[(bool, Outcome)]) -> RateLimitResponse {
    let mut answers = Answers::new(outcomes.len(), Telling::default());
    for (place, (is_quota, outcome)) in outcomes.iter().enumerate() {
        let rule = Matched {
            rule: "a",
            name: Some("called"),
            is_quota: *is_quota,
        };
        answers.matched(place, &rule);
        answers.set(place, &decision("a", *outcome, 0));
    }
    answers.finish().unwrap()
}

#[test]
fn quotas_refuse_only_together() {
    let over = |told: &RateLimitResponse| told.overall_code() == Code::OverLimit;
    let told = quotas(&[(true, refused(3)), (true, ALLOWED)]);
    assert!(!over(&told));
    assert_eq!(told.statuses[0].code(), Code::OverLimit);
    assert_eq!(headers(&told), []);
    let told = quotas(&[(true, refused(3)), (true, refused(5)), (false, ALLOWED)]);
    assert!(over(&told));
    assert_eq!(headers(&told), [("retry-after", "5")]);
    let told = quotas(&[(true, ALLOWED), (false, refused(2))]);
    assert!(over(&told));
    assert_eq!(headers(&told), [("retry-after", "2")]);
}

#[test]
fn the_limit_has_the_name_that_the_rule_gives_it() {
    let told = quotas(&[(false, ALLOWED)]);
    let limit = told.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!(limit.name, "called");
}

#[test]
fn what_is_unlimited_has_more_left_than_can_be_told() {
    let mut answers = Answers::new(1, NOTHING);
    let rule = Matched {
        rule: "a",
        name: None,
        is_quota: false,
    };
    answers.matched(0, &rule);
    answers.set(0, &unlimited());
    let told = answers.finish().unwrap();
    let status = &told.statuses[0];
    assert_eq!(
        (status.code(), status.limit_remaining),
        (Code::Ok, u32::MAX)
    );
    assert_eq!(status.current_limit, None);
}
