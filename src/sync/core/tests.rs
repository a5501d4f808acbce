use std::sync::Arc;

use super::*;
use crate::counters::Fleet;
use crate::sync::batch::{Batch, HelloReply, Stored};
use crate::units::{Algorithm, Cost, EncodedIdentity, KeySecret, Limit, LimitId, Quota};

const NOW: Now = Now {
    local: Timestamp::from_nanos(1_000_000_000_000),
    fleet: Timestamp::from_nanos(1_000_000_000_000),
};

fn is_batch(action: &Action) -> bool {
    matches!(action, Action::Batch(..))
}

fn actions(core: &mut Core) -> Vec<Action> {
    std::iter::from_fn(|| core.next_action()).collect()
}

/// Connects, and hears that this node agrees with a fleet of so many nodes.
fn greet(core: &mut Core, cells: &Counters, nodes: u32, now: Now) {
    core.handle(Event::Connected, cells, now);
    let hello = actions(core).into_iter().find_map(|action| match action {
        Action::Hello(call, _) => Some(call),
        _ => None,
    });
    let reply = HelloReply {
        agreement: Agreement::Agreed,
        nodes,
        time: now.fleet,
    };
    let trip = RoundTrip {
        sent: now.local,
        received: now.local,
    };
    core.handle(Event::Hello(hello.unwrap(), reply, trip), cells, now);
}

/// Admits so much for each of these callers that it is sent at once.
fn admit(cells: &Counters, callers: std::ops::Range<u16>) {
    let hour = Nanos::from_secs(3_600);
    let quota = Quota::new(Algorithm::FixedWindow, 1_000_000, hour, None).unwrap();
    let id = LimitId::of_space("many");
    let limit = Limit::new(id, "many", "many", quota, &KeySecret::public());
    let limit = Arc::new(limit);
    for caller in callers {
        let identity = EncodedIdentity::of("key", Some(&caller.to_be_bytes()));
        let key = limit.hasher.key(&identity);
        cells.take(&limit, &limit.quota, key, Cost::new(130_000), NOW.fleet);
    }
}

fn batches(core: &mut Core) -> Vec<(CallId, Arc<Batch>)> {
    let batch = |action| match action {
        Action::Batch(call, batch) => Some((call, batch)),
        _ => None,
    };
    actions(core).into_iter().filter_map(batch).collect()
}

#[test]
fn nothing_is_sent_into_a_connection_that_broke_meanwhile() {
    let cells = Counters::new(10_000, Fleet::with_store());
    let mut core = Core::new(CoreConfig {
        boot: Boot::new(1),
        partitions: Partitions::new(16_384).unwrap(),
        poll: Nanos::from_millis(5),
    });
    greet(&mut core, &cells, 1, NOW);
    // Cells of more hashes than can be under way at once.
    admit(&cells, 0..1_000);
    core.tick(&cells, NOW);
    let first = batches(&mut core)[0].0;
    let gone = Failure::Disconnected;
    // Its place is taken by the next one in the queue.
    core.handle(Event::Failed(first, gone), &cells, NOW);
    core.handle(Event::Disconnected(gone), &cells, NOW);
    let left = actions(&mut core);
    assert!(!left.iter().any(is_batch), "{left:?}");
}

fn core() -> Core {
    Core::new(CoreConfig {
        boot: Boot::new(1),
        partitions: Partitions::new(256).unwrap(),
        poll: Nanos::from_millis(5),
    })
}

fn lose(core: &mut Core, cells: &Counters) {
    for _ in 0..FAILURES_TO_LOSE {
        core.handle(Event::Disconnected(Failure::Disconnected), cells, NOW);
    }
    assert_eq!(cells.fleet().health(), StoreHealth::Lost);
}

fn after(seconds: u64) -> Now {
    let after = |at: Timestamp| at.after(Nanos::from_secs(seconds));
    Now {
        local: after(NOW.local),
        fleet: after(NOW.fleet),
    }
}

#[test]
fn a_store_that_has_forgotten_the_fleet_is_not_believed_before_all_are_back() {
    let cells = Counters::new(10, Fleet::with_store());
    let mut core = core();
    greet(&mut core, &cells, 4, NOW);
    assert!(!cells.fleet().is_scattered());
    lose(&mut core, &cells);
    greet(&mut core, &cells, 1, after(20));
    assert_eq!(cells.fleet().health(), StoreHealth::Up);
    assert_eq!(
        (cells.fleet().nodes(), cells.fleet().is_scattered()),
        (4, true)
    );
    greet(&mut core, &cells, 4, after(21));
    assert_eq!(
        (cells.fleet().nodes(), cells.fleet().is_scattered()),
        (4, false)
    );
    // Afterwards a node may leave as ever.
    greet(&mut core, &cells, 3, after(22));
    assert_eq!(cells.fleet().nodes(), 3);
}

#[test]
fn those_who_do_not_come_back_are_not_waited_for_for_ever() {
    let cells = Counters::new(10, Fleet::with_store());
    let mut core = core();
    greet(&mut core, &cells, 4, NOW);
    lose(&mut core, &cells);
    greet(&mut core, &cells, 3, after(20));
    greet(&mut core, &cells, 3, after(25));
    assert_eq!(
        (cells.fleet().nodes(), cells.fleet().is_scattered()),
        (4, true)
    );
    greet(&mut core, &cells, 3, after(26));
    assert_eq!(
        (cells.fleet().nodes(), cells.fleet().is_scattered()),
        (3, false)
    );
}

#[test]
fn what_waits_for_a_store_to_be_mended_is_sent_as_soon_as_it_is() {
    let cells = Counters::new(10, Fleet::with_store());
    let mut core = core();
    greet(&mut core, &cells, 1, NOW);
    let mut refused = 0;
    for (seconds, caller) in (0..).zip(0..3) {
        admit(&cells, caller..caller + 1);
        core.tick(&cells, after(seconds));
        for (call, _) in batches(&mut core) {
            refused += 1;
            core.handle(Event::Failed(call, Failure::Denied), &cells, after(seconds));
        }
    }
    assert_eq!((refused, cells.fleet().health()), (3, StoreHealth::Lost));
    actions(&mut core);
    // The first is tried again, and answered.
    let now = after(10);
    core.tick(&cells, now);
    let tried = batches(&mut core);
    let [(call, batch)] = &tried[..] else {
        unreachable!("{tried:?}")
    };
    let reply = BatchReply {
        token: Stored::Token(batch.new),
        totals: vec![130_000],
        told: Vec::new(),
        time: now.fleet,
    };
    let trip = RoundTrip {
        sent: now.local,
        received: now.local,
    };
    core.handle(Event::Batch(*call, reply, trip), &cells, now);
    assert_eq!(cells.fleet().health(), StoreHealth::Up);
    assert_eq!(batches(&mut core).len(), 2);
}
