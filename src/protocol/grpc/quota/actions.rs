use prost_types::Duration;
use smallvec::SmallVec;

use super::Bucket;
use crate::policy::assignment::Assignment;
use crate::protocol::grpc::messages::envoy::service::rate_limit_quota::v3::BucketId;
use crate::protocol::grpc::messages::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::BucketAction;
use crate::protocol::grpc::messages::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::bucket_action::{
    AbandonAction, BucketAction as Action, QuotaAssignmentAction,
};
use crate::protocol::grpc::messages::envoy::r#type::v3::rate_limit_strategy::{
    BlanketRule, Strategy,
};
use crate::protocol::grpc::messages::envoy::r#type::v3::{RateLimitStrategy, TokenBucket};
use crate::units::Nanos;

/// What a gateway is told of one bucket at once, in this order and in one message.
pub type Word = SmallVec<[BucketAction; 2]>;

/// What a gateway is told of a bucket: what to do with its requests, and for how long if it
/// hears no more.
///
/// Envoy (1.40) cuts both times to whole seconds, of which there must be one at least. Of the
/// fill interval it compares the nanoseconds, and nothing else, with those of the assignment
/// before: where they and the tokens are the same, the level of the bucket is kept.
pub fn assigned(bucket: &Bucket, assignment: Assignment, time_to_live: Nanos) -> BucketAction {
    let strategy = match assignment {
        Assignment::AllowAll => Strategy::BlanketRule(BlanketRule::AllowAll.into()),
        Assignment::DenyAll => Strategy::BlanketRule(BlanketRule::DenyAll.into()),
        Assignment::Bucket {
            max_tokens,
            tokens_per_fill,
            fill_interval,
        } => Strategy::TokenBucket(TokenBucket {
            max_tokens: max_tokens.max(1),
            tokens_per_fill: Some(tokens_per_fill.max(1)),
            fill_interval: Some(at_least_a_second(fill_interval)),
        }),
    };
    let time_to_live = Nanos::from_secs(time_to_live.as_secs_ceil());
    action(
        bucket,
        Action::QuotaAssignmentAction(QuotaAssignmentAction {
            assignment_time_to_live: Some(at_least_a_second(time_to_live)),
            rate_limit_strategy: Some(RateLimitStrategy {
                strategy: Some(strategy),
            }),
        }),
    )
}

/// The same where the gateway knows another assignment.
///
/// A lump of tokens is all there, whatever was left of the one before. Envoy fills another
/// bucket only as far as the old one was full, in proportion. But it forgets the old one by a
/// blanket rule; and what it does with requests it learns at the end of a message, so that
/// none meets this one.
pub fn assigned_anew(bucket: &Bucket, assignment: Assignment, time_to_live: Nanos) -> Word {
    let mut word = Word::new();
    if assignment.is_lump() {
        word.push(assigned(bucket, Assignment::DenyAll, time_to_live));
    }
    word.push(assigned(bucket, assignment, time_to_live));
    word
}

/// The word that nothing more is told of a bucket: its next request is reported as the first.
pub fn abandoned(bucket: &Bucket) -> BucketAction {
    action(bucket, Action::AbandonAction(AbandonAction {}))
}

fn action(bucket: &Bucket, action: Action) -> BucketAction {
    let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    BucketAction {
        bucket_id: Some(BucketId {
            bucket: bucket.entries().map(pair).collect(),
        }),
        bucket_action: Some(action),
    }
}

fn at_least_a_second(span: Nanos) -> Duration {
    const SECOND: u64 = 1_000_000_000;
    Duration {
        seconds: i64::try_from((span.get() / SECOND).max(1)).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.get() % SECOND).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket() -> Bucket {
        Bucket::of("shop", &[("user", "u"), ("name", "n")])
    }

    /// The strategy that is told, and for how many seconds and nanoseconds.
    fn told(assignment: Assignment, time_to_live: Nanos) -> (Strategy, i64, i32) {
        let action = assigned(&bucket(), assignment, time_to_live);
        let id: Vec<_> = action.bucket_id.unwrap().bucket.into_iter().collect();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(id, [pair("name", "n"), pair("user", "u")]);
        let Some(Action::QuotaAssignmentAction(action)) = action.bucket_action else {
            unreachable!()
        };
        let lives = action.assignment_time_to_live.unwrap();
        let strategy = action.rate_limit_strategy.unwrap().strategy.unwrap();
        (strategy, lives.seconds, lives.nanos)
    }

    #[test]
    fn blanket_rules_and_buckets_are_told_for_whole_seconds() {
        let allow = Strategy::BlanketRule(0);
        let deny = Strategy::BlanketRule(1);
        let half = Nanos::from_millis(2_500);
        assert_eq!(told(Assignment::AllowAll, half), (allow, 3, 0));
        assert_eq!(told(Assignment::AllowAll, Nanos::ZERO), (allow, 1, 0));
        assert_eq!(told(Assignment::DenyAll, Nanos::from_secs(9)), (deny, 9, 0));
    }

    #[test]
    fn a_bucket_keeps_its_serial_number_and_is_never_filled_in_no_time() {
        let fill = |fill_interval| {
            let assignment = Assignment::Bucket {
                max_tokens: 7,
                tokens_per_fill: 3,
                fill_interval,
            };
            let (Strategy::TokenBucket(bucket), ..) = told(assignment, Nanos::from_secs(9)) else {
                unreachable!()
            };
            assert_eq!((bucket.max_tokens, bucket.tokens_per_fill), (7, Some(3)));
            let interval = bucket.fill_interval.unwrap();
            (interval.seconds, interval.nanos)
        };
        assert_eq!(fill(Nanos::from_secs(4).plus(Nanos::new(5))), (4, 5));
        assert_eq!(fill(Nanos::new(5)), (1, 5));
    }

    #[test]
    fn another_lump_is_told_after_a_word_that_forgets_the_old_one() {
        let bucket_of = |fill_interval| Assignment::Bucket {
            max_tokens: 7,
            tokens_per_fill: 1,
            fill_interval,
        };
        let second = Nanos::from_secs(1);
        let never = Nanos::from_secs(365 * 86_400);
        let lump = bucket_of(never.plus(Nanos::new(3)));
        let words = |assignment| assigned_anew(&bucket(), assignment, second);
        let one = |assignment| assigned(&bucket(), assignment, second);
        assert_eq!(words(lump)[..], [one(Assignment::DenyAll), one(lump)]);
        for assignment in [bucket_of(second), Assignment::AllowAll] {
            assert_eq!(words(assignment)[..], [one(assignment)]);
        }
    }

    #[test]
    fn a_bucket_is_abandoned_by_its_id() {
        let action = abandoned(&bucket());
        assert_eq!(action.bucket_id.unwrap().bucket.len(), 2);
        let expected = Action::AbandonAction(AbandonAction {});
        assert_eq!(action.bucket_action, Some(expected));
    }
}
