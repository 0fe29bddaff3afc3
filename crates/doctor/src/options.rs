//! The command line of `nagi doctor`.

use nagi_client::ring::ClientConfiguration;
use nagi_load::output::file_name;
use std::path::PathBuf;

/// Finds out what is wrong with a cache, and shows the evidence.
///
/// Run it on the application's host. It measures round trips, values of growing size and new
/// connections, and reads the server's statistics and, on the server's host, the kernel's. It only
/// reads, unless --probe-writes is given. The exit status is 0 if nothing is wrong, 1 if something
/// is, and 2 if a server could not be observed.
#[derive(Clone, Debug, clap::Args)]
pub struct DoctorOptions {
    /// Servers: HOST[:PORT], redis://[[user]:password@]host[:port], the same with memcached://, or
    /// unix:PATH.
    #[arg(value_name = "URL", default_value = "redis://127.0.0.1:6379")]
    pub urls: Vec<String>,
    /// File whose first line is the password for URLs without one [default: environment variable
    /// REDISCLI_AUTH].
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// How long to observe.
    #[arg(long, default_value_t = 20.0, value_name = "S", value_parser = seconds)]
    pub seconds: f64,
    /// Repeat until Ctrl-C.
    #[arg(long, conflicts_with_all = ["json", "html"])]
    pub watch: bool,
    /// Also store values in memcached, under random names that expire in a minute.
    #[arg(long)]
    pub probe_writes: bool,
    /// Watch the requests of all clients for 200 ms (MONITOR, or memcached's watch).
    #[arg(long)]
    pub sample_commands: bool,
    /// Compare on which servers two client configurations place keys, such as php-ketama and
    /// libmemcached,hash=md5; each may name its own servers after an @, such as php@kyoto,tokyo
    /// [default: those of the URLs].
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pub clients: Option<Vec<ClientConfiguration>>,
    /// Show keys in clear instead of hashes.
    #[arg(long)]
    pub show_keys: bool,
    /// Write all results as JSON to a file; - writes them to standard output instead of text.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write an HTML page, readable by its owner only.
    #[arg(long, value_name = "FILE", value_parser = file_name)]
    pub html: Option<PathBuf>,
    /// List all findings with their thresholds and reasons.
    #[arg(long)]
    pub list: bool,
    /// Show no progress on standard error.
    #[arg(long, short)]
    pub quiet: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|seconds| (0.5..=3600.0).contains(seconds));
    number.ok_or_else(|| "expected a number of seconds from 0.5 to 3600".to_owned())
}
