//! Where faults are said to be, in each format.

use super::*;

#[test]
fn faults_name_file_line_column_rule_and_field() {
    assert_eq!(
        faults(
            "rules:\n  - name: orders\n    limits:\n      free:\n        requests: 10\n        window: 5x\n"
        ),
        [
            "r.yaml:6:17: rule \"orders\": limits.free.window: \"5x\" is not a duration; write 250ms, \
          1s, 1m, 1h, 1d or 1m30s"
        ]
    );
    let json = "{\"rules\": [\n  {\"name\": \"orders\",\n   \"limits\": {\"free\": {\"requests\": 10, \"window\": \"5x\"}}}]}";
    let faults = compile(&[("r.json", json)]).unwrap_err();
    assert!(
        faults[0].starts_with("r.json:3:50: rule \"orders\": limits.free.window: \"5x\" is"),
        "{faults:?}"
    );
    let toml =
        "[[rules]]\nname = \"orders\"\n\n[rules.limits.free]\nrequests = 10\nwindow = \"5x\"\n";
    let faults = compile(&[("r.toml", toml)]).unwrap_err();
    assert!(
        faults[0].starts_with("r.toml:6:10: rule \"orders\": limits.free.window: \"5x\" is"),
        "{faults:?}"
    );
}

#[test]
fn columns_count_characters() {
    let faults = compile(&[("r.toml", "größe = 1\nrules = []")]).unwrap_err();
    assert!(faults[0].starts_with("r.toml:1:"), "{faults:?}");
    let faults = compile(&[("r.toml", "rules = [{ name = \"größe\", limits = 1 }]")]).unwrap_err();
    assert!(
        faults[0].starts_with("r.toml:1:19: rule \"größe\": name:"),
        "{faults:?}"
    );
    assert!(
        faults[1].starts_with("r.toml:1:37: rule \"größe\": limits: 1 is not a limit"),
        "{faults:?}"
    );
}

#[test]
fn a_rule_without_a_name_is_called_by_its_endpoint_or_its_place() {
    let limits = "limits: {requests: 1, window: x}";
    let faults = faults(&format!(
        "rules:\n- {{endpoint: /a, {limits}}}\n- {{method: POST, endpoint: /a, {limits}}}\n- {{{limits}}}\n- 7"
    ));
    assert!(
        faults[0].contains(": rule \"/a\": limits.window: "),
        "{faults:?}"
    );
    assert!(
        faults[1].contains(": rule \"POST /a\": limits.window: "),
        "{faults:?}"
    );
    assert!(
        faults[2].contains(": rule 3: limits.window: "),
        "{faults:?}"
    );
    assert!(
        faults[3].starts_with("r.yaml:5:3: rule 4: 7 is not a rule"),
        "{faults:?}"
    );
}

#[test]
fn all_faults_of_all_files_come_at_once_in_the_order_of_the_text() {
    let faults = compile(&[
        (
            "a.yaml",
            "rules:\n- {name: a, limits: {requests: ten, window: 0s}}\n- {nam: b}\ndefault: 1\n",
        ),
        ("b.json", "{\"rules\": [,]}"),
        (
            "c.toml",
            "rules = [{ name = \"c\", limits = { requests = 1, window = \"1w\" } }]",
        ),
    ])
    .unwrap_err();
    let places: Vec<&str> = faults
        .iter()
        .map(|f| f.split(": ").next().unwrap())
        .collect();
    assert_eq!(
        places,
        [
            "a.yaml:2:32",
            "a.yaml:3:3",
            "a.yaml:3:4",
            "a.yaml:4:1",
            "b.json:1:12",
            "c.toml:1:58"
        ],
        "{faults:#?}"
    );
}
