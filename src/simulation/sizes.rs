//! How many bytes an exchange takes, about: what [`crate::sync::wire`] writes and the
//! store answers, without the headers of TCP. (A test holds it against both.)

use crate::sync::batch::{Batch, BatchReply};

/// The command of a batch without its cells: the script's name, key, lane and tokens.
const BATCH: u64 = 215;
/// A cell's field, 16 bytes and their frame, its delta and its room.
const CELL: u64 = 28;
/// What is asked for a cell, and what is told of it.
const ASK: u64 = 17;
const TOLD: u64 = 12;
/// An announcement to one node.
pub(super) const ANNOUNCEMENT: u64 = 130;
/// The answer without its totals: token and time.
const BATCH_REPLY: u64 = 45;
/// A hello, and the question for the seal.
pub(super) const HELLO: u64 = 330;
/// What is answered to one.
pub(super) const HELLO_REPLY: u64 = 140;

/// The bytes of a batch's command.
pub(super) fn batch(batch: &Batch) -> u64 {
    let asks = batch.cells.iter().filter(|(_, delta)| delta.ask.is_some());
    BATCH + CELL * batch.cells.len() as u64 + ASK * asks.count() as u64
}

/// The bytes of its answer.
pub(super) fn batch_reply(reply: &BatchReply) -> u64 {
    let digits = |total: &u64| u64::from(total.checked_ilog10().unwrap_or(0)) + 4;
    let told = TOLD * reply.told.len() as u64;
    BATCH_REPLY + reply.totals.iter().map(digits).sum::<u64>() + told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{Delta, HashId, Slot, Space};
    use crate::sync::SyncConfig;
    use crate::sync::batch::{Boot, Hello, LaneName, Token};
    use crate::sync::seal::Told;
    use crate::sync::wire::Wire;
    use crate::units::{Algorithm, KeySecret, Nanos, Pace, Partition, Partitions, Quota, WindowId};

    #[track_caller]
    fn assert_near(estimate: u64, real: usize) {
        let real = real as u64;
        assert!(
            estimate.abs_diff(real) * 10 <= real,
            "{estimate}, not {real}"
        );
    }

    #[test]
    fn estimates_are_within_a_tenth_of_what_goes_over_the_wire() {
        let config = SyncConfig {
            url: String::new(),
            node: "tidegate-6f7c9d7b8-x2x9z".into(),
            fleet: "tidegate".into(),
            partitions: Partitions::default(),
            secret: KeySecret::public(),
            pace: Pace::default(),
        };
        let boot = Boot::new(u64::MAX);
        let wire = Wire::new(&config, boot);
        let second = Nanos::from_secs(1);
        let quota = Quota::new(Algorithm::FixedWindow, 1_000, second, None).unwrap();
        let hasher = config.secret.hasher(b"limit");
        for cells in [0_u8, 1, 5, 64] {
            let slot = Slot {
                space: Space::of(&quota),
                window: WindowId::new(1_800_000_000),
            };
            let delta = Delta {
                cost: 30,
                upto: 0,
                room: 1_000,
                ask: None,
            };
            let cells = (0..cells).map(|n| (hasher.key_of("key", &[n]), delta));
            let token = |number| Token {
                generation: 0,
                number,
            };
            let sent = Batch {
                id: HashId {
                    partition: Partition::new(17),
                    slot,
                },
                lane: LaneName { boot, number: 0 },
                previous: Some(token(101)),
                new: token(102),
                cells: cells.collect(),
            };
            assert_near(
                batch(&sent),
                wire.batch(&sent, None).get_packed_command().len(),
            );
        }
        let hello = wire.hello(Hello::Alive).get_packed_command().len();
        let seal = wire.seal(&Told::default()).get_packed_command().len();
        assert_near(HELLO, hello + seal);
    }
}
