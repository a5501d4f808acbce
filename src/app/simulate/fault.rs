//! Why nothing is simulated, said so that it can be put right.

use std::io;
use std::path::PathBuf;

use crate::app::config;
use crate::simulation::SimulationError;
use crate::units::{Nanos, QuotaError};

/// One thing that is wrong.
#[derive(Debug, thiserror::Error)]
pub(super) enum SimulateFault {
    /// A rule file is wrong.
    #[error("{0}")]
    Rules(config::Fault),
    /// No rule, or none of that name.
    #[error("--rule: {}; write --rule with {}", asked(.given.as_deref()), .known.join(" or "))]
    Rule {
        given: Option<String>,
        known: Vec<String>,
    },
    /// There is no rule at all.
    #[error("--rules: {} has no rules; write one, or --limit and --window instead", .0.display())]
    NoRules(PathBuf),
    /// The rule has no such tier.
    #[error("--tier: rule {rule} has no tier {tier}; its limits are {}", .limits.join(", "))]
    Tier {
        rule: String,
        tier: String,
        limits: Vec<String>,
    },
    /// The tier has several limits, or none of that name.
    #[error("--limit-name: one limit at a time is simulated; write --limit-name with {}", .0.join(" or "))]
    LimitName(Vec<String>),
    /// The limit admits nothing.
    #[error("--rules: the limit {0} admits nothing; write --limit with what it is to admit")]
    Ban(String),
    /// The limit counts by a calendar.
    #[error(
        "--rules: the limit {limit} counts by a calendar, which is not simulated; write \
         --window with a fixed length, such as {instead}"
    )]
    Calendar {
        limit: String,
        instead: &'static str,
    },
    /// The limit cannot be computed with.
    #[error("{flag}: {error}")]
    Quota {
        flag: &'static str,
        error: QuotaError,
    },
    /// One node alone cannot be busier than the others.
    #[error("--shape: {0} needs several nodes; write --nodes 2 or more, or --shape even")]
    Alone(String),
    /// The demand never rises.
    #[error(
        "--shape: the demand would rise after {after}, but all is over after {span}; \
         write a shorter stepping:AFTER, or more --windows"
    )]
    NeverSteps { after: Nanos, span: Nanos },
    /// A lone caller cannot be unlike others.
    #[error("--zipf: with one caller there is none to be unlike; write --keys 1000 or the like")]
    OneKey,
    /// So small a fleet is simulated as a whole.
    #[error(
        "--sample: so small a fleet is simulated as a whole; leave it out, or write more \
         --nodes or --keys"
    )]
    Sample,
    /// Two paces contradict each other.
    #[error(
        "{flag}: {given} contradicts --sync-interval {interval}; an interval lies between its \
         min and max: write one {} {given}", if *.too_short { "of at least" } else { "of at most" }
    )]
    Pace {
        flag: &'static str,
        given: Nanos,
        interval: Nanos,
        too_short: bool,
    },
    /// The moment never comes.
    #[error("--until: all is over before; write an earlier step or moment, or more --windows")]
    OverBefore,
    /// The rate is more than can be simulated.
    #[error("--rate: {0} checks a second; write at most 1000000000")]
    Rate(f64),
    /// It would never end.
    #[error(
        "--windows: {windows} windows of {window} are too long to simulate; \
         write fewer windows, or a shorter --window"
    )]
    TooLong { windows: u32, window: Nanos },
    /// The simulation does not want it.
    #[error("{0}")]
    Simulation(#[from] SimulationError),
    /// The drawing cannot be written.
    #[error("--svg: cannot write {}: {source}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}

fn asked(given: Option<&str>) -> String {
    given.map_or_else(
        || "there are several rules".to_owned(),
        |name| format!("there is no rule {name}"),
    )
}
