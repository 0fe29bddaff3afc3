//! The command line of `nagi storm`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use nagi_client::cache::Settings;
use nagi_client::ring::{Configuration, Server};
use nagi_client::wire::Dialect;
use serde::Serialize;

use crate::login::LoginOptions;

/// The longest key that memcached accepts, in bytes.
const KEY_BYTES: usize = 250;

/// The longest value that Redis accepts, in bytes.
const VALUE_BYTES: usize = 512 << 20;

/// The prefix of keys, unless the keys are too short for it.
const PREFIX: &str = "storm:";

/// Sets every record and gets it back, as memstorm does, on one or several servers.
///
/// A closed loop: each client sends its next request when the previous one is answered, so a server
/// that stalls receives fewer requests. nagi bench --rate shows stalls in full.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct StormOptions {
    /// Servers to write to: HOST, HOST:PORT, HOST:PORT:WEIGHT or /PATH, separated by commas.
    #[arg(long, short, value_delimiter = ',', value_name = "SERVER,...")]
    #[serde(serialize_with = "as_texts")]
    pub servers: Vec<Server>,
    /// Records to set and get.
    #[arg(long = "records", short = 'n', default_value_t = 10_000, value_name = "N")]
    pub records: u64,
    /// Bytes of a key.
    #[arg(long = "key-bytes", short = 'k', default_value_t = 64, value_name = "N")]
    pub key_bytes: usize,
    /// Bytes of a value, such as 10240, 10k or 1m; several sizes, separated by commas, are
    /// measured one after the other.
    #[arg(
        long = "value-bytes",
        short = 'l',
        value_delimiter = ',',
        default_value = "1024",
        value_name = "N,...",
        value_parser = size
    )]
    pub value_bytes: Vec<usize>,
    /// Send requests without waiting for earlier answers, up to 100 in flight on a connection.
    #[arg(long = "non-blocking", short = 'b')]
    pub non_blocking: bool,
    /// Set TCP_NODELAY: send requests at once instead of waiting for a full packet.
    #[arg(long)]
    pub tcp_nodelay: bool,
    /// Connections to each server, over all threads.
    #[arg(long, short, default_value_t = 1, value_name = "N")]
    pub connections: usize,
    /// Threads that share the records and the connections.
    #[arg(long, short, default_value_t = 1, value_name = "N")]
    pub threads: usize,
    /// Protocol: text, meta or binary for memcached, resp for Redis.
    #[arg(long, default_value = "text", value_name = "NAME")]
    #[serde(serialize_with = "as_debugged")]
    pub protocol: Dialect,
    /// How keys are distributed, such as php-ketama; `nagi client --help` lists the names.
    #[arg(long, default_value = "libmemcached", value_name = "LIBRARY")]
    #[serde(serialize_with = "as_text")]
    pub like: Configuration,
    /// How to log in.
    #[command(flatten)]
    #[serde(skip)]
    pub login: LoginOptions,
    /// How long a server may take to answer.
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    pub timeout_ms: u64,
    /// Write the report as JSON to a file; - writes it to standard output instead of text.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Show no progress.
    #[arg(long, short)]
    pub quiet: bool,
}

impl StormOptions {
    /// Checks that the options do not contradict each other. The error is one line.
    pub(super) fn check(&self) -> Result<(), String> {
        let digits = self.records.saturating_sub(1).checked_ilog10().map_or(1, |log| log + 1);
        let StormOptions { records, key_bytes, threads, connections, .. } = *self;
        if self.servers.is_empty() {
            return Err(format!(
                "name the servers with -s, such as -s 127.0.0.1:11211: {records} records are \
                 written to them"
            ));
        }
        if records == 0 || threads == 0 || connections == 0 || self.timeout_ms == 0 {
            return Err("-n, -c, -t and --timeout-ms are above 0".to_owned());
        }
        if key_bytes < digits as usize {
            return Err(format!("{records} keys do not fit into keys of {key_bytes} bytes"));
        }
        if key_bytes > KEY_BYTES && self.protocol != Dialect::Resp {
            return Err(format!("memcached's keys have at most {KEY_BYTES} bytes"));
        }
        if threads > connections {
            return Err(format!("{threads} threads have only {connections} connections to share"));
        }
        if let Some(dead) = self.servers.iter().find(|server| server.is_unix() && self.tcp_nodelay)
        {
            return Err(format!("{dead} is a Unix socket, which has no --tcp-nodelay"));
        }
        Ok(())
    }

    /// Returns the settings for the clients of all threads.
    ///
    /// # Errors
    /// The password cannot be read.
    pub(super) fn settings(&self) -> Result<Settings, String> {
        let mut settings = Settings {
            dialect: self.protocol,
            timeout: Duration::from_millis(self.timeout_ms),
            tcp_nodelay: self.tcp_nodelay,
            ..Settings::default()
        };
        settings.prefix = self.like.prefix().into();
        self.login.apply(&mut settings)?;
        Ok(settings)
    }

    /// The number of connections that thread `thread` has to each server.
    pub(super) fn connections_of(&self, thread: usize) -> usize {
        (self.connections - thread).div_ceil(self.threads)
    }

    /// Returns the key of a record.
    pub(super) fn key(&self, record: u64) -> String {
        let digits =
            self.records.saturating_sub(1).checked_ilog10().map_or(1, |log| log as usize + 1);
        let room = self.key_bytes - digits;
        let prefix = if room >= PREFIX.len() { PREFIX } else { "" };
        let width = self.key_bytes - prefix.len();
        format!("{prefix}{record:0width$}")
    }
}

fn as_text<S: serde::Serializer>(value: &impl fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

fn as_texts<S: serde::Serializer>(values: &[impl fmt::Display], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(values.iter().map(ToString::to_string))
}

fn as_debugged<S: serde::Serializer>(value: &Dialect, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&format!("{value:?}").to_lowercase())
}

/// Parses a size in bytes, with the units k, m and g by powers of 1024.
fn size(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K', 'm', 'M', 'g', 'G']) {
        None => (text, 1),
        Some(digits) => match text.as_bytes().last() {
            Some(b'k' | b'K') => (digits, 1 << 10),
            Some(b'm' | b'M') => (digits, 1 << 20),
            _ => (digits, 1 << 30),
        },
    };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    bytes
        .filter(|bytes| *bytes <= VALUE_BYTES)
        .ok_or_else(|| "expected a number of bytes up to 512m".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: StormOptions,
    }

    fn options(line: &str) -> StormOptions {
        Line::try_parse_from(format!("storm -s localhost {line}").split(' ')).unwrap().options
    }

    #[test]
    fn keys_are_distinct_and_of_the_length_asked_for() {
        assert_eq!(options("-n 100 -k 10").key(7), "storm:0007");
        assert_eq!(options("-n 100 -k 2").key(99), "99");
        assert_eq!(options("-n 1 -k 64").key(0).len(), 64);
    }

    #[test]
    fn sizes_are_parsed_with_units() {
        assert_eq!(
            ["0", "10k", "1m", "512m"].map(|text| size(text).unwrap()),
            [0, 10 << 10, 1 << 20, 512 << 20]
        );
        for text in ["", "k", "513m", "-1", "1.5k"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        for (line, reason) in [
            ("-n 0", "above 0"),
            ("-k 0", "do not fit"),
            ("-n 1000 -k 2", "do not fit"),
            ("-k 251", "250"),
            ("-t 2", "to share"),
            ("-s /tmp/socket --tcp-nodelay", "Unix socket"),
        ] {
            let refusal = options(line).check().unwrap_err();
            assert!(refusal.contains(reason), "{line}: {refusal}");
        }
        assert_eq!(options("-k 251 --protocol resp").check(), Ok(()));
    }

    #[test]
    fn threads_share_connections() {
        let all = options("-c 5 -t 2");
        assert_eq!([0, 1].map(|thread| all.connections_of(thread)), [3, 2]);
    }
}
