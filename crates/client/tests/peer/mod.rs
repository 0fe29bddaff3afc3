//! Third-party servers for the tests.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A server of another project, which ends with the test.
pub(crate) struct Peer {
    pub(crate) child: Child,
    pub(crate) port: u16,
}

impl Peer {
    pub(crate) fn start(name: &str, port: u16, more: &[&str]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.setup/bin").join(name);
        let mut command = if script.is_file() { Command::new(script) } else { Command::new(name) };
        match name {
            "memcached" => command.args(["-u", "root", "-l", "127.0.0.1", "-t", "1", "-U", "0"]),
            _ => command.args(["--save", "", "--bind", "127.0.0.1", "--port", &port.to_string()]),
        };
        if name == "memcached" {
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

/// A port that was free just now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
