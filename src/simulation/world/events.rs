//! What happens in a world, and what comes of it.

use super::super::node::{Message, Node, Reply, Want};
use super::super::sizes;
use super::{News, World};
use crate::counters::Announcement;
use crate::sync::event::CallId;
use crate::sync::{Failure, pacing};
use crate::units::{Nanos, Timestamp};

/// Something that happens.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    Starts {
        node: usize,
    },
    Ticks {
        node: usize,
        life: u64,
    },
    Sweeps {
        node: usize,
        life: u64,
        turn: usize,
    },
    /// A node begins to connect.
    Dials {
        node: usize,
        life: u64,
        attempt: u64,
    },
    /// The attempt has ended.
    Dialed {
        node: usize,
        life: u64,
        attempt: u64,
        failure: Option<Failure>,
    },
    /// A message reaches the store.
    Reaches {
        way: Way,
        store_life: u64,
        call: CallId,
        message: Message,
        sent: Timestamp,
    },
    /// The end of an exchange reaches the node.
    Returns {
        way: Way,
        call: CallId,
        reply: Reply,
        sent: Timestamp,
    },
    /// A node tries to hear what the store announces.
    Listens {
        node: usize,
        life: u64,
    },
    /// It hears something.
    Hears {
        node: usize,
        life: u64,
        announced: Announcement,
    },
    /// The fault of this number begins.
    Begins {
        fault: usize,
    },
    /// It ends.
    Ends {
        fault: usize,
    },
    /// A replica or a dump will know of what came until now.
    Dumps {
        fault: usize,
    },
}

/// One connection of one life of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) node: usize,
    pub(super) life: u64,
    pub(super) connection: u64,
}

/// Round trips that it takes to connect: TCP, the protocol, and each script.
const TRIPS_TO_CONNECT: u64 = 6;
/// How long the daemon's sweep takes to look at every cell.
const SWEEP_ROUND: Nanos = Nanos::from_secs(10);

impl World {
    /// Lets happen what happens until `until`.
    pub(super) fn happen_until(&mut self, until: Timestamp) {
        while let Some((at, what)) = self.agenda.next_until(until) {
            self.now = at;
            self.happen(what);
        }
        self.now = until;
    }

    fn happen(&mut self, what: Happening) {
        if self.is_past(&what) {
            return;
        }
        self.step(|_| what.to_string());
        match what {
            Happening::Starts { node } => self.start_node(node),
            Happening::Ticks { node, life } => {
                if self.lives(node, life) {
                    self.places[node].ticks_at = None;
                    self.with_node(node, Node::tick);
                }
            }
            Happening::Sweeps { node, life, turn } => self.sweep(node, life, turn),
            Happening::Dials {
                node,
                life,
                attempt,
            } => self.dial(node, life, attempt),
            Happening::Dialed {
                node,
                life,
                attempt,
                failure,
            } => self.dialed(node, life, attempt, failure),
            Happening::Reaches { way, .. } if self.places[way.node].parted > 0 => {}
            Happening::Reaches { .. } => self.reach_store(what),
            Happening::Returns {
                way,
                call,
                reply,
                sent,
            } => {
                let given_up = matches!(reply, Reply::Failed(Failure::Timeout));
                let parted = self.places[way.node].parted > 0 && !given_up;
                if self.lives(way.node, way.life) && !parted {
                    self.with_node(way.node, |node, wants| {
                        if node.connection() == Some(way.connection) {
                            node.hear(call, reply, sent, wants);
                        }
                    });
                }
            }
            Happening::Listens { node, life } => self.listen(node, life),
            Happening::Hears {
                node,
                life,
                announced,
            } => {
                if self.lives(node, life) && self.places[node].parted == 0 {
                    self.with_node(node, |node, wants| node.announced(announced, wants));
                }
            }
            Happening::Begins { fault } => self.begin(fault),
            Happening::Ends { fault } => self.end(fault),
            Happening::Dumps { fault } => self.dumps.push((fault, self.store.clone())),
        }
    }

    /// Whether it need not happen any more: a tick that came earlier, or the end of a
    /// patience that was not needed.
    fn is_past(&self, what: &Happening) -> bool {
        match what {
            Happening::Ticks { node, .. } => self.places[*node].ticks_at != Some(self.now),
            Happening::Returns {
                way,
                call,
                reply: Reply::Failed(Failure::Timeout),
                ..
            } => {
                let node = self.places[way.node].node.as_ref();
                !node.is_some_and(|node| node.waits_for(*call))
            }
            _ => false,
        }
    }

    pub(super) fn lives(&self, node: usize, life: u64) -> bool {
        let place = &self.places[node];
        place.life == life && place.node.is_some()
    }

    /// Does something with a node, if it is there, and grants what it wants.
    pub(super) fn with_node(&mut self, node: usize, act: impl FnOnce(&mut Node, &mut Vec<Want>)) {
        let Some(present) = &mut self.places[node].node else {
            return;
        };
        present.set_time(self.now);
        let mut wants = Vec::new();
        act(present, &mut wants);
        let at = self.now;
        let news = present.take_news();
        self.news
            .extend(news.map(|report| News { at, node, report }));
        self.grant(node, wants);
        self.arrange_tick(node);
    }

    pub(super) fn grant(&mut self, node: usize, wants: Vec<Want>) {
        let life = self.places[node].life;
        for want in wants {
            match want {
                Want::Send(call, message) => self.send(node, call, message),
                Want::Connect(pause, attempt) => {
                    let dials = Happening::Dials {
                        node,
                        life,
                        attempt,
                    };
                    self.agenda.enter(self.now.after(pause), dials);
                }
                Want::End => self.places[node].node = None,
            }
        }
    }

    fn send(&mut self, node: usize, call: CallId, message: Message) {
        let place = &mut self.places[node];
        let Some(present) = &place.node else { return };
        let sent = present.clock.local();
        let way = Way {
            node,
            life: place.life,
            connection: present.connection().unwrap_or(0),
        };
        match &message {
            Message::Batch(batch, _) => {
                self.tally.batches += 1;
                self.tally.deltas += batch.cells.len() as u64;
                self.tally.bytes_sent += sizes::batch(batch);
            }
            Message::Hello(..) => {
                self.tally.hellos += 1;
                self.tally.bytes_sent += sizes::HELLO;
            }
        }
        let (network, store_life) = (self.scenario.network, place.leads_to);
        for at in network.arrivals(self.now, &mut place.last_there, &mut self.dice) {
            let reaches = Happening::Reaches {
                way,
                store_life,
                call,
                message: message.clone(),
                sent,
            };
            self.agenda.enter(at, reaches);
        }
        let given_up = Happening::Returns {
            way,
            call,
            reply: Reply::Failed(Failure::Timeout),
            sent,
        };
        let at = self.now.after(pacing::EXCHANGE_TIMEOUT.into());
        self.agenda.enter_last(at, given_up);
    }

    /// What the present run of the store's server is called.
    pub(super) fn store_run(&self) -> String {
        format!("{:x}", self.store_life)
    }

    fn is_stalled(&self) -> bool {
        self.stopped == 0 && self.stalled > 0
    }

    pub(super) fn reach_store(&mut self, what: Happening) {
        if self.is_stalled() {
            self.waiting.push(what);
            return;
        }
        let Happening::Reaches {
            way,
            store_life,
            call,
            message,
            sent,
        } = what
        else {
            return;
        };
        if self.stopped > 0 || store_life != self.store_life {
            let refused = Reply::Failed(Failure::Disconnected);
            return self.reply(way, call, refused, sent, self.now);
        }
        let (began, mut work) = (self.store_free.max(self.now), self.scenario.service.command);
        let reply = match message {
            Message::Batch(batch, seal) => {
                let cells = self.scenario.service.cell;
                work = work.plus(cells.times(batch.cells.len() as u64));
                let mut announced = Vec::new();
                let reply = self
                    .store
                    .batch(&batch, seal.as_ref(), began, &mut announced);
                self.tally.bytes_received += sizes::batch_reply(&reply);
                self.announce(&announced);
                Reply::Batch(reply)
            }
            Message::Hello(boot, hello, told) => {
                self.store.expire(began);
                let seal = self.store.seal(&self.store_run(), told, began);
                let reply = self.store.hello(boot, self.terms, hello, began);
                self.tally.bytes_received += sizes::HELLO_REPLY;
                Reply::Hello(reply, seal)
            }
        };
        self.store_worked = self.store_worked.plus(work);
        self.store_free = began.after(work);
        self.reply(way, call, reply, sent, self.store_free);
    }

    /// Answers a node, at the moment `at`.
    pub(super) fn reply(
        &mut self,
        way: Way,
        call: CallId,
        reply: Reply,
        sent: Timestamp,
        at: Timestamp,
    ) {
        let place = &mut self.places[way.node];
        let network = self.scenario.network;
        for at in network.arrivals(at, &mut place.last_back, &mut self.dice) {
            let returns = Happening::Returns {
                way,
                call,
                reply: reply.clone(),
                sent,
            };
            self.agenda.enter(at, returns);
        }
    }

    /// Tells all nodes that listen.
    fn announce(&mut self, announced: &[Announcement]) {
        let network = self.scenario.network;
        let done = self.store_free.max(self.now);
        for announced in announced.iter().copied() {
            for (node, place) in self.places.iter_mut().enumerate() {
                if place.listens_to != self.store_life {
                    continue;
                }
                let life = place.life;
                for at in network.arrivals(done, &mut place.last_heard, &mut self.dice) {
                    self.tally.pushes += 1;
                    self.tally.bytes_received += sizes::ANNOUNCEMENT;
                    let hears = Happening::Hears {
                        node,
                        life,
                        announced,
                    };
                    self.agenda.enter(at, hears);
                }
            }
        }
    }

    /// A node listens on a connection of its own, and makes a new one when that breaks.
    pub(super) fn listen(&mut self, node: usize, life: u64) {
        if !self.lives(node, life) {
            return;
        }
        let heard = self.stopped == 0 && !self.is_stalled() && self.places[node].parted == 0;
        let place = &mut self.places[node];
        if heard {
            (place.listens_to, place.last_heard) = (self.store_life, self.now);
        } else {
            let next = self.now.after(pacing::LISTENING_PAUSE.into());
            self.agenda.enter(next, Happening::Listens { node, life });
        }
    }

    fn dial(&mut self, node: usize, life: u64, attempt: u64) {
        if !self.lives(node, life) {
            return;
        }
        let trip = self.scenario.network.round_trip;
        let silent = self.places[node].parted > 0 || self.is_stalled();
        let (takes, failure) = if silent {
            (pacing::CONNECT_TIMEOUT.into(), Some(Failure::Timeout))
        } else if self.stopped > 0 {
            (trip, Some(Failure::Disconnected))
        } else {
            (trip.times(TRIPS_TO_CONNECT), None)
        };
        let dialed = Happening::Dialed {
            node,
            life,
            attempt,
            failure,
        };
        self.agenda.enter(self.now.after(takes), dialed);
    }

    fn dialed(&mut self, node: usize, life: u64, attempt: u64, failure: Option<Failure>) {
        if !self.lives(node, life) {
            return;
        }
        let is_up = self.stopped == 0 && !self.is_stalled() && self.places[node].parted == 0;
        let made = match failure {
            Some(failure) => Err(failure),
            None if !is_up => Err(Failure::Disconnected),
            None => {
                self.connections += 1;
                let place = &mut self.places[node];
                place.leads_to = self.store_life;
                (place.last_there, place.last_back) = (self.now, self.now);
                Ok(self.connections)
            }
        };
        self.with_node(node, |node, wants| node.connected(attempt, made, wants));
    }

    fn sweep(&mut self, node: usize, life: u64, turn: usize) {
        if !self.lives(node, life) {
            return;
        }
        self.with_node(node, |node, _| node.sweep(turn));
        let Some(present) = &self.places[node].node else {
            return;
        };
        // Turns that would find nothing are left out.
        let turns = present.sweeps_per_round();
        let is_used = |step: &usize| self.sweeps.get((turn + step) % turns) != Some(&false);
        let step = (1..turns).find(is_used).unwrap_or(turns);
        let pause = SWEEP_ROUND.divided_by(turns as u64).times(step as u64);
        let turn = (turn + step) % turns;
        self.agenda.enter(
            self.now.after(pause),
            Happening::Sweeps { node, life, turn },
        );
    }
}
