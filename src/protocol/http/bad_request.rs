use crate::engine::CheckId;
use crate::protocol::text::Shown;

/// Why a body asks for nothing that can be decided. Nothing was decided.
#[derive(Debug, thiserror::Error)]
pub enum BadRequest {
    /// No JSON, or not of the documented form: unknown or duplicate names, wrong types.
    #[error("{}", Shown(.0.to_string().as_bytes()))]
    Json(serde_json::Error),
    /// Nothing at all.
    #[error("the body is empty; write `rule` and `key`, `request`, or `checks`, as JSON")]
    Empty,
    /// Neither a rule nor a request nor a descriptor nor a batch.
    #[error(
        "nothing is asked; write `rule` and `key`, `request`, `domain` and `entries`, or `checks`"
    )]
    Nothing,
    /// The check of this place in a batch, from 0.
    #[error("checks[{0}]: {1}")]
    InBatch(usize, Box<BadRequest>),
    /// One of the names that the form needs is absent.
    #[error("missing field `{0}`")]
    Missing(&'static str),
    /// Two forms of asking were mixed.
    #[error("`{0}` does not go with `{1}`")]
    Mixed(&'static str, &'static str),
    /// Attributes beside a rule, which takes nothing of the kind but a tier.
    #[error("`attributes` does not go with `rule`; write `tier`")]
    Attributes,
    /// The `ip` is no address.
    #[error("`ip` is not an IP address: '{0}'")]
    Ip(String),
    /// The `id` is empty or too long.
    #[error("`id` must have 1 to {} bytes", CheckId::MAX)]
    Id,
    /// The attribute of this name of a settlement is no whole number.
    #[error("`attributes.{0}` must be a whole number, 0 or more, in quotes")]
    Amount(String),
    /// What only a check has, in a report.
    #[error("`{0}` does not go with a report, which is never refused")]
    InReport(&'static str),
    /// Something else than one described request, of which there is nothing to explain.
    #[error(
        "only one described request or descriptor can be explained; write `request` or `domain`"
    )]
    NotDescribed,
    /// No field of a gateway says the part of the request that this one would.
    #[error("no `{0}` (or X-Original-) header says which request is meant")]
    Undescribed(&'static str),
    /// Two fields of a gateway say different things of the request.
    #[error(
        "`{0}` and `{1}` contradict each other; write from=forwarded or from=original into the query"
    )]
    Contradiction(&'static str, &'static str),
    /// A part of the query that means nothing, or is there twice.
    #[error(
        "the query has '{0}', which is wrong or there twice; write ip=ADDRESS, cost=N, \
         from=forwarded or from=original, deny=403, slashes=decoded"
    )]
    Query(String),
    /// The body is longer than its form allows, in bytes.
    #[error("the body is longer than {0} bytes")]
    TooLarge(usize),
}
