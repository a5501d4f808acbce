//! The messages of Envoy's quota service (`envoy.service.rate_limit_quota.v3`), as pure
//! functions: reports to usages, assignments to actions.

mod actions;
mod reports;

pub use actions::{Word, abandoned, assigned, assigned_anew};
pub use reports::{BadReports, Bucket, Read, Reports, Usage};

/// The name of the service.
pub const QUOTA_SERVICE: &str = "envoy.service.rate_limit_quota.v3.RateLimitQuotaService";
/// The path of its one method.
pub const STREAM_QUOTAS: &str =
    "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";
/// The longest message of reports, in bytes: one has a part for each bucket that a gateway
/// knows, about 100 bytes where names are long. If it were too long, the next one would be too.
pub const MAX_REPORTS: usize = 1_024 * 1_024;
