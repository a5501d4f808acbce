//! The fleet, its store and the network between, in virtual time.

mod events;
mod judge;
mod ticks;
mod trace;
mod trouble;

use std::sync::Arc;

use super::agenda::Agenda;
use super::demand::{Arrival, Demand};
use super::dice::{Dice, Weighted};
use super::figures::{Figures, Stale};
use super::node::{Making, Node};
use super::scenario::{Scenario, SimulationError};
use super::slice::Sliced;
use super::store::{SimStore, Terms};
use super::truth::Truth;
use crate::counters::{Counters, Fleet};
use crate::engine::Engine;
use crate::rules::{Defaults, Format, RuleSet, Source};
use crate::sync::batch::Boot;
use crate::sync::event::Report;
use crate::sync::pacing;
use crate::units::{Cost, Key, KeySecret, Limit, Nanos, Timestamp};
use events::Happening;
use trace::Trace;
pub use trace::Until;

/// Everything.
#[derive(Debug)]
pub struct World {
    now: Timestamp,
    /// When the first check may come: the start of a window.
    start: Timestamp,
    agenda: Agenda<Happening>,
    places: Vec<Place>,
    store: SimStore,
    /// How many faults keep it stopped, and how many make it stall.
    stopped: u32,
    stalled: u32,
    /// What has reached it since it stalled.
    waiting: Vec<Happening>,
    /// When it is done with what has reached it, and how long it has worked.
    store_free: Timestamp,
    store_worked: Nanos,
    /// Grows whenever the store's connections break.
    store_life: u64,
    connections: u64,
    scenario: Scenario,
    sources: [Source; 1],
    defaults: Defaults,
    terms: Terms,
    demand: Option<Demand>,
    dice: Dice,
    /// How often a node polls its sync.
    poll: Nanos,
    limits: Vec<Arc<Limit>>,
    sliced: Sliced,
    truth: Truth,
    tally: Figures,
    stale: Stale,
    /// Old states of the store, by the fault that will bring them back.
    dumps: Vec<(usize, SimStore)>,
    admissions: Option<Vec<Admission>>,
    news: Vec<News>,
    /// How much has happened, checks among it, and what is told of it.
    steps: u64,
    trace: Option<Trace>,
    /// Which turns of the sweep find anything; all, if nothing is said.
    sweeps: Vec<bool>,
    arrivals: Vec<Arrival>,
}

/// Where a node runs, or will again.
#[derive(Debug)]
struct Place {
    node: Option<Node>,
    /// Grows whenever the node starts anew, so that what was meant for its former life
    /// is told apart.
    life: u64,
    /// When it started: the first of its polls.
    since: Timestamp,
    /// When it will next tick, as far as is known.
    ticks_at: Option<Timestamp>,
    /// How many partitions part it from the store.
    parted: u32,
    /// The store's life that the node's connection leads to.
    leads_to: u64,
    /// When the last messages arrive that are on their way to the store, and back.
    last_there: Timestamp,
    last_back: Timestamp,
    last_heard: Timestamp,
    /// The store's life whose announcements the node hears.
    listens_to: u64,
}

/// One admitted check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The node that admitted it, and which of the lives of that node.
    pub node: usize,
    /// Its life, from 1.
    pub life: u64,
    /// The number of the key.
    pub key: u32,
    /// Its cost.
    pub cost: Cost,
    /// When, on the store's clock.
    pub at: Timestamp,
    /// When, as the node believed.
    pub counted_at: Timestamp,
}

/// A report of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// When, on the store's clock.
    pub at: Timestamp,
    /// Of which node.
    pub node: usize,
    /// What.
    pub report: Report,
}

/// What is under way is looked at so often, when it is waited for.
const STEP: Nanos = Nanos::from_millis(1);
/// So long before the first check the nodes start: time to find each other.
const WARM_UP: Nanos = Nanos::from_secs(3);
/// About when it all happens.
const EPOCH: Timestamp = Timestamp::from_nanos(1_800_000_000_000_000_000);
/// So few cells may leave whole turns of the sweep without any.
const FEW_CELLS: u64 = 1_000;
/// The cells of one node, at most: as many as memory holds.
const MAX_CELLS: usize = usize::MAX;

impl World {
    /// A fleet whose nodes have just found each other, before the first check.
    ///
    /// # Errors
    /// [`SimulationError`] if the scenario makes no sense.
    pub fn new(scenario: &Scenario) -> Result<World, SimulationError> {
        World::with_rules(scenario, &scenario.rules())
    }

    /// The same, under `rules` instead of the scenario's limit: YAML with one rule
    /// called `simulated`, whose first limit is the one that is measured.
    ///
    /// # Errors
    /// [`SimulationError`] if the scenario makes no sense.
    pub fn with_rules(scenario: &Scenario, rules: &str) -> Result<World, SimulationError> {
        World::at(scenario, rules, None)
    }

    /// The same, with the first check at `start`: near the turn of a window that is too long
    /// to be waited for.
    ///
    /// # Errors
    /// [`SimulationError`] if the scenario makes no sense.
    pub fn starting_at(
        scenario: &Scenario,
        rules: &str,
        start: Timestamp,
    ) -> Result<World, SimulationError> {
        World::at(scenario, rules, Some(start))
    }

    fn at(
        scenario: &Scenario,
        rules: &str,
        start: Option<Timestamp>,
    ) -> Result<World, SimulationError> {
        scenario.check()?;
        let secret = KeySecret::public();
        let defaults = Defaults {
            pace: scenario.pace,
            secret: secret.clone(),
        };
        let sources = [Source {
            name: "scenario".into(),
            text: rules.into(),
            format: Format::Yaml,
        }];
        let rules = RuleSet::compile(&sources, &defaults)?.rules;
        let limits = rules.limits().to_vec();
        let measured = limits
            .first()
            .ok_or(SimulationError::Range("there is no limit"))?;
        let quota = measured.quota;
        let windows = quota.windows();
        let next = || windows.end(windows.at(EPOCH.after(WARM_UP)));
        let start = start.unwrap_or_else(next);
        let now = start.before(WARM_UP);
        let mut dice = Dice::new(scenario.seed);
        if scenario.slice.number() > 0 {
            // Chance of its own.
            dice = Dice::new(dice.number() ^ u64::from(scenario.slice.number()));
        }
        let sliced = scenario.sliced(measured);
        let keys = Weighted::new(sliced.weights.clone());
        let demand = Demand::new(
            scenario.rate * sliced.part,
            scenario.shape,
            scenario.nodes,
            keys,
            start,
            dice.fork(),
        );
        let place = |_| Place {
            node: None,
            life: 0,
            since: now,
            ticks_at: None,
            parted: 0,
            leads_to: 0,
            last_there: now,
            last_back: now,
            last_heard: now,
            listens_to: 0,
        };
        let mut world = World {
            now,
            start,
            agenda: Agenda::default(),
            places: (0..scenario.nodes).map(place).collect(),
            store: SimStore::default(),
            store_free: now,
            store_worked: Nanos::ZERO,
            stopped: 0,
            stalled: 0,
            waiting: Vec::new(),
            store_life: 1,
            connections: 0,
            scenario: scenario.clone(),
            sources,
            terms: Terms {
                partitions: scenario.partitions.get(),
                check_value: secret.check_value(),
            },
            defaults,
            demand: Some(demand),
            dice,
            poll: pacing::poll(scenario.pace),
            limits,
            truth: Truth::new(quota, sliced.count(), start)?,
            sliced,
            tally: Figures::default(),
            stale: Stale::default(),
            dumps: Vec::new(),
            admissions: None,
            news: Vec::new(),
            steps: 0,
            trace: None,
            sweeps: Vec::new(),
            arrivals: Vec::new(),
        };
        for node in 0..world.places.len() {
            // No two nodes tick at the same moment.
            let at = world
                .now
                .after(Nanos::new(world.dice.below(world.poll.get())));
            world.agenda.enter(at, Happening::Starts { node });
        }
        world.enter_faults();
        world.happen_until(start);
        world.tally = Figures::default();
        world.store_worked = Nanos::ZERO;
        Ok(world)
    }

    /// When the first check may come.
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// The time on the store's clock.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Checks so far.
    pub fn checks(&self) -> u64 {
        self.tally.checks
    }

    /// Batches that were sent so far.
    pub fn batches(&self) -> u64 {
        self.tally.batches
    }

    /// How often the node has started.
    pub fn life(&self, node: usize) -> u64 {
        self.places.get(node).map_or(0, |place| place.life)
    }

    /// Cost that living nodes have admitted and never sent, because its window no
    /// longer mattered.
    pub fn expired(&self) -> u64 {
        let nodes = self.places.iter().filter_map(|place| place.node.as_ref());
        nodes
            .map(|node| node.engine.counters().totals().expired)
            .sum()
    }

    /// The limits that apply to every check, the measured one first.
    pub fn limits(&self) -> &[Arc<Limit>] {
        &self.limits
    }

    /// The cell of the key of this number under `limit`.
    pub fn key(limit: &Limit, number: u32) -> Key {
        limit.hasher.key_of("key", &number.to_be_bytes())
    }

    /// The store as it is now.
    pub fn store(&self) -> &SimStore {
        &self.store
    }

    /// From now on remembers every admission.
    pub fn remember_admissions(&mut self) {
        self.admissions.get_or_insert_default();
    }

    /// What was admitted since [`World::remember_admissions`].
    pub fn admissions(&self) -> &[Admission] {
        self.admissions.as_deref().unwrap_or_default()
    }

    /// What nodes reported of the store: found and lost, hashes lost and undone.
    pub fn news(&self) -> &[News] {
        &self.news
    }

    /// No more checks come by themselves.
    pub fn end_demand(&mut self) {
        self.demand = None;
    }

    /// From now on the network is another.
    pub fn set_network(&mut self, network: super::Network) {
        self.scenario.network = network;
    }

    /// What is used of the measured limit for the key of this number, in truth.
    pub fn used(&mut self, key: u32) -> u64 {
        self.truth.used(key, self.now)
    }

    /// Runs until `end` on the store's clock, with the demand.
    pub fn run_until(&mut self, end: Timestamp) {
        while self.now < end {
            let mut arrivals = std::mem::take(&mut self.arrivals);
            let from = self.now.max(self.start);
            let until = match &mut self.demand {
                None => end,
                Some(demand) => {
                    let until = demand.draw_until(from).min(end);
                    demand.draw(from, until, &mut arrivals);
                    until
                }
            };
            for arrival in arrivals.drain(..) {
                self.happen_until(arrival.at);
                let node = arrival.node as usize;
                self.check(node, arrival.key, Cost::ONE);
            }
            self.arrivals = arrivals;
            self.happen_until(until);
        }
    }

    /// Lets time pass without demand until every node has sent all it has and heard
    /// all answers, for at most `most`. Answers whether it came to that.
    pub fn settle(&mut self, most: Nanos) -> bool {
        let end = self.now.after(most);
        loop {
            let nodes = self.places.iter().filter_map(|place| place.node.as_ref());
            if nodes.into_iter().all(Node::is_idle) {
                return true;
            }
            if self.now >= end {
                return false;
            }
            self.happen_until(self.now.after(STEP));
        }
    }

    /// Makes every node send what it has at once, and look at every hash.
    pub fn flush(&mut self) {
        for node in 0..self.places.len() {
            self.with_node(node, |node, wants| node.flush(wants));
        }
    }

    /// The node at `place` starts, for the first time or anew.
    fn start_node(&mut self, node: usize) {
        let Ok(rules) = RuleSet::compile(&self.sources, &self.defaults) else {
            return; // They were compiled before.
        };
        let counters = Arc::new(Counters::new(MAX_CELLS, Fleet::with_store()));
        let engine = Engine::new(rules.rules, counters, &self.defaults.secret);
        let skew = self.scenario.skews.get(node).copied();
        let making = Making {
            boot: Boot::new(self.dice.number()),
            partitions: self.scenario.partitions,
            poll: self.poll,
            skew: skew.unwrap_or_default(),
            since: self.start,
        };
        let luck = self.dice.fork();
        if self.sweeps.is_empty() {
            self.sweeps = self.used_turns(engine.counters());
        }
        let mut wants = Vec::new();
        let started = Node::start(engine, making, self.now, luck, &mut wants);
        let place = &mut self.places[node];
        place.life += 1;
        place.node = started.ok();
        (place.since, place.ticks_at) = (self.now, Some(self.now));
        let life = place.life;
        self.agenda.enter(self.now, Happening::Ticks { node, life });
        self.agenda
            .enter(self.now, Happening::Listens { node, life });
        let turn = 0;
        self.agenda
            .enter(self.now, Happening::Sweeps { node, life, turn });
        self.grant(node, wants);
    }
}

impl World {
    /// Which turns of the sweep find any of few cells; nothing for many.
    fn used_turns(&self, counters: &Counters) -> Vec<bool> {
        let keys = u32::try_from(self.sliced.count()).unwrap_or(u32::MAX);
        if u64::from(keys) * self.limits.len() as u64 > FEW_CELLS {
            return Vec::new();
        }
        let mut turns = vec![false; counters.sweeps_per_round()];
        for limit in &self.limits {
            for place in 0..keys {
                let key = World::key(limit, self.sliced.number(place));
                turns[counters.turn_of(key)] = true;
            }
        }
        turns
    }
}
