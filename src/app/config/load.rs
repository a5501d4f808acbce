//! Reading the files.

use std::fmt;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use super::fault::{Fault, Place};
use super::file;
use super::keys::Key;
use super::origin::Origin;
use super::patience::Patience;
use super::reading::Reading;
use super::resolve::{Given, Layers, WrittenSettings};
use super::settings::{Settings, Surroundings};
use crate::app::digest::Digest;
use crate::app::secrets;
use crate::rules::{self, Compiled, Defaults, FILE_FIELDS, Node, RuleSet, Source, Value};
use crate::units::{KeySecret, Nanos};

/// The config file that is read where none is named.
pub(super) const DEFAULT_FILE: &str = "config/tidegate.yaml";

/// A configuration that can be served.
#[derive(Debug)]
pub struct Config {
    /// The settings.
    pub settings: Settings,
    /// The rules.
    pub rules: RuleSet,
    /// What holds where rules say nothing, and the secret that their keys are made with.
    pub defaults: Defaults,
    /// What the operator may not have meant.
    pub warnings: Vec<rules::Fault>,
    /// The config file, for people.
    pub file: String,
    /// Where the rules are written, for people: the config file, or the files that
    /// replace its rules.
    pub rules_from: String,
    /// Of the texts that the rules were compiled from.
    pub digest: Digest,
    /// Each setting as it was written, to see whether it has changed. Never shown: there
    /// may be a password among them.
    pub(in crate::app) written: WrittenSettings,
}

/// Reads the configuration, once: see [`Origin`].
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(
    config: Option<&Path>,
    given: Vec<Given>,
    surroundings: &Surroundings,
    wait: Nanos,
) -> Result<Config, Vec<Fault>> {
    Origin::new(config.map(Path::to_owned), given, surroundings.clone()).load(wait)
}

/// The configuration in `source`, a config file which people know as `name`. `defaults`
/// are those of a daemon that was started before.
pub(super) fn config(
    source: Source,
    name: String,
    given: Vec<Given>,
    surroundings: &Surroundings,
    patience: &mut Patience,
    defaults: Option<&Defaults>,
    reading: &mut Reading,
) -> Result<Config, Vec<Fault>> {
    let mut other_secret = false;
    let defaults = |settings: &Settings| {
        let secret = secrets::key_secret(settings);
        match defaults {
            Some(defaults) => {
                other_secret = secret.is_ok_and(|secret| secret != defaults.secret);
                Ok(defaults.clone())
            }
            None => Ok(Defaults {
                pace: settings.pace,
                secret: secret?,
            }),
        }
    };
    let resolved = resolve(source, given, surroundings, patience, defaults, reading)?;
    let mut written = resolved.written;
    if other_secret {
        let secret = written
            .iter_mut()
            .filter(|(key, _)| *key == "key_secret_file");
        secret.for_each(|(_, values)| values.push("with something else in it".to_owned()));
    }
    Ok(Config {
        settings: resolved.settings,
        rules: resolved.compiled.rules,
        defaults: resolved.defaults,
        warnings: resolved.compiled.warnings,
        rules_from: resolved.rules_from.unwrap_or_else(|| name.clone()),
        file: name,
        digest: resolved.digest,
        written,
    })
}

struct Resolved {
    settings: Settings,
    compiled: Compiled,
    defaults: Defaults,
    /// The files that replace the rules of the config file.
    rules_from: Option<String>,
    digest: Digest,
    written: WrittenSettings,
}

/// From the text of a config file to settings and rules. Faults are in the order
/// of the file, after those of flags and variables.
fn resolve(
    source: Source,
    given: Vec<Given>,
    surroundings: &Surroundings,
    patience: &mut Patience,
    defaults: impl FnOnce(&Settings) -> Result<Defaults, Fault>,
    reading: &mut Reading,
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
    let defaults = defaults(&settings).unwrap_or_else(|fault| {
        faults.push(fault);
        unknown_defaults()
    });
    let mut sources = Vec::new();
    for path in &settings.rules_files {
        let there = patience.until_there(path);
        match there.and_then(|()| reading.files(path)) {
            Ok(found) => sources.extend(found),
            Err(fault) => faults.push(fault),
        }
    }
    let inline = Some(&source).filter(|_| with_rules && !layers.rules_are_replaced());
    let digest = Digest::of(inline.into_iter().chain(&sources));
    let mut named = Vec::new();
    let compiled = RuleSet::compile_with(inline, &sources, &defaults, &mut named);
    reading.beside(&named);
    let compiled = compiled.unwrap_or_else(|broken| {
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
            defaults,
            digest,
            written: layers.written(),
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
pub fn rules_of(
    path: &Path,
    kind: Option<FileKind>,
    surroundings: &Surroundings,
) -> Result<RuleSet, Vec<Fault>> {
    compile(path, kind, surroundings).map(|(_, compiled)| compiled.rules)
}

fn compile(
    path: &Path,
    kind: Option<FileKind>,
    surroundings: &Surroundings,
) -> Result<(FileKind, Compiled), Vec<Fault>> {
    let mut reading = Reading::default();
    let mut sources = reading.files(path).map_err(|fault| vec![fault])?;
    let kind = match (kind, sources.as_slice()) {
        (Some(kind), _) => kind,
        (None, [source]) if !path.is_dir() => kind_of(source),
        (None, _) => FileKind::Rules,
    };
    let compiled = match (kind, sources.pop()) {
        (FileKind::Config, Some(source)) => {
            let public = |_: &Settings| Ok(unknown_defaults());
            let mut patience = Patience::of(Nanos::ZERO);
            let given = Vec::new();
            resolve(
                source,
                given,
                surroundings,
                &mut patience,
                public,
                &mut reading,
            )?
            .compiled
        }
        (_, last) => {
            sources.extend(last);
            RuleSet::compile(&sources, &unknown_defaults())
                .map_err(|broken| broken.0.into_iter().map(Fault::from).collect::<Vec<_>>())?
        }
    };
    Ok((kind, compiled))
}

/// Rule files that may be put into the store for the whole fleet.
#[derive(Debug)]
pub(in crate::app) struct Shareable {
    pub(in crate::app) sources: Vec<Source>,
    pub(in crate::app) rules: usize,
    pub(in crate::app) warnings: Vec<rules::Fault>,
}

/// Reads and checks one rule file, or a directory of them, for the whole fleet.
///
/// # Errors
/// Everything that is wrong, and what is no business of others: settings, and keys in clear.
pub(in crate::app) fn shareable(path: &Path) -> Result<Shareable, Vec<Fault>> {
    let read = Reading::default().files(path);
    let sources = read.map_err(|fault| vec![fault])?;
    let private: Vec<Fault> = sources.iter().flat_map(private).collect();
    if !private.is_empty() {
        return Err(private);
    }
    let compiled = RuleSet::compile(&sources, &unknown_defaults())
        .map_err(|broken| broken.0.into_iter().map(Fault::from).collect::<Vec<_>>())?;
    Ok(Shareable {
        sources,
        rules: rule_names(&compiled.rules).len(),
        warnings: compiled.warnings,
    })
}

/// What must not be told to others.
fn private(source: &Source) -> Vec<Fault> {
    let file: Arc<str> = source.name.as_str().into();
    // What breaks its format is told by the compiler.
    let fields = rules::top_level(source).unwrap_or_default();
    let faults = fields.into_iter().filter_map(|(key, at, node)| {
        let place = Place::File {
            file: Arc::clone(&file),
            at,
        };
        if Key::named(&key).is_some() {
            return Some(Fault::Setting { place, key });
        }
        let in_clear = key == "api_keys" && has_key(&node);
        in_clear.then_some(Fault::KeyInClear { place })
    });
    faults.collect()
}

/// Whether a `key` is written anywhere below.
fn has_key(node: &Node) -> bool {
    match &node.value {
        Value::List(items) => items.iter().any(has_key),
        Value::Map(map) => map
            .iter()
            .any(|(name, node)| name.text.as_deref() == Ok("key") || has_key(node)),
        _ => false,
    }
}

/// The defaults of rules that are only looked at.
fn unknown_defaults() -> Defaults {
    Defaults {
        pace: Default::default(),
        secret: KeySecret::public(),
    }
}

/// The names of the rules, each once, in their order.
pub fn rule_names(rules: &RuleSet) -> Vec<&str> {
    rules.names().collect()
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
