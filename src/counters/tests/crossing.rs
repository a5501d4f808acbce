//! Counts that outgrow the 32 bits they are kept in, and come back.

use proptest::prelude::*;

use super::*;

/// What happens to the cell: so much is taken, given back or sent.
#[derive(Clone, Copy, Debug)]
enum Step {
    Take(u64),
    Refund(u64),
    Send,
}

/// Costs that two or three of reach the ends of 31 and 32 bits, and small ones to cross them.
fn cost() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..3_u64,
        (1 << 31) - 2..(1_u64 << 31) + 3,
        (1 << 32) - 2..(1_u64 << 32) + 3
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        cost().prop_map(Step::Take),
        cost().prop_map(Step::Refund),
        Just(Step::Send),
    ]
}

proptest! {
    #[test]
    fn nothing_is_lost_where_counts_outgrow_32_bits_and_come_back(
        steps in prop::collection::vec(step(), 1..40),
        weighed in any::<bool>(),
    ) {
        const AMOUNT: u64 = 1 << 50;
        let algorithm = if weighed { Algorithm::SlidingWindow } else { Algorithm::FixedWindow };
        let limit = limit(algorithm, AMOUNT, MINUTE);
        let counters = Counters::new(10, Fleet::with_store());
        let key = key(&limit, 1);
        let space = Space::of(&limit.quota);
        let slot = Slot { space, window: space.window(START) };
        take(&counters, &limit, 1, 1, START);
        // What counts here, what this node has contributed, and what of it was sent.
        let (mut used, mut own, mut sent) = (1_u64, 1_i64, 0_i64);
        for step in steps {
            match step {
                Step::Take(cost) => {
                    let taken = take(&counters, &limit, 1, cost, START);
                    prop_assert!(admitted(taken));
                    used += cost;
                    own += cost.cast_signed();
                }
                Step::Refund(cost) => {
                    counters.refund(&limit, key, Cost::new(cost), START);
                    used = used.saturating_sub(cost);
                    own -= cost.cast_signed();
                }
                Step::Send => {
                    let delta = counters.freeze(key, slot, START, &mut Vec::new());
                    let delta = delta.map(|delta| (delta.cost, delta.upto));
                    prop_assert_eq!(delta, Some((own - sent, own)));
                    sent = own;
                }
            }
            let left = take(&counters, &limit, 1, 0, START).outcome.remaining;
            prop_assert_eq!(left, AMOUNT - used);
        }
    }
}
