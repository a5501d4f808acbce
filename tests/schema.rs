//! `config/schema.json` says of config files and rule files what the program says.

// Tests fail by panicking, their helpers too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Value, json};
use tidegate::app::config::KEYS;
use tidegate::rules::fields;
use tidegate::units::CalendarUnit;

use kit::{Place, root, stderr, stdout};

fn schema() -> Value {
    let text = std::fs::read_to_string(root().join("config/schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn validator() -> Validator {
    jsonschema::draft202012::new(&schema()).unwrap()
}

/// A file of YAML 1.2, as editors read it: `yes` is a text.
fn yaml(text: &str) -> Value {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).unwrap()
}

/// What the schema says against `text`.
fn faults(validator: &Validator, text: &str) -> Vec<String> {
    let file = yaml(text);
    let errors = validator.iter_errors(&file);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// Whether the program takes `text`, and all that it tells.
fn told(place: &Place, text: &str) -> (bool, String) {
    let file = place.write("tidegate.yaml", text);
    let output = place.run(["validate", &file]);
    (output.status.success(), stderr(&output))
}

fn names(map: &Value) -> BTreeSet<String> {
    map.as_object().unwrap().keys().cloned().collect()
}

/// The names of each kind of map that has a fixed set of them.
fn of_schema(schema: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let closed = schema["$defs"].as_object().unwrap().iter();
    let closed = closed.filter(|(_, def)| def.get("properties").is_some());
    closed
        .chain([(&"file".to_owned(), schema)])
        .map(|(kind, def)| (kind.clone(), names(&def["properties"])))
        .collect()
}

#[test]
fn the_names_are_those_that_the_program_knows() {
    let mut program: BTreeMap<String, BTreeSet<String>> = fields()
        .iter()
        .map(|(kind, fields)| {
            let fields = fields.iter().map(|&field| field.to_owned());
            ((*kind).to_owned(), fields.collect())
        })
        .collect();
    let settings = KEYS.iter().map(|key| key.name.to_owned());
    program.get_mut("file").unwrap().extend(settings);
    assert_eq!(of_schema(&schema()), program);
}

/// All schemas within `schema`, itself included, each with where it is.
fn all<'s>(at: &str, schema: &'s Value, found: &mut Vec<(String, &'s Value)>) {
    found.push((at.to_owned(), schema));
    let within: Vec<(String, &Value)> = match schema {
        Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, v)| (i.to_string(), v))
            .collect(),
        _ => Vec::new(),
    };
    for (step, inner) in within {
        all(&format!("{at}/{step}"), inner, found);
    }
}

#[test]
fn every_map_is_closed_and_every_field_is_described_in_a_line() {
    let schema = schema();
    let mut found = Vec::new();
    all("", &schema, &mut found);
    for (at, map) in found {
        // A field may be called `properties`, and none is.
        let Some(properties) = map.get("properties") else {
            continue;
        };
        assert_eq!(
            map.get("additionalProperties"),
            Some(&Value::Bool(false)),
            "{at}"
        );
        for (name, field) in properties.as_object().unwrap() {
            let referred = field["$ref"].as_str().map(|to| &to[1..]);
            let referred = referred.and_then(|to| schema.pointer(to));
            let described = field.get("description");
            let described = described.or_else(|| referred?.get("description"));
            let line = described.and_then(Value::as_str);
            let line = line.unwrap_or_else(|| panic!("{at}: {name} has no description"));
            assert!(!line.is_empty() && !line.contains('\n'), "{at}: {name}");
        }
    }
}

#[test]
fn settings_are_described_and_have_defaults_as_in_the_help() {
    let schema = schema();
    for key in KEYS {
        let field = &schema["properties"][key.name];
        assert_eq!(field["description"], key.help, "{}", key.name);
        let plain = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let default = match field.get("default") {
            None => Vec::new(),
            Some(Value::Array(items)) => items.iter().map(plain).collect(),
            Some(one) => vec![plain(one)],
        };
        assert_eq!(default, key.default, "{}", key.name);
        let lists = faults(&validator(), &format!("{}: []", key.name)).is_empty();
        assert_eq!(lists, key.is_list(), "{}", key.name);
    }
}

#[test]
fn what_tells_a_limit_from_tiers_are_the_fields_of_a_limit() {
    let schema = schema();
    let guard = names(&schema["$defs"]["limits"]["if"]["patternProperties"]);
    let limit = fields().into_iter().find(|(kind, _)| *kind == "limit");
    let all = limit.unwrap().1.join("|");
    assert_eq!(guard, BTreeSet::from([format!("^({all})$")]));
}

/// Where the schema has words, and a file with a word there that is none of them.
const WORDS: [(&str, &str); 19] = [
    ("/properties/grpc_headers", "grpc_headers: qqq"),
    ("/properties/grpc_metadata", "grpc_metadata: qqq"),
    ("/properties/log_format", "log_format: qqq"),
    ("/properties/rules_from/anyOf/0", "rules_from: qqq"),
    ("/properties/rules_from/anyOf/1/items", "rules_from: [qqq]"),
    ("/$defs/on_missing", "defaults: {on_missing: qqq}"),
    ("/$defs/one_normalize", "defaults: {normalize: qqq}"),
    ("/$defs/algorithm", "defaults: {algorithm: qqq}"),
    ("/$defs/consistency", "defaults: {consistency: qqq}"),
    ("/$defs/on_store_loss", "defaults: {on_store_loss: qqq}"),
    ("/$defs/preflight", "defaults: {preflight: qqq}"),
    ("/$defs/mode", "defaults: {mode: qqq}"),
    ("/$defs/case", "rules: [{ban: true, case: qqq}]"),
    (
        "/$defs/trailing_slash",
        "rules: [{ban: true, trailing_slash: qqq}]",
    ),
    ("/$defs/answers/properties/reset", "answers: {reset: qqq}"),
    ("/$defs/clients/properties/header", "clients: {header: qqq}"),
    ("/$defs/token_algorithm", ISSUER),
    (
        "/$defs/entry_normalize",
        "domain: d\ndescriptors: [{key: k, normalize: qqq}]",
    ),
    (
        "/$defs/unit",
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: qqq, requests_per_unit: 1}}]",
    ),
];
const ISSUER: &str = "jwt: [{issuer: a, audience: b, jwks_file: c, algorithms: [qqq]}]";

#[test]
fn words_are_those_that_the_program_names() {
    let schema = schema();
    let place = Place::new();
    let mut known = BTreeSet::new();
    for (at, text) in WORDS {
        let said = told(&place, text).1;
        let said = said.lines().next().unwrap();
        let words = said.split_once("none of ").or(said.split_once("one of "));
        let words = words.unwrap_or_else(|| panic!("{text}: {said}")).1;
        let words: BTreeSet<&str> = words.split("; ").next().unwrap().split(", ").collect();
        let listed = schema.pointer(at).unwrap()["enum"].as_array().unwrap();
        let listed: BTreeSet<&str> = listed.iter().filter_map(Value::as_str).collect();
        assert_eq!(listed, words, "{at}");
        known.insert(at.to_owned());
    }
    // No fault tells them all: a window may be a duration, too.
    let units = CalendarUnit::ALL.map(CalendarUnit::name);
    let windows = "/$defs/window/anyOf/0";
    assert_eq!(schema.pointer(windows).unwrap()["enum"], json!(units));
    known.insert(windows.to_owned());
    let mut found = Vec::new();
    all("", &schema, &mut found);
    for (at, inner) in found {
        let words = inner.get("enum").is_some() && !at.ends_with("/not");
        assert!(
            !words || known.contains(&at),
            "{at} is compared with nothing"
        );
    }
}

/// The YAML files below `directory`.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in directory.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(below(&path));
        } else if path.extension().is_some_and(|it| it == "yaml") {
            found.push(path);
        }
    }
    found
}

/// Every text for Tidegate: the files under `config/`, those within manifests, and those
/// that the README shows.
fn files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    // Those of gateways are for other programs.
    let others = ["config/traefik", "config/kong"].map(|of| root().join(of));
    for path in below(&root().join("config")) {
        if others.iter().any(|of| path.starts_with(of)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.display();
        if path.starts_with(root().join("config/envoy")) {
            // Envoy's own.
            continue;
        }
        if !path.starts_with(root().join("config/kubernetes")) {
            files.push((name.to_string(), text));
            continue;
        }
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        for document in documents.iter().filter(|it| it["kind"] == "ConfigMap") {
            for (key, text) in document["data"].as_object().unwrap() {
                let text = text.as_str().unwrap().to_owned();
                files.push((format!("{name}: {key}"), text));
            }
        }
    }
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for (number, block) in readme.split("```yaml\n").skip(1).enumerate() {
        let text = block.split("```").next().unwrap().to_owned();
        files.push((format!("README.md, block {number}"), text));
    }
    for of in ["config/tidegate.yaml", ".yaml: ", "README.md"] {
        assert!(
            files.iter().any(|(name, _)| name.contains(of)),
            "none of {of}"
        );
    }
    files
}

#[test]
fn every_file_that_is_shipped_or_shown_is_sound() {
    let validator = validator();
    for (name, text) in files() {
        assert_eq!(
            faults(&validator, &text),
            <[String; 0]>::default(),
            "{name}"
        );
    }
}

const SOUND: [&str; 29] = [
    "rules: []",
    "http: 127.0.0.1:8080\nadmin: []\nsocket_mode: '0660'\nmax_keys: '10'\nstore: none\nrules: []",
    "http: null\nlog: warn,tidegate::sync=debug\ndrain_delay: 1m30s\nrules: null",
    "rules: [{limits: {requests: 5, window: 1d12h30m5s1ms}}]",
    "rules: [{limits: {amount: 5, window: 5ms, name: x}}]",
    "rules: [{limits: {requests: 5, window: day}}]",
    "rules: [{limits: [{requests: 5, window: week}, {requests: 5, window: month, time_zone: Asia/Kathmandu}]}]",
    "defaults: {time_zone: Etc/GMT+5}\nrules: [{time_zone: America/Port-au-Prince, limits: {requests: 5, window: day}}]",
    "rules: [{limits: {name: {requests: 5, window: 1m}, default: unlimited}}]",
    "rules: [{limits: {default: {requests: 5, window: 1m}, free: ban}}]",
    "policies: {a: {requests: 5, window: 1m}}\nrules: [{limits: a}, {name: b, limits: {default: [a]}}]",
    "rules: [{name: 7, unlimited: true, group: a, priority: 3}]",
    "rules: [{ban: true, method: [GET, '*'], key: null, normalize: [lower, nfc]}]",
    "rules: [{ban: true, key: [User, 'query:a', 'path:id'], endpoint: '/{id}'}]",
    "rules: [{ban: true, endpoint: 'GET regex:/a/.*', cost: 'attribute:n'}]",
    "rules: [{limits: {requests: 5, window: 1m}, overrides: [{method: GET, ban: true}]}]",
    "rules: [{ban: true, when: {headers: {X-A: 1}, not: {attributes: {a: [b, present]}}}}]",
    "answers: {reset: delta, refusal: {status: 403, body: x, content_type: text/plain; charset=utf-8}}\nrules: []",
    "answers: {refusal: null}\ndefaults: null\nrules: []",
    "clients: {trusted_proxies: 10.0.0.0/8, header: forwarded, ipv6_prefix: 48}\nrules: []",
    "clients: {trusted_hops: 2}\nrules: []",
    "api_keys: {headers: X-Key, keys: [{key: 12}]}\nrules: []",
    "tiers: {from: [api_key, tier, {header: X-T, from: [10.0.0.1]}, {addresses: {a: '::1'}}]}\nrules: []",
    "strict_domains: true\nrules: [{domain: d, descriptors: [{key: k, value: 1}, {key: l}], ban: true}]",
    "rules: [{domain: d, descriptors: [{key: k, value: 'a*', share_threshold: true, normalize: path}], replaces: [a], ban: true}]",
    "domain: d",
    "name: d\ndomain: d\ndescriptors: [{key: k, value: '', rate_limit: null, descriptors: [], shadow_mode: false}]",
    "domain: d\ndescriptors: [{key: k, rate_limit: {unit: DAY, requests_per_unit: 0, unlimited: false, name: '', replaces: []}}]",
    "domain: d\ndescriptors: [{key: k, metadata: {a: [1]}, rate_limit: {unlimited: true, unit: UNKNOWN, replaces: [{name: a}]}}]",
];

#[test]
fn whatever_the_program_takes_is_sound() {
    let (validator, place) = (validator(), Place::new());
    for text in SOUND {
        let (taken, said) = told(&place, text);
        assert!(taken, "{text}: {said}");
        assert_eq!(faults(&validator, text), <[String; 0]>::default(), "{text}");
    }
}

const WRONG: [&str; 68] = [
    "qqq: 1",
    "http: 8080",
    "http: {a: b}",
    "socket_mode: '0888'",
    "max_connections: 0",
    "max_connections: many",
    "partitions: 16385",
    "rules_from: [disk]",
    "store: http://localhost",
    "fleet: a b",
    "sync_interval: 100",
    "sync_interval: 1.5s",
    "drain_delay: [1s]",
    "log_format: xml",
    "rules: {}",
    "rules: [{}]",
    "rules: [{limts: {requests: 5, window: 1m}}]",
    "rules: [{limits: {}}]",
    "rules: [{limits: []}]",
    "rules: [{limits: {requests: 5}}]",
    "rules: [{limits: {window: 1m}}]",
    "rules: [{limits: {requests: 5, amount: 5, window: 1m}}]",
    "rules: [{limits: {requests: '5', window: 1m}}]",
    "rules: [{limits: {requests: -5, window: 1m}}]",
    "rules: [{limits: {requests: 5, window: 5x}}]",
    "rules: [{limits: {requests: 5, window: ''}}]",
    "rules: [{limits: {requests: 5, window: 30s1m}}]",
    "rules: [{limits: {requests: 5, window: 01m}}]",
    "rules: [{limits: {requests: 5, window: hour}}]",
    "rules: [{limits: {requests: 5, window: months}}]",
    "rules: [{limits: {requests: 5, window: day, time_zone: ''}}]",
    "rules: [{limits: {requests: 5, window: day, time_zone: '+02:00'}}]",
    "rules: [{time_zones: UTC, limits: {requests: 5, window: day}}]",
    "rules: [{limits: {default: {requests: 5, window: 1m, brst: 2}}}]",
    "rules: [{limits: {default: {requests: 5, window: 1m, algorithm: tokens}}}]",
    "rules: [{limits: {requests: 5, window: 1m, mode: soft}}]",
    "rules: [{ban: true, priority: 3}]",
    "rules: [{ban: true, percent: 101}]",
    "rules: [{ban: yes}]",
    "rules: [{ban: true, method: 'G T'}]",
    "rules: [{ban: true, key: 'cookie:a'}]",
    "rules: [{ban: true, key: []}]",
    "rules: [{ban: true, cost: 0}]",
    "rules: [{ban: true, when: {}}]",
    "rules: [{ban: true, when: {not: {not: {}}}}]",
    "rules: [{limits: {requests: 5, window: 1m}, overrides: [{ban: true}]}]",
    "answers: {refusal: {status: 503}}",
    "answers: {refusal: {content_type: text/plain}}",
    "policies: {a: free}\nrules: [{limits: a}]",
    "clients: {trusted_proxies: [everybody]}",
    "clients: {ipv6_prefix: 16}",
    "api_keys: [{name: a}]",
    "jwt: [{issuer: a, audience: b, algorithms: [RS256]}]",
    "tiers: {from: [client]}",
    "tiers: {from: [{header: X-Tier}]}",
    "strict_domains: 1",
    "rules: [{domain: d, ban: true}]",
    "rules: [{domain: d, descriptors: [], ban: true}]",
    "rules: [{domain: d, descriptors: [{value: v}], ban: true}]",
    "rules: [{domain: d, descriptors: [{key: k}], endpoint: /a, ban: true}]",
    "rules: [{descriptors: [{key: k}], ban: true}]",
    "rules: [{replaces: [a], ban: true}]",
    "domain: d\nrules: []",
    "domain: d\ndescriptors: [{value: v}]\n# rules:",
    "domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 1}}]\n# rules:",
    "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minutes, requests_per_unit: 1}}]\n# rules:",
    "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, unlimited: true}}]\n# rules:",
    "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{}]}}]\n# rules:",
];

#[test]
fn what_is_wrong_is_wrong_for_both() {
    let (validator, place) = (validator(), Place::new());
    for text in WRONG {
        // A set of files without any rules is wrong for that alone.
        let rules = if text.contains("rules:") {
            ""
        } else {
            "\nrules: []"
        };
        let text = format!("{text}{rules}");
        let (taken, said) = told(&place, &text);
        assert!(!taken, "{text}");
        assert!(!said.contains("no file has any rule"), "{text}: {said}");
        assert!(!validator.is_valid(&yaml(&text)), "{text}");
    }
    assert!(!told(&place, "[]").0 && !validator.is_valid(&yaml("[]")));
}

#[test]
fn the_program_prints_it() {
    let output = Place::new().run(["schema"]);
    assert!(output.status.success());
    let file = std::fs::read_to_string(root().join("config/schema.json")).unwrap();
    assert_eq!(stdout(&output), file);
}
