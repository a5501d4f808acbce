//! The README is true: its examples run and print what it shows, and its tables
//! name what there is.

// Tests fail by panicking, their helpers too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use kit::{Place, Redis, TIDEGATE, root, stderr, stdout};
use tidegate::app::config::KEYS;

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// A block of commands, and what they print where that is shown.
struct Example {
    commands: String,
    prints: Option<String>,
}

/// The blocks marked `sh`, each with the block marked `text` that follows it, with
/// nothing between them.
fn examples(readme: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut rest = readme;
    let mut after_commands = false;
    while let Some((between, opened)) = rest.split_once("```") {
        let (language, opened) = opened.split_once('\n').unwrap();
        let (body, closed) = opened.split_once("```").unwrap();
        match language {
            "sh" => found.push(Example {
                commands: body.to_owned(),
                prints: None,
            }),
            "text" => {
                assert!(
                    after_commands && between.trim().is_empty(),
                    "of what? {body}"
                );
                found.last_mut().unwrap().prints = Some(body.to_owned());
            }
            "console" => assert_eq!(body, "tests/run\n", "nothing runs this"),
            // `tests/client/example.rs` runs what is in Rust.
            "yaml" | "rust" => {}
            other => panic!("a block of {other}"),
        }
        after_commands = language == "sh";
        rest = closed;
    }
    found
}

/// Whether `line` is `pattern`, in which `…` stands for anything.
fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut open = false;
    for part in parts {
        let Some(at) = (if part.is_empty() {
            Some(rest.len())
        } else {
            rest.find(part)
        }) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        open = part.is_empty();
    }
    open || rest.is_empty()
}

/// Whether the lines of `printed` are those of `pattern`; a line of `…` alone stands
/// for any number of lines.
fn matches_all(pattern: &[&str], printed: &[&str]) -> bool {
    match (pattern, printed) {
        ([], []) => true,
        (["…", pattern @ ..], _) => {
            (0..=printed.len()).any(|n| matches_all(pattern, &printed[n..]))
        }
        ([first, pattern @ ..], [line, printed @ ..]) => {
            matches(first, line) && matches_all(pattern, printed)
        }
        _ => false,
    }
}

/// One script of all examples, in their order, each printing into a file of its own.
/// A line that serves goes to the background until it is ready.
fn script(examples: &[Example], place: &Path, redis: &Redis) -> String {
    let temporary = format!("{}/readme-", place.display());
    let mut script = "set -u\ntrap 'kill $(jobs -p); wait' EXIT\ntrap 'exit 124' TERM\n".to_owned();
    for (number, example) in examples.iter().enumerate() {
        let commands = example
            .commands
            .replace("cargo run --release -- ", "tidegate ")
            .replace("$PWD/target/release", &format!("{}/bin", place.display()))
            .replace("redis://localhost:6379", &redis.url())
            .replace("/tmp/readme-", &temporary);
        writeln!(script, "exec >{}/{number} 2>&1", place.display()).unwrap();
        if commands.starts_with("tidegate serve") {
            let directory = commands.split_once("--runtime-dir ");
            let directory = directory.map_or(String::new(), |(_, directory)| {
                format!("--runtime-dir {}", directory.trim())
            });
            writeln!(
                script,
                "{} &\nuntil tidegate check --ready {directory}; do kill -0 $! || exit 9; done",
                commands.trim()
            )
            .unwrap();
        } else {
            writeln!(script, "{commands}").unwrap();
        }
    }
    script
}

#[test]
fn every_example_prints_what_is_shown() {
    let place = Place::new();
    let redis = Redis::start();
    let bin = place.path("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(TIDEGATE, bin.join("tidegate")).unwrap();
    // Without a socket of its own, redis-cli is to talk to this test's Redis.
    let shim = bin.join("redis-cli");
    let real = Command::new("sh")
        .args(["-c", "command -v redis-cli"])
        .output();
    let real = stdout(&real.unwrap()).trim().to_owned();
    assert!(!real.is_empty(), "redis-cli is missing; run tests/run");
    let text = format!(
        "#!/bin/sh\ncase \" $* \" in *\" -s \"*) exec {real} \"$@\";; esac\nexec {real} -s {} \"$@\"\n",
        redis.socket().display()
    );
    std::fs::write(&shim, text).unwrap();
    std::fs::set_permissions(&shim, std::fs::Permissions::from_mode(0o755)).unwrap();

    let readme = readme();
    let examples = examples(&readme);
    assert_eq!(examples[0].commands, "cargo run --release -- serve\n");
    // Which the script replaces by the program under test.
    let path = "export PATH=\"$PWD/target/release:$PATH\"\n";
    assert!(examples[1].commands.starts_with(path));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let tools = target.join("tools");
    let [python, node] = ["venv/bin", "node/node_modules"].map(|path| tools.join(path));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{}:{path}", bin.display(), python.display());
    let status = place
        // A README that hangs is as wrong as one that fails.
        .command("timeout")
        .current_dir(root())
        .env("PATH", path)
        .env("NODE_PATH", node)
        .args([
            "120",
            "bash",
            "-c",
            &script(&examples, place.directory.path(), &redis),
        ])
        .status()
        .unwrap();
    let printed = |number: usize| {
        std::fs::read_to_string(place.path(&number.to_string())).unwrap_or_default()
    };
    assert_ne!(status.code(), Some(9), "a daemon ended: {}", printed(0));
    let ours = place.path("readme-").display().to_string();
    for (number, example) in examples.iter().enumerate() {
        let printed = printed(number).replace(&ours, "/tmp/readme-");
        if let Some(shown) = &example.prints {
            let lines: Vec<_> = printed.trim_end().lines().collect();
            let shown_lines: Vec<_> = shown.lines().collect();
            assert!(
                matches_all(&shown_lines, &lines),
                "{}prints\n{printed}\nnot\n{shown}",
                example.commands
            );
        }
    }
    assert!(status.success(), "{status}");
}

#[test]
fn a_pattern_matches_what_it_says_and_nothing_else() {
    assert!(matches("a…c", "abbbc") && matches("a…", "a") && matches("…", ""));
    assert!(!matches("a…c", "abcd") && !matches("ab", "abc") && !matches("a…c", "bc"));
    assert!(matches_all(&["a", "…", "b"], &["a", "b"]));
    assert!(matches_all(&["a", "…", "b"], &["a", "x", "y", "b"]));
    assert!(!matches_all(&["a", "b"], &["a", "x", "b"]));
}

#[test]
fn the_table_of_settings_is_the_programs_own() {
    let readme = readme();
    for key in KEYS {
        let row = format!(
            "| `{}` | `--{}` | `{}` | ",
            key.name, key.flag, key.variable
        );
        let found = readme.lines().find(|line| line.starts_with(&row));
        let Some(found) = found else {
            panic!("no row {row}");
        };
        if let [default] = key.default {
            assert_eq!(found, format!("{row}`{default}` |"));
        }
    }
    let rows = readme.lines().filter(|line| line.contains("| `--"));
    assert_eq!(rows.count(), KEYS.len());
}

#[test]
fn the_table_of_metrics_is_complete() {
    let readme = readme();
    let names = std::fs::read_to_string(root().join("src/names.rs")).unwrap();
    let named: Vec<_> = names.split('"').skip(1).step_by(2).collect();
    for name in &named {
        assert!(readme.contains(&format!("| `{name}` | ")), "{name}");
    }
    let rows = readme
        .lines()
        .filter(|line| line.starts_with("| `tidegate_"));
    assert_eq!(rows.count(), named.len());
}

#[test]
fn the_floor_plan_leads_to_files() {
    let readme = readme();
    let plan = readme.split("## Floor plan").nth(1).unwrap();
    let mut files = 0;
    for file in plan.split('`').skip(1).step_by(2) {
        if file.contains('*') {
            continue;
        }
        assert!(root().join(file).exists(), "{file}");
        files += 1;
    }
    assert!(files > 10);
}

#[test]
fn the_example_rules_are_sound() {
    let readme = readme();
    let place = Place::new();
    for (number, rules) in [(1, 2), (2, 5)] {
        let yaml = readme.split("```yaml\n").nth(number).unwrap();
        let file = place.write("rules.yaml", yaml.split("```").next().unwrap());
        let output = place.run(["validate", &file]);
        assert_eq!(stdout(&output), format!("{file}: sound, {rules} rules\n"));
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn the_table_of_rule_fields_is_complete() {
    let readme = readme();
    let table = readme.split("| field | of | ").nth(1).unwrap();
    let rows: Vec<(&str, &str)> = table
        .lines()
        .skip(2)
        .map_while(|row| row.strip_prefix("| ")?.split_once(" | "))
        .collect();
    // The fault of an unknown field names all that are known.
    let place = Place::new();
    for (of, rules) in [("rule", "[{qqq: 1}]"), ("limit", "[{limits: [{qqq: 1}]}]")] {
        let file = place.write("rules.yaml", &format!("rules: {rules}\n"));
        let told = stderr(&place.run(["validate", &file]));
        let known = told.split("known are ").nth(1).unwrap();
        let known = known.lines().next().unwrap();
        // `amount` is the same as `requests`.
        for field in known.split(", ").filter(|field| *field != "amount") {
            let row = rows.iter().find(|(names, rest)| {
                names.contains(&format!("`{field}`"))
                    && rest.split('|').next().unwrap().contains(of)
            });
            assert!(row.is_some(), "no row of {field}, of a {of}");
        }
    }
}

#[test]
fn the_table_of_answers_is_complete() {
    let readme = readme();
    let table = readme.split("| field of `answers` | ").nth(1).unwrap();
    let rows: Vec<&str> = table
        .lines()
        .skip(2)
        .map_while(|row| row.strip_prefix("| "))
        .collect();
    let place = Place::new();
    let known = |answers: &str| {
        let file = place.write("rules.yaml", &format!("answers: {answers}\nrules: []\n"));
        let told = stderr(&place.run(["validate", &file]));
        let known = told.split("known are ").nth(1).unwrap();
        known.lines().next().unwrap().to_owned()
    };
    let fields = known("{qqq: 1}");
    let fields: Vec<&str> = fields.split(", ").collect();
    for field in &fields {
        let row = rows
            .iter()
            .find(|row| row.starts_with(&format!("`{field}` |")));
        assert!(row.is_some(), "no row of {field}");
    }
    assert_eq!(rows.len(), fields.len());
    let refusal = rows.iter().find(|row| row.starts_with("`refusal`"));
    for field in known("{refusal: {qqq: 1}}").split(", ") {
        assert!(refusal.unwrap().contains(&format!("`{field}`")), "{field}");
    }
    for value in known("{refusal: {body: \"{qqq}\"}}").split(", ") {
        assert!(table.contains(&format!("`{{{value}}}`")), "{value}");
    }
}
