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
use crate::output::file_name;
use crate::pace::Arrivals;
use crate::target;

/// Measures a Redis or memcached server under load.
///
/// By default each connection sends its next requests when the previous ones are answered (a closed
/// loop), so a server that stalls receives fewer requests and the stall shows in only a few of
/// them. With --rate requests are due at fixed times and are timed from then on, sent or not, so
/// that a stall shows in every request that it delayed.
#[derive(Clone, Debug, Serialize, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchOptions {
    /// Work on saved results instead of measuring.
    #[command(subcommand)]
    #[serde(skip)]
    pub beside: Option<Beside>,
    /// Servers: HOST[:PORT], redis://[[user]:password@]host[:port][/database],
    /// memcached://[[user]:password@]host[:port], http://[user:password@]host[:port] (nagi's
    /// gateway) or unix:PATH.
    /// Several of one kind form a ring: each connection is then one to every server.
    #[arg(value_name = "URL", conflicts_with_all = ["host", "port", "unix"])]
    #[serde(serialize_with = "masked")]
    pub urls: Vec<String>,
    /// How keys are distributed over a ring, such as php-ketama; `nagi client --help` lists the
    /// names. With redis-cluster one server is enough: the others and their slots are read from it.
    #[arg(long, default_value = "libmemcached", value_name = "LIBRARY")]
    #[serde(serialize_with = "as_text")]
    pub like: Configuration,
    /// File whose first line is the password for URLs without one [default: environment variable
    /// REDISCLI_AUTH].
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
    /// Protocol of the server; only for --host, --unix and unix: URLs.
    #[arg(long, value_enum, default_value_t)]
    pub protocol: Protocol,

    /// Connections, over all threads.
    #[arg(long, short, default_value_t = 50, value_name = "N", value_parser = positive::<u32>)]
    pub connections: u32,
    /// Threads that send the requests.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = positive::<u32>)]
    pub threads: u32,
    /// Requests in flight on each connection.
    #[arg(long, short = 'P', default_value_t = 1, value_name = "N", value_parser = positive::<u32>)]
    pub pipeline: u32,
    /// Requests per second over all connections (an open loop), or N..M for a rate that rises or
    /// falls evenly while measuring; without it, as many as the server answers (a closed loop).
    #[arg(long, value_name = "N")]
    pub rate: Option<Rate>,
    /// When the requests of an open loop are due: at even intervals, or at random as from many
    /// users.
    #[arg(long, value_enum, default_value_t)]
    pub arrivals: Arrivals,
    /// Find the highest rate at which a percentile stays below a limit, such as p99.9<2ms or
    /// max<50ms, by trials of --seconds each; with --rate, check that rate only. The exit status is
    /// 3 if the limit is not kept.
    #[arg(long, value_name = "PERCENTILE<TIME")]
    pub slo: Option<Slo>,
    /// Lowest rate for --slo: the search begins there and goes no lower, and the exit status is 3
    /// if even this rate fails.
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "slo",
        conflicts_with = "rate")]
    pub slo_at_least: Option<f64>,
    /// Reopen a connection after this many requests; the time to connect is part of their latency.
    #[arg(long, value_name = "N", value_parser = positive::<u64>)]
    pub reconnect_every: Option<u64>,

    /// Measure once for each value of an option and show the results in one table:
    /// rate=1000,2000,4000, or values of connections, pipeline, threads or value-bytes.
    #[arg(long, value_name = "OPTION=VALUE,...", conflicts_with_all = ["hdr_log", "percentiles"])]
    pub sweep: Option<Sweep>,

    /// Requests to measure [default: as many as fit into --seconds].
    #[arg(long, short = 'n', value_name = "N", value_parser = positive::<u64>)]
    pub requests: Option<u64>,
    /// Time to measure for [default: 10, without --requests].
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Time to run before measuring.
    #[arg(long, default_value_t = 0.0, value_name = "S", value_parser = seconds)]
    pub warmup_seconds: f64,
    /// Start a BGSAVE so long after measuring has begun, and report the time before, during and
    /// after it separately; without --seconds and --requests the run ends as long after the save.
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub bgsave_after_seconds: Option<f64>,
    /// How long to wait for outstanding replies at the end, or with --requests for any reply.
    #[arg(long, default_value_t = 10.0, value_name = "S", value_parser = seconds)]
    pub reply_timeout_seconds: f64,

    /// Ratio of reads to writes.
    #[arg(long, default_value = "1:1", value_name = "GET:SET")]
    pub ratio: Ratio,
    /// Keys per read: MGET, or get with several keys. In a ring, each server concerned is asked for
    /// its keys, and the read ends with the last answer.
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub multi_get: u64,
    /// Send this command instead of reads and writes, with {key}, {value}, {value:SIZES} and
    /// {number:A-B} replaced and an optional weight, such as '3:HSET h:{key} f {value:100}'. May be
    /// given several times.
    #[arg(long, value_name = "[WEIGHT:]COMMAND", conflicts_with_all = ["ratio", "multi_get"])]
    #[serde(serialize_with = "as_texts")]
    pub command: Vec<Command>,
    /// Replay a trace, CSV in the format of Twitter's cache traces, and repeat it as needed;
    /// without --requests and --seconds it is replayed once.
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["command", "ratio", "multi_get", "fill", "keys", "key_file",
            "key_distribution", "ttl", "value_bytes"])]
    pub trace: Option<PathBuf>,
    /// Store a hash of the key, a version and a checksum in each value, and check every reply:
    /// damaged values, values of other keys, stale values and replies of the wrong type fail the
    /// run. Nothing else may write the keys meanwhile.
    #[arg(long, conflicts_with_all = ["multi_get", "command"])]
    pub verify: bool,
    /// How long an overwritten value may still be read, as from replicas.
    #[arg(long, default_value_t = 0, value_name = "MS", requires = "verify",
        value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    pub verify_stale_ms: u64,
    /// Number of keys.
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = positive::<u64>)]
    pub keys: u64,
    /// Distribution of requests over the keys: uniform, zipf:EXPONENT, hot:SHARE:REQUESTS (such
    /// as hot:0.1:0.9) or sequential.
    #[arg(long, default_value = "uniform", value_name = "NAME")]
    #[serde(serialize_with = "as_text")]
    pub key_distribution: Distribution,
    /// File of keys, one per line, instead of numbered keys.
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
    /// Time to live of written values, or a range such as 60-600.
    #[arg(long, value_name = "S")]
    #[serde(serialize_with = "as_optional_text")]
    pub ttl: Option<Ttl>,
    /// Write every key once before measuring.
    #[arg(long)]
    pub fill: bool,
    /// Random seed [default: random, and reported].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Write the report as JSON to a file; - writes it to standard output instead of text.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as a self-contained HTML page with plots.
    #[arg(long, value_name = "FILE", value_parser = file_name)]
    pub html: Option<PathBuf>,
    /// Write the latencies of each second as an HdrHistogram log (V2), in nanoseconds.
    #[arg(long, value_name = "FILE", value_parser = file_name)]
    pub hdr_log: Option<PathBuf>,
    /// Write the percentile distribution in milliseconds, for HdrHistogram's plotter.
    #[arg(long, value_name = "FILE", value_parser = file_name)]
    pub percentiles: Option<PathBuf>,
    /// Report each second on standard error even if it is not a terminal.
    #[arg(long)]
    pub timeline: bool,
    /// Print only failures on standard error, and no report if --json names a file.
    #[arg(long, short, conflicts_with = "timeline")]
    pub quiet: bool,
    /// Exit with status 0 in spite of errors; they are still reported.
    #[arg(long)]
    pub ignore_errors: bool,
}

/// Subcommands for saved results.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Beside {
    /// Compares saved results.
    Compare(Comparison),
}

/// Requests per second, constant or from one value to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The rate at the start of measuring.
    pub from: f64,
    /// The rate at the end of measuring.
    pub to: f64,
}

impl Rate {
    /// A constant rate.
    #[must_use]
    pub fn even(rate: f64) -> Self {
        Rate { from: rate, to: rate }
    }

    /// Whether the rate is constant.
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
    /// Serializes a constant rate as a number, and a changing one as text such as `1000..20000`.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_even() {
            serializer.serialize_f64(self.from)
        } else {
            serializer.collect_str(self)
        }
    }
}

/// The ratio of reads to writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// The share of reads.
    pub gets: u32,
    /// The share of writes.
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
