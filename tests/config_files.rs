//! Every file under `config/` is loaded, or judged by the tool that knows its kind.

// Tests fail by panicking, their helpers too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::path::Path;
use std::process::{Command, Output};

use tidegate::app::config::KEYS;

use kit::{Place, TIDEGATE, root, stderr, stdout, tool};

/// Every file under `directory`, relative to the root of the project.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in directory.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let name = path.strip_prefix(root()).unwrap();
            found.push(name.to_str().unwrap().to_owned());
        }
    }
    found.sort();
    found
}

/// What each file is, so that none is forgotten.
fn kind(file: &str) -> &'static str {
    match file {
        _ if file.starts_with("config/kubernetes/") => "kubernetes",
        _ if file.starts_with("config/systemd/") => "systemd",
        "config/container/Dockerfile" => "container",
        // tests/doors_grpc.rs has Envoy read it.
        "config/envoy/envoy.yaml" | "config/envoy/rlqs.yaml" => "envoy",
        // tests/gateways.rs puts them to work.
        "config/nginx/tidegate.conf"
        | "config/haproxy/haproxy.cfg"
        | "config/haproxy/tidegate.lua"
        | "config/caddy/Caddyfile"
        | "config/traefik/dynamic.yaml"
        | "config/kong/kong.yaml" => "gateway",
        // tests/schema.rs holds it to the program.
        "config/schema.json" => "schema",
        _ if file.ends_with(".yaml") => "tidegate",
        _ => "unknown",
    }
}

fn of_kind(wanted: &str) -> Vec<String> {
    let mut all = files(&root().join("config"));
    all.retain(|file| kind(file) == wanted);
    assert!(!all.is_empty() || wanted == "unknown", "no {wanted} file");
    all
}

fn validate(file: &str) -> Output {
    Place::new().run(["validate", file])
}

#[test]
fn every_file_is_of_a_kind_that_is_tested() {
    assert_eq!(of_kind("unknown"), Vec::<String>::new());
}

#[test]
fn every_config_and_rule_file_loads() {
    for file in of_kind("tidegate") {
        let output = validate(root().join(&file).to_str().unwrap());
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stderr(&output), "", "a warning");
    }
}

#[test]
fn the_default_file_has_the_two_example_rules() {
    let output = validate(root().join("config/tidegate.yaml").to_str().unwrap());
    assert!(
        stdout(&output).ends_with("config/tidegate.yaml: a sound config file, 2 rules\n"),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
}

/// The documents in the manifest, as far as they are ConfigMaps.
fn config_maps(manifest: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(root().join(manifest)).unwrap();
    let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
    documents
        .into_iter()
        .filter(|document| document["kind"] == "ConfigMap")
        .collect()
}

#[test]
fn every_config_within_a_manifest_loads() {
    let mut loaded = 0;
    for manifest in of_kind("kubernetes") {
        for map in config_maps(&manifest) {
            for (name, text) in map["data"].as_object().unwrap() {
                let place = Place::new();
                let file = place.write(name, text.as_str().unwrap());
                let output = place.run(["validate", &file]);
                assert!(output.status.success(), "{manifest}: {}", stderr(&output));
                loaded += 1;
            }
        }
    }
    assert!(loaded > 0, "no manifest has a config in it");
}

#[test]
fn every_manifest_is_valid_for_the_first_and_a_late_kubernetes_with_sidecars() {
    let validator = tool("kubernetes-validate");
    for manifest in of_kind("kubernetes") {
        for version in ["1.29", "1.34"] {
            let output = Command::new(&validator)
                .args(["--strict", "--kubernetes-version", version])
                .arg(root().join(&manifest))
                .output()
                .unwrap();
            let told = stdout(&output) + &stderr(&output);
            assert!(output.status.success(), "{told}");
            assert!(told.contains("passed"), "{told}");
        }
    }
}

#[test]
fn every_unit_is_sound() {
    for unit in of_kind("systemd") {
        let text = std::fs::read_to_string(root().join(&unit)).unwrap();
        // The program is not installed here.
        let installed = "/usr/local/bin/tidegate";
        assert!(text.contains(installed), "{unit}");
        let place = Place::new();
        let copy = place.write("tidegate.service", &text.replace(installed, TIDEGATE));
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no", &copy])
            .output()
            .unwrap_or_else(|error| panic!("systemd-analyze: {error}; run tests/run"));
        let told = stdout(&output) + &stderr(&output);
        assert!(output.status.success() && told.is_empty(), "{told}");
    }
}

/// Words that look like our flags and belong to other programs.
const NOT_OURS: [&str; 3] = ["---", "--now", "--unix-socket"];

#[test]
fn the_arguments_in_manifests_and_units_are_ones_that_the_program_has() {
    let help = stdout(&Place::new().run(["serve", "--help"]));
    let check = stdout(&Place::new().run(["check", "--help"]));
    let mut seen = 0;
    for file in of_kind("kubernetes").into_iter().chain(of_kind("systemd")) {
        let text = std::fs::read_to_string(root().join(&file)).unwrap();
        for word in text
            .split_whitespace()
            .filter(|word| word.starts_with("--"))
        {
            let flag = word.split('=').next().unwrap();
            if NOT_OURS.contains(&flag) {
                continue;
            }
            assert!(
                help.contains(&format!("{flag} ")) || check.contains(&format!("{flag} ")),
                "{file}: there is no {flag}"
            );
            seen += 1;
        }
        for variable in text
            .split(|c: char| !c.is_ascii_uppercase() && c != '_')
            .filter(|word| word.starts_with("TIDEGATE_"))
        {
            assert!(
                KEYS.iter().any(|key| key.variable == variable),
                "{file}: {variable}"
            );
        }
    }
    assert!(seen > 0);
}
