use tokio::time::Instant;

use super::counted::{Act, Said, Standing, act};
use super::registry::{Saying, Seat};
use crate::policy::assignment::{Assignment, Move, Peers, Room, Subscriber, Told};
use crate::protocol::grpc::quota::Bucket;
use crate::server::Services;
use crate::units::{Cost, Key, Nanos, Timestamp};

/// One bucket of one stream.
pub(super) struct Subscribed {
    subscriber: Subscriber,
    seat: Seat,
    /// The counter that what is held was taken from.
    counter: Option<Key>,
    /// What the limit supplied when it was last looked at.
    amount: u64,
    /// What the gateway was told last.
    knows: Option<Assignment>,
    /// What was taken, not given back, and not reported as used.
    taken: Cost,
    /// When it was last reported.
    pub(super) reported: Timestamp,
}

/// What comes of a look at a bucket.
#[derive(Debug)]
pub(super) enum Looked {
    /// The gateway is to be told this, if it does not know it; and when to look again.
    Told {
        assignment: Option<Assignment>,
        /// Whether it is another one than the gateway knows.
        is_new: bool,
        time_to_live: Nanos,
        again: Nanos,
    },
    /// Nobody asks for it any more, and nothing is held.
    Abandoned,
}

/// Never sooner, whatever the reckoning says: nothing may spin.
const SOONEST: Nanos = Nanos::from_millis(10);

impl Subscribed {
    /// One that was reported for the first time at `now`.
    pub(super) fn new(seat: Seat, now: Timestamp) -> Subscribed {
        Subscribed {
            subscriber: Subscriber::new(now),
            seat,
            counter: None,
            amount: 0,
            knows: None,
            taken: Cost::ZERO,
            reported: now,
        }
    }

    /// Looks at the bucket after the gateway has admitted and refused so many, or without a
    /// report: settles what was used, takes or gives back quota, and says what to tell.
    pub(super) async fn look(
        &mut self,
        services: &Services,
        bucket: &Bucket,
        reported: Option<(u64, u64)>,
        deadline: Instant,
    ) -> Looked {
        let here = Here {
            services,
            bucket,
            deadline,
        };
        if let Some((allowed, denied)) = reported {
            let now = services.clock.now();
            let beyond = self.subscriber.reported(allowed, denied, now);
            let settled = allowed.saturating_sub(beyond.get());
            self.taken = Cost::new(self.taken.get().saturating_sub(settled));
            if !beyond.is_peek() {
                here.act(Act::Charge(beyond)).await;
            }
        }
        let said = here.act(Act::Look { reported }).await;
        self.draws_on(said.counter);
        if reported.is_some() {
            self.give_lapsed_back(&here, said.shortest_of_several).await;
        }
        let period = said.room().map_or(Nanos::ZERO, |room| room.period);
        if self.subscriber.is_idle(period, services.clock.now()) {
            self.give_back(&here, self.subscriber.held()).await;
            return Looked::Abandoned;
        }
        let told = match said.standing {
            Standing::Limited(room) => self.limited(&here, room).await,
            Standing::Free => self.blanket(&here, Assignment::AllowAll).await,
            Standing::Banned => self.blanket(&here, Assignment::DenyAll).await,
            // The old assignment ends by its time to live.
            Standing::Unknown => Told {
                assignment: None,
                time_to_live: self.subscriber.time_to_live(),
                look_again: None,
            },
        };
        self.says(services);
        let is_new = told.assignment.is_some() && told.assignment != self.knows;
        self.knows = told.assignment.or(self.knows);
        Looked::Told {
            assignment: told.assignment,
            is_new,
            time_to_live: told.time_to_live,
            // If no report comes before; one that says nothing any more is found out.
            again: told
                .look_again
                .unwrap_or(Nanos::MAX)
                .clamp(SOONEST, told.time_to_live.max(SOONEST)),
        }
    }

    /// Until when the gateway may spend what it was assigned if it hears nothing more; `None`
    /// if it was assigned nothing.
    pub(super) fn spends_until(&self) -> Option<Timestamp> {
        self.subscriber.spends_until()
    }

    /// Goes on on another stream.
    pub(super) fn resume(&mut self) {
        self.subscriber.resume();
    }

    /// Gives back all that was taken and not reported as used, to those limits where it
    /// counts yet.
    pub(super) async fn end(mut self, services: &Services, bucket: &Bucket, deadline: Instant) {
        if self.taken.is_peek() {
            return;
        }
        let here = Here {
            services,
            bucket,
            deadline,
        };
        let said = here.act(Act::Look { reported: None }).await;
        if self.counter != said.counter {
            // By rules that are gone, and their counters too.
            return;
        }
        if let Some(room) = said.room() {
            self.subscriber.lapse(&room, services.clock.now());
        }
        self.give_back(&here, self.subscriber.held()).await;
        if let Some(within) = said.shortest_of_several.filter(|_| !self.taken.is_peek()) {
            let (cost, at) = (self.taken, self.reported);
            here.act(Act::Lapsed { cost, at, within }).await;
        }
    }

    /// What it holds of another counter is of rules that are gone, and their counters too.
    fn draws_on(&mut self, counter: Option<Key>) {
        if self.counter != counter {
            self.subscriber.gave_back(self.subscriber.held());
            self.taken = self.subscriber.unsettled();
            self.counter = counter;
        }
    }

    async fn limited(&mut self, here: &Here<'_>, room: Room) -> Told {
        let clock = &here.services.clock;
        let mut room = room;
        if room.amount < self.amount {
            // By other rules. What remains tells nothing while more is taken than there is.
            let said = self.give_back(here, self.subscriber.held()).await;
            room = said.and_then(|said| said.room()).unwrap_or(room);
        }
        self.amount = room.amount;
        let peers = self.says(here.services);
        match self.subscriber.wanted(&room, &peers, clock.now()) {
            Move::Take(cost) => {
                let (taken, said) = here.take(cost).await;
                self.subscriber.took(taken, clock.now());
                self.taken = Cost::new(self.taken.get().saturating_add(taken.get()));
                room = said.room().unwrap_or(room);
            }
            Move::GiveBack(cost) => {
                let said = self.give_back(here, cost).await;
                room = said.and_then(|said| said.room()).unwrap_or(room);
            }
            Move::Keep => {}
        }
        self.subscriber.told(&room, clock.now())
    }

    /// Nothing is held where no limit has a say.
    async fn blanket(&mut self, here: &Here<'_>, assignment: Assignment) -> Told {
        self.give_back(here, self.subscriber.held()).await;
        let now = here.services.clock.now();
        self.subscriber.tell(assignment, now)
    }

    async fn give_back(&mut self, here: &Here<'_>, cost: Cost) -> Option<Said> {
        if cost.is_peek() {
            return None;
        }
        self.subscriber.gave_back(cost);
        self.taken = Cost::new(self.taken.get().saturating_sub(cost.get()));
        Some(here.act(Act::GiveBack(cost)).await)
    }

    /// Gives back what was not used while it held, to those limits with longer windows than
    /// the `shortest`.
    async fn give_lapsed_back(&mut self, here: &Here<'_>, shortest: Option<Nanos>) {
        // It was taken before the last report, and before its window ended.
        let at = std::mem::replace(&mut self.reported, here.services.clock.now());
        let unsettled = self.subscriber.unsettled();
        let lapsed = Cost::new(self.taken.get().saturating_sub(unsettled.get()));
        self.taken = unsettled;
        if let Some(within) = shortest.filter(|_| !lapsed.is_peek()) {
            let cost = lapsed;
            here.act(Act::Lapsed { cost, at, within }).await;
        }
    }

    /// Tells the other subscribers of the counter, and hears of them.
    fn says(&mut self, services: &Services) -> Peers {
        let subscriber = &self.subscriber;
        let now = services.clock.now();
        let saying = Saying {
            counter: self.counter,
            demand: subscriber.demand(),
            held: subscriber.held(),
            left: subscriber.left(now),
            waits: subscriber.waits(now),
            now,
        };
        let nodes = services.engine.counters().fleet().nodes();
        self.seat.says(saying, nodes)
    }
}

/// Where a bucket is looked at.
struct Here<'l> {
    services: &'l Services,
    bucket: &'l Bucket,
    deadline: Instant,
}

impl Here<'_> {
    async fn act(&self, what: Act) -> Said {
        act(self.services, self.bucket, what, self.deadline).await
    }

    /// Takes `cost`, or what is left of the limit where that is less. Answers how much.
    async fn take(&self, cost: Cost) -> (Cost, Said) {
        let said = self.act(Act::Take(cost)).await;
        if said.is_admitted {
            return (cost, said);
        }
        let left = said.room().map_or(0, |room| room.remaining);
        let less = Cost::new(left.min(cost.get()));
        if less.is_peek() || less == cost {
            return (Cost::ZERO, said);
        }
        let said = self.act(Act::Take(less)).await;
        let taken = if said.is_admitted { less } else { Cost::ZERO };
        (taken, said)
    }
}
