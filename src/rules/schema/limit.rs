use std::collections::HashMap;

use super::super::fault::{CallerProblem, Problem};
use super::super::reader::{Fields, Report, Spot, entries, flag, near, number};
use super::super::tiers::DEFAULT_TIER;
use super::super::tree::{Node, Value};
use super::policies::{self, Policies};
use super::settings::Settings;
use super::window::{self, TIME_ZONE, Window};
use super::{idle, is_name, name, quote};
use crate::units::{
    Algorithm, Consistency, Mode, Nanos, Pace, Quota, QuotaError, StoreLoss, Windows,
};

pub(super) const LIMIT: [&str; 14] = [
    "requests",
    "amount",
    "window",
    "burst",
    "name",
    "count_denied",
    "algorithm",
    "consistency",
    "on_store_loss",
    "sync_interval",
    "sync_min_interval",
    "sync_max_interval",
    "strict_timeout",
    TIME_ZONE,
];
/// The largest count that a script in the store holds exactly.
const STORE_MAX: u64 = (1 << 53) - 1;
/// What is less cannot be lent out even to one node.
const SMALL: u64 = 100;
/// The limits of one tier; none if nothing is limited.
#[derive(Debug)]
pub(in crate::rules) struct Tier {
    pub(in crate::rules) name: String,
    pub(in crate::rules) limits: Vec<LimitSpec>,
}

/// A limit as its file states it, with every default filled in.
#[derive(Debug)]
pub(in crate::rules) struct LimitSpec {
    pub(in crate::rules) name: String,
    pub(in crate::rules) quota: Quota,
    pub(in crate::rules) consistency: Consistency,
    pub(in crate::rules) on_store_loss: StoreLoss,
    pub(in crate::rules) pace: Pace,
    pub(in crate::rules) strict_timeout: Option<Nanos>,
    pub(in crate::rules) count_denied: bool,
    pub(in crate::rules) mode: Mode,
    line: usize,
}

/// The limits of a tier that were read so far.
struct Found<'n> {
    /// All names of the rule's limits, each with its line.
    names: &'n mut HashMap<String, usize>,
    seen: HashMap<(Algorithm, Windows), usize>,
    limits: Vec<LimitSpec>,
}

/// What the rule around its limits says.
pub(super) struct Scope<'s> {
    /// The settings of the rule, over those of its file.
    pub(super) settings: Settings,
    /// The rule's pace.
    pub(super) pace: Pace,
    /// The pace where neither rule nor limit says anything.
    pub(super) defaults: Pace,
    pub(super) policies: &'s Policies,
    /// The tier of callers whose own is unknown, where it is stated.
    pub(super) default_tier: Option<&'s str>,
    /// The name of the override whose limits these are.
    pub(super) within: Option<String>,
}

impl LimitSpec {
    /// A limit as gateways state them in `line`, called `name` or by its window.
    pub(super) fn of_gateway(
        name: Option<&str>,
        quota: Quota,
        pace: Pace,
        mode: Mode,
        line: usize,
    ) -> LimitSpec {
        let by_window = || format!("{DEFAULT_TIER}/{}", quota.period());
        LimitSpec {
            name: name.map_or_else(by_window, str::to_owned),
            quota,
            // Nobody need be asked about a ban.
            consistency: if quota.is_ban() {
                Consistency::Local
            } else {
                Consistency::default()
            },
            on_store_loss: StoreLoss::default(),
            pace,
            strict_timeout: None,
            count_denied: false,
            mode,
            line,
        }
    }
}

impl<'s> Scope<'s> {
    /// The same for the limits of the override called `name`.
    pub(super) fn within(&self, name: &str) -> Scope<'s> {
        Scope {
            settings: self.settings.clone(),
            within: Some(name.to_owned()),
            ..*self
        }
    }

    /// The limit of a `tier` that admits nothing, in `line`. It needs no store.
    pub(super) fn ban(&self, tier: &str, line: usize) -> Tier {
        Tier {
            name: tier.to_owned(),
            limits: vec![LimitSpec {
                name: self.name(&format!("{tier}/ban")),
                quota: Quota::BAN,
                consistency: Consistency::Local,
                on_store_loss: StoreLoss::Local,
                pace: self.pace,
                strict_timeout: None,
                count_denied: false,
                mode: self.settings.mode.unwrap_or_default(),
                line,
            }],
        }
    }

    /// The name of a limit within its rule.
    fn name(&self, name: &str) -> String {
        match &self.within {
            Some(within) => format!("{within} {name}"),
            None => name.to_owned(),
        }
    }

    /// Reads a map of tiers, or the limits of the default tier alone. `None` if there
    /// is any fault in them.
    pub(super) fn tiers(
        &self,
        node: &Node,
        spot: &Spot<'_>,
        report: &mut Report,
    ) -> Option<Vec<Tier>> {
        let before = report.faults.len();
        let mut names = HashMap::new();
        let mut tiers = Vec::new();
        match &node.value {
            Value::Map(map) if !map.is_empty() && !is_one_limit(node) => {
                for (tier, key, node) in entries(map, spot, report) {
                    let spot = spot.field(tier, node.at);
                    if !is_name(tier) {
                        report.fault(&spot.moved(key.at), Problem::BadName(quote(tier)));
                    }
                    tiers.extend(self.tier(tier, node, &spot, &mut names, report));
                }
            }
            _ => tiers.extend(self.tier(DEFAULT_TIER, node, spot, &mut names, report)),
        }
        if report.faults.len() > before {
            return None;
        }
        // What an override does not name stays as its rule has it.
        if self.within.is_none()
            && let Some(first) = tiers.first()
            && !tiers.iter().any(|tier| self.is_default(&tier.name))
        {
            report.warn(spot, Problem::NoDefaultTier(first.name.clone()));
        }
        Some(tiers)
    }

    fn is_default(&self, tier: &str) -> bool {
        tier == DEFAULT_TIER || Some(tier) == self.default_tier
    }

    fn tier(
        &self,
        tier: &str,
        node: &Node,
        spot: &Spot<'_>,
        names: &mut HashMap<String, usize>,
        report: &mut Report,
    ) -> Option<Tier> {
        match &node.value {
            Value::Text(word) if word == "unlimited" => {
                return Some(Tier {
                    name: tier.to_owned(),
                    limits: Vec::new(),
                });
            }
            Value::Text(word) if word == "ban" => return Some(self.ban(tier, spot.at.line)),
            _ => {}
        }
        let mut found = Found {
            names,
            limits: Vec::new(),
            seen: HashMap::new(),
        };
        self.limits(tier, node, spot, &mut found, report);
        Some(Tier {
            name: tier.to_owned(),
            limits: found.limits,
        })
    }

    /// Reads a limit, a list of limits, or the name of a policy, alone or in the list.
    fn limits(
        &self,
        tier: &str,
        node: &Node,
        spot: &Spot<'_>,
        found: &mut Found<'_>,
        report: &mut Report,
    ) {
        match &node.value {
            Value::List(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    self.one(tier, item, &spot.item(index, item.at), found, report);
                }
            }
            Value::Map(map) if map.is_empty() => report.fault(spot, Problem::NoLimit),
            Value::List(_) | Value::Null => report.fault(spot, Problem::NoLimit),
            _ => self.one(tier, node, spot, found, report),
        }
    }

    /// Reads one limit, or the name of a policy.
    fn one(
        &self,
        tier: &str,
        node: &Node,
        spot: &Spot<'_>,
        found: &mut Found<'_>,
        report: &mut Report,
    ) {
        match &node.value {
            Value::Text(policy) => self.policy(tier, policy, spot, found, report),
            _ => self.add(tier, node, spot, found, report),
        }
    }

    /// Reads the limits of the policy called `name`, as if they stood here.
    fn policy(
        &self,
        tier: &str,
        name: &str,
        spot: &Spot<'_>,
        found: &mut Found<'_>,
        report: &mut Report,
    ) {
        let Some(policy) = policies::find(self.policies, name, spot, report) else {
            return;
        };
        let node = &policy.node;
        let spot = spot.within(&policy.file, node.at);
        let mut nested = match &node.value {
            Value::List(items) => items.iter().collect(),
            _ => vec![node],
        };
        nested.retain(|node| matches!(node.value, Value::Text(_)));
        if let Some(node) = nested.first() {
            return report.fault(&spot.moved(node.at), CallerProblem::NestedPolicy);
        }
        self.limits(tier, node, &spot, found, report);
    }

    /// Reads one limit, and adds it if it is another than those found.
    fn add(
        &self,
        tier: &str,
        node: &Node,
        spot: &Spot<'_>,
        found: &mut Found<'_>,
        report: &mut Report,
    ) {
        let Some(limit) = self.limit(tier, node, spot, report) else {
            return;
        };
        let shape = (limit.quota.algorithm(), limit.quota.windows());
        if let Some(line) = found.seen.get(&shape) {
            report.fault(spot, Problem::DuplicateLimit(*line));
            return;
        }
        found.seen.insert(shape, limit.line);
        if let Some(&line) = found.names.get(&limit.name) {
            let name = quote(&limit.name);
            report.fault(spot, Problem::DuplicateLimitName { name, line });
            return;
        }
        found.names.insert(limit.name.clone(), limit.line);
        found.limits.push(limit);
    }

    fn limit(
        &self,
        tier: &str,
        node: &Node,
        spot: &Spot<'_>,
        report: &mut Report,
    ) -> Option<LimitSpec> {
        let want = "a limit; write {requests: 10, window: 1m}";
        let fields = Fields::read(node, spot, &LIMIT, want, report)?;
        let amount_field = match (fields.get("requests"), fields.get("amount")) {
            (Some(_), Some(node)) => {
                let problem = Problem::SaidTwice("amount", "requests");
                report.fault(&spot.field("amount", node.at), problem);
                "requests"
            }
            (None, Some(_)) => "amount",
            (Some(_), None) => "requests",
            (None, None) => {
                report.fault(spot, Problem::Missing("requests", "requests: 10"));
                "requests"
            }
        };
        if fields.get("window").is_none() {
            report.fault(spot, Problem::Missing("window", "window: 1m"));
        }
        let amount = fields.with(amount_field, spot, report, number);
        let window = fields.with("window", spot, report, window::window);
        let burst = fields.with("burst", spot, report, number);
        let stated_name = fields.with("name", spot, report, name);
        let count_denied = fields.with("count_denied", spot, report, flag);
        let own = Settings::read(&fields, spot, report);
        let pace = own.pace(&fields, Some(&self.settings), self.defaults, spot, report);
        let settings = own.over(&self.settings);
        let consistency = settings.consistency.unwrap_or_default();

        let (amount, window) = (amount?, window?);
        if fields.get("burst").is_some() && burst.is_none() {
            return None;
        }
        let mut at = |field: &'static str, problem: Problem| {
            let at = fields.get(field).map_or(spot.at, |node| node.at);
            report.fault(&spot.field(field, at), problem);
        };
        let algorithm = settings.algorithm.unwrap_or(match window {
            Window::Duration(_) => Algorithm::SlidingWindow,
            Window::Calendar(_) => Algorithm::FixedWindow,
        });
        let quota = match window {
            Window::Duration(length) => {
                if own.time_zone.is_some() {
                    at(TIME_ZONE, Problem::ZoneOfNoCalendar(length));
                }
                Quota::new(algorithm, amount, length, burst)
            }
            Window::Calendar(unit) if algorithm != Algorithm::FixedWindow => {
                at("window", Problem::CalendarAlgorithm { unit, algorithm });
                return None;
            }
            Window::Calendar(_) if burst.is_some() => Err(QuotaError::BurstNotABucket(algorithm)),
            Window::Calendar(unit) => {
                Ok(window::quota(amount, unit, settings.time_zone.as_deref())?)
            }
        };
        let quota = match quota {
            Ok(quota) => quota,
            Err(error) => {
                let field = match error {
                    QuotaError::PeriodTooShort(_) | QuotaError::PeriodTooLong(_) => "window",
                    QuotaError::LogTooLarge(_) => amount_field,
                    QuotaError::BurstNotABucket(_)
                    | QuotaError::NeverRefills(_)
                    | QuotaError::BurstZero => "burst",
                };
                at(field, error.into());
                return None;
            }
        };
        let windows = matches!(algorithm, Algorithm::FixedWindow | Algorithm::SlidingWindow);
        if consistency == Consistency::Bounded && !windows {
            at("algorithm", Problem::NotBounded(algorithm));
        }
        if consistency != Consistency::Local {
            for (field, count) in [(amount_field, Some(amount)), ("burst", burst)] {
                if let Some(count) = count.filter(|count| *count > STORE_MAX) {
                    at(field, Problem::MoreThanTheStoreCounts(count));
                }
            }
        }
        idle::warn(&fields, &own, std::iter::once(consistency), spot, report);
        if consistency == Consistency::Bounded && amount < SMALL {
            let node = fields.get(amount_field).map_or(spot.at, |node| node.at);
            let problem = Problem::TooSmallToLend(amount);
            report.warn(&spot.field(amount_field, node), problem);
        }
        if let Some(burst) = burst.filter(|burst| *burst > amount)
            && quota.period() >= Nanos::from_secs(3_600)
        {
            let problem = Problem::BurstOverRate {
                burst,
                amount,
                window: quota.period(),
            };
            let node = fields.get("burst").map_or(spot.at, |node| node.at);
            report.warn(&spot.field("burst", node), problem);
        }
        let mode = settings.mode.unwrap_or_default();
        let asks = !mode.enforces() && consistency.may_ask();
        if asks {
            let problem = Problem::NotAsked(mode, consistency);
            report.warn(spot, problem);
        }
        let name = stated_name.unwrap_or_else(|| format!("{tier}/{}", quota.windows()));
        Some(LimitSpec {
            name: self.name(&name),
            quota,
            // What never refuses must never make a request wait for the store.
            consistency: if asks {
                Consistency::Approximate
            } else {
                consistency
            },
            on_store_loss: settings.on_store_loss.unwrap_or_default(),
            pace: pace.unwrap_or(self.pace),
            strict_timeout: settings.strict_timeout,
            count_denied: count_denied.unwrap_or(false),
            mode,
            line: spot.at.line,
        })
    }
}

/// Whether a map is a limit rather than a map of tiers: a tier holds a map or a
/// list, and the fields of a limit hold neither.
fn is_one_limit(node: &Node) -> bool {
    let Value::Map(map) = &node.value else {
        return false;
    };
    map.iter().any(|(name, node)| {
        let field = name.text.as_deref().unwrap_or_default();
        let plain = !matches!(node.value, Value::List(_) | Value::Map(_));
        plain && near(field, &LIMIT).is_some()
    })
}
