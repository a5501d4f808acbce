//! Sockets in the file system: with the right mode from the first instant, in place
//! of what a dead process left behind, and never in place of anything else.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use socket2::{Domain, SockAddr, Socket, Type};

use super::ServerError;
use super::address::MAX_SOCKET_PATH;

/// The file of a socket that this process listens on. Dropped, it is removed, if
/// the path still leads to it.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: Identity,
}

/// Device and inode: two names of one file agree in them.
type Identity = (u64, u64);

/// Listens on `path`, with the permissions `mode`.
pub(super) fn bind(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), ServerError> {
    let len = path.as_os_str().len();
    if len > MAX_SOCKET_PATH {
        return Err(ServerError::PathTooLong(len, path.into()));
    }
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Err(ServerError::NotASocket(path.into())),
    };
    if !parent.is_dir() {
        return Err(ServerError::NoDirectory(parent.into()));
    }
    let failed = |source| ServerError::Bind {
        address: format!("unix:{}", path.display()),
        source,
    };
    // Whoever may connect is decided before anybody can: the socket is made in a
    // directory that nobody else can enter, and moved once it has its mode.
    let private = PrivateDir::beside(parent).map_err(failed)?;
    let made = private.0.join("s");
    let listener = listen(&private.0, &made).map_err(failed)?;
    fs::set_permissions(&made, Permissions::from_mode(mode)).map_err(failed)?;
    let identity = identity(&made).map_err(failed)?;
    publish(&made, path, &private)?;
    let path = path.to_path_buf();
    Ok((listener, SocketFile { path, identity }))
}

/// A directory that this user alone can enter, for as long as it takes.
struct PrivateDir(PathBuf);

impl PrivateDir {
    fn beside(parent: &Path) -> io::Result<PrivateDir> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!(".tidegate-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(PrivateDir(path)),
                // Left by a process of the same number that was killed here.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        // What stays behind is an empty name nobody can enter.
        let _ = fs::remove_file(self.0.join("s"));
        let _ = fs::remove_file(self.0.join("old"));
        let _ = fs::remove_dir(&self.0);
    }
}

fn listen(dir: &Path, made: &Path) -> io::Result<UnixListener> {
    if made.as_os_str().len() <= MAX_SOCKET_PATH {
        return UnixListener::bind(made);
    }
    // The private name is longer than the real one, and too long: take a short cut.
    let dir = File::open(dir)?;
    UnixListener::bind(format!("/proc/self/fd/{}/s", dir.as_raw_fd()))
}

/// Gives the socket `made` its name. Only a stale socket is ever replaced.
fn publish(made: &Path, path: &Path, private: &PrivateDir) -> Result<(), ServerError> {
    let failed = |source| ServerError::Bind {
        address: format!("unix:{}", path.display()),
        source,
    };
    // Two processes that start at once may both find the same stale socket. One of
    // them moves it away; the other finds a name that is gone, or taken, and looks again.
    for _ in 0..8 {
        // A link, unlike a rename, never replaces.
        match fs::hard_link(made, path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        let found = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
            Ok(found) if !found.file_type().is_socket() => {
                return Err(ServerError::NotASocket(path.into()));
            }
            Ok(found) => (found.dev(), found.ino()),
        };
        if !is_stale(path).map_err(failed)? {
            return Err(ServerError::AddressInUse(format!(
                "unix:{}",
                path.display()
            )));
        }
        let moved = private.0.join("old");
        match fs::rename(path, &moved) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.map_err(failed)?,
        }
        if identity(&moved).map_err(failed)? != found {
            // Somebody else was faster, and what was moved is theirs.
            let _ = fs::hard_link(&moved, path);
        }
        fs::remove_file(&moved).map_err(failed)?;
    }
    Err(ServerError::AddressInUse(format!(
        "unix:{}",
        path.display()
    )))
}

/// Whether nobody listens on the socket `path` any more. In doubt, somebody does.
fn is_stale(path: &Path) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A process that is stuck, with a full backlog, would block us: it lives, though.
    socket.set_nonblocking(true)?;
    Ok(match socket.connect(&SockAddr::unix(path)?) {
        Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
        Ok(()) => false,
    })
}

fn identity(path: &Path) -> io::Result<Identity> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // If it cannot be removed now, the next start replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn entries(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap();
        names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn the_socket_has_its_mode_and_nothing_else_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("door.sock");
        let bound = bind(&path, 0o640).unwrap();
        assert_eq!(mode(&path), 0o640);
        assert_eq!(entries(dir.path()), ["door.sock"]);
        UnixStream::connect(&path).unwrap();
        drop(bound);
        assert_eq!(entries(dir.path()), [""; 0]);
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_never() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("door.sock");
        // The standard library leaves the file behind.
        drop(UnixListener::bind(&path).unwrap());
        let (listener, file) = bind(&path, 0o600).unwrap();
        assert!(matches!(
            bind(&path, 0o600),
            Err(ServerError::AddressInUse(_))
        ));
        UnixStream::connect(&path).unwrap();
        drop(listener);
        let second = bind(&path, 0o600).unwrap();
        // The first one's file is no longer its own.
        drop(file);
        UnixStream::connect(&path).unwrap();
        drop(second);
        assert_eq!(entries(dir.path()), [""; 0]);
    }

    #[test]
    fn a_live_socket_with_a_full_backlog_is_live() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("door.sock");
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        socket.listen(0).unwrap();
        let _waiting = UnixStream::connect(&path).unwrap();
        assert!(matches!(
            bind(&path, 0o600),
            Err(ServerError::AddressInUse(_))
        ));
    }

    #[test]
    fn what_is_no_socket_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("precious");
        fs::write(&path, "text").unwrap();
        assert!(matches!(
            bind(&path, 0o600),
            Err(ServerError::NotASocket(_))
        ));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(
            bind(&link, 0o600),
            Err(ServerError::NotASocket(_))
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        assert_eq!(entries(dir.path()).len(), 2);
    }

    #[test]
    fn paths_that_cannot_be_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("no/door.sock");
        assert!(matches!(
            bind(&missing, 0o600),
            Err(ServerError::NoDirectory(_))
        ));
        let long = dir.path().join("x".repeat(108));
        assert!(matches!(
            bind(&long, 0o600),
            Err(ServerError::PathTooLong(_, _))
        ));
    }

    #[test]
    fn the_longest_path_can_be_bound() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir
            .path()
            .join("d".repeat(103 - dir.path().as_os_str().len()));
        fs::create_dir(&deep).unwrap();
        let path = deep.join("s");
        assert!(path.as_os_str().len() <= MAX_SOCKET_PATH);
        let _bound = bind(&path, 0o600).unwrap();
        UnixStream::connect(&path).unwrap();
    }
}
