//! The command line of `nagi bench`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use super::keys::Distribution;

/// Measures a Redis or memcached server under load.
///
/// By default each connection sends its next requests once the last ones are answered (a closed
/// loop), so a server that stalls is asked less and its stall shows in few requests only. With
/// --rate requests are due at fixed times and timed from then on, sent or not, so that a stall
/// shows in every request that it held up.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct BenchOptions {
    /// Host name or address of the server.
    #[arg(long, default_value = "127.0.0.1", value_name = "NAME")]
    pub host: String,
    /// Port of the server [default: 6379, or 11211 for memcached].
    #[arg(long, short, value_name = "N")]
    pub port: Option<u16>,
    /// Unix socket of the server, instead of a host and port.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port"])]
    pub unix: Option<PathBuf>,
    /// What the server speaks.
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
    /// Requests per second over all connections, due at even intervals; without it, as many as
    /// the server answers.
    #[arg(long, value_name = "N", value_parser = rate)]
    pub rate: Option<f64>,

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
    /// Keys that requests ask for.
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = positive::<u64>)]
    pub keys: u64,
    /// How requests spread over the keys: uniform, zipf:EXPONENT or sequential.
    #[arg(long, default_value = "uniform", value_name = "NAME")]
    #[serde(serialize_with = "as_text")]
    pub key_distribution: Distribution,
    /// Length of a key.
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = positive::<usize>)]
    pub key_bytes: usize,
    /// Length of a value.
    #[arg(long, short = 'd', default_value_t = 32, value_name = "N")]
    pub value_bytes: usize,
    /// Write every key once before anything else.
    #[arg(long)]
    pub fill: bool,
    /// Seed of everything random [default: drawn, and reported].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Write the report as JSON to a file, or with - to standard output in place of the text.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
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

/// What a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Redis' protocol.
    #[default]
    Resp,
    /// memcached's classic text protocol.
    Memcached,
}

impl Protocol {
    /// The port that servers of the protocol listen on.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Protocol::Resp => 6379,
            Protocol::Memcached => 11211,
        }
    }
}

impl From<Protocol> for nagi_client::Protocol {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Resp => nagi_client::Protocol::Resp,
            Protocol::Memcached => nagi_client::Protocol::Memcached,
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
