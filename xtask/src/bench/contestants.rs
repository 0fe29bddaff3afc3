//! The servers under comparison, and how each is started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use harness::Server;

use super::sid;
use crate::process;

/// The protocol of a server, named as in `nagi bench --protocol`.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Protocol {
    Resp,
    Memcached,
}

impl Protocol {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Resp => "resp",
            Self::Memcached => "memcached",
        }
    }
}

/// The cores on which the server and the load run.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Placement {
    /// One worker on the first core, and the load on the second.
    Pinned,
    /// The server's default number of workers, and the load wherever the kernel places it.
    Free,
}

impl Placement {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pinned => "one worker, pinned",
            Self::Free => "default workers",
        }
    }

    /// Returns a command that runs `program` on the server's cores.
    fn server(self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.on_core("0", program)
    }

    /// Returns a command that runs `program` on the cores of the load.
    pub(super) fn load(self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.on_core("1", program)
    }

    fn on_core(self, core: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
        match self {
            Self::Free => Command::new(program),
            Self::Pinned => {
                let mut command = Command::new("taskset");
                command.args(["-c", core]).arg(program);
                command
            }
        }
    }
}

/// The kind of a server.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Nagi,
    /// Another build of nagi, which is treated as a peer.
    OtherBuild,
    Redis,
    Memcached,
    Pogocache,
    /// A server that answers without executing requests; its cost is a lower bound for all servers.
    Responder,
}

/// A folder for a server's files, removed on drop.
pub(super) struct Folder {
    /// The path of the folder for this process.
    pub(super) ours: PathBuf,
    /// The path of the folder for the server, which may have another root.
    theirs: String,
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed is left to the system's clean-up of temporary files.
        let _ = fs::remove_dir_all(&self.ours);
    }
}

/// A server in the comparison.
pub(super) struct Contestant {
    pub(super) name: &'static str,
    /// The version that the server reports.
    pub(super) version: String,
    kind: Kind,
    program: PathBuf,
    /// The root directory in which the server is started, if it is not `/`.
    root: Option<PathBuf>,
    /// The I/O driver of nagi.
    io: &'static str,
}

impl Contestant {
    /// Returns nagi, the responder, and every peer on this machine. Reports missing peers.
    pub(super) fn all(nagi: &Path) -> Result<Vec<Self>> {
        let mut all = vec![Self::ours("nagi", Kind::Nagi, nagi)];
        let root = sid::prepare()?;
        for (name, program, kind) in [
            ("Valkey", "valkey-server", Kind::Redis),
            ("Redis", "redis-server", Kind::Redis),
            ("memcached", "memcached", Kind::Memcached),
        ] {
            let root = root.clone().filter(|root| root.join("usr/bin").join(program).exists());
            if root.is_some() || process::in_path(program) {
                let version = String::new();
                let program = program.into();
                all.push(Self { name, version, kind, program, root, io: "auto" });
            } else {
                println!("bench: {name} is missing: neither .peers/sid nor PATH has {program}");
            }
        }
        all.push(Self::ours("responder", Kind::Responder, nagi));
        Ok(Self::with_versions(all))
    }

    /// Returns nagi, another build of nagi, and the responder.
    pub(super) fn builds(nagi: &Path, other: &Path) -> Vec<Self> {
        Self::with_versions(vec![
            Self::ours("nagi", Kind::Nagi, nagi),
            Self::ours("other build", Kind::OtherBuild, other),
            Self::ours("responder", Kind::Responder, nagi),
        ])
    }

    /// Adds the Pogocache at `program`, whose protocols include RESP.
    pub(super) fn add_pogocache(all: &mut Vec<Self>, program: &Path) {
        let mut added = Self::ours("Pogocache", Kind::Pogocache, program);
        added.version = added.ask_version();
        all.push(added);
    }

    fn ours(name: &'static str, kind: Kind, program: &Path) -> Self {
        let program = program.to_owned();
        Self { name, version: String::new(), kind, program, root: None, io: "auto" }
    }

    fn with_versions(mut all: Vec<Self>) -> Vec<Self> {
        for contestant in &mut all {
            contestant.version = contestant.ask_version();
        }
        all
    }

    /// Replaces nagi by two entries, one for each of its I/O drivers.
    pub(super) fn split_drivers(all: &mut Vec<Self>) {
        let Some(nagi) = all.iter_mut().find(|it| it.is_nagi()) else { return };
        (nagi.name, nagi.io) = ("nagi, io_uring", "uring");
        let by_epoll = Self {
            name: "nagi, epoll",
            version: nagi.version.clone(),
            kind: Kind::Nagi,
            program: nagi.program.clone(),
            root: None,
            io: "epoll",
        };
        all.insert(1, by_epoll);
    }

    /// Returns the path of nagi's binary, which is also the load generator.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    pub(super) fn is_nagi(&self) -> bool {
        self.kind == Kind::Nagi
    }

    /// Whether the server is nagi, in this build or another.
    pub(super) fn is_build(&self) -> bool {
        matches!(self.kind, Kind::Nagi | Kind::OtherBuild)
    }

    /// Whether the server is one that nagi is compared with.
    pub(super) fn is_peer(&self) -> bool {
        use Kind::{Memcached, OtherBuild, Pogocache, Redis};
        matches!(self.kind, Redis | Memcached | Pogocache | OtherBuild)
    }

    /// Whether the server is a peer that supports BGSAVE.
    pub(super) fn has_snapshots(&self) -> bool {
        matches!(self.kind, Kind::Redis | Kind::OtherBuild)
    }

    pub(super) fn speaks(&self, protocol: Protocol) -> bool {
        match self.kind {
            Kind::Nagi | Kind::OtherBuild => true,
            Kind::Redis | Kind::Pogocache | Kind::Responder => protocol == Protocol::Resp,
            Kind::Memcached => protocol == Protocol::Memcached,
        }
    }

    /// Starts the server empty, with enough memory for all measurements.
    pub(super) fn start(&self, placement: Placement) -> Result<Server> {
        self.start_with(placement, &[])
    }

    /// Starts the server with its files in `folder`, including existing ones.
    pub(super) fn start_in(&self, folder: &Folder) -> Result<Server> {
        self.start_with(Placement::Free, &["--dir", &folder.theirs])
    }

    /// Creates a folder that the server can access.
    pub(super) fn new_folder(&self) -> Result<Folder> {
        let theirs = format!("/tmp/nagi-bench-{}", std::process::id());
        let ours = match &self.root {
            Some(root) => root.join(theirs.trim_start_matches('/')),
            None => PathBuf::from(&theirs),
        };
        fs::create_dir_all(&ours).with_context(|| format!("cannot create {}", ours.display()))?;
        Ok(Folder { ours, theirs })
    }

    /// Starts the server with additional arguments.
    pub(super) fn start_with(&self, placement: Placement, arguments: &[&str]) -> Result<Server> {
        let mut command = self.command(|program| placement.server(program));
        let pinned = placement == Placement::Pinned;
        let started = match self.kind {
            Kind::Nagi | Kind::OtherBuild => {
                command.args(["serve", "--maxclients", "15000", "--io", self.io]);
                command.args(if pinned { &["--workers", "1"][..] } else { &[] }).args(arguments);
                Server::start_nagi(command)
            }
            Kind::Redis => {
                command.args(["--maxclients", "15000"]).args(arguments);
                Server::start_redis(command)
            }
            Kind::Memcached => {
                command.args(["-m", "4096", "-c", "15000", "-t", if pinned { "1" } else { "2" }]);
                Server::start_memcached(command)
            }
            Kind::Pogocache => {
                // memcached has none of redis-server's options, such as the folder.
                command.args(["--maxconns", "15000", "--threads", if pinned { "1" } else { "2" }]);
                Server::start_pogocache(command)
            }
            Kind::Responder => {
                command.arg("bench-responder");
                Server::start_responder(command)
            }
        };
        started.map_err(|problem| anyhow!("{}: {problem}", self.name))
    }

    fn command(&self, run: impl Fn(&std::ffi::OsStr) -> Command) -> Command {
        match &self.root {
            None => run(self.program.as_os_str()),
            Some(root) => {
                let mut command = run("chroot".as_ref());
                command.arg(root).arg(&self.program);
                command
            }
        }
    }

    /// Returns the version in the output of `--version`, such as `Redis server v=8.0.6 sha=...`.
    fn ask_version(&self) -> String {
        let mut command = self.command(|program| Command::new(program));
        let text = process::output(command.arg("--version")).unwrap_or_default();
        let word = text.split_whitespace().find(|word| {
            let number = word.strip_prefix("v=").unwrap_or(word);
            number.starts_with(|first: char| first.is_ascii_digit())
        });
        word.map(|word| word.trim_start_matches("v=")).unwrap_or("unknown").to_owned()
    }
}
