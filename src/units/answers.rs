//! What callers are told beside yes or no, as rules set it.

mod template;

pub use template::{Escape, Template, TemplateValue, UnknownValue};

/// What the answers of a rule's limits look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// Whether there are `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
    pub x_ratelimit: bool,
    /// How `X-RateLimit-Reset` tells time.
    pub reset: ResetStyle,
    /// Whether there are `RateLimit` and `RateLimit-Policy`.
    pub ietf: bool,
    /// Whether browsers are told to show these fields to scripts of other origins.
    pub expose: bool,
    /// What a refusal looks like; `None` for 429 and the figures as JSON.
    pub refusal: Option<Refusal>,
}

/// The answers where no rule says anything.
static DEFAULT: Answers = Answers {
    x_ratelimit: true,
    reset: ResetStyle::Epoch,
    ietf: true,
    expose: false,
    refusal: None,
};

impl Answers {
    /// The answers of limits that no rule names.
    pub fn of_no_rule() -> &'static Answers {
        &DEFAULT
    }
}

impl Default for Answers {
    fn default() -> Answers {
        DEFAULT.clone()
    }
}

/// How `X-RateLimit-Reset` tells when everything is available again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetStyle {
    /// Seconds since the Unix epoch.
    #[default]
    Epoch,
    /// Seconds from now.
    Delta,
}

/// How a refusal is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status code.
    pub status: u16,
    /// The body in place of the figures as JSON.
    pub body: Option<RefusalBody>,
}

impl Refusal {
    /// The status of a refusal: Too Many Requests.
    pub const STATUS: u16 = 429;
    /// The status while the store is lost, which no other refusal may have.
    pub const STATUS_WITHOUT_STORE: u16 = 503;
}

/// A body of the operator's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalBody {
    /// The value of `Content-Type`.
    pub content_type: Box<str>,
    /// The text.
    pub text: Template,
}
