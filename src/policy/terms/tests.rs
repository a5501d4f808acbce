use super::*;

const MILLI: Nanos = Nanos::from_millis(1);

/// 1,000 a second for ten nodes.
fn terms(supply: Supply) -> Terms {
    Terms {
        pace: Pace::default(),
        period: Nanos::from_secs(1),
        amount: 1_000,
        capacity: 1_000,
        supply,
        promise: Consistency::Approximate,
        nodes: 10,
        trip: MILLI,
    }
}

/// In the middle of a window of which half is used, with a demand of 100 of 1,000.
fn standing() -> Standing {
    Standing {
        used: 500,
        hold: 0,
        unsent: 0,
        age: Nanos::from_millis(20),
        heard: true,
        left: Nanos::from_millis(500),
        own: 100.0,
        fleet: 1_000.0,
        at_least: 1_000.0,
        certain: 1_000.0,
        share_then: 0.1,
        overdue: false,
    }
}

#[test]
fn a_calm_cell_is_silent_until_a_fiftieth_and_urgent_at_its_part_of_what_is_left() {
    let terms = terms(Supply::AtTheTurn);
    assert_eq!(terms.calm(1_000, 2, false), Pressure::Silent);
    assert_eq!(terms.calm(1_000, 3, false), Pressure::Far);
    assert_eq!(terms.calm(1_000, 12, false), Pressure::Urgent);
    assert_eq!(terms.calm(1_000, 12, true), Pressure::Far);
    assert_eq!(terms.calm(1_000, 50, true), Pressure::Urgent);
    assert_eq!(terms.calm(0, 1, true), Pressure::Urgent);
}

#[test]
fn a_limit_that_will_not_be_reached_is_far() {
    let terms = terms(Supply::AtTheTurn);
    let slow = Standing {
        fleet: 380.0,
        ..standing()
    };
    assert!(
        slow.is_far(&terms),
        "6 unheard of, and 190 more by the end of the window"
    );
    assert!(!standing().is_far(&terms));
}

#[test]
fn where_room_comes_back_bit_by_bit_the_rate_decides_what_is_far() {
    let terms = terms(Supply::Continuous);
    let slow = Standing {
        fleet: 690.0,
        ..standing()
    };
    assert!(slow.is_far(&terms));
    assert!(!standing().is_far(&terms));
}

#[test]
fn slow_demand_is_admitted_from_the_view_and_fast_demand_from_a_lease() {
    let terms = terms(Supply::AtTheTurn);
    assert!(standing().admits(Cost::ONE, &terms));
    assert!(!standing().leases(&terms));
    let fast = Standing {
        fleet: 100_000.0,
        certain: 100_000.0,
        ..standing()
    };
    assert!(fast.leases(&terms));
    assert!(!fast.admits(Cost::ONE, &terms), "2,600 may come meanwhile");
}

#[test]
fn fast_demand_is_admitted_without_a_lease_while_there_is_room_for_all_of_it() {
    let terms = terms(Supply::AtTheTurn);
    let just_heard = Standing {
        age: MILLI,
        fleet: 50_000.0,
        certain: 50_000.0,
        ..standing()
    };
    assert!(just_heard.admits(Cost::new(100), &terms), "355 may come");
    assert!(!just_heard.admits(Cost::new(200), &terms));
}

#[test]
fn when_the_store_is_overdue_only_what_there_is_surely_room_for_is_admitted() {
    let terms = terms(Supply::AtTheTurn);
    let overdue = Standing {
        overdue: true,
        age: Nanos::from_millis(400),
        ..standing()
    };
    assert!(overdue.admits(Cost::ONE, &terms), "365 may have come");
    let long = Standing {
        age: Nanos::from_millis(600),
        ..overdue
    };
    assert!(!long.admits(Cost::ONE, &terms));
}

#[test]
fn a_lease_lasts_until_the_next_exchange_or_the_end_of_the_window() {
    let terms = terms(Supply::AtTheTurn);
    // 100 a second for 106 ms, two deviations and one.
    assert_eq!(standing().need(&terms), 19);
    let last = Standing {
        left: Nanos::from_millis(10),
        ..standing()
    };
    assert_eq!(last.need(&terms), 4);
    assert_eq!(standing().portion(), 100_000);
}

#[test]
fn a_bounded_cell_far_from_the_limit_of_a_long_window_borrows_for_seconds_and_not_for_days() {
    let day = Nanos::from_secs(86_400);
    let terms = Terms {
        period: day,
        amount: 100_000,
        capacity: 100_000,
        promise: Consistency::Bounded,
        ..terms(Supply::AtTheTurn)
    };
    let calm = Standing {
        used: 0,
        left: day.divided_by(8),
        own: 1.0,
        fleet: 2.0,
        at_least: 2.0,
        certain: 2.0,
        ..standing()
    };
    assert_eq!(calm.need(&terms), covering(5.006));
    assert_eq!(calm.need_of_the_next_window(&terms), 0);
    let at_the_end = Standing {
        left: Nanos::from_secs(4),
        ..calm
    };
    assert_eq!(at_the_end.need_of_the_next_window(&terms), covering(5.006));
}

#[test]
fn a_lease_in_advance_is_wanted_only_shortly_before_a_window_that_will_be_full() {
    let terms = terms(Supply::AtTheTurn);
    let soon = Standing {
        left: Nanos::from_millis(100),
        fleet: 10_000.0,
        own: 1_000.0,
        ..standing()
    };
    assert_eq!(soon.need_of_the_next_window(&terms), 128);
    let early = Standing {
        left: Nanos::from_millis(500),
        ..soon
    };
    assert_eq!(early.need_of_the_next_window(&terms), 0);
    let slow = Standing {
        fleet: 600.0,
        ..soon
    };
    assert_eq!(slow.need_of_the_next_window(&terms), 0);
}

#[test]
fn nothing_overflows() {
    let terms = Terms {
        capacity: u64::MAX,
        amount: u64::MAX,
        ..terms(Supply::Continuous)
    };
    let all = Standing {
        used: u64::MAX,
        hold: u64::MAX,
        unsent: u64::MAX,
        own: f64::MAX,
        fleet: f64::MAX,
        certain: f64::MAX,
        ..standing()
    };
    assert!(!all.admits(Cost::new(u64::MAX), &terms));
    assert_eq!(all.need(&terms), u64::MAX);
    assert!(all.portion() <= 1_000_000);
}
