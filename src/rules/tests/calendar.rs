//! Windows of the calendar.

use super::*;
use crate::units::{Algorithm, Calendar, CalendarUnit, Windows};

/// The limits of a rule with these `fields`: name, windows, id.
fn limits(file: &str) -> Vec<(String, String, String)> {
    let rules = rules(file);
    let limits = rules.limits().iter();
    limits
        .map(|limit| {
            (
                limit.name.to_string(),
                limit.quota.windows().to_string(),
                limit.id.as_str().to_owned(),
            )
        })
        .collect()
}

fn fault(limit: &str) -> String {
    let mut faults = faults(&format!("rules:\n- name: r\n  limits: {limit}"));
    assert_eq!(faults.len(), 1, "{faults:#?}");
    faults.remove(0)
}

#[test]
fn days_weeks_and_months_are_counted_in_utc_by_fixed_windows() {
    for unit in CalendarUnit::ALL {
        let name = unit.name();
        let rules = rules(&format!(
            "rules: [{{name: r, limits: {{requests: 5, window: {name}}}}}]"
        ));
        let limit = &rules.limits()[0];
        let calendar = Calendar::new(unit, "UTC").unwrap();
        assert_eq!(limit.quota.windows(), Windows::Calendar(calendar));
        assert_eq!(limit.quota.algorithm(), Algorithm::FixedWindow);
        assert_eq!((limit.quota.amount(), limit.quota.capacity()), (5, 5));
        assert_eq!(*limit.name, format!("default/{name}"));
        assert_eq!(
            limit.id.as_str(),
            format!("1:r/7:default/fixed_window/{name}")
        );
    }
}

#[test]
fn the_zone_of_a_limit_wins_over_that_of_its_rule_and_that_over_that_of_its_file() {
    let text = "
defaults: {time_zone: asia/tokyo}
policies: {named: [{requests: 4, window: week}]}
rules:
- name: a
  limits: [{requests: 1, window: day}, {requests: 9, window: 1d}, named]
- name: b
  time_zone: Europe/Berlin
  limits: [{requests: 2, window: day}, {requests: 3, window: day, time_zone: UTC}]
";
    let windows: Vec<String> = limits(text).into_iter().map(|limit| limit.1).collect();
    assert_eq!(
        windows,
        [
            "day@Asia/Tokyo",
            "1d",
            "week@Asia/Tokyo",
            "day@Europe/Berlin",
            "day"
        ]
    );
    let toml = "[defaults]\ntime_zone = \"Europe/Berlin\"\n[[rules]]\n\
                limits = { requests = 1, window = \"month\" }";
    let json = r#"{"rules": [{"limits": {"requests": 1, "window": "month", "time_zone": "Europe/Berlin"}}]}"#;
    for (name, text) in [("a.toml", toml), ("a.json", json)] {
        let rules = compile(&[(name, text)]).unwrap().rules;
        assert_eq!(
            rules.limits()[0].quota.windows().to_string(),
            "month@Europe/Berlin"
        );
    }
}

#[test]
fn another_window_or_zone_is_another_counter_and_another_amount_is_not() {
    let id = |limit: &str| {
        let file = format!("rules: [{{name: r, limits: {{{limit}}}}}]");
        limits(&file).remove(0).2
    };
    let day = id("requests: 5, window: day");
    assert_eq!(id("requests: 9, window: day"), day);
    assert_eq!(id("requests: 9, window: day, time_zone: utc"), day);
    let berlin = id("requests: 5, window: day, time_zone: Europe/Berlin");
    assert_eq!(
        id("requests: 5, window: day, time_zone: europe/berlin"),
        berlin
    );
    let others = [
        id("requests: 5, window: day, time_zone: Europe/Paris"),
        id("requests: 5, window: week"),
        id("requests: 5, window: 1d, algorithm: fixed_window"),
    ];
    for other in others {
        assert!(other != day && other != berlin, "{other}");
    }
}

#[test]
fn other_algorithms_are_told_what_to_write() {
    for algorithm in Algorithm::ALL {
        let limit = format!(
            "{{requests: 5, window: month, algorithm: {}}}",
            algorithm.name()
        );
        if algorithm == Algorithm::FixedWindow {
            assert_eq!(
                limits(&format!("rules: [{{name: r, limits: {limit}}}]")).len(),
                1
            );
            continue;
        }
        assert_eq!(
            fault(&limit),
            format!(
                "r.yaml:3:33: rule \"r\": limits.window: a `month` of the calendar is counted by \
                 fixed_window, not by {}; write `algorithm: fixed_window`, or `window: 30d` for \
                 that fixed length",
                algorithm.name()
            )
        );
    }
    let burst = fault("{requests: 5, window: day, burst: 9}");
    assert!(
        burst.contains("only token_bucket and leaky_bucket have a burst"),
        "{burst}"
    );
}

#[test]
fn misspelt_units_are_told_what_was_meant() {
    for (text, unit, fixed) in [
        ("mnoth", "month", "30d"),
        ("months", "month", "30d"),
        ("monthly", "month", "30d"),
        ("Month", "month", "30d"),
        ("1mo", "month", "30d"),
        ("1M", "month", "30d"),
        ("1 month", "month", "30d"),
        ("1w", "week", "7d"),
        ("1week", "week", "7d"),
        ("weeks", "week", "7d"),
        ("dayly", "day", "1d"),
        ("1day", "day", "1d"),
    ] {
        let fault = fault(&format!("{{requests: 5, window: {text}}}"));
        let wanted = format!(
            "limits.window: \"{text}\" is not a window; write `{unit}` for that of the calendar, or \
             {fixed} for that fixed length"
        );
        assert!(fault.ends_with(&wanted), "{fault}");
    }
    let years = fault("{requests: 5, window: year}");
    assert!(
        years.contains("is not a duration; write 365d for that fixed length"),
        "{years}"
    );
}

#[test]
fn misspelt_zones_are_told_what_was_meant() {
    for (text, hint) in [
        ("Europe/Berlni", "did you mean `Europe/Berlin`?"),
        ("Berlin", "did you mean `Europe/Berlin`?"),
        ("America/Sao_Paolo", "did you mean `America/Sao_Paulo`?"),
        ("Europa/Kathmandu", "did you mean `Asia/Kathmandu`?"),
        (
            "\"+02:00\"",
            "write an IANA name, such as Europe/Berlin or UTC",
        ),
        ("\"\"", "write an IANA name, such as Europe/Berlin or UTC"),
    ] {
        let fault = fault(&format!("{{requests: 5, window: day, time_zone: {text}}}"));
        let text = text.trim_matches('"');
        let wanted = format!("limits.time_zone: \"{text}\" is not a time zone; {hint}");
        assert!(fault.ends_with(&wanted), "{fault}");
    }
    let all = faults("defaults: {time_zone: CEST2}\nrules: [{limits: {requests: 1, window: 1m}}]");
    assert!(
        all[0].contains("defaults.time_zone: \"CEST2\" is not a time zone"),
        "{all:?}"
    );
    let hostile = fault(&format!(
        "{{requests: 5, window: day, time_zone: {}}}",
        "x/".repeat(5_000)
    ));
    assert!(hostile.len() < 400, "{hostile}");
}

#[test]
fn a_zone_of_no_calendar_is_told_of() {
    let fault = fault("{requests: 5, window: 1d, time_zone: Europe/Berlin}");
    assert!(
        fault.contains(
            "limits.time_zone: a window of 1d is the same in every time zone; leave time_zone out, \
             or write `window: day`, `week` or `month`"
        ),
        "{fault}"
    );
}

#[test]
fn limits_of_one_unit_in_two_zones_are_two_limits() {
    let two = "rules: [{name: r, limits: [{requests: 5, window: day}, \
               {requests: 5, window: day, time_zone: Asia/Tokyo}]}]";
    assert_eq!(limits(two).len(), 2);
    let twice = "{requests: 5, window: day}, {requests: 6, window: day, time_zone: utc}";
    let fault = fault(&format!("[{twice}]"));
    assert!(fault.contains("limits[1]"), "{fault}");
}
