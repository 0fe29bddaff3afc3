//! The command line of `nagi top`.

use std::path::PathBuf;

/// Shows what a server does, once a second: requests, memory, commands, clients, slow requests.
///
/// The data come from INFO, CLIENT LIST, SLOWLOG and LATENCY of nagi, Redis and Valkey, or from
/// memcached's stats. Without a terminal it prints one view and exits.
#[derive(Clone, Debug, clap::Args)]
pub struct TopOptions {
    /// The server: HOST[:PORT], redis://[[user]:password@]host[:port], the same with memcached://,
    /// or unix:PATH.
    #[arg(value_name = "URL", default_value = "redis://127.0.0.1:6379")]
    pub url: String,
    /// File whose first line is the password, if the URL has none [default: environment variable
    /// REDISCLI_AUTH].
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Seconds between two samples.
    #[arg(long, short, default_value_t = 1.0, value_name = "S", value_parser = seconds)]
    pub interval: f64,
    /// Column that clients are sorted by.
    #[arg(long, short, value_enum, default_value_t = Sort::Requests)]
    pub sort: Sort,
    /// Print one view and exit.
    #[arg(long)]
    pub once: bool,
}

/// The order of clients, the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// Requests a second.
    #[default]
    Requests,
    /// Bytes a second, both ways.
    Bytes,
    /// Memory.
    Memory,
    /// Seconds since they last sent something.
    Idle,
    /// Seconds since they connected.
    Age,
}

impl Sort {
    /// The next order; the first after the last.
    pub(crate) fn next(self) -> Self {
        match self {
            Sort::Requests => Sort::Bytes,
            Sort::Bytes => Sort::Memory,
            Sort::Memory => Sort::Idle,
            Sort::Idle => Sort::Age,
            Sort::Age => Sort::Requests,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Sort::Requests => "requests/s",
            Sort::Bytes => "bytes/s",
            Sort::Memory => "memory",
            Sort::Idle => "idle",
            Sort::Age => "age",
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    number.ok_or_else(|| "expected a number of seconds from 0.1 to 3600".to_owned())
}
