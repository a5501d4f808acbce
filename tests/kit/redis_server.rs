use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::process::{is_stopped, signal, wait_until};

/// A Redis of this test's own, on a TCP port of 127.0.0.1 and a Unix socket.
/// It keeps nothing on disk unless told to, and ends with this value.
#[derive(Debug)]
pub struct Redis {
    child: Child,
    dir: TempDir,
    port: u16,
    config: Vec<String>,
}

impl Redis {
    /// Starts one that forgets everything when it ends.
    pub fn start() -> Redis {
        Redis::start_with(&[])
    }

    /// Starts one with more lines of configuration, such as `("appendonly", "yes")`.
    pub fn start_with(config: &[(&str, &str)]) -> Redis {
        // In memory where there is such a place: a disk that others keep busy stalls a
        // server that waits for it, and looks like a fault.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.expect("a temporary directory");
        let config: Vec<String> = config
            .iter()
            .flat_map(|(key, value)| [format!("--{key}"), (*value).to_owned()])
            .collect();
        for _ in 0..20 {
            let port = some_port();
            let mut child = spawn(&dir, port, &config);
            if answers(&mut child, &dir) {
                return Redis {
                    child,
                    dir,
                    port,
                    config,
                };
            }
        }
        panic!("redis-server does not start: {}", log(&dir));
    }

    /// The URL of its TCP port.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The URL of its Unix socket.
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// The address of its TCP port.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Its Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    /// The directory it keeps its files in.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What `redis-cli` prints for these arguments, without the last line's end.
    pub fn cli(&self, args: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .arg("-s")
            .arg(self.socket())
            .args(args)
            .stdin(Stdio::null())
            .output()
            .expect("redis-cli can be run");
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }

    /// A connection of the `redis` crate.
    pub fn connect(&self) -> ::redis::Connection {
        ::redis::Client::open(self.url())
            .and_then(|client| client.get_connection())
            .expect("a connection to the test's Redis")
    }

    /// Makes it a replica of `other`, and waits until it has all that `other` has.
    pub fn follow(&self, other: &Redis) {
        self.cli(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]);
        wait_until("the replica to be in sync", || {
            let info = self.cli(&["INFO", "replication"]);
            info.contains("master_link_status:up")
        });
    }

    /// Makes it a server of its own again, with what it has.
    pub fn promote(&self) {
        self.cli(&["REPLICAOF", "NO", "ONE"]);
    }

    /// Stops it where it stands: connections stay open, nothing is answered.
    pub fn pause(&self) {
        signal(&self.child, "STOP");
        wait_until("redis-server to stop", || is_stopped(&self.child));
    }

    /// Lets it go on after [`Redis::pause`].
    pub fn resume(&self) {
        signal(&self.child, "CONT");
    }

    /// Kills it (SIGKILL).
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }

    /// Kills it if it still runs and starts it again: same port, same directory,
    /// so that what it kept on disk is there again.
    pub fn restart(&mut self) {
        self.kill();
        for _ in 0..200 {
            self.child = spawn(&self.dir, self.port, &self.config);
            // It may end at once while the kernel still holds the port.
            if answers(&mut self.child, &self.dir) {
                return;
            }
        }
        panic!("redis-server does not start again: {}", log(&self.dir));
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port below those that the kernel hands out by itself, so that it is still
/// free for a restart. Whether it is free at all, redis-server finds out.
fn some_port() -> u16 {
    let random = RandomState::new().build_hasher().finish();
    10_000 + (random % 20_000) as u16
}

fn spawn(dir: &TempDir, port: u16, config: &[String]) -> Child {
    // A socket left by a killed server must not look like the new one's.
    let _ = std::fs::remove_file(dir.path().join("redis.sock"));
    let log = File::create(dir.path().join("redis.log")).expect("a log file");
    Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(["--unixsocket", "redis.sock", "--save", ""])
        .args(["--appendonly", "no", "--appendfsync", "always"])
        .args(config)
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stderr(log.try_clone().expect("a second handle"))
        .stdout(log)
        .spawn()
        .expect("redis-server is installed")
}

/// Waits for an answer at the Unix socket, which is this server's alone: that it
/// answers there means that the TCP port is its own too. False if it has ended.
fn answers(child: &mut Child, dir: &TempDir) -> bool {
    let mut alive = true;
    wait_until("redis-server to answer", || {
        alive = child
            .try_wait()
            .expect("a child can be waited for")
            .is_none();
        !alive || is_ready(dir)
    });
    alive
}

fn is_ready(dir: &TempDir) -> bool {
    let socket = dir.path().join("redis.sock");
    Command::new("redis-cli")
        .arg("-s")
        .arg(socket)
        .arg("PING")
        .stderr(Stdio::null())
        .output()
        .is_ok_and(|output| output.stdout == b"PONG\n")
}

fn log(dir: &TempDir) -> String {
    std::fs::read_to_string(dir.path().join("redis.log")).unwrap_or_default()
}
