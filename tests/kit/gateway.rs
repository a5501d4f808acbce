//! Real gateways with the configurations of `config/`, in which only addresses and time-outs differ.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::process::wait_until;
use super::{Addr, Backend, Daemon, root, tool};

/// How long gateways wait for the daemon: a busy machine may be slower than they should be
/// content with.
const PATIENCE: &str = "3s";

/// A kind of gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Nginx,
    Haproxy,
    Caddy,
    Traefik,
    /// What it runs of its configuration, within nginx and its Lua module, on which it is built.
    Kong,
    /// It asks at the gRPC door, which the daemon then must have: [`GRPC_DOOR`].
    Envoy,
    /// It decides by itself, and reports at the same door.
    EnvoyByQuota,
}

/// Arguments that let a daemon have a gRPC door where gateways look for it.
pub const GRPC_DOOR: [&str; 2] = ["--grpc", "unix:grpc.sock"];

/// A running gateway before a backend. It ends with this value, and its log is shown
/// when the test fails.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    dir: TempDir,
    addr: SocketAddr,
}

impl Gateway {
    /// Starts one that asks the daemon about every request; without one, it asks nobody.
    pub fn start(kind: Kind, backend: &Backend, daemon: Option<&Daemon>) -> Gateway {
        Gateway::start_edited(kind, backend, daemon, &[])
    }

    /// The same, with more texts of its file replaced.
    pub fn start_edited(
        kind: Kind,
        backend: &Backend,
        daemon: Option<&Daemon>,
        edits: &[(&str, &str)],
    ) -> Gateway {
        for _ in 0..20 {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let addr = free_addr();
            let place = Place {
                dir: dir.path(),
                addr,
                backend: backend.addr().to_string(),
                daemon,
                edits,
            };
            let mut command = match kind {
                Kind::Nginx => place.nginx(),
                Kind::Haproxy => place.haproxy(),
                Kind::Caddy => place.caddy(),
                Kind::Traefik => place.traefik(),
                Kind::Kong => place.kong(),
                Kind::Envoy => place.envoy_that_asks(),
                Kind::EnvoyByQuota => place.envoy("envoy/rlqs.yaml", &[]),
            };
            let log = File::create(dir.path().join("log")).expect("a log file");
            let child = command
                .current_dir(dir.path())
                .env("HOME", dir.path())
                .stdin(Stdio::null())
                .stdout(log.try_clone().expect("a second handle"))
                .stderr(log)
                .spawn()
                .unwrap_or_else(|error| panic!("{command:?}: {error}; run tests/run"));
            let mut gateway = Gateway { child, dir, addr };
            if gateway.serves() {
                return gateway;
            }
        }
        panic!("{kind:?} does not start");
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Whether it answers; not if it ended, as when somebody else has its port.
    fn serves(&mut self) -> bool {
        let mut ended = false;
        wait_until("a gateway to serve", || {
            ended = !self.is_running();
            // Whoever has just begun to listen may not know its routes yet.
            let status = super::http::try_request(&Addr::Tcp(self.addr), "GET", "/ready", &[], "");
            ended || status.is_ok_and(|reply| reply.status == 200)
        });
        if ended {
            eprintln!("{}", self.log());
        }
        !ended
    }

    pub fn is_running(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("a child can be waited for")
            .is_none()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the gateway's log ---\n{}---", self.log());
        }
    }
}

/// A port that was free a moment ago.
pub fn free_addr() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

/// A program of the system, which may be none for ordinary users.
fn system(name: &str) -> PathBuf {
    let administrators = Path::new("/usr/sbin").join(name);
    if administrators.exists() {
        administrators
    } else {
        PathBuf::from(name)
    }
}

struct Place<'a> {
    dir: &'a Path,
    addr: SocketAddr,
    backend: String,
    daemon: Option<&'a Daemon>,
    edits: &'a [(&'a str, &'a str)],
}

impl Place<'_> {
    /// The shipped file, with these texts replaced, each of which must be there.
    fn shipped(&self, file: &str, replaced: &[(&str, &str)]) -> String {
        let mut text = std::fs::read_to_string(root().join("config").join(file)).expect(file);
        for (from, to) in replaced.iter().chain(self.edits) {
            assert!(text.contains(from), "{file} has no {from}");
            text = text.replace(from, to);
        }
        text
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path
    }

    fn socket(&self) -> String {
        self.door("http.sock")
    }

    fn door(&self, name: &str) -> String {
        let dir = self.daemon.map_or(self.dir, Daemon::dir);
        dir.join(name).to_str().expect("a path").to_owned()
    }

    /// What is left of a line by which the daemon is asked.
    fn asking<'l>(&self, line: &'l str) -> &'l str {
        if self.daemon.is_some() { line } else { "" }
    }

    fn nginx(&self) -> Command {
        let asking = "auth_request /_tidegate;";
        let text = self.shipped(
            "nginx/tidegate.conf",
            &[
                ("/run/tidegate/http.sock", &self.socket()),
                ("127.0.0.1:8080", &self.backend),
                ("listen 80;", &format!("listen {};", self.addr)),
                ("100ms", PATIENCE),
                ("250ms", PATIENCE),
                (asking, self.asking(asking)),
            ],
        );
        self.run_nginx("", &text)
    }

    /// nginx with these directives at the top, and in `http`.
    fn run_nginx(&self, top: &str, http: &str) -> Command {
        let dir = self.dir.display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {dir}/{name};\n"))
            .concat();
        let whole = format!(
            "{top}\ndaemon off;\nmaster_process off;\npid {dir}/pid;\nerror_log stderr notice;\n\
             events {{}}\nhttp {{\naccess_log off;\n{temporary}{http}\n}}\n"
        );
        let mut command = Command::new(system("nginx"));
        command.arg("-c").arg(self.write("nginx.conf", &whole));
        command
    }

    fn kong(&self) -> Command {
        let text = self.shipped(
            "kong/kong.yaml",
            &[
                ("/run/tidegate/http.sock", &self.socket()),
                (
                    "set_timeouts(100, 250, 250)",
                    "set_timeouts(3000, 3000, 3000)",
                ),
            ],
        );
        let config: serde_json::Value = serde_saphyr::from_str(&text).expect("YAML");
        assert_eq!(config["_format_version"], "3.0");
        let plugin = &config["plugins"][0];
        assert_eq!(plugin["name"], "pre-function");
        let asking = ["access", "header_filter"].map(|phase| {
            let function = plugin["config"][phase][0].as_str().expect("a function");
            let file = self.write(phase, function);
            format!("{phase}_by_lua_file {};\n", file.display())
        });
        let asking = asking.concat();
        let http = format!(
            "init_by_lua_file {};\nunderscores_in_headers on;\n\
             upstream backend {{ server {}; keepalive 8; }}\nserver {{ listen {};\nlocation / {{\n\
             {}proxy_pass http://backend;\nproxy_http_version 1.1;\n\
             proxy_set_header Connection \"\";\nproxy_set_header Host $host;\n}}\n}}\n",
            root().join("tests/kit/kong.lua").display(),
            self.backend,
            self.addr,
            self.asking(&asking),
        );
        let modules = ["ndk_http", "ngx_http_lua"];
        let modules = modules.map(|name| format!("load_module modules/{name}_module.so;\n"));
        self.run_nginx(&modules.concat(), &http)
    }

    fn haproxy(&self) -> Command {
        let script = self.shipped(
            "haproxy/tidegate.lua",
            &[
                ("/run/tidegate/http.sock", &self.socket()),
                (
                    "TIMEOUT = 0.25",
                    &format!("TIMEOUT = {}", PATIENCE.trim_end_matches('s')),
                ),
            ],
        );
        let script = self.write("tidegate.lua", &script);
        let asking = "http-request lua.tidegate";
        let text = self.shipped(
            "haproxy/haproxy.cfg",
            &[
                (
                    "/etc/haproxy/tidegate.lua",
                    script.to_str().expect("a path"),
                ),
                ("127.0.0.1:8080", &self.backend),
                ("bind :80", &format!("bind {}", self.addr)),
                (asking, self.asking(asking)),
            ],
        );
        let mut command = Command::new(system("haproxy"));
        command
            .arg("-db")
            .arg("-f")
            .arg(self.write("haproxy.cfg", &text));
        command
    }

    fn caddy(&self) -> Command {
        let mut text = self.shipped(
            "caddy/Caddyfile",
            &[
                ("/run/tidegate/http.sock", &self.socket()),
                ("100ms", PATIENCE),
                ("250ms", PATIENCE),
                ("127.0.0.1:8080", &self.backend),
                (
                    ":80 {",
                    &format!("http://:{} {{\n\tbind 127.0.0.1", self.addr.port()),
                ),
            ],
        );
        if self.daemon.is_none() {
            let from = text.find("\t\treverse_proxy unix").expect("where it asks");
            let to = text.rfind("\t\treverse_proxy").expect("where it passes on");
            text.replace_range(from..to, "");
        }
        let options = "{\n\tadmin off\n\tauto_https off\n\tpersist_config off\n\t\
                       servers {\n\t\tprotocols h1 h2c\n\t}\n}\n";
        let file = self.write("Caddyfile", &format!("{options}{text}"));
        let mut command = Command::new(tool("caddy"));
        command
            .args(["run", "--adapter", "caddyfile", "--config"])
            .arg(file);
        command
    }

    fn traefik(&self) -> Command {
        let asking = "middlewares: [tidegate]";
        let door = self.daemon.map(tcp_door);
        let text = self.shipped(
            "traefik/dynamic.yaml",
            &[
                (
                    "127.0.0.1:8081",
                    &door.map_or("127.0.0.1:8081".to_owned(), |a| a.to_string()),
                ),
                ("127.0.0.1:8080", &self.backend),
                (asking, self.asking(asking)),
            ],
        );
        let file = self.write("dynamic.yaml", &text);
        let mut command = Command::new(tool("traefik"));
        command
            .arg(format!("--entrypoints.web.address={}", self.addr))
            .arg(format!("--providers.file.filename={}", file.display()))
            .args([
                "--global.checknewversion=false",
                "--global.sendanonymoususage=false",
            ]);
        command
    }

    fn envoy_that_asks(&self) -> Command {
        let timeout = format!("timeout: {PATIENCE}");
        self.envoy("envoy/envoy.yaml", &[("timeout: 0.05s", &timeout)])
    }

    fn envoy(&self, file: &str, replaced: &[(&str, &str)]) -> Command {
        let at = |host: &str, port: &str| format!("address: {host}, port_value: {port}");
        let entry = at(&self.addr.ip().to_string(), &self.addr.port().to_string());
        let (host, port) = self.backend.split_once(':').expect("a port");
        let backend = at(host, port);
        let socket = self.door("grpc.sock");
        let mut all = vec![
            ("/run/tidegate/grpc.sock", &*socket),
            ("address: 127.0.0.1, port_value: 8080", &*backend),
            ("address: 0.0.0.0, port_value: 10000", &*entry),
            ("port_value: 9901", "port_value: 0"),
        ];
        all.extend(replaced);
        let mut text = self.shipped(file, &all);
        if self.daemon.is_none() {
            let filter = "                  - name: envoy.filters.http.";
            let from = text.find(filter).expect("where it asks");
            let to = text.rfind(filter).expect("where it passes on");
            text.replace_range(from..to, "");
        }
        let mut command = Command::new(tool("envoy"));
        command
            .args(["--disable-hot-restart", "--concurrency", "1", "-l", "error"])
            .arg("-c")
            .arg(self.write("envoy.yaml", &text));
        command
    }
}

/// The door that the daemon has on TCP.
fn tcp_door(daemon: &Daemon) -> SocketAddr {
    let log = daemon.log();
    let lines = log
        .lines()
        .filter_map(|line| line.trim().strip_prefix("http"));
    let mut found = lines.filter_map(|rest| rest.trim().parse().ok());
    found
        .next()
        .unwrap_or_else(|| panic!("no door on TCP in {log}"))
}

/// Connects from this address of the loopback network, so that clients differ.
pub fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    let from = SocketAddr::from((from, 0));
    socket
        .bind(&from.into())
        .expect("an address of the loopback network");
    socket
        .connect(&to.into())
        .unwrap_or_else(|error| panic!("{to}: {error}"));
    socket
        .set_read_timeout(Some(std::time::Duration::from_secs(30)))
        .expect("a time-out");
    socket.into()
}
