//! `nagi check-rdb` and `nagi rdb-stats`: their options and output.

use clap::{Args, ValueEnum};
use nagi_load::clock::unix_ms;
use nagi_load::output::print;
use nagi_persist::inspect::{self, Grouping};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Checks that an RDB file can be read to its end
///
/// Prints what the file contains, and the byte offset of an error. The exit status is 0 if there is
/// none. Files of Redis up to 8.0 and of Valkey up to 9.1 are supported, with values of every type.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The file
    file: PathBuf,
}

/// Shows what an RDB file contains, and what takes the most space
///
/// Sums by type, database, expiry and key prefix, and the biggest keys. Sizes are the bytes of keys
/// and elements before compression, without a server's overhead in memory.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// The file
    file: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// How many of the biggest keys and prefixes to show
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
    /// Character that ends a part of a key
    #[arg(long, default_value_t = ':', value_name = "CHARACTER", value_parser = separator)]
    separator: char,
    /// Number of parts in a prefix
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = depth)]
    depth: usize,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// Tables for people
    #[default]
    Text,
    /// One object
    Json,
    /// One table, whose first line names the columns
    Csv,
}

fn separator(text: &str) -> Result<char, String> {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) if letter.is_ascii() => Ok(letter),
        _ => Err("must be one ASCII character".to_owned()),
    }
}

fn depth(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|depth| *depth > 0).ok_or("must be 1 or more".to_owned())
}

/// Checks a file. The exit status tells whether it is intact.
pub(crate) fn check(options: &Check) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (file, mut progress) = open(&options.file)?;
    let checking = inspect::check(file, unix_ms(), &mut |bytes, keys| progress.show(bytes, keys));
    progress.clear();
    print_text(&format!("[offset 0] Checking {}\n{checking}", options.file.display()))?;
    Ok(if checking.fault.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks a file with a command line of redis-check-rdb.
pub(crate) fn redis_check_rdb(words: &[String]) -> Result<ExitCode, Box<dyn std::error::Error>> {
    match words {
        [option] if matches!(option.as_str(), "-v" | "--version") => {
            writeln!(io::stdout(), "nagi {}", env!("CARGO_PKG_VERSION"))?;
            Ok(ExitCode::SUCCESS)
        }
        [file] if !file.starts_with("--") => check(&Check { file: file.into() }),
        _ => Err("usage: redis-check-rdb FILE".into()),
    }
}

/// Prints statistics of a file's contents.
pub(crate) fn stats(options: &Stats) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (file, mut progress) = open(&options.file)?;
    let grouping = Grouping {
        top: options.top,
        separator: u8::try_from(options.separator)?,
        depth: options.depth,
        now_ms: unix_ms(),
    };
    let stats = inspect::stats(file, grouping, &mut |bytes, keys| progress.show(bytes, keys));
    progress.clear();
    let stats = stats.map_err(|fault| format!("{}: {fault}", options.file.display()))?;
    print_text(&match options.format {
        Format::Text => stats.to_string(),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&stats)?),
        Format::Csv => stats.csv(),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn print_text(text: &str) -> io::Result<()> {
    print(text.as_bytes())
}

fn open(path: &Path) -> Result<(File, Progress), String> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let total_bytes = file.metadata().map_or(0, |metadata| metadata.len());
    Ok((file, Progress::new(total_bytes)))
}

/// The progress line on a terminal.
struct Progress {
    total_bytes: u64,
    began: Instant,
    shown: Instant,
    is_watched: bool,
    is_there: bool,
}

impl Progress {
    /// How often the line changes.
    const PERIOD: Duration = Duration::from_millis(200);

    fn new(total_bytes: u64) -> Self {
        let now = Instant::now();
        let is_watched = io::stderr().is_terminal();
        Progress { total_bytes, began: now, shown: now, is_watched, is_there: false }
    }

    fn show(&mut self, bytes: u64, keys: u64) {
        if !self.is_watched || self.shown.elapsed() < Self::PERIOD {
            return;
        }
        self.shown = Instant::now();
        self.is_there = true;
        let line = line(bytes, self.total_bytes, keys, self.began.elapsed());
        // A failure to write the progress is ignored.
        let _ = write!(io::stderr(), "\r{line}\x1b[K");
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_there) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(bytes: u64, total_bytes: u64, keys: u64, elapsed: Duration) -> String {
    let rate = bytes as f64 / elapsed.as_secs_f64().max(1e-3);
    let percent = 100.0 * bytes as f64 / total_bytes.max(1) as f64;
    let left = total_bytes.saturating_sub(bytes) as f64 / rate.max(1.0);
    format!("{percent:.0} %, {keys} keys, {:.0} MB/s, {left:.0} s left", rate / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_how_far_it_is() {
        let said = line(1_000_000_000, 4_000_000_000, 12_345, Duration::from_secs(2));
        assert_eq!(said, "25 %, 12345 keys, 500 MB/s, 6 s left");
    }

    #[test]
    fn what_separates_and_how_deep() {
        assert_eq!(separator("/"), Ok('/'));
        assert!(separator("::").is_err() && separator("").is_err() && separator("\u{e9}").is_err());
        assert_eq!(depth("2"), Ok(2));
        assert!(depth("0").is_err() && depth("x").is_err());
    }
}
