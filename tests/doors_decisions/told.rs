//! What rules have callers told: fields, refusals, responses to pass on.

use serde_json::json;

use super::support::{Doors, START, ask, headers, serve};
use crate::kit::http;

/// What two rules, one of them with two limits, tell of a request.
const STACKED: &str = "rules:\n\
    - {name: api, endpoint: /api/**, algorithm: fixed_window, limits: {default: [\
       {requests: 3, window: 1m, name: burst}, {requests: 10, window: 1h}]}}\n\
    - {name: search, endpoint: /api/search, algorithm: fixed_window, limits: {\
       requests: 2, window: 10s}}\n";

fn search(extra: &str) -> String {
    format!(r#"{{"request":{{"method":"GET","path":"/api/search","ip":"192.0.2.1"}}{extra}}}"#)
}

#[test]
fn all_limits_that_apply_are_told_in_one_line_each_of_policies_and_of_what_is_left() {
    for nth in 0..2 {
        let doors = serve(STACKED);
        let at = &doors.http[nth];
        let policies =
            r#""api/burst";q=3;w=60, "api/default/1h";q=10;w=3600, "search/default/10s";q=2;w=10"#;
        for (left, status) in [([2, 9, 1], 200), ([1, 8, 0], 200), ([1, 8, 0], 429)] {
            let reply = ask(at, &search(""));
            assert_eq!(reply.status, status);
            assert_eq!(reply.header("ratelimit-policy"), Some(policies));
            let [burst, hour, search] = left;
            // The clock stands on the edge of a minute, 2,760 s before the next hour.
            let left = format!(
                r#""api/burst";r={burst};t=60, "api/default/1h";r={hour};t=2760, "search/default/10s";r={search};t=10"#
            );
            assert_eq!(reply.header("ratelimit"), Some(&*left));
            assert_eq!(headers(&reply), Some([2, search, START + 10]));
            let wait = (status == 429).then_some("10");
            assert_eq!(reply.header("retry-after"), wait);
        }
    }
}

#[test]
fn a_rule_chooses_its_fields_and_its_refusal() {
    let doors = serve(
        "answers: {ietf: false, refusal: {status: 420}}\n\
         rules:\n\
         - {name: file, algorithm: fixed_window, limits: {requests: 1, window: 1m}}\n\
         - name: html\n  \
           algorithm: fixed_window\n  \
           limits: {requests: 1, window: 1m}\n  \
           answers:\n    \
             x_ratelimit: false\n    \
             expose: true\n    \
             refusal: {status: 403, content_type: text/html, body: \"<p>{rule}: {retry_after} s</p>\"}\n\
         - {name: none, limits: {requests: 0, window: 1m}}\n",
    );
    assert_eq!(doors.named("file", "k", 1).status, 200);
    let reply = doors.named("file", "k", 1);
    assert_eq!((reply.status, reply.header("ratelimit")), (420, None));
    assert_eq!(headers(&reply), Some([1, 0, START + 60]));
    assert_eq!(reply.json()["error"], "rate_limit_exceeded");
    assert_eq!(reply.json()["limit_name"], "default/1m");

    let reply = doors.named("html", "k", 1);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let reply = doors.named("html", "k", 1);
    assert_eq!((reply.status, headers(&reply)), (403, None));
    assert_eq!(reply.header("content-type"), Some("text/html"));
    assert_eq!(reply.header("retry-after"), Some("60"));
    let exposed = reply.header("access-control-expose-headers");
    assert_eq!(exposed, Some("Retry-After"));
    assert_eq!(reply.body, "<p>html: 60 s</p>");

    // Waiting never helps: the status of a refusal, and nothing to wait for.
    let reply = doors.named("none", "k", 1);
    assert_eq!((reply.status, reply.header("retry-after")), (420, None));
    assert_eq!(reply.json()["error"], "banned");
}

#[test]
fn whoever_asks_for_the_response_is_told_what_to_pass_on_in_batches_too() {
    let doors = serve(STACKED);
    let reply = doors.ask(&search(r#","response":true"#));
    let told = &reply.json()["response"];
    for (name, of_reply) in told["headers"].as_object().unwrap() {
        assert_eq!(reply.header(name), of_reply.as_str(), "{name}");
    }
    assert_eq!(told["headers"].as_object().unwrap().len(), 5);
    assert_eq!((told.get("status"), told.get("body")), (None, None));

    let one = search("");
    let batch = format!(
        r#"{{"response":true,"checks":[{one},{one},{}]}}"#,
        search(r#","response":false"#)
    );
    let reply = doors.ask(&batch);
    assert_eq!((reply.status, headers(&reply)), (200, None));
    assert_eq!(reply.header("ratelimit"), None);
    let results = &reply.json()["results"];
    let [admitted, refused, silent] = [0, 1, 2].map(|nth| &results[nth]);
    let left = &admitted["response"]["headers"]["X-RateLimit-Remaining"];
    assert_eq!((&admitted["allowed"], left), (&json!(true), &json!("0")));
    assert_eq!(refused["response"]["status"], 429);
    let told = &refused["response"]["headers"];
    assert_eq!(told["Retry-After"], "10");
    assert_eq!(told["Content-Type"], "application/json");
    assert_eq!(
        told["RateLimit"],
        r#""api/burst";r=1;t=60, "api/default/1h";r=8;t=2760, "search/default/10s";r=0;t=10"#
    );
    let body = refused["response"]["body"].as_str().unwrap();
    assert!(body.starts_with(r#"{"error":"rate_limit_exceeded","message":"#));
    assert_eq!(silent.get("response"), None);
    let unknown = doors.ask(r#"{"rule":"no-such","key":"k","response":true}"#);
    assert_eq!(
        (unknown.status, unknown.json().get("response")),
        (404, None)
    );
}

#[test]
fn fields_that_the_caller_brings_along_are_not_told() {
    let doors = serve(STACKED);
    let forged = r#"{"request":{"method":"GET","path":"/api/search","ip":"192.0.2.1","headers":{
        "X-RateLimit-Remaining":"99999","RateLimit":"\"x\";r=99999","Retry-After":"0"}},"response":true}"#;
    let more = [
        ("X-RateLimit-Remaining", "99999"),
        ("RateLimit", "\"x\";r=99999"),
        ("Retry-After", "0"),
    ];
    let said = http::try_request(&doors.http[0], "POST", "/v1/check", &more, forged).unwrap();
    assert!(!said.body.contains("99999"), "{}", said.body);
    for name in [
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "ratelimit",
        "ratelimit-policy",
    ] {
        let values = said
            .headers
            .iter()
            .filter(|(at, _)| at.eq_ignore_ascii_case(name));
        let values: Vec<_> = values.map(|(_, value)| value).collect();
        assert!(
            values.len() == 1 && !values[0].contains("99999"),
            "{name}: {values:?}"
        );
    }
    assert_eq!(headers(&said), Some([2, 1, START + 10]));
}

/// A preflight or another request for `/api/search`.
fn of_browser(method: &str, headers: &str) -> String {
    format!(
        r#"{{"request":{{"method":"{method}","path":"/api/search","ip":"192.0.2.1","headers":{{{headers}}}}}}}"#
    )
}

const PREFLIGHT: &str = r#""Origin":"https://app.example","Access-Control-Request-Method":"POST""#;

fn five_preflights_and_posts(doors: &Doors) -> Option<[u64; 3]> {
    for _ in 0..5 {
        let reply = doors.ask(&of_browser("OPTIONS", PREFLIGHT));
        assert_eq!(reply.status, 200);
    }
    let mut last = None;
    for _ in 0..5 {
        let reply = doors.ask(&of_browser("POST", r#""Origin":"https://app.example""#));
        assert_eq!(reply.status, 200);
        last = headers(&reply);
    }
    last
}

#[test]
fn cors_preflights_are_not_counted_unless_a_rule_says_so() {
    let rules = |more: &str| {
        format!(
            "rules: [{{name: ten, endpoint: /api/**, algorithm: fixed_window, {more}\
             limits: {{requests: 10, window: 1m}}}}]"
        )
    };
    let doors = serve(&rules(""));
    assert_eq!(five_preflights_and_posts(&doors), Some([10, 5, START + 60]));
    // Not refused either, when nothing is left.
    for _ in 0..5 {
        doors.ask(&of_browser("POST", ""));
    }
    assert_eq!(doors.ask(&of_browser("POST", "")).status, 429);
    let reply = doors.ask(&of_browser("OPTIONS", PREFLIGHT));
    assert_eq!((reply.status, headers(&reply)), (200, None));
    // OPTIONS alone is no preflight.
    assert_eq!(doors.ask(&of_browser("OPTIONS", "")).status, 429);

    let doors = serve(&rules("preflight: count, "));
    assert_eq!(five_preflights_and_posts(&doors), Some([10, 0, START + 60]));
    assert_eq!(doors.ask(&of_browser("OPTIONS", PREFLIGHT)).status, 429);
}

#[test]
fn probes_are_not_counted_however_often_they_come() {
    let doors = serve("rules: [{name: all, endpoint: /**, limits: {requests: 1, window: 1m}}]");
    for _ in 0..100 {
        assert_eq!(http::request(&doors.admin, "GET", "/livez", "").status, 200);
    }
    let reply = doors.ask(&search(""));
    assert_eq!(reply.status, 200);
}

#[test]
fn sub_second_windows_are_told_as_a_second() {
    let doors = serve(
        "answers: {reset: delta}\n\
         rules: [{name: fast, algorithm: fixed_window, limits: {requests: 1, window: 500ms}}]",
    );
    doors.named("fast", "k", 1);
    let reply = doors.named("fast", "k", 1);
    assert_eq!(reply.status, 429);
    assert_eq!(headers(&reply), Some([1, 0, 1]));
    assert_eq!(reply.header("retry-after"), Some("1"));
    let policy = r#""fast/default/500ms";q=1;w=1"#;
    assert_eq!(reply.header("ratelimit-policy"), Some(policy));
    assert_eq!(
        reply.header("ratelimit"),
        Some(r#""fast/default/500ms";r=0;t=1"#)
    );
}
