use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

use tempfile::TempDir;

/// The program under test.
pub const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");

/// A place to run the program in: its sockets and files are under `directory`, and
/// nothing of the caller's environment reaches it.
pub struct Place {
    pub directory: TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file and answers its path.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A command line of the program.
    pub fn tidegate<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = self.command(TIDEGATE);
        command.args(arguments);
        command
    }

    /// A command of any other program, in the same environment.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("XDG_RUNTIME_DIR", self.directory.path());
        command
    }

    /// Runs a command line of the program to its end.
    pub fn run<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Output {
        self.tidegate(arguments).output().unwrap()
    }

    /// Starts a daemon and waits until it says that it serves.
    pub fn serve<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Served {
        Served::start(self.tidegate(["serve"]).args(arguments))
    }

    /// The directory of the sockets.
    pub fn runtime_dir(&self) -> PathBuf {
        let uid = std::os::unix::fs::MetadataExt::uid(&self.directory.path().metadata().unwrap());
        self.path(&format!("tidegate-{uid}"))
    }
}

/// A daemon that was started as a person would start it, and whose words are read.
/// It ends with this value.
pub struct Served {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// What it said before it served.
    pub banner: String,
}

impl Served {
    pub fn start(command: &mut Command) -> Served {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut daemon = Served {
            child,
            stdout,
            banner: String::new(),
        };
        while !daemon.banner.contains("Try: ") {
            let read = daemon.stdout.read_line(&mut daemon.banner).unwrap();
            if read == 0 {
                let mut stderr = String::new();
                let pipe = daemon.child.stderr.as_mut().unwrap();
                pipe.read_to_string(&mut stderr).unwrap();
                panic!("it does not serve: {}{stderr}", daemon.banner);
            }
        }
        daemon
    }

    /// The command that it suggests.
    pub fn suggestion(&self) -> &str {
        self.banner.split("Try: ").nth(1).unwrap().trim()
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Waits for its end; answers how it ended and all that it said.
    pub fn end(mut self) -> (ExitStatus, String) {
        let mut said = std::mem::take(&mut self.banner);
        self.stdout.read_to_string(&mut said).unwrap();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap(), said)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a finished command printed on standard output.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What a finished command printed on standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The root of the project.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The path of a tool that `tests/run` installs.
pub fn tool(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let path = target.join("tools/venv/bin").join(name);
    assert!(
        path.exists(),
        "{} is missing; run tests/run, which installs it",
        path.display()
    );
    path
}
