use metrics_exporter_prometheus::PrometheusBuilder;
use tonic::Code;

use super::*;
use crate::protocol::grpc::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::protocol::grpc::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry as Pair;
use crate::protocol::grpc::messages::envoy::service::ratelimit::v3::rate_limit_response::Code as Told;
use crate::server::testing::shared_with_rules;

/// Rules that ask the store, and what they do without it.
fn rules(policy: &str) -> String {
    format!(
        "rules:
  - name: exact
    domain: d
    descriptors: [{{key: exact}}]
    consistency: strict
    on_store_loss: {policy}
    limits: {{requests: 9, window: 1m}}
  - {{name: here, domain: d, descriptors: [{{key: here}}], limits: {{requests: 9, window: 1m}}}}
"
    )
}

fn call(keys: &[&str], timeout: Option<&'static str>) -> Call<RateLimitRequest> {
    let descriptor = |key: &&str| RateLimitDescriptor {
        entries: vec![Pair {
            key: (*key).to_owned(),
            value: "a".to_owned(),
        }],
        ..RateLimitDescriptor::default()
    };
    let mut call = Call::new(RateLimitRequest {
        domain: "d".to_owned(),
        descriptors: keys.iter().map(descriptor).collect(),
        hits_addend: 0,
    });
    if let Some(timeout) = timeout {
        let timeout = timeout.parse().unwrap();
        call.metadata_mut().insert("grpc-timeout", timeout);
    }
    call
}

/// What is said to a call, and after how long, where the store takes 10 seconds.
async fn ask(policy: &str, timeout: Option<&'static str>) -> (Result<Vec<u32>, Code>, Duration) {
    let shared = Arc::new(shared_with_rules(&rules(policy), Duration::from_secs(10)));
    let began = Instant::now();
    let call = call(&["exact", "here"], timeout);
    let said = ShouldRateLimit(shared).call(call).await;
    let remaining = said.map(|response| {
        let statuses = response.into_inner().statuses;
        assert!(statuses.iter().all(|status| status.code() == Told::Ok));
        statuses
            .iter()
            .map(|status| status.limit_remaining)
            .collect()
    });
    (remaining.map_err(|status| status.code()), began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_store_where_its_caller_does() {
    let (said, waited) = ask("closed", None).await;
    // The store says that the cost is what remains.
    assert_eq!(said, Ok(vec![1, 8]));
    assert_eq!(waited, Duration::from_secs(10));
    let (said, _) = ask("closed", Some("11S")).await;
    assert_eq!(said, Ok(vec![1, 8]));
}

#[tokio::test(start_paused = true)]
async fn a_call_is_answered_by_policy_before_its_caller_gives_up() {
    let (said, waited) = ask("local", Some("20m")).await;
    assert_eq!(said, Ok(vec![8, 8]));
    // Timers are of whole milliseconds.
    assert_eq!(waited.as_millis(), 16);
    let (said, waited) = ask("closed", Some("200m")).await;
    assert_eq!(said, Err(Code::Unavailable));
    assert_eq!(waited.as_millis(), 195);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_is_counted_once_and_told() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let shared = Arc::new(shared_with_rules(&rules("local"), Duration::from_secs(10)));
    let mut service = ShouldRateLimit(Arc::clone(&shared));
    let answer = service.call(call(&["exact", "here"], None));
    assert!(
        tokio::time::timeout(Duration::from_secs(1), answer)
            .await
            .is_err()
    );
    assert!(
        page.render().contains("tidegate_cancelled_calls_total 1"),
        "{}",
        page.render()
    );
    // What did not wait was counted.
    let next = service
        .call(call(&["here"], None))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(next.statuses[0].limit_remaining, 7);
    assert!(page.render().contains("tidegate_cancelled_calls_total 1"));
}
