use super::*;
use crate::engine::{Request, Subject};
use crate::rules::Described;

/// What is asked for, as text.
fn asked(query: &str, lines: &[(&str, &str)]) -> Result<String, String> {
    let lines = lines.iter().map(|(name, value)| (*name, value.as_bytes()));
    match Check::authorize(Some(query), lines) {
        Ok(check) => Ok(check.ask(None, |request| format!("{request:?}"))),
        Err(error) => Err(error.to_string()),
    }
}

fn wanted(described: Described<'_>, cost: u64) -> Result<String, String> {
    let subject = Subject::Described(described);
    let cost = Cost::new(cost);
    Ok(format!("{:?}", Request { subject, cost }))
}

const METHOD: (&str, &str) = ("x-forwarded-method", "POST");
const URI: (&str, &str) = ("x-forwarded-uri", "/a?b=1");

#[test]
fn the_fields_describe_the_request_and_the_query_says_whose_it_is() {
    let lines = [
        ("host", "tidegate"),
        METHOD,
        URI,
        ("x-forwarded-host", "shop.example"),
        ("authorization", "Bearer abc"),
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-for", "192.0.2.2"),
    ];
    let headers = [
        METHOD,
        URI,
        ("x-forwarded-host", "shop.example"),
        ("authorization", "Bearer abc"),
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-for", "192.0.2.2"),
        ("host", "shop.example"),
    ];
    let described = Described {
        method: "POST",
        path: "/a?b=1",
        ip: "203.0.113.9".parse().ok(),
        headers: &headers,
        ..Described::default()
    };
    let query = "deny=403&ip=%3A%3Affff:203.0.113.9&cost=7&from=forwarded";
    assert_eq!(asked(query, &lines), wanted(described, 7));
    let nobody = Described {
        ip: None,
        ..described
    };
    assert_eq!(asked("", &lines), wanted(nobody, 1));
}

#[test]
fn the_family_that_is_not_asked_for_is_not_believed() {
    let original = [
        ("x-original-method", "PUT"),
        ("x-original-uri", "/mine"),
        ("x-original-url", "https://shop.example/mine"),
    ];
    let mut lines = original.to_vec();
    assert!(asked("", &lines).unwrap().contains("path: \"/mine\""));
    // A client adds what the gateway does not overwrite.
    lines.extend([METHOD, URI]);
    let error = "`x-forwarded-method` and `x-original-method` contradict each other; write \
                 from=forwarded or from=original into the query";
    assert_eq!(asked("", &lines), Err(error.to_owned()));
    let said = asked("from=original", &lines).unwrap();
    assert!(said.contains("method: \"PUT\", path: \"/mine\""), "{said}");
    let said = asked("from=forwarded", &lines).unwrap();
    assert!(
        said.contains("method: \"POST\", path: \"/a?b=1\""),
        "{said}"
    );
    let absolute = [
        ("x-original-method", "PUT"),
        ("x-original-url", "https://shop.example"),
        ("x-original-uri", "/"),
    ];
    assert!(asked("", &absolute).is_ok());
}

#[test]
fn an_escaped_slash_is_one_where_the_application_reads_it_so() {
    let path = |query: &str, uri| asked(query, &[METHOD, ("x-forwarded-uri", uri)]).unwrap();
    let uri = "/a%2Fb/%2f..%252F?c=%2F";
    assert!(path("", uri).contains("path: \"/a%2Fb/%2f..%252F?c=%2F\""));
    let said = path("slashes=decoded", uri);
    assert!(said.contains("path: \"/a/b//..%252F?c=%2F\""), "{said}");
    let said = path("slashes=decoded", "/a?c=%2F");
    assert!(said.contains("path: \"/a?c=%2F\""), "{said}");
}

#[test]
fn a_host_has_one_spelling() {
    for (host, spelled) in [
        ("shop.example", "shop.example"),
        ("SHOP.Example.:8080", "shop.example"),
        ("shop.example.", "shop.example"),
        ("[2001:DB8::1]:80", "[2001:db8::1]"),
        ("[::1", "["),
    ] {
        let lines = [METHOD, URI, ("x-forwarded-host", host)];
        let said = asked("", &lines).unwrap();
        let wanted = format!("(\"host\", \"{spelled}\")");
        assert!(said.contains(&wanted), "{host}: {said}");
    }
}

#[test]
fn what_does_not_say_which_request_is_meant_is_wrong() {
    for (lines, error) in [
        (&[][..], "no `X-Forwarded-Method`"),
        (&[METHOD], "no `X-Forwarded-Uri`"),
        (&[URI], "no `X-Forwarded-Method`"),
        (&[METHOD, ("x-forwarded-uri", " ")], "no `X-Forwarded-Uri`"),
        (
            &[METHOD, URI, ("x-forwarded-uri", "/b")],
            "`x-forwarded-uri` and `x-forwarded-uri` contradict",
        ),
        (
            &[
                METHOD,
                URI,
                ("x-forwarded-host", "a"),
                ("x-forwarded-host", "b"),
            ],
            "`x-forwarded-host` and `x-forwarded-host` contradict",
        ),
    ] {
        let said = asked("", lines).unwrap_err();
        assert!(said.contains(error), "{lines:?}: {said}");
    }
    assert!(asked("", &[METHOD, URI, URI]).is_ok());
}

#[test]
fn a_query_that_is_not_understood_is_wrong() {
    for query in [
        "ip=",
        "ip=unix:",
        "ip=1.2.3.4&ip=1.2.3.4",
        "cost=-1",
        "cost=1.5",
        "cost=18446744073709551616",
        "cost=1&cost=1",
        "from=client",
        "from=forwarded&from=original",
        "deny=429",
        "deny=403&deny=403",
        "slashes=plain",
        "slashes=decoded&slashes=decoded",
        "rule=a",
        "ip",
        "ip=%ff",
        "%69p=1.2.3.4",
    ] {
        let said = asked(query, &[METHOD, URI]).unwrap_err();
        assert!(said.contains("the query"), "{query}: {said}");
        assert!(said.contains("write ip="), "{query}: {said}");
    }
    assert!(asked("&cost=0&", &[METHOD, URI]).is_ok());
}

#[test]
fn bytes_that_are_no_text_are_latin_1_and_not_lost() {
    let lines: [(&str, &[u8]); 3] = [
        ("x-forwarded-method", b"GET"),
        ("x-forwarded-uri", b"/\xe9"),
        ("x-api-key", b"\xff\xfe"),
    ];
    let check = Check::authorize(None, lines).unwrap();
    check.ask(None, |request| {
        let Subject::Described(described) = request.subject else {
            panic!("{request:?}");
        };
        assert_eq!(described.path, "/é");
        assert_eq!(described.headers[2], ("x-api-key", "ÿþ"));
    });
}

#[test]
fn a_gateway_that_knows_403_alone_has_the_rest_in_fields() {
    let reply = Reply::error(429, "rate_limit_exceeded", "wait");
    let body = String::from_utf8(reply.body.clone()).unwrap();
    assert_eq!(Deny::of(Some("ip=::1")), Deny::Plainly);
    assert_eq!(Deny::Plainly.answer(reply.clone()), reply);
    let deny = Deny::of(Some("nonsense&deny=403"));
    let said = deny.answer(reply.clone());
    assert_eq!((said.status, &said.body), (403, &reply.body));
    let told: Vec<_> = said.fields.iter().map(|f| (f.name, &*f.value)).collect();
    assert_eq!(
        told,
        [(FieldName::Status, "429"), (FieldName::Body, &*body)]
    );
    assert_eq!(deny.answer(Reply::error(401, "a", "b")).status, 401);
    for status in [400, 404, 409, 431, 500, 503] {
        assert_eq!(deny.answer(Reply::error(status, "a", "b")).status, 403);
    }
}

#[test]
fn a_body_that_is_no_single_short_line_is_not_repeated_in_a_field() {
    for body in [b"a\nb".to_vec(), "é".into(), vec![b'a'; 2_049]] {
        let mut reply = Reply::error(429, "a", "b");
        reply.body = body;
        let said = Deny::As403.answer(reply);
        assert_eq!(said.fields.len(), 1, "{said:?}");
    }
}

#[test]
fn what_is_allowed_has_no_body() {
    let mut reply = Reply::error(400, "a", "b");
    reply.status = 200;
    let said = Deny::As403.answer(reply);
    assert_eq!((said.status, said.body, said.fields), (200, vec![], vec![]));
}
