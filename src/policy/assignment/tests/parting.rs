use super::*;

fn of_a_minute(supply: Supply) -> (Place, usize) {
    let mut place = Place::new(100, SECOND.times(60), supply);
    let one = busy(&mut place, 1);
    (place, one)
}

#[test]
fn a_gateway_spends_until_its_time_to_live_is_over_or_its_window() {
    let (mut place, one) = of_a_minute(Supply::AtTheTurn);
    assert_eq!(Subscriber::new(at(0)).spends_until(), None);
    place.room.reset_after = SECOND.times(2);
    place.report(one, 20, 0, at(11));
    assert_eq!(place.subscribers[one].spends_until(), Some(at(13)));
    place.room.reset_after = SECOND.times(60);
    let told = place.report(one, 20, 0, at(14));
    assert!(told.assignment.is_some());
    let lives = told.time_to_live;
    assert!(lives < SECOND.times(60));
    assert_eq!(
        place.subscribers[one].spends_until(),
        Some(at(14).after(lives))
    );
}

#[test]
fn what_is_resumed_is_told_anew() {
    let (mut place, one) = of_a_minute(Supply::AtTheTurn);
    assert_eq!(place.look(one, at(10)).assignment, None);
    let known = place.subscribers[one].said.map(|said| said.assignment);
    place.subscribers[one].resume();
    let told = place.look(one, at(10));
    assert_ne!(told.assignment, known);
    let held = place.subscribers[one].held().get();
    assert_eq!(u64::from(max_tokens(&told)), held);
    // All is denied: that is said again too.
    place.room.remaining = 0;
    let denied = Some(Assignment::DenyAll);
    assert_eq!(place.report(one, held, 0, at(11)).assignment, denied);
    assert_eq!(place.look(one, at(11)).assignment, None);
    place.subscribers[one].resume();
    assert_eq!(place.look(one, at(11)).assignment, denied);
}

#[test]
fn what_counts_no_more_at_its_limit_is_not_held_when_it_lapses() {
    let (mut place, one) = of_a_minute(Supply::AtTheTurn);
    let room = place.room;
    let held = place.subscribers[one].held();
    place.subscribers[one].lapse(&room, at(69));
    assert_eq!(place.subscribers[one].held(), held);
    place.subscribers[one].lapse(&room, at(71));
    assert_eq!(place.subscribers[one].held(), Cost::ZERO);
    assert_eq!(place.subscribers[one].unsettled(), held);

    let mut place = Place::new(1_000, SECOND, Supply::AtTheTurn);
    let one = busy(&mut place, 100);
    // Another second has begun.
    place.room.remaining = 1_000;
    place.look(one, at(11));
    let room = place.room;
    let (held, unsettled) = (
        place.subscribers[one].held(),
        place.subscribers[one].unsettled(),
    );
    assert!(held > Cost::ZERO);
    place.subscribers[one].lapse(&room, at(12));
    assert_eq!(place.subscribers[one].held(), Cost::ZERO);
    assert_eq!(place.subscribers[one].unsettled(), unsettled);
}
