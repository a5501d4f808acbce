//! Metrics and logs.

use std::panic;

use metrics::Unit;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

use super::config::LogFormat;
use crate::counters::Counters;
use crate::engine::Engine;
use crate::names;
use crate::policy::is_lent;
use crate::units::Consistency;

/// What each metric is. Names of counters end in `_total`, of times in `_seconds`.
const COUNTERS: &[(&str, &str)] = &[
    (names::CHECKS, "Checks answered"),
    (names::ADVISORY_CHECKS, "What limits that never refuse said"),
    (names::REPORTS, "Reports of costs that were spent already"),
    (names::SETTLEMENTS, "Settlements of checks by their id"),
    (
        names::SETTLED_COST,
        "Cost (in units) that settlements have charged, given back, or come too late with",
    ),
    (
        names::RECEIPTS_FORGOTTEN,
        "Checks with an id that were forgotten before they were settled",
    ),
    (
        names::OVERFLOW,
        "Checks answered from a limit's shared cell, the table being full",
    ),
    (
        names::EVICTED,
        "Cells removed because they equalled a cell never seen",
    ),
    (names::CONNECTIONS_REFUSED, "Connections refused"),
    (names::BAD_REQUESTS, "Requests that could not be understood"),
    (
        names::FORWARDING_IGNORED,
        "Requests with forwarding headers from addresses that are not believed",
    ),
    (
        names::FORWARDING_UNREADABLE,
        "Requests of believed proxies whose forwarding header says no address",
    ),
    (
        names::UNKNOWN_DOMAINS,
        "Calls of gateways about a domain that no rule is for",
    ),
    (
        names::CANCELLED_CALLS,
        "Calls of gateways that were cancelled while they waited for the store",
    ),
    (names::QUOTA_ASSIGNMENTS, "Assignments sent to gateways"),
    (
        names::QUOTA_REPORTS,
        "Buckets that gateways have reported of",
    ),
    (
        names::QUOTA_REQUESTS,
        "Requests that gateways have decided by their assignments",
    ),
    (
        names::QUOTA_LEFT_OUT,
        "Reports of buckets, and streams, that get no assignment",
    ),
    (names::SYNC_BATCHES, "Batches exchanged with the store"),
    (names::SYNC_DELTAS, "Deltas acknowledged by the store"),
    (
        names::SYNC_RESENDS,
        "Batches sent again, their fate being unknown",
    ),
    (
        names::SYNC_REOPENS,
        "Hashes found lost in the store and filled again",
    ),
    (
        names::SYNC_REPLAYS,
        "Batches applied again after a failover",
    ),
    (
        names::SYNC_EXPIRED,
        "Cost (in units) given up because its window no longer matters",
    ),
    (names::SYNC_ERRORS, "Errors of the store"),
    (
        names::SETTLED_WINDOWS,
        "Windows that were full and whose total is known",
    ),
    (
        names::OVER_ADMITTED,
        "Cost admitted beyond the limit in windows whose total is known",
    ),
    (names::STRICT_CHECKS, "Checks that had to ask the store"),
    (
        names::BREAKER_CHANGES,
        "Changes of the circuit breaker of strict checks",
    ),
    (
        names::CONFIG_RELOADS,
        "Attempts to put other rules in force without a restart",
    ),
];
const GAUGES: &[(&str, Unit, &str)] = &[
    (
        names::CONFIG_RELOADED,
        Unit::Count,
        "1 if the last attempt to read the rules succeeded, else 0",
    ),
    (
        names::CONFIG_LAST_SUCCESS_SECONDS,
        Unit::Seconds,
        "When rules were last put in force, in seconds since 1970",
    ),
    (
        names::LIMITS_TOO_SMALL,
        Unit::Count,
        "Bounded limits of which there are less than 100 for each live node: every check asks the store",
    ),
    (
        names::RULES_OF_MANY_PATHS,
        Unit::Count,
        "Rules that count a thousand and more paths with queries, each on its own",
    ),
    (
        names::RULES_GENERATION,
        Unit::Count,
        "How many rule sets have been in force since the start",
    ),
    (
        names::RULES_STORE_VERSION,
        Unit::Count,
        "The version of the store's rules that is in force; 0 if others are",
    ),
    (
        names::RULES_DIGEST,
        Unit::Count,
        "A number that is the same where the texts of the rules are the same",
    ),
    (
        names::QUOTA_SUBSCRIBERS,
        Unit::Count,
        "Buckets of gateways' streams that have assignments",
    ),
    (
        names::QUOTA_COUNTERS,
        Unit::Count,
        "Counters that such buckets draw on",
    ),
    (
        names::QUOTA_HELD,
        Unit::Count,
        "Requests taken in advance for gateways and not reported as used",
    ),
    (names::CELLS, Unit::Count, "Cells in memory"),
    (
        names::RECEIPTS,
        Unit::Count,
        "Checks with an id that are remembered, settled or not",
    ),
    (
        names::DIRTY,
        Unit::Count,
        "Cells waiting to be looked at by the sync",
    ),
    (names::CONNECTIONS, Unit::Count, "Connections open"),
    (
        names::SYNC_LAG_SECONDS,
        Unit::Seconds,
        "Age of the oldest cost not yet acknowledged",
    ),
    (
        names::STORE_UP,
        Unit::Count,
        "1 while the store answers, else 0",
    ),
    (
        names::DISAGREEMENT,
        Unit::Count,
        "1 while this node does not sync because its fleet has other terms",
    ),
    (
        names::STORE_EVICTS,
        Unit::Count,
        "1 if the store may evict what was counted",
    ),
    (
        names::BREAKER_OPEN,
        Unit::Count,
        "1 while the circuit breaker keeps strict checks from the store",
    ),
    (
        names::CLOCK_OFFSET_SECONDS,
        Unit::Seconds,
        "How far the store's clock is ahead of this machine's",
    ),
    (
        names::CLOCK_ERROR_SECONDS,
        Unit::Seconds,
        "How wrong the offset of the store's clock may be",
    ),
    (
        names::BUILD_INFO,
        Unit::Count,
        "1, with the version as a label",
    ),
];
const HISTOGRAMS: &[(&str, Unit, &str, &[f64])] = &[
    (
        names::DECISION_SECONDS,
        Unit::Seconds,
        "Time from a decoded request to its decision",
        &[
            1e-7, 2.5e-7, 5e-7, 1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 1e-3, 1e-2, 1e-1,
        ],
    ),
    (
        names::STRICT_SECONDS,
        Unit::Seconds,
        "Time of a check that asked the store",
        &[
            1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 1e-1, 2.5e-1, 5e-1, 1.0,
            2.5, 5.0,
        ],
    ),
    (
        names::SYNC_SECONDS,
        Unit::Seconds,
        "Time of one exchange with the store",
        &[
            1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 1e-1, 2.5e-1, 5e-1, 1.0,
            2.5, 5.0,
        ],
    ),
    (
        names::OVER_ADMISSION,
        Unit::Count,
        "What a window admitted beyond its limit, as a part of the limit",
        &[0.0, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0],
    ),
];

/// Installs the recorder of all metrics, once a process. The handle renders them,
/// and must be asked for its upkeep now and then.
///
/// # Errors
/// [`BuildError`] if there is a recorder already.
pub(super) fn metrics() -> Result<PrometheusHandle, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for (name, _, _, buckets) in HISTOGRAMS {
        builder = builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets)?;
    }
    let handle = builder.install_recorder()?;
    for (name, what) in COUNTERS {
        metrics::describe_counter!(*name, *what);
    }
    for (name, unit, what) in GAUGES {
        metrics::describe_gauge!(*name, *unit, *what);
    }
    for (name, unit, what, _) in HISTOGRAMS {
        metrics::describe_histogram!(*name, *unit, *what);
    }
    metrics::gauge!(names::BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

/// Takes over what the cells and the engine count by themselves.
pub(super) fn publish(engine: &Engine) {
    let counters = engine.counters();
    let gauge = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let totals = counters.totals();
    metrics::gauge!(names::CELLS).set(gauge(counters.cells()));
    metrics::counter!(names::OVERFLOW).absolute(totals.overflowed);
    metrics::counter!(names::EVICTED).absolute(totals.evicted);
    let (receipts, forgotten) = engine.receipts();
    metrics::gauge!(names::RECEIPTS).set(gauge(receipts));
    metrics::counter!(names::RECEIPTS_FORGOTTEN).absolute(forgotten);
    if counters.fleet().has_store() {
        metrics::counter!(names::STRICT_CHECKS, "outcome" => "lost").absolute(engine.unasked());
        metrics::gauge!(names::LIMITS_TOO_SMALL).set(gauge(too_small(engine)));
    }
}

/// How many bounded limits are too small to be lent out to all live nodes.
fn too_small(engine: &Engine) -> usize {
    let nodes = engine.counters().fleet().nodes();
    let snapshot = engine.snapshot();
    let limits = snapshot.rules().limits().iter();
    let bounded = limits.filter(|limit| limit.consistency == Consistency::Bounded);
    bounded
        .filter(|limit| !is_lent(limit.quota.capacity(), nodes))
        .count()
}

/// Takes over what windows have come to that were full: how exact each limit is in truth.
#[allow(clippy::cast_precision_loss)] // Figures for people.
pub(super) fn publish_settled(counters: &Counters) {
    while let Some(window) = counters.next_settled() {
        let limit = &window.limit;
        let labels = [
            ("rule", limit.rule.to_string()),
            ("limit", limit.name.to_string()),
        ];
        let over = window.over();
        let part = over as f64 / limit.quota.capacity().max(1) as f64;
        metrics::counter!(names::SETTLED_WINDOWS, &labels).increment(1);
        metrics::counter!(names::OVER_ADMITTED, &labels).increment(over);
        metrics::histogram!(names::OVER_ADMISSION, &labels).record(part);
    }
}

/// Starts logging to standard error, one line an event, and makes a panic one of
/// them. `filter` was checked with the settings.
pub(super) fn logs(filter: &str, format: LogFormat) {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(std::io::stderr);
    // A second call in one process keeps the first one's choice.
    let _already = match format {
        LogFormat::Text => lines.with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let what = panic.payload_as_str().unwrap_or("not told");
        tracing::error!(place, what, "panicked");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_name_is_described_once() {
        let source = include_str!("../names.rs");
        let mut named: Vec<_> = source.split('"').skip(1).step_by(2).collect();
        let mut described: Vec<_> = COUNTERS.iter().map(|(name, _)| *name).collect();
        described.extend(GAUGES.iter().map(|(name, _, _)| *name));
        described.extend(HISTOGRAMS.iter().map(|(name, ..)| *name));
        named.sort_unstable();
        described.sort_unstable();
        assert_eq!(described, named);
    }

    #[test]
    fn counters_and_they_alone_end_in_total() {
        assert!(COUNTERS.iter().all(|(name, _)| name.ends_with("_total")));
        assert!(!GAUGES.iter().any(|(name, _, _)| name.ends_with("_total")));
    }
}
