use prost_types::value::Kind;
use prost_types::{Struct, Value};

use crate::engine::Decision;

/// The decision as other filters of the gateway see it: `outcome`, and of the limit that
/// decided `rule`, `limit`, `remaining` and `reset_seconds`.
pub(super) fn metadata(decision: &Decision<'_>) -> Struct {
    let text = |text: &str| Kind::StringValue(text.to_owned());
    // Exact up to 2^53, beyond which nobody counts requests.
    #[allow(clippy::cast_precision_loss)]
    let number = |number: u64| Kind::NumberValue(number as f64);
    let mut told = Struct::default();
    let mut tell = |name: &str, kind| {
        let value = Value { kind: Some(kind) };
        told.fields.insert(name.to_owned(), value);
    };
    tell("outcome", text(decision.outcome.name()));
    if let Some(limit) = decision.figures() {
        tell("rule", text(limit.rule));
        tell("limit", number(limit.limit));
        tell("remaining", number(limit.remaining));
        tell("reset_seconds", number(limit.reset_after.as_secs_ceil()));
    }
    told
}
