mod parting;

use proptest::prelude::*;

use super::*;

const SECOND: Nanos = Nanos::from_secs(1);
const YEAR: Nanos = Nanos::from_secs(365 * 86_400);
const START: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);

fn at(secs: u64) -> Timestamp {
    START.after(Nanos::from_secs(secs))
}

/// A limit that grants what it has, and the subscribers of its bucket.
struct Place {
    room: Room,
    subscribers: Vec<Subscriber>,
}

impl Place {
    fn new(amount: u64, period: Nanos, supply: Supply) -> Place {
        let room = Room {
            amount,
            remaining: amount,
            period,
            reset_after: period,
            retry_after: None,
            supply,
        };
        Place {
            room,
            subscribers: Vec::new(),
        }
    }

    fn join(&mut self, now: Timestamp) -> usize {
        self.subscribers.push(Subscriber::new(now));
        self.subscribers.len() - 1
    }

    fn peers(&self, now: Timestamp) -> Peers {
        let all = || self.subscribers.iter();
        Peers {
            subscribers: u32::try_from(self.subscribers.len()).unwrap(),
            demand: all().map(Subscriber::demand).sum(),
            left: all().fold(Cost::ZERO, |sum, one| {
                Cost::new(sum.get().saturating_add(one.left(now).get()))
            }),
            waiting: all().map(|one| one.waits(now)).sum(),
            nodes: 1,
        }
    }

    fn look(&mut self, one: usize, now: Timestamp) -> Told {
        let peers = self.peers(now);
        let subscriber = &mut self.subscribers[one];
        match subscriber.wanted(&self.room, &peers, now) {
            Move::Take(cost) => {
                assert!(cost.get() <= self.room.remaining && !cost.is_peek());
                self.room.remaining -= cost.get();
                subscriber.took(cost, now);
            }
            Move::GiveBack(cost) => {
                assert!(cost <= subscriber.held() && !cost.is_peek());
                self.room.remaining = self.room.remaining.saturating_add(cost.get());
                subscriber.gave_back(cost);
            }
            Move::Keep => {}
        }
        let refuses = self.room.remaining == 0;
        self.room.retry_after = refuses.then_some(self.room.reset_after);
        let told = subscriber.told(&self.room, now);
        assert_whole(&told);
        told
    }

    fn report(&mut self, one: usize, allowed: u64, denied: u64, now: Timestamp) -> Told {
        let charge = self.subscribers[one].reported(allowed, denied, now);
        assert!(charge.get() <= allowed);
        self.look(one, now)
    }
}

/// What every gateway can read.
fn assert_whole(told: &Told) {
    let second = SECOND.get();
    assert!(told.time_to_live >= SECOND.times(2));
    assert_eq!(told.time_to_live.get() % second, 0);
    if let Some(Assignment::Bucket {
        max_tokens,
        tokens_per_fill,
        fill_interval,
    }) = told.assignment
    {
        assert!(max_tokens >= 1 && tokens_per_fill >= 1, "{told:?}");
        assert!(fill_interval >= SECOND, "{told:?}");
        assert!(fill_interval.get() % second > 0, "{told:?}");
    }
    assert!(told.look_again.is_none_or(|after| !after.is_zero()));
}

fn max_tokens(told: &Told) -> u32 {
    match told.assignment {
        Some(Assignment::Bucket { max_tokens, .. }) => max_tokens,
        other => panic!("{other:?}"),
    }
}

/// A subscriber that has reported `each` a second for ten seconds.
fn busy(place: &mut Place, each: u64) -> usize {
    let one = place.join(at(0));
    place.report(one, 1, 0, at(0));
    for secs in 1..=10 {
        place.report(one, each, 0, at(secs));
    }
    one
}

#[test]
fn a_newcomer_is_assigned_a_part_of_the_room_and_what_it_admitted_before_is_charged() {
    let mut place = Place::new(100, SECOND.times(60), Supply::AtTheTurn);
    let one = place.join(at(0));
    assert_eq!(place.subscribers[one].reported(1, 0, at(0)), Cost::ONE);
    let told = place.look(one, at(0));
    assert_eq!(max_tokens(&told), 51);
    assert_eq!(place.subscribers[one].held(), Cost::new(51));
    assert_eq!(told.look_again, Some(SECOND.times(60)));
}

#[test]
fn what_is_reported_beyond_what_is_held_is_charged() {
    let mut place = Place::new(100, SECOND.times(60), Supply::AtTheTurn);
    let one = place.join(at(0));
    place.report(one, 0, 0, at(0));
    let held = place.subscribers[one].held().get();
    let charge = place.subscribers[one].reported(held + 7, 0, at(1));
    assert_eq!(charge, Cost::new(7));
    assert_eq!(place.subscribers[one].held(), Cost::ZERO);
}

#[test]
fn the_level_is_kept_where_nothing_is_taken_and_the_assignment_is_told_again() {
    let mut place = Place::new(100, SECOND.times(60), Supply::AtTheTurn);
    let one = place.join(at(0));
    let first = place.report(one, 0, 0, at(0)).assignment;
    assert_eq!(place.report(one, 0, 0, at(1)).assignment, None);
    let again = place.report(one, 0, 0, at(20)).assignment;
    assert_eq!(again, first);
}

#[test]
fn nothing_left_is_a_refusal_until_the_reset() {
    let mut place = Place::new(100, SECOND.times(60), Supply::AtTheTurn);
    place.room.remaining = 0;
    let one = place.join(at(0));
    let told = place.report(one, 1, 0, at(0));
    assert_eq!(told.assignment, Some(Assignment::DenyAll));
    assert_eq!(told.look_again, Some(SECOND.times(60)));
}

#[test]
fn a_limit_of_zero_is_a_refusal() {
    for period in [SECOND, SECOND.times(3_600)] {
        let mut place = Place::new(0, period, Supply::Continuous);
        let one = place.join(at(0));
        let told = place.report(one, 1, 3, at(0));
        assert_eq!(told.assignment, Some(Assignment::DenyAll), "{period}");
    }
}

#[test]
fn of_one_token_for_twenty_one_gets_it() {
    let mut place = Place::new(1, SECOND.times(60), Supply::AtTheTurn);
    let all: Vec<usize> = (0..20).map(|_| place.join(at(0))).collect();
    for secs in 0..10 {
        for &one in &all {
            place.report(one, 0, 1, at(secs));
        }
        let held: u64 = place.subscribers.iter().map(|one| one.held().get()).sum();
        assert_eq!(held, 1);
    }
}

#[test]
fn a_new_window_is_taken_for_anew_and_what_is_reported_then_was_used_before_it_too() {
    let mut place = Place::new(1_000, SECOND.times(20), Supply::AtTheTurn);
    let one = busy(&mut place, 10);
    // 20 s after the last look the window is over; half of that time lay in it.
    place.room.reset_after = SECOND.times(1);
    place.report(one, 10, 0, at(11));
    place.room.remaining = 1_000;
    place.room.reset_after = SECOND.times(20);
    let told = place.look(one, at(12));
    let held = place.subscribers[one].held().get();
    assert_eq!(u64::from(max_tokens(&told)), held);
    assert_eq!(place.room.remaining, 1_000 - held);
    // Ten before and ten after: only the latter are of the new window.
    let charge = place.subscribers[one].reported(20, 0, at(13));
    assert_eq!(charge, Cost::ZERO);
    assert_eq!(place.subscribers[one].held().get(), held - 10);
}

#[test]
fn what_came_after_a_reset_is_not_taken_for_used_before_it() {
    let mut place = Place::new(1_000, SECOND.times(20), Supply::AtTheTurn);
    let one = busy(&mut place, 0);
    place.room.reset_after = SECOND;
    place.report(one, 0, 0, at(11));
    place.room.remaining = 1_000;
    place.look(one, at(12));
    let held = place.subscribers[one].held().get();
    // It was idle before, so the burst was not.
    let burst = held.min(50);
    assert_eq!(
        place.subscribers[one].reported(burst, 0, at(13)),
        Cost::ZERO
    );
    assert_eq!(place.subscribers[one].held().get(), held - burst);
}

#[test]
fn a_clock_that_stands_still_or_is_set_back_stops_nothing() {
    for period in [SECOND, SECOND.times(60), YEAR] {
        let mut place = Place::new(1_000, period, Supply::AtTheTurn);
        let one = place.join(at(1_000));
        for _ in 0..5 {
            place.report(one, 1, 0, at(1_000));
        }
        for secs in [999, 0, 1, 2, 3] {
            place.report(one, 1, 1, at(secs));
        }
        place.room.remaining = 1_000;
        for secs in 4..60 {
            place.report(one, 10, 0, at(secs));
        }
        let demand = place.subscribers[one].demand();
        assert!((8.0..=12.0).contains(&demand), "{demand} {period}");
    }
}

#[test]
fn a_window_that_a_wrong_clock_has_put_far_ahead_is_left() {
    let mut place = Place::new(100, SECOND.times(60), Supply::AtTheTurn);
    let one = place.join(START.after(YEAR));
    place.report(one, 0, 0, START.after(YEAR));
    assert!(!place.subscribers[one].held().is_peek());
    place.room.remaining = 0;
    assert_eq!(
        place.report(one, 0, 0, at(0)).assignment,
        Some(Assignment::DenyAll)
    );
    assert_eq!(place.subscribers[one].held(), Cost::ZERO);
}

#[test]
fn what_was_held_for_half_a_period_of_a_bucket_is_taken_anew() {
    let mut place = Place::new(100, SECOND.times(60), Supply::Continuous);
    let one = place.join(at(0));
    place.report(one, 0, 0, at(0));
    let held = place.subscribers[one].held().get();
    for secs in 1..30 {
        place.report(one, 0, 0, at(secs));
    }
    assert_eq!(place.room.remaining, 100 - held);
    place.room.remaining = 100;
    place.report(one, 0, 0, at(30));
    assert!(place.room.remaining < 100, "taken anew");
}

#[test]
fn a_rate_follows_what_is_granted() {
    let mut place = Place::new(1_000, SECOND, Supply::AtTheTurn);
    let one = busy(&mut place, 5_000);
    let mut rate = 0.0;
    for tick in 1..=40 {
        place.room.remaining = 1_000;
        let now = at(10).after(Nanos::from_millis(100 * tick));
        let told = place.look(one, now);
        assert_eq!(told.look_again, Some(Nanos::from_millis(100)));
        if let Some(Assignment::Bucket {
            tokens_per_fill,
            fill_interval,
            ..
        }) = told.assignment
        {
            rate = f64::from(tokens_per_fill) / (fill_interval.get() / SECOND.get()) as f64;
        }
    }
    assert!((980.0..=1_010.0).contains(&rate), "{rate}");
}

#[test]
fn a_rate_ends_when_a_longer_limit_refuses() {
    let mut place = Place::new(1_000, SECOND, Supply::AtTheTurn);
    let one = busy(&mut place, 100);
    place.room.remaining = 0;
    place.room.reset_after = SECOND.times(3_000);
    let told = place.report(one, 100, 0, at(11));
    assert_eq!(told.assignment, Some(Assignment::DenyAll));
}

#[test]
fn more_tokens_than_fit_are_neither_taken_nor_told() {
    let trillion = 1_000_000_000_000;
    let mut place = Place::new(trillion, SECOND.times(3_600), Supply::AtTheTurn);
    let one = place.join(at(0));
    let told = place.report(one, 1, 0, at(0));
    assert_eq!(max_tokens(&told), u32::MAX);
    assert_eq!(place.subscribers[one].held(), Cost::new(u32::MAX.into()));
    let mut place = Place::new(trillion, SECOND, Supply::Continuous);
    let one = place.join(at(0));
    let told = place.report(one, 1, 0, at(0));
    assert!(max_tokens(&told) >= 1);
}

#[test]
fn who_is_idle_is_abandoned_after_ten_reports_and_ten_periods() {
    let mut place = Place::new(100, SECOND, Supply::AtTheTurn);
    let one = busy(&mut place, 1);
    let subscriber = &mut place.subscribers[one];
    assert!(!subscriber.is_idle(SECOND, at(19)));
    assert!(subscriber.is_idle(SECOND, at(20)));
    assert!(!subscriber.is_idle(SECOND.times(60), at(609)));
    assert!(subscriber.is_idle(SECOND.times(60), at(610)));
    assert!(subscriber.is_idle(YEAR, at(610)));
}

#[derive(Clone, Debug)]
struct Step {
    one: usize,
    allowed: u64,
    denied: u64,
    passed: i64,
    room: Room,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any = || prop_oneof![Just(0), Just(1), 0..2_000_u64, Just(u64::MAX)];
    let span = prop_oneof![
        Just(0),
        1..5_000_000_000_u64,
        Just(YEAR.get()),
        Just(u64::MAX)
    ];
    let span = span.prop_map(Nanos::new);
    let supply = prop_oneof![
        Just(Supply::AtTheTurn),
        Just(Supply::Continuous),
        Just(Supply::Trailing)
    ];
    let wait = proptest::option::of(span.clone());
    let room = (any(), any(), span.clone(), span, wait, supply).prop_map(
        |(amount, remaining, period, reset_after, retry_after, supply)| Room {
            amount,
            remaining,
            period,
            reset_after,
            retry_after,
            supply,
        },
    );
    let passed = prop_oneof![Just(0), -20_000_000_000..20_000_000_000_i64];
    let step = (0..3_usize, any(), any(), passed, room).prop_map(
        |(one, allowed, denied, passed, room)| Step {
            one,
            allowed,
            denied,
            passed,
            room,
        },
    );
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #[test]
    fn whatever_is_reported_nothing_is_taken_or_given_that_is_not_there(steps in steps()) {
        let mut place = Place::new(1, SECOND, Supply::AtTheTurn);
        (0..3).for_each(|_| {
            place.join(START);
        });
        let mut now = START;
        for step in steps {
            now = Timestamp::from_nanos(now.as_nanos().saturating_add_signed(step.passed));
            place.room = step.room;
            place.report(step.one, step.allowed, step.denied, now);
            let told = place.look(step.one, now);
            let held = place.subscribers[step.one].held().get();
            if let Some(lump @ Assignment::Bucket { max_tokens, .. }) = told.assignment
                && lump.is_lump()
                && place.subscribers[step.one].said.is_some_and(|said| said.first == said.last)
            {
                prop_assert_eq!(u64::from(max_tokens), held);
            }
        }
    }
}
