//! What the machine says: who we are, where sockets may lie, what the host is called.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit, setrlimit};

use super::config::{RuntimeDir, Surroundings};

/// Reads the surroundings of this process.
pub(super) fn of_this_process() -> Surroundings {
    let directory = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let runtime_dir = match directory("RUNTIME_DIRECTORY") {
        Some(ours) => PathBuf::from(ours),
        None => {
            let parent = directory("XDG_RUNTIME_DIR").unwrap_or_else(|| "/tmp".into());
            let user = rustix::process::geteuid().as_raw();
            Path::new(&parent).join(format!("tidegate-{user}"))
        }
    };
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    Surroundings {
        runtime_dir,
        host: name_of(&host),
    }
}

/// The host's name in the letters that a node's name may have.
fn name_of(host: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String = host.chars().filter(|c| safe(*c)).take(64).collect();
    if name.is_empty() {
        "node".to_owned()
    } else {
        name
    }
}

/// Raises this process's limit of open files, and so of connections, as far as it
/// may. Where it may not, the server makes do with what there is.
pub(super) fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit of open files stays");
    }
}

/// Why the runtime directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum RuntimeDirError {
    /// It cannot be made.
    #[error(
        "cannot make the runtime directory {}: {source}; make it, or name another one with \
         --runtime-dir", path.display()
    )]
    Unmade {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be looked at.
    #[error("cannot look at the runtime directory {}: {source}", path.display())]
    Unseen {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else could put a socket of theirs into it.
    #[error(
        "{} is not a directory that this user alone can write to; \
         remove it, or name another one with --runtime-dir", .0.display()
    )]
    NotOurs(PathBuf),
}

/// Makes the runtime directory if it is missing, for this user alone. One that
/// nobody named must not be another user's: its path can be guessed.
///
/// # Errors
/// [`RuntimeDirError`]; nothing was changed but for a directory made.
pub(super) fn make(directory: &RuntimeDir) -> Result<(), RuntimeDirError> {
    let path = directory.path();
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(source) => {
            let path = path.to_owned();
            return Err(RuntimeDirError::Unmade { path, source });
        }
    }
    if let RuntimeDir::Given(_) = directory {
        let source = io::ErrorKind::NotADirectory.into();
        let path = path.to_owned();
        let unmade = RuntimeDirError::Unmade { path, source };
        return if directory.path().is_dir() {
            Ok(())
        } else {
            Err(unmade)
        };
    }
    // Not followed: a link could be turned elsewhere after the look.
    let found = fs::symlink_metadata(path).map_err(|source| RuntimeDirError::Unseen {
        path: path.to_owned(),
        source,
    })?;
    let ours = found.is_dir()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.mode() & 0o022 == 0;
    if ours {
        Ok(())
    } else {
        Err(RuntimeDirError::NotOurs(path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_directory_is_made_for_this_user_alone_and_taken_again() {
        let temp = tempfile::tempdir().unwrap();
        let directory = RuntimeDir::Automatic(temp.path().join("tidegate"));
        make(&directory).unwrap();
        make(&directory).unwrap();
        let mode = fs::metadata(directory.path()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_guessed_directory_that_others_can_write_to_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("tidegate");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(
            make(&RuntimeDir::Automatic(path.clone())),
            Err(RuntimeDirError::NotOurs(_))
        ));
        assert!(make(&RuntimeDir::Given(path)).is_ok());
    }

    #[test]
    fn a_guessed_directory_that_is_a_link_or_a_file_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let (link, file) = (temp.path().join("link"), temp.path().join("file"));
        symlink(temp.path(), &link).unwrap();
        fs::write(&file, "").unwrap();
        for path in [link, file] {
            assert!(matches!(
                make(&RuntimeDir::Automatic(path)),
                Err(RuntimeDirError::NotOurs(_))
            ));
        }
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_told_so() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("missing/tidegate");
        let said = make(&RuntimeDir::Given(path.clone())).unwrap_err();
        let begins = format!("cannot make the runtime directory {}: ", path.display());
        assert!(said.to_string().starts_with(&begins), "{said}");
        let file = temp.path().join("file");
        fs::write(&file, "").unwrap();
        let said = make(&RuntimeDir::Given(file)).unwrap_err().to_string();
        assert!(said.contains("/file: not a directory; "), "{said}");
    }

    #[test]
    fn a_strange_host_name_still_names_a_node() {
        assert_eq!(name_of("web-1.example"), "web-1.example");
        assert_eq!(name_of("wëb 1"), "wb1");
        assert_eq!(name_of("..."), "...");
        assert_eq!(name_of("ö"), "node");
    }
}
