//! A real Envoy that decides by itself, by the configuration that is shipped.

use crate::client::Gate;
use crate::kit::http::{self, Reply};
use crate::kit::{Backend, Gateway, Kind, root, wait_until};

/// The shipped rules, with a window that no test meets the end of.
fn rules() -> String {
    let shipped = std::fs::read_to_string(root().join("config/rules/rlqs.yaml")).unwrap();
    let window = "{ requests: 100, window: 1m, algorithm: fixed_window }";
    assert_eq!(shipped.matches(window).count(), 1);
    shipped.replace(
        window,
        "{ requests: 100, window: 30d, algorithm: fixed_window }",
    )
}

fn get(envoy: &Gateway, user: &str) -> Reply {
    http::try_request(&envoy.addr().into(), "GET", "/", &[("x-user", user)], "").unwrap()
}

#[test]
fn envoy_admits_and_refuses_by_itself_and_goes_on_without_the_daemon() {
    let mut gate = Gate::start(&rules(), &[]);
    let backend = Backend::start();
    let envoy = Gateway::start(Kind::EnvoyByQuota, &backend, Some(&gate.daemon));
    let metric = |gate: &Gate, name: &str, labels: &[(&str, &str)]| {
        let page = gate.daemon.metrics();
        crate::kit::sum(&page, name, labels).unwrap_or(0.0)
    };
    assert_eq!(get(&envoy, "al").status, 200);
    wait_until("the first assignment", || {
        metric(&gate, "tidegate_quota_assignments_total", &[]) > 0.0
    });
    // Envoy itself refuses what is beyond, and says so as it is told to.
    let mut admitted = 1;
    let mut refused = None;
    wait_until("all to be used up", || {
        for _ in 0..10 {
            let reply = get(&envoy, "al");
            match reply.status {
                200 => admitted += 1,
                _ => refused = Some(reply),
            }
        }
        let labels = [("kind", "deny_all")];
        metric(&gate, "tidegate_quota_assignments_total", &labels) > 0.0
            && get(&envoy, "al").status == 429
    });
    let refused = refused.unwrap();
    assert_eq!(
        (refused.status, refused.body.as_str()),
        (429, "too many requests\n")
    );
    assert_eq!(refused.header("x-limited-by"), Some("quota"));
    let of_al = [("rule", "users"), ("outcome", "allowed")];
    wait_until("all to be reported", || {
        metric(&gate, "tidegate_quota_requests_total", &of_al) == f64::from(admitted)
    });
    // What is in flight while an assignment changes may go beyond.
    assert!((100..=105).contains(&admitted), "{admitted}");
    // No request has asked the daemon anything.
    assert_eq!(metric(&gate, "tidegate_checks_total", &[]), 0.0);
    let reports = metric(&gate, "tidegate_quota_reports_total", &[]);
    assert!(reports < 100.0, "{reports}");
    // Others have theirs, and the monitoring has no limit.
    assert_eq!(get(&envoy, "bo").status, 200);
    for _ in 0..110 {
        assert_eq!(get(&envoy, "monitoring").status, 200);
    }

    assert!(gate.daemon.terminate().success());
    // Its last word holds for its time.
    assert_eq!(get(&envoy, "al").status, 429);
    wait_until("the last word to be forgotten", || {
        get(&envoy, "al").status == 200
    });
}
