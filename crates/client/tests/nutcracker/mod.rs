//! twemproxy (`nutcracker`) in front of servers.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nagi_client::ring::Server;

use crate::libraries::setup;
use crate::ports::free_port;

/// A running proxy, which is stopped when dropped.
pub(crate) struct Proxy {
    child: Child,
    pub(crate) port: u16,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Proxy {
    /// Starts a proxy that distributes keys over `servers` by weighted ketama. Its files are called
    /// `name`.
    pub(crate) fn start(name: &str, servers: &[Server]) -> Self {
        let lines: String = servers
            .iter()
            .map(|one| format!("   - {}:{}:{}\n", one.host, one.port, one.weight))
            .collect();
        let (port, statistics) = (free_port(), free_port());
        let text = format!(
            "pool:\n  listen: 127.0.0.1:{port}\n  hash: md5\n  distribution: ketama\n  \
             preconnect: true\n  servers:\n{lines}"
        );
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let file = folder.join(format!("nutcracker-{name}.yml"));
        fs::write(&file, text).unwrap();
        let script = setup().join("bin/nutcracker");
        let program = if script.is_file() { script } else { "nutcracker".into() };
        let mut command = Command::new(program);
        command.arg("-c").arg(&file);
        command.arg("-o").arg(folder.join(format!("nutcracker-{name}.log")));
        command.args(["-a", "127.0.0.1", "-s", &statistics.to_string()]);
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let proxy = Proxy { child, port };
        drop(proxy.connect());
        proxy
    }

    /// Connects to the proxy, once it listens.
    pub(crate) fn connect(&self) -> TcpStream {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match TcpStream::connect(("127.0.0.1", self.port)) {
                Ok(stream) => return stream,
                Err(error) => assert!(Instant::now() < deadline, "twemproxy: {error}"),
            }
            thread::yield_now();
        }
    }
}
