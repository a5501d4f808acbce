//! Reading the files.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::fault::Fault;
use super::file::{self, Format};
use super::keys::Key;
use super::resolve::{Given, Layers, RULES};
use super::settings::{Settings, Surroundings};
use crate::units::Nanos;

/// The config file that is read where none is named.
pub const DEFAULT_FILE: &str = "config/tidegate.yaml";

/// The same file, for a working directory that has none.
const BUILT_IN: &str = include_str!("../../../config/tidegate.yaml");

/// A configuration that can be served.
#[derive(Debug)]
pub struct Config {
    /// The settings.
    pub settings: Settings,
    /// The rules' files, read.
    pub sources: Vec<Source>,
    /// The config file, for people.
    pub file: String,
}

/// Text with rules in it. A stand-in until the rules' own.
#[derive(Debug)]
pub struct Source {
    /// The file, as it was named.
    pub name: Arc<Path>,
    /// What is in it.
    pub text: String,
    /// Its format.
    pub format: Format,
}

/// Reads the configuration: `config`, else [`DEFAULT_FILE`] if there is one, else
/// the same file as it was built in; over it `given`. Files that are not there may
/// yet appear for as long as `wait`, all in all.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(
    config: Option<&Path>,
    given: Vec<Given>,
    surroundings: &Surroundings,
    wait: Nanos,
) -> Result<Config, Vec<Fault>> {
    let mut patience = Patience::of(wait);
    if let Some(path) = config {
        patience.until_there(path).map_err(|fault| vec![fault])?;
    }
    let default = Path::new(DEFAULT_FILE);
    let (source, name) = match config {
        Some(path) => (read(path), path.display().to_string()),
        None if default.exists() => (read(default), DEFAULT_FILE.to_owned()),
        None => (
            Ok(Source {
                name: default.into(),
                text: BUILT_IN.to_owned(),
                format: Format::Yaml,
            }),
            format!("the built-in {DEFAULT_FILE}"),
        ),
    };
    let source = source.map_err(|fault| vec![fault])?;
    resolve(source, name, given, surroundings, &mut patience)
}

fn resolve(
    source: Source,
    name: String,
    given: Vec<Given>,
    surroundings: &Surroundings,
    patience: &mut Patience,
) -> Result<Config, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut layers = Layers::default();
    let mut inline = false;
    match file::entries(&source.name, &source.text, source.format) {
        Ok(entries) => {
            inline = entries.iter().any(|entry| entry.key == RULES);
            layers.file(entries, &mut faults);
        }
        Err(fault) => faults.push(fault),
    }
    for given in given {
        layers.add(given);
    }
    let settings = layers.settings(surroundings, &mut faults);
    let mut sources = Vec::new();
    if inline && !layers.rules_are_replaced() {
        sources.push(source);
    }
    for path in &settings.rules_files {
        match patience.until_there(path).and_then(|()| rule_sources(path)) {
            Ok(found) => sources.extend(found),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() {
        Ok(Config {
            settings,
            sources,
            file: name,
        })
    } else {
        faults.sort_by_key(Fault::line);
        Err(faults)
    }
}

/// Reads the rule file `path`, or every one in the directory `path`, by name.
/// Hidden files are passed over: a mounted ConfigMap keeps its versions in them.
fn rule_sources(path: &Path) -> Result<Vec<Source>, Fault> {
    if !path.is_dir() {
        return read(path).map(|source| vec![source]);
    }
    let unreadable = |source| Fault::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && Format::of(&path).is_some() && path.is_file() {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(Fault::NoRuleFiles(path.to_owned()));
    }
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<Source, Fault> {
    let format = Format::of(path).ok_or_else(|| Fault::UnknownFormat(path.to_owned()))?;
    let text = fs::read_to_string(path).map_err(|source| Fault::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    Ok(Source {
        name: path.into(),
        text,
        format,
    })
}

/// How long to wait for files, all in all: counted in looks, since only the clock
/// of the decisions may be read.
struct Patience {
    whole: Nanos,
    looks: u64,
}

impl Patience {
    const BETWEEN_LOOKS: Nanos = Nanos::from_millis(50);

    fn of(whole: Nanos) -> Patience {
        Patience {
            whole,
            looks: whole.get().div_ceil(Self::BETWEEN_LOOKS.get()),
        }
    }

    /// Waits until `path` is there. Without any patience, a missing file is for
    /// the reader to complain of.
    fn until_there(&mut self, path: &Path) -> Result<(), Fault> {
        while !path.exists() {
            if self.looks == 0 {
                return if self.whole.is_zero() {
                    Ok(())
                } else {
                    Err(Fault::NotThere {
                        path: path.to_owned(),
                        waited: self.whole,
                    })
                };
            }
            self.looks -= 1;
            thread::sleep(Duration::from(Self::BETWEEN_LOOKS));
        }
        Ok(())
    }
}

/// What a file is meant to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FileKind {
    /// A config file.
    Config,
    /// A file of rules.
    Rules,
}

/// What a sound file has in it, for people.
#[derive(Debug, PartialEq, Eq)]
pub struct Sound {
    kind: FileKind,
    rules: usize,
}

impl fmt::Display for Sound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            FileKind::Config => "a sound config file",
            FileKind::Rules => "sound",
        };
        let plural = if self.rules == 1 { "" } else { "s" };
        write!(f, "{kind}, {} rule{plural}", self.rules)
    }
}

/// Checks one file, or a directory of rule files, as [`load`] would. Secrets'
/// files need not be there.
///
/// # Errors
/// Everything that is wrong.
pub fn validate(
    path: &Path,
    kind: Option<FileKind>,
    surroundings: &Surroundings,
) -> Result<Sound, Vec<Fault>> {
    let mut sources = rule_sources(path).map_err(|fault| vec![fault])?;
    let kind = match (kind, sources.as_slice()) {
        (Some(kind), _) => kind,
        (None, [source]) if !path.is_dir() => kind_of(source),
        (None, _) => FileKind::Rules,
    };
    if kind == FileKind::Config
        && let Some(source) = sources.pop()
    {
        let name = path.display().to_string();
        let config = resolve(
            source,
            name,
            Vec::new(),
            surroundings,
            &mut Patience::of(Nanos::ZERO),
        )?;
        sources = config.sources;
    }
    Ok(Sound {
        kind,
        rules: sources.len(),
    })
}

/// A file with settings in it is a config file; any other, even a broken one, is
/// a file of rules.
fn kind_of(source: &Source) -> FileKind {
    let entries = file::entries(&source.name, &source.text, source.format).unwrap_or_default();
    if entries.iter().any(|entry| Key::named(&entry.key).is_some()) {
        FileKind::Config
    } else {
        FileKind::Rules
    }
}
