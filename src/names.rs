//! The names of all metrics, in one place, so that dashboards and code agree.
//!
//! Labels come from the configuration alone (rule, limit, outcome, door), never
//! from a client. Times are in seconds.

/// Checks answered, by `rule`, `limit`, `outcome` and `door`.
pub const CHECKS: &str = "tidegate_checks_total";
/// What limits that never refuse would have decided of admitted requests, by `rule`,
/// `limit`, `mode` and `outcome`.
pub const ADVISORY_CHECKS: &str = "tidegate_advisory_checks_total";
/// Reports of costs that were spent already, by `rule`, `limit`, `outcome` and `door`.
pub const REPORTS: &str = "tidegate_reports_total";
/// Settlements of checks by their id, by `outcome` and `door`.
pub const SETTLEMENTS: &str = "tidegate_settlements_total";
/// What settlements have charged, given back, or come too late with, in units, by `rule`,
/// `limit` and `effect`.
pub const SETTLED_COST: &str = "tidegate_settled_cost_total";
/// Ids of checks that are remembered, to be settled or settled already.
pub const RECEIPTS: &str = "tidegate_receipts";
/// Checks with an id that were forgotten before they were settled.
pub const RECEIPTS_FORGOTTEN: &str = "tidegate_receipts_forgotten_total";
/// Time from a decoded request to its decision, by `door`.
pub const DECISION_SECONDS: &str = "tidegate_decision_seconds";
/// Cells in memory.
pub const CELLS: &str = "tidegate_cells";
/// Checks answered from a limit's shared overflow cell, because the table was full.
pub const OVERFLOW: &str = "tidegate_overflow_checks_total";
/// Cells removed by the sweep, because they equalled a cell never seen.
pub const EVICTED: &str = "tidegate_cells_evicted_total";
/// Cells waiting to be looked at by the sync.
pub const DIRTY: &str = "tidegate_dirty_cells";
/// Connections open, by `door`.
pub const CONNECTIONS: &str = "tidegate_connections";
/// Connections refused, by `door` and `reason`.
pub const CONNECTIONS_REFUSED: &str = "tidegate_connections_refused_total";
/// Requests that could not be understood, by `door` and `reason`.
pub const BAD_REQUESTS: &str = "tidegate_bad_requests_total";
/// Requests with forwarding headers from addresses that are not believed.
pub const FORWARDING_IGNORED: &str = "tidegate_forwarding_ignored_total";
/// Requests of believed proxies whose forwarding header says no address.
pub const FORWARDING_UNREADABLE: &str = "tidegate_forwarding_unreadable_total";
/// Calls of gateways about a domain that no rule is for.
pub const UNKNOWN_DOMAINS: &str = "tidegate_unknown_domain_calls_total";
/// Calls of gateways that were cancelled while they waited for the store; what was counted for
/// them stays counted.
pub const CANCELLED_CALLS: &str = "tidegate_cancelled_calls_total";
/// Buckets of gateways' streams that have assignments, each stream's on its own.
pub const QUOTA_SUBSCRIBERS: &str = "tidegate_quota_subscribers";
/// Counters that such buckets draw on.
pub const QUOTA_COUNTERS: &str = "tidegate_quota_counters";
/// Requests that were taken from limits in advance for gateways and are not reported as used.
pub const QUOTA_HELD: &str = "tidegate_quota_held_requests";
/// Assignments sent to gateways, by `kind`.
pub const QUOTA_ASSIGNMENTS: &str = "tidegate_quota_assignments_total";
/// Buckets that gateways have reported of, each report on its own.
pub const QUOTA_REPORTS: &str = "tidegate_quota_reports_total";
/// Requests that gateways have decided by their assignments, by `rule`, `limit` and `outcome`.
pub const QUOTA_REQUESTS: &str = "tidegate_quota_requests_total";
/// Reports of buckets and streams that get no assignment, by `reason`.
pub const QUOTA_LEFT_OUT: &str = "tidegate_quota_left_out_total";
/// Rules that count many paths with queries, each on its own.
pub const RULES_OF_MANY_PATHS: &str = "tidegate_rules_of_many_paths";
/// Batches exchanged with the store, by `outcome`.
pub const SYNC_BATCHES: &str = "tidegate_sync_batches_total";
/// Deltas acknowledged by the store.
pub const SYNC_DELTAS: &str = "tidegate_sync_deltas_total";
/// Time of one exchange with the store.
pub const SYNC_SECONDS: &str = "tidegate_sync_exchange_seconds";
/// Age of the oldest cost that the store has not acknowledged.
pub const SYNC_LAG_SECONDS: &str = "tidegate_sync_lag_seconds";
/// Batches sent again because their fate was unknown.
pub const SYNC_RESENDS: &str = "tidegate_sync_resends_total";
/// Hashes found lost in the store and filled again with this node's own counts.
pub const SYNC_REOPENS: &str = "tidegate_sync_reopens_total";
/// Batches applied again because a failover had lost them.
pub const SYNC_REPLAYS: &str = "tidegate_sync_replays_total";
/// Cost (in units) given up because its window no longer matters.
pub const SYNC_EXPIRED: &str = "tidegate_sync_expired_cost_total";
/// Errors of the store, by `class`.
pub const SYNC_ERRORS: &str = "tidegate_sync_errors_total";
/// 1 while the store answers, else 0.
pub const STORE_UP: &str = "tidegate_store_up";
/// 1 while this node does not sync because its fleet has other terms, by what they are
/// `about`.
pub const DISAGREEMENT: &str = "tidegate_fleet_disagreement";
/// 1 if the store may evict what was counted.
pub const STORE_EVICTS: &str = "tidegate_store_evicts";
/// How far the store's clock is ahead of this machine's, in seconds.
pub const CLOCK_OFFSET_SECONDS: &str = "tidegate_clock_offset_seconds";
/// How wrong the offset may be (half the round trip it was measured with).
pub const CLOCK_ERROR_SECONDS: &str = "tidegate_clock_offset_error_seconds";
/// Checks that had to ask the store, by `outcome`.
pub const STRICT_CHECKS: &str = "tidegate_strict_checks_total";
/// Time of a check that asked the store, until it was answered or given up.
pub const STRICT_SECONDS: &str = "tidegate_strict_seconds";
/// 1 while strict checks are not put to the store, because it has failed them.
pub const BREAKER_OPEN: &str = "tidegate_breaker_open";
/// Changes of the circuit breaker of strict checks, by the state that it changed `to`.
pub const BREAKER_CHANGES: &str = "tidegate_breaker_changes_total";
/// Windows that were full on this node and whose total the store has told since, by `rule`
/// and `limit`.
pub const SETTLED_WINDOWS: &str = "tidegate_settled_windows_total";
/// Cost that the fleet has admitted in such windows beyond the limit, by `rule` and `limit`.
pub const OVER_ADMITTED: &str = "tidegate_over_admitted_total";
/// What was admitted beyond the limit in one such window, as a part of the limit, by `rule`
/// and `limit`.
pub const OVER_ADMISSION: &str = "tidegate_over_admission_ratio";
/// Attempts to read the rules anew, by `outcome`.
pub const CONFIG_RELOADS: &str = "tidegate_config_reloads_total";
/// 1 if the last attempt to read the rules succeeded, else 0.
pub const CONFIG_RELOADED: &str = "tidegate_config_last_reload_successful";
/// When rules were last put in force, in seconds since 1970.
pub const CONFIG_LAST_SUCCESS_SECONDS: &str = "tidegate_config_last_success_timestamp_seconds";
/// Bounded limits that are too small to be lent out to so many nodes.
pub const LIMITS_TOO_SMALL: &str = "tidegate_bounded_limits_too_small";
/// How many rule sets have been in force since the start, with the present one.
pub const RULES_GENERATION: &str = "tidegate_rules_generation";
/// A number that is the same where the texts of the rules are the same.
pub const RULES_DIGEST: &str = "tidegate_rules_digest";
/// The version of the store's rules that this node has in force; 0 if it has others.
pub const RULES_STORE_VERSION: &str = "tidegate_rules_store_version";
/// 1, with the `version` as a label.
pub const BUILD_INFO: &str = "tidegate_build_info";
