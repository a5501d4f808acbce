//! The command line, the configuration, and the wiring of all rooms.

mod asking;
mod banner;
mod check;
mod cli;
pub mod config;
mod digest;
mod exit;
mod explain;
mod fleet_command;
mod fleet_rules;
mod force;
mod noticed;
mod reload;
mod secrets;
mod serve;
mod simulate;
mod store_url;
mod surroundings;
mod telemetry;
mod upkeep;
mod validate;

pub use cli::run;
pub use exit::Exit;
