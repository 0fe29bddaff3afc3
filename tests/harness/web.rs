//! Runs Debian's web servers, each with one site, and the load generator ab.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Folder, Server, root, run_tool, size, tool, until};
use rustix::process::Signal;

/// A web server, which is stopped together with its child processes on drop.
pub struct WebServer {
    server: Server,
    /// Where it listens.
    pub address: SocketAddr,
}

impl WebServer {
    fn start(make: impl FnOnce(SocketAddr) -> Command) -> Self {
        let started = Server::start_web(|address| {
            let mut command = make(address);
            // Apache ends its processes by a signal to their process group, which must not be the
            // group of the tests.
            command.process_group(0);
            command
        });
        let (server, address) = started.unwrap_or_else(|problem| panic!("{problem}"));
        WebServer { server, address }
    }
}

impl Deref for WebServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        if self.server.is_running() {
            self.server.signal(Signal::TERM);
            // If the server does not exit in time, it is killed, and its child processes may
            // remain.
            let _ = until("its end", || (!self.server.is_running()).then_some(()));
        }
    }
}

/// Returns the first indented block after a line that begins with `heading` in a page of docs/.
pub fn documented(page: &str, heading: &str) -> String {
    let text = fs::read_to_string(root().join("docs").join(page)).expect("the page");
    let lines = text.lines().skip_while(|line| !line.starts_with(heading));
    let lines = lines.skip_while(|line| !line.starts_with("    "));
    let block: Vec<_> = lines.take_while(|line| line.starts_with("    ")).collect();
    assert!(!block.is_empty(), "{page}: {heading} has no block");
    block.join("\n")
}

/// Starts nginx with the given contents of its `http` block.
pub fn nginx(folder: &Path, site: impl FnOnce(SocketAddr) -> String) -> WebServer {
    WebServer::start(|address| {
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|name| format!("{name}_temp_path {}/{name};\n", folder.display()))
            .collect();
        let text = format!(
            "daemon off; master_process off; pid {0}/pid; error_log stderr;\n\
             events {{ worker_connections 1000; }}\nhttp {{ access_log off;\n{temporary}{1}\n}}",
            folder.display(),
            site(address)
        );
        let path = folder.join("nginx.conf");
        fs::write(&path, text).expect("a configuration");
        let mut command = tool("nginx");
        command.arg("-c").arg(path).arg("-p").arg(folder);
        command
    })
}

/// Starts Apache with the prefork module and these modules of Debian.
pub fn apache(
    folder: &Path,
    modules: &[&str],
    environment: &[(&str, &str)],
    site: impl FnOnce(SocketAddr) -> String,
) -> WebServer {
    let unpacked = root().join(".setup/debian/usr/lib/apache2/modules");
    let of_machine = PathBuf::from("/usr/lib/apache2/modules");
    let of_debian = if unpacked.is_dir() { unpacked } else { of_machine };
    WebServer::start(|address| {
        let mut text = format!(
            "ServerName localhost\nPidFile {0}/pid\nErrorLog /dev/stderr\n\
             DefaultRuntimeDir {0}\nMutex file:{0}\n",
            folder.display()
        );
        if rustix::process::geteuid().is_root() {
            text.push_str("User nobody\nGroup nogroup\n");
        }
        for name in modules {
            let path = of_debian.join(format!("mod_{name}.so"));
            let _ = writeln!(text, "LoadModule {name}_module {}", path.display());
        }
        text.push_str(&site(address));
        text.push('\n');
        let path = folder.join("apache.conf");
        fs::write(&path, text).expect("a configuration");
        let mut command = tool("apache2");
        command.args(["-DFOREGROUND", "-f"]).arg(path).arg("-d").arg(folder);
        command.envs(environment.iter().copied());
        command
    })
}

/// Returns the number of requests in a run of ab, and the number of runs.
pub fn requests() -> (usize, usize) {
    (size(1000, 10_000), size(3, 10))
}

/// Runs ab several times. It posts a body with ten concurrent requests, none of which may fail.
pub fn post_often(folder: &Folder, url: &str, body: &str) {
    let (requests, runs) = requests();
    let requests = requests.to_string();
    let body = folder.write("body", body);
    let body = body.to_str().expect("a path");
    for _ in 0..runs {
        let told = run_tool(
            "ab",
            &["-q", "-l", "-n", &requests, "-c", "10", "-p", body, "-T", "application/json", url],
        );
        assert!(told.contains(&format!("Complete requests:      {requests}\n")), "{told}");
        assert!(told.contains("Failed requests:        0\n"), "{told}");
        assert!(!told.contains("Non-2xx"), "{told}");
    }
}

/// Returns the number of sockets in TIME_WAIT with this port at either end, in the network
/// namespace of the calling thread.
pub fn in_time_wait(port: u16) -> usize {
    let port = format!(":{port:04X}");
    let table = fs::read_to_string("/proc/thread-self/net/tcp").expect("the kernel tells");
    let sockets = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let waiting = sockets.filter(|it| it[3] == "06");
    waiting.filter(|it| it[1].ends_with(&port) || it[2].ends_with(&port)).count()
}

/// Returns the settings that determine when local ports run out, in the network namespace of the
/// calling thread.
pub fn settings_of_ports() -> String {
    let setting = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
        text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).unwrap_or_default()
    };
    let (reuse, range) = (setting("tcp_tw_reuse"), setting("ip_local_port_range"));
    format!("tcp_tw_reuse={reuse}, ip_local_port_range={range}")
}
