//! The command line of `nagi calm`.

use std::path::PathBuf;

use super::disturbances;
use super::scale::Scale;
use crate::output::file_name;
use crate::target;

/// Measures the latency of servers while they are disturbed.
///
/// Small requests at even intervals are timed during one disturbance after another: saves, huge
/// values, flushes, storms of connections and more. The latencies are shown next to those of a
/// quiet phase. A server that holds data, replicates, is part of a cluster or is not on loopback is
/// refused unless --i-may-destroy-data is given.
#[derive(Clone, Debug, clap::Args)]
pub struct CalmOptions {
    /// Servers: HOST[:PORT], redis://[[user]:password@]host[:port], the same with memcached://, or
    /// unix:PATH.
    #[arg(required_unless_present = "list", value_name = "URL")]
    pub urls: Vec<String>,
    /// File whose first line is the password for URLs without one [default: environment variable
    /// REDISCLI_AUTH].
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Allow the loss of all data on these servers, temporary changes of their settings,
    /// overwritten dump files and locked-out clients.
    #[arg(long)]
    pub i_may_destroy_data: bool,
    /// Run only these disturbances, separated by commas; --list shows their names.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = name)]
    pub only: Vec<String>,
    /// Run with smaller sizes and shorter steps, to see that it works.
    #[arg(long)]
    pub quick: bool,
    /// List the disturbances and the memory that each needs.
    #[arg(long)]
    pub list: bool,

    /// Requests per second of the probe.
    #[arg(long, default_value_t = 5000.0, value_name = "N", value_parser = rate)]
    pub rate: f64,
    /// Connections of the probe.
    #[arg(long, default_value_t = 8, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub connections: u32,
    /// Most attempts to measure the quiet phase or a disturbance if the result is void.
    #[arg(long, default_value_t = 3, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub attempts: u32,
    /// Length of the quiet phase [default: 60, or 3 with --quick].
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub quiet_seconds: Option<f64>,
    /// Shortest length of a disturbance [default: 5, or 1 with --quick].
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub step_seconds: Option<f64>,

    /// Write all results as JSON to a file; - writes them to standard output instead of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write an HTML page that compares the servers.
    #[arg(long, value_name = "FILE", value_parser = file_name)]
    pub html: Option<PathBuf>,
    /// Show no progress on standard error.
    #[arg(long, short)]
    pub quiet: bool,
}

impl CalmOptions {
    pub(crate) fn scale(&self) -> Scale {
        let usual = if self.quick { Scale::QUICK } else { Scale::FULL };
        Scale {
            quiet_seconds: self.quiet_seconds.unwrap_or(usual.quiet_seconds),
            step_seconds: self.step_seconds.unwrap_or(usual.step_seconds),
            ..usual
        }
    }

    pub(crate) fn includes(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// The password of servers whose URL has none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn password(&self) -> Result<Option<String>, String> {
        target::read_password(self.password_file.as_deref())
    }
}

fn name(text: &str) -> Result<String, String> {
    match disturbances::all().find(|row| row.name == text) {
        Some(row) => Ok(row.name.to_owned()),
        None => {
            let names: Vec<&str> = disturbances::all().map(|row| row.name).collect();
            Err(format!("there are {}", names.join(", ")))
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    number.ok_or_else(|| "expected a number of seconds from 0.1 to 86,400".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|rate| (1.0..=1e6).contains(rate));
    number.ok_or_else(|| "expected a number of requests per second from 1 to 1,000,000".to_owned())
}
