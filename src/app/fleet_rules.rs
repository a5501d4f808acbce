//! Rule files as one document, which lies in the store for the whole fleet.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use crate::rules::{Defaults, Faults, Format, RuleSet, Source};
use crate::sync::Shelved;

/// The rules of a fleet, as they lie in the store.
#[derive(Clone, Debug)]
pub(super) struct FleetRules {
    /// Grows with every push.
    pub(super) version: u64,
    /// The files, each called by its version and its own name.
    pub(super) sources: Vec<Source>,
}

/// The document's form: JSON.
#[derive(Serialize, Deserialize)]
struct Document {
    files: Vec<File>,
}

#[derive(Serialize, Deserialize)]
struct File {
    /// Without its directory. Its end says the format.
    name: String,
    text: String,
}

/// A document that no node of this version can read.
#[derive(Debug, thiserror::Error)]
#[error("the store's rules, version {version}: {source}")]
pub(super) struct NotRules {
    version: u64,
    source: serde_json::Error,
}

/// The bytes of `sources` as one document.
///
/// # Errors
/// None that is to be expected: texts can always be written.
pub(super) fn encode(sources: &[Source]) -> Result<Vec<u8>, serde_json::Error> {
    let files = sources.iter().map(|source| File {
        name: file_name(&source.name),
        text: source.text.clone(),
    });
    serde_json::to_vec(&Document {
        files: files.collect(),
    })
}

impl FleetRules {
    /// Reads a document.
    ///
    /// # Errors
    /// [`NotRules`] if it has another form.
    pub(super) fn read(shelved: &Shelved) -> Result<FleetRules, NotRules> {
        let version = shelved.version;
        let document: Document =
            serde_json::from_slice(&shelved.body).map_err(|source| NotRules { version, source })?;
        let source = |file: File| {
            // No path of somebody else's leads anywhere here.
            let name = file_name(&file.name);
            Source {
                format: Format::of(Path::new(&name)).unwrap_or(Format::Yaml),
                name: format!("store/v{version}/{name}"),
                text: file.text,
            }
        };
        Ok(FleetRules {
            version,
            sources: document.files.into_iter().map(source).collect(),
        })
    }

    /// The rules, for a node with these `defaults`, and what is doubtful about them. Adds
    /// to `read` the node's own files that they name.
    ///
    /// # Errors
    /// [`Faults`]: all that is wrong with them.
    pub(super) fn compile(
        &self,
        defaults: &Defaults,
        read: &mut Vec<PathBuf>,
    ) -> Result<(RuleSet, Vec<String>), Faults> {
        let compiled = RuleSet::compile_with(None, &self.sources, defaults, read)?;
        let warnings = compiled.warnings.iter().map(ToString::to_string);
        let warnings = warnings.collect();
        Ok((compiled.rules, warnings))
    }

    pub(super) fn digest(&self) -> Digest {
        Digest::of(&self.sources)
    }
}

/// The last part of a path.
pub(super) fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str) -> Source {
        Source {
            name: name.to_owned(),
            text: "rules: []\n".to_owned(),
            format: Format::Yaml,
        }
    }

    #[test]
    fn a_document_is_read_as_it_was_written_and_names_no_path() {
        let sources = [source("/etc/tidegate/a.yaml"), source("../../b.yml")];
        let shelved = Shelved {
            version: 7,
            hash: String::new(),
            body: encode(&sources).unwrap(),
        };
        let rules = FleetRules::read(&shelved).unwrap();
        let names: Vec<_> = rules.sources.iter().map(|source| &*source.name).collect();
        assert_eq!(names, ["store/v7/a.yaml", "store/v7/b.yml"]);
        assert_eq!(rules.digest(), Digest::of(&sources));
    }

    #[test]
    fn what_is_no_document_is_said_to_be_none() {
        for body in [&b""[..], b"{}", b"rules: []", b"{\"files\":[{\"name\":1}]}"] {
            let shelved = Shelved {
                version: 7,
                hash: String::new(),
                body: body.to_vec(),
            };
            let said = FleetRules::read(&shelved).unwrap_err().to_string();
            assert!(said.starts_with("the store's rules, version 7: "), "{said}");
        }
    }
}
