use super::*;
use crate::rules::Pairs;

/// The tier whose limits apply to a request from `ip`.
fn tier(rules: &RuleSet, ip: [u8; 4], headers: Pairs<'_>, attributes: Pairs<'_>) -> String {
    let request = Described {
        ip: Some(IpAddr::from(ip)),
        headers,
        attributes,
        ..described("GET", "/")
    };
    let applied = matching(rules, &request);
    let name = applied[0].limit.name.split('/').next().unwrap();
    name.to_owned()
}

const LIMITS: &str = "rules: [{name: r, key: api_key, limits: {free: {requests: 1, window: 1m}, \
     pro: {requests: 2, window: 1m}, enterprise: {requests: 3, window: 1m}}}]";
const HERE: [u8; 4] = [203, 0, 113, 9];

fn set(top: &str) -> RuleSet {
    rules(&format!("{top}\n{LIMITS}"))
}

#[test]
fn the_first_source_that_has_a_tier_decides() {
    let rules = set("api_keys: [{key: abc, tier: enterprise}, {key: none}]\n\
         tiers: {from: [api_key, 'attribute:plan', {addresses: {pro: [198.51.100.0/24]}}], default: free}");
    let abc: Pairs<'_> = &[("x-api-key", "abc")];
    let plan: Pairs<'_> = &[("plan", "pro")];
    assert_eq!(tier(&rules, HERE, abc, plan), "enterprise");
    assert_eq!(tier(&rules, HERE, &[("x-api-key", "none")], plan), "pro");
    assert_eq!(
        tier(&rules, HERE, &[("x-api-key", "invented")], &[]),
        "free"
    );
    assert_eq!(tier(&rules, [198, 51, 100, 7], &[], &[]), "pro");
    assert_eq!(tier(&rules, HERE, &[], &[("plan", "unheard of")]), "free");
    // The attribute `tier` is no source any more.
    assert_eq!(tier(&rules, HERE, &[], &[("tier", "pro")]), "free");
}

#[test]
fn an_explicit_key_has_its_tier_from_the_table_unless_one_is_stated() {
    let rules =
        set("api_keys: [{key: abc, tier: enterprise}]\ntiers: {from: api_key, default: free}");
    let of = |key, tier| named(&rules, "r", key, tier)[0].limit.name.to_string();
    assert_eq!(of("abc", None), "enterprise/1m");
    assert_eq!(of("abc", Some("pro")), "pro/1m");
    assert_eq!(of("abc", Some(" ")), "enterprise/1m");
    assert_eq!(of("invented", None), "free/1m");
}

#[test]
fn a_header_counts_behind_a_believed_peer_alone() {
    let rules = set("tiers: {from: [{header: X-Tier, from: [10.0.0.0/8]}], default: free}");
    let header: Pairs<'_> = &[("x-tier", "enterprise"), ("x-ratelimit-remaining", "99999")];
    assert_eq!(tier(&rules, [10, 0, 0, 5], header, &[]), "enterprise");
    assert_eq!(tier(&rules, [198, 51, 100, 7], header, &[]), "free");
    // Nor does what the caller says about its address make it believed.
    let forged: Pairs<'_> = &[("x-tier", "enterprise"), ("x-forwarded-for", "10.0.0.5")];
    assert_eq!(tier(&rules, [198, 51, 100, 7], forged, &[]), "free");
    let two: Pairs<'_> = &[("x-tier", "enterprise"), ("x-tier", "pro")];
    assert_eq!(tier(&rules, [10, 0, 0, 5], two, &[]), "free");
}

#[test]
fn the_address_that_a_believed_proxy_states_has_the_tier() {
    let rules = set("clients: {trusted_proxies: [10.0.0.0/8]}\n\
         tiers: {from: [{addresses: {pro: [198.51.100.0/24], enterprise: [198.51.100.7]}}], default: free}");
    let via = |ip| tier(&rules, [10, 0, 0, 5], &[("x-forwarded-for", ip)], &[]);
    assert_eq!(via("198.51.100.1"), "pro");
    assert_eq!(via("198.51.100.7"), "enterprise");
    assert_eq!(via("203.0.113.9"), "free");
}

#[test]
fn a_stated_default_is_no_reason_to_warn() {
    let text = format!("tiers: {{default: free}}\n{LIMITS}");
    assert_eq!(warnings(&text), [""; 0]);
    assert_eq!(warnings(LIMITS).len(), 1);
    // Where a rule does not have it, the old order holds.
    let rules = rules(
        &format!("tiers: {{default: free}}\n{LIMITS}\n")
            .replace(
                "free: {requests: 1, window: 1m}, pro",
                "other: {requests: 1, window: 1m}, pro",
            )
            .replace(
                "rules: [",
                "rules: [{name: s, endpoint: /s, limits: {free: {requests: 1, window: 1m}}}, ",
            ),
    );
    assert_eq!(tier(&rules, HERE, &[], &[]), "other");
}

#[test]
fn callers_are_said_once_for_all_files() {
    let compiled = compile(&[
        ("a.yaml", LIMITS),
        (
            "b.yaml",
            "api_keys: [{key: abc, tier: pro}]\ntiers: {from: [api_key], default: free}",
        ),
    ])
    .unwrap();
    assert_eq!(compiled.warnings, []);
    assert_eq!(
        tier(&compiled.rules, HERE, &[("x-api-key", "abc")], &[]),
        "pro"
    );
}
