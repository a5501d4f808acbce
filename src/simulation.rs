//! A fleet in virtual time: the real [`engine`](crate::engine) and the real core of
//! the [`sync`](crate::sync), N times, with a store and a network that are simulated.
//!
//! Nothing here waits, and all chance comes from a seed, so a [`Scenario`] gives the
//! same figures every time. What is simulated is held against the real thing where it
//! stands in for it: [`SimStore`] against the scripts on a real Redis. What the nodes
//! decide is judged by one exact counter of the same algorithm that sees everything.

mod agenda;
mod demand;
mod dice;
mod fault;
mod figures;
mod network;
mod node;
mod scenario;
mod sizes;
mod slice;
mod store;
mod truth;
mod world;

pub use demand::Shape;
pub use dice::Dice;
pub use fault::{Fault, Memory, Trouble};
pub use figures::{Figures, Measured, Over};
pub use network::{Chaos, Network};
pub use node::Skew;
pub use scenario::{Progress, Scenario, Service, SimulationError};
pub use slice::Slice;
pub use store::{Bucket, Count, SimStore, Terms, Value};
pub use truth::Worst;
pub use world::{Admission, News, Until, World};
