use std::sync::Arc;

use super::super::tokens::KeyError;

/// What is wrong with who callers are, in which tier, and with policies; and what to write
/// instead. Texts from the file are held quoted and escaped, and none of them is a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallerProblem {
    /// All callers together, and one of them.
    #[error("`global` counts all callers together; write it alone, or leave it out")]
    GlobalNotAlone,
    /// A parameter that the endpoint does not have.
    #[error("{found} is no parameter of the endpoint {endpoint}; {hint}")]
    UnknownParameter {
        /// The source as it stands there.
        found: String,
        /// The endpoint.
        endpoint: String,
        /// The parameter probably meant, or all of them.
        hint: String,
    },
    /// A claim where no token is believed.
    #[error(
        "no token is believed; write `jwt:` with issuer, audience, algorithms and a key at the top \
         of the file"
    )]
    NoIssuer,
    /// A cost of nothing.
    #[error("a cost of 0 would limit nothing; write 1 or more")]
    CostZero,
    /// A cost that no check of the rule can pay (a warning).
    #[error("a cost of {cost} is above the limit {limit}, which therefore admits nothing")]
    CostAboveLimit {
        /// The cost.
        cost: u64,
        /// The limit's name.
        limit: String,
    },
    /// Not a cost.
    #[error("{0} is no cost; write a whole number or attribute:NAME")]
    Cost(String),
    /// A policy that does not exist.
    #[error("there is no policy {name}; {hint}")]
    UnknownPolicy {
        /// The name as it stands there.
        name: String,
        /// The policy probably meant, or all of them.
        hint: String,
    },
    /// Two policies of one name.
    #[error("another policy is called so, in {file} line {line}; give one of them another name")]
    DuplicatePolicy {
        /// The file of the first.
        file: Arc<str>,
        /// The line of the first.
        line: usize,
    },
    /// A policy within a policy.
    #[error("a policy cannot name another; write its limits")]
    NestedPolicy,
    /// A policy without a use (a warning).
    #[error("no rule uses this policy")]
    UnusedPolicy,
    /// What is said once for all files, in two.
    #[error("{file} line {line} says it already, for all files; keep one of them")]
    StatedTwice {
        /// The file of the first.
        file: Arc<str>,
        /// The line of the first.
        line: usize,
    },
    /// A file beside the rules that cannot be read.
    #[error("{file}: {why}; write the name of a file, seen from this one's directory")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
    /// Not a network.
    #[error("{0} is no address or network; write 10.0.0.0/8 or 2001:db8::/32")]
    Network(String),
    /// A network of all addresses (a warning).
    #[error(
        "{0} is everybody: any caller can then say what it likes; write your proxies' networks"
    )]
    TrustsEverybody(String),
    /// Groups of IPv6 addresses that are too large or too small.
    #[error("{0} is no prefix to group IPv6 clients by; write 32 to 128, such as 64")]
    Ipv6Prefix(u64),
    /// More proxies than stand before anybody.
    #[error("{0} proxies are too many; write how many stand before you, up to 32")]
    TooManyHops(u64),
    /// Not the name of a header.
    #[error("{0} is no name of a header; write one such as X-API-Key")]
    HeaderName(String),
    /// The same API key twice.
    #[error("this key is in {file} line {line} too; keep one of them")]
    DuplicateApiKey {
        /// The file of the first.
        file: Arc<str>,
        /// The line of the first.
        line: usize,
    },
    /// An API key that no header could carry.
    #[error("a key has no blanks and is not empty; write it as callers send it")]
    BlankInKey,
    /// Not a SHA-256.
    #[error("this is no SHA-256; write 64 hexadecimal digits, in quotes")]
    NoDigest,
    /// A file without a table of API keys.
    #[error(
        "{0} has no list of keys in YAML, TOML or JSON; write `- {{key: …, name: acme}}` lines"
    )]
    NoTable(String),
    /// A file of keys without anything in it: perhaps one that is just being written.
    #[error("{0} is empty; write [] if there is to be no key")]
    EmptyTable(String),
    /// A name that tokens cannot carry.
    #[error("{0} is no name of an issuer or audience; write it without blanks, as tokens have it")]
    NameInToken(String),
    /// An algorithm that tokens are not believed by.
    #[error("{found} is not allowed; {hint}")]
    TokenAlgorithm {
        /// The algorithm as it stands there.
        found: String,
        /// The one probably meant, or all of them.
        hint: String,
    },
    /// A shared secret and public-key algorithms, or the other way round.
    #[error(
        "these algorithms need another kind of key; write `secret_file` for HS256 and its like, \
         `jwks_file` or `key_file` for all others, and never both in one issuer"
    )]
    KeyForAlgorithms,
    /// A file without a key to verify tokens with.
    #[error("{file} {error}")]
    VerifyingKey {
        /// The file.
        file: String,
        /// Why.
        error: KeyError,
    },
    /// Not a source of tiers.
    #[error(
        "{0} is no source of tiers; write api_key, claim:NAME, attribute:NAME, {{header: NAME, \
         from: [10.0.0.0/8]}} or {{addresses: {{partner: [203.0.113.0/24]}}}}"
    )]
    TierSource(String),
    /// A header that anybody could write.
    #[error("anybody can write a header; say whose counts: {{header: NAME, from: [10.0.0.0/8]}}")]
    TierHeader,
    /// One network in two tiers.
    #[error("{network} is in tier {tier} too; keep one of them")]
    TierOfNetwork {
        /// The network.
        network: String,
        /// The other tier.
        tier: String,
    },
    /// A tier that no rule has limits for.
    #[error("no rule has limits for the tier {tier}; {hint}")]
    UnknownTier {
        /// The tier as it stands there.
        tier: String,
        /// The tier probably meant, or all of them.
        hint: String,
    },
}
