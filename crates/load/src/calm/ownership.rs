//! Checks that all data of a server was written by the tool, and removes it.
//!
//! A RESP server lists its keys: all of them must begin with the tool's prefix. memcached does not
//! list keys, so its counts of items stored and held must be explained by the tool's own writes.
//! Without `--i-may-destroy-data`, nothing is flushed that has not passed a check.

use std::collections::BTreeMap;

use nagi_client::Protocol;

use super::probe::PREFIX;
use super::server::Server;
use super::written::Items;
use crate::clock::{SECOND, now_ns};
use crate::wire::{Answer, Wire};

/// COUNT of each SCAN: the approximate number of keys in an answer.
const PAGE_KEYS: &str = "1000";

/// How long the number of keys may keep changing, since keys of the tool may still be expiring.
const SETTLE_NS: u64 = 60 * SECOND;

/// How long memcached's crawler may take to remove flushed items.
const CRAWL_NS: u64 = 20 * SECOND;

/// Time between two polls.
const POLL_NS: u64 = SECOND / 5;

impl Server {
    /// # Errors
    /// The server holds data, and destroying it was not allowed.
    pub(crate) fn check_empty(&mut self) -> Result<(), String> {
        if self.may_destroy {
            return Ok(());
        }
        let name = &self.target.name;
        let refused = |what: &str| {
            Err(format!("{name} {what}: give --i-may-destroy-data if its data may be lost"))
        };
        let mut wire = self.connect()?;
        if self.target.protocol == Protocol::Resp {
            return match self.keys_with(&mut wire)? {
                0 => Ok(()),
                keys => refused(&format!("is not empty (keys: {keys})")),
            };
        }
        let items = self.items(&mut wire)?;
        match self.emptied {
            Some(emptied) if items.total != emptied.total || items.held > emptied.held => {
                refused("has been written to by another client")
            }
            None if items.held > 0 => refused(&format!("is not empty (keys: {})", items.held)),
            _ => {
                self.emptied.get_or_insert(items);
                Ok(())
            }
        }
    }

    /// Removes the keys that a step has left, provided that all keys belong to the tool or
    /// destroying data is allowed.
    ///
    /// # Errors
    /// There are keys of another client, or the server cannot be queried.
    pub(crate) fn clean(&mut self) -> Result<(), String> {
        let mut wire = self.connect()?;
        if self.target.protocol == Protocol::Memcached {
            return self.clean_memcached(&mut wire);
        }
        self.check_own(&mut wire)?;
        let all = if self.may_destroy { "FLUSHALL" } else { "FLUSHDB" };
        let flushed = wire.command(&[all.as_bytes()])?;
        flushed.or_error(&format!("{}: {all}", self.target.name)).map(drop)
    }

    /// Returns the number of keys, all of which belong to the tool unless destroying data is
    /// allowed. The check misses keys that are stored after the last count, so a flush must follow
    /// at once.
    ///
    /// # Errors
    /// There are keys of another client, or the server cannot be queried.
    pub(crate) fn check_own(&self, wire: &mut Wire) -> Result<u64, String> {
        match (self.may_destroy, self.target.protocol) {
            (true, _) => self.keys_with(wire),
            (false, Protocol::Memcached) => self.check_items(wire).map(|items| items.held),
            (false, Protocol::Resp) => self.check_keys(wire),
        }
    }

    fn check_keys(&self, wire: &mut Wire) -> Result<u64, String> {
        let give_up_ns = now_ns() + SETTLE_NS;
        loop {
            let before = self.databases(wire)?;
            let other = before.iter().find(|(name, keys)| *name != "db0" && **keys > 0);
            if let Some((database, _)) = other {
                return Err(self.foreign(&format!("keys in {database}")));
            }
            let mut cursor = "0".to_owned();
            loop {
                cursor = self.check_page(wire, &cursor)?;
                if cursor == "0" {
                    break;
                }
            }
            // SCAN may miss keys that are added while it runs.
            if self.databases(wire)? == before {
                return Ok(before.values().sum());
            }
            if now_ns() > give_up_ns {
                return Err(self.foreign("a number of keys that keeps changing"));
            }
            self.interrupt.sleep_until(now_ns() + POLL_NS)?;
        }
    }

    /// Returns the number of keys in each database.
    pub(super) fn databases(&self, wire: &mut Wire) -> Result<BTreeMap<String, u64>, String> {
        let mut keyspace = self.info(wire, "keyspace")?;
        keyspace
            .retain(|name, _| name.strip_prefix("db").is_some_and(|it| it.parse::<u32>().is_ok()));
        if keyspace.is_empty() {
            // No keys are stored, or the server's INFO has no keyspace section.
            return match wire.run("DBSIZE")? {
                Answer::Integer(keys) => Ok([("db0".to_owned(), keys.unsigned_abs())].into()),
                answer => Err(format!("{}: DBSIZE: {}", self.target.name, answer.text())),
            };
        }
        let counts = keyspace.iter().map(|(database, text)| {
            // The text has the form `keys=7,expires=0`.
            let number = text.split(',').find_map(|part| part.strip_prefix("keys=")?.parse().ok());
            let said = || format!("{}: INFO says of {database}: {text}", self.target.name);
            Ok((database.clone(), number.ok_or_else(said)?))
        });
        counts.collect()
    }

    /// Checks the keys of one SCAN, and returns the cursor for the next SCAN.
    fn check_page(&self, wire: &mut Wire, cursor: &str) -> Result<String, String> {
        // The number of keys in an answer has no limit, so the keys are read one by one.
        let mut request = Vec::new();
        let words = [b"SCAN", cursor.as_bytes(), b"COUNT", PAGE_KEYS.as_bytes()];
        nagi_client::encode_command(&words, &mut request);
        wire.send(&request)?;
        self.length(wire, '*')?;
        let len = self.length(wire, '$')?;
        let next = String::from_utf8_lossy(&wire.content(len)?).into_owned();
        for _ in 0..self.length(wire, '*')? {
            let len = self.length(wire, '$')?;
            let key = wire.content(len)?;
            if !key.starts_with(PREFIX.as_bytes()) {
                return Err(self.foreign(&format!("the key {}", key.escape_ascii())));
            }
        }
        Ok(next)
    }

    /// Reads a line of RESP that begins with `kind`, and returns the number after it.
    fn length(&self, wire: &mut Wire, kind: char) -> Result<u64, String> {
        let line = wire.line()?;
        let number = line.strip_prefix(kind).and_then(|rest| rest.parse().ok());
        number.ok_or_else(|| format!("{}: SCAN: {}", self.target.name, line.trim_matches('-')))
    }

    fn items(&self, wire: &mut Wire) -> Result<Items, String> {
        let stats = self.stats(wire, "")?;
        let number = |name: &str| {
            let value = stats.get(name).and_then(|count| count.parse().ok());
            value.ok_or_else(|| format!("{}: stats have no {name}", self.target.name))
        };
        Ok(Items { total: number("total_items")?, held: number("curr_items")? })
    }

    fn check_items(&self, wire: &mut Wire) -> Result<Items, String> {
        let items = self.items(wire)?;
        let emptied = self.emptied.unwrap_or(Items { total: 0, held: 0 });
        let foreign = items.total.saturating_sub(emptied.total + self.written.stored());
        if foreign > 0 {
            return Err(self.foreign(&format!("or has held {foreign} items")));
        }
        let foreign = items.held.saturating_sub(emptied.held + self.written.keys());
        match foreign {
            0 => Ok(items),
            _ => Err(self.foreign(&format!("{foreign} items"))),
        }
    }

    fn clean_memcached(&mut self, wire: &mut Wire) -> Result<(), String> {
        let checked = if self.may_destroy { None } else { Some(self.check_items(wire)?) };
        let flushed = wire.lines("flush_all")?;
        if flushed != ["OK"] {
            return Err(format!("{}: flush_all: {}", self.target.name, flushed.concat()));
        }
        // Without a crawler, memcached counts flushed items until they are overwritten.
        let crawls = wire.lines("lru_crawler crawl all")? == ["OK"];
        let give_up_ns = now_ns() + CRAWL_NS;
        let mut items = self.items(wire)?;
        while crawls && items.held > 0 && now_ns() < give_up_ns {
            self.interrupt.sleep_until(now_ns() + POLL_NS)?;
            items = self.items(wire)?;
        }
        // Items stored after the check may belong to another client, so they are not counted as the
        // tool's.
        let total = checked.map_or(items.total, |checked| checked.total);
        self.emptied = Some(Items { total, ..items });
        self.written.clear();
        Ok(())
    }

    fn foreign(&self, what: &str) -> String {
        format!(
            "{} holds {what}, which this tool did not store: nothing is removed",
            self.target.name
        )
    }
}
