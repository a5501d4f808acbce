//! Windows of the calendar, on a clock of the test's own.

use jiff::civil::date;
use jiff::tz::TimeZone;

use super::*;

const BERLIN: &str = "
rules:
  - name: api
    limits: {requests: 3, window: day, time_zone: Europe/Berlin}
";
const HOUR: Nanos = Nanos::from_secs(3_600);
const TICK: Nanos = Nanos::new(1);

/// The moment written so, such as `2026-03-29T00:00:00+01:00`.
fn at(text: &str) -> Timestamp {
    let moment: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_nanos(moment.as_nanosecond().try_into().unwrap())
}

/// What a check of one is told: the outcome, what is left, and until when.
fn check(engine: &Engine, now: Timestamp) -> (Outcome, u64, Nanos) {
    let snapshot = engine.snapshot();
    let decision = snapshot.decide(&named("api", "alice", 1), now);
    let limit = decision.limit.unwrap();
    (decision.outcome, limit.remaining, limit.reset_after)
}

fn allowed() -> Outcome {
    Outcome::Allowed { delay: Nanos::ZERO }
}

/// Walks through a day that begins and ends so, `from` an hour before to an hour after it,
/// asking every quarter of an hour, and answers when something was admitted.
fn admitted(engine: &Engine, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
    let quarter = HOUR.divided_by(4);
    let mut now = from.before(HOUR);
    let mut admitted = Vec::new();
    while now < to.after(HOUR) {
        if check(engine, now).0.is_allowed() {
            admitted.push(now);
        }
        now = now.after(quarter);
    }
    admitted
}

#[test]
fn a_day_of_23_or_25_hours_resets_exactly_once() {
    for (from, to, hours) in [
        ("2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00", 23),
        ("2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00", 25),
    ] {
        let engine = engine(BERLIN);
        let (from, to) = (at(from), at(to));
        assert_eq!(to.since(from), HOUR.times(hours));
        let quarters = |begin: Timestamp| {
            [0, 15, 30].map(|minutes| begin.after(Nanos::from_secs(60 * minutes)))
        };
        let expected = [quarters(from.before(HOUR)), quarters(from), quarters(to)].concat();
        assert_eq!(admitted(&engine, from, to), expected);
    }
}

#[test]
fn what_is_told_of_a_switch_day_is_right_to_the_nanosecond() {
    let engine = engine(BERLIN);
    let (from, to) = (
        at("2026-10-25T00:00:00+02:00"),
        at("2026-10-26T00:00:00+01:00"),
    );
    let whole = HOUR.times(25);
    assert_eq!(check(&engine, from), (allowed(), 2, whole));
    // Half past two comes twice, and the second is an hour later.
    let first = at("2026-10-25T02:30:00+02:00");
    let second = at("2026-10-25T02:30:00+01:00");
    assert_eq!(check(&engine, first), (allowed(), 1, to.since(first)));
    assert_eq!(check(&engine, second), (allowed(), 0, to.since(second)));
    assert_eq!(second.since(first), HOUR);
    let retry_after = to.since(second);
    assert_eq!(
        check(&engine, second),
        (Outcome::Refused { retry_after }, 0, retry_after)
    );
    let last = to.before(TICK);
    let retry_after = TICK;
    assert_eq!(
        check(&engine, last),
        (Outcome::Refused { retry_after }, 0, TICK)
    );
    assert_eq!(check(&engine, to), (allowed(), 2, HOUR.times(24)));

    let snapshot = engine.snapshot();
    for (now, length) in [(first, whole), (to, HOUR.times(24))] {
        let decision = snapshot.decide(&named("api", "alice", 0), now);
        assert_eq!(decision.limit.unwrap().period, length);
    }
}

#[test]
fn who_waits_as_long_as_is_told_is_always_admitted() {
    let rules = |unit: &str, zone: &str| {
        format!(
            "rules: [{{name: api, limits: {{requests: 1, window: {unit}, time_zone: {zone}}}}}]"
        )
    };
    for zone in [
        "Europe/Berlin",
        "America/Sao_Paulo",
        "Africa/Cairo",
        "Asia/Kathmandu",
        "Australia/Lord_Howe",
        "America/Havana",
        "Pacific/Apia",
    ] {
        for unit in ["day", "week", "month"] {
            let engine = engine(&rules(unit, zone));
            let mut now = at("2009-09-28T13:14:15.161718Z");
            let end = at("2027-01-01T00:00:00Z");
            let mut turns = 0;
            assert_eq!(check(&engine, now).0, allowed());
            while now < end {
                let (Outcome::Refused { retry_after }, 0, reset) = check(&engine, now) else {
                    panic!("{zone}, {unit}: not refused at {now:?}");
                };
                assert_eq!(retry_after, reset);
                now = now.after(retry_after);
                let (refused, ..) = check(&engine, now.before(TICK));
                assert_eq!(
                    refused,
                    Outcome::Refused { retry_after: TICK },
                    "{zone}, {unit}"
                );
                assert_eq!(check(&engine, now).0, allowed(), "{zone}, {unit}: {now:?}");
                turns += 1;
            }
            let (fewest, most) = match unit {
                "day" => (6_300, 6_305),
                "week" => (900, 902),
                _ => (207, 209),
            };
            assert!((fewest..=most).contains(&turns), "{zone}, {unit}: {turns}");
        }
    }
}

#[test]
fn a_month_is_as_long_as_it_is() {
    let engine = engine("rules: [{name: api, limits: {requests: 2, window: month}}]");
    let mut first = date(2027, 12, 1);
    for days in [31, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31, 28] {
        let moment = first.to_zoned_datetime(TimeZone::UTC).unwrap().timestamp();
        let now = Timestamp::from_nanos(moment.as_nanosecond().try_into().unwrap());
        assert_eq!(check(&engine, now), (allowed(), 1, HOUR.times(24 * days)));
        let late = now.after(HOUR.times(24 * days)).before(TICK);
        assert_eq!(check(&engine, late), (allowed(), 0, TICK));
        first = first.saturating_add(jiff::Span::new().months(1));
    }
}

#[test]
fn a_clock_that_goes_back_across_midnight_stays_in_the_new_day() {
    let engine = engine(BERLIN);
    let midnight = at("2026-03-30T00:00:00+02:00");
    assert_eq!(check(&engine, midnight.before(TICK)).0, allowed());
    assert_eq!(check(&engine, midnight).1, 2);
    // By a little: it is the same day still, and that of its end.
    let early = midnight.before(HOUR);
    assert_eq!(check(&engine, early), (allowed(), 1, HOUR.times(25)));
    assert_eq!(check(&engine, midnight), (allowed(), 0, HOUR.times(24)));
    // By days, to eleven in the evening: what a wrong clock has counted is of that day.
    let before = midnight.before(HOUR.times(24 * 5));
    let (outcome, remaining, reset) = check(&engine, before);
    assert!(!outcome.is_allowed());
    assert_eq!((remaining, reset), (0, HOUR));
}

#[test]
fn a_reload_keeps_what_was_used_unless_the_window_or_the_zone_is_another() {
    let limit = |fields: &str| format!("rules: [{{name: api, limits: {{{fields}}}}}]");
    let now = at("2026-11-30T12:00:00Z");
    let engine = engine(&limit(
        "requests: 10, window: day, time_zone: Europe/Berlin",
    ));
    for _ in 0..6 {
        check(&engine, now);
    }
    for (fields, left) in [
        ("requests: 20, window: day, time_zone: Europe/Berlin", 13),
        ("requests: 5, window: day, time_zone: Europe/Berlin", 0),
        ("requests: 10, window: day, time_zone: Asia/Tokyo", 9),
        ("requests: 10, window: week, time_zone: Europe/Berlin", 9),
        ("requests: 10, window: day", 9),
        ("requests: 10, window: 1d, algorithm: fixed_window", 9),
        ("requests: 20, window: day, time_zone: Europe/Berlin", 12),
    ] {
        super::reload::reload(&engine, &limit(fields));
        assert_eq!(check(&engine, now).1, left, "{fields}");
    }
}

#[test]
fn a_late_cost_counts_until_midnight_where_the_calendar_is_and_not_that_of_utc() {
    let engine = engine(BERLIN);
    let begin = |id: &str, moment| {
        let id = CheckId::new(id.as_bytes()).unwrap();
        let snapshot = engine.snapshot();
        let begun = snapshot.begin_as(&named("api", "alice", 1), id, moment);
        assert!(matches!(begun, Begun::Decided(decision) if decision.outcome.is_allowed()));
    };
    let late = |id: &str, moment| {
        let id = CheckId::new(id.as_bytes()).unwrap();
        match engine.settle(id, Total::Cost(Cost::new(2)), moment) {
            Settling::Done(settlement) => settlement.late(),
            Settling::Pending(pending) => panic!("{pending:?}"),
        }
    };
    begin("across UTC's", at("2026-11-30T23:58:00Z"));
    assert_eq!(late("across UTC's", at("2026-12-01T00:02:00Z")), 0);
    assert_eq!(check(&engine, at("2026-12-01T00:02:00Z")).1, 0);
    let next = at("2026-12-02T23:58:00+01:00");
    begin("late", next);
    assert_eq!(late("late", next.after(Nanos::from_secs(240))), 1);
    assert_eq!(check(&engine, next.after(Nanos::from_secs(240))).1, 2);
}
