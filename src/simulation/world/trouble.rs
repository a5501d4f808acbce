//! Faults, as they begin and end.

use super::super::fault::{Memory, Trouble};
use super::super::node::{Node, Reply};
use super::super::store::SimStore;
use super::World;
use super::events::{Happening, Way};
use crate::sync::{Failure, pacing};
use crate::units::Nanos;

impl World {
    /// Puts all faults on the agenda.
    pub(super) fn enter_faults(&mut self) {
        for (fault, what) in self.scenario.faults.iter().enumerate() {
            let at = self.start.after(what.after);
            self.agenda.enter(at, Happening::Begins { fault });
            if let Trouble::StoreStops {
                memory: Memory::Older(age),
                ..
            } = what.trouble
            {
                self.agenda
                    .enter(at.before(age), Happening::Dumps { fault });
            }
        }
    }

    pub(super) fn begin(&mut self, fault: usize) {
        let Some(what) = self.scenario.faults.get(fault) else {
            return;
        };
        let mut lasting = Nanos::ZERO;
        match what.trouble.clone() {
            Trouble::StoreStops { away, .. } => {
                lasting = away;
                self.stopped += 1;
                self.store_life += 1;
                self.waiting.clear();
                self.store_free = self.now;
                self.break_connections();
            }
            Trouble::StoreStalls(span) => {
                lasting = span;
                self.stalled += 1;
            }
            Trouble::StoreFlushed => self.forget(),
            Trouble::NodeCrashes { node, away } => {
                lasting = away;
                self.places[node].node = None;
            }
            Trouble::NodeLeaves { node, away } => {
                lasting = away;
                self.with_node(node, Node::leave);
            }
            Trouble::Partition { nodes, lasting: t } => {
                lasting = t;
                nodes.iter().for_each(|node| self.places[*node].parted += 1);
            }
        }
        let end = self.now.after(lasting);
        self.agenda.enter(end, Happening::Ends { fault });
    }

    pub(super) fn end(&mut self, fault: usize) {
        let Some(what) = self.scenario.faults.get(fault) else {
            return;
        };
        match what.trouble.clone() {
            Trouble::StoreStops { memory, .. } => {
                self.stopped -= 1;
                match memory {
                    Memory::Kept => {}
                    Memory::Lost => self.forget(),
                    Memory::Older(_) => {
                        let dump = self.dumps.iter().position(|(of, _)| *of == fault);
                        self.store = match dump {
                            Some(at) => self.dumps.swap_remove(at).1,
                            None => SimStore::default(),
                        };
                    }
                }
            }
            Trouble::StoreStalls(_) => {
                self.stalled -= 1;
                for what in std::mem::take(&mut self.waiting) {
                    self.reach_store(what);
                }
            }
            Trouble::StoreFlushed => {}
            Trouble::NodeCrashes { node, .. } | Trouble::NodeLeaves { node, .. } => {
                self.start_node(node);
            }
            Trouble::Partition { nodes, .. } => {
                nodes.iter().for_each(|node| self.places[*node].parted -= 1);
            }
        }
    }

    /// The store forgets everything, and its replicas and dumps do.
    fn forget(&mut self) {
        self.store.flush();
        self.dumps.iter_mut().for_each(|(_, dump)| dump.flush());
    }

    /// Tells the nodes that wait for an answer that none will come. The others find
    /// out when they next send something.
    fn break_connections(&mut self) {
        for node in 0..self.places.len() {
            let place = &self.places[node];
            let Some(present) = &place.node else { continue };
            let (life, next) = (place.life, self.now.after(pacing::LISTENING_PAUSE.into()));
            self.agenda.enter(next, Happening::Listens { node, life });
            if let Some((connection, call)) = present.connection().zip(present.any_call()) {
                let way = Way {
                    node,
                    life: place.life,
                    connection,
                };
                let (reply, sent) = (Reply::Failed(Failure::Disconnected), present.clock.local());
                self.reply(way, call, reply, sent, self.now);
            }
        }
    }
}
