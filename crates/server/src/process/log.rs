//! The log: one line for each event, to a stream or a file, with a level that can be changed.

use nagi_commands::config::LOG_LEVELS;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Where the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The standard error stream.
    Stderr,
    /// The standard output stream.
    Stdout,
    /// The end of a file.
    File(PathBuf),
}

/// Changes the level of this process's log.
type Change = Box<dyn Fn(LevelFilter) + Send + Sync>;
static CHANGE: OnceLock<Change> = OnceLock::new();

/// Starts to log events from a level on; `level` is an index into the values of `loglevel`.
///
/// # Errors
/// The file cannot be written.
pub fn begin(target: Target, level: u64) -> io::Result<()> {
    let is_terminal = match &target {
        Target::Stderr => io::stderr().is_terminal(),
        Target::Stdout => io::stdout().is_terminal(),
        Target::File(path) => {
            append(path)?;
            false
        }
    };
    let styled = is_terminal && std::env::var_os("NO_COLOR").is_none();
    let (filter, handle) = reload::Layer::new(filter(level));
    let log = tracing_subscriber::fmt().with_writer(target).with_ansi(styled).with_target(false);
    // Errors of the log itself would go to the standard error stream, with a panic if that is
    // closed too.
    let log = log.log_internal_errors(false);
    let log = log.with_max_level(LevelFilter::TRACE).finish().with(filter);
    // If the process has already set up a log, that log is used.
    if log.try_init().is_ok() {
        let change = move |filter| {
            // This fails only after the log is dropped, which never happens.
            let _ = handle.modify(|present| *present = filter);
        };
        let _ = CHANGE.set(Box::new(change));
    }
    Ok(())
}

/// Logs from another level on.
pub(crate) fn set_level(level: u64) {
    if let Some(change) = CHANGE.get() {
        change(filter(level));
    }
}

/// The filter for one of Redis' levels.
fn filter(level: u64) -> LevelFilter {
    let place = usize::try_from(level).unwrap_or(usize::MAX);
    match LOG_LEVELS.get(place) {
        Some(&"debug") => LevelFilter::TRACE,
        Some(&"verbose") => LevelFilter::DEBUG,
        Some(&"warning") => LevelFilter::WARN,
        Some(&"nothing") => LevelFilter::OFF,
        _ => LevelFilter::INFO,
    }
}

/// Opens the file again for each event, as Redis does, so that log rotation need not notify the
/// server.
fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

impl MakeWriter<'_> for Target {
    type Writer = Box<dyn io::Write>;

    fn make_writer(&self) -> Self::Writer {
        match self {
            Target::Stderr => Box::new(io::stderr()),
            Target::Stdout => Box::new(io::stdout()),
            Target::File(path) => match append(path) {
                Ok(file) => Box::new(file),
                // If the file can no longer be written, there is nowhere to report that.
                Err(_) => Box::new(io::sink()),
            },
        }
    }
}
