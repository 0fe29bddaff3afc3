//! Describes the machine on which a measurement was made.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::{process, workspace};

/// The settings of all servers. Benchmarks change at most the number of workers, and say so.
pub(super) const SETTINGS: &str = "default settings";

/// Describes the machine, the code and the command, so that the run can be repeated.
pub(super) fn describe() -> Value {
    let load_average = load_average();
    if load_average > 0.5 {
        println!("bench: the machine is busy (load average {load_average}); figures will be off");
    }
    json!({
        "date": date(),
        "command": command(),
        "revision": revision(),
        "settings": SETTINGS,
        "cpu": field("/proc/cpuinfo", "model name"),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": field("/proc/meminfo", "MemTotal"),
        "load_average_before": load_average,
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
    })
}

/// Returns today's date in the form 2026-11-21.
fn date() -> String {
    trimmed(Command::new("date").args(["-u", "+%F"]))
}

/// Returns the average number of runnable processes over the last minute.
fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

fn command() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    format!("cargo xtask {}", arguments.join(" "))
}

/// Returns the commit, with a mark if the working tree differs from it in files that benchmarks do
/// not write.
pub(super) fn revision() -> String {
    let git = |arguments: &[&str]| {
        trimmed(Command::new("git").args(arguments).current_dir(workspace::root()))
    };
    let commit = git(&["describe", "--always", "--exclude", "*"]);
    let written = [":!bench/results", ":!docs", ":!README.md"];
    let status = ["status", "--porcelain", "--untracked-files=no", "--", "."];
    let changes = git(&[&status[..], &written].concat());
    if changes.is_empty() { commit } else { format!("{commit}-dirty") }
}

fn trimmed(command: &mut Command) -> String {
    process::output(command).unwrap_or_default().trim().to_owned()
}

/// Returns the value of the first line `name: value` of a file.
fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_once(':').map_or("", |(_, value)| value).trim().to_owned()
}
