//! Rules of any kind, and requests that they may be for.

use serde_json::{Value as Json, json};
use tidegate::rules::{StatedLimit, Unit};

use super::random::Random;

/// Rules, and what is asked of them at which moments.
pub(crate) struct Case {
    pub(crate) rules: String,
    /// Which of each door's two addresses is asked.
    pub(crate) at: usize,
    pub(crate) moments: Vec<Moment>,
    /// Of rules for descriptors.
    pub(crate) replacing: Vec<Replacing>,
}

/// Which others a rule replaces, all by what they are called.
#[derive(Clone, Debug)]
pub(crate) struct Replacing {
    pub(crate) rule: &'static str,
    pub(crate) replaces: Vec<&'static str>,
    /// Whether it limits anything; else nothing replaces it.
    pub(crate) limits: bool,
}

/// What is asked while the clock stands.
pub(crate) struct Moment {
    /// Since the one before, in nanoseconds.
    pub(crate) after: u64,
    pub(crate) asks: Vec<Ask>,
    /// That of each ask which is no peek.
    pub(crate) cost: u64,
}

/// One request, as it is stated.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) subject: Subject,
    pub(crate) cost: u64,
    /// Where a door can be told one.
    pub(crate) id: Option<&'static str>,
}

pub(crate) type Pairs = Vec<(&'static str, &'static str)>;

#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Described {
        method: &'static str,
        path: &'static str,
        ip: Option<&'static str>,
        headers: Pairs,
        attributes: Pairs,
    },
    Named {
        rule: &'static str,
        key: &'static str,
        tier: Option<&'static str>,
    },
    Descriptor {
        domain: &'static str,
        entries: Pairs,
        /// The limit that the gateway states itself.
        stated: Option<StatedLimit>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Described,
    Named,
    Descriptor,
    /// The same, by a file as Envoy's service has it.
    Envoy,
}

impl Kind {
    pub(crate) fn is_of_descriptors(self) -> bool {
        matches!(self, Kind::Descriptor | Kind::Envoy)
    }
}

const NAMES: [&str; 4] = ["r0", "r1", "r2", "r3"];

pub(crate) fn case(kind: Kind, random: &mut Random) -> Case {
    let mut replacing = Vec::new();
    let file = match kind {
        Kind::Envoy => envoy_file(&mut replacing, random),
        _ => our_file(kind, &mut replacing, random),
    };
    // Few, so that they are asked again.
    let subjects = 1 + random.below(4);
    let subjects: Vec<Subject> = (0..subjects).map(|_| subject(kind, random)).collect();
    let mut left = 1 + random.below(20);
    let mut moments = Vec::new();
    while left > 0 {
        let many = left.min(1 + random.below(4));
        left -= many;
        let most = if kind.is_of_descriptors() {
            u64::from(u32::MAX)
        } else {
            i64::MAX.cast_unsigned()
        };
        let cost = random.one_of(&[1, 1, 1, 1, 1, 1, 2, 2, 3, 7, 11, most]);
        let asks = (0..many).map(|_| Ask {
            subject: random.one_of(&subjects),
            cost: if random.once_in(6) { 0 } else { cost },
            id: (!kind.is_of_descriptors() && random.once_in(6))
                .then(|| random.one_of(&["i", "j"])),
        });
        let asks = asks.collect();
        moments.push(Moment {
            after: random.one_of(&[
                0,
                0,
                0,
                1,
                999_999,
                1_000_000,
                137_000_000,
                1_000_000_001,
                2_500_000_000,
                10_000_000_000,
                61_000_000_000,
                86_400_000_000_000,
            ]),
            asks,
            cost,
        });
    }
    Case {
        rules: file.to_string(),
        at: random.below(2),
        moments,
        replacing,
    }
}

fn our_file(kind: Kind, replacing: &mut Vec<Replacing>, random: &mut Random) -> Json {
    let mut file = json!({});
    if kind == Kind::Descriptor {
        file["strict_domains"] = json!(random.once_in(3));
    } else {
        callers(&mut file, random);
    }
    let mut patterns = descriptors();
    let mut rules = Vec::new();
    for name in &NAMES[..=random.below(NAMES.len())] {
        let mut rule = rule(name, random);
        if kind == Kind::Descriptor {
            rule["domain"] = json!("shop");
            rule["descriptors"] = if rules.is_empty() {
                patterns.remove(0)
            } else {
                patterns.remove(random.below(patterns.len()))
            };
            let replaces = others(name, random);
            rule["replaces"] = json!(replaces);
            let all = rule["limits"]
                .as_object()
                .filter(|all| all.get("requests").is_none());
            replacing.push(Replacing {
                rule: name,
                replaces,
                limits: match all {
                    Some(tiers) => tiers.values().any(|limits| limits != "unlimited"),
                    None => rule.get("unlimited").is_none(),
                },
            });
        } else {
            matching(&mut rule, rules.is_empty(), random);
        }
        rules.push(rule);
    }
    file["rules"] = json!(rules);
    file
}

/// Some of the names but this one.
fn others(name: &str, random: &mut Random) -> Vec<&'static str> {
    let others = NAMES.into_iter().filter(|other| *other != name);
    others.filter(|_| random.once_in(4)).collect()
}

fn envoy_file(replacing: &mut Vec<Replacing>, random: &mut Random) -> Json {
    let mut names = NAMES.iter();
    let mut limited = |mut descriptor: Json, random: &mut Random| {
        if random.once_in(4) {
            return descriptor;
        }
        let mut limit = if random.once_in(8) {
            json!({"unlimited": true})
        } else {
            json!({
                "unit": random.one_of(&["second", "minute", "minute", "hour", "day", "month"]),
                "requests_per_unit": random.one_of(&[0, 1, 2, 3, 5, 10, 1_000]),
            })
        };
        if let Some(name) = names.next() {
            let replaces = others(name, random);
            let named = replaces.iter().map(|other| json!({"name": other}));
            limit["replaces"] = named.collect();
            replacing.push(Replacing {
                rule: name,
                replaces,
                limits: limit.get("unlimited").is_none(),
            });
            limit["name"] = json!(name);
        }
        descriptor["rate_limit"] = limit;
        descriptor["quota_mode"] = json!(random.once_in(2));
        descriptor["shadow_mode"] = json!(random.once_in(8));
        descriptor
    };
    let tier = limited(json!({"key": "tier"}), random);
    let tokens = limited(json!({"key": "tokens"}), random);
    let user = limited(json!({"key": "user"}), random);
    let of_path = json!({"key": "path", "normalize": "path", "descriptors": [user]});
    let share = json!({"key": "path", "value": "/f/*", "share_threshold": true});
    let one = json!({"key": "user", "value": "al"});
    json!({"domain": "shop", "descriptors": [
        limited(json!({"key": "user", "descriptors": [tier, tokens]}), random),
        limited(one, random),
        limited(share, random),
        limited(of_path, random),
    ]})
}

/// What stands at the top of a file of rules for requests.
fn callers(file: &mut Json, random: &mut Random) {
    let clients = random.one_of(&[
        Json::Null,
        json!({"trusted_proxies": ["10.0.0.0/8", "127.0.0.1"]}),
        json!({"trusted_hops": 1}),
        json!({"ipv6_prefix": 128}),
    ]);
    if !clients.is_null() {
        file["clients"] = clients;
    }
    if random.once_in(3) {
        file["tiers"] = json!({"from": [
            {"header": "X-Tier", "from": ["10.0.0.0/8"]}, "attribute:tier",
        ]});
    }
    if random.once_in(3) {
        file["api_keys"] = json!([{"key": "k1", "name": "acme", "tenant": "acme"}]);
    }
}

/// A rule without what says whom it is for.
fn rule(name: &str, random: &mut Random) -> Json {
    let mut rule = json!({"name": name});
    granted(&mut rule, random);
    if rule.get("limits").is_some() {
        let mode = random.one_of(&["enforce", "enforce", "enforce", "enforce", "shadow", "soft"]);
        rule["mode"] = json!(mode);
        match random.below(6) {
            0 => rule["cost"] = json!(2),
            1 => rule["cost"] = json!("attribute:tokens"),
            _ => {}
        }
    }
    if random.once_in(12) {
        rule["percent"] = json!(50);
    }
    if random.once_in(2) {
        rule["answers"] = random.one_of(&[
            json!({"reset": "delta"}),
            json!({"x_ratelimit": false}),
            json!({"ietf": false, "expose": true}),
            json!({"refusal": {"status": 420}, "expose": true}),
            json!({"refusal": {"body": "{rule} {limit_name} {limit} {remaining} {retry_after_ms}",
                "content_type": "text/plain"}}),
        ]);
    }
    rule
}

/// Limits of any kind, or none.
fn granted(to: &mut Json, random: &mut Random) {
    match random.below(24) {
        0 => to["unlimited"] = json!(true),
        1 => to["ban"] = json!(true),
        2..=12 => to["limits"] = limits("of-all", random),
        _ => {
            let mut tiers = json!({});
            for tier in ["free", "pro", "default"] {
                if tier != "default" || random.once_in(2) {
                    tiers[tier] = match random.below(8) {
                        0 => json!("unlimited"),
                        1 => json!("ban"),
                        _ => limits(tier, random),
                    };
                }
            }
            to["limits"] = tiers;
        }
    }
}

fn limits(tier: &str, random: &mut Random) -> Json {
    let first = limit(tier, random);
    if random.once_in(2) {
        return first;
    }
    let mut second = limit(&format!("{tier}-too"), random);
    if second["window"] == first["window"] {
        second["window"] = json!("7s");
        second["algorithm"] = json!("fixed_window");
        second.as_object_mut().unwrap().remove("burst");
    }
    json!([first, second])
}

fn limit(name: &str, random: &mut Random) -> Json {
    let requests = random.one_of(&[0, 1, 2, 3, 3, 5, 5, 5, 10, 10, 10, 1_000]);
    let window = random.one_of(&[
        "1s", "1500ms", "10s", "10s", "1m", "1m", "1h", "day", "month",
    ]);
    let mut limit = json!({"name": name, "requests": requests, "window": window});
    if !window.starts_with(|c: char| c.is_ascii_digit()) {
        return limit;
    }
    let algorithm = random.one_of(&[
        "fixed_window",
        "sliding_window",
        "sliding_log",
        "token_bucket",
        "leaky_bucket",
    ]);
    limit["algorithm"] = json!(algorithm);
    if algorithm.ends_with("bucket") && requests > 0 && random.once_in(2) {
        limit["burst"] = json!(requests * 2);
    }
    if algorithm != "sliding_log" && random.once_in(12) {
        limit["requests"] = json!(5_000_000_000_u64);
        limit.as_object_mut().unwrap().remove("burst");
    }
    if random.once_in(6) {
        limit["count_denied"] = json!(true);
    }
    limit
}

/// Adds which requests and whom a rule is for; a wide one is for all requests.
fn matching(rule: &mut Json, is_wide: bool, random: &mut Random) {
    let endpoint = random.one_of(&[
        "",
        "",
        "/a",
        "GET /a",
        "/a/{id}",
        "/a/**",
        "prefix:/b",
        "regex:/v[0-9]+/.*",
    ]);
    if !endpoint.is_empty() && !is_wide {
        rule["endpoint"] = json!(endpoint);
    }
    let mut keys = vec![
        json!("client"),
        json!("global"),
        json!("header:X-User"),
        json!(["header:X-User", "client"]),
        json!("query:u"),
        json!("api_key"),
        json!("attribute:user"),
    ];
    if endpoint == "/a/{id}" && !is_wide {
        keys.push(json!("path:id"));
    }
    let key = random.one_of(&keys);
    if key != "client" && key != "global" {
        rule["on_missing"] = json!(random.one_of(&["ip", "skip", "deny", "shared"]));
        rule["normalize"] = json!(random.one_of(&["none", "lower", "nfc", "path"]));
    }
    rule["key"] = key;
    if !is_wide && random.once_in(4) {
        rule["when"] = random.one_of(&[
            json!({"headers": {"X-Beta": "present"}}),
            json!({"not": {"headers": {"X-Beta": "1"}}}),
            json!({"attributes": {"user": "prefix:a"}}),
        ]);
    }
    if random.once_in(4) {
        rule["group"] = json!("g");
        rule["priority"] = json!(random.below(3));
    }
    if random.once_in(4) && rule.get("limits").is_some() {
        let mut over = json!({"endpoint": "POST /a/**"});
        granted(&mut over, random);
        rule["overrides"] = json!([over]);
    }
}

/// Entries of rules for descriptors, no two alike.
fn descriptors() -> Vec<Json> {
    vec![
        json!([{"key": "user"}]),
        json!([{"key": "user", "value": "al"}]),
        json!([{"key": "user"}, {"key": "tier"}]),
        json!([{"key": "user"}, {"key": "tokens"}]),
        json!([{"key": "path", "value": "/f/*", "share_threshold": true}]),
        json!([{"key": "path", "value": "/g/*"}]),
        json!([{"key": "path", "normalize": "path"}, {"key": "user"}]),
    ]
}

const USERS: [&str; 7] = ["al", "al", "AL", " al ", "", "é", "e\u{301}"];
const TIERS: [&str; 3] = ["free", "pro", "nobody's"];

fn subject(kind: Kind, random: &mut Random) -> Subject {
    match kind {
        Kind::Described => described(random),
        Kind::Named => Subject::Named {
            rule: random.one_of(&["r0", "r0", "r0", "r1", "r2"]),
            key: random.one_of(&[
                "al",
                "al",
                "AL",
                " al ",
                "",
                "é",
                "203.0.113.9",
                "2001:db8::1",
            ]),
            tier: random.once_in(2).then(|| random.one_of(&TIERS)),
        },
        Kind::Descriptor | Kind::Envoy => {
            let path = random.one_of(&["/f/1", "/f/2", "/g/1", "/x?u=1", "//x/"]);
            let user = random.one_of(&USERS);
            let tier = random.one_of(&TIERS);
            let tokens = random.one_of(&["3", "x", "0"]);
            let entries = random.one_of(&[
                vec![("user", user)],
                vec![("user", user)],
                vec![("user", user)],
                vec![("user", user)],
                vec![("user", user)],
                vec![("user", user), ("tier", tier)],
                vec![("user", user), ("tokens", tokens)],
                vec![("path", path)],
                vec![("path", path), ("user", user)],
                vec![],
            ]);
            let domain = if random.once_in(12) { "shpo" } else { "shop" };
            let stated = random.once_in(5).then(|| StatedLimit {
                requests: random.one_of(&[0, 1, 3, 10]),
                unit: random.one_of(&[Unit::Second, Unit::Minute, Unit::Week, Unit::Year]),
            });
            Subject::Descriptor {
                domain,
                entries,
                stated,
            }
        }
    }
}

fn described(random: &mut Random) -> Subject {
    let all: [(&str, &[&str]); 9] = [
        ("X-User", &USERS),
        ("Authorization", &["Bearer k1", "bearer  k2", "Basic x"]),
        ("X-API-Key", &["k1", " k1", "k2"]),
        ("X-Beta", &["1", " 1", "0", ""]),
        ("X-Tier", &TIERS),
        (
            "X-Forwarded-For",
            &["203.0.113.77, 10.0.0.9", "junk", "203.0.113.77"],
        ),
        ("X-Real-IP", &["203.0.113.78"]),
        ("Origin", &["https://a.example"]),
        ("Access-Control-Request-Method", &["GET"]),
    ];
    let some = |all: &[(&'static str, &[&'static str])], random: &mut Random| -> Pairs {
        let mut pairs = Pairs::new();
        for (name, values) in all {
            if random.once_in(3) {
                pairs.push((name, random.one_of(values)));
            }
        }
        pairs
    };
    Subject::Described {
        method: random.one_of(&["GET", "GET", "POST", "get", "HEAD", "OPTIONS"]),
        path: random.one_of(&[
            "/a",
            "/a",
            "/a/",
            "/a/1",
            "/a/1?u=al",
            "//a/./1?u=AL&u=al",
            "/A",
            "/%61/1?u=%20al",
            "/b/c?u=",
            "/v1/x",
            "/a/é",
            "/",
            "*",
            "http://a.example/a/1?u=al",
        ]),
        ip: random.one_of(&[
            None,
            Some("203.0.113.9"),
            Some("203.0.113.9"),
            Some("::ffff:203.0.113.9"),
            Some("10.0.0.5"),
            Some("2001:db8::1"),
            Some("2001:db8::2"),
        ]),
        headers: some(&all, random),
        attributes: if random.once_in(2) {
            let all: [(&str, &[&str]); 3] = [
                ("user", &USERS),
                ("tier", &TIERS),
                ("tokens", &["3", "x", "0"]),
            ];
            some(&all, random)
        } else {
            Pairs::new()
        },
    }
}
