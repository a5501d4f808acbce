use std::fmt;
use std::sync::Arc;

use super::DurationError;
use super::pattern::PatternError;
use super::tokens::KeyError;
use crate::units::{Algorithm, Nanos, QuotaError};

/// Everything that is wrong with a set of rule files, in the order of the files
/// and, within a file, of its text as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl std::error::Error for Faults {}

/// One line for each fault.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.0.iter().enumerate() {
            let end = if i == 0 { "" } else { "\n" };
            write!(f, "{end}{fault}")?;
        }
        Ok(())
    }
}

/// One thing that is wrong, or doubtful, in a rule file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file's name, as its [`Source`](super::Source) gives it.
    pub file: Arc<str>,
    /// Where in the file.
    pub at: At,
    /// The rule's name, or failing that its endpoint or its place in the file; `None`
    /// outside rules.
    pub rule: Option<String>,
    /// The field, seen from the rule (or from the top of the file): `limits.free.window`.
    pub field: String,
    /// What is wrong, and what to write instead.
    pub problem: Problem,
}

/// `rules.yaml:12:9: rule "orders": limits.free.window: "5x" is not a duration; …`,
/// on one line whatever the file contains.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.at.line, self.at.column)?;
        if let Some(rule) = &self.rule {
            write!(f, "rule {rule}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}", self.problem)
    }
}

/// A place in a file: line and column (in characters), both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl At {
    /// The start of a file.
    pub const START: At = At { line: 1, column: 1 };
}

/// What is wrong, and what to write instead. Texts from the file are held quoted
/// and escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The file is not YAML, TOML or JSON.
    #[error("{0}")]
    Syntax(String),
    /// Nested so deeply that no rule can be meant.
    #[error("nested more than {0} deep")]
    TooDeep(usize),
    /// The aliases of a YAML file repeat too much.
    #[error("aliases repeat too much (more than 250,000 values); use fewer, or shorter ones")]
    TooManyAliases,
    /// A YAML tag.
    #[error("tags such as {0} have no use here; leave the tag out")]
    Tag(String),
    /// A second YAML document.
    #[error("a file holds one document; put the rules after this `---` into a file of their own")]
    SecondDocument,
    /// All files are empty.
    #[error("no file has any rule; write `rules:` and a list, empty if nothing is to be limited")]
    NothingAtAll,
    /// A file without anything in it (a warning).
    #[error("there are no rules in this file")]
    EmptyFile,
    /// A value of the wrong kind.
    #[error("{found} is not {want}")]
    Kind {
        /// What stands there.
        found: String,
        /// What should, with an example.
        want: &'static str,
    },
    /// A word or number that YAML readers take for something else than text.
    #[error("{0} can be read as something else than text; put it in quotes")]
    Unquoted(String),
    /// A name that is not text.
    #[error("{0} is not a name; names are text: put it in quotes if it is meant as one")]
    NotAName(String),
    /// A field that the schema does not have.
    #[error("{key} is not known here; {hint}")]
    UnknownKey {
        /// The name as it stands there.
        key: String,
        /// A name that looks like it, or all names.
        hint: String,
    },
    /// The same name twice in one map.
    #[error("{key} is here twice, first in line {line}; keep one of them")]
    DuplicateKey {
        /// The name.
        key: String,
        /// The line of the first.
        line: usize,
    },
    /// Two fields that say the same.
    #[error("`{0}` says the same as `{1}`; keep one of them")]
    SaidTwice(&'static str, &'static str),
    /// A field that must be there.
    #[error("`{0}` is missing; write {1}")]
    Missing(&'static str, &'static str),
    /// A word that is none of those possible.
    #[error("{found} is none of {all}{hint}")]
    UnknownWord {
        /// The word as it stands there.
        found: String,
        /// The words possible.
        all: String,
        /// The word probably meant.
        hint: String,
    },
    /// A lease can only be bounded where costs are counted by windows.
    #[error(
        "bounded is for fixed_window and sliding_window, not for {}; write consistency: strict, \
         or count by a window", .0.name()
    )]
    NotBounded(Algorithm),
    /// A limit that is too small to be lent out.
    #[error(
        "a limit of {0} is too small to be lent out: each check will be put to the store, as \
         consistency: strict does; bounded is for 100 a node and more"
    )]
    TooSmallToLend(u64),
    /// A wait for the store that is too short or too long.
    #[error("{0} is no time to wait for the store; write 1ms to 10s")]
    StrictTimeout(Nanos),
    /// Not a duration.
    #[error("{found} {error}")]
    Duration {
        /// The text as it stands there.
        found: String,
        /// Why not.
        error: DurationError,
    },
    /// A number too large to hold.
    #[error("{0} is too large; the largest number is 18446744073709551615")]
    TooLarge(String),
    /// A limit that cannot be computed with.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// More than the store counts.
    #[error(
        "{0} is more than the store counts exactly (9007199254740991); write `consistency: local`, \
         or a smaller amount"
    )]
    MoreThanTheStoreCounts(u64),
    /// Intervals that contradict each other, or are too short.
    #[error(
        "sync_min_interval {min}, sync_interval {interval} and sync_max_interval {max} do not go \
         together; none may be above the next, and sync_interval is at least 1ms"
    )]
    Pace {
        /// The shortest wait.
        min: Nanos,
        /// The usual wait.
        interval: Nanos,
        /// The longest wait.
        max: Nanos,
    },
    /// A name that cannot be used.
    #[error(
        "{0} cannot be a name; write 1 to 128 printable ASCII characters, without blanks around them"
    )]
    BadName(String),
    /// A rule without a name, whose endpoint cannot serve as one.
    #[error("the endpoint cannot serve as the rule's name; give the rule a `name` of its own")]
    NeedsName,
    /// Two rules of one name.
    #[error("another rule is called so, in {file} line {line}; give one of them another `name`")]
    DuplicateRule {
        /// The file of the first.
        file: Arc<str>,
        /// The line of the first.
        line: usize,
    },
    /// Two limits that would be one counter.
    #[error(
        "the limit in line {0} has the same tier, algorithm and window, so one of them is dead; \
         keep one"
    )]
    DuplicateLimit(usize),
    /// Two limits of one name in one rule.
    #[error("the limit in line {line} is called {name} too; give one of them another `name`")]
    DuplicateLimitName {
        /// The name.
        name: String,
        /// The line of the first.
        line: usize,
    },
    /// A list of limits without any.
    #[error("there is no limit here; write {{requests: 10, window: 1m}}")]
    NoLimit,
    /// An endpoint that is no pattern.
    #[error("{found} {error}")]
    Endpoint {
        /// The text as it stands there.
        found: String,
        /// Why not.
        error: PatternError,
    },
    /// Not a method.
    #[error("{0} is not a method; write GET, POST or a list of methods")]
    Method(String),
    /// A method that hardly any request has (a warning).
    #[error("{found} is an unusual method; {hint}")]
    UnusualMethod {
        /// The method as it stands there.
        found: String,
        /// The method probably meant.
        hint: String,
    },
    /// Not a source of identity.
    #[error(
        "{found} names no caller; write client, api_key, header:NAME, attribute:NAME, claim:NAME, \
         subject, query:NAME, path:NAME, tenant or global{hint}"
    )]
    KeySource {
        /// The text as it stands there.
        found: String,
        /// The source probably meant.
        hint: String,
    },
    /// A source of identity listed twice.
    #[error("{0} is in the list twice; keep one of them")]
    DuplicateKeySource(String),
    /// An identity made of nothing.
    #[error("an empty list identifies nobody; leave `key` out to count by the client's address")]
    NoKeySource,
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
    /// A burst that lets through far more than the rate (a warning).
    #[error("a burst of {burst} admits more at once than the {amount} of a whole {window} window")]
    BurstOverRate {
        /// The burst.
        burst: u64,
        /// The amount.
        amount: u64,
        /// The window.
        window: Nanos,
    },
    /// Tiers, but none for callers whose tier is unknown (a warning).
    #[error("there is no tier `default`; callers without a known tier get `{0}`, the first one")]
    NoDefaultTier(String),
}

/// `text` in quotes, on one line, shortened.
pub(super) fn quote(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut chars = text.chars();
    let short: String = chars.by_ref().take(LONGEST).collect();
    let more = if chars.next().is_some() { "…" } else { "" };
    format!("\"{}{more}\"", short.escape_debug())
}
