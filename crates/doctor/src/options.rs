//! The command line of `nagi doctor`.

use nagi_client::ring::ClientConfiguration;
use std::path::PathBuf;

/// Finds out what is wrong with a cache, and shows the evidence.
///
/// Measures from where it runs, which is best the application's host: round trips, values of
/// growing size, new connections, the server's own figures and, on the same host, the kernel's.
/// It reads only, unless --probe-writes is given. Ends with 0 if nothing is wrong, 1 if something
/// is, and 2 if it could not observe a server.
#[derive(Clone, Debug, clap::Args)]
pub struct DoctorOptions {
    /// Servers: HOST[:PORT], redis://[[user]:password@]host[:port], memcached://host[:port] or
    /// unix:PATH.
    #[arg(value_name = "URL", default_value = "redis://127.0.0.1:6379")]
    pub urls: Vec<String>,
    /// File whose first line is the password of RESP servers whose URL has none; without it the
    /// environment's REDISCLI_AUTH is.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// How long to observe.
    #[arg(long, default_value_t = 20.0, value_name = "S", value_parser = seconds)]
    pub seconds: f64,
    /// Observe again and again, until Ctrl-C.
    #[arg(long, conflicts_with_all = ["json", "html"])]
    pub watch: bool,
    /// Send values to memcached as well, under random names of its own that expire in a minute.
    #[arg(long)]
    pub probe_writes: bool,
    /// Watch the requests of all clients for 200 ms (MONITOR, or memcached's watch).
    #[arg(long)]
    pub sample_commands: bool,
    /// Compare where two clients' configurations place keys, such as php-ketama and
    /// libmemcached,hash=md5; each may name servers of its own behind an @, such as
    /// php@kyoto,tokyo, or means those of the URLs.
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pub clients: Option<Vec<ClientConfiguration>>,
    /// Show keys as they are, instead of what stands for them.
    #[arg(long)]
    pub show_keys: bool,
    /// Write everything as JSON to a file, or with - to standard output in place of the text.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page, which only you may read.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Show what is looked at, with the thresholds and their reasons, and end.
    #[arg(long)]
    pub list: bool,
    /// No progress on standard error.
    #[arg(long, short)]
    pub quiet: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|seconds| (0.5..=3600.0).contains(seconds));
    number.ok_or_else(|| "expected a number of seconds from 0.5 to 3600".to_owned())
}
