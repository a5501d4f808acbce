use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use tempfile::TempDir;

use super::process::{is_stopped, signal, wait_for_end, wait_until};
use super::{Addr, http};

/// A running daemon with its doors on Unix sockets of its own. It ends with this
/// value, and its log is shown when the test fails.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    dir: TempDir,
}

impl Daemon {
    /// Starts a daemon with this rules file (YAML) and these arguments after
    /// `serve` and the doors, such as `["--store", url, "--sync-interval", "100ms"]`,
    /// and waits until it says that it is ready.
    pub fn start(rules: &str, args: &[&str]) -> Daemon {
        Daemon::start_in(rules, args, &[])
    }

    /// The same, with these variables in its environment.
    pub fn start_in(rules: &str, args: &[&str], environment: &[(&str, &str)]) -> Daemon {
        let mut daemon = Daemon::start_not_ready_in(rules, args, environment);
        daemon.until_ready();
        daemon
    }

    /// The same, and does not wait until it is ready.
    pub fn start_not_ready_in(rules: &str, args: &[&str], environment: &[(&str, &str)]) -> Daemon {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("rules.yaml"), rules).expect("a file can be written");
        let args = [&["--rules", "rules.yaml"], args].concat();
        Daemon::spawn(dir, &args, environment)
    }

    /// Starts one with these arguments alone, without a rules file of its own.
    pub fn start_from(args: &[&str]) -> Daemon {
        let mut daemon = Daemon::start_not_ready(args);
        daemon.until_ready();
        daemon
    }

    /// The same, and does not wait until it is ready.
    pub fn start_not_ready(args: &[&str]) -> Daemon {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Daemon::spawn(dir, args, &[])
    }

    fn spawn(dir: TempDir, args: &[&str], environment: &[(&str, &str)]) -> Daemon {
        let log = File::create(dir.path().join("daemon.log")).expect("a log file");
        let child = command(dir.path())
            .arg("serve")
            .arg("--http")
            .arg(unix(dir.path(), "http"))
            .arg("--resp")
            .arg(unix(dir.path(), "resp"))
            .arg("--admin")
            .arg(unix(dir.path(), "admin"))
            .args(args)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("the daemon can be started");
        // From here on the child ends with the value, whatever happens.
        Daemon { child, dir }
    }

    /// Waits until it says that it is ready.
    pub fn until_ready(&mut self) {
        let admin = self.admin();
        wait_until("the daemon to be ready", || {
            let ended = self.child.try_wait().expect("a child can be waited for");
            assert!(ended.is_none(), "the daemon ended at its start: {ended:?}");
            http::try_request(&admin, "GET", "/readyz", &[], "").is_ok_and(|r| r.status == 200)
        });
    }

    /// The HTTP door.
    pub fn http(&self) -> Addr {
        self.door("http")
    }

    /// The RESP door.
    pub fn resp(&self) -> Addr {
        self.door("resp")
    }

    /// The admin listener.
    pub fn admin(&self) -> Addr {
        self.door("admin")
    }

    /// The directory it runs in: its sockets, `rules.yaml` and `daemon.log`.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written so far, standard output and error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("daemon.log")).unwrap_or_default()
    }

    /// Its metrics as it shows them to Prometheus.
    pub fn metrics(&self) -> String {
        let reply = http::request(self.admin(), "GET", "/metrics", "");
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.body
    }

    /// The sum of a metric's series that carry all these labels.
    ///
    /// # Panics
    /// When there is no such series: a misspelt name is not a zero.
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let text = self.metrics();
        sum(&text, name, labels).unwrap_or_else(|| panic!("no {name} {labels:?} in:\n{text}"))
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    pub fn terminate(&mut self) -> ExitStatus {
        signal(&self.child, "TERM");
        wait_for_end("the daemon to end after SIGTERM", &mut self.child)
    }

    /// Lets it stand still (SIGSTOP): whoever asks waits.
    pub fn pause(&self) {
        signal(&self.child, "STOP");
        wait_until("the daemon to stand still", || is_stopped(&self.child));
    }

    /// Lets it go on after a pause (SIGCONT).
    pub fn go_on(&self) {
        signal(&self.child, "CONT");
    }

    /// Kills it (SIGKILL).
    pub fn kill9(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }

    fn door(&self, name: &str) -> Addr {
        Addr::Unix(socket(self.dir.path(), name))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the daemon's log ---\n{}---", self.log());
        }
    }
}

/// Runs the binary to its end.
pub fn tidegate(args: &[&str]) -> Output {
    let dir = tempfile::tempdir().expect("a temporary directory");
    command(dir.path())
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("the binary can be run")
}

/// The binary, in a directory without a configuration and without a word from
/// the environment.
fn command(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.current_dir(dir);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TIDEGATE_") {
            command.env_remove(name);
        }
    }
    command
}

fn socket(dir: &Path, door: &str) -> PathBuf {
    dir.join(format!("{door}.sock"))
}

fn unix(dir: &Path, door: &str) -> String {
    format!("unix:{}", socket(dir, door).display())
}

/// The sum of the series of `name` in a Prometheus page that carry all `labels`;
/// `None` when there is none.
pub fn sum(page: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    page.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let rest = series.strip_prefix(name)?;
            let inside = match rest {
                "" => "",
                _ => rest.strip_prefix('{')?.strip_suffix('}')?,
            };
            let carries = |(key, value): &(&str, &str)| {
                let label = format!("{key}=\"{value}\"");
                inside == label
                    || inside.starts_with(&format!("{label},"))
                    || inside.ends_with(&format!(",{label}"))
                    || inside.contains(&format!(",{label},"))
            };
            labels
                .iter()
                .all(carries)
                .then(|| value.parse::<f64>().ok())?
        })
        .reduce(|a, b| a + b)
}
