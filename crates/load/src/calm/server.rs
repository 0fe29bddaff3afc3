//! Identifies a server, and checks what is allowed on it and whether its data belongs to the tool.
//!
//! A benchmark that flushes and fills must never touch data of other clients: all databases are
//! checked before the run, before each step, and before the tool's data is removed.

use std::collections::BTreeMap;

use nagi_client::Protocol;
use serde::Serialize;

use super::probe::PREFIX;
use crate::clock::{SECOND, now_ns};
use crate::interrupt::Interrupt;
use crate::target::Target;
use crate::wire::{Answer, Wire};

/// Keys that are checked for the tool's prefix.
const SAMPLES: usize = 64;

/// How long memcached's crawler may take to remove flushed items.
const CRAWL_NS: u64 = 20 * SECOND;

/// Time between two polls.
const POLL_NS: u64 = SECOND / 5;

/// Prefixes of the errors for unknown commands.
const UNKNOWN: [&str; 3] = ["ERR unknown command", "ERR unknown subcommand", "NOPERM"];

/// A server under test.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) target: Target,
    /// Such as `Valkey 9.1.0`.
    pub(crate) name: String,
    /// Whether all of its data may be destroyed.
    pub(crate) may_destroy: bool,
    pub(crate) interrupt: Interrupt,
    /// memcached's count of items ever stored, at the time the tool last emptied it.
    stored: Option<u64>,
}

/// A reason for `--i-may-destroy-data`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Danger(pub(crate) String);

impl Server {
    /// Asks the server for its name and version.
    ///
    /// # Errors
    /// It cannot be reached, or its answer violates the protocol.
    pub(crate) fn identify(
        target: Target,
        may_destroy: bool,
        interrupt: &Interrupt,
    ) -> Result<Self, String> {
        let interrupt = interrupt.clone();
        let mut server =
            Server { target, name: String::new(), may_destroy, interrupt, stored: None };
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

    /// The same server, for work that must be done even after Ctrl-C.
    pub(crate) fn not_interrupted(&self) -> Self {
        Server { interrupt: Interrupt::default(), ..self.clone() }
    }

    pub(crate) fn connect(&self) -> Result<Wire, String> {
        Wire::open(&self.target, &self.interrupt)
    }

    /// INFO by name.
    ///
    /// # Errors
    /// The server cannot be queried, or refuses.
    pub(crate) fn info(
        &self,
        wire: &mut Wire,
        section: &str,
    ) -> Result<BTreeMap<String, String>, String> {
        let answer = wire.command(&[b"INFO", section.as_bytes()])?;
        let text = answer.or_error(&format!("{}: INFO", self.target.name))?.text();
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Ok(fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    }

    /// memcached's `stats`.
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

    /// Why this server must not be used without `--i-may-destroy-data`.
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
            if !matches!(is("role"), "master" | "") {
                dangers.push(Danger("is a replica".to_owned()));
            }
            if !matches!(is("connected_slaves"), "0" | "") {
                dangers.push(Danger(format!("has {} replicas", is("connected_slaves"))));
            }
            let cluster = self.info(&mut wire, "cluster")?;
            if cluster.get("cluster_enabled").is_some_and(|on| on != "0") {
                dangers.push(Danger("is a node of a cluster".to_owned()));
            }
        }
        let keys = self.keys_with(&mut wire)?;
        if keys > 0 {
            dangers.push(Danger(format!("holds {keys} keys")));
        }
        Ok(dangers)
    }

    /// The number of keys in all databases.
    ///
    /// # Errors
    /// The server cannot be queried.
    pub(crate) fn keys(&self) -> Result<u64, String> {
        self.keys_with(&mut self.connect()?)
    }

    fn keys_with(&self, wire: &mut Wire) -> Result<u64, String> {
        if self.target.protocol == Protocol::Memcached {
            let stats = self.stats(wire, "")?;
            return stats.get("curr_items").and_then(|count| count.parse().ok()).ok_or_else(|| {
                format!("{}: stats do not say how many items there are", self.target.name)
            });
        }
        let keyspace = self.info(wire, "keyspace")?;
        keyspace.iter().map(|(database, text)| self.count(database, text)).sum()
    }

    /// The number in `keys=7,expires=0`.
    fn count(&self, database: &str, text: &str) -> Result<u64, String> {
        let number = text.split(',').find_map(|part| part.strip_prefix("keys=")?.parse().ok());
        number.ok_or_else(|| format!("{}: INFO says of {database}: {text}", self.target.name))
    }

    /// # Errors
    /// There is data, and destroying it was not allowed.
    pub(crate) fn check_empty(&self) -> Result<(), String> {
        if self.may_destroy {
            return Ok(());
        }
        let refused = |what: String| {
            Err(format!(
                "{} {what}: give --i-may-destroy-data if its data may be lost",
                self.target.name
            ))
        };
        let mut wire = self.connect()?;
        if let Some(stored) = self.stored {
            // Flushed items are counted until they are overwritten, so those stored are compared.
            return match self.total_items(&mut wire)? == stored {
                true => Ok(()),
                false => refused("has been written to by another client".to_owned()),
            };
        }
        match self.keys_with(&mut wire)? {
            0 => Ok(()),
            keys => refused(format!("holds {keys} keys")),
        }
    }

    fn total_items(&self, wire: &mut Wire) -> Result<u64, String> {
        let stats = self.stats(wire, "")?;
        stats.get("total_items").and_then(|count| count.parse().ok()).ok_or_else(|| {
            format!("{}: stats do not say how many items were stored", self.target.name)
        })
    }

    /// Removes the keys that a step has left, if all keys belong to the tool or destroying data is
    /// allowed.
    ///
    /// # Errors
    /// There are keys of another client, or the server cannot be queried.
    pub(crate) fn clean(&mut self) -> Result<(), String> {
        let mut wire = self.connect()?;
        if self.target.protocol == Protocol::Memcached {
            return self.clean_memcached(&mut wire);
        }
        self.check_own_keys(&mut wire)?;
        let all = if self.may_destroy { "FLUSHALL" } else { "FLUSHDB" };
        wire.run(all).map(drop)
    }

    pub(crate) fn check_own_keys(&self, wire: &mut Wire) -> Result<(), String> {
        if self.may_destroy {
            return Ok(());
        }
        let foreign = |what: &str| {
            format!(
                "{} holds {what}, which this tool did not store: nothing is removed",
                self.target.name
            )
        };
        let keyspace = self.info(wire, "keyspace")?;
        for (database, text) in keyspace.iter().filter(|(database, _)| *database != "db0") {
            if self.count(database, text)? > 0 {
                return Err(foreign(&format!("keys in {database}")));
            }
        }
        for _ in 0..SAMPLES {
            match wire.run("RANDOMKEY")? {
                Answer::Text(key, _) if key.starts_with(PREFIX.as_bytes()) => {}
                Answer::Text(key, _) => {
                    return Err(foreign(&format!("the key {}", key.escape_ascii())));
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn clean_memcached(&mut self, wire: &mut Wire) -> Result<(), String> {
        let flushed = wire.lines("flush_all")?;
        if flushed != ["OK"] {
            return Err(format!("{}: flush_all: {}", self.target.name, flushed.concat()));
        }
        // Without a crawler, flushed items count until they are overwritten.
        let crawls = wire.lines("lru_crawler crawl all")? == ["OK"];
        let give_up_ns = now_ns() + CRAWL_NS;
        while crawls && self.keys_with(wire)? > 0 && now_ns() < give_up_ns {
            self.interrupt.sleep_until(now_ns() + POLL_NS)?;
        }
        self.stored = Some(self.total_items(wire)?);
        Ok(())
    }

    /// Checks that the server has a command, by the answer to `probe`, which must have no effect.
    ///
    /// # Errors
    /// The server's error, or that it cannot be queried.
    pub(crate) fn require_command(&self, probe: &str) -> Result<(), String> {
        let words: Vec<&[u8]> = probe.split(' ').map(str::as_bytes).collect();
        match self.connect()?.command(&words)? {
            Answer::Error(text) if UNKNOWN.iter().any(|it| text.starts_with(it)) => {
                // The server repeats the request after a comma.
                Err(text.split(',').next().unwrap_or_default().to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The server's memory limit in bytes; `None` if it has none.
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

/// Bytes of memory available on this machine without swapping.
pub(crate) fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
