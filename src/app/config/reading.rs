//! What was read, to see later whether it has changed.

use std::fs;
use std::hash::Hasher as _;
use std::path::{Path, PathBuf};

use siphasher::sip::SipHasher13;

use super::fault::Fault;
use super::load::read_bounded;
use crate::rules::{Format, Source};

/// The files and directories that a configuration was read from, and what was in them.
#[derive(Clone, Debug, Default)]
pub(in crate::app) struct Reading {
    places: Vec<PathBuf>,
    /// Each file, and the hash of its bytes; `None` for what could not be read.
    found: Vec<(PathBuf, Option<u64>)>,
    /// Whether it is not the first: what can be read only once is not read.
    anew: bool,
}

/// Two are equal if they found the same at the same places.
impl PartialEq for Reading {
    fn eq(&self, other: &Reading) -> bool {
        self.places == other.places && self.found == other.found
    }
}

impl Reading {
    /// A reading of what was read before.
    pub(super) fn anew() -> Reading {
        Reading {
            anew: true,
            ..Reading::default()
        }
    }

    /// Reads one file.
    ///
    /// # Errors
    /// [`Fault`] if it cannot be read, or its name does not say its format.
    pub(super) fn file(&mut self, path: &Path) -> Result<Source, Fault> {
        if is_stream(path) {
            // It does not come again, and there is nothing to look at.
            if self.anew {
                return Err(Fault::ReadOnce(path.to_owned()));
            }
            return source(path, read_bounded(path));
        }
        self.places.push(path.to_owned());
        self.read(path)
    }

    /// Reads the rule file `path`, or every one in the directory `path`, by name.
    /// Hidden files are passed over: a mounted ConfigMap keeps its versions in them.
    ///
    /// # Errors
    /// [`Fault`] as [`Reading::file`], and for a directory without rule files.
    pub(super) fn files(&mut self, path: &Path) -> Result<Vec<Source>, Fault> {
        if !path.is_dir() {
            return self.file(path).map(|source| vec![source]);
        }
        self.places.push(path.to_owned());
        let paths = rule_files(path).inspect_err(|_| self.found.push((path.to_owned(), None)))?;
        paths.iter().map(|path| self.read(path)).collect()
    }

    /// Takes note of `files`, which were read because the rules name them.
    pub(in crate::app) fn beside(&mut self, files: &[PathBuf]) {
        for path in files {
            // A pipe is empty by now; reading it would wait for another writer.
            if !is_stream(path) && !self.places.contains(path) {
                self.places.push(path.clone());
                // It need not be a file of rules, nor be there.
                let _fault = self.read(path);
            }
        }
    }

    /// What the same places hold now.
    pub(in crate::app) fn again(&self) -> Reading {
        let mut now = Reading::anew();
        for place in &self.places {
            // What is wrong there is told by whoever reads it in earnest.
            let _fault = now.files(place);
        }
        now
    }

    /// The directories in which a change of what was read shows.
    pub(in crate::app) fn directories(&self) -> Vec<PathBuf> {
        let mut directories = Vec::new();
        for place in &self.places {
            let parent = place
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            directories.push(parent.unwrap_or(Path::new(".")).to_owned());
            if place.is_dir() {
                directories.push(place.clone());
            }
        }
        directories.sort();
        directories.dedup();
        directories
    }

    fn read(&mut self, path: &Path) -> Result<Source, Fault> {
        let read = read_bounded(path);
        let hash = read.as_ref().ok().map(|bytes| {
            let mut hasher = SipHasher13::new();
            hasher.write(bytes);
            hasher.finish()
        });
        self.found.push((path.to_owned(), hash));
        source(path, read)
    }
}

/// A pipe, say: neither a file nor a directory.
fn is_stream(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn source(path: &Path, read: Result<Vec<u8>, Fault>) -> Result<Source, Fault> {
    // One that is not there has no need of another name.
    let bytes = read?;
    let format = Format::of(path).ok_or_else(|| Fault::UnknownFormat(path.to_owned()))?;
    let text = String::from_utf8(bytes).map_err(|_| Fault::Unreadable {
        path: path.to_owned(),
        source: std::io::ErrorKind::InvalidData.into(),
    })?;
    Ok(Source {
        name: path.display().to_string(),
        text,
        format,
    })
}

/// The rule files in a directory, by name.
fn rule_files(directory: &Path) -> Result<Vec<PathBuf>, Fault> {
    let unreadable = |source| Fault::Unreadable {
        path: directory.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let hidden = name.starts_with(b".");
        if !hidden && Format::of(&path).is_some() && path.is_file() {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(Fault::NoRuleFiles(directory.to_owned()));
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_reading_is_the_same_until_something_in_it_changes() {
        let temp = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| fs::write(temp.path().join(name), text).unwrap();
        file("a.yaml", "rules: []");
        let mut reading = Reading::default();
        reading.files(temp.path()).unwrap();
        file("a.yaml~", "an editor's copy");
        file(".a.yaml.swp", "an editor's notes");
        file("#a.yaml#", "what another editor has not saved");
        file("4913", "");
        file("a.txt", "a note");
        assert!(reading.again() == reading);
        file("a.yaml", "rules: [ ]");
        assert!(reading.again() != reading);
        file("a.yaml", "rules: []");
        assert!(reading.again() == reading);
        file("b.yaml", "");
        assert!(reading.again() != reading);
        fs::remove_file(temp.path().join("b.yaml")).unwrap();
        fs::remove_file(temp.path().join("a.yaml")).unwrap();
        assert!(reading.again() != reading);
    }

    #[test]
    fn a_link_turned_to_another_version_is_a_change_of_what_it_leads_to() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        for (version, text) in [("..1", "rules: []"), ("..2", "rules: [ ]")] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("a.yaml"), text).unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/a.yaml", at("a.yaml")).unwrap();
        let mut reading = Reading::default();
        reading.files(temp.path()).unwrap();
        symlink("..2", at("..data_tmp")).unwrap();
        assert!(reading.again() == reading);
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        assert!(reading.again() != reading);
    }

    #[test]
    fn a_pipe_is_read_once_and_never_waited_for_again() {
        let temp = tempfile::tempdir().unwrap();
        let pipe = temp.path().join("pipe.yaml");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let writing = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::write(pipe, "rules: []")
        });
        let mut reading = Reading::default();
        assert_eq!(reading.file(&pipe).unwrap().text, "rules: []");
        writing.join().unwrap().unwrap();
        assert!(reading.again() == reading);
        let refused = Reading::anew().file(&pipe).unwrap_err();
        assert!(matches!(refused, Fault::ReadOnce(_)), "{refused}");
    }

    #[test]
    fn changes_of_a_file_show_in_its_directory_and_of_a_directory_in_both() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("a.yaml"), "rules: []").unwrap();
        let mut reading = Reading::default();
        reading.files(temp.path()).unwrap();
        reading.file(Path::new("config.yaml")).unwrap_err();
        let parent = temp.path().parent().unwrap();
        let want = [parent, temp.path(), Path::new(".")];
        assert_eq!(reading.directories(), want);
    }
}
