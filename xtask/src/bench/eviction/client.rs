//! The client of a read-through cache.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use harness::Server;

/// Number of requests sent before the replies are read.
pub(super) const BATCH: usize = 64;

pub(super) struct Client {
    stream: BufReader<TcpStream>,
    requests: String,
    line: String,
}

impl Client {
    pub(super) fn connect(server: &Server) -> Result<Self> {
        let stream = TcpStream::connect(server.resp())?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self { stream: BufReader::new(stream), requests: String::new(), line: String::new() })
    }

    /// Requests a batch of keys, and stores the missing ones. Returns the number of missing keys; a
    /// key that is missing twice in the batch counts once.
    pub(super) fn read_through(&mut self, keys: &[u64], value: &str) -> Result<usize> {
        self.requests.clear();
        for key in keys {
            write!(self.requests, "*2\r\n$3\r\nGET\r\n$16\r\nkey:{key:012}\r\n")?;
        }
        self.send()?;
        let mut missing = HashSet::new();
        for key in keys {
            if self.bulk()?.is_none() {
                missing.insert(*key);
            }
        }
        self.store(missing.iter().copied(), value)?;
        Ok(missing.len())
    }

    /// Stores the same value under each of the keys.
    pub(super) fn store(&mut self, keys: impl Iterator<Item = u64>, value: &str) -> Result<()> {
        self.requests.clear();
        let mut count = 0;
        for key in keys {
            let length = value.len();
            write!(
                self.requests,
                "*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n${length}\r\n{value}\r\n"
            )?;
            count += 1;
        }
        self.send()?;
        for _ in 0..count {
            self.read_line()?;
            if self.line != "+OK" {
                bail!("SET answers {}", self.line);
            }
        }
        Ok(())
    }

    /// Sends an inline command. Returns the line that answers it, such as `+OK` or `:12`.
    pub(super) fn ask(&mut self, command: &str) -> Result<&str> {
        self.requests.clear();
        write!(self.requests, "{command}\r\n")?;
        self.send()?;
        self.read_line()?;
        if self.line.starts_with('-') {
            bail!("{command}: {}", self.line);
        }
        Ok(self.line.get(1..).unwrap_or_default())
    }

    /// Returns the number of keys.
    pub(super) fn keys(&mut self) -> Result<u64> {
        Ok(self.ask("DBSIZE")?.parse()?)
    }

    /// Returns a number from INFO.
    pub(super) fn info(&mut self, name: &str) -> Result<u64> {
        self.requests.clear();
        self.requests.push_str("INFO\r\n");
        self.send()?;
        let text = self.bulk()?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let value = value.with_context(|| format!("INFO has no {name}"))?;
        value.parse().with_context(|| format!("{name} is {value}"))
    }

    /// Returns the memory in use when it no longer changes, because keys removed by FLUSHALL may be
    /// freed later.
    pub(super) fn settled_memory(&mut self) -> Result<u64> {
        let mut before = self.info("used_memory")?;
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let now = self.info("used_memory")?;
            if now == before {
                return Ok(now);
            }
            before = now;
        }
    }

    /// Sets the memory limit and the eviction policy.
    pub(super) fn limit(&mut self, bytes: u64, policy: &str) -> Result<()> {
        self.ask(&format!("CONFIG SET maxmemory-policy {policy}"))?;
        self.ask(&format!("CONFIG SET maxmemory {bytes}"))?;
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        Ok(self.stream.get_mut().write_all(self.requests.as_bytes())?)
    }

    fn bulk(&mut self) -> Result<Option<Vec<u8>>> {
        self.read_line()?;
        let length = self.line.strip_prefix('$').with_context(|| format!("got {}", self.line))?;
        let Ok(length) = length.parse::<usize>() else { return Ok(None) };
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(Some(bytes))
    }

    fn read_line(&mut self) -> Result<()> {
        self.line.clear();
        self.stream.read_line(&mut self.line)?;
        self.line.truncate(self.line.trim_end().len());
        Ok(())
    }
}
