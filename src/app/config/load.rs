//! Reading the files.

use std::fmt;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use super::fault::Fault;
use super::file;
use super::keys::Key;
use super::patience::Patience;
use super::resolve::{Given, Layers};
use super::settings::{Settings, Surroundings};
use crate::app::secrets;
use crate::rules::{self, Compiled, Defaults, FILE_FIELDS, Format, RuleSet, Source};
use crate::units::{KeySecret, Nanos};

/// The config file that is read where none is named.
pub(super) const DEFAULT_FILE: &str = "config/tidegate.yaml";

/// The same file, for a working directory that has none.
const BUILT_IN: &str = include_str!("../../../config/tidegate.yaml");

/// A configuration that can be served.
#[derive(Debug)]
pub struct Config {
    /// The settings.
    pub settings: Settings,
    /// The rules.
    pub rules: RuleSet,
    /// The secret that the rules' keys are made with.
    pub secret: KeySecret,
    /// What the operator may not have meant.
    pub warnings: Vec<rules::Fault>,
    /// The config file, for people.
    pub file: String,
    /// Where the rules are written, for people: the config file, or the files that
    /// replace its rules.
    pub rules_from: String,
}

/// Reads the configuration: `config`, else `config/tidegate.yaml` if there is one,
/// else the same file as it was built in; over it `given`. Files that are not there
/// may yet appear for as long as `wait`, all in all.
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
                name: DEFAULT_FILE.to_owned(),
                text: BUILT_IN.to_owned(),
                format: Format::Yaml,
            }),
            format!("the built-in {DEFAULT_FILE}"),
        ),
    };
    let source = source.map_err(|fault| vec![fault])?;
    resolve(
        source,
        given,
        surroundings,
        &mut patience,
        secrets::key_secret,
    )
    .map(|resolved| Config {
        settings: resolved.settings,
        rules: resolved.compiled.rules,
        secret: resolved.secret,
        warnings: resolved.compiled.warnings,
        rules_from: resolved.rules_from.unwrap_or_else(|| name.clone()),
        file: name,
    })
}

struct Resolved {
    settings: Settings,
    compiled: Compiled,
    secret: KeySecret,
    /// The files that replace the rules of the config file.
    rules_from: Option<String>,
}

/// From the text of a config file to settings and rules. Faults are in the order
/// of the file, after those of flags and variables.
fn resolve(
    source: Source,
    given: Vec<Given>,
    surroundings: &Surroundings,
    patience: &mut Patience,
    secret: impl FnOnce(&Settings) -> Result<KeySecret, Fault>,
) -> Result<Resolved, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut layers = Layers::default();
    let mut with_rules = false;
    match file::entries(&source) {
        Ok(entries) => {
            with_rules = entries.iter().any(|entry| is_of_rules(&entry.key));
            layers.file(entries, &mut faults);
        }
        Err(broken) => faults.extend(broken),
    }
    for given in given {
        layers.add(given);
    }
    let settings = layers.settings(surroundings, &mut faults);
    let secret = secret(&settings).unwrap_or_else(|fault| {
        faults.push(fault);
        KeySecret::public()
    });
    let mut sources = Vec::new();
    for path in &settings.rules_files {
        match patience.until_there(path).and_then(|()| rule_sources(path)) {
            Ok(found) => sources.extend(found),
            Err(fault) => faults.push(fault),
        }
    }
    let inline = Some(&source).filter(|_| with_rules && !layers.rules_are_replaced());
    let defaults = Defaults {
        pace: settings.pace,
        secret: secret.clone(),
    };
    let compiled = RuleSet::compile_with(inline, &sources, &defaults).unwrap_or_else(|broken| {
        faults.extend(broken.0.into_iter().map(Fault::from));
        Compiled::default()
    });
    if faults.is_empty() {
        let files = settings.rules_files.iter();
        let files: Vec<String> = files.map(|path| path.display().to_string()).collect();
        let replaced = layers.rules_are_replaced();
        return Ok(Resolved {
            settings,
            compiled,
            secret,
            rules_from: replaced.then(|| files.join(", ")),
        });
    }
    faults.sort_by_key(Fault::at);
    Err(faults)
}

/// Whether a key of a config file is for the rules to read.
pub(super) fn is_of_rules(key: &str) -> bool {
    FILE_FIELDS.contains(&key)
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
    let text = String::from_utf8(read_bounded(path)?).map_err(|_| Fault::Unreadable {
        path: path.to_owned(),
        source: std::io::ErrorKind::InvalidData.into(),
    })?;
    Ok(Source {
        name: path.display().to_string(),
        text,
        format,
    })
}

/// No file of settings, rules or secrets is longer.
const MAX_FILE: u64 = 16 * 1_024 * 1_024;

/// The bytes of a file.
///
/// # Errors
/// [`Fault`] if it cannot be read, or does not end where a file of ours must.
pub(in crate::app) fn read_bounded(path: &Path) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path);
    let read = file.and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
    match read {
        Ok(length) if length as u64 > MAX_FILE => Err(Fault::TooLong(path.to_owned())),
        Ok(_) => Ok(bytes),
        Err(source) => Err(Fault::Unreadable {
            path: path.to_owned(),
            source,
        }),
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

/// What a sound file has in it.
#[derive(Debug)]
pub struct Sound {
    kind: FileKind,
    rules: usize,
    /// What its author may not have meant.
    pub warnings: Vec<rules::Fault>,
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

/// Checks one file, or a directory of rule files, as [`load`] would. The files of
/// secrets need not be there.
///
/// # Errors
/// Everything that is wrong.
pub fn validate(
    path: &Path,
    kind: Option<FileKind>,
    surroundings: &Surroundings,
) -> Result<Sound, Vec<Fault>> {
    let (kind, compiled) = compile(path, kind, surroundings)?;
    Ok(Sound {
        kind,
        rules: rule_names(&compiled.rules).len(),
        warnings: compiled.warnings,
    })
}

/// The rules of one file, a config file or a rule file, or of a directory of rule
/// files. The files of secrets need not be there: the keys are made with the public one.
///
/// # Errors
/// Everything that is wrong.
pub fn rules_of(path: &Path, surroundings: &Surroundings) -> Result<RuleSet, Vec<Fault>> {
    compile(path, None, surroundings).map(|(_, compiled)| compiled.rules)
}

fn compile(
    path: &Path,
    kind: Option<FileKind>,
    surroundings: &Surroundings,
) -> Result<(FileKind, Compiled), Vec<Fault>> {
    let mut sources = rule_sources(path).map_err(|fault| vec![fault])?;
    let kind = match (kind, sources.as_slice()) {
        (Some(kind), _) => kind,
        (None, [source]) if !path.is_dir() => kind_of(source),
        (None, _) => FileKind::Rules,
    };
    let compiled = match (kind, sources.pop()) {
        (FileKind::Config, Some(source)) => {
            let public = |_: &Settings| Ok(KeySecret::public());
            let mut patience = Patience::of(Nanos::ZERO);
            resolve(source, Vec::new(), surroundings, &mut patience, public)?.compiled
        }
        (_, last) => {
            sources.extend(last);
            let defaults = Defaults {
                pace: Default::default(),
                secret: KeySecret::public(),
            };
            RuleSet::compile(&sources, &defaults)
                .map_err(|broken| broken.0.into_iter().map(Fault::from).collect::<Vec<_>>())?
        }
    };
    Ok((kind, compiled))
}

/// The names of the rules, each once, in their order.
pub fn rule_names(rules: &RuleSet) -> Vec<&str> {
    let mut names: Vec<&str> = rules.limits().iter().map(|limit| &*limit.rule).collect();
    names.dedup();
    names
}

/// A file with settings in it is a config file; any other, even a broken one, is
/// a file of rules.
fn kind_of(source: &Source) -> FileKind {
    let entries = file::entries(source).unwrap_or_default();
    if entries.iter().any(|entry| Key::named(&entry.key).is_some()) {
        FileKind::Config
    } else {
        FileKind::Rules
    }
}
