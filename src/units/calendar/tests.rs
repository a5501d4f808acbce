use jiff::tz::{AmbiguousOffset, TimeZone};
use proptest::prelude::*;

use super::*;

fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

fn calendar(unit: CalendarUnit, zone: &str) -> Calendar {
    Calendar::new(unit, zone).unwrap()
}

/// The moment written so, such as `2026-03-29T00:00:00+01:00`.
fn at(text: &str) -> Timestamp {
    let moment: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_nanos(moment.as_nanosecond().try_into().unwrap())
}

/// When the window of `now` begins and ends, as the clock of the place shows it.
fn span(calendar: Calendar, now: &str) -> (String, u64) {
    let (start, length) = calendar.span(calendar.at(at(now)));
    let start = jiff::Timestamp::from_nanosecond(start.as_nanos().into()).unwrap();
    let offset = zone(&calendar.0.zone).to_offset(start);
    (
        start.display_with_offset(offset).to_string(),
        length.get() / (SECOND * 60),
    )
}

#[test]
fn a_day_is_an_hour_shorter_or_longer_where_the_clock_is_put() {
    let berlin = calendar(CalendarUnit::Day, "Europe/Berlin");
    let day = |text| span(berlin, text);
    let hours = |start: &str, hours: u64| (start.to_owned(), hours * 60);
    assert_eq!(
        day("2026-03-28T12:00:00Z"),
        hours("2026-03-28T00:00:00+01:00", 24)
    );
    assert_eq!(
        day("2026-03-28T23:00:00Z"),
        hours("2026-03-29T00:00:00+01:00", 23)
    );
    assert_eq!(
        day("2026-03-29T21:59:59Z"),
        hours("2026-03-29T00:00:00+01:00", 23)
    );
    assert_eq!(
        day("2026-03-29T22:00:00Z"),
        hours("2026-03-30T00:00:00+02:00", 24)
    );
    assert_eq!(
        day("2026-10-24T22:00:00Z"),
        hours("2026-10-25T00:00:00+02:00", 25)
    );
    assert_eq!(
        day("2026-10-25T22:59:59Z"),
        hours("2026-10-25T00:00:00+02:00", 25)
    );
    assert_eq!(
        day("2026-10-25T23:00:00Z"),
        hours("2026-10-26T00:00:00+01:00", 24)
    );
}

#[test]
fn a_day_whose_midnight_does_not_exist_begins_when_the_clock_has_jumped_over_it() {
    let day = |zone, text| span(calendar(CalendarUnit::Day, zone), text);
    let minutes = |start: &str, minutes| (start.to_owned(), minutes);
    // At midnight, which becomes one o'clock.
    let sao_paulo = |text| day("America/Sao_Paulo", text);
    assert_eq!(
        sao_paulo("2018-11-04T02:59:59Z"),
        minutes("2018-11-03T00:00:00-03:00", 24 * 60)
    );
    assert_eq!(
        sao_paulo("2018-11-04T03:00:00Z"),
        minutes("2018-11-04T01:00:00-02:00", 23 * 60)
    );
    let cairo = |text| day("Africa/Cairo", text);
    assert_eq!(
        cairo("2026-04-23T22:00:00Z"),
        minutes("2026-04-24T01:00:00+03:00", 23 * 60)
    );
}

#[test]
fn a_day_whose_midnight_comes_twice_begins_once() {
    // At midnight the clock goes back to eleven.
    let sao_paulo = calendar(CalendarUnit::Day, "America/Sao_Paulo");
    let twice = ("2018-02-17T00:00:00-02:00".to_owned(), 25 * 60);
    assert_eq!(span(sao_paulo, "2018-02-18T01:59:59Z"), twice);
    assert_eq!(span(sao_paulo, "2018-02-18T02:59:59Z"), twice);
    let after = ("2018-02-18T00:00:00-03:00".to_owned(), 24 * 60);
    assert_eq!(span(sao_paulo, "2018-02-18T03:00:00Z"), after);
    // At one o'clock it goes back to midnight.
    let havana = calendar(CalendarUnit::Day, "America/Havana");
    let twice = ("2024-11-03T00:00:00-04:00".to_owned(), 25 * 60);
    assert_eq!(span(havana, "2024-11-03T04:00:00Z"), twice);
    assert_eq!(span(havana, "2024-11-03T05:00:00Z"), twice);
    // One minute past midnight it goes back to one minute past eleven of the day before.
    let johns = calendar(CalendarUnit::Day, "America/St_Johns");
    let first = ("2009-11-01T00:00:00-02:30".to_owned(), 25 * 60);
    assert_eq!(span(johns, "2009-11-01T02:30:30Z"), first);
    assert_eq!(span(johns, "2009-11-01T02:31:00Z"), first);
}

#[test]
fn offsets_need_not_be_of_whole_hours() {
    let day = |zone, text| span(calendar(CalendarUnit::Day, zone), text).0;
    assert_eq!(
        day("Asia/Kathmandu", "2026-11-30T12:00:00Z"),
        "2026-11-30T00:00:00+05:45"
    );
    assert_eq!(
        day("Pacific/Chatham", "2026-11-30T12:00:00Z"),
        "2026-12-01T00:00:00+13:45"
    );
    assert_eq!(
        day("Australia/Lord_Howe", "2026-04-05T12:00:00Z"),
        "2026-04-05T00:00:00+11:00"
    );
    let lord_howe = calendar(CalendarUnit::Day, "Australia/Lord_Howe");
    assert_eq!(span(lord_howe, "2026-04-04T13:00:00Z").1, 24 * 60 + 30);
}

#[test]
fn a_day_that_a_place_has_left_out_is_a_window_without_length() {
    let apia = calendar(CalendarUnit::Day, "Pacific/Apia");
    let before = apia.at(at("2011-12-30T09:59:59Z"));
    let after = apia.at(at("2011-12-30T10:00:00Z"));
    assert_eq!(after, before.next().next());
    assert_eq!(
        apia.span(before.next()),
        (at("2011-12-30T10:00:00Z"), Nanos::ZERO)
    );
    assert_eq!(apia.span(after).0, at("2011-12-30T10:00:00Z"));
    let windows = crate::units::Windows::Calendar(apia);
    assert!(!windows.holds(before.next(), at("2011-12-30T10:00:00Z")));
}

#[test]
fn weeks_begin_on_mondays_and_months_on_the_first() {
    let week = |text| span(calendar(CalendarUnit::Week, "Europe/Berlin"), text);
    let month = |text| span(calendar(CalendarUnit::Month, "UTC"), text);
    let days = |start: &str, days: u64| (start.to_owned(), days * 24 * 60);
    assert_eq!(
        week("2026-11-29T22:59:59Z"),
        days("2026-11-23T00:00:00+01:00", 7)
    );
    assert_eq!(
        week("2026-11-29T23:00:00Z"),
        days("2026-11-30T00:00:00+01:00", 7)
    );
    let switch = week("2026-10-22T12:00:00Z");
    assert_eq!(switch, ("2026-10-19T00:00:00+02:00".to_owned(), 169 * 60));
    // The first ISO week of 2027 begins on 4 January.
    assert_eq!(week("2027-01-03T22:59:59Z").0, "2026-12-28T00:00:00+01:00");
    assert_eq!(
        month("2026-02-28T23:59:59.999999999Z"),
        days("2026-02-01T00:00:00+00:00", 28)
    );
    assert_eq!(
        month("2028-02-29T12:00:00Z"),
        days("2028-02-01T00:00:00+00:00", 29)
    );
    assert_eq!(
        month("2027-01-01T00:00:00Z"),
        days("2027-01-01T00:00:00+00:00", 31)
    );
}

#[test]
fn numbers_are_those_of_local_dates() {
    let id = |unit, zone, text| calendar(unit, zone).at(at(text)).get();
    assert_eq!(id(CalendarUnit::Day, "UTC", "2026-11-30T00:00:00Z"), 20_787);
    assert_eq!(
        id(CalendarUnit::Day, "Asia/Tokyo", "2026-11-30T15:00:00Z"),
        20_788
    );
    assert_eq!(
        id(
            CalendarUnit::Day,
            "America/New_York",
            "2026-11-30T04:59:59Z"
        ),
        20_786
    );
    assert_eq!(
        id(CalendarUnit::Month, "UTC", "2026-11-30T00:00:00Z"),
        56 * 12 + 10
    );
    assert_eq!(id(CalendarUnit::Week, "UTC", "1970-01-05T00:00:00Z"), 1);
}

#[test]
fn calendars_are_known_by_the_names_they_write() {
    let kathmandu = calendar(CalendarUnit::Week, "asia/KATHMANDU");
    assert_eq!(kathmandu.to_string(), "week@Asia/Kathmandu");
    assert_eq!(Calendar::known("week@Asia/Kathmandu"), Some(kathmandu));
    assert_eq!(calendar(CalendarUnit::Month, "UTC").to_string(), "month");
    assert_eq!(
        Calendar::known("month"),
        Some(calendar(CalendarUnit::Month, "utc"))
    );
    assert_eq!(Calendar::known("week@Europe/Atlantis"), None);
    assert_eq!(
        Calendar::new(CalendarUnit::Day, "Europe/Atlantis"),
        Err(UnknownZone)
    );
    assert_eq!(Calendar::new(CalendarUnit::Day, ""), Err(UnknownZone));
}

#[test]
fn windows_go_on_to_the_end_of_time_and_nothing_overflows_there() {
    for unit in CalendarUnit::ALL {
        for zone in ["UTC", "Europe/Berlin", "Pacific/Apia"] {
            let calendar = calendar(unit, zone);
            let end = Timestamp::from_nanos(u64::MAX);
            let last = calendar.at(end);
            let (start, length) = calendar.span(last);
            assert!(start <= end && length <= Nanos::from_secs(32 * DAY));
            assert!(end.since(start) <= length);
            assert!(calendar.at(start.before(Nanos::new(1))) < last);
            let never = calendar.span(WindowId::new(u64::MAX)).0;
            assert!(never >= start, "{calendar}: {never:?}");
            assert_eq!(calendar.at(Timestamp::EPOCH), WindowId::default());
        }
    }
}

/// The moment that the date numbered `day` begins in `zone`, by the library alone: of all
/// moments that the clock there shows it at, the first.
fn first_moment(day: civil::Date, zone: &TimeZone) -> i64 {
    let midnight = day.at(0, 0, 0, 0);
    let utc = |offset: jiff::tz::Offset| offset.to_timestamp(midnight).unwrap().as_second();
    match zone.to_ambiguous_timestamp(midnight).offset() {
        AmbiguousOffset::Unambiguous { offset } => utc(offset),
        AmbiguousOffset::Fold { before, .. } => utc(before),
        // The clock jumps over it at the last change before the moment that it would be,
        // had the clock been put already.
        AmbiguousOffset::Gap { before, .. } => {
            let after = jiff::Timestamp::from_second(utc(before) + 1).unwrap();
            zone.preceding(after)
                .next()
                .unwrap()
                .timestamp()
                .as_second()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn windows_are_those_of_the_library_in_all_zones(
        number in any::<prop::sample::Index>(),
        unit in prop::sample::select(&CalendarUnit::ALL[..]),
        second in 40 * 86_400_i64..END - 40 * 86_400,
        // Mostly in a few hours around a change of the clock.
        near in prop::option::weighted(0.7, -90_000_i64..90_000),
    ) {
        let zones = Calendar::zones();
        let name = number.get(&zones);
        let (calendar, zone) = (calendar(unit, name), zone(name));
        let mut moment = jiff::Timestamp::from_second(second).unwrap();
        if let Some(near) = near
            && let Some(change) = zone.following(moment).next()
        {
            let second = change.timestamp().as_second() + near;
            moment = jiff::Timestamp::from_second(second.min(END - 40 * 86_400)).unwrap();
        }
        let now = Timestamp::from_nanos(u64::try_from(moment.as_second()).unwrap() * SECOND);
        let id = calendar.at(now);
        let (start, length) = calendar.span(id);

        // The date that the window is of: the latest that the clock has shown.
        let shown = moment.to_zoned_datetime(zone.clone()).date();
        let latest = shown.tomorrow().unwrap();
        let date = if first_moment(latest, &zone) <= moment.as_second() { latest } else { shown };
        let (first, next) = match unit {
            CalendarUnit::Day => (date, date.tomorrow().unwrap()),
            CalendarUnit::Week => {
                let monday = date.saturating_sub(jiff::Span::new().days(
                    date.weekday().to_monday_zero_offset(),
                ));
                (monday, monday.saturating_add(jiff::Span::new().days(7)))
            }
            CalendarUnit::Month => {
                let first = date.first_of_month();
                (first, first.saturating_add(jiff::Span::new().months(1)))
            }
        };
        let nanos = |date| Timestamp::from_nanos(
            u64::try_from(first_moment(date, &zone)).unwrap() * SECOND,
        );
        prop_assert_eq!(start, nanos(first), "{} {}", name, moment);
        prop_assert_eq!(start.after(length), nanos(next), "{} {}", name, moment);

        let windows = crate::units::Windows::Calendar(calendar);
        prop_assert!(windows.holds(id, now));
        prop_assert_eq!(windows.start(id.next()), windows.end(id));
        prop_assert_eq!(calendar.at(start), id);
        prop_assert!(calendar.at(start.before(Nanos::new(1))) < id);
        prop_assert!(!windows.holds(id, windows.end(id)));
    }
}
