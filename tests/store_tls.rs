//! A store behind TLS, whose certificate an authority of the operator's own has signed.

// Tests assert by panicking, and their helpers are not in test functions.
#![allow(clippy::unwrap_used, clippy::panic)]

mod kit;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kit::{Addr, Redis, TIDEGATE, http, sum, wait_until};

/// Runs openssl in `dir`.
fn openssl(dir: &Path, args: &str) {
    let done = Command::new("openssl")
        .args(args.split(' '))
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// An authority, and a server's certificate that it has signed.
fn certificates(dir: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        dir,
        &format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"),
    );
    openssl(
        dir,
        &format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"),
    );
    std::fs::write(
        dir.join("names"),
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
    )
    .unwrap();
    let signed = "-CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem";
    openssl(dir, &format!("x509 -req -in server.csr {signed}"));
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A daemon that trusts `authority` and logs into `dir`.log, and the address of its admin door.
fn daemon(dir: &Path, authority: &Path, port: u16) -> (Daemon, Addr) {
    let log = std::fs::File::create(dir.with_extension("log")).unwrap();
    let command = Command::new(TIDEGATE)
        .args([
            "serve",
            "--store",
            &format!("rediss://localhost:{port}"),
            "--runtime-dir",
        ])
        .arg(dir)
        .env("SSL_CERT_FILE", authority)
        .current_dir(std::env::temp_dir())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    (
        Daemon(command.unwrap()),
        Addr::from(dir.join("admin.sock").as_path()),
    )
}

fn metric(admin: &Addr, name: &str) -> Option<f64> {
    let page = http::try_request(admin, "GET", "/metrics", &[], "").ok()?;
    sum(&page.body, name, &[])
}

#[test]
fn a_certificate_is_checked_against_the_systems_authorities() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let _redis = Redis::start_with(&[
        ("tls-port", &port.to_string()),
        ("tls-cert-file", &file("server.pem")),
        ("tls-key-file", &file("server.key")),
        ("tls-ca-cert-file", &file("ca.pem")),
        ("tls-auth-clients", "no"),
    ]);
    let (_trusting, admin) = daemon(&dir.path().join("a"), &dir.path().join("ca.pem"), port);
    wait_until("the store answers", || {
        metric(&admin, "tidegate_store_up") == Some(1.0)
    });

    // Another authority has not signed it.
    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    certificates(&other);
    let (_wary, admin) = daemon(&dir.path().join("b"), &other.join("ca.pem"), port);
    wait_until("the store is refused", || {
        metric(&admin, "tidegate_sync_errors_total").is_some_and(|errors| errors >= 3.0)
    });
    assert_eq!(metric(&admin, "tidegate_store_up"), Some(0.0));
    wait_until("the cause to be told", || {
        let log = std::fs::read_to_string(dir.path().join("b.log")).unwrap();
        let at = format!("address=\"localhost:{port}\"");
        let told = |line: &str| line.contains(&at) && line.contains("TLS: its certificate");
        log.lines().any(told)
    });
}
