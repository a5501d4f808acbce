use std::sync::Arc;
use std::time::Duration;

use tidegate::client::{Answer, Check, Client, Error, FailMode, Missed, Source, Total};
use tokio::task::{JoinSet, yield_now};

use crate::kit::{Daemon, Place, Served};
use crate::run;

/// Longer than any wait of a test whose daemon answers.
const PATIENT: Duration = Duration::from_secs(30);
/// Short, where the daemon does not.
const SHORT: Duration = Duration::from_millis(50);

const RULES: &str = "rules: [{name: r, algorithm: fixed_window, \
    limits: {default: {requests: 10000000, window: 30d}, small: {requests: 77, window: 30d}}}]";

#[test]
fn of_ten_thousand_checks_over_two_connections_each_gets_its_own_reply() {
    let daemon = Daemon::start(RULES, &[]);
    run(async {
        let client = Client::unix(daemon.dir().join("resp.sock"))
            .connections(2)
            .deadline(PATIENT)
            .start();
        let mut tasks = JoinSet::new();
        for task in 1..=100 {
            let client = client.clone();
            tasks.spawn(async move {
                let key = format!("caller {task}");
                // The cost tells whose a reply is: what is left fits this task alone.
                let check = Check::new("r", &key).cost(task);
                for round in 1..=100 {
                    let answer = client.check(&check).await.unwrap();
                    assert_eq!(answer.source, Source::Daemon);
                    assert_eq!(answer.remaining, Some(10_000_000 - round * task));
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        let connections = daemon.metric("tidegate_connections", &[("door", "resp")]);
        assert_eq!(connections, 2.0);
        let checks = daemon.metric("tidegate_checks_total", &[("door", "resp")]);
        assert_eq!(checks, 10_000.0);
    });
}

/// A daemon that can be started again in the same place.
fn start(place: &Place) -> Served {
    let rules = place.write("rules.yaml", RULES);
    let directory = place.directory.path().to_str().unwrap();
    place.serve(["--rules", &rules, "--runtime-dir", directory])
}

/// Asks until an answer is as `wanted`.
async fn until(client: &Client, check: &Check<'_>, wanted: impl Fn(&Answer) -> bool) -> Answer {
    for _ in 0..100_000 {
        let answer = client.check(check).await.unwrap();
        if wanted(&answer) {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("never");
}

#[test]
fn a_daemon_that_is_killed_leaves_the_fail_mode_until_it_is_back() {
    let place = Place::new();
    let served = start(&place);
    run(async {
        let client = Client::unix(place.path("resp.sock"))
            .fail_mode(FailMode::Open)
            .deadline(PATIENT)
            .start();
        // Others ask all the time, and none of them ever hangs.
        let stop = Arc::new(tokio::sync::Notify::new());
        let mut others = JoinSet::new();
        for _ in 0..20 {
            let (client, stop) = (client.clone(), Arc::clone(&stop));
            others.spawn(async move {
                let mut stopped = std::pin::pin!(stop.notified());
                stopped.as_mut().enable();
                let check = Check::new("r", "others");
                loop {
                    tokio::select! {
                        biased;
                        () = &mut stopped => return,
                        answer = client.check(&check) => {
                            assert!(answer.unwrap().is_allowed());
                            yield_now().await;
                        }
                    }
                }
            });
        }
        let check = Check::new("r", "alice");
        let first = client.check(&check).await.unwrap();
        assert_eq!(first.remaining, Some(9_999_999));

        served.signal("KILL");
        served.end();
        let open = until(&client, &check, |it| it.source != Source::Daemon).await;
        assert_eq!(open.source, Source::FailMode(Missed::Unreachable));
        assert!(open.is_allowed());
        assert_eq!(
            (open.limit, open.remaining, open.reset_after),
            (None, None, None)
        );
        let closed = client.with_fail_mode(FailMode::Closed);
        let closed = closed.check(&check).await.unwrap();
        assert_eq!((closed.is_allowed(), closed.retry_after()), (false, None));
        let lost = Err(Error::Unanswered(Missed::Unreachable));
        assert_eq!(client.report(&check).await, lost);
        let lost = Err(Error::Unanswered(Missed::Unreachable));
        assert_eq!(client.settle("x", Total::Cost(1)).await, lost);

        let _again = start(&place);
        let back = until(&client, &check, |it| it.source == Source::Daemon).await;
        assert_eq!(back.remaining, Some(9_999_999));
        stop.notify_waiters();
        while let Some(done) = others.join_next().await {
            done.unwrap();
        }
    });
}

#[test]
fn a_daemon_that_stalls_costs_the_deadline_and_its_late_replies_confuse_nobody() {
    let place = Place::new();
    let served = start(&place);
    run(async {
        let client = Client::unix(place.path("resp.sock"))
            .connections(1)
            .deadline(PATIENT)
            .start();
        let check = Check::new("r", "alice");
        assert!(client.check(&check).await.unwrap().is_allowed());
        served.signal("STOP");
        let hasty = client.with_deadline(SHORT);
        let mut sent = 2;
        // Until the signal has arrived, it answers.
        while hasty.check(&check).await.unwrap().source == Source::Daemon {
            sent += 1;
        }
        for mode in [FailMode::Open, FailMode::Closed] {
            let late = hasty.with_fail_mode(mode).check(&check).await.unwrap();
            assert_eq!(late.source, Source::FailMode(Missed::Late));
            assert_eq!(late.is_allowed(), mode == FailMode::Open);
        }
        let report = hasty.report(&check).await;
        assert_eq!(report, Err(Error::Unanswered(Missed::Late)));
        sent += 3;
        served.signal("CONT");
        // The late replies come first, and are nobody's.
        let small = client
            .check(&Check::new("r", "bob").tier("small"))
            .await
            .unwrap();
        assert_eq!((small.limit, small.remaining), (Some(77), Some(76)));
        // All of them were counted, since they were sent.
        let alice = client.check(&check).await.unwrap();
        assert_eq!(alice.remaining, Some(10_000_000 - sent - 1));
    });
}
