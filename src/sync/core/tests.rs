use std::sync::Arc;

use super::*;
use crate::counters::Fleet;
use crate::sync::batch::HelloReply;
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

/// Connects, and says that this node agrees with the fleet.
fn open(core: &mut Core, cells: &Counters) {
    core.handle(Event::Connected, cells, NOW);
    let hello = actions(core).into_iter().find_map(|action| match action {
        Action::Hello(call, _) => Some(call),
        _ => None,
    });
    let reply = HelloReply {
        agreement: Agreement::Agreed,
        nodes: 1,
        time: NOW.fleet,
    };
    let trip = RoundTrip {
        sent: NOW.local,
        received: NOW.local,
    };
    core.handle(Event::Hello(hello.unwrap(), reply, trip), cells, NOW);
}

#[test]
fn nothing_is_sent_into_a_connection_that_broke_meanwhile() {
    let cells = Counters::new(10_000, Fleet::with_store());
    let mut core = Core::new(CoreConfig {
        boot: Boot::new(1),
        partitions: Partitions::new(16_384).unwrap(),
        poll: Nanos::from_millis(5),
    });
    open(&mut core, &cells);
    // Cells of more hashes than can be under way at once.
    let hour = Nanos::from_secs(3_600);
    let quota = Quota::new(Algorithm::FixedWindow, 1_000_000, hour, None).unwrap();
    let secret = KeySecret::public();
    let limit = Arc::new(Limit::new(
        LimitId::of_space("many"),
        "many",
        "many",
        quota,
        &secret,
    ));
    for number in 0u16..1_000 {
        let identity = EncodedIdentity::of("key", Some(&number.to_be_bytes()));
        let key = limit.hasher.key(&identity);
        cells.take(&limit, &limit.quota, key, Cost::new(130_000), NOW.fleet);
    }
    core.tick(&cells, NOW);
    let sent = actions(&mut core);
    let Some(Action::Batch(first, _)) = sent.into_iter().find(is_batch) else {
        unreachable!("there is much to send")
    };
    let gone = Failure::Disconnected;
    // Its place is taken by the next one in the queue.
    core.handle(Event::Failed(first, gone), &cells, NOW);
    core.handle(Event::Disconnected(gone), &cells, NOW);
    let left = actions(&mut core);
    assert!(!left.iter().any(is_batch), "{left:?}");
}
