//! The command line, the configuration, and the wiring of all rooms.

mod address;
mod banner;
mod check;
mod cli;
mod config;
mod exit;
mod secrets;
mod serve;
mod store_url;
mod surroundings;
mod telemetry;
mod validate;

pub use cli::run;
pub use config::{Config, Fault, KEYS, Key, Settings, Surroundings, load};
pub use exit::Exit;
