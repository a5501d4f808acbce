//! The flags of `tidegate simulate`.

use std::io::{IsTerminal, stderr};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::mode::read_mode;
use super::values::{Rate, Spread, read_algorithm, read_percent};
use super::values::{read_delay, read_exponent, read_interval, read_loss, read_until};
use crate::app::config::{read_duration, read_number};
use crate::simulation::Until;
use crate::units::{Algorithm, Consistency, Nanos};

const FLEET: &str = "The fleet and what is asked of it";
const LIMIT: &str = "The limit";
const NETWORK: &str = "The network and the pace";
const RUN: &str = "The simulation and its report";

pub(in crate::app) const LONG: &str = "\
Simulate a fleet, to choose its sync interval.

The daemon's own engine and sync run N times in virtual time, with a simulated store
and network; an exact counter that sees everything judges each check. Beside each row
stands what a plain limiter would do, whose nodes add their count to the store's at a
fixed interval and know nothing in between.";

pub(in crate::app) const NOTES: &str = "\
The columns:
  over      by how much the limit was exceeded at the worst moment, in parts of it (of
            a bucket: of its burst): the mean, the 99th of 100 and the worst of all
            windows in which a caller wanted more than it; cold: the same in the first
            window, in which no node knew anything
  used      what was used of the limit in those windows
  refused   the part of all checks refused although the fleet was below its limit at
            that moment. Where more is wanted than the limit admits, this means only
            that the room went to somebody else: look at what was used
  store     what it carried out in a second for the whole fleet, two of which are each
            node's word that it lives, how busy a Redis is with it, and all bytes, with
            what it answered and announced
  age       how old the store's word was at a check
  plain     over and commands of a plain fixed interval. Fixed window: over =
            (1 - sum of the squares of the nodes' shares) x demand/limit x
            interval/window; the others refill meanwhile, and each node hands that
            out: over = (sum of what nodes take of it / what is refilled - 1) x
            interval/window; never more than is asked, or than the limit on every
            node. Commands: one for each node and caller that had something to send
Where a - stands there is nothing to tell: nobody wanted more than the limit, or it is
not simulated.

The same command line prints the same figures on every machine.

A large fleet takes long. From 200,000 checks in a window on there are fewer windows,
down to 1 after the first. With more than a million cells (nodes x callers) or 60
million checks the callers are cut into slices by their partition in the store, each of them simulated
for itself with all nodes, on as many cores as there are; slices never wait for each
other in the store, so look whether it is busy. With more than 20 million checks for
an interval only some of the slices are simulated: callers whom a hash of their key
chooses, however much they ask, with all nodes. What the store has to do is scaled;
the worst window is that of those callers. --windows and --sample ask for more.";

/// The arguments of `tidegate simulate`.
#[derive(clap::Args)]
pub(in crate::app) struct SimulateArgs {
    /// How many nodes there are
    #[arg(long, value_name = "NUMBER", default_value_t = 4, help_heading = FLEET,
          value_parser = |text: &str| read_number::<u32>(text, 1, 10_000))]
    pub(super) nodes: u32,
    /// Checks a second of the whole fleet; or `2x`, times what its limits admit
    #[arg(long, value_name = "NUMBER|TIMES", default_value = "2x", help_heading = FLEET)]
    pub(super) rate: Rate,
    /// How the checks come: even, skewed[:PART], shifting[:PART,EVERY],
    /// stepping[:AFTER] or bursting[:CHECKS]
    #[arg(long, default_value = "even", help_heading = FLEET)]
    pub(super) shape: Spread,
    /// How many callers there are, each with a limit of its own
    #[arg(long, value_name = "NUMBER", default_value_t = 1, help_heading = FLEET,
          value_parser = |text: &str| read_number::<u32>(text, 1, 100_000_000))]
    pub(super) keys: u32,
    /// How unevenly the callers ask: 0, all alike; 1, as words in a text
    #[arg(long, value_name = "EXPONENT", default_value = "0", help_heading = FLEET,
          value_parser = read_exponent)]
    pub(super) zipf: f64,

    /// Take the limit from this rule file or config file; flags win over it
    #[arg(long, value_name = "FILE|DIR", help_heading = LIMIT)]
    pub(super) rules: Option<PathBuf>,
    /// The rule's name, where the file has several
    #[arg(long, value_name = "NAME", requires = "rules", help_heading = LIMIT)]
    pub(super) rule: Option<String>,
    /// The tier; without it the one of callers without a tier
    #[arg(long, value_name = "TIER", requires = "rules", help_heading = LIMIT)]
    pub(super) tier: Option<String>,
    /// The limit's name, where the tier has several
    #[arg(long, value_name = "NAME", requires = "rules", help_heading = LIMIT)]
    pub(super) limit_name: Option<String>,
    /// How much it admits in each window [default: 1000]
    #[arg(long, value_name = "NUMBER", help_heading = LIMIT,
          value_parser = |text: &str| read_number::<u64>(text, 1, u64::MAX))]
    pub(super) limit: Option<u64>,
    /// Its window [default: 1s]
    #[arg(long, value_name = "DURATION", help_heading = LIMIT, value_parser = read_duration)]
    pub(super) window: Option<Nanos>,
    /// How it counts [default: sliding_window]
    #[arg(long, value_name = "NAME", help_heading = LIMIT, value_parser = read_algorithm)]
    pub(super) algorithm: Option<Algorithm>,
    /// Buckets alone: the most at once [default: the limit]
    #[arg(long, value_name = "NUMBER", help_heading = LIMIT,
          value_parser = |text: &str| read_number::<u64>(text, 1, u64::MAX))]
    pub(super) burst: Option<u64>,
    /// How close to the fleet's truth it answers; a list [default: approximate]
    #[arg(long, value_name = "MODE,…", value_delimiter = ',', help_heading = LIMIT,
          value_parser = read_mode)]
    pub(super) consistency: Vec<Consistency>,

    /// The quickest round trip to the store
    #[arg(long, value_name = "DURATION", default_value = "1ms", help_heading = NETWORK,
          value_parser = read_delay)]
    pub(super) rtt: Nanos,
    /// How much longer each way takes on average
    #[arg(long, value_name = "DURATION", default_value = "0s", help_heading = NETWORK,
          value_parser = read_delay)]
    pub(super) jitter: Nanos,
    /// The part of the messages that are lost and sent again, such as 1%
    #[arg(long, value_name = "PERCENT", default_value = "0%", help_heading = NETWORK,
          value_parser = read_loss)]
    pub(super) loss: f64,
    /// The intervals to try [default: 10ms,100ms,1s, and the rule's own]
    #[arg(long, value_name = "DURATION,…", value_delimiter = ',', help_heading = NETWORK,
          value_parser = read_interval)]
    pub(super) sync_interval: Vec<Nanos>,
    /// As for serve [default: the rule's, or 5ms]
    #[arg(long, value_name = "DURATION", help_heading = NETWORK, value_parser = read_duration)]
    pub(super) sync_min_interval: Option<Nanos>,
    /// As for serve [default: the rule's, or 5s]
    #[arg(long, value_name = "DURATION", help_heading = NETWORK, value_parser = read_duration)]
    pub(super) sync_max_interval: Option<Nanos>,

    /// Windows after the first [default: 100, or fewer if they would take long]
    #[arg(long, value_name = "NUMBER", help_heading = RUN,
          value_parser = |text: &str| read_number::<u32>(text, 1, 1_000_000))]
    pub(super) windows: Option<u32>,
    /// The part of a large fleet's callers that is simulated; what the store has to do
    /// is scaled to all [default: 100%, or less if that would take long]
    #[arg(long, value_name = "PERCENT", help_heading = RUN, value_parser = read_percent)]
    pub(super) sample: Option<f64>,
    /// Where all chance comes from
    #[arg(long, value_name = "NUMBER", default_value_t = 1, help_heading = RUN,
          value_parser = |text: &str| read_number::<u64>(text, 0, u64::MAX))]
    pub(super) seed: u64,
    /// Stop the first of the intervals with this step, or so long after the first check,
    /// and print what happened last and how everything stood
    #[arg(long, value_name = "STEP|DURATION", help_heading = RUN, value_parser = read_until)]
    pub(super) until: Option<Until>,
    /// How much the worst window may go over, for the recommendation
    #[arg(long, value_name = "PERCENT", default_value = "1%", help_heading = RUN,
          value_parser = read_percent)]
    pub(super) target_over: f64,
    /// Draw the trade-off into this file
    #[arg(long, value_name = "FILE", help_heading = RUN)]
    pub(super) svg: Option<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = RUN)]
    pub(super) format: Format,
    /// Tell the progress on standard error even if that is no terminal
    #[arg(long, help_heading = RUN)]
    progress: bool,
    /// How many intervals are simulated at once [default: one for each core]
    #[arg(long, value_name = "NUMBER", help_heading = RUN,
          value_parser = |text: &str| read_number::<usize>(text, 1, 10_000))]
    threads: Option<usize>,
}

/// What to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// A table, and what to make of it.
    Text,
    /// One object.
    Json,
}

impl SimulateArgs {
    pub(super) fn threads(&self) -> NonZeroUsize {
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.threads
            .and_then(NonZeroUsize::new)
            .unwrap_or_else(cores)
    }

    pub(super) fn tells_progress(&self) -> bool {
        self.progress || stderr().is_terminal()
    }
}
