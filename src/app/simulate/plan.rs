//! What is simulated: the flags, the rule file and the defaults, put together.

use std::path::Path;
use std::sync::Arc;

use super::args::SimulateArgs;
use super::fault::SimulateFault;
use super::mode::mode_name;
use super::values::{Rate, Spread, percent_text, shape_text};
use crate::app::{config, surroundings};
use crate::rules::{AppliedLimits, RuleSet};
use crate::simulation::{Network, Scenario, Shape};
use crate::units::{Algorithm, Consistency, Limit, LimitId, Nanos, Pace, Quota, Windows};

/// What is simulated.
#[derive(Debug)]
pub(super) struct Plan {
    /// All that the rows have in common.
    pub(super) common: Scenario,
    /// One for each mode, in their order.
    pub(super) modes: Vec<Consistency>,
    /// One for each interval, the shortest first.
    pub(super) intervals: Vec<Nanos>,
    /// What was said of the shortest and the longest pace.
    min_interval: Option<Nanos>,
    max_interval: Option<Nanos>,
    /// How many slices of the callers are simulated.
    pub(super) slices: usize,
    /// How much the worst window may go over, as a part of the limit.
    pub(super) target: f64,
}

/// The intervals that are tried where none are named.
const INTERVALS: [Nanos; 3] = [
    Nanos::from_millis(10),
    Nanos::from_millis(100),
    Nanos::from_secs(1),
];
/// How many windows after the first are simulated, where it is not said and does not
/// take too long.
const WINDOWS: f64 = 100.0;
/// What takes too long: so many checks, or seconds of one node, which take as long as so
/// many checks even if nothing is asked of it.
const STEPS: f64 = 20e6;
const IDLE: f64 = 5.0;
/// The checks of one interval from which on not all slices are simulated, unless asked.
const SAMPLED: f64 = 20e6;
/// The longest simulation: three years of virtual time.
const LONGEST: Nanos = Nanos::from_secs(3 * 366 * 86_400);

/// A limit with its pace.
struct Base {
    quota: Quota,
    consistency: Consistency,
    pace: Pace,
}

impl Plan {
    /// # Errors
    /// All that is wrong with it.
    pub(super) fn of(args: &SimulateArgs) -> Result<Plan, Vec<SimulateFault>> {
        let base = match &args.rules {
            Some(path) => base_of(path, args)?,
            None => Base {
                quota: quota(args, None).map_err(|fault| vec![fault])?,
                consistency: Consistency::Approximate,
                pace: Pace::default(),
            },
        };
        let mut faults = Vec::new();
        let modes = modes(args, base.consistency);
        let (quota, standard) = (base.quota, Pace::default());
        let stated =
            |flag: Option<Nanos>, ours: Nanos, usual| flag.or((ours != usual).then_some(ours));
        let min = stated(
            args.sync_min_interval,
            base.pace.min_interval,
            standard.min_interval,
        );
        let max = stated(
            args.sync_max_interval,
            base.pace.max_interval,
            standard.max_interval,
        );
        let mut plan = Plan {
            common: Scenario {
                nodes: args.nodes,
                keys: args.keys,
                zipf: args.zipf,
                algorithm: quota.algorithm(),
                limit: quota.amount(),
                window: quota.period(),
                burst: Some(quota.capacity()).filter(|burst| *burst != quota.amount()),
                network: Network {
                    round_trip: args.rtt,
                    jitter: args.jitter,
                    loss: args.loss,
                    ..Network::default()
                },
                seed: args.seed,
                ..Scenario::default()
            },
            modes,
            intervals: intervals(args, base.pace.interval, min, max),
            min_interval: min,
            max_interval: max,
            slices: 1,
            target: args.target_over,
        };
        plan.ask(args, &mut faults);
        plan.sample(args, &mut faults);
        plan.check_paces(&mut faults);
        if faults.is_empty() {
            Ok(plan)
        } else {
            Err(faults)
        }
    }

    /// Fills in the demand, and for how long.
    fn ask(&mut self, args: &SimulateArgs, faults: &mut Vec<SimulateFault>) {
        let per_second = self.admitted_per_second();
        let common = &mut self.common;
        let window = common.window;
        common.rate = match args.rate {
            Rate::PerSecond(rate) => rate,
            Rate::Times(times) => times * per_second,
        };
        if common.rate > 1e9 {
            faults.push(SimulateFault::Rate(common.rate));
        }
        common.shape = match args.shape {
            Spread::Said(shape) => shape,
            Spread::ShiftingByWindow(share) => Shape::Shifting {
                share,
                every: window,
            },
            Spread::SteppingAfterWindow => Shape::Stepping {
                after: window.times(2),
            },
        };
        common.windows = args.windows.unwrap_or_else(|| affordable(common));
        let span = window.times(u64::from(common.windows) + 1);
        match common.shape {
            Shape::Skewed(_) | Shape::Shifting { .. } if common.nodes == 1 => {
                faults.push(SimulateFault::Alone(shape_text(common.shape)));
            }
            Shape::Stepping { after } if after >= span => {
                faults.push(SimulateFault::NeverSteps { after, span });
            }
            _ => {}
        }
        if common.zipf > 0.0 && common.keys == 1 {
            faults.push(SimulateFault::OneKey);
        }
        if span > LONGEST {
            let windows = common.windows;
            faults.push(SimulateFault::TooLong { windows, window });
        }
    }

    /// Decides how many slices are simulated.
    fn sample(&mut self, args: &SimulateArgs, faults: &mut Vec<SimulateFault>) {
        let all = self.common.slices().len();
        self.slices = match args.sample {
            Some(part) if part < 1.0 && all == 1 => {
                faults.push(SimulateFault::Sample);
                1
            }
            Some(part) => part_of(all, part),
            None => part_of(all, SAMPLED / self.common.checks()),
        };
    }

    fn check_paces(&self, faults: &mut Vec<SimulateFault>) {
        for &interval in &self.intervals {
            let wrong = |flag, given, too_short| SimulateFault::Pace {
                flag,
                given,
                interval,
                too_short,
            };
            let too_short = self.min_interval.filter(|min| *min > interval);
            faults.extend(too_short.map(|min| wrong("--sync-min-interval", min, true)));
            let too_long = self.max_interval.filter(|max| *max < interval);
            faults.extend(too_long.map(|max| wrong("--sync-max-interval", max, false)));
        }
    }

    /// One scenario for each row: by mode, then by interval.
    pub(super) fn scenarios(&self) -> Vec<Scenario> {
        let usual = Pace::default();
        let scenario = |consistency: Consistency, interval: Nanos| Scenario {
            consistency,
            pace: Pace {
                interval,
                min_interval: self
                    .min_interval
                    .unwrap_or(usual.min_interval.min(interval)),
                max_interval: self
                    .max_interval
                    .unwrap_or(usual.max_interval.max(interval)),
            },
            ..self.common.clone()
        };
        let modes = self.modes.iter();
        let of_mode = |mode| {
            self.intervals
                .iter()
                .map(move |every| scenario(mode, *every))
        };
        modes.flat_map(|mode| of_mode(*mode)).collect()
    }

    /// What all limits together admit in a second.
    #[allow(clippy::cast_precision_loss)] // A figure for people.
    pub(super) fn admitted_per_second(&self) -> f64 {
        let Scenario {
            limit,
            window,
            keys,
            ..
        } = self.common;
        limit as f64 / window.as_secs_f64() * f64::from(keys)
    }

    /// The part of the callers that is simulated.
    #[allow(clippy::cast_precision_loss)] // There are few.
    pub(super) fn sampled(&self) -> f64 {
        self.slices as f64 / self.common.slices().len() as f64
    }

    /// The command line that simulates the same, whatever was left to defaults and
    /// files.
    pub(super) fn command(&self) -> String {
        let common = &self.common;
        let mut line = "tidegate simulate".to_owned();
        let mut say = |flag: &str, value: &dyn std::fmt::Display| {
            line.push_str(&format!(" --{flag} {value}"));
        };
        say("nodes", &common.nodes);
        say("rate", &common.rate);
        if common.shape != Shape::Even {
            say("shape", &shape_text(common.shape));
        }
        if common.keys > 1 {
            say("keys", &common.keys);
            say("zipf", &common.zipf);
        }
        say("limit", &common.limit);
        say("window", &common.window);
        say("algorithm", &common.algorithm.name());
        if let Some(burst) = common.burst {
            say("burst", &burst);
        }
        let modes = self.modes.iter().map(|mode| mode_name(*mode).to_owned());
        say("consistency", &modes.collect::<Vec<_>>().join(","));
        say("rtt", &common.network.round_trip);
        if !common.network.jitter.is_zero() {
            say("jitter", &common.network.jitter);
        }
        if common.network.loss > 0.0 {
            say("loss", &percent_text(common.network.loss));
        }
        let intervals = self.intervals.iter().map(Nanos::to_string);
        say("sync-interval", &intervals.collect::<Vec<_>>().join(","));
        if let Some(min) = self.min_interval {
            say("sync-min-interval", &min);
        }
        if let Some(max) = self.max_interval {
            say("sync-max-interval", &max);
        }
        say("windows", &common.windows);
        if common.slices().len() > 1 {
            say("sample", &percent_text(self.sampled()));
        }
        say("seed", &common.seed);
        say("target-over", &percent_text(self.target));
        line
    }
}

/// How many of `all` slices are this part of them: at least one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Casts saturate.
#[allow(clippy::cast_precision_loss)] // There are few.
fn part_of(all: usize, part: f64) -> usize {
    // What floating point takes from a whole number is not missed.
    ((all as f64 * part + 1e-6) as usize).clamp(1, all)
}

/// The limit of the flags, over that of a file.
fn quota(args: &SimulateArgs, file: Option<&Quota>) -> Result<Quota, SimulateFault> {
    let algorithm = args.algorithm.or(file.map(Quota::algorithm));
    let algorithm = algorithm.unwrap_or(Algorithm::SlidingWindow);
    let amount = args.limit.or(file.map(Quota::amount)).unwrap_or(1_000);
    let window = args.window.or(file.map(Quota::period));
    let window = window.unwrap_or(Nanos::from_secs(1));
    // A burst that was left to be the limit goes with it.
    let burst = file.filter(|file| file.capacity() != file.amount() && algorithm.is_bucket());
    let burst = args.burst.or(burst.map(Quota::capacity));
    Quota::new(algorithm, amount, window, burst).map_err(|error| SimulateFault::Quota {
        flag: match error {
            crate::units::QuotaError::PeriodTooShort(_)
            | crate::units::QuotaError::PeriodTooLong(_) => "--window",
            crate::units::QuotaError::LogTooLarge(_) => "--limit",
            _ => "--burst",
        },
        error,
    })
}

fn base_of(path: &Path, args: &SimulateArgs) -> Result<Base, Vec<SimulateFault>> {
    let surroundings = surroundings::of_this_process();
    let rules = config::rules_of(path, None, &surroundings).map_err(|faults| {
        faults
            .into_iter()
            .map(SimulateFault::Rules)
            .collect::<Vec<_>>()
    })?;
    let limit = chosen(&rules, path, args).map_err(|fault| vec![fault])?;
    let name = format!("{} {}", limit.rule, limit.name);
    if limit.quota.is_ban() && args.limit.is_none() {
        return Err(vec![SimulateFault::Ban(name)]);
    }
    if let (Windows::Calendar(calendar), None) = (limit.quota.windows(), args.window) {
        let instead = calendar.unit().fixed();
        return Err(vec![SimulateFault::Calendar {
            limit: name,
            instead,
        }]);
    }
    Ok(Base {
        quota: quota(args, Some(&limit.quota)).map_err(|fault| vec![fault])?,
        consistency: limit.consistency,
        pace: limit.pace,
    })
}

/// The limit of a file that is simulated.
fn chosen(rules: &RuleSet, path: &Path, args: &SimulateArgs) -> Result<Arc<Limit>, SimulateFault> {
    let known = config::rule_names(rules);
    let rule = match (&args.rule, known.as_slice()) {
        (_, []) => return Err(SimulateFault::NoRules(path.to_owned())),
        (None, [only]) => *only,
        (Some(name), _) if known.contains(&name.as_str()) => name,
        (given, _) => {
            return Err(SimulateFault::Rule {
                given: given.clone(),
                known: known.iter().map(|&name| name.to_owned()).collect(),
            });
        }
    };
    let mut applied = AppliedLimits::new();
    // A rule whose name is known is there.
    let _known = rules.named(rule, b"", args.tier.as_deref(), &mut applied);
    let limits: Vec<&Arc<Limit>> = applied.iter().map(|applied| applied.limit).collect();
    let is_of = |limit: &Limit, tier: &str| limit.id == LimitId::new(rule, tier, &limit.quota);
    if let Some(tier) = &args.tier
        && !limits.iter().any(|limit| is_of(limit, tier))
    {
        let all = rules.limits().iter().filter(|limit| &*limit.rule == rule);
        return Err(SimulateFault::Tier {
            rule: rule.to_owned(),
            tier: tier.clone(),
            limits: all.map(|limit| limit.name.to_string()).collect(),
        });
    }
    let named = |limit: &&Arc<Limit>| {
        let name = args.limit_name.as_deref();
        name.is_none_or(|name| name == &*limit.name)
    };
    let mut found = limits.iter().copied().filter(named);
    match (found.next(), found.next()) {
        (Some(limit), None) => Ok(Arc::clone(limit)),
        _ => Err(SimulateFault::LimitName(
            limits.iter().map(|limit| limit.name.to_string()).collect(),
        )),
    }
}

/// Each mode once.
fn modes(args: &SimulateArgs, own: Consistency) -> Vec<Consistency> {
    let mut modes = Vec::new();
    for &mode in &args.consistency {
        if !modes.contains(&mode) {
            modes.push(mode);
        }
    }
    if modes.is_empty() {
        modes.push(own);
    }
    modes
}

/// The intervals named, or the usual ones that fit between `min` and `max` with the
/// rule's own.
fn intervals(
    args: &SimulateArgs,
    own: Nanos,
    min: Option<Nanos>,
    max: Option<Nanos>,
) -> Vec<Nanos> {
    let mut intervals = args.sync_interval.clone();
    if intervals.is_empty() {
        let fits = |every: &Nanos| {
            min.is_none_or(|min| min <= *every) && max.is_none_or(|max| *every <= max)
        };
        intervals.extend(INTERVALS.into_iter().chain([own]).filter(fits));
        // Where no usual one fits, the bounds do.
        if intervals.is_empty() {
            intervals.extend(min.or(max));
        }
    }
    intervals.sort();
    intervals.dedup();
    intervals
}

/// How many windows are simulated where it is not said.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Casts saturate.
fn affordable(common: &Scenario) -> u32 {
    let idle = f64::from(common.nodes) * IDLE;
    let steps = common.window.as_secs_f64() * (common.rate + idle);
    let most = match common.shape {
        // To see the demand both low and high.
        Shape::Stepping { .. } => 4.0,
        _ => 1.0,
    };
    (STEPS / steps).clamp(most, WINDOWS.max(most)) as u32
}

#[cfg(test)]
mod tests;
