//! Third-party servers for the tests.

use crate::ports::free_port;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Prefix of the name of a program from Debian sid, which `cargo xtask bench` installs in
/// `.peers/sid`.
pub(crate) const NEWEST: &str = "newest ";

/// Returns a program of Debian sid, run with the libraries from `.peers/sid`.
fn newest(root: &Path, name: &str) -> Command {
    let tree = root.join(".peers/sid");
    let libraries = tree.join("usr/lib/x86_64-linux-gnu");
    let mut command = Command::new(tree.join("lib64/ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(libraries).arg(tree.join("usr/bin").join(name));
    command
}

/// A server of another project, which is stopped when dropped.
pub(crate) struct Peer {
    pub(crate) child: Child,
    pub(crate) port: u16,
}

impl Peer {
    pub(crate) fn start(name: &str, port: u16, more: &[&str]) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let script = root.join(".setup/bin").join(name);
        let mut command = match name.strip_prefix(NEWEST) {
            Some(name) => newest(&root, name),
            None if script.is_file() => Command::new(script),
            None => Command::new(name),
        };
        let is_memcached = name.ends_with("memcached");
        match is_memcached {
            true => command.args(["-u", "root", "-l", "127.0.0.1", "-t", "1", "-U", "0"]),
            false => {
                command.args(["--save", "", "--bind", "127.0.0.1", "--port", &port.to_string()])
            }
        };
        if is_memcached {
            command.args(["-p", &port.to_string()]);
        }
        let child = command.args(more).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "{name} does not listen");
            thread::yield_now();
        }
        Peer { child, port }
    }

    pub(crate) fn fresh(name: &str) -> Self {
        Self::start(name, free_port(), &[])
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}
