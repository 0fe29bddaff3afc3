//! A private link for a test: a veth pair between two network namespaces. It requires root and
//! `ip`.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Server, nagi_binary, tool};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// An address of a block that is reserved for documentation (RFC 5737), used within these
/// namespaces only.
pub const SERVER: &str = "192.0.2.1";

/// Two namespaces and the link between them (`s0` to `c0`), removed on drop.
pub struct Link {
    /// The name of the server's namespace.
    pub server: String,
    /// The name of the client's namespace.
    pub client: String,
}

impl Link {
    /// Creates a link.
    ///
    /// # Errors
    ///
    /// No link can be created here, for the returned reason.
    pub fn new() -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |side: &str| format!("nagi-test-{}-{count}{side}", std::process::id());
        let link = Link { server: name("s"), client: name("c") };
        let Link { server, client } = &link;
        let server_address = format!("{SERVER}/24");
        let steps: [&[&str]; 9] = [
            &["netns", "add", server],
            &["netns", "add", client],
            &["-n", server, "link", "add", "s0", "type", "veth", "peer", "name", "c0"],
            &["-n", server, "link", "set", "c0", "netns", client],
            &["-n", server, "addr", "add", &server_address, "dev", "s0"],
            &["-n", client, "addr", "add", "192.0.2.2/24", "dev", "c0"],
            &["-n", server, "link", "set", "s0", "up"],
            &["-n", server, "link", "set", "lo", "up"],
            &["-n", client, "link", "set", "c0", "up"],
        ];
        steps.into_iter().try_for_each(|arguments| link.step("ip", arguments))?;
        Ok(link)
    }

    /// Runs a program that changes the link.
    ///
    /// # Errors
    ///
    /// The program is missing or has failed.
    pub fn step(&self, program: &str, arguments: &[&str]) -> Result<(), String> {
        let output = tool(program)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("there is no {program}: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{program} {}: {}", arguments.join(" "), said.trim()));
        }
        Ok(())
    }

    /// Runs `work` on another thread at the server's end. Its child processes are at that end as
    /// well.
    pub fn in_server<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        within(&self.server, work)
    }

    /// Runs `work` at the client's end.
    pub fn in_client<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        within(&self.client, work)
    }

    /// Starts nagi at one end of the link, reachable from the other end.
    pub fn start_server(&self, arguments: &[&str]) -> Server {
        let mut command = tool("ip");
        command.args(["netns", "exec", &self.server]).arg(nagi_binary());
        command.args(["serve", "--bind", "127.0.0.1", SERVER, "--protected-mode", "no"]);
        command.args(arguments);
        Server::start_nagi(command).expect("starts")
    }
}

fn within<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    let inside = || {
        let file = File::open(Path::new("/run/netns").join(namespace)).expect("the namespace");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("root may enter it");
        work()
    };
    let joined = std::thread::scope(|scope| scope.spawn(inside).join());
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Drop for Link {
    fn drop(&mut self) {
        for namespace in [&self.server, &self.client] {
            // The namespace may not exist.
            let _ = tool("ip").args(["netns", "del", namespace]).stderr(Stdio::null()).status();
        }
    }
}
