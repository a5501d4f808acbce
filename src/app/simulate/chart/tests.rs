use clap::Parser;
use roxmltree::{Document, Node};

use super::*;
use crate::app::simulate::args::SimulateArgs;
use crate::simulation::{Figures, Over};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: SimulateArgs,
}

fn plan(line: &str) -> Plan {
    let words = std::iter::once("tidegate").chain(line.split_whitespace());
    Plan::of(&Line::try_parse_from(words).unwrap().args).unwrap()
}

/// A row for each mode and interval, each worse than the one before.
fn rows(plan: &Plan, windows: u64) -> Vec<Row> {
    let mut worst = 0.0;
    let row = |scenario: crate::simulation::Scenario| {
        worst += 0.001;
        Row {
            mode: scenario.consistency,
            every: scenario.pace.interval,
            figures: Figures {
                over: Over {
                    windows,
                    mean: 0.0,
                    p99: worst / 2.0,
                    worst,
                },
                batches: 500,
                seconds: 10.0,
                ..Figures::default()
            },
            plain_over: (windows > 0).then_some(0.1),
            plain_commands: 400.0,
        }
    };
    plan.scenarios().into_iter().map(row).collect()
}

fn texts(document: &Document<'_>) -> Vec<String> {
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name("text"));
    texts
        .filter_map(|node| node.text().map(str::to_owned))
        .collect()
}

fn height(node: &Node<'_, '_>) -> f64 {
    node.attribute("cy").unwrap().parse().unwrap()
}

#[test]
fn the_drawing_is_a_document_with_a_title_and_its_figures_as_text() {
    let plan = plan("--algorithm fixed_window");
    let svg = draw(&plan, &rows(&plan, 9));
    let document = Document::parse(&svg).unwrap();
    let root = document.root_element();
    assert!(root.has_tag_name(("http://www.w3.org/2000/svg", "svg")));
    assert_eq!(root.attribute("role"), Some("img"));
    let told = |tag| root.children().find(|node| node.has_tag_name(tag));
    let title = told("title").and_then(|node| node.text()).unwrap();
    assert_eq!(
        title,
        "Over-admission and commands by sync interval; fixed_window of 1,000 in 1s: \
         4 nodes, 2 times the limit"
    );
    let heard = told("desc").and_then(|node| node.text()).unwrap();
    assert!(heard.contains("every 100ms: worst window 0.20% over, p99 0.10%, 50 commands"));
    let texts = texts(&document);
    for text in [
        "10ms",
        "100ms",
        "1s",
        "0.30%",
        "wanted: 1%",
        "10%",
        "≤ 0.01%",
        "50",
    ] {
        assert!(texts.iter().any(|found| found == text), "{text}: {texts:?}");
    }
    for tag in ["script", "image", "foreignObject"] {
        assert!(!document.descendants().any(|node| node.has_tag_name(tag)));
    }
    assert!(!svg.contains("href"));
}

#[test]
fn what_is_worse_stands_higher() {
    let plan = plan("");
    let svg = draw(&plan, &rows(&plan, 9));
    let document = Document::parse(&svg).unwrap();
    let dots: Vec<f64> = document
        .descendants()
        .filter(|node| node.attribute("class") == Some("d0"))
        .map(|node| height(&node))
        .collect();
    let (over, commands) = dots.split_at(3);
    assert!(over.is_sorted_by(|a, b| a > b), "{over:?}");
    assert!(commands.iter().all(|y| *y == commands[0]), "{commands:?}");
    let inside = |(top, bottom): (f64, f64), y: &f64| (top..=bottom).contains(y);
    assert!(over.iter().all(|y| inside(OVER, y)), "{over:?}");
    assert!(commands.iter().all(|y| inside(COMMANDS, y)), "{commands:?}");
}

#[test]
fn any_plan_makes_a_sound_document() {
    for line in [
        "--sync-interval 100ms",
        "--consistency approximate,local --sync-interval 1ms,2ms,3ms,4ms,5ms,1h",
        "--target-over 0%",
        "--rate 0.5x --nodes 1",
    ] {
        for windows in [0, 9] {
            let plan = plan(line);
            let svg = draw(&plan, &rows(&plan, windows));
            let document = Document::parse(&svg).unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            let said = "nobody wanted more than the limit";
            let is_said = texts(&document).iter().any(|text| text == said);
            assert_eq!(is_said, windows == 0);
        }
    }
}
