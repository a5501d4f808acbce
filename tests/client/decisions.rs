use std::time::Duration;

use tidegate::client::{
    Answer, Builder, Check, Client, Error, FailMode, Request, Settlement, Source, Total, Verdict,
};
use tidegate::counters::{Fleet, StoreHealth};

use crate::kit::Addr;
use crate::run;
use crate::support::{Doors, serve, serve_as};

const MINUTE: Duration = Duration::from_secs(60);

const RULES: &str = r"
defaults: {algorithm: fixed_window, key: attribute:user}
rules:
- {name: orders, endpoint: /orders, limits: {free: {requests: 10, window: 1m}, pro: {requests: 100, window: 1m}}}
- {name: llm, endpoint: /llm, cost: attribute:tokens, limits: {requests: 1000, window: 1m}}
- {name: known, endpoint: /known, on_missing: deny, limits: {requests: 10, window: 1m}}
- {name: calm, endpoint: /calm, algorithm: leaky_bucket, limits: {requests: 60, window: 1m, burst: 2}}
- {name: nobody, endpoint: /nobody, ban: true}
";

/// Does the same by the socket and by the port, each time with a server of its own.
fn both_ways(test: impl AsyncFn(&Client, &Doors)) {
    for way in [0, 1] {
        let doors = serve(RULES);
        run(async {
            let client = to(&doors.resp[way]).deadline(MINUTE).start();
            test(&client, &doors).await;
        });
    }
}

fn to(at: &Addr) -> Builder {
    match at {
        Addr::Unix(path) => Client::unix(path),
        Addr::Tcp(address) => Client::tcp(address.to_string()),
    }
}

/// An answer of the daemon to a check that is admitted at once, a minute before all of
/// its limit is available again.
fn allowed(limit: u64, remaining: u64) -> Result<Answer, Error> {
    Ok(Answer {
        verdict: Verdict::Allowed {
            delay: Duration::ZERO,
        },
        limit: Some(limit),
        remaining: Some(remaining),
        reset_after: Some(MINUTE),
        source: Source::Daemon,
    })
}

#[test]
fn a_check_says_what_the_daemon_decided() {
    both_ways(async |client, doors| {
        let check = Check::new("orders", "alice");
        assert_eq!(client.check(&check).await, allowed(10, 9));
        assert_eq!(client.check(&check.cost(9)).await, allowed(10, 0));
        let refused = client.check(&check).await.unwrap();
        let retry_after = Some(MINUTE);
        assert_eq!(refused.verdict, Verdict::Refused { retry_after });
        assert_eq!(refused.retry_after(), retry_after);
        assert!(!refused.is_allowed());
        let figures = (refused.limit, refused.remaining, refused.reset_after);
        assert_eq!(figures, (Some(10), Some(0), Some(MINUTE)));
        assert_eq!(refused.source, Source::Daemon);
        // Others are not concerned, and tiers have limits of their own.
        let bob = Check::new("orders", b"bob\r\n\xff").tier("pro");
        assert_eq!(client.check(&bob).await, allowed(100, 99));
        doors.wait(60_000);
        assert_eq!(client.check(&check).await, allowed(10, 9));
    });
}

#[test]
fn a_request_is_judged_by_the_rules_that_match() {
    both_ways(async |client, _| {
        let request = Request::new("POST", "/orders?page=1").ip([192, 0, 2, 1].into());
        let alice = request
            .clone()
            .attribute("user", "alice")
            .header("X-A", "b");
        let pro = alice.clone().attribute("tier", "pro").cost(5);
        assert_eq!(client.check(&pro).await, allowed(100, 95));
        assert_eq!(client.check(&alice).await, allowed(10, 9));
        // The address stands in.
        assert_eq!(client.check(&request).await, allowed(10, 9));
        let none = client.check(&Request::new("GET", "/none")).await.unwrap();
        assert!(none.is_allowed());
        let figures = (none.limit, none.remaining, none.reset_after);
        assert_eq!(figures, (None, None, None));
        assert_eq!(none.source, Source::Daemon);
        let banned = client.check(&Request::new("GET", "/nobody")).await.unwrap();
        assert_eq!(banned.verdict, Verdict::Refused { retry_after: None });
    });
}

#[test]
fn a_delay_is_told_apart_from_a_refusal() {
    both_ways(async |client, _| {
        let check = Check::new("calm", "alice");
        let first = client.check(&check).await.unwrap();
        assert_eq!((first.is_allowed(), first.delay()), (true, Duration::ZERO));
        let second = client.check(&check).await.unwrap();
        let second_later = Duration::from_secs(1);
        assert_eq!((second.is_allowed(), second.delay()), (true, second_later));
        assert_eq!(second.retry_after(), None);
    });
}

#[test]
fn a_peek_consumes_nothing() {
    both_ways(async |client, _| {
        let check = Check::new("orders", "alice").cost(3).id("x");
        let request = Request::new("GET", "/orders").attribute("user", "alice");
        for _ in 0..3 {
            let peeked = client.peek(&check).await.unwrap();
            assert_eq!(peeked.remaining, Some(10));
            let peeked = client.peek(&request).await.unwrap();
            assert_eq!(peeked.remaining, Some(10));
        }
        // Nor does it use the id.
        assert_eq!(client.check(&check.cost(4)).await, allowed(10, 6));
    });
}

#[test]
fn a_check_is_settled_once_by_its_id() {
    both_ways(async |client, _| {
        let settled = |charged, refunded| {
            let late = 0;
            Ok(Settlement::Settled {
                charged,
                refunded,
                late,
            })
        };
        let check = Check::new("orders", "alice").cost(4).id("a");
        assert_eq!(client.check(&check).await, allowed(10, 6));
        // The same again is charged no more.
        assert_eq!(client.check(&check).await, allowed(10, 6));
        let other = Check::new("orders", "bob").id("a");
        assert_eq!(client.check(&other).await, Err(Error::IdInUse));
        assert_eq!(client.settle("a", Total::Cost(1)).await, settled(0, 3));
        let again = client.settle("a", Total::Cost(1)).await;
        assert_eq!(again, Ok(Settlement::AlreadySettled));
        let peeked = client.peek(&check).await.unwrap();
        assert_eq!(peeked.remaining, Some(9));
        let unknown = client.settle("b", Total::Cost(1)).await;
        assert_eq!(unknown, Err(Error::UnknownId));

        let request = Request::new("POST", "/llm").attribute("user", "alice");
        let request = request.attribute("tokens", "200").id("c");
        assert_eq!(client.check(&request).await, allowed(1_000, 800));
        let total = Total::Attributes(&[("tokens", 250)]);
        assert_eq!(client.settle("c", total).await, settled(50, 0));
    });
}

#[test]
fn a_report_is_recorded_whatever_the_limits_say() {
    both_ways(async |client, _| {
        let report = Check::new("orders", "alice").cost(9);
        let answer = client.report(&report).await.unwrap();
        assert_eq!((answer.is_allowed(), answer.remaining), (true, Some(1)));
        let answer = client.report(&report).await.unwrap();
        assert_eq!((answer.is_allowed(), answer.remaining), (false, Some(0)));
        assert_eq!(answer.retry_after(), Some(MINUTE));
    });
}

#[test]
fn what_is_no_answer_is_an_error_of_its_own_and_no_failure_of_the_daemon() {
    both_ways(async |client, _| {
        let unknown = client.check(&Check::new("none", "alice")).await;
        assert_eq!(unknown, Err(Error::UnknownRule));
        let unknown = client.report(&Check::new("none", "alice")).await;
        assert_eq!(unknown, Err(Error::UnknownRule));
        let nobody = client.check(&Request::new("GET", "/known")).await;
        assert_eq!(nobody, Err(Error::Unidentified));
        let said = |error| match error {
            Err(Error::Rejected(text)) => text,
            other => panic!("{other:?}"),
        };
        let no_id = said(client.check(&Check::new("orders", "a").id("")).await);
        assert_eq!(no_id, "ERR the id must have 1 to 128 bytes");
        let too_much = said(
            client
                .check(&Check::new("orders", "a").cost(u64::MAX))
                .await,
        );
        assert!(
            too_much.contains("cost must be a whole number"),
            "{too_much}"
        );
        let large = vec![0; 70_000];
        let too_large = client.check(&Check::new("orders", &large)).await;
        assert_eq!(too_large, Err(Error::TooLarge));
        // The connections still stand.
        let alice = Check::new("orders", "alice");
        assert_eq!(client.check(&alice).await, allowed(10, 9));
    });
}

#[test]
fn a_limit_that_is_closed_without_its_store_is_no_failure_of_the_daemon() {
    let rules = "rules: [{name: r, on_store_loss: closed, limits: {requests: 8, window: 1m}}]";
    let doors = serve_as(rules, Fleet::with_store());
    doors.counters.fleet().set_health(StoreHealth::Lost);
    run(async {
        let client = to(&doors.resp[0]).fail_mode(FailMode::Open).start();
        let shut = client.check(&Check::new("r", "alice")).await;
        assert_eq!(shut, Err(Error::Unavailable));
    });
}
