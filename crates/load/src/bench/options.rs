//! The command line of `nagi bench`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nagi_client::ring::Configuration;
use serde::Serialize;

use super::command::Command;
use super::compare::Comparison;
use super::keys::Distribution;
use super::protocol::Protocol;
use super::requests::Ttl;
use super::sizes::Sizes;
use super::slo::Slo;
use super::sweep::Sweep;
use crate::pace::Arrivals;
use crate::target;

/// Measures a Redis or memcached server under load.
///
/// By default each connection sends its next requests once the last ones are answered (a closed
/// loop), so a server that stalls is asked less and its stall shows in few requests only. With
/// --rate requests are due at fixed times and timed from then on, sent or not, so that a stall
/// shows in every request that it held up.
#[derive(Clone, Debug, Serialize, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchOptions {
    /// Something else than measuring.
    #[command(subcommand)]
    #[serde(skip)]
    pub beside: Option<Beside>,
    /// Servers: HOST[:PORT], redis://[[user]:password@]host[:port][/database],
    /// memcached://host[:port], http://[user:password@]host[:port] (nagi's gateway) or unix:PATH.
    /// Several of one kind make a ring: each connection is then one to every server.
    #[arg(value_name = "URL", conflicts_with_all = ["host", "port", "unix"])]
    #[serde(serialize_with = "masked")]
    pub urls: Vec<String>,
    /// How a ring spreads keys, such as php-ketama; `nagi client --help` lists the names. With
    /// redis-cluster one server is enough: it is asked for the others and their slots.
    #[arg(long, default_value = "libmemcached", value_name = "LIBRARY")]
    #[serde(serialize_with = "as_text")]
    pub like: Configuration,
    /// File whose first line is the password of servers whose URL has none; without it the
    /// environment's REDISCLI_AUTH is.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Host name or address of the server.
    #[arg(long, default_value = "127.0.0.1", value_name = "NAME")]
    pub host: String,
    /// Port of the server [default: 6379, 11211 for memcached or 7379 for HTTP].
    #[arg(long, short, value_name = "N")]
    pub port: Option<u16>,
    /// Unix socket of the server, instead of a host and port.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port"])]
    pub unix: Option<PathBuf>,
    /// What the server speaks; a URL says so itself, but for unix:.
    #[arg(long, value_enum, default_value_t)]
    pub protocol: Protocol,

    /// Connections, over all threads.
    #[arg(long, short, default_value_t = 50, value_name = "N", value_parser = positive::<u32>)]
    pub connections: u32,
    /// Threads that drive them.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = positive::<u32>)]
    pub threads: u32,
    /// Requests in flight on each connection.
    #[arg(long, short = 'P', default_value_t = 1, value_name = "N", value_parser = positive::<u32>)]
    pub pipeline: u32,
    /// Requests per second over all connections (an open loop), or N..M for a rate that rises or
    /// falls evenly while measuring; without it, as many as the server answers (a closed loop).
    #[arg(long, value_name = "N")]
    pub rate: Option<Rate>,
    /// When the requests of an open loop are due: at even intervals, or as those of many users.
    #[arg(long, value_enum, default_value_t)]
    pub arrivals: Arrivals,
    /// Find the highest rate at which a percentile stays below a limit, such as p99.9<2ms or
    /// max<50ms, by trials of --seconds each; with --rate, say whether it does at that rate. The
    /// exit status is 3 if it does not.
    #[arg(long, value_name = "PERCENTILE<TIME")]
    pub slo: Option<Slo>,
    /// What the search for --slo has to find at least, or the exit status is 3; it begins there
    /// and goes no lower.
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "slo",
        conflicts_with = "rate")]
    pub slo_at_least: Option<f64>,
    /// Close and reopen a connection after so many requests; their time holds that of connecting.
    #[arg(long, value_name = "N", value_parser = positive::<u64>)]
    pub reconnect_every: Option<u64>,

    /// Measure once for each of the values of an option and put the results in one table:
    /// rate=1000,2000,4000, or values of connections, pipeline, threads or value-bytes.
    #[arg(long, value_name = "OPTION=VALUE,...", conflicts_with_all = ["hdr_log", "percentiles"])]
    pub sweep: Option<Sweep>,

    /// Requests to measure [default: as many as fit into the time].
    #[arg(long, short = 'n', value_name = "N", value_parser = positive::<u64>)]
    pub requests: Option<u64>,
    /// Time to measure for [default: 10, without --requests].
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Time to run before measuring.
    #[arg(long, default_value_t = 0.0, value_name = "S", value_parser = seconds)]
    pub warmup_seconds: f64,
    /// Have the server save (BGSAVE) so long after measuring has begun, and tell apart what was
    /// before, during and after; without --seconds and --requests the run ends as long after it.
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub bgsave_after_seconds: Option<f64>,
    /// How long to wait for outstanding replies at the end, or for any reply with --requests.
    #[arg(long, default_value_t = 10.0, value_name = "S", value_parser = seconds)]
    pub reply_timeout_seconds: f64,

    /// Reads to writes.
    #[arg(long, default_value = "1:1", value_name = "GET:SET")]
    pub ratio: Ratio,
    /// Keys that a read asks for at once: MGET, or get with several keys.
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub multi_get: u64,
    /// Send this instead of reads and writes: words with {key}, {value}, {value:SIZES} or
    /// {number:A-B} in them, and before them perhaps a weight, such as
    /// '3:HSET h:{key} f {value:100}'.
    /// May be given several times.
    #[arg(long, value_name = "[WEIGHT:]COMMAND", conflicts_with_all = ["ratio", "multi_get"])]
    #[serde(serialize_with = "as_texts")]
    pub command: Vec<Command>,
    /// Send the requests of a trace, CSV in the form of Twitter's cache traces, one after the
    /// other and again from the start; without --requests and --seconds once.
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["command", "ratio", "multi_get", "fill", "keys", "key_file",
            "key_distribution", "ttl", "value_bytes"])]
    pub trace: Option<PathBuf>,
    /// Have each value carry a hash of its key, the number of its writing and a checksum, and
    /// count damaged values, those of other keys, those that had been overwritten and answers of
    /// the wrong kind; any of them fails the run. Nothing else may write the keys meanwhile.
    #[arg(long, conflicts_with_all = ["multi_get", "command"])]
    pub verify: bool,
    /// How long an overwritten value may still be found, as replicas have it.
    #[arg(long, default_value_t = 0, value_name = "MS", requires = "verify",
        value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    pub verify_stale_ms: u64,
    /// Keys that requests ask for.
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = positive::<u64>)]
    pub keys: u64,
    /// How requests spread over the keys: uniform, zipf:EXPONENT, hot:SHARE:REQUESTS (such
    /// as hot:0.1:0.9) or sequential.
    #[arg(long, default_value = "uniform", value_name = "NAME")]
    #[serde(serialize_with = "as_text")]
    pub key_distribution: Distribution,
    /// Names of keys, one a line, instead of numbered ones.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keys", "key_bytes"])]
    pub key_file: Option<PathBuf>,
    /// Length of a key.
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = positive::<usize>)]
    pub key_bytes: usize,
    /// Length of a value: 100, 4k, 512m; a range 10-100; sizes with weights 100:9,1m:1; or
    /// lognormal:MEDIAN:SIGMA.
    #[arg(long, short = 'd', default_value = "32", value_name = "SIZES")]
    #[serde(serialize_with = "as_text")]
    pub value_bytes: Sizes,
    /// Time to live of what is written, or a range such as 60-600.
    #[arg(long, value_name = "S")]
    #[serde(serialize_with = "as_optional_text")]
    pub ttl: Option<Ttl>,
    /// Write every key once before anything else.
    #[arg(long)]
    pub fill: bool,
    /// Seed of everything random [default: drawn, and reported].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Write the report as JSON to a file, or with - to standard output in place of the text.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as a page with plots, which needs no network and no script.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the latencies of each second as a log of HdrHistogram (V2), in nanoseconds.
    #[arg(long, value_name = "FILE")]
    pub hdr_log: Option<PathBuf>,
    /// Write the percentile distribution in milliseconds, as HdrHistogram's plotter reads it.
    #[arg(long, value_name = "FILE")]
    pub percentiles: Option<PathBuf>,
    /// Report each second on standard error even if that is no terminal.
    #[arg(long)]
    pub timeline: bool,
    /// Nothing on standard error but failures, and no text where --json names a file.
    #[arg(long, short, conflicts_with = "timeline")]
    pub quiet: bool,
    /// Succeed in spite of errors, which are reported all the same.
    #[arg(long)]
    pub ignore_errors: bool,
}

/// What there is to do with results.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Beside {
    /// Compares saved results.
    Compare(Comparison),
}

/// Requests per second, even or from one number to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// At the start of measuring.
    pub from: f64,
    /// At its end.
    pub to: f64,
}

impl Rate {
    /// The same throughout.
    #[must_use]
    pub fn even(rate: f64) -> Self {
        Rate { from: rate, to: rate }
    }

    /// Whether it is the same throughout.
    #[must_use]
    pub fn is_even(self) -> bool {
        self.from == self.to
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        Ok(Rate { from: rate(from)?, to: rate(to)? })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_even() {
            write!(out, "{}", self.from)
        } else {
            write!(out, "{}..{}", self.from, self.to)
        }
    }
}

impl Serialize for Rate {
    /// A number, or a text such as `1000..20000`.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_even() {
            serializer.serialize_f64(self.from)
        } else {
            serializer.collect_str(self)
        }
    }
}

/// How many reads go with how many writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Parts that read.
    pub gets: u32,
    /// Parts that write.
    pub sets: u32,
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once(':')
            .and_then(|(gets, sets)| {
                Some(Ratio { gets: gets.parse().ok()?, sets: sets.parse().ok()? })
            })
            .filter(|ratio| ratio.gets > 0 || ratio.sets > 0)
            .ok_or_else(|| "expected two numbers, such as 9:1".to_owned())
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.gets, self.sets)
    }
}

impl Serialize for Ratio {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn as_text<S: serde::Serializer>(value: &impl fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

fn as_optional_text<S: serde::Serializer>(
    value: &Option<impl fmt::Display>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(value),
        None => to.serialize_none(),
    }
}

fn as_texts<S: serde::Serializer>(values: &[impl fmt::Display], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(values.iter().map(ToString::to_string))
}

fn masked<S: serde::Serializer>(urls: &[String], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(urls.iter().map(|url| target::masked(url)))
}

fn positive<N: FromStr + Default + PartialEq>(text: &str) -> Result<N, String> {
    text.parse()
        .ok()
        .filter(|number| *number != N::default())
        .ok_or_else(|| "expected a number above 0".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|seconds| (0.0..=1e9).contains(seconds))
        .ok_or_else(|| "expected a number of seconds".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate| (1e-3..=1e9).contains(rate))
        .ok_or_else(|| "expected a number of requests per second".to_owned())
}
