//! What people write, and what they are told.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file::{Element, Written, entries};
use super::keys::Key;
use super::*;
use crate::rules::{Format, Source};
use crate::units::Nanos;

fn surroundings() -> Surroundings {
    Surroundings {
        runtime_dir: PathBuf::from("/run/user/7/tidegate"),
        host: "host-1".to_owned(),
    }
}

/// Loads `text` as the config file `t.yaml` in a directory of its own, with
/// `flags` and `variables` over it; faults are told without the directory.
fn load_with(
    name: &str,
    text: &str,
    flags: &[(&str, &str)],
    variables: &[(&str, &str)],
) -> Result<Settings, Vec<String>> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(name);
    std::fs::write(&file, text).unwrap();
    let key = |name: &str| Key::named(name).unwrap();
    let given = variables
        .iter()
        .filter_map(|(name, value)| Given::by_variable(key(name), value))
        .chain(
            flags
                .iter()
                .map(|(name, value)| Given::by_flag(key(name), [(*value).to_owned()])),
        )
        .collect();
    load(Some(&file), given, &surroundings(), Nanos::ZERO)
        .map(|config| config.settings)
        .map_err(|faults| {
            let prefix = format!("{}/", directory.path().display());
            faults
                .iter()
                .map(|fault| fault.to_string().replace(&prefix, ""))
                .collect()
        })
}

fn yaml(text: &str) -> Result<Settings, Vec<String>> {
    load_with("t.yaml", text, &[], &[])
}

#[test]
fn the_shipped_file_shows_every_key_with_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(super::load::DEFAULT_FILE);
    let shown = entries(&Source {
        name: path.display().to_string(),
        text: std::fs::read_to_string(&path).unwrap(),
        format: Format::Yaml,
    })
    .unwrap();
    for key in KEYS {
        let entry = shown.iter().find(|entry| entry.key == key.name);
        let Some(entry) = entry else {
            panic!("{} is not shown", key.name);
        };
        let values: Vec<_> = match &entry.written {
            Written::Null => Vec::new(),
            Written::One(scalar) => vec![scalar.text.as_str()],
            Written::List(elements) => elements
                .iter()
                .map(|element| match element {
                    Element::Scalar(scalar) => scalar.text.as_str(),
                    Element::Nested(_) => panic!("{} is nested", key.name),
                })
                .collect(),
            Written::Map => panic!("{} is a map", key.name),
        };
        assert_eq!(values, key.default, "{}", key.name);
    }
    assert_eq!(shown.len(), KEYS.len() + 1, "besides the keys, the rules");
}

#[test]
fn an_empty_file_means_the_defaults() {
    let settings = yaml("").unwrap();
    assert_eq!(
        settings.http[0].to_string(),
        "unix:/run/user/7/tidegate/http.sock"
    );
    assert_eq!(settings.node, "host-1");
    assert_eq!(settings.store, None);
    assert_eq!(settings.pace, crate::units::Pace::default());
    assert_eq!(settings.partitions, crate::units::Partitions::default());
    assert_eq!(settings.socket_mode, 0o600);
    assert_eq!(settings.drain_timeout, Duration::from_secs(10));
}

#[test]
fn a_flag_wins_over_a_variable_and_a_variable_over_the_file() {
    let file = "node: file\nfleet: file\nmax_keys: 3\n";
    let settings = load_with(
        "t.yaml",
        file,
        &[("node", "flag")],
        &[("node", "variable"), ("fleet", "variable")],
    )
    .unwrap();
    assert_eq!(settings.node, "flag");
    assert_eq!(settings.fleet, "variable");
    assert_eq!(settings.max_keys, 3);
}

#[test]
fn an_empty_variable_is_not_set_and_a_list_in_one_is_separated_by_commas() {
    let settings = load_with(
        "t.yaml",
        "fleet: file\n",
        &[],
        &[("fleet", ""), ("http", "127.0.0.1:1, unix:/a")],
    )
    .unwrap();
    assert_eq!(settings.fleet, "file");
    let http: Vec<_> = settings.http.iter().map(ToString::to_string).collect();
    assert_eq!(http, ["127.0.0.1:1", "unix:/a"]);
}

#[test]
fn yaml_toml_and_json_say_the_same() {
    let yaml = yaml("http: ['unix:/a', 127.0.0.1:1]\nmax_keys: 5\nstore: redis://h\n");
    let toml = "http = [\"unix:/a\", \"127.0.0.1:1\"]\nmax_keys = 5\nstore = \"redis://h\"\n";
    let json = r#"{"http":["unix:/a","127.0.0.1:1"],"max_keys":5,"store":"redis://h"}"#;
    assert_eq!(load_with("t.toml", toml, &[], &[]), yaml);
    assert_eq!(load_with("t.json", json, &[], &[]), yaml);
}

#[test]
fn all_faults_are_told_at_once_with_place_key_and_remedy() {
    let text = "\
sync_intervall: 5ms
sync_interval: 5x
max_keys: 0
node: 12
socket_mode: '0888'
log: [info]
http:
  - nowhere
  - a: b
log_format: xml
";
    assert_eq!(
        yaml(text).unwrap_err(),
        [
            "t.yaml:1:1: there is no key `sync_intervall`; did you mean `sync_interval`?",
            "t.yaml:2:16: sync_interval: `5x` is not a duration; \
             write 250ms, 1s, 1m, 1h, 1d or 1m30s",
            "t.yaml:3:11: max_keys: `0` is not a whole number from 1 to 1000000000",
            "t.yaml:4:7: node: `12` is not a text; put it in quotes",
            "t.yaml:5:14: socket_mode: `0888` is not a file mode; \
             write three octal digits in quotes, such as \"0660\"",
            "t.yaml:6:1: log: a list is too much here; write one value",
            "t.yaml:8:5: http: `nowhere` is not an address: expected unix:PATH or HOST:PORT \
             (for all of this machine's addresses, [::]:PORT)",
            "t.yaml:9:5: http: a map does not belong here; write ADDR",
            "t.yaml:10:13: log_format: `xml` is none of text, json",
        ]
    );
}

#[test]
fn faults_of_flags_and_variables_name_them() {
    let faults = load_with(
        "t.yaml",
        "",
        &[
            ("sync_interval", "1.5h"),
            ("rules_files", "/nowhere/r.yaml"),
        ],
        &[("store", "http://:marker@h"), ("max_connections", "many")],
    )
    .unwrap_err();
    assert_eq!(
        faults,
        [
            "TIDEGATE_MAX_CONNECTIONS: `many` is not a whole number from 1 to 1000000",
            "TIDEGATE_STORE: this is not a store; write none, or redis://, rediss:// or \
             redis+unix:// and where it is",
            "--sync-interval: `1.5h` is not a duration; \
             write 250ms, 1s, 1m, 1h, 1d or 1m30s",
            "/nowhere/r.yaml: cannot read it: No such file or directory (os error 2)",
        ]
    );
}

#[test]
fn broken_grammar_and_repeated_keys_are_told_with_their_line() {
    let faults = yaml("node: a\nnode: b\n").unwrap_err();
    assert!(faults[0].starts_with("t.yaml:2:"), "{faults:?}");
    let faults = yaml("node: [a\n").unwrap_err();
    assert!(faults[0].starts_with("t.yaml:"), "{faults:?}");
    let faults = load_with("t.toml", "node = \n", &[], &[]).unwrap_err();
    assert!(faults[0].starts_with("t.toml:1:"), "{faults:?}");
    let faults = load_with("t.json", "{\"node\": ", &[], &[]).unwrap_err();
    assert!(faults[0].starts_with("t.json:1:"), "{faults:?}");
    let faults = yaml("- a\n").unwrap_err();
    assert!(faults[0].starts_with("t.yaml:1:1"), "{faults:?}");
}

#[test]
fn types_that_yaml_guesses_are_not_taken_for_texts_or_numbers() {
    for (text, fault) in [
        ("node: true", "`true` is not a text; put it in quotes"),
        ("fleet: 1e3", "`1e3` is not a text; put it in quotes"),
        ("max_keys: 10.0", "`10.0` is not a whole number"),
        ("max_keys: -1", "`-1` is not a whole number"),
        ("max_keys: true", "`true` is not a whole number"),
        ("sync_interval: 100", "`100` is not a duration"),
        ("fleet: ''", "it is empty"),
    ] {
        let faults = yaml(text).unwrap_err();
        assert!(faults[0].contains(fault), "{text}: {faults:?}");
    }
    assert_eq!(yaml("socket_mode: 0660").map(|s| s.socket_mode), Ok(0o660));
}

#[test]
fn an_admin_address_beyond_this_machine_needs_a_token() {
    let faults = yaml("admin: ['0.0.0.0:9090', '127.0.0.1:1', '[::1]:1']").unwrap_err();
    assert_eq!(faults.len(), 1);
    assert!(
        faults[0].starts_with("t.yaml:1:1: admin: `0.0.0.0:9090` can be reached"),
        "{faults:?}"
    );
    assert!(yaml("admin: ['0.0.0.0:9090']\nadmin_token_file: token").is_ok());
}

#[test]
fn min_and_max_give_way_to_the_interval_unless_they_are_written() {
    let pace = |text| yaml(text).unwrap().pace;
    let slow = pace("sync_interval: 5s");
    assert_eq!(slow.max_interval, Nanos::from_secs(5));
    let quick = pace("sync_interval: 2ms");
    assert_eq!(quick.min_interval, Nanos::from_millis(2));
    assert_eq!(
        yaml("sync_interval: 5s\nsync_max_interval: 2s").unwrap_err(),
        [
            "t.yaml:2:1: sync_max_interval: 2s contradicts the sync_interval of 5s; \
          an interval lies between its min and max"
        ]
    );
    assert!(yaml("sync_interval: 2ms\nsync_min_interval: 3ms").is_err());
}

#[test]
fn relative_paths_start_from_the_file_they_are_written_in() {
    let token = |text| yaml(text).unwrap().admin_token_file.unwrap();
    let relative = token("admin_token_file: token");
    assert!(relative.is_absolute() && relative.ends_with("token"));
    assert_eq!(
        token("admin_token_file: /etc/token"),
        Path::new("/etc/token")
    );
    let by_flag = load_with("t.yaml", "", &[("admin_token_file", "token")], &[]).unwrap();
    assert_eq!(by_flag.admin_token_file, Some("token".into()));
}

#[test]
fn a_store_is_read_and_its_password_shown_nowhere() {
    let settings = yaml("store: redis://u:marker@h/1").unwrap();
    assert_eq!(
        settings.store.as_ref().map(|store| store.expose()),
        Some("redis://u:marker@h/1")
    );
    assert!(!format!("{settings:?}").contains("marker"));
}

#[test]
fn a_missing_file_is_waited_for_and_then_complained_of() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("late.yaml");
    let faults = load(Some(&file), Vec::new(), &surroundings(), Nanos::new(1)).unwrap_err();
    assert!(matches!(faults.as_slice(), [Fault::NotThere { .. }]));
    let other = file.clone();
    let writer = std::thread::spawn(move || std::fs::write(other, "node: late\n"));
    let config = load(
        Some(&file),
        Vec::new(),
        &surroundings(),
        Nanos::from_secs(60),
    );
    writer.join().unwrap().unwrap();
    // The file may have been seen before its text was in it.
    assert!(config.is_ok_and(|config| ["late", "host-1"].contains(&config.settings.node.as_str())));
}

#[test]
fn faults_of_settings_and_of_rules_are_told_together_in_the_order_of_the_file() {
    let text = "\
nodes: a
rules:
  - endpoint: /a
    limits: { default: { requests: 5, window: 5x } }
max_keys: 0
";
    let faults = yaml(text).unwrap_err();
    let starts: Vec<_> = faults.iter().map(|fault| &fault[..9]).collect();
    assert_eq!(
        starts,
        ["t.yaml:1:", "t.yaml:4:", "t.yaml:5:"],
        "{faults:?}"
    );
    assert!(faults[1].contains("limits.default.window"), "{faults:?}");
}

#[test]
fn rules_by_flag_or_variable_replace_those_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let rule = |name: &str| {
        format!("rules: [{{name: {name}, limits: {{default: {{requests: 1, window: 1m}}}}}}]\n")
    };
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("other.yaml"), rule("other")).unwrap();
    std::fs::write(path("more.yaml"), rule("more")).unwrap();
    let text = rule("own") + "rules_files: [more.yaml]\n";
    std::fs::write(path("t.yaml"), text).unwrap();
    let names = |given| {
        let config = load(Some(&path("t.yaml")), given, &surroundings(), Nanos::ZERO).unwrap();
        rule_names(&config.rules).join(" ")
    };
    assert_eq!(names(Vec::new()), "own more");
    let key = Key::named("rules_files").unwrap();
    let other = path("other.yaml").display().to_string();
    assert_eq!(names(vec![Given::by_flag(key, [other.clone()])]), "other");
    assert_eq!(
        names(vec![Given::by_variable(key, &other).unwrap()]),
        "other"
    );
}
