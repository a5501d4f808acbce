//! The tables of names, for whoever describes them elsewhere.

use super::{DEFAULTS, FILE, RULE};
use super::{answers, api_keys, callers, jwt, limit, overrides, tiers, when};
use super::{descriptors, envoy};

/// The fields of every kind of map in a rule file, under what that kind is called: `file`
/// is the top of it. `config/schema.json` has the same.
pub fn fields() -> [(&'static str, &'static [&'static str]); 20] {
    [
        ("file", &FILE),
        ("defaults", &DEFAULTS),
        ("rule", &RULE),
        ("override", &overrides::OVERRIDE),
        ("limit", &limit::LIMIT),
        ("answers", &answers::ANSWERS),
        ("refusal", &answers::REFUSAL),
        ("when", &when::WHEN),
        ("when_not", &when::NOT),
        ("clients", &callers::CLIENTS),
        ("api_keys", &api_keys::TABLE),
        ("api_key", &api_keys::ENTRY),
        ("issuer", &jwt::ISSUER),
        ("tiers", &tiers::TIERS),
        ("tier_source", &tiers::SOURCE),
        ("entry", &descriptors::ENTRY),
        ("gateway_file", &envoy::TOP),
        ("descriptor", &envoy::DESCRIPTOR),
        ("rate_limit", &envoy::RATE_LIMIT),
        ("replaced", &envoy::REPLACED),
    ]
}
