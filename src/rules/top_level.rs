use std::sync::Arc;

use super::fault::{At, Faults, Problem};
use super::reader::{self, Report, Spot};
use super::source::Source;
use super::tree::{self, Node, Value};

/// The fields at the top of `source`, each with its place and what stands there,
/// for whoever keeps settings beside the rules.
///
/// # Errors
/// [`Faults`] if it breaks its format, is no map, or repeats a name.
pub(crate) fn top_level(source: &Source) -> Result<Vec<(String, At, Node)>, Faults> {
    let file: Arc<str> = source.name.as_str().into();
    let top = Spot::file(&file);
    let mut report = Report::default();
    let mut fields = Vec::new();
    match tree::parse(&source.text, source.format) {
        Ok(root) if root.is_null() => {}
        Ok(root) => match &root.value {
            Value::Map(map) => {
                for (name, place, node) in reader::entries(map, &top, &mut report) {
                    fields.push((name.to_owned(), place.at, node.clone()));
                }
            }
            _ => {
                let want = "a map; write `name: value` lines";
                report.fault(
                    &top,
                    Problem::Kind {
                        found: root.describe(),
                        want,
                    },
                );
            }
        },
        Err(faults) => {
            for (at, problem) in faults {
                report.fault(&top.moved(at), problem);
            }
        }
    }
    if report.faults.is_empty() {
        Ok(fields)
    } else {
        Err(Faults(report.faults))
    }
}
