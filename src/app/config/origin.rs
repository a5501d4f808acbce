//! Where a configuration comes from, so that it can be read anew.

use std::path::{Path, PathBuf};

use super::fault::Fault;
use super::load::{self, Config, DEFAULT_FILE};
use super::patience::Patience;
use super::reading::Reading;
use super::resolve::Given;
use super::settings::Surroundings;
use crate::rules::{Defaults, Format, Source};
use crate::units::Nanos;

/// The same file, for a working directory that has none.
const BUILT_IN: &str = include_str!("../../../config/tidegate.yaml");

/// The config file, and what was given over it.
#[derive(Clone)]
pub struct Origin {
    config: Option<PathBuf>,
    given: Vec<Given>,
    surroundings: Surroundings,
    reading: Reading,
}

impl Origin {
    /// A configuration from `config`, else `config/tidegate.yaml` if there is one, else
    /// the same file as it was built in; over it `given`.
    pub fn new(config: Option<PathBuf>, given: Vec<Given>, surroundings: Surroundings) -> Origin {
        Origin {
            config,
            given,
            surroundings,
            reading: Reading::default(),
        }
    }

    /// Reads it. Files that are not there may yet appear for as long as `wait`, all in all.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(&mut self, wait: Nanos) -> Result<Config, Vec<Fault>> {
        self.read(Patience::of(wait), None)
    }

    /// Reads it anew, for a daemon that was started with `defaults`: these stay.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(in crate::app) fn reload(&mut self, defaults: &Defaults) -> Result<Config, Vec<Fault>> {
        self.read(Patience::of(Nanos::ZERO), Some(defaults))
    }

    /// What the last reading found, whether or not it could be used.
    pub(in crate::app) fn reading(&self) -> &Reading {
        &self.reading
    }

    fn read(
        &mut self,
        mut patience: Patience,
        defaults: Option<&Defaults>,
    ) -> Result<Config, Vec<Fault>> {
        self.reading = match defaults {
            Some(_) => Reading::anew(),
            None => Reading::default(),
        };
        let default = Path::new(DEFAULT_FILE);
        if let Some(path) = &self.config {
            patience.until_there(path).map_err(|fault| vec![fault])?;
        } else if default.exists() {
            // From now on it must be there: its absence is no wish for the built-in one.
            self.config = Some(default.to_owned());
        }
        let (source, file) = match &self.config {
            Some(path) => (self.reading.file(path), path.display().to_string()),
            None => {
                let _not_there = self.reading.file(default);
                (Ok(built_in()), format!("the built-in {DEFAULT_FILE}"))
            }
        };
        let source = source.map_err(|fault| vec![fault])?;
        load::config(
            source,
            file,
            self.given.clone(),
            &self.surroundings,
            &mut patience,
            defaults,
            &mut self.reading,
        )
    }
}

fn built_in() -> Source {
    Source {
        name: DEFAULT_FILE.to_owned(),
        text: BUILT_IN.to_owned(),
        format: Format::Yaml,
    }
}
