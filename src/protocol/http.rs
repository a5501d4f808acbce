//! The JSON of the HTTP door, as pure functions: a body to checks, decisions to a
//! status, headers and a body. HTTP itself is the server's.

mod answer;
mod ask;
mod authorize;
mod bad_request;
mod explanation;
mod pairs;
mod refusal;
mod settle;

pub use answer::{Answer, Reply};
pub use ask::{Asked, Check, MAX_BATCH, MAX_BATCH_BODY, MAX_BODY};
pub use authorize::Deny;
pub use bad_request::BadRequest;
pub use explanation::{AnswerTold, CallerTold, CountedTold, Explanation, LimitTold, RuleTold};
pub use settle::Settle;
