use std::sync::Arc;

/// What is wrong with rules for descriptors, and what to write instead. Texts from the file
/// are held quoted and escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorProblem {
    /// A field of rules for described requests.
    #[error(
        "`{0}` is for rules with an endpoint; a rule with a `domain` is for descriptors: leave \
         one of the two out"
    )]
    NotWithDomain(&'static str),
    /// A field of rules for descriptors.
    #[error("`{0}` is for rules with a `domain`; write that too, or leave this out")]
    OnlyWithDomain(&'static str),
    /// A name that is no text at all.
    #[error("is empty; write some text")]
    Empty,
    /// A rule for no entry.
    #[error("there is no entry here; write [{{key: path, value: /login}}]")]
    NoEntry,
    /// The same entries twice.
    #[error("the same entries in this domain are in {file} line {line} too; keep one of them")]
    Duplicate {
        /// The file of the first.
        file: Arc<str>,
        /// The line of the first.
        line: usize,
    },
    /// The same entry, to be understood in two ways.
    #[error("the same entry in {file} line {line} has another `{field}`; write it alike in both")]
    Differs {
        /// The field.
        field: &'static str,
        /// The file of the first.
        file: Arc<str>,
        /// The line of the first.
        line: usize,
    },
    /// Counting as one what is one already, or has no end.
    #[error("share_threshold is for a `value` that ends in `*`; write one, or leave it out")]
    NotShared,
    /// A unit beside `unlimited`.
    #[error("`unit` says nothing where `unlimited` is true; keep one of them")]
    UnitOfNothing,
    /// More than a gateway can be told.
    #[error("{0} is too large; the largest number is 4294967295")]
    TooMany(u64),
    /// No number (a warning).
    #[error(
        "without requests_per_unit nothing is admitted; write `requests_per_unit: 0` if that is meant"
    )]
    BanBySilence,
    /// A rule that replaces itself.
    #[error("{0} is this limit's own name; write the name of another")]
    ReplacesItself(String),
    /// A name of a rule or limit that none has (a warning).
    #[error("nothing is called {0}, so this has no effect; write the name of another")]
    ReplacesNothing(String),
}
