mod callers;
mod descriptors;

use std::fmt;
use std::sync::Arc;

use super::DurationError;
use super::expression::ExpressionError;
use super::pattern::PatternError;
use crate::units::{Algorithm, CalendarUnit, Consistency, Mode, Nanos, QuotaError, UnknownValue};

pub use callers::CallerProblem;
pub use descriptors::DescriptorProblem;

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
    /// Not a window, but nearly a stretch of the calendar.
    #[error(
        "{found} is not a window; write `{unit}` for that of the calendar, or {fixed} for that \
         fixed length",
        unit = unit.name(), fixed = unit.fixed()
    )]
    NearCalendar {
        /// The text as it stands there.
        found: String,
        /// What was probably meant.
        unit: CalendarUnit,
    },
    /// A window of the calendar that is not counted by fixed windows.
    #[error(
        "a `{unit}` of the calendar is counted by fixed_window, not by {algorithm}; write \
         `algorithm: fixed_window`, or `window: {fixed}` for that fixed length",
        unit = unit.name(), algorithm = algorithm.name(), fixed = unit.fixed()
    )]
    CalendarAlgorithm {
        /// The window.
        unit: CalendarUnit,
        /// How it was to be counted.
        algorithm: Algorithm,
    },
    /// No time zone has this name.
    #[error("{found} is not a time zone{hint}")]
    UnknownZone {
        /// The text as it stands there.
        found: String,
        /// What was probably meant.
        hint: String,
    },
    /// A time zone where it says nothing.
    #[error(
        "a window of {0} is the same in every time zone; leave time_zone out, or write \
         `window: day`, `week` or `month`"
    )]
    ZoneOfNoCalendar(Nanos),
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
    /// What is wrong with who callers are.
    #[error(transparent)]
    Caller(#[from] CallerProblem),
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
    /// A wait for a store that nobody asks (a warning).
    #[error(
        "no check of {} limits waits for the store, so this has no effect; write \
         consistency: strict, or leave it out", .0.name()
    )]
    NeverWaits(Consistency),
    /// A limit of this node alone does not go by the store (a warning).
    #[error(
        "a local limit has nothing to do with the store, so this has no effect; write \
         consistency: approximate, or leave it out"
    )]
    NoStoreNeeded,
    /// What a bounded limit does not do when the store is lost (a warning).
    #[error(
        "a bounded limit admits only what the store has lent, so without the store it answers \
         503 and this has no effect; write on_store_loss: closed, or open"
    )]
    NothingToShare,
    /// Tiers, but none for callers whose tier is unknown (a warning).
    #[error("there is no tier `default`; callers without a known tier get `{0}`, the first one")]
    NoDefaultTier(String),
    /// A status that no refusal can have.
    #[error(
        "{0} is no status of a refusal; write 429, or another from 400 to 599 but 503, which \
         says that the store is lost"
    )]
    RefusalStatus(u64),
    /// Not a media type.
    #[error("{0} is not a media type; write text/plain, text/html or application/json")]
    MediaType(String),
    /// A body of a refusal that is too long, in bytes.
    #[error("a body is at most {0} bytes long")]
    LongBody(usize),
    /// A body with a place for a value that there is not.
    #[error("{error}; {hint}")]
    TemplateValue {
        /// The word in question.
        error: UnknownValue,
        /// A value that looks like it, or all values.
        hint: String,
    },
    /// A body that is no JSON, although it is said or assumed to be.
    #[error(
        "the body is not JSON ({0}); put texts such as {{rule}} in quotes, or give it a \
         `content_type` such as text/plain"
    )]
    BodyNotJson(String),
    /// A regular expression that cannot be used.
    #[error("{found} {error}")]
    Expression {
        /// The text as it stands there.
        found: String,
        /// Why not.
        error: ExpressionError,
    },
    /// A regular expression that matches no path.
    #[error("{0} matches no path, for every path begins with a slash; write regex:^/v[0-9]+/.*$")]
    NoPath(String),
    /// `trailing_slash` where any tail may follow.
    #[error("`trailing_slash` has no sense for an endpoint with an open end; leave it out")]
    NoTrailingSlash,
    /// A `when` that says nothing.
    #[error("there is no condition here; write {{headers: {{X-Beta: \"1\"}}}} or leave `when` out")]
    NoCondition,
    /// A name of a header or attribute that none has.
    #[error("{0} is no name of a header or attribute")]
    FieldName(String),
    /// Two names that are one.
    #[error("{0} is here twice, for its case does not count; write a list of values")]
    SameButForCase(String),
    /// A condition without any value.
    #[error("there is no value here; write one, or present or absent")]
    NoValue,
    /// A value that no header or attribute has.
    #[error("{0} is an empty value, which is the same as none; write present or absent")]
    EmptyValue(String),
    /// Fields of which each says what to do.
    #[error("`{0}` contradicts `{1}`; keep one of them")]
    Contradiction(&'static str, &'static str),
    /// A priority without a group.
    #[error(
        "all rules that match apply; a priority orders the rules of one `group`: write that too"
    )]
    NoGroup,
    /// Not a part of the callers.
    #[error("{0} is no part of the callers; write 0 to 100")]
    Percent(u64),
    /// A rule for none of the callers (a warning).
    #[error("0 percent are nobody; write enabled: false to switch the rule off")]
    NobodyAtAll,
    /// An unlimited rule beside others (a warning).
    #[error(
        "limits nothing and exempts nobody from other rules; give it and them the same `group`, \
         and it the higher `priority`"
    )]
    ExemptsNobody,
    /// A rule or override that never applies (a warning).
    #[error("never applies: \"{0}\" comes first and matches all that this does")]
    Unreachable(String),
    /// Two overrides of one name.
    #[error("the override in line {line} is called {name} too; give one of them another `name`")]
    DuplicateOverride {
        /// The name.
        name: String,
        /// The line of the first.
        line: usize,
    },
    /// A limit that never refuses, and so never waits (a warning).
    #[error("a {} limit makes no request wait: it is counted as approximate, not {}", .0.name(), .1.name())]
    NotAsked(Mode, Consistency),
    /// What is wrong with rules for descriptors.
    #[error(transparent)]
    Descriptor(#[from] DescriptorProblem),
}

/// `text` in quotes, on one line, shortened.
pub(super) fn quote(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut chars = text.chars();
    let short: String = chars.by_ref().take(LONGEST).collect();
    let more = if chars.next().is_some() { "…" } else { "" };
    format!("\"{}{more}\"", short.escape_debug())
}
