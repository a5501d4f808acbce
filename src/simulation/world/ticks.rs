//! The ticks of the nodes, without those that would find nothing.

use super::World;
use super::events::Happening;
use crate::units::Nanos;

impl World {
    /// Sees to it that the node ticks when it next has anything to do then. A daemon ticks
    /// at every poll; those at which nothing would happen are left out, and the others
    /// come when they would have come.
    pub(super) fn arrange_tick(&mut self, node: usize) {
        let (now, place) = (self.now, &mut self.places[node]);
        if place.ticks_at.is_some_and(|at| at <= now.after(self.poll)) {
            return;
        }
        let Some(present) = &place.node else { return };
        let due = present.next_tick().max(now.after(Nanos::new(1)));
        let polls = due.since(place.since).get().div_ceil(self.poll.get());
        let at = place.since.after(self.poll.times(polls));
        if place.ticks_at.is_none_or(|earlier| at < earlier) {
            place.ticks_at = Some(at);
            let life = place.life;
            self.agenda.enter(at, Happening::Ticks { node, life });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::node::Node;
    use super::super::super::scenario::Scenario;
    use super::*;

    #[test]
    fn ticks_that_are_left_out_would_have_found_nothing() {
        let scenario = Scenario {
            keys: 30,
            zipf: 1.0,
            limit: 100,
            windows: 2,
            ..Scenario::default()
        };
        let figures = |looks_more_often: bool| {
            let mut world = World::new(&scenario).unwrap();
            let end = world.start().after(Nanos::from_secs(3));
            let mut more = 0;
            while world.now() < end {
                world.run_until(world.now().after(Nanos::from_millis(1)));
                for node in 0..4 * usize::from(looks_more_often) {
                    let present = world.places[node].node.as_ref();
                    if present.is_some_and(|present| present.next_tick() > world.now) {
                        world.with_node(node, Node::tick);
                        more += 1;
                    }
                }
            }
            (more, world.figures())
        };
        let (more, figures_of_more) = figures(true);
        assert!(more > 1_000, "{more}");
        assert_eq!(figures_of_more, figures(false).1);
    }
}
