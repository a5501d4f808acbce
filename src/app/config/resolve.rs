//! From what was written, in three places, to the settings.

use std::collections::HashMap;

use super::fault::{Fault, Place, nearest};
use super::file::{Element, Entry, Written};
use super::keys::{KEYS, Key, Set};
use super::load::is_of_rules;
use super::settings::{RulesFrom, Settings, Surroundings};
use super::value::{Scalar, ValueError};
use crate::rules::FILE_FIELDS;

/// The values of one setting from a flag or an environment variable.
#[derive(Clone)]
pub struct Given {
    key: &'static Key,
    place: Place,
    values: Vec<Scalar>,
}

impl Given {
    /// Values of `key` from its flag.
    pub fn by_flag(key: &'static Key, values: impl IntoIterator<Item = String>) -> Given {
        Given::at(Place::Flag(key.flag), key, values)
    }

    /// The value of `key` from its environment variable: a list is separated by
    /// commas. `None` if it is empty, which is the same as not set.
    pub fn by_variable(key: &'static Key, value: &str) -> Option<Given> {
        let place = Place::Variable(key.variable);
        match value {
            "" => None,
            list if key.is_list() => Some(Given::at(
                place,
                key,
                list.split(',').map(|item| item.trim().to_owned()),
            )),
            one => Some(Given::at(place, key, [one.to_owned()])),
        }
    }

    fn at(place: Place, key: &'static Key, values: impl IntoIterator<Item = String>) -> Given {
        let scalar = |text| Scalar::text(text, place.clone());
        Given {
            key,
            values: values.into_iter().map(scalar).collect(),
            place,
        }
    }
}

/// The text of each setting, as it was written or by default.
pub(in crate::app) type WrittenSettings = Vec<(&'static str, Vec<String>)>;

/// What was written at each key; whatever takes precedence wins.
#[derive(Default)]
pub(super) struct Layers {
    written: HashMap<&'static str, Given>,
}

impl Layers {
    /// Adds the entries of a file; the rules among them are for others to read.
    pub(super) fn file(&mut self, entries: Vec<Entry>, faults: &mut Vec<Fault>) {
        for entry in entries {
            if is_of_rules(&entry.key) {
                continue;
            }
            let Some(key) = Key::named(&entry.key) else {
                let names = KEYS.iter().map(|key| key.name).chain(FILE_FIELDS);
                faults.push(Fault::UnknownKey {
                    place: entry.place,
                    nearest: nearest(&entry.key, names),
                    key: entry.key,
                });
                continue;
            };
            let mut wrong = |place, error| {
                faults.push(Fault::Value {
                    place,
                    key: key.name,
                    error,
                });
            };
            let values = match entry.written {
                Written::Null => continue,
                Written::One(scalar) => vec![scalar],
                Written::Map => {
                    wrong(entry.place, ValueError::Map(key.value));
                    continue;
                }
                Written::List(_) if !key.is_list() => {
                    wrong(entry.place, ValueError::List);
                    continue;
                }
                Written::List(elements) => elements
                    .into_iter()
                    .filter_map(|element| match element {
                        Element::Scalar(scalar) => Some(scalar),
                        Element::Nested(place) => {
                            wrong(place, ValueError::Map(key.value));
                            None
                        }
                    })
                    .collect(),
            };
            self.add(Given {
                key,
                place: entry.place,
                values,
            });
        }
    }

    /// Adds a flag's or a variable's values, over what is there.
    pub(super) fn add(&mut self, given: Given) {
        self.written.insert(given.key.name, given);
    }

    /// Where the value of `key` was written.
    fn place(&self, key: &str) -> Place {
        self.written
            .get(key)
            .map_or(Place::Default, |given| given.place.clone())
    }

    fn is_given(&self, key: &str) -> bool {
        self.written.contains_key(key)
    }

    /// Whether the rules' files come from a flag or a variable, and so replace
    /// all rules of the config file.
    pub(super) fn rules_are_replaced(&self) -> bool {
        matches!(self.place(RULES_FILES), Place::Flag(_) | Place::Variable(_))
    }

    /// All settings, as they were written. Where somebody wrote the default, it is the same
    /// as leaving it out.
    pub(super) fn written(&self) -> WrittenSettings {
        let text = |key: &'static Key| match self.written.get(key.name) {
            Some(given) => given.values.iter().map(|v| v.text.clone()).collect(),
            None => key.default.iter().map(|&v| v.to_owned()).collect(),
        };
        KEYS.iter().map(|key| (key.name, text(key))).collect()
    }

    /// Reads all values. With a fault, the settings are not fit for use.
    pub(super) fn settings(
        &self,
        surroundings: &Surroundings,
        faults: &mut Vec<Fault>,
    ) -> Settings {
        let mut settings = Settings::blank(surroundings);
        for key in KEYS {
            let default = Given::at(
                Place::Default,
                key,
                key.default.iter().map(|&v| v.to_owned()),
            );
            let given = self.written.get(key.name).unwrap_or(&default);
            let (Set::One(set) | Set::Each(set)) = key.set;
            for value in &given.values {
                if let Err(error) = set(&mut settings, value) {
                    faults.push(Fault::Value {
                        place: value.place.clone(),
                        key: key.name,
                        error,
                    });
                }
            }
        }
        self.check_admin(&settings, faults);
        self.check_rules_from(&settings, faults);
        self.order_paces(&mut settings, faults);
        settings
    }

    fn check_admin(&self, settings: &Settings, faults: &mut Vec<Fault>) {
        if settings.admin_token_file.is_some() {
            return;
        }
        for address in settings.admin.iter().filter(|admin| !admin.is_local()) {
            faults.push(Fault::Value {
                place: self.place("admin"),
                key: "admin",
                error: ValueError::AdminWithoutToken(address.to_string()),
            });
        }
    }

    fn check_rules_from(&self, settings: &Settings, faults: &mut Vec<Fault>) {
        if settings.store.is_none() && settings.rules_from.contains(&RulesFrom::Store) {
            faults.push(Fault::Value {
                place: self.place("rules_from"),
                key: "rules_from",
                error: ValueError::RulesWithoutStore,
            });
        }
    }

    /// The least and the longest pace give way to the interval, unless somebody
    /// wrote them.
    fn order_paces(&self, settings: &mut Settings, faults: &mut Vec<Fault>) {
        let pace = &mut settings.pace;
        let mut wrong = |key: &'static str, given, other, limit| {
            faults.push(Fault::Value {
                place: self.place(key),
                key,
                error: ValueError::PaceOrder {
                    given,
                    other,
                    limit,
                },
            });
        };
        if pace.min_interval > pace.interval {
            if self.is_given("sync_min_interval") {
                wrong(
                    "sync_min_interval",
                    pace.min_interval,
                    "sync_interval",
                    pace.interval,
                );
            } else {
                pace.min_interval = pace.interval;
            }
        }
        if pace.max_interval < pace.interval {
            if self.is_given("sync_max_interval") {
                wrong(
                    "sync_max_interval",
                    pace.max_interval,
                    "sync_interval",
                    pace.interval,
                );
            } else {
                pace.max_interval = pace.interval;
            }
        }
    }
}

const RULES_FILES: &str = "rules_files";
