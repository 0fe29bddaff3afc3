//! Identifies a server, and checks what is allowed on it.
//!
//! A benchmark that flushes and fills must never touch data of other clients: all databases are
//! checked before the run, before each step, and before the tool's data is removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use nagi_client::Protocol;
use serde::Serialize;

use super::written::{Items, Written};
use crate::clock::SECOND;
use crate::interrupt::Interrupt;
use crate::target::Target;
use crate::wire::{ANSWER_TIMEOUT_NS, Answer, Wire};

/// Parts of the errors for commands that a server lacks, or that the user may not execute.
const UNKNOWN: [&str; 3] = ["unknown command", "unknown subcommand", "noperm"];

/// How long an answer may take while keys are removed after an interrupt.
const CLEAN_TIMEOUT_NS: u64 = 5 * SECOND;

/// Whether an error says that the server lacks a command or denies it.
fn is_unknown(error: &str) -> bool {
    let error = error.to_lowercase();
    UNKNOWN.iter().any(|it| error.contains(it))
}

/// Whether an error says that the user may not execute a command.
pub(super) fn is_denied(error: &str) -> bool {
    error.contains("NOPERM")
}

/// A server under test.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) target: Target,
    /// Name and version, such as `Valkey 9.1.0`.
    pub(crate) name: String,
    /// Whether all data of the server may be destroyed.
    pub(crate) may_destroy: bool,
    pub(crate) interrupt: Interrupt,
    /// How long an answer may take, in nanoseconds.
    answer_timeout_ns: u64,
    /// memcached's counts when the server was last empty.
    pub(super) emptied: Option<Items>,
    /// What the tool has written since the server was last empty.
    pub(crate) written: Arc<Written>,
}

/// A reason why a server needs `--i-may-destroy-data`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Danger(pub(crate) String);

impl Server {
    /// Asks the server for its name and version.
    ///
    /// # Errors
    /// The server cannot be reached, or its answer violates the protocol.
    pub(crate) fn identify(
        target: Target,
        may_destroy: bool,
        interrupt: &Interrupt,
    ) -> Result<Self, String> {
        let interrupt = interrupt.clone();
        let (name, emptied, written) = <_>::default();
        let answer_timeout_ns = ANSWER_TIMEOUT_NS;
        let mut server =
            Server { target, name, may_destroy, interrupt, answer_timeout_ns, emptied, written };
        let mut wire = server.connect()?;
        wire.set_answer_timeout(5 * SECOND);
        server.name = match server.target.protocol {
            Protocol::Memcached => {
                let version = wire.lines("version")?.pop().unwrap_or_default();
                let number = version
                    .strip_prefix("VERSION ")
                    .ok_or_else(|| format!("{}: not memcached: {version}", server.target.name))?;
                format!("memcached {number}")
            }
            Protocol::Resp => {
                let info = server.info(&mut wire, "server")?;
                let field = |name: &str| info.get(name).cloned();
                let named = [
                    ("nagi", field("nagi_version")),
                    ("Valkey", field("valkey_version")),
                    ("Redis", field("redis_version")),
                ];
                let found = named.into_iter().find_map(|(name, version)| Some((name, version?)));
                let (name, version) = found.unwrap_or(("server", String::new()));
                format!("{name} {version}").trim_end().to_owned()
            }
        };
        Ok(server)
    }

    /// Returns a copy whose connections ignore Ctrl-C, for cleaning after it.
    pub(crate) fn not_interrupted(&self) -> Self {
        let (interrupt, answer_timeout_ns) = (Interrupt::default(), CLEAN_TIMEOUT_NS);
        Server { interrupt, answer_timeout_ns, ..self.clone() }
    }

    pub(crate) fn connect(&self) -> Result<Wire, String> {
        Wire::open_within(&self.target, &self.interrupt, self.answer_timeout_ns)
    }

    /// Returns the fields of INFO by name; empty if the server has no INFO.
    ///
    /// # Errors
    /// The server cannot be queried, or refuses.
    pub(crate) fn info(
        &self,
        wire: &mut Wire,
        section: &str,
    ) -> Result<BTreeMap<String, String>, String> {
        let answer = wire.command(&[b"INFO", section.as_bytes()])?;
        if let Answer::Error(text) = &answer
            && is_unknown(text)
            && !is_denied(text)
        {
            return Ok(BTreeMap::new());
        }
        let text = answer.or_error(&format!("{}: INFO", self.target.name))?.text();
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Ok(fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    }

    /// Queries memcached's `stats`.
    ///
    /// # Errors
    /// The server cannot be queried.
    pub(crate) fn stats(
        &self,
        wire: &mut Wire,
        which: &str,
    ) -> Result<BTreeMap<String, String>, String> {
        let lines = wire.lines(format!("stats {which}").trim_end())?;
        let fields = lines.iter().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
        Ok(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Returns the reasons why this server must not be used without `--i-may-destroy-data`.
    ///
    /// # Errors
    /// The server cannot be queried.
    pub(crate) fn dangers(&self) -> Result<Vec<Danger>, String> {
        let mut dangers = Vec::new();
        let mut wire = self.connect()?;
        if !self.target.is_local() {
            dangers.push(Danger("is not on this machine's loopback".to_owned()));
        }
        if self.target.protocol == Protocol::Resp {
            let replication = self.info(&mut wire, "replication")?;
            let is = |name: &str| replication.get(name).map(String::as_str).unwrap_or_default();
            match is("role") {
                "master" => {}
                "" => dangers.push(Danger(
                    "does not say in INFO whether it is a replica, and which databases have keys"
                        .to_owned(),
                )),
                _ => dangers.push(Danger("is a replica".to_owned())),
            }
            if !matches!(is("connected_slaves"), "0" | "") {
                dangers.push(Danger(format!("has replicas ({})", is("connected_slaves"))));
            }
            let cluster = self.info(&mut wire, "cluster")?;
            if cluster.get("cluster_enabled").is_some_and(|on| on != "0") {
                dangers.push(Danger("is a node of a cluster".to_owned()));
            }
            if let Err(why) = self.require_command("SCAN") {
                dangers.push(Danger(format!("does not list its keys ({why})")));
            }
        }
        let keys = self.keys_with(&mut wire)?;
        if keys > 0 {
            dangers.push(Danger(format!("is not empty (keys: {keys})")));
        }
        Ok(dangers)
    }

    /// Returns the number of keys in all databases.
    ///
    /// # Errors
    /// The server cannot be queried.
    pub(crate) fn keys(&self) -> Result<u64, String> {
        self.keys_with(&mut self.connect()?)
    }

    pub(super) fn keys_with(&self, wire: &mut Wire) -> Result<u64, String> {
        if self.target.protocol == Protocol::Memcached {
            let stats = self.stats(wire, "")?;
            return stats.get("curr_items").and_then(|count| count.parse().ok()).ok_or_else(|| {
                format!("{}: stats do not say how many items there are", self.target.name)
            });
        }
        Ok(self.databases(wire)?.values().sum())
    }

    /// Checks that the server has a command, by the answer to `probe`, which must have no effect.
    ///
    /// # Errors
    /// The server's error, or that it cannot be queried.
    pub(crate) fn require_command(&self, probe: &str) -> Result<(), String> {
        let words: Vec<&[u8]> = probe.split(' ').map(str::as_bytes).collect();
        match self.connect()?.command(&words)? {
            Answer::Error(text) if is_unknown(&text) => {
                // The text after the first comma only repeats the request.
                Err(text.split(',').next().unwrap_or_default().to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Returns the server's memory limit in bytes; `None` if there is no limit.
    ///
    /// # Errors
    /// The server cannot be queried.
    pub(crate) fn limit_bytes(&self) -> Result<Option<u64>, String> {
        let mut wire = self.connect()?;
        let fields = match self.target.protocol {
            Protocol::Memcached => self.stats(&mut wire, "")?,
            Protocol::Resp => self.info(&mut wire, "memory")?,
        };
        let limit = fields.get("limit_maxbytes").or_else(|| fields.get("maxmemory"));
        Ok(limit.and_then(|bytes| bytes.parse().ok()).filter(|bytes| *bytes > 0))
    }
}

/// Returns the memory available on this machine without swapping, in bytes.
pub(crate) fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
