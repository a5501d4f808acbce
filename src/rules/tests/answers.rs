use super::*;
use crate::units::{Answers, Escape, Refusal, ResetStyle};

/// What the limits of a YAML file's rules answer, in their order.
fn answers(yaml: &str) -> Vec<Answers> {
    let rules = rules(yaml);
    let limits = rules.limits().iter();
    limits.map(|limit| Answers::clone(&limit.answers)).collect()
}

/// The one fault of `answers` as a rule has them, after the field's name.
fn fault(answers: &str) -> String {
    let mut faults = faults(&format!(
        "rules:\n- name: r\n  limits: {{requests: 1, window: 1m}}\n  answers: {answers}"
    ));
    assert_eq!(faults.len(), 1, "{answers}\n{faults:#?}");
    let fault = faults.remove(0);
    let told = fault.strip_prefix("r.yaml:4:").unwrap();
    told.split_once(": rule \"r\": ").unwrap().1.to_owned()
}

/// The body of the one rule's refusal, with all values 7.
fn body(answers: &Answers) -> (&str, String) {
    let body = answers.refusal.as_ref().unwrap().body.as_ref().unwrap();
    let text = body.text.render(Escape::Plain, |_| "7".to_owned());
    (&body.content_type, text)
}

#[test]
fn a_rule_answers_as_its_file_says_where_it_says_nothing_itself() {
    let all = answers(
        "answers: {reset: delta, ietf: false, refusal: {status: 420, body: '{\"n\":{limit}}'}}\n\
         rules:\n\
         - {name: a, limits: [{requests: 1, window: 1m}, {requests: 1, window: 1h}]}\n\
         - {name: b, limits: {requests: 1, window: 1m}, answers: {ietf: true, x_ratelimit: false, expose: true, refusal: {status: 403}}}\n\
         - {name: c, limits: {requests: 1, window: 1m}, answers: {reset: epoch, refusal: {body: hi, content_type: text/plain}}}\n",
    );
    let [a, again, b, c] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(a, again);
    assert_eq!((a.x_ratelimit, a.ietf, a.expose), (true, false, false));
    assert_eq!(a.reset, ResetStyle::Delta);
    assert_eq!(a.refusal.as_ref().map(|refusal| refusal.status), Some(420));
    assert_eq!(body(a), ("application/json", "{\"n\":7}".to_owned()));
    assert_eq!((b.x_ratelimit, b.ietf, b.expose), (false, true, true));
    assert_eq!(b.reset, ResetStyle::Delta);
    assert_eq!(b.refusal.as_ref().map(|refusal| refusal.status), Some(403));
    assert_eq!(body(b), ("application/json", "{\"n\":7}".to_owned()));
    assert_eq!(c.reset, ResetStyle::Epoch);
    assert_eq!(c.refusal.as_ref().map(|refusal| refusal.status), Some(420));
    assert_eq!(body(c), ("text/plain", "hi".to_owned()));
}

#[test]
fn without_a_word_both_families_are_told_and_resets_as_epochs() {
    for yaml in [
        "rules: [{name: a, limits: {requests: 1, window: 1m}}]",
        "answers:\nrules: [{name: a, answers: null, limits: {requests: 1, window: 1m}}]",
        "answers: {refusal: null}\nrules: [{name: a, answers: {}, limits: {requests: 1, window: 1m}}]",
    ] {
        let wanted = Answers {
            x_ratelimit: true,
            reset: ResetStyle::Epoch,
            ietf: true,
            expose: false,
            refusal: None,
        };
        assert_eq!(answers(yaml), [wanted]);
    }
    let status = answers(
        "rules: [{name: a, answers: {refusal: {body: '[]'}}, limits: {requests: 1, window: 1m}}]",
    );
    let refusal = status[0].refusal.as_ref().unwrap();
    assert_eq!(refusal.status, Refusal::STATUS);
}

#[test]
fn the_answers_of_one_file_are_not_those_of_another() {
    let files = [
        (
            "a.yaml",
            "answers: {ietf: false}\nrules: [{name: a, limits: {requests: 1, window: 1m}}]",
        ),
        (
            "b.toml",
            "[[rules]]\nname = \"b\"\nlimits = {requests = 1, window = \"1m\"}\n[rules.answers]\nreset = \"delta\"\n",
        ),
        (
            "c.json",
            r#"{"rules":[{"name":"c","limits":{"requests":1,"window":"1m"},"answers":{"x_ratelimit":false}}]}"#,
        ),
    ];
    let rules = compile(&files).unwrap().rules;
    let told: Vec<_> = rules
        .limits()
        .iter()
        .map(|limit| {
            (
                limit.answers.ietf,
                limit.answers.reset,
                limit.answers.x_ratelimit,
            )
        })
        .collect();
    let wanted = [
        (false, ResetStyle::Epoch, true),
        (true, ResetStyle::Delta, true),
        (true, ResetStyle::Epoch, false),
    ];
    assert_eq!(told, wanted);
}

#[test]
fn what_cannot_be_answered_is_a_fault_that_says_what_to_write() {
    for (given, told) in [
        ("[]", "answers: a list is not a map; write {reset: delta"),
        (
            "{restet: delta}",
            "answers.restet: \"restet\" is not known here; did you mean `reset`?",
        ),
        (
            "{reset: dleta}",
            "answers.reset: \"dleta\" is none of epoch, delta; did you mean `delta`?",
        ),
        ("{ietf: yes}", "answers.ietf: yes is not true or false"),
        (
            "{x_ratelimit: 1}",
            "answers.x_ratelimit: 1 is not true or false",
        ),
        (
            "{refusal: {status: 503}}",
            "answers.refusal.status: 503 is no status of a refusal; write 429, or another from \
             400 to 599 but 503, which says that the store is lost",
        ),
        ("{refusal: {status: 200}}", "200 is no status of a refusal"),
        ("{refusal: {status: 399}}", "399 is no status of a refusal"),
        ("{refusal: {status: 600}}", "600 is no status of a refusal"),
        (
            "{refusal: {status: 65965}}",
            "65965 is no status of a refusal",
        ),
        ("{refusal: {status: \"429\"}}", "is not a whole number"),
        (
            "{refusal: {body: '{\"a\": {retry}}'}}",
            "answers.refusal.body: there is no value {retry}; did you mean {retry_after}?",
        ),
        (
            "{refusal: {body: \"{zzz}\"}}",
            "there is no value {zzz}; known are error, message, rule, limit_name, limit, \
             remaining, reset_after, retry_after, retry_after_ms",
        ),
        (
            "{refusal: {body: slow down}}",
            "answers.refusal.body: the body is not JSON (expected value at line 1 column 1); \
             put texts such as {rule} in quotes, or give it a `content_type` such as text/plain",
        ),
        (
            "{refusal: {body: '{\"a\":{rule}}'}}",
            "the body is not JSON",
        ),
        // Not JSON for every name and number.
        (
            "{refusal: {body: '{\"a\":\"\\{rule}\"}'}}",
            "the body is not JSON",
        ),
        (
            "{refusal: {body: '{\"a\":{limit}{remaining}}'}}",
            "the body is not JSON",
        ),
        (
            "{refusal: {body: '{\"a\":1{retry_after}}'}}",
            "the body is not JSON",
        ),
        (
            "{refusal: {body: '{\"a\":1', content_type: application/problem+json}}",
            "the body is not JSON",
        ),
        (
            "{refusal: {content_type: text/plain}}",
            "answers.refusal.content_type: `body` is missing; write the text",
        ),
        (
            "{refusal: {body: a, content_type: plain}}",
            "answers.refusal.content_type: \"plain\" is not a media type",
        ),
        (
            "{refusal: {body: a, content_type: \"text/plain\\r\\nx: y\"}}",
            "is not a media type",
        ),
        (
            "{refusal: {body: a, content_type: text/größe}}",
            "is not a media type",
        ),
    ] {
        let fault = fault(given);
        assert!(fault.contains(told), "{given}: {fault}\nlacks: {told}");
    }
    let long = format!("{{refusal: {{body: '\"{}\"'}}}}", "a".repeat(16 * 1_024));
    assert!(fault(&long).contains("at most 16384 bytes"));
}

/// A preflight for `path`, with `headers`.
fn preflight<'a>(method: &'a str, headers: Pairs<'a>) -> Described<'a> {
    Described {
        headers,
        ..described(method, "/a")
    }
}

#[test]
fn cors_preflights_are_matched_by_rules_that_say_so_alone() {
    let of_browsers = [
        ("origin", "https://app.example"),
        ("access-control-request-method", "POST"),
    ];
    let all = rules(
        "rules:\n\
         - {name: skips, endpoint: /a, limits: {requests: 1, window: 1m}}\n\
         - {name: bans, endpoint: /**, method: OPTIONS, limits: {requests: 0, window: 1m}}\n\
         - {name: counts, endpoint: /a, preflight: count, limits: {requests: 1, window: 1m}}\n",
    );
    let names = |method, headers| names(&matching(&all, &preflight(method, headers)));
    assert_eq!(names("OPTIONS", &of_browsers), ["counts default/1m"]);
    assert_eq!(names("options", &of_browsers), ["counts default/1m"]);
    let every = ["skips default/1m", "bans default/1m", "counts default/1m"];
    // What is no preflight is a request like any other.
    for headers in [&of_browsers[..1], &of_browsers[1..], &[]] {
        assert_eq!(names("OPTIONS", headers), every);
    }
    assert_eq!(names("POST", &of_browsers), [every[0], every[2]]);

    // And a whole file can say so.
    let all = rules(
        "defaults: {preflight: count}\nrules:\n\
         - {name: a, limits: {requests: 1, window: 1m}}\n\
         - {name: b, preflight: skip, limits: {requests: 1, window: 1m}}\n",
    );
    let applied = matching(&all, &preflight("OPTIONS", &of_browsers));
    assert_eq!(super::names(&applied), ["a default/1m"]);
}
