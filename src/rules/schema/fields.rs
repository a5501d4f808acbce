//! The tables of names, for whoever describes them elsewhere.

use super::{DEFAULTS, FILE, RULE};
use super::{answers, api_keys, callers, jwt, limit, overrides, tiers, when};
use super::{descriptors, envoy};

/// The fields of every kind of map in a rule file, under what that kind is called: `file`
/// is the top of it. `config/schema.json` has the same.
pub fn fields() -> [(&'static str, &'static [&'static str]); 19] {
    [
        ("file", &TOP),
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
        ("descriptor", &envoy::DESCRIPTOR),
        ("rate_limit", &envoy::RATE_LIMIT),
        ("replaced", &envoy::REPLACED),
    ]
}

/// What may stand at the top of a file: of one of ours, or of one of Envoy's service.
const TOP: [&str; FILE.len() + envoy::TOP.len()] = {
    let mut top = [""; FILE.len() + envoy::TOP.len()];
    let mut at = 0;
    while at < top.len() {
        top[at] = if at < FILE.len() {
            FILE[at]
        } else {
            envoy::TOP[at - FILE.len()]
        };
        at += 1;
    }
    top
};
